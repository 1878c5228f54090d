//! Requests of MCP 2026-07-28 as a correct client writes them, and how to bend them.

use serde_json::{Map, Value, json};

use hyper::body::Bytes;

/// The protocol revision of every envelope that does not say otherwise.
pub const VERSION: &str = "2026-07-28";
/// The Tasks extension.
pub const TASKS: &str = "io.modelcontextprotocol/tasks";

pub(crate) const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
pub(crate) const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";
pub(crate) const INFO_KEY: &str = "io.modelcontextprotocol/clientInfo";

/// One request: correct unless a method was called to make it wrong.
#[derive(Clone, Debug)]
pub struct Envelope {
    id: Value,
    method: String,
    params: Map<String, Value>,
    meta: Map<String, Value>,
    headers: Vec<(String, String)>,
}

/// What the client says it can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capabilities {
    None,
    Tasks,
    TasksAndElicitation,
}

// === impl Capabilities ===

impl Capabilities {
    pub fn value(self) -> Value {
        match self {
            Self::None => json!({}),
            Self::Tasks => json!({"extensions": {TASKS: {}}}),
            Self::TasksAndElicitation => {
                json!({"extensions": {TASKS: {}}, "elicitation": {"form": {}}})
            }
        }
    }
}

// === impl Envelope ===

impl Envelope {
    /// `params` is an object; its `name`, `uri` or `taskId` becomes `Mcp-Name`.
    pub fn new(method: &str, params: Value) -> Self {
        let params = match params {
            Value::Object(map) => map,
            _ => Map::new(),
        };
        let mut headers = vec![
            ("content-type".to_owned(), "application/json".to_owned()),
            (
                "accept".to_owned(),
                "application/json, text/event-stream".to_owned(),
            ),
            ("mcp-protocol-version".to_owned(), VERSION.to_owned()),
            ("mcp-method".to_owned(), method.to_owned()),
        ];
        if let Some(name) = name_of(method, &params) {
            headers.push(("mcp-name".to_owned(), name.to_owned()));
        }
        let mut meta = Map::new();
        meta.insert(VERSION_KEY.to_owned(), json!(VERSION));
        meta.insert(
            CAPABILITIES_KEY.to_owned(),
            Capabilities::TasksAndElicitation.value(),
        );
        meta.insert(
            INFO_KEY.to_owned(),
            json!({"name": "hangar-tests", "version": "0"}),
        );
        Self {
            id: json!(1),
            method: method.to_owned(),
            params,
            meta,
            headers,
        }
    }

    pub fn call(tool: &str, arguments: Value) -> Self {
        let mut params = Map::new();
        params.insert("name".to_owned(), json!(tool));
        params.insert("arguments".to_owned(), arguments);
        Self::new("tools/call", Value::Object(params))
    }

    pub fn get(task: &str) -> Self {
        Self::new("tasks/get", json!({"taskId": task}))
    }

    pub fn cancel(task: &str) -> Self {
        Self::new("tasks/cancel", json!({"taskId": task}))
    }

    /// `responses` maps input keys to result objects.
    pub fn update(task: &str, responses: &Value) -> Self {
        Self::new(
            "tasks/update",
            json!({"taskId": task, "inputResponses": responses}),
        )
    }

    #[must_use]
    pub fn id(mut self, id: Value) -> Self {
        self.id = id;
        self
    }

    #[must_use]
    pub fn capabilities(self, capabilities: Capabilities) -> Self {
        self.meta(CAPABILITIES_KEY, capabilities.value())
    }

    /// Sets one member of `_meta`.
    #[must_use]
    pub fn meta(mut self, key: &str, value: Value) -> Self {
        self.meta.insert(key.to_owned(), value);
        self
    }

    #[must_use]
    pub fn without_meta(mut self, key: &str) -> Self {
        self.meta.remove(key);
        self
    }

    /// Adds a header, also a second one of the same name.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    #[must_use]
    pub fn without_header(mut self, name: &str) -> Self {
        self.headers.retain(|(have, _)| have != name);
        self
    }

    pub fn headers(&self) -> &[(String, String)] {
        &self.headers
    }

    pub fn body(&self) -> Bytes {
        let mut params = self.params.clone();
        if !self.meta.is_empty() {
            params.insert("_meta".to_owned(), Value::Object(self.meta.clone()));
        }
        let message = json!({
            "jsonrpc": "2.0", "id": self.id, "method": self.method, "params": params,
        });
        Bytes::from(message.to_string())
    }
}

/// The value that `Mcp-Name` must have for this method, if any.
pub(crate) fn name_of<'a>(method: &str, params: &'a Map<String, Value>) -> Option<&'a str> {
    let member = match method {
        "tools/call" | "prompts/get" => "name",
        "resources/read" => "uri",
        "tasks/get" | "tasks/update" | "tasks/cancel" => "taskId",
        _ => return None,
    };
    params.get(member)?.as_str()
}
