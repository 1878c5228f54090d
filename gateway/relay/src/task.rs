//! What an upstream says of a task: handles, snapshots, acknowledgements, questions.
//!
//! Payload members that a status does not have are refused, not ignored: a `working` task with
//! a `result` in it would hand that over without a look at the tool's contract.

use std::borrow::Cow;
use std::fmt;

use hangar_wire::Sha256Hex;
use serde_json::value::RawValue;

use crate::json::{self, Members};
use crate::params::{Capabilities, Declared, MAX_TASK_ID_BYTES};

/// Why an answer of an upstream about a task is a breach of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("result cannot be read")]
    Json(#[source] json::Error),
    #[error("result has an unknown resultType or none")]
    ResultType,
    /// The shape of 2025-11-25.
    #[error("task is nested")]
    Nested,
    #[error("taskId is missing, empty or too long")]
    TaskId,
    #[error("answer is about another task")]
    OtherTask,
    #[error("status is missing or unknown")]
    Status,
    #[error("a time is missing or out of bounds")]
    Time,
    #[error("ttlMs or pollIntervalMs is no natural number")]
    Duration,
    #[error("payload of the status is missing")]
    MissingPayload,
    #[error("payload of another status is there")]
    StrayPayload,
    #[error("inputRequests cannot be read or are out of bounds")]
    InputRequests,
}

/// `TaskStatus` of the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    Working,
    InputRequired,
    Completed,
    Failed,
    Cancelled,
}

/// The Task fields that are stored; texts and numbers as the upstream gave them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    pub task_id: String,
    pub status: Status,
    pub created_at: String,
    pub last_updated_at: String,
    /// None: unlimited; also where the upstream left it out.
    pub ttl_ms: Option<u64>,
    pub poll_interval_ms: Option<u64>,
}

/// What a result of `tools/call` is.
#[derive(Debug)]
pub enum Outcome {
    Complete {
        /// The tool itself failed.
        is_error: bool,
    },
    /// A round of questions before anything ran; no task.
    InputRequired,
    Task(Snapshot),
    Invalid(Error),
}

/// A result of `tasks/get`.
pub struct Polled<'a> {
    pub snapshot: Snapshot,
    /// The whole result, to be served as it came.
    pub raw: &'a RawValue,
    pub payload: Payload<'a>,
}

/// What the status brings along; handed over only after the contract was verified.
pub enum Payload<'a> {
    /// `working` and `cancelled`.
    None,
    Completed {
        result: &'a RawValue,
    },
    Failed {
        error: &'a RawValue,
    },
    InputRequired {
        requests: Vec<Question<'a>>,
    },
}

/// One outstanding request for input.
#[derive(Clone)]
pub struct Question<'a> {
    pub key: Cow<'a, str>,
    pub method: Cow<'a, str>,
    pub raw: &'a RawValue,
    /// SHA-256 over the RFC 8785 form of the whole request.
    pub hash: Sha256Hex,
    pub needs: Needs,
}

/// The capability that a client needs to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    ElicitationForm,
    ElicitationUrl,
    Sampling,
    Roots,
    /// A method that this revision does not have; nobody can declare it.
    Unknown,
}

/// Most questions outstanding at once.
pub const MAX_OUTSTANDING: usize = 32;
/// Longest key of a question, in bytes.
pub const MAX_KEY_BYTES: usize = 512;
/// Longest time text, in bytes.
pub const MAX_TIME_BYTES: usize = 64;

const NAMES: [&str; 11] = [
    "resultType",
    "task",
    "taskId",
    "status",
    "createdAt",
    "lastUpdatedAt",
    "ttlMs",
    "pollIntervalMs",
    "result",
    "error",
    "inputRequests",
];

/// Tells what a result of `tools/call` is; only `resultType` decides.
pub fn classify(result: &RawValue) -> Outcome {
    match outcome(result) {
        Ok(outcome) => outcome,
        Err(error) => Outcome::Invalid(error),
    }
}

/// The taskId of a handle that is not valid, for the cancel that is sent on suspicion.
pub fn suspected_id(result: &RawValue) -> Option<String> {
    let members = Members::of(result).ok()?;
    let nested = members.get("task").and_then(|raw| Members::of(raw).ok());
    let id = members
        .string("taskId")
        .or_else(|| nested.and_then(|task| task.string("taskId")))?;
    (!id.is_empty() && id.len() <= MAX_TASK_ID_BYTES).then(|| id.into_owned())
}

/// Whether a result says that it is a handle, where none may be.
pub fn claims_one(result: &RawValue) -> bool {
    let members = Members::of(result);
    members.is_ok_and(|members| members.string("resultType").as_deref() == Some("task"))
}

