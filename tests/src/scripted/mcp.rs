//! The built-in behaviour: a correct MCP 2026-07-28 server with tasks.
//!
//! It is strict about what it is sent, headers included, so that a relay which gets the
//! upstream leg wrong fails tests that are about something else.

use std::collections::{BTreeMap, VecDeque};

use hyper::StatusCode;
use serde_json::{Map, Value, json};

use super::{Answer, Seen};
use crate::envelope::{CAPABILITIES_KEY, TASKS, VERSION, VERSION_KEY, name_of};

/// Tools, tasks, and the ids that come next.
#[derive(Debug)]
pub(super) struct Mcp {
    pub(super) tools: Vec<Value>,
    pub(super) next_ids: VecDeque<String>,
    tasks: Vec<Task>,
}

#[derive(Debug)]
struct Task {
    id: String,
    tool: String,
    members: Map<String, Value>,
    answers: BTreeMap<String, Value>,
}

/// A refusal before any method is looked at, or by one.
type Refused = Answer;

const CREATED: &str = "2026-12-01T06:00:00Z";
const INVALID_PARAMS: i64 = -32602;
const METHOD_NOT_FOUND: i64 = -32601;
const HEADER_MISMATCH: i64 = -32020;
const MISSING_CAPABILITY: i64 = -32021;
const UNSUPPORTED_VERSION: i64 = -32022;

/// One tool of `tools/list`.
pub fn mk_tool(name: &str, description: &str, properties: &Value) -> Value {
    json!({
        "name": name,
        "description": description,
        "inputSchema": {"type": "object", "properties": properties},
    })
}

/// The three tools as they are listed unless a test sets others.
pub fn tools() -> Vec<Value> {
    vec![
        mk_tool(
            "echo",
            "Says it again.",
            &json!({"text": {"type": "string"}}),
        ),
        mk_tool(
            "slow",
            "Takes its time.",
            &json!({"text": {"type": "string"}}),
        ),
        mk_tool("ask", "Asks before it acts.", &json!({})),
    ]
}

// === impl Mcp ===

impl Default for Mcp {
    fn default() -> Self {
        Self {
            tools: tools(),
            next_ids: VecDeque::new(),
            tasks: Vec::new(),
        }
    }
}

impl Mcp {
    pub(super) fn answer(&mut self, seen: &Seen) -> Answer {
        self.respond(seen).unwrap_or_else(|refused| refused)
    }

    pub(super) fn ids(&self) -> Vec<String> {
        self.tasks.iter().map(|task| task.id.clone()).collect()
    }

    pub(super) fn public(&self, id: &str) -> Option<Value> {
        let task = self.tasks.iter().find(|task| task.id == id)?;
        Some(Value::Object(task.members.clone()))
    }

    pub(super) fn complete(&mut self, id: &str, text: &str) -> bool {
        self.live(id).is_some_and(|task| {
            task.end("completed", Some(("result", tool_result(text))));
            true
        })
    }

    pub(super) fn fail(&mut self, id: &str, code: i64, message: &str) -> bool {
        self.live(id).is_some_and(|task| {
            task.end(
                "failed",
                Some(("error", json!({"code": code, "message": message}))),
            );
            true
        })
    }

    pub(super) fn ask(&mut self, id: &str, key: &str, question: &str) -> bool {
        self.live(id).is_some_and(|task| {
            task.ask(key, question);
            true
        })
    }

    pub(super) fn bend(&mut self, id: &str, members: &Value) -> bool {
        let Some(task) = self.tasks.iter_mut().find(|task| task.id == id) else {
            return false;
        };
        for (name, value) in members.as_object().into_iter().flatten() {
            if value.is_null() {
                task.members.remove(name);
            } else {
                task.members.insert(name.clone(), value.clone());
            }
        }
        true
    }

    pub(super) fn lose(&mut self, id: &str) -> bool {
        let before = self.tasks.len();
        self.tasks.retain(|task| task.id != id);
        self.tasks.len() < before
    }

    fn live(&mut self, id: &str) -> Option<&mut Task> {
        self.tasks
            .iter_mut()
            .find(|task| task.id == id && task.is_live())
    }

