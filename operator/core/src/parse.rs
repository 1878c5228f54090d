//! Leaves of validation: each reads one value and says in words what is wrong with it.
//!
//! All of this stands in the schema too. It is checked again because rules of an API server
//! can be bypassed, and because a folder of manifests has no API server.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::RangeInclusive;

use globset::{Glob, GlobSetBuilder};
use http::Uri;

use crate::reason::{Reason, Refusal};

/// Milliseconds in the largest unit that divides them.
struct Span(u64);

/// Most entries in a list of globs.
const MAX_GLOBS: usize = 256;
/// Longest glob, in bytes.
const MAX_GLOB_BYTES: usize = 128;
/// Longest URL, in bytes.
const MAX_URL_BYTES: usize = 2048;
/// Longest duration or size as text, in bytes.
const MAX_NUMBER_BYTES: usize = 64;
const NANOS_PER_MS: u128 = 1_000_000;

/// Milliseconds of a duration in Go's form, as `1h30m` or `1.5s`.
pub(crate) fn duration_ms(
    path: &str,
    text: &str,
    bounds: RangeInclusive<u64>,
) -> Result<u64, Refusal> {
    let ms = go_duration_nanos(text)
        .and_then(|nanos| u64::try_from(nanos / NANOS_PER_MS).ok())
        .ok_or_else(|| {
            Refusal::invalid(
                path,
                format_args!("`{}` is not a duration as 30s, 15m or 1h30m", shown(text)),
            )
        })?;
    if bounds.contains(&ms) {
        return Ok(ms);
    }
    let (low, high) = (bounds.start(), bounds.end());
    Err(Refusal::invalid(
        path,
        format_args!(
            "{text} is out of bounds, use {} to {}",
            Span(*low),
            Span(*high)
        ),
    ))
}

/// Bytes of a size, plain or with a binary suffix, as `16Mi`.
pub(crate) fn size_bytes(
    path: &str,
    text: &str,
    bounds: RangeInclusive<u64>,
) -> Result<u64, Refusal> {
    let bytes = quantity(text).ok_or_else(|| {
        Refusal::invalid(
            path,
            format_args!("`{}` is not a size as 512Ki, 16Mi or 1Gi", shown(text)),
        )
    })?;
    in_bounds(path, bytes, bounds)
}

/// A number within bounds.
pub(crate) fn in_bounds<T>(path: &str, value: T, bounds: RangeInclusive<T>) -> Result<T, Refusal>
where
    T: PartialOrd + fmt::Display,
{
    if bounds.contains(&value) {
        return Ok(value);
    }
    Err(Refusal::invalid(
        path,
        format_args!(
            "{value} is out of bounds, use {} to {}",
            bounds.start(),
            bounds.end()
        ),
    ))
}

/// A count within bounds, or its default.
pub(crate) fn count(
    path: &str,
    value: Option<i32>,
    default: u32,
    bounds: RangeInclusive<u32>,
) -> Result<u32, Refusal> {
    let Some(value) = value else {
        return Ok(default);
    };
    let count = u32::try_from(value)
        .map_err(|_| Refusal::invalid(path, format_args!("{value} must not be negative")))?;
    in_bounds(path, count, bounds)
}

/// A list or map with a bounded number of entries.
pub(crate) fn at_most(path: &str, count: usize, most: usize) -> Result<(), Refusal> {
    if count <= most {
        return Ok(());
    }
    Err(Refusal::invalid(
        path,
        format_args!("{count} entries, at most {most} are allowed"),
    ))
}

/// A non-empty string of bounded length without control characters.
pub(crate) fn text(path: &str, value: &str, most: usize) -> Result<(), Refusal> {
    if value.is_empty() {
        return Err(Refusal::invalid(path, "must not be empty"));
    }
    if value.len() > most {
        return Err(Refusal::invalid(
            path,
            format_args!("{} bytes long, at most {most} are allowed", value.len()),
        ));
    }
    if value.chars().any(char::is_control) {
        return Err(Refusal::invalid(path, "must not hold control characters"));
    }
    Ok(())
}

/// A DNS label (RFC 1123): what namespaces, Services and tenants are named.
pub(crate) fn dns_label(path: &str, value: &str) -> Result<(), Refusal> {
    text(path, value, 63)?;
    if is_label(value) {
        return Ok(());
    }
    Err(Refusal::invalid(
        path,
        format_args!(
            "`{value}` must be lower-case letters, digits and `-`, with a letter or digit at both ends"
        ),
    ))
}

/// A DNS subdomain (RFC 1123): what most objects are named.
pub(crate) fn object_name(path: &str, value: &str) -> Result<(), Refusal> {
    text(path, value, 253)?;
    if value.split('.').all(is_label) {
        return Ok(());
    }
    Err(Refusal::invalid(
        path,
        format_args!("`{value}` is not the name of an object"),
    ))
}

/// Refuses the second of two equal values; `path` gives the path of an index.
pub(crate) fn distinct<'a>(
    values: impl IntoIterator<Item = &'a str>,
    path: impl Fn(usize) -> String,
) -> Result<(), Refusal> {
    let mut seen = BTreeSet::new();
    for (index, value) in values.into_iter().enumerate() {
        if !seen.insert(value) {
            return Err(Refusal::invalid(
                path(index),
                format_args!("`{value}` stands here twice, remove one"),
            ));
        }
    }
    Ok(())
}

