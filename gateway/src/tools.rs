//! `hangar-gateway tools diff|reset`: first-use pins, looked at and forgotten beside a running gateway.

mod show;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use hangar_ledger::ToolDigest;
use hangar_relay::contract::{self, Change, Listing, Tools as List};
use hangar_relay::json::Members;
use hangar_store::{Kept, Known, PinBook, PinScope};
use hangar_wire::Sha256Hex;
use serde_json::value::RawValue;

use crate::args::{PinsOf, StoreUrl, Tools, UpstreamName};

/// One tool beside its pin.
#[derive(Debug)]
struct Compared {
    pinned: Option<Seen>,
    now: Option<Seen>,
    /// Where there are two contracts.
    changes: Vec<Change>,
}

/// A contract, and when it was seen.
#[derive(Clone, Copy, Debug)]
struct Seen {
    digest: ToolDigest,
    /// None: it is from a file.
    at_ms: Option<u64>,
}

/// By upstream and tool, what differs alone.
type Differences = BTreeMap<PinScope, BTreeMap<String, Compared>>;

pub(crate) fn run(command: Tools) -> ExitCode {
    let result = match command {
        Tools::Diff {
            pins,
            upstream,
            tool,
            list,
        } => diff(&pins, upstream.as_ref(), tool.as_deref(), list.as_deref()),
        Tools::Reset {
            pins,
            upstream,
            tool,
        } => reset(&pins, &upstream, tool.as_deref()),
    };
    result.unwrap_or_else(|error| {
        let _ = writeln!(io::stderr(), "error: {error:#}");
        ExitCode::from(2)
    })
}

fn diff(
    pins: &PinsOf,
    upstream: Option<&UpstreamName>,
    tool: Option<&str>,
    list: Option<&Path>,
) -> anyhow::Result<ExitCode> {
    let PinsOf { store, class } = pins;
    let StoreUrl(path) = store;
    let list = list.map(read_list).transpose()?;
    let mut book = open(path)?
        .read(class)
        .with_context(|| format!("pins of {} cannot be read", path.display()))?;
    if let Some(upstream) = upstream {
        let scope = scope(class, upstream);
        let known = book.remove(&scope).unwrap_or_default();
        let is_known = |tool: &str| known.contains_key(tool);
        if known.is_empty() || tool.is_some_and(|tool| !is_known(tool)) {
            bail!(unknown(&scope, tool));
        }
        book = BTreeMap::from([(scope, known)]);
    }
    let mut differences = Differences::new();
    let mut pinned = 0;
    for (scope, tools) in book {
        let mut named = tools;
        if let Some(list) = &list {
            replace(&mut named, list);
        }
        named.retain(|name, _| tool.is_none_or(|tool| tool == name));
        for (name, known) in named {
            pinned += usize::from(known.pinned.is_some());
            let compared = compare(
                &known,
                list.as_deref().map(|list| list.get(&name).is_some()),
            );
            let compared = compared.with_context(|| {
                let name = show::quoted(&name);
                format!("tool {name} of {}", show::upstream(&scope))
            })?;
            if let Some(compared) = compared {
                let tools = differences.entry(scope.clone()).or_default();
                tools.insert(name, compared);
            }
        }
    }
    show::print(&mut io::stdout().lock(), &differences, pinned)?;
    Ok(ExitCode::from(u8::from(!differences.is_empty())))
}

fn reset(pins: &PinsOf, upstream: &UpstreamName, tool: Option<&str>) -> anyhow::Result<ExitCode> {
    let PinsOf { store, class } = pins;
    let StoreUrl(path) = store;
    let scope = scope(class, upstream);
    let forgotten = open(path)?
        .forget(&scope, tool)
        .with_context(|| format!("pins of {} cannot be reset", path.display()))?;
    if !forgotten {
        writeln!(io::stderr(), "error: {}", unknown(&scope, tool))?;
        return Ok(ExitCode::from(1));
    }
    let mut out = io::stdout().lock();
    let of = show::upstream(&scope);
    match tool {
        Some(tool) => writeln!(out, "forgotten: tool {} of {of}", show::quoted(tool))?,
        None => writeln!(out, "forgotten: all tools of {of}")?,
    }
    writeln!(
        out,
        "the contract that is seen next is pinned; a running gateway notices within a second"
    )?;
    Ok(ExitCode::SUCCESS)
}

