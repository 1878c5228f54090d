//! An upstream of MCP 2025-11-25: sessions, `initialize`, and nothing of the later revision.
//!
//! It is strict about sessions and headers, so that a gateway which gets them wrong fails tests
//! that are about something else.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hyper::StatusCode;
use serde_json::{Value, json};

use super::{Answer, Seen, Upstream, mk_tool};

/// What an upstream that was taught the older revision knows of its sessions.
#[derive(Clone, Debug, Default)]
pub struct Legacy(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    live: BTreeSet<String>,
    begun: usize,
}

const VERSION: &str = "2025-11-25";
const SESSION: &str = "mcp-session-id";
const REFUSAL: &str = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Bad Request: Missing session ID"}}"#;

// === impl Legacy ===

impl Legacy {
    /// Teaches the older revision to an upstream, whatever it spoke before.
    pub fn teach(upstream: &Upstream) -> Self {
        let legacy = Self::default();
        upstream.script("server/discover", |_| {
            Answer::raw(REFUSAL).status(StatusCode::BAD_REQUEST)
        });
        let own = legacy.clone();
        upstream.script("initialize", move |_| own.begin());
        let own = legacy.clone();
        upstream.script("DELETE /mcp", move |seen| own.end(seen));
        for notification in [
            "notifications/initialized",
            "notifications/cancelled",
            // A message without a method: an answer to a question of the upstream's.
            "POST /mcp",
        ] {
            let accepted = || Answer::raw("").status(StatusCode::ACCEPTED);
            legacy.within(upstream, notification, move |_| accepted());
        }
        for (method, result) in results() {
            legacy.within(upstream, method, move |_| Answer::result(&result));
        }
        legacy.within(upstream, "tools/call", call);
        legacy
    }

    /// Answers a method like this, in a live session only.
    pub fn within(
        &self,
        upstream: &Upstream,
        method: &str,
        answer: impl Fn(&Seen) -> Answer + Send + Sync + 'static,
    ) {
        let own = self.clone();
        upstream.script(method, move |seen| {
            own.check(seen).unwrap_or_else(|| answer(seen))
        });
    }

    /// Sessions that were begun so far.
    pub fn begun(&self) -> usize {
        self.lock().begun
    }

    /// Sessions that were begun and not ended.
    pub fn live(&self) -> usize {
        self.lock().live.len()
    }

    /// Loses every session, as a restart does.
    pub fn forget(&self) {
        self.lock().live.clear();
    }

    fn begin(&self) -> Answer {
        let mut state = self.lock();
        state.begun += 1;
        let id = format!("session-{}", state.begun);
        state.live.insert(id.clone());
        let result = json!({
            "protocolVersion": VERSION,
            "capabilities": {
                "tools": {"listChanged": true}, "prompts": {}, "resources": {}, "completions": {},
                "tasks": {"requests": {"tools": {"call": {}}}},
            },
            "serverInfo": {"name": "old", "version": "0"},
            "instructions": "Mind the age.",
        });
        Answer::result(&result).header(SESSION, &id)
    }

    fn end(&self, seen: &Seen) -> Answer {
        let id = seen.header(SESSION).unwrap_or_default();
        let ended = self.lock().live.remove(id);
        Answer::raw("").status(if ended {
            StatusCode::OK
        } else {
            StatusCode::NOT_FOUND
        })
    }

    /// What is wrong with a message after `initialize`.
    fn check(&self, seen: &Seen) -> Option<Answer> {
        let refuse = |status| Some(Answer::raw(REFUSAL).status(status));
        let is_strange = seen.header("mcp-method").is_some()
            || seen.header("mcp-name").is_some()
            || seen.header("mcp-protocol-version") != Some(VERSION);
        match seen.header(SESSION) {
            None => refuse(StatusCode::BAD_REQUEST),
            Some(_) if is_strange => refuse(StatusCode::UNPROCESSABLE_ENTITY),
            Some(id) if self.lock().live.contains(id) => None,
            Some(_) => refuse(StatusCode::NOT_FOUND),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn results() -> Vec<(&'static str, Value)> {
    let mut strict = mk_tool("strict", "A task or nothing.", &json!({}));
    strict["execution"] = json!({"taskSupport": "required"});
    let echo = mk_tool("echo", "Says it again.", &json!({}));
    vec![
        ("tools/list", json!({"tools": [echo, strict]})),
        ("prompts/list", json!({"prompts": [{"name": "greet"}]})),
        ("prompts/get", json!({"messages": []})),
        (
            "resources/list",
            json!({"resources": [{"uri": "file:///a", "name": "a"}]}),
        ),
        ("resources/templates/list", json!({"resourceTemplates": []})),
        (
            "resources/read",
            json!({"contents": [{"uri": "file:///a", "text": "A"}]}),
        ),
        (
            "completion/complete",
            json!({"completion": {"values": ["p"]}}),
        ),
    ]
}

fn call(seen: &Seen) -> Answer {
    let params = seen.params();
    if params["task"].is_object() {
        return Answer::result(&json!({"task": {"taskId": "t", "status": "working"}}));
    }
    match params["name"].as_str() {
        Some("echo") => Answer::result(&json!({
            "content": [{"type": "text", "text": params["arguments"]["text"]}], "isError": false,
        })),
        _ => Answer::error(-32601, "This tool runs as a task only"),
    }
}
