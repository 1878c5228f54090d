//! What the upstream says: a correct little MCP server with tasks, every result prepared.
//!
//! Stateless: each task tool makes one task, whose id is the tool's name.

use std::borrow::Cow;
use std::collections::BTreeMap;

use bytes::Bytes;
use hangar_tests::envelope::{TASKS, VERSION};
use hangar_tests::scripted::mk_tool;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// Prepared results.
#[derive(Debug)]
pub(crate) struct Answers {
    /// By method, and the tool or task that it is about.
    results: BTreeMap<(&'static str, &'static str), Bytes>,
    unknown: Bytes,
}

/// What an answer depends on.
#[derive(Debug, Deserialize)]
pub(crate) struct Request<'a> {
    #[serde(borrow)]
    pub(crate) id: &'a RawValue,
    #[serde(borrow)]
    method: Cow<'a, str>,
    #[serde(borrow)]
    params: Params<'a>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Params<'a> {
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    task_id: Option<Cow<'a, str>>,
}

/// A tool that answers at once, a line.
pub(crate) const SMALL: &str = "small";
/// A tool that answers at once, 1 MB.
pub(crate) const LARGE: &str = "large";
/// A tool whose task never ends.
pub(crate) const TASK_WORKING: &str = "task-working";
/// A tool whose task has completed when it is first looked at.
pub(crate) const TASK_SMALL: &str = "task-small";
/// The same with a result of 1 MB.
pub(crate) const TASK_LARGE: &str = "task-large";

const LARGE_BYTES: usize = 1_000_000;
/// Tools that nobody calls: a contract is one of a usual list.
const OTHER_TOOLS: usize = 15;
const CREATED: &str = "2026-12-01T06:00:00Z";

// === impl Answers ===

impl Answers {
    pub(crate) fn prepare() -> Self {
        let small = tool_result("Sales are up.");
        let large = tool_result(&"x".repeat(LARGE_BYTES));
        let results = [
            (("server/discover", ""), discover()),
            (("tools/list", ""), list()),
            (("tools/call", TASK_WORKING), handle(TASK_WORKING)),
            (("tools/call", TASK_SMALL), handle(TASK_SMALL)),
            (("tools/call", TASK_LARGE), handle(TASK_LARGE)),
            (("tasks/get", TASK_WORKING), task(TASK_WORKING, "working")),
            (("tasks/get", TASK_SMALL), completed(TASK_SMALL, &small)),
            (("tasks/get", TASK_LARGE), completed(TASK_LARGE, &large)),
            (("tools/call", SMALL), small),
            (("tools/call", LARGE), large),
        ];
        let error = json!({"code": -32602, "message": "this upstream has no such answer"});
        Self {
            results: results
                .map(|(key, value)| (key, Bytes::from(value.to_string())))
                .into(),
            unknown: Bytes::from(error.to_string()),
        }
    }

    /// `result` or `error`, and its value.
    pub(crate) fn to(&self, request: &Request<'_>) -> (&'static str, Bytes) {
        let Params { name, task_id } = &request.params;
        let about = name.as_deref().or(task_id.as_deref()).unwrap_or_default();
        match self.results.get(&(&*request.method, about)) {
            Some(result) => ("result", result.clone()),
            None => ("error", self.unknown.clone()),
        }
    }
}

fn discover() -> Value {
    json!({
        "resultType": "complete",
        "supportedVersions": [VERSION],
        "capabilities": {"tools": {}, "extensions": {TASKS: {}}},
        "ttlMs": 0,
        "cacheScope": "private",
        "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "bench", "version": "0"}},
    })
}

fn list() -> Value {
    let other = (0..OTHER_TOOLS).map(|number| format!("other-{number:02}"));
    let called = [SMALL, LARGE, TASK_WORKING, TASK_SMALL, TASK_LARGE].map(str::to_owned);
    let tools: Vec<_> = called
        .into_iter()
        .chain(other)
        .map(|name| tool(&name))
        .collect();
    json!({"resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "private"})
}

/// As long as a tool of a usual server is described.
fn tool(name: &str) -> Value {
    let described = |kind: &str| {
        json!({
            "type": kind,
            "description": "What the report is about, in the words of whoever will read it.",
        })
    };
    mk_tool(
        name,
        "Makes a report of the sales of one region over a period, with totals by product and by \
         month, and compares them with the period before.",
        &json!({
            "text": described("string"), "region": described("string"),
            "months": described("integer"), "compare": described("boolean"),
        }),
    )
}

fn tool_result(text: &str) -> Value {
    json!({
        "resultType": "complete", "content": [{"type": "text", "text": text}], "isError": false,
    })
}

fn handle(id: &str) -> Value {
    let mut handle = task(id, "working");
    handle["resultType"] = json!("task");
    handle
}

fn completed(id: &str, result: &Value) -> Value {
    let mut completed = task(id, "completed");
    completed["result"] = result.clone();
    completed
}

fn task(id: &str, status: &str) -> Value {
    json!({
        "resultType": "complete", "taskId": id, "status": status, "createdAt": CREATED,
        "lastUpdatedAt": CREATED, "ttlMs": 900_000, "pollIntervalMs": 50,
    })
}