fn open(path: &Path) -> anyhow::Result<PinBook> {
    PinBook::open(path).with_context(|| format!("ledger {} cannot be opened", path.display()))
}

fn scope(class: &str, upstream: &UpstreamName) -> PinScope {
    PinScope {
        class: class.to_owned(),
        namespace: upstream.namespace.clone(),
        name: upstream.name.clone(),
    }
}

fn unknown(scope: &PinScope, tool: Option<&str>) -> String {
    let what = match tool {
        Some(tool) => format!("of the tool {} ", show::quoted(tool)),
        None => String::new(),
    };
    format!(
        "nothing is pinned {what}of {} in the class {}: check the names and --class; `tools diff` \
         without a name shows every upstream whose tools differ",
        show::upstream(scope),
        show::quoted(&scope.class)
    )
}

/// Reads a result of `tools/list`, or the whole response around it.
fn read_list(path: &Path) -> anyhow::Result<Arc<List>> {
    let what = || format!("--list {}", path.display());
    let text = std::fs::read_to_string(path).with_context(what)?;
    let text: Box<RawValue> =
        serde_json::from_str(&text).with_context(|| format!("{} is not JSON", what()))?;
    let members = Members::of(&text).with_context(what)?;
    let result = members.get("result").unwrap_or(&text);
    let mut list = Listing::default();
    let next = list.push(result).with_context(|| {
        format!(
            "{} is no result of tools/list: give an object with `tools`",
            what()
        )
    })?;
    if next.is_some() {
        bail!(
            "{} is one page of several: put the `tools` of all pages into one",
            what()
        );
    }
    Ok(list.finish())
}

/// Takes this list for what was seen last.
fn replace(tools: &mut BTreeMap<String, Known>, list: &List) {
    for known in tools.values_mut() {
        known.other = None;
    }
    for tool in list.iter() {
        let known = tools.entry(tool.name.clone()).or_default();
        known.other = Some(Kept {
            digest: ToolDigest(tool.digest),
            contract: tool.raw.get().as_bytes().to_vec(),
            at: hangar_ledger::Millis(0),
        });
    }
}

/// What differs of one tool; none: it is as pinned. `listed` is whether the given list has it.
fn compare(known: &Known, listed: Option<bool>) -> anyhow::Result<Option<Compared>> {
    let seen = |kept: &Kept, is_of_file: bool| Seen {
        digest: kept.digest,
        at_ms: (!is_of_file).then_some(kept.at.0),
    };
    let pinned = known.pinned.as_ref();
    let other = known.other.as_ref();
    let is_gone = listed == Some(false);
    let changes = match (pinned, other) {
        (Some(pinned), Some(other)) => contract::diff(&read(pinned)?, &read(other)?)?,
        _ => Vec::new(),
    };
    let is_equal = match (pinned, other) {
        (Some(pinned), Some(other)) => pinned.digest == other.digest,
        (Some(_), None) => !is_gone,
        (None, Some(_)) => false,
        (None, None) => true,
    };
    Ok((!is_equal).then(|| Compared {
        pinned: pinned.map(|kept| seen(kept, false)),
        now: other.map(|kept| seen(kept, listed.is_some())),
        changes,
    }))
}

/// The contract that is kept, which must be the one of its digest.
fn read(kept: &Kept) -> anyhow::Result<Box<RawValue>> {
    let damaged = "the contract in the store is not the one of its digest: the store was damaged or \
                   written by something else; reset this tool";
    let text = String::from_utf8(kept.contract.clone()).context(damaged)?;
    let raw = RawValue::from_string(text).context(damaged)?;
    let canonical = contract::canonical(&raw).context(damaged)?;
    if ToolDigest(Sha256Hex::of(&canonical)) != kept.digest {
        bail!(damaged);
    }
    Ok(raw)
}

#[cfg(test)]
mod tests;
