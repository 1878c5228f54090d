//! Recorded exchanges: what a client of some SDK asked a server of some SDK, and what it was answered.
//!
//! A file of `corpus/` is the recording of one server. Its first line says what it is, every other
//! line is one exchange; messages stand in it as they were on the wire, byte for byte.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use hangar_tests::sse;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::json;

/// One file.
#[derive(Debug)]
pub struct Recording {
    /// The file's name without its ending.
    pub name: String,
    pub origin: Origin,
    pub exchanges: Vec<Exchange>,
}

/// The first line of a file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Origin {
    /// Which server was recorded, and how.
    pub origin: String,
    /// The revision that the server speaks with the gateway.
    pub revision: String,
}

/// One request and its answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exchange {
    /// Who asked, or which case a request made by hand is.
    pub run: String,
    pub ask: Ask,
    pub answer: Answer,
}

/// A request. Of `body` and `text` one at most is there.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ask {
    #[serde(default = "post", skip_serializing_if = "is_post")]
    pub verb: String,
    pub headers: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<Box<RawValue>>,
    /// A body that is not JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// An answer. Of `body`, `text` and `events` one at most is there.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    pub status: u16,
    pub headers: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<Box<RawValue>>,
    /// A body that is not JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The messages of an event stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events: Option<Vec<Box<RawValue>>>,
}

const POST: &str = "POST";
const CONTENT_TYPE: &str = "content-type";
/// Members whose values are handles, times and counters.
const MADE_UP: [&str; 7] = [
    "createdAt",
    "id",
    "io.modelcontextprotocol/subscriptionId",
    "lastUpdatedAt",
    "progressToken",
    "requestState",
    "taskId",
];
const EVENT_STREAM: &str = "text/event-stream";
/// Begins the names of files that were written and not recorded.
const MADE: &str = "made-";
const ENDING: &str = "jsonl";

/// All files, by name.
pub fn all() -> Result<Vec<Recording>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder())? {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == ENDING) {
            paths.push(path);
        }
    }
    paths.sort();
    let recordings = paths.into_iter().map(|path| {
        let text = fs::read_to_string(&path)?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        Recording::parse(&name, &text).with_context(|| format!("{}", path.display()))
    });
    recordings.collect()
}

/// Recorded exchanges that differ in more than what a server makes up and a client counts.
pub fn distinct(recordings: &[Recording]) -> usize {
    let recorded = recordings.iter().filter(|one| !one.name.starts_with(MADE));
    let exchanges = recorded.flat_map(|one| &one.exchanges);
    let keys = exchanges.map(|exchange| exchange.key(|message| json::blank(message, &MADE_UP)));
    keys.collect::<BTreeSet<_>>().len()
}

fn folder() -> PathBuf {
    hangar_tests::repository().join("tests/interop/corpus")
}

fn post() -> String {
    POST.to_owned()
}

fn is_post(verb: &str) -> bool {
    verb == POST
}

/// How a server says when it wants to be polled.
const INTERVAL: &str = r#""pollIntervalMs":"#;

// === impl Recording ===

impl Recording {
    fn parse(name: &str, text: &str) -> Result<Self> {
        let mut lines = text.lines();
        let first = lines.next().context("no first line")?;
        let exchanges = lines.enumerate().map(|(index, line)| {
            serde_json::from_str(line).with_context(|| format!("line {}", index + 2))
        });
        Ok(Self {
            name: name.to_owned(),
            origin: serde_json::from_str(first).context("line 1")?,
            exchanges: exchanges.collect::<Result<_>>()?,
        })
    }

    /// Writes the file, without the exchanges that say what an earlier one says.
    pub fn write(&self) -> Result<()> {
        let mut text = serde_json::to_string(&self.origin)?;
        text.push('\n');
        let mut keys = BTreeSet::new();
        for exchange in &self.exchanges {
            if keys.insert(exchange.key(|message| json::without(message, "id"))) {
                text.push_str(&serde_json::to_string(exchange)?);
                text.push('\n');
            }
        }
        let path = folder().join(&self.name).with_extension(ENDING);
        fs::write(&path, text).with_context(|| format!("{}", path.display()))
    }
}