    fn respond(&mut self, seen: &Seen) -> Result<Answer, Refused> {
        let message = seen.message();
        let empty = Map::new();
        let params = message["params"].as_object().unwrap_or(&empty);
        if message["method"].is_null() {
            return Err(Answer::raw("").status(StatusCode::METHOD_NOT_ALLOWED));
        }
        check_envelope(seen, params)?;
        check_headers(seen, params)?;
        match seen.method.as_str() {
            "server/discover" => Ok(Answer::result(&discover())),
            "tools/list" => Ok(self.list()),
            "tools/call" => self.call(params),
            "tasks/get" | "tasks/update" | "tasks/cancel" => self.follow_up(&seen.method, params),
            _ => {
                Err(Answer::error(METHOD_NOT_FOUND, "Method not found")
                    .status(StatusCode::NOT_FOUND))
            }
        }
    }

    fn list(&self) -> Answer {
        Answer::result(&json!({
            "resultType": "complete", "tools": self.tools, "ttlMs": 0, "cacheScope": "private",
        }))
    }

    fn call(&mut self, params: &Map<String, Value>) -> Result<Answer, Refused> {
        let tool = params
            .get("name")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let text = params["arguments"]["text"].as_str().unwrap_or_default();
        match tool {
            "echo" => Ok(Answer::result(&tool_result(text))),
            "slow" if !declares_tasks(params) => Ok(Answer::result(&tool_result("done"))),
            "slow" | "ask" => {
                require_tasks(params)?;
                Ok(Answer::result(&self.create(tool)))
            }
            _ => Err(refuse(INVALID_PARAMS, "Unknown tool")),
        }
    }

    fn create(&mut self, tool: &str) -> Value {
        let fresh = || format!("{:032x}", uuid_like(self.tasks.len()));
        let id = self.next_ids.pop_front().unwrap_or_else(fresh);
        let mut task = Task::new(&id, tool);
        let mut handle = task.members.clone();
        handle.insert("resultType".to_owned(), json!("task"));
        if tool == "ask" {
            task.ask("name", "What is your name?");
        }
        self.tasks.push(task);
        Value::Object(handle)
    }

    fn follow_up(&mut self, method: &str, params: &Map<String, Value>) -> Result<Answer, Refused> {
        require_tasks(params)?;
        let id = params
            .get("taskId")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let task = self.tasks.iter_mut().find(|task| task.id == id);
        let task = task.ok_or_else(|| refuse(INVALID_PARAMS, "Task not found"))?;
        match method {
            "tasks/update" => task.update(params.get("inputResponses")),
            "tasks/cancel" if task.is_live() => task.end("cancelled", None),
            "tasks/get" => {
                let mut result = task.members.clone();
                result.insert("resultType".to_owned(), json!("complete"));
                return Ok(Answer::result(&Value::Object(result)));
            }
            _ => {}
        }
        Ok(Answer::result(&json!({"resultType": "complete"})))
    }
}

// === impl Task ===

impl Task {
    fn new(id: &str, tool: &str) -> Self {
        let members = json!({
            "taskId": id, "status": "working", "createdAt": CREATED, "lastUpdatedAt": CREATED,
            "ttlMs": 900_000, "pollIntervalMs": 0,
        });
        Self {
            id: id.to_owned(),
            tool: tool.to_owned(),
            members: members.as_object().cloned().unwrap_or_default(),
            answers: BTreeMap::new(),
        }
    }

    fn is_live(&self) -> bool {
        let status = self.members.get("status").and_then(Value::as_str);
        matches!(status, Some("working" | "input_required"))
    }

    fn end(&mut self, status: &str, payload: Option<(&str, Value)>) {
        self.members.remove("inputRequests");
        self.members.insert("status".to_owned(), json!(status));
        if let Some((name, value)) = payload {
            self.members.insert(name.to_owned(), value);
        }
    }

