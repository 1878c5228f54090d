//! What to answer, and how badly.

use std::time::Duration;

use hyper::StatusCode;
use hyper::body::Bytes;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{Gate, Seen};
use crate::sse;

/// One answer.
#[derive(Clone, Debug)]
pub struct Answer {
    pub(super) content: Content,
    pub(super) status: Option<StatusCode>,
    pub(super) framing: Option<Framing>,
    pub(super) headers: Vec<(String, String)>,
    pub(super) steps: Vec<Step>,
}

/// How a message is put into the HTTP body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Framing {
    #[default]
    Json,
    Sse,
}

#[derive(Clone, Debug)]
pub(super) enum Content {
    /// What the little MCP server would say.
    BuiltIn,
    /// `result` or `error` with this exact text; the id is copied from the request.
    Member { name: &'static str, text: String },
    /// This exact body.
    Raw(Vec<u8>),
    /// Nothing: the connection is closed.
    HangUp,
}

/// What happens at a byte of the body.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Before the status line.
    HoldHead(Gate),
    /// After the last byte.
    Ring(Gate),
    Hold {
        at: usize,
        gate: Gate,
    },
    Cut {
        at: usize,
    },
    /// So long before each byte that is left.
    Drip(Duration),
    /// Behind the body, until the peer is gone.
    Repeat(Bytes),
}

// === impl Answer ===

impl Answer {
    /// The built-in behaviour; for the same answer, but held, cut or framed in another way.
    pub fn built_in() -> Self {
        Self::of(Content::BuiltIn)
    }

    pub fn result(result: &Value) -> Self {
        Self::result_text(&result.to_string())
    }

    /// A result with exactly this text, white space and number spelling included.
    pub fn result_text(text: &str) -> Self {
        let text = text.to_owned();
        Self::of(Content::Member {
            name: "result",
            text,
        })
    }

    /// A JSON-RPC error; HTTP 200 unless [`Answer::status`] says otherwise.
    pub fn error(code: i64, message: &str) -> Self {
        let text = json!({"code": code, "message": message}).to_string();
        Self::of(Content::Member {
            name: "error",
            text,
        })
    }

    /// A JSON-RPC error with `data`.
    pub fn error_with(code: i64, message: &str, data: &Value) -> Self {
        let text = json!({"code": code, "message": message, "data": data}).to_string();
        Self::of(Content::Member {
            name: "error",
            text,
        })
    }

    /// A body that need not be JSON, nor complete.
    pub fn raw(body: impl Into<Vec<u8>>) -> Self {
        Self::of(Content::Raw(body.into()))
    }

    /// The connection is closed without an answer.
    pub fn hang_up() -> Self {
        Self::of(Content::HangUp)
    }

    #[must_use]
    pub fn status(mut self, status: StatusCode) -> Self {
        self.status = Some(status);
        self
    }

    #[must_use]
    pub fn framed(mut self, framing: Framing) -> Self {
        self.framing = Some(framing);
        self
    }

    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Nothing is sent before the gate opens. The request was handled before: a task that the
    /// built-in behaviour makes exists while its handle is held.
    #[must_use]
    pub fn held(mut self, gate: &Gate) -> Self {
        self.steps.push(Step::HoldHead(gate.clone()));
        self
    }

    /// Rings the gate, open or not, when the last byte has been given out; see
    /// [`Gate::reached`].
    #[must_use]
    pub fn rings(mut self, gate: &Gate) -> Self {
        self.steps.push(Step::Ring(gate.clone()));
        self
    }

    /// The rest of the body from this byte on waits for the gate.
    #[must_use]
    pub fn held_at(mut self, at: usize, gate: &Gate) -> Self {
        let gate = gate.clone();
        self.steps.push(Step::Hold { at, gate });
        self
    }

    /// The connection is closed after this many bytes of the body.
    #[must_use]
    pub fn cut_at(mut self, at: usize) -> Self {
        self.steps.push(Step::Cut { at });
        self
    }

    /// The body byte by byte, each so long after the one before.
    #[must_use]
    pub fn dripping(mut self, period: Duration) -> Self {
        self.steps.push(Step::Drip(period));
        self
    }

    /// Behind the body comes this again and again, as long as somebody takes it.
    #[must_use]
    pub fn repeating(mut self, text: &str) -> Self {
        self.steps.push(Step::Repeat(text.to_owned().into()));
        self
    }

    fn of(content: Content) -> Self {
        Self {
            content,
            status: None,
            framing: None,
            headers: Vec::new(),
            steps: Vec::new(),
        }
    }

    /// With the built-in content filled in, which is made here and now.
    pub(super) fn filled(mut self, framing: Framing, built_in: impl FnOnce() -> Self) -> Self {
        if matches!(self.content, Content::BuiltIn) {
            let made = built_in();
            self.content = made.content;
            self.status = self.status.or(made.status);
            self.framing = self.framing.or(Some(framing));
        }
        self
    }

    /// Content type and body.
    pub(super) fn body(&self, seen: &Seen) -> (&'static str, Vec<u8>) {
        let message = match &self.content {
            Content::Raw(body) => body.clone(),
            Content::Member { name, text } => {
                let id = raw_id(seen);
                format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"{name}\":{text}}}").into_bytes()
            }
            Content::BuiltIn | Content::HangUp => Vec::new(),
        };
        match self.framing.unwrap_or_default() {
            Framing::Sse if matches!(self.content, Content::Member { .. }) => {
                let event = sse::event(&String::from_utf8_lossy(&message));
                ("text/event-stream", event.into_bytes())
            }
            Framing::Sse => ("text/event-stream", message),
            Framing::Json => ("application/json", message),
        }
    }
}

/// The text of the request's id, so that its type and spelling come back.
fn raw_id(seen: &Seen) -> String {
    #[derive(serde::Deserialize)]
    struct WithId<'a> {
        #[serde(borrow)]
        id: &'a RawValue,
    }
    let parsed: Result<WithId<'_>, _> = serde_json::from_slice(&seen.body);
    parsed.map_or_else(|_| "null".to_owned(), |with| with.id.get().to_owned())
}