// === impl Exchange ===

impl Exchange {
    /// Everything that tells it from another, with messages as they are when seen in this way.
    fn key(&self, seen: impl Fn(&str) -> String) -> String {
        let Self {
            run: _,
            ask,
            answer,
        } = self;
        let mut key = format!("{} {}", ask.verb, answer.status);
        let task = ask.param("taskId");
        for (name, value) in ask.headers.iter().chain(&answer.headers) {
            let is_handle = name == "mcp-session-id" || Some(value) == task.as_ref();
            if !is_handle {
                key.extend(["\n", name, ": ", value]);
            }
        }
        let messages = [&ask.body, &answer.body].into_iter().flatten();
        for message in messages.chain(answer.events.iter().flatten()) {
            key.push('\n');
            key.push_str(&seen(message.get()));
        }
        for text in [&ask.text, &answer.text].into_iter().flatten() {
            key.push('\n');
            key.push_str(text);
        }
        key
    }
}

// === impl Ask ===

impl Ask {
    pub fn read(verb: &str, headers: BTreeMap<String, String>, bytes: &[u8]) -> Self {
        let (body, text) = content(bytes);
        Self {
            verb: verb.to_owned(),
            headers,
            body,
            text,
        }
    }

    /// The JSON-RPC method; the HTTP method where there is none.
    pub fn method(&self) -> String {
        self.member("method").unwrap_or_else(|| self.verb.clone())
    }

    /// The text of the message's id.
    pub fn id(&self) -> Option<String> {
        json::member(self.body.as_ref()?.get(), "id")
    }

    /// The bytes of the body.
    pub fn bytes(&self) -> String {
        let body = self.body.as_ref().map(|body| body.get().to_owned());
        body.or_else(|| self.text.clone()).unwrap_or_default()
    }

    /// A string member of the message.
    pub fn member(&self, name: &str) -> Option<String> {
        let value = json::member(self.body.as_ref()?.get(), name)?;
        serde_json::from_str(&value).ok()
    }

    /// A string member of the message's `params`.
    pub fn param(&self, name: &str) -> Option<String> {
        let params = json::member(self.body.as_ref()?.get(), "params")?;
        serde_json::from_str(&json::member(&params, name)?).ok()
    }
}

// === impl Answer ===

impl Answer {
    pub fn read(status: u16, headers: BTreeMap<String, String>, bytes: &[u8]) -> Result<Self> {
        let kind = headers.get(CONTENT_TYPE).map_or("", String::as_str);
        let is_stream = kind.starts_with(EVENT_STREAM);
        let mut answer = Self {
            status,
            headers,
            body: None,
            text: None,
            events: None,
        };
        if is_stream {
            let events = sse::events(&String::from_utf8_lossy(bytes)).into_iter();
            // An event without a message is there for a client that would resume.
            let messages = events.filter(|event| !event.is_empty());
            let messages = messages.map(RawValue::from_string);
            answer.events = Some(messages.collect::<Result<_, _>>()?);
        } else {
            (answer.body, answer.text) = content(bytes);
        }
        Ok(answer)
    }

    /// What a server answers that has no recorded answer.
    pub fn unknown(ask: &Ask) -> Self {
        let body = match ask.id() {
            Some(id) => format!(
                r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":"not recorded"}}}}"#
            ),
            None => String::new(),
        };
        let (body, text) = content(body.as_bytes());
        Self {
            status: if body.is_some() { 404 } else { 202 },
            headers: BTreeMap::from([(CONTENT_TYPE.to_owned(), "application/json".to_owned())]),
            body,
            text,
            events: None,
        }
    }

    /// The bytes of the body.
    pub fn bytes(&self) -> String {
        let Self {
            status: _,
            headers: _,
            body,
            text,
            events,
        } = self;
        if let Some(events) = events {
            return events.iter().map(|event| sse::event(event.get())).collect();
        }
        let body = body.as_ref().map(|body| body.get().to_owned());
        body.or_else(|| text.clone()).unwrap_or_default()
    }

