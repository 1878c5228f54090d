//! Lists that the gateway answers itself: `server/discover` and the filtered `tools/list`.

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::contract::Tool;
use crate::json::{self, Members};
use crate::{
    GATEWAY_NAME, GATEWAY_VERSION, META_SERVER_INFO, PROTOCOL_VERSION, TASKS_EXTENSION,
    TasksExtension, rewrite,
};

/// A tool as one client sees it.
#[derive(Clone, Debug)]
pub struct Shown<'t> {
    pub tool: &'t Tool,
    /// The name shown, with the prefix where there is one.
    pub name: Cow<'t, str>,
}

/// Between a prefix and a tool's own name.
pub const SEPARATOR: &str = "__";

/// The name that a client sees; an empty prefix changes nothing.
pub fn prefixed<'n>(prefix: &str, name: &'n str) -> Cow<'n, str> {
    if prefix.is_empty() {
        return Cow::Borrowed(name);
    }
    Cow::Owned([prefix, SEPARATOR, name].concat())
}

/// The tool's own name, when the shown one is of this prefix.
pub fn unprefixed<'n>(prefix: &str, shown: &'n str) -> Option<&'n str> {
    if prefix.is_empty() {
        return Some(shown);
    }
    shown.strip_prefix(prefix)?.strip_prefix(SEPARATOR)
}

/// Result of `tools/list`: one page, each tool as its upstream sent it but for the name. It
/// differs per client, so nobody may share it or keep it.
pub fn tools<'t>(shown: impl IntoIterator<Item = Shown<'t>>) -> Box<RawValue> {
    let mut out = String::from(r#"{"resultType":"complete","tools":["#);
    for (index, Shown { tool, name }) in shown.into_iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        out.push_str(&renamed(tool, &name));
    }
    out.push_str("],");
    finish(out)
}

/// Result of `server/discover`. The extension is advertised where a task may be born.
pub fn discover(tasks: TasksExtension, instructions: Option<&str>) -> Box<RawValue> {
    let mut out = format!(
        r#"{{"resultType":"complete","supportedVersions":["{PROTOCOL_VERSION}"],"capabilities":{{"tools":{{}}"#
    );
    if tasks == TasksExtension::Forward {
        out.push_str(r#","extensions":{"#);
        json::quote_into(&mut out, TASKS_EXTENSION);
        out.push_str(":{}}");
    }
    out.push_str("},");
    if let Some(instructions) = instructions {
        out.push_str(r#""instructions":"#);
        json::quote_into(&mut out, instructions);
        out.push(',');
    }
    finish(out)
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

fn finish(mut out: String) -> Box<RawValue> {
    out.push_str(r#""ttlMs":0,"cacheScope":"private","_meta":{"#);
    json::quote_into(&mut out, META_SERVER_INFO);
    out.push_str(r#":{"name":"#);
    json::quote_into(&mut out, GATEWAY_NAME);
    out.push_str(r#","version":"#);
    json::quote_into(&mut out, GATEWAY_VERSION);
    out.push_str("}}}");
    json::raw(out)
}

#[cfg(test)]
mod tests;
