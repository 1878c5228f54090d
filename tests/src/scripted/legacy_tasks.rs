//! Tasks of MCP 2025-11-25 (SEP-1686) at a scripted upstream.
//!
//! Tools: `echo` never runs as a task, `slow` may, `strict` runs as nothing else. A task goes on until
//! the test ends it. `tasks/result` of one that goes on is an error here, where others would wait.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Map, Value, json};

use super::{Answer, Legacy, Seen, Upstream, mk_tool};

/// The tasks of one upstream that was taught the older revision.
#[derive(Clone, Debug, Default)]
pub struct LegacyTasks(Arc<Mutex<Vec<Task>>>);

#[derive(Debug)]
struct Task {
    id: String,
    /// As `tasks/get` gives them.
    members: Map<String, Value>,
    /// What `tasks/result` answers.
    payload: Option<Answer>,
}

const CREATED: &str = "2026-12-01T06:12:36.127Z";
const INVALID_PARAMS: i64 = -32602;
const INTERNAL: i64 = -32603;
const METHOD_NOT_FOUND: i64 = -32601;

// === impl LegacyTasks ===

impl LegacyTasks {
    /// Teaches the older revision with tasks to an upstream, whatever it spoke before.
    pub fn teach(upstream: &Upstream) -> (Legacy, Self) {
        let (legacy, tasks) = (Legacy::teach(upstream), Self::default());
        legacy.within(upstream, "tools/list", |_| {
            Answer::result(&list("Takes its time."))
        });
        let own = tasks.clone();
        legacy.within(upstream, "tools/call", move |seen| own.call(seen));
        for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
            let own = tasks.clone();
            legacy.within(upstream, method, move |seen| own.follow_up(seen));
        }
        (legacy, tasks)
    }

    /// The next lists describe `slow` like this; for drift.
    pub fn describe(legacy: &Legacy, upstream: &Upstream, description: &str) {
        let list = list(description);
        legacy.within(upstream, "tools/list", move |_| Answer::result(&list));
    }

    /// The ids of all tasks, oldest first.
    pub fn ids(&self) -> Vec<String> {
        self.lock().iter().map(|task| task.id.clone()).collect()
    }

    /// The task ends like this, and `tasks/result` answers with `payload`.
    pub fn end(&self, id: &str, status: &str, payload: &Answer) {
        self.set(id, &json!({"status": status}));
        for task in self.lock().iter_mut().filter(|task| task.id == id) {
            task.payload = Some(payload.clone());
        }
    }

    /// The task completes with this text.
    pub fn complete(&self, id: &str, text: &str) {
        self.end(
            id,
            "completed",
            &Answer::result(&mk_payload(id, text, false)),
        );
    }

    /// Sets members of the task as they are, legal or not.
    pub fn set(&self, id: &str, members: &Value) {
        for task in self.lock().iter_mut().filter(|task| task.id == id) {
            for (name, value) in members.as_object().into_iter().flatten() {
                task.members.insert(name.clone(), value.clone());
            }
        }
    }

    /// The upstream has never heard of any task.
    pub fn forget(&self) {
        self.lock().clear();
    }

    fn call(&self, seen: &Seen) -> Answer {
        let params = seen.params();
        let wish = &params["task"];
        let text = params["arguments"]["text"].as_str().unwrap_or_default();
        match params["name"].as_str().unwrap_or_default() {
            "echo" | "never" if !wish.is_null() => {
                Answer::error(METHOD_NOT_FOUND, "No task of this tool")
            }
            "strict" if wish.is_null() => Answer::error(METHOD_NOT_FOUND, "A task or nothing"),
            "slow" | "strict" if wish.is_object() => self.create(&wish["ttl"]),
            "echo" | "never" | "slow" => Answer::result(&json!({
                "content": [{"type": "text", "text": text}], "isError": false,
            })),
            _ => Answer::error(INVALID_PARAMS, "Unknown tool"),
        }
    }

    fn create(&self, ttl: &Value) -> Answer {
        let mut tasks = self.lock();
        let id = format!("old-{}", tasks.len());
        let members = json!({
            "taskId": id, "status": "working", "ttl": ttl, "createdAt": CREATED,
            "lastUpdatedAt": CREATED, "pollInterval": 1, "statusMessage": "begun",
        });
        let handle = json!({"task": members});
        tasks.push(Task {
            id,
            members: members.as_object().cloned().unwrap_or_default(),
            payload: None,
        });
        Answer::result(&handle)
    }

    fn follow_up(&self, seen: &Seen) -> Answer {
        let params = seen.params();
        let mut tasks = self.lock();
        let task = tasks.iter_mut().find(|task| task.id == params["taskId"]);
        let Some(task) = task else {
            return Answer::error(INVALID_PARAMS, "Failed to retrieve task: Task not found");
        };
        match seen.method.as_str() {
            "tasks/result" => {
                let none = || Answer::error(INTERNAL, "The task has no result yet");
                task.payload.clone().unwrap_or_else(none)
            }
            "tasks/cancel" if !task.is_live() => {
                Answer::error(INVALID_PARAMS, "Cannot cancel task in terminal status")
            }
            "tasks/cancel" => {
                task.members.insert("status".to_owned(), json!("cancelled"));
                Answer::result(&Value::Object(task.members.clone()))
            }
            _ => Answer::result(&Value::Object(task.members.clone())),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Task>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Task ===

impl Task {
    fn is_live(&self) -> bool {
        let status = self.members.get("status").and_then(Value::as_str);
        matches!(status, Some("working" | "input_required"))
    }
}

/// What `tasks/result` answers for a tool that said this.
pub fn mk_payload(id: &str, text: &str, is_error: bool) -> Value {
    json!({
        "content": [{"type": "text", "text": text}], "isError": is_error,
        "_meta": {"io.modelcontextprotocol/related-task": {"taskId": id}},
    })
}

fn list(description: &str) -> Value {
    let with = |mut tool: Value, support: &str| {
        tool["execution"] = json!({"taskSupport": support});
        tool
    };
    json!({"tools": [
        mk_tool("echo", "Says it again.", &json!({})),
        with(mk_tool("never", "Is no task.", &json!({})), "forbidden"),
        with(mk_tool("slow", description, &json!({})), "optional"),
        with(mk_tool("strict", "A task or nothing.", &json!({})), "required"),
    ]})
}
