//! What the upstream says: a correct little MCP server with tasks, every result prepared.
//!
//! Stateless: the id of a task is the name of its tool, and what the caller asks to put behind it.

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
    /// By method, and the tool that it is about; where it is about a task, without the brace that
    /// opens it.
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
    #[serde(borrow)]
    arguments: Option<Arguments<'a>>,
}

#[derive(Debug, Deserialize)]
struct Arguments<'a> {
    /// Tells one task of a tool from another.
    #[serde(borrow)]
    task: Option<Cow<'a, str>>,
}

/// A JSON value in two pieces.
#[derive(Debug)]
pub(crate) struct Said {
    /// `result` or `error`.
    pub(crate) member: &'static str,
    pub(crate) head: String,
    pub(crate) rest: Bytes,
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

/// Between the tool's name and what tells its tasks apart.
const BEHIND: char = '.';
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
            (("tools/call", SMALL), small.clone()),
            (("tools/call", LARGE), large.clone()),
        ];
        let of_tasks = [
            (("tools/call", TASK_WORKING), handle()),
            (("tools/call", TASK_SMALL), handle()),
            (("tools/call", TASK_LARGE), handle()),
            (("tasks/get", TASK_WORKING), task("working")),
            (("tasks/get", TASK_SMALL), completed(&small)),
            (("tasks/get", TASK_LARGE), completed(&large)),
        ];
        let whole = results.map(|(key, value)| (key, Bytes::from(value.to_string())));
        let parts = of_tasks.map(|(key, value)| (key, Bytes::from(behind(&value))));
        let error = json!({"code": -32602, "message": "this upstream has no such answer"});
        Self {
            results: whole.into_iter().chain(parts).collect(),
            unknown: Bytes::from(error.to_string()),
        }
    }

    pub(crate) fn to(&self, request: &Request<'_>) -> Said {
        let Params {
            name,
            task_id,
            arguments,
        } = &request.params;
        let asked = name.as_deref().or(task_id.as_deref()).unwrap_or_default();
        let tool = asked.split_once(BEHIND).map_or(asked, |(tool, _)| tool);
        let Some(rest) = self.results.get(&(&*request.method, tool)) else {
            return Said {
                member: "error",
                head: String::new(),
                rest: self.unknown.clone(),
            };
        };
        let number = arguments.as_ref().and_then(|given| given.task.as_deref());
        let id = match (&*request.method, number) {
            ("tasks/get", _) => asked.to_owned(),
            ("tools/call", Some(number)) => task_id_of(tool, number),
            _ => String::new(),
        };
        let head = if id.is_empty() {
            id
        } else {
            format!(r#"{{"taskId":{}"#, Value::from(id))
        };
        Said {
            member: "result",
            head,
            rest: rest.clone(),
        }
    }
}

/// The id of one of a tool's tasks.
pub(crate) fn task_id_of(tool: &str, number: &str) -> String {
    format!("{tool}{BEHIND}{number}")
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

fn handle() -> Value {
    let mut handle = task("working");
    handle["resultType"] = json!("task");
    handle
}

fn completed(result: &Value) -> Value {
    let mut completed = task("completed");
    completed["result"] = result.clone();
    completed
}

/// Polled as fast as it goes, so its interval is none.
fn task(status: &str) -> Value {
    json!({
        "resultType": "complete", "status": status, "createdAt": CREATED, "lastUpdatedAt": CREATED,
        "ttlMs": 900_000, "pollIntervalMs": 0,
    })
}

/// What stands behind `{"taskId":".."`.
fn behind(value: &Value) -> String {
    value.to_string().replacen('{', ",", 1)
}