/// Reads a result of `tasks/get` for the task `asked`.
pub fn polled<'a>(result: &'a RawValue, asked: &str) -> Result<Polled<'a>, Error> {
    let members = members(result)?;
    if members.string("resultType").as_deref() != Some("complete") {
        return Err(Error::ResultType);
    }
    // The shape of 2025-11-25 beside ours: a payload that nobody would look at.
    if members.get("task").is_some_and(json::is_object) {
        return Err(Error::Nested);
    }
    let snapshot = snapshot(&members)?;
    if snapshot.task_id != asked {
        return Err(Error::OtherTask);
    }
    let payload = payload(&members, snapshot.status)?;
    Ok(Polled {
        snapshot,
        raw: result,
        payload,
    })
}

/// Reads an acknowledgement of `tasks/update` or `tasks/cancel`.
///
/// Caveats: further members are ignored, since the gateway's own empty one is what is served.
pub fn acknowledged(result: &RawValue) -> Result<(), Error> {
    let members = members(result)?;
    match members.string("resultType").as_deref() {
        Some("complete") => Ok(()),
        _ => Err(Error::ResultType),
    }
}

// === impl Error ===

impl Error {
    /// Closed word for metrics and logs.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Json(error) => error.reason(),
            Self::ResultType => "result_type",
            Self::Nested => "nested_task",
            Self::TaskId => "task_id",
            Self::OtherTask => "other_task",
            Self::Status => "status",
            Self::Time => "time",
            Self::Duration => "duration",
            Self::MissingPayload => "missing_payload",
            Self::StrayPayload => "stray_payload",
            Self::InputRequests => "input_requests",
        }
    }
}

// === impl Status ===

impl Status {
    pub const ALL: [Self; 5] = [
        Self::Working,
        Self::InputRequired,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
    ];

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == text)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::InputRequired => "input_required",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    pub fn is_terminal(self) -> bool {
        match self {
            Self::Completed | Self::Failed | Self::Cancelled => true,
            Self::Working | Self::InputRequired => false,
        }
    }
}

// === impl Polled ===

impl fmt::Debug for Polled<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Polled")
            .field("status", &self.snapshot.status)
            .finish_non_exhaustive()
    }
}

// === impl Payload ===

impl fmt::Debug for Payload<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "None",
            Self::Completed { .. } => "Completed",
            Self::Failed { .. } => "Failed",
            Self::InputRequired { .. } => "InputRequired",
        })
    }
}

// === impl Question ===

impl fmt::Debug for Question<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Question")
            .field("hash", &self.hash)
            .field("needs", &self.needs)
            .finish_non_exhaustive()
    }
}

// === impl Needs ===

impl Needs {
    /// Whether a client that declares this can answer.
    pub fn met_by(self, capabilities: &Capabilities<'_>) -> Declared {
        match self {
            Self::ElicitationForm => capabilities.elicitation_form,
            Self::ElicitationUrl => capabilities.elicitation_url,
            Self::Sampling => capabilities.sampling,
            Self::Roots => capabilities.roots,
            Self::Unknown => Declared::No,
        }
    }
}

fn outcome(result: &RawValue) -> Result<Outcome, Error> {
    let members = members(result)?;
    match members.string("resultType").as_deref() {
        Some("complete") => {
            refuse_handle(&members)?;
            let is_error = members
                .get("isError")
                .is_some_and(|raw| raw.get() == "true");
            Ok(Outcome::Complete { is_error })
        }
        Some("input_required") => {
            refuse_handle(&members)?;
            Ok(Outcome::InputRequired)
        }
        Some("task") => {
            if members.get("task").is_some() {
                return Err(Error::Nested);
            }
            let snapshot = snapshot(&members)?;
            refuse_payload(&members, &["result", "error", "inputRequests"])?;
            Ok(Outcome::Task(snapshot))
        }
        None if members.get("task").is_some() => Err(Error::Nested),
        Some(_) | None => Err(Error::ResultType),
    }
}

/// A handle of 2025-11-25 in disguise would leave an ungoverned task behind. What cannot be read here may
/// be one to somebody else.
pub(crate) fn refuse_handle(result: &Members<'_>) -> Result<(), Error> {
    let Some(task) = result.get("task").filter(|raw| json::is_object(raw)) else {
        return Ok(());
    };
    match members(task) {
        Ok(task) if task.get("taskId").is_none() => Ok(()),
        Ok(_) | Err(_) => Err(Error::Nested),
    }
}

/// The payload of a completed task is neither a handle nor a question: it is judged as an end.
fn refuse_more(result: &RawValue) -> Result<(), Error> {
    let members = members(result)?;
    refuse_handle(&members)?;
    match members.get("resultType").map(json::string) {
        None => Ok(()),
        Some(Some(text)) if text == "complete" => Ok(()),
        Some(_) => Err(Error::ResultType),
    }
}

fn members(result: &RawValue) -> Result<Members<'_>, Error> {
    let members = Members::of(result).map_err(Error::Json)?;
    members.guard(&NAMES).map_err(Error::Json)?;
    Ok(members)
}

