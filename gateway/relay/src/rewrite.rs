//! Bodies for the upstream: the client's with single members replaced, and requests of our own.
//!
//! Guarantees: every byte outside a replaced member is the client's, key order, spelling of
//! numbers and whitespace included; a body in which nothing changes is not copied.

use std::borrow::Cow;
use std::ops::Range;

use serde_json::value::RawValue;

use crate::envelope::Request;
use crate::json;
use crate::listen::Filter;
use crate::method::Method;
use crate::params::Params;
use crate::{
    GATEWAY_NAME, GATEWAY_VERSION, META_CLIENT_CAPABILITIES, META_CLIENT_INFO,
    META_PROTOCOL_VERSION, PROTOCOL_VERSION, TASKS_EXTENSION, TasksExtension,
};

/// Whose `_meta` a request of ours carries.
#[derive(Clone, Copy)]
pub enum MetaOf<'a> {
    /// The gateway's own; it declares the tasks extension and nothing else.
    Gateway,
    /// The one that came with a client's request, as it came.
    Client(&'a RawValue),
}

/// A request that the gateway composes.
#[derive(Clone, Copy, Debug)]
pub struct Own<'a> {
    /// JSON-RPC id, a string or an integer.
    pub id: &'a RawValue,
    pub meta: MetaOf<'a>,
}

/// The client's `tools/call` for the upstream: its own tool name, and the extension left out
/// where no task may be born or the client's way to write it declares nothing (`null`).
pub fn call<'a>(
    request: &Request<'a>,
    params: &Params<'a>,
    name: &str,
    tasks: TasksExtension,
) -> Cow<'a, str> {
    let mut edits = Vec::new();
    if params.name.as_deref() != Some(name)
        && let Some(raw) = params.members.get("name")
    {
        edits.extend(edit(request.body, raw, json::quote(name)));
    }
    let capabilities = &params.meta.capabilities;
    let may_forward = tasks == TasksExtension::Forward && capabilities.tasks.is_yes();
    if !may_forward
        && let Some((raw, members)) = &capabilities.extensions
        && members.get(TASKS_EXTENSION).is_some()
    {
        edits.extend(edit(request.body, raw, members.without(TASKS_EXTENSION)));
    }
    splice(request.body, edits)
}

/// A request with one string member (a part of its body) set to `text`; not copied where it says
/// so already.
pub fn with_text<'a>(body: &'a str, member: &RawValue, text: &str) -> Cow<'a, str> {
    if json::string(member).as_deref() == Some(text) {
        return Cow::Borrowed(body);
    }
    replace(body, member, json::quote(text))
}

/// An object with one member's value replaced, all other bytes kept.
pub(crate) fn replace<'a>(object: &'a str, member: &RawValue, value: String) -> Cow<'a, str> {
    splice(object, edit(object, member, value).into_iter().collect())
}

/// A number as a JSON-RPC id.
pub fn numeric_id(id: u64) -> Box<RawValue> {
    json::raw(id.to_string())
}

// === impl Own ===

impl Own<'_> {
    pub fn tasks_get(self, task_id: &str) -> String {
        self.compose(Method::TasksGet, &member("taskId", task_id))
    }

    /// Only the answers that were granted, each as it came.
    pub fn tasks_update<'r>(
        self,
        task_id: &str,
        answers: impl IntoIterator<Item = (&'r str, &'r RawValue)>,
    ) -> String {
        let mut params = member("taskId", task_id);
        params.push_str(r#""inputResponses":{"#);
        for (index, (key, answer)) in answers.into_iter().enumerate() {
            if index > 0 {
                params.push(',');
            }
            json::quote_into(&mut params, key);
            params.push(':');
            params.push_str(answer.get());
        }
        params.push_str("},");
        self.compose(Method::TasksUpdate, &params)
    }

    pub fn tasks_cancel(self, task_id: &str) -> String {
        self.compose(Method::TasksCancel, &member("taskId", task_id))
    }

    pub fn tools_list(self, cursor: Option<&str>) -> String {
        self.list(Method::ToolsList, cursor)
    }

    /// One page of another list.
    pub fn list(self, method: Method, cursor: Option<&str>) -> String {
        let params = cursor.map(|cursor| member("cursor", cursor));
        self.compose(method, &params.unwrap_or_default())
    }

    pub fn discover(self) -> String {
        self.compose(Method::Discover, "")
    }

    pub fn listen(self, filter: &Filter) -> String {
        let params = format!(r#""notifications":{},"#, filter.encode());
        self.compose(Method::Listen, &params)
    }

    /// `params` are members with a comma behind each.
    fn compose(self, method: Method, params: &str) -> String {
        let meta = match self.meta {
            MetaOf::Gateway => Cow::Owned(gateway_meta()),
            MetaOf::Client(raw) => Cow::Borrowed(raw.get()),
        };
        [
            r#"{"jsonrpc":"2.0","id":"#,
            self.id.get(),
            r#","method":""#,
            method.as_str(),
            r#"","params":{"#,
            params,
            r#""_meta":"#,
            &meta,
            "}}",
        ]
        .concat()
    }
}

// === impl MetaOf ===

impl std::fmt::Debug for MetaOf<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Gateway => "Gateway",
            Self::Client(_) => "Client(..)",
        })
    }
}

fn gateway_meta() -> String {
    format!(
        r#"{{"{META_PROTOCOL_VERSION}":"{PROTOCOL_VERSION}","{META_CLIENT_INFO}":{{"name":"{GATEWAY_NAME}","version":"{GATEWAY_VERSION}"}},"{META_CLIENT_CAPABILITIES}":{{"extensions":{{"{TASKS_EXTENSION}":{{}}}}}}}}"#
    )
}

/// Members of a `_meta` that declares nothing, for clients that have no word for it.
pub(crate) fn gateway_meta_without_tasks() -> String {
    format!(
        r#""{META_PROTOCOL_VERSION}":"{PROTOCOL_VERSION}","{META_CLIENT_INFO}":{{"name":"{GATEWAY_NAME}","version":"{GATEWAY_VERSION}"}},"{META_CLIENT_CAPABILITIES}":{{}}"#
    )
}

fn member(name: &str, value: &str) -> String {
    let mut out = json::quote(name);
    out.push(':');
    json::quote_into(&mut out, value);
    out.push(',');
    out
}

pub(crate) fn edit(body: &str, old: &RawValue, new: String) -> Option<(Range<usize>, String)> {
    json::span(body, old.get()).map(|range| (range, new))
}

pub(crate) fn splice(body: &str, mut edits: Vec<(Range<usize>, String)>) -> Cow<'_, str> {
    if edits.is_empty() {
        return Cow::Borrowed(body);
    }
    edits.sort_by_key(|(range, _)| range.start);
    let mut out = String::with_capacity(body.len() + 64);
    let mut done = 0;
    for (range, new) in edits {
        out.push_str(&body[done..range.start]);
        out.push_str(&new);
        done = range.end;
    }
    out.push_str(&body[done..]);
    Cow::Owned(out)
}

#[cfg(test)]
mod tests;
