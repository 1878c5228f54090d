//! How differences are printed.
//!
//! Names and contracts are an upstream's, and are read by somebody who decides about them at a
//! terminal: nothing that moves a cursor, turns text around or does not show is printed as it is.

use std::fmt::Write as _;
use std::io::{self, Write};

use hangar_relay::contract::{Change, What};
use hangar_store::PinScope;

use super::{Compared, Differences, Seen};

/// All differences, and a last line that sums them up.
pub(super) fn print(
    out: &mut impl Write,
    differences: &Differences,
    pinned: usize,
) -> io::Result<()> {
    let mut tools = 0;
    for (scope, differing) in differences {
        writeln!(out, "{}", upstream(scope))?;
        tools += differing.len();
        for (name, compared) in differing {
            one(out, name, compared)?;
        }
    }
    match tools {
        0 => writeln!(out, "no tool differs from its pin ({pinned} pinned)"),
        1 => writeln!(out, "1 tool differs from its pin ({pinned} pinned)"),
        _ => writeln!(
            out,
            "{tools} tools differ from their pins ({pinned} pinned)"
        ),
    }
}

/// `namespace/name`.
pub(super) fn upstream(scope: &PinScope) -> String {
    format!("{}/{}", visible(&scope.namespace), visible(&scope.name))
}

/// A name in quotes.
pub(super) fn quoted(text: &str) -> String {
    let text = serde_json::Value::from(text).to_string();
    visible(&text)
}

fn one(out: &mut impl Write, name: &str, compared: &Compared) -> io::Result<()> {
    let Compared {
        pinned,
        now,
        changes,
    } = compared;
    let name = quoted(name);
    match (pinned, now) {
        (Some(pinned), Some(now)) => {
            writeln!(out, "  {name} drifted")?;
            writeln!(out, "    pinned {}", seen(pinned))?;
            writeln!(out, "    now    {}", seen(now))?;
        }
        (None, Some(now)) => {
            writeln!(out, "  {name} is not pinned")?;
            writeln!(out, "    now    {}", seen(now))?;
        }
        (Some(pinned), None) => {
            writeln!(out, "  {name} is not listed")?;
            writeln!(out, "    pinned {}", seen(pinned))?;
        }
        (None, None) => {}
    }
    for Change { path, what } in changes {
        let path = quoted(path);
        match what {
            What::Added(value) => {
                writeln!(out, "    added {path}")?;
                writeln!(out, "      + {}", visible(value))?;
            }
            What::Removed(value) => {
                writeln!(out, "    removed {path}")?;
                writeln!(out, "      - {}", visible(value))?;
            }
            What::Changed { from, to } => {
                writeln!(out, "    changed {path}")?;
                writeln!(out, "      - {}", visible(from))?;
                writeln!(out, "      + {}", visible(to))?;
            }
        }
    }
    Ok(())
}

fn seen(seen: &Seen) -> String {
    let Seen { digest, at_ms } = seen;
    let digest = digest.0;
    let Some(at_ms) = at_ms else {
        return format!("{digest}, from the file");
    };
    let at = i64::try_from(*at_ms).ok();
    let at = at.and_then(|at| jiff::Timestamp::from_millisecond(at).ok());
    match at {
        Some(at) => format!("{digest}, seen {at}"),
        None => digest.to_string(),
    }
}

/// The text with everything escaped, as JSON does it, that is neither plain ASCII nor a letter or digit.
fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c == ' ' || c.is_ascii_graphic() || (!c.is_ascii() && c.is_alphanumeric()) {
            out.push(c);
            continue;
        }
        let mut units = [0; 2];
        for unit in c.encode_utf16(&mut units) {
            // Writing to a string cannot fail.
            let _ = write!(out, "\\u{unit:04x}");
        }
    }
    out
}