    fn ask(&mut self, key: &str, question: &str) {
        let request = json!({"method": "elicitation/create", "params": {
            "mode": "form", "message": question,
            "requestedSchema": {
                "type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"],
            },
        }});
        self.members
            .insert("status".to_owned(), json!("input_required"));
        let requests = self
            .members
            .entry("inputRequests")
            .or_insert_with(|| json!({}));
        requests[key] = request;
    }

    /// Takes answers to outstanding keys, ignores others, and goes on when all are answered.
    fn update(&mut self, responses: Option<&Value>) {
        let Some(Value::Object(outstanding)) = self.members.get_mut("inputRequests") else {
            return;
        };
        for (key, answer) in responses.and_then(Value::as_object).into_iter().flatten() {
            if outstanding.remove(key).is_some() {
                self.answers.insert(key.clone(), answer.clone());
            }
        }
        if !outstanding.is_empty() {
            return;
        }
        self.members.remove("inputRequests");
        self.members.insert("status".to_owned(), json!("working"));
        if self.tool == "ask" {
            let answer = self.answers.get("name").cloned().unwrap_or_default();
            let text = match answer["action"].as_str() {
                Some("accept") => format!(
                    "Hello {}",
                    answer["content"]["name"].as_str().unwrap_or("?")
                ),
                _ => "No name given".to_owned(),
            };
            self.end("completed", Some(("result", tool_result(&text))));
        }
    }
}

fn check_envelope(seen: &Seen, params: &Map<String, Value>) -> Result<(), Refused> {
    let meta = params.get("_meta").and_then(Value::as_object);
    let meta = meta.ok_or_else(|| refuse(INVALID_PARAMS, "_meta is missing"))?;
    if meta
        .get(CAPABILITIES_KEY)
        .and_then(Value::as_object)
        .is_none()
    {
        return Err(refuse(INVALID_PARAMS, "clientCapabilities is missing"));
    }
    match meta.get(VERSION_KEY).and_then(Value::as_str) {
        Some(VERSION) if seen.header("mcp-protocol-version") == Some(VERSION) => Ok(()),
        Some(VERSION) => Err(refuse(HEADER_MISMATCH, "MCP-Protocol-Version")),
        Some(_) => Err(refuse(UNSUPPORTED_VERSION, "Unsupported protocol version")),
        None => Err(refuse(INVALID_PARAMS, "protocolVersion is missing")),
    }
}

fn check_headers(seen: &Seen, params: &Map<String, Value>) -> Result<(), Refused> {
    if seen.header("mcp-method") != Some(seen.method.as_str()) {
        return Err(refuse(HEADER_MISMATCH, "Mcp-Method"));
    }
    let accept = seen.header("accept").unwrap_or_default();
    if !accept.contains("application/json") || !accept.contains("text/event-stream") {
        return Err(refuse(INVALID_PARAMS, "Accept must list both media types"));
    }
    let name = name_of(&seen.method, params);
    let is_plain =
        |name: &str| name.chars().all(|c| c.is_ascii_graphic()) && !name.starts_with("=?");
    let plain = name.is_none_or(is_plain);
    // Names that need the base64 form are left to the tests that are about it.
    if plain && seen.header("mcp-name") != name {
        return Err(refuse(HEADER_MISMATCH, "Mcp-Name"));
    }
    Ok(())
}

fn require_tasks(params: &Map<String, Value>) -> Result<(), Refused> {
    if declares_tasks(params) {
        return Ok(());
    }
    let answer = Answer::error_with(
        MISSING_CAPABILITY,
        "Missing required client capability",
        &json!({"requiredCapabilities": {"extensions": {TASKS: {}}}}),
    );
    Err(answer.status(StatusCode::BAD_REQUEST))
}

fn declares_tasks(params: &Map<String, Value>) -> bool {
    let meta = params.get("_meta");
    meta.is_some_and(|meta| meta[CAPABILITIES_KEY]["extensions"][TASKS].is_object())
}

fn refuse(code: i64, message: &str) -> Refused {
    Answer::error(code, message).status(StatusCode::BAD_REQUEST)
}

fn tool_result(text: &str) -> Value {
    json!({
        "resultType": "complete", "content": [{"type": "text", "text": text}], "isError": false,
    })
}

fn discover() -> Value {
    json!({
        "resultType": "complete",
        "supportedVersions": [VERSION],
        "capabilities": {"tools": {}, "extensions": {TASKS: {}}},
        "ttlMs": 0,
        "cacheScope": "private",
        "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "scripted", "version": "0"}},
    })
}

/// Differs from every other task of this server; unguessable is not needed here.
fn uuid_like(count: usize) -> u128 {
    0x9f1c_0000_0000_0000_0000_0000_0000_0000 + count as u128
}