    /// The messages of the body, the reply being the last.
    pub fn messages(&self) -> Vec<String> {
        let events = self.events.iter().flatten();
        let messages = self.body.iter().chain(events);
        messages.map(|message| message.get().to_owned()).collect()
    }

    /// Whether a result came.
    pub fn is_good(&self) -> bool {
        let messages = self.messages();
        let last = messages.last();
        last.is_some_and(|last| json::member(last, "result").is_some())
    }

    /// Whether the request was refused.
    pub fn is_refusal(&self) -> bool {
        let messages = self.messages();
        let last = messages.last();
        self.status >= 400 || last.is_some_and(|last| json::member(last, "error").is_some())
    }

    /// Whether the stream is one that its client ends.
    pub fn is_open(&self) -> bool {
        let events = self.events.as_deref().unwrap_or_default();
        let is_reply = |event: &RawValue| json::member(event.get(), "id").is_some();
        !events.is_empty() && !events.iter().any(|event| is_reply(event))
    }

    /// The id of the task that came of a call.
    pub fn created(&self) -> Option<String> {
        let result = json::member(self.messages().last()?, "result")?;
        let is_task = json::member(&result, "resultType")? == r#""task""#;
        let task = json::member(&result, "taskId").filter(|_| is_task)?;
        serde_json::from_str(&task).ok()
    }

    /// As `tasks/get` would show the task that came of a call, before anything has become of it.
    #[must_use]
    pub fn as_snapshot(self) -> Self {
        self.edited(|message| match json::member(message, "result") {
            Some(result) => {
                let result = json::with(&result, "resultType", r#""complete""#);
                let result = json::with(&result, "status", r#""working""#);
                json::with(message, "result", &result)
            }
            None => message.to_owned(),
        })
    }

    /// The same answer to a request with another id.
    #[must_use]
    pub fn with_id(self, old: Option<String>, new: Option<String>) -> Self {
        let (Some(old), Some(new)) = (old, new) else {
            return self;
        };
        if old == new {
            return self;
        }
        let (old_subscription, subscription) = (subscription(&old), subscription(&new));
        self.edited(|message| {
            let message = message.replace(&old_subscription, &subscription);
            match json::member(&message, "id") {
                Some(id) if id == old => json::with(&message, "id", &new),
                _ => message,
            }
        })
    }

    /// The same answer of a server that lets its tasks be polled at any pace: what was recorded over
    /// seconds is asked for at once.
    #[must_use]
    pub fn at_any_pace(self) -> Self {
        self.edited(|message| {
            let mut parts = message.split(INTERVAL);
            let mut text = parts.next().unwrap_or_default().to_owned();
            for part in parts {
                let rest = part.trim_start_matches(|c: char| c.is_ascii_digit());
                text.extend([INTERVAL, "0", rest]);
            }
            text
        })
    }

    /// The same answer with each message edited.
    #[must_use]
    pub fn edited(mut self, edit: impl Fn(&str) -> String) -> Self {
        let messages = self.body.iter_mut().chain(self.events.iter_mut().flatten());
        for message in messages {
            if let Ok(text) = RawValue::from_string(edit(message.get())) {
                *message = text;
            }
        }
        self
    }
}

/// How a message says to which request it belongs.
fn subscription(id: &str) -> String {
    format!(r#""io.modelcontextprotocol/subscriptionId":{id}"#)
}

/// A message, or any other text.
fn content(bytes: &[u8]) -> (Option<Box<RawValue>>, Option<String>) {
    if bytes.is_empty() {
        return (None, None);
    }
    let text = String::from_utf8_lossy(bytes).into_owned();
    // A line holds one exchange, so a message of several lines is kept as text.
    let is_message = text.starts_with('{') && !text.contains('\n');
    let message = is_message.then(|| RawValue::from_string(text.clone()));
    match message {
        Some(Ok(message)) => (Some(message), None),
        Some(Err(_)) | None => (None, Some(text)),
    }
}

#[cfg(test)]
mod tests;