/// Globs over tool names, compiled here so that a gateway never meets a bad one.
pub(crate) fn globs(path: &str, globs: &[String]) -> Result<(), Refusal> {
    at_most(path, globs.len(), MAX_GLOBS)?;
    distinct(globs.iter().map(String::as_str), |i| format!("{path}[{i}]"))?;
    let mut set = GlobSetBuilder::new();
    for (index, glob) in globs.iter().enumerate() {
        text(&format!("{path}[{index}]"), glob, MAX_GLOB_BYTES)?;
        // The usual one; it always compiles.
        if glob == "*" {
            continue;
        }
        let parsed = Glob::new(glob).map_err(|error| {
            Refusal::new(
                Reason::InvalidGlob,
                format!("{path}[{index}]: `{glob}` is not a glob: {}", error.kind()),
            )
        })?;
        set.add(parsed);
    }
    set.build().map(drop).map_err(|error| {
        Refusal::new(
            Reason::InvalidGlob,
            format!("{path}: the globs do not compile: {}", error.kind()),
        )
    })
}

/// An absolute http or https URL without credentials and fragment. The text is not shown
/// where it could hold a password.
pub(crate) fn endpoint_url(path: &str, url: &str) -> Result<(), Refusal> {
    text(path, url, MAX_URL_BYTES)?;
    let refuse = |what: &str| Err(Refusal::invalid(path, what));
    let Some(rest) = url
        .strip_prefix("https://")
        .or_else(|| url.strip_prefix("http://"))
    else {
        return refuse("must start with http:// or https://");
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') {
        return refuse("must not hold credentials, they belong into a Secret");
    }
    if url.contains('#') {
        return refuse("must not have a fragment, remove `#` and what follows");
    }
    let Ok(uri) = url.parse::<Uri>() else {
        return refuse("is not a URL");
    };
    match uri.authority() {
        Some(authority) if !authority.host().is_empty() => {
            let port = &authority.as_str()[authority.host().len()..];
            let port = port.strip_prefix(':').unwrap_or("80");
            if port.parse::<u16>().is_ok_and(|port| port != 0) {
                Ok(())
            } else {
                refuse("must have a port of 1 to 65535, or none")
            }
        }
        _ => refuse("must name a host"),
    }
}

/// Nanoseconds of a duration in Go's form; days, signs and a missing unit are refused.
fn go_duration_nanos(text: &str) -> Option<u128> {
    if text.is_empty() || text.len() > MAX_NUMBER_BYTES {
        return None;
    }
    let mut rest = text;
    let mut total: u128 = 0;
    while !rest.is_empty() {
        let (whole, after) = digits(rest);
        let (fraction, after) = match after.strip_prefix('.').map(digits) {
            Some(("", _)) => return None,
            Some(found) => found,
            None => ("", after),
        };
        if whole.is_empty() {
            return None;
        }
        let end = after
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        let nanos = nanos_of(unit)?;
        total = total.checked_add(scaled(whole, fraction, nanos)?)?;
        rest = after;
    }
    Some(total)
}

/// Bytes of a size; fractions, exponents and decimal suffixes are refused.
fn quantity(text: &str) -> Option<u64> {
    if text.len() > MAX_NUMBER_BYTES {
        return None;
    }
    let (number, suffix) = digits(text);
    let factor: u64 = match suffix {
        "" => 1,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

/// `whole.fraction` times the unit, cut below a nanosecond.
fn scaled(whole: &str, fraction: &str, unit: u128) -> Option<u128> {
    let mut total = whole.parse::<u128>().ok()?.checked_mul(unit)?;
    let mut place = unit;
    for digit in fraction.bytes() {
        place /= 10;
        total = total.checked_add(place * u128::from(digit - b'0'))?;
    }
    Some(total)
}

fn digits(text: &str) -> (&str, &str) {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    text.split_at(end)
}

fn nanos_of(unit: &str) -> Option<u128> {
    match unit {
        "ns" => Some(1),
        "us" => Some(1_000),
        "ms" => Some(NANOS_PER_MS),
        "s" => Some(1_000 * NANOS_PER_MS),
        "m" => Some(60_000 * NANOS_PER_MS),
        "h" => Some(3_600_000 * NANOS_PER_MS),
        _ => None,
    }
}

fn is_label(value: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    !value.is_empty()
        && value.len() <= 63
        && value.bytes().all(inner)
        && !value.starts_with('-')
        && !value.ends_with('-')
}

/// What was written, cut to a length that a message can carry.
fn shown(text: &str) -> String {
    text.chars().take(MAX_NUMBER_BYTES).collect()
}

// === impl Span ===

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            ms if ms % 3_600_000 == 0 => write!(f, "{}h", ms / 3_600_000),
            ms if ms % 60_000 == 0 => write!(f, "{}m", ms / 60_000),
            ms if ms % 1_000 == 0 => write!(f, "{}s", ms / 1_000),
            ms => write!(f, "{ms}ms"),
        }
    }
}
