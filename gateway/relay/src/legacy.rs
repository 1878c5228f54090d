//! MCP 2025-11-25 on either side: its requests and results from and to those of 2026-07-28.
//!
//! Guarantees: every value that is not governed keeps its bytes; a client of this era is never
//! handed a task or a question, an upstream of this era is asked for a task only by a client of the
//! later one.
//! Caveats: objects whose members change are written anew, so white space between their members
//! is not kept.

pub mod client;
pub mod task;
pub mod upstream;

use serde_json::value::RawValue;

use crate::json::{self, Members};
use crate::{
    META_CLIENT_CAPABILITIES, META_CLIENT_INFO, META_LOG_LEVEL, META_PROTOCOL_VERSION, envelope,
};

/// The two ways to speak that differ: with sessions and `initialize`, or without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Era {
    /// 2026-07-28.
    Modern,
    /// 2025-11-25, and 2025-06-18, which has the same messages as far as they are relayed.
    Legacy,
}

/// Why a message cannot be carried from one era to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("message cannot be read")]
    Json(#[source] json::Error),
    #[error("message cannot be read")]
    Envelope(#[source] envelope::Error),
    #[error("upstream answered with a task that was not asked for")]
    Task,
    #[error("task asks for input, which only the session that it was born in could be given")]
    TaskAsks,
    #[error("resultType is none of this revision's")]
    ResultType,
    #[error("upstream asks a question, which a client of this revision cannot be asked here")]
    Asks,
    #[error("upstream speaks none of the revisions 2026-07-28, 2025-11-25 and 2025-06-18")]
    Version,
}

/// Params without what is of one era only, and the members of their `_meta` that both eras have.
struct Common<'a> {
    params: String,
    meta: Vec<(String, &'a RawValue)>,
}

/// Revisions of this era, the newest first.
pub const VERSIONS: [&str; 2] = ["2025-11-25", "2025-06-18"];

/// Members of params that mean nothing in this era, or would ask for a task.
const NOT_PARAMS: [&str; 3] = ["task", "inputResponses", "requestState"];
/// Members of `_meta` that only the requests of 2026-07-28 have.
const ENVELOPE: [&str; 4] = [
    META_PROTOCOL_VERSION,
    META_CLIENT_CAPABILITIES,
    META_CLIENT_INFO,
    META_LOG_LEVEL,
];

/// The revision of this name, where it is of this era.
pub fn version(text: &str) -> Option<&'static str> {
    VERSIONS.into_iter().find(|version| *version == text)
}

// === impl Error ===

impl Error {
    /// Closed word for metrics and logs.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Json(error) => error.reason(),
            Self::Envelope(error) => error.reason(),
            Self::Task => "task_not_asked_for",
            Self::TaskAsks => "task_asks",
            Self::ResultType => "result_type",
            Self::Asks => "asks_legacy_client",
            Self::Version => "no_common_version",
        }
    }
}

impl From<json::Error> for Error {
    fn from(error: json::Error) -> Self {
        Self::Json(error)
    }
}

// === impl Common ===

impl<'a> Common<'a> {
    fn of(params: Option<&'a RawValue>) -> Result<Self, json::Error> {
        let members = match params {
            Some(raw) => Members::of(raw)?,
            None => Members::default(),
        };
        let mut names = NOT_PARAMS.to_vec();
        names.push("_meta");
        members.guard(&names)?;
        let mut common = Self {
            params: String::new(),
            meta: Vec::new(),
        };
        for (name, value) in members.iter() {
            if !names.contains(&&**name) {
                member(&mut common.params, name, value.get());
            }
        }
        if let Some(raw) = members.get("_meta") {
            let meta = Members::of(raw)?;
            meta.guard(&ENVELOPE)?;
            let both = meta
                .iter()
                .filter(|(name, _)| !ENVELOPE.contains(&&***name));
            common.meta = both.map(|(name, raw)| (name.to_string(), raw)).collect();
        }
        Ok(common)
    }

    /// A request around these params; `meta` are the members of its `_meta`, as text.
    fn request(&self, id: &str, method: &str, meta: &str) -> String {
        let mut params = self.params.clone();
        member(&mut params, "_meta", &format!("{{{meta}}}"));
        let method = json::quote(method);
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":{method},"params":{{{params}}}}}"#)
    }
}

/// Puts a member behind those that are there.
fn member(out: &mut String, name: &str, value: &str) {
    if !out.is_empty() {
        out.push(',');
    }
    json::quote_into(out, name);
    out.push(':');
    out.push_str(value);
}

/// The members of an object but for these, as text.
fn without(members: &Members<'_>, names: &[&str]) -> String {
    let mut out = String::new();
    for (name, value) in members.iter() {
        if !names.contains(&&**name) {
            member(&mut out, name, value.get());
        }
    }
    out
}

/// Capabilities but these. None promises notifications outside of a request: where either side
/// speaks this era there is no stream for them.
fn capabilities(raw: &RawValue, names: &[&str]) -> Result<String, Error> {
    let all = Members::of(raw)?;
    let mut out = String::new();
    let passed = |name: &str| !names.contains(&name);
    for (name, value) in all.iter().filter(|(name, _)| passed(name)) {
        if json::is_object(value) {
            let kept = without(&Members::of(value)?, &["listChanged", "subscribe"]);
            member(&mut out, name, &format!("{{{kept}}}"));
        } else {
            member(&mut out, name, value.get());
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests;