fn snapshot(members: &Members<'_>) -> Result<Snapshot, Error> {
    let task_id = members.string("taskId").ok_or(Error::TaskId)?;
    if task_id.is_empty() || task_id.len() > MAX_TASK_ID_BYTES {
        return Err(Error::TaskId);
    }
    let status = members.string("status").ok_or(Error::Status)?;
    Ok(Snapshot {
        task_id: task_id.into_owned(),
        status: Status::parse(&status).ok_or(Error::Status)?,
        created_at: time(members, "createdAt")?,
        last_updated_at: time(members, "lastUpdatedAt")?,
        ttl_ms: milliseconds(members, "ttlMs")?,
        poll_interval_ms: milliseconds(members, "pollIntervalMs")?,
    })
}

fn time(members: &Members<'_>, name: &str) -> Result<String, Error> {
    let time = members.string(name).ok_or(Error::Time)?;
    let is_plain = time.bytes().all(|byte| byte.is_ascii_graphic());
    if time.is_empty() || time.len() > MAX_TIME_BYTES || !is_plain {
        return Err(Error::Time);
    }
    Ok(time.into_owned())
}

fn milliseconds(members: &Members<'_>, name: &str) -> Result<Option<u64>, Error> {
    match present(members, name) {
        Some(raw) => json::unsigned(raw).map(Some).ok_or(Error::Duration),
        None => Ok(None),
    }
}

fn payload<'a>(members: &Members<'a>, status: Status) -> Result<Payload<'a>, Error> {
    let required = |name| present(members, name).ok_or(Error::MissingPayload);
    match status {
        Status::Working | Status::Cancelled => {
            refuse_payload(members, &["result", "error", "inputRequests"])?;
            refuse_hidden(members)?;
            Ok(Payload::None)
        }
        Status::Completed => {
            refuse_payload(members, &["error", "inputRequests"])?;
            let result = required("result")?;
            if !json::is_object(result) {
                return Err(Error::MissingPayload);
            }
            refuse_more(result)?;
            Ok(Payload::Completed { result })
        }
        Status::Failed => {
            refuse_payload(members, &["result", "inputRequests"])?;
            let error = required("error")?;
            if !json::is_object(error) {
                return Err(Error::MissingPayload);
            }
            Ok(Payload::Failed { error })
        }
        Status::InputRequired => {
            refuse_payload(members, &["result", "error"])?;
            let requests = questions(required("inputRequests")?)?;
            if requests.is_empty() {
                return Err(Error::MissingPayload);
            }
            Ok(Payload::InputRequired { requests })
        }
    }
}

/// A member that is there and not `null`: some serialisers write what is absent.
fn present<'a>(members: &Members<'a>, name: &str) -> Option<&'a RawValue> {
    members.get(name).filter(|raw| !json::is_null(raw))
}

fn refuse_payload(members: &Members<'_>, names: &[&str]) -> Result<(), Error> {
    if names.iter().any(|name| present(members, name).is_some()) {
        return Err(Error::StrayPayload);
    }
    Ok(())
}

/// Nor is a payload in the shape of a result of its own, or where a line of text belongs. Some servers write
/// a content of nothing.
fn refuse_hidden(members: &Members<'_>) -> Result<(), Error> {
    refuse_payload(members, &["structuredContent"])?;
    let has_content = present(members, "content").is_some_and(|raw| json::array(raw, 0).is_err());
    let message = present(members, "statusMessage");
    if has_content || message.is_some_and(|raw| json::string(raw).is_none()) {
        return Err(Error::StrayPayload);
    }
    Ok(())
}

fn questions(raw: &RawValue) -> Result<Vec<Question<'_>>, Error> {
    let members = Members::of(raw).map_err(|_| Error::InputRequests)?;
    if members.len() > MAX_OUTSTANDING {
        return Err(Error::InputRequests);
    }
    members
        .iter()
        .map(|(key, raw)| question(key.clone(), raw).ok_or(Error::InputRequests))
        .collect()
}

fn question<'a>(key: Cow<'a, str>, raw: &'a RawValue) -> Option<Question<'a>> {
    if key.is_empty() || key.len() > MAX_KEY_BYTES {
        return None;
    }
    let members = Members::of(raw).ok()?;
    members.guard(&["method", "params"]).ok()?;
    let method = members.string("method")?;
    let needs = match &*method {
        "elicitation/create" => elicitation_mode(members.get("params")?)?,
        "sampling/createMessage" => Needs::Sampling,
        "roots/list" => Needs::Roots,
        _ => Needs::Unknown,
    };
    Some(Question {
        key,
        method,
        raw,
        hash: json::canonical_hash(raw).ok()?,
        needs,
    })
}

/// The mode of an elicitation; the form mode where none is named.
fn elicitation_mode(params: &RawValue) -> Option<Needs> {
    let members = Members::of(params).ok()?;
    members.guard(&["mode"]).ok()?;
    match members.get("mode") {
        None => Some(Needs::ElicitationForm),
        Some(mode) => match &*json::string(mode)? {
            "form" => Some(Needs::ElicitationForm),
            "url" => Some(Needs::ElicitationUrl),
            _ => None,
        },
    }
}

#[cfg(test)]
mod tests;
