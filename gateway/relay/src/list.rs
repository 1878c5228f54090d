//! Lists that the gateway answers itself, and the names that it shows.

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::contract::Tool;
use crate::json::{self, Members};
use crate::{GATEWAY_NAME, GATEWAY_VERSION, META_SERVER_INFO, rewrite};

/// A tool as one client sees it.
#[derive(Clone, Debug)]
pub struct Shown<'t> {
    pub tool: &'t Tool,
    /// The name shown, with the prefix where there is one.
    pub name: Cow<'t, str>,
}

/// Between a prefix and a name of the upstream's own.
pub const SEPARATOR: &str = "__";
/// Member of `_meta` of a merged answer: names of grants whose upstreams could not be asked.
pub const META_UNAVAILABLE: &str = "hangar.dev/unavailable";

/// The name that a client sees; an empty prefix changes nothing.
pub fn prefixed<'n>(prefix: &str, name: &'n str) -> Cow<'n, str> {
    if prefix.is_empty() {
        return Cow::Borrowed(name);
    }
    Cow::Owned([prefix, SEPARATOR, name].concat())
}

/// The upstream's own name, when the shown one is of this prefix.
pub fn unprefixed<'n>(prefix: &str, shown: &'n str) -> Option<&'n str> {
    if prefix.is_empty() {
        return Some(shown);
    }
    shown.strip_prefix(prefix)?.strip_prefix(SEPARATOR)
}

/// Result of `tools/list`: one page, each tool as its upstream sent it but for the name. It
/// differs per client, so nobody may share it or keep it. `unavailable` are names of grants whose
/// upstreams are missing in it.
pub fn tools<'t>(
    shown: impl IntoIterator<Item = Shown<'t>>,
    unavailable: &[&str],
) -> Box<RawValue> {
    let mut out = String::from(r#"{"resultType":"complete","tools":["#);
    for (index, Shown { tool, name }) in shown.into_iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        out.push_str(&renamed(tool, &name));
    }
    out.push_str("],");
    finish(out, unavailable)
}

fn renamed<'t>(tool: &'t Tool, name: &str) -> Cow<'t, str> {
    let text = tool.raw.get();
    if tool.name == name {
        return Cow::Borrowed(text);
    }
    let member = Members::parse(text)
        .ok()
        .and_then(|members| members.get("name"));
    match member {
        Some(member) => rewrite::replace(text, member, json::quote(name)),
        // A `Tool` is made with its name in it.
        None => Cow::Borrowed(text),
    }
}

/// Ends a result of the gateway's own: nobody may share it or keep it, and it names the grants
/// whose upstreams are missing in it.
pub(crate) fn finish(mut out: String, unavailable: &[&str]) -> Box<RawValue> {
    out.push_str(r#""ttlMs":0,"cacheScope":"private","_meta":{"#);
    if !unavailable.is_empty() {
        json::quote_into(&mut out, META_UNAVAILABLE);
        out.push(':');
        push_names(&mut out, unavailable);
        out.push(',');
    }
    json::quote_into(&mut out, META_SERVER_INFO);
    out.push_str(r#":{"name":"#);
    json::quote_into(&mut out, GATEWAY_NAME);
    out.push_str(r#","version":"#);
    json::quote_into(&mut out, GATEWAY_VERSION);
    out.push_str("}}}");
    json::raw(out)
}

/// Appends an array of texts.
pub(crate) fn push_names(out: &mut String, names: &[&str]) {
    out.push('[');
    for (index, name) in names.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        json::quote_into(out, name);
    }
    out.push(']');
}

#[cfg(test)]
mod tests;
