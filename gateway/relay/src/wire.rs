//! What the gateway itself answers: the table of errors, and bodies around raw values.

use std::borrow::Cow;
use std::fmt::{self, Write as _};

use http::StatusCode;
use serde_json::value::RawValue;

use crate::task::{Snapshot, Status};
use crate::{PROTOCOL_VERSION, envelope, headers, json, mirror, params};

mod table;

pub use table::{Failure, Kind};

/// One answer with an error in it.
#[derive(Clone)]
pub struct WireError {
    pub status: StatusCode,
    pub code: i64,
    pub message: Cow<'static, str>,
    pub data: Option<Box<RawValue>>,
    pub kind: Kind,
    /// Closed word for metrics and logs: that of the kind.
    pub reason: &'static str,
    /// Seconds until another try may help (RFC 9110, `Retry-After`).
    pub retry_after: Option<u64>,
}

/// Member of `_meta` that says how old a task from the ledger is, in milliseconds.
pub const META_AGE: &str = "hangar.dev/ageMs";

/// Body of a successful reply. `id` and `result` go in as they are.
pub fn result(id: &RawValue, result: &RawValue) -> String {
    result_text(id, result.get())
}

/// The same around the text of a result that this crate put together.
pub fn result_text(id: &RawValue, result: &str) -> String {
    [
        r#"{"jsonrpc":"2.0","id":"#,
        id.get(),
        r#","result":"#,
        result,
        "}",
    ]
    .concat()
}

/// Body of an error reply; no id where the request's could not be read.
pub fn error(id: Option<&RawValue>, error: &WireError) -> String {
    rpc_error(id, &error.object())
}

/// Body of an error reply around an upstream's own error object.
pub fn rpc_error(id: Option<&RawValue>, error: &RawValue) -> String {
    [
        r#"{"jsonrpc":"2.0","id":"#,
        id.map_or("null", RawValue::get),
        r#","error":"#,
        error.get(),
        "}",
    ]
    .concat()
}

/// The HTTP status of an upstream's error that is passed on. The protocol ties one to some codes, and
/// an upstream's own status is not to be had once its reply came in a stream.
pub fn relayed_status(code: i64) -> StatusCode {
    let tied = [
        Kind::UnknownMethod,
        Kind::HeaderMismatch,
        Kind::MissingCapability,
        Kind::UnsupportedVersion,
    ];
    tied.into_iter()
        .find(|kind| kind.code() == code)
        .map_or(StatusCode::OK, Kind::status)
}

/// The empty acknowledgement of `tasks/update` and `tasks/cancel`.
pub fn ack() -> Box<RawValue> {
    json::raw(r#"{"resultType":"complete"}"#.to_owned())
}

/// A `FailedTask` that the gateway made: original times, no result.
pub fn failed_task(snapshot: &Snapshot, failure: Failure) -> Box<RawValue> {
    let mut out = task_head(snapshot, Status::Failed);
    out.push_str(r#","statusMessage":"#);
    json::quote_into(&mut out, failure.message());
    push(
        &mut out,
        format_args!(r#","error":{{"code":{},"message":"#, failure.code()),
    );
    json::quote_into(&mut out, failure.message());
    out.push_str(r#","data":{"reason":"#);
    json::quote_into(&mut out, failure.reason());
    out.push_str("}}}");
    json::raw(out)
}

/// A task without payload as the ledger knows it: what is served of a `working` or `cancelled`
/// one while its upstream cannot be asked. `age_ms` is the time since the upstream was last heard.
pub fn plain_task(snapshot: &Snapshot, age_ms: Option<u64>) -> Box<RawValue> {
    let mut out = task_head(snapshot, snapshot.status);
    if let Some(age_ms) = age_ms {
        push(
            &mut out,
            format_args!(r#","_meta":{{"{META_AGE}":{age_ms}}}"#),
        );
    }
    out.push('}');
    json::raw(out)
}

// === impl WireError ===

impl WireError {
    /// A parameter was refused; `what` is a text of ours, never one of the client's.
    pub fn invalid_params(what: impl fmt::Display) -> Self {
        Self::from(Kind::InvalidParams).because(what)
    }

    /// The request did not declare the tasks extension and needs it.
    pub fn missing_tasks() -> Self {
        Self::from(Kind::MissingCapability).with_data(
            r#"{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}"#
                .to_owned(),
        )
    }

    /// The request is of a revision that is not spoken.
    pub fn unsupported_version(requested: &str) -> Self {
        let requested = json::quote(requested);
        Self::from(Kind::UnsupportedVersion).with_data(format!(
            r#"{{"supported":["{PROTOCOL_VERSION}"],"requested":{requested}}}"#
        ))
    }

    /// No permitted upstream has this resource; the URI is the client's own.
    pub fn resource_not_found(uri: &str) -> Self {
        let uri = json::quote(uri);
        Self::from(Kind::ResourceNotFound).with_data(format!(r#"{{"uri":{uri}}}"#))
    }

    /// The upstream cannot be asked, and the ledger alone may not answer for this status.
    pub fn unavailable(status: Option<Status>) -> Self {
        Self::from(Kind::Unavailable).with_status(status)
    }

    /// The task exists, and what it holds may not be handed over.
    pub fn withheld(status: Option<Status>) -> Self {
        Self::from(Kind::Withheld).with_status(status)
    }

    /// The `error` object of the reply.
    pub fn object(&self) -> Box<RawValue> {
        let mut out = format!(r#"{{"code":{},"message":"#, self.code);
        json::quote_into(&mut out, &self.message);
        if let Some(data) = &self.data {
            out.push_str(r#","data":"#);
            out.push_str(data.get());
        }
        out.push('}');
        json::raw(out)
    }

    /// Says when to come back, in seconds.
    #[must_use]
    pub fn retry_after(mut self, seconds: Option<u64>) -> Self {
        self.retry_after = seconds;
        self
    }

    /// Says more in the message; `what` is a text of ours, never one of a client or an upstream.
    #[must_use]
    pub fn because(mut self, what: impl fmt::Display) -> Self {
        self.message = format!("{}: {what}", self.message).into();
        self
    }

    fn with_data(mut self, data: String) -> Self {
        self.data = Some(json::raw(data));
        self
    }

    fn with_status(self, status: Option<Status>) -> Self {
        let reason = self.reason;
        match status {
            Some(status) => self.with_data(format!(
                r#"{{"reason":"{reason}","status":"{}"}}"#,
                status.as_str()
            )),
            None => self,
        }
    }
}

impl From<Kind> for WireError {
    fn from(kind: Kind) -> Self {
        let (code, reason) = (kind.code(), kind.reason());
        // Private codes mean nothing to a client that has not read our table.
        let is_private = !(-32768..=-32000).contains(&code);
        Self {
            status: kind.status(),
            code,
            message: kind.message().into(),
            data: is_private.then(|| json::raw(format!(r#"{{"reason":"{reason}"}}"#))),
            kind,
            reason,
            retry_after: matches!(kind, Kind::NotReady | Kind::Overloaded).then_some(1),
        }
    }
}

impl From<envelope::Error> for WireError {
    fn from(error: envelope::Error) -> Self {
        let kind = match error {
            envelope::Error::Json(json::Error::Syntax | json::Error::NotUtf8) => Kind::Parse,
            _ => Kind::InvalidRequest,
        };
        let because = match error {
            envelope::Error::Json(source) => source.to_string(),
            other => other.to_string(),
        };
        Self::from(kind).because(because)
    }
}

impl From<params::Error> for WireError {
    fn from(error: params::Error) -> Self {
        match error {
            params::Error::MissingMeta(_) => Self::from(Kind::MissingMeta).because(error),
            params::Error::Json { member, source } => {
                Self::invalid_params(format_args!("{member}: {source}"))
            }
            params::Error::Member(_) | params::Error::Bounds(_) => Self::invalid_params(error),
        }
    }
}

impl From<headers::Error> for WireError {
    fn from(error: headers::Error) -> Self {
        Self::from(Kind::HeaderMismatch).because(error)
    }
}

impl From<mirror::Error> for WireError {
    fn from(error: mirror::Error) -> Self {
        Self::from(Kind::HeaderMismatch).because(error)
    }
}

impl fmt::Debug for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WireError")
            .field("code", &self.code)
            .field("status", &self.status)
            .field("reason", &self.reason)
            .finish_non_exhaustive()
    }
}

/// A `DetailedTask` up to its last common member, without the closing brace.
fn task_head(snapshot: &Snapshot, status: Status) -> String {
    let Snapshot {
        task_id,
        status: _,
        created_at,
        last_updated_at,
        ttl_ms,
        poll_interval_ms,
    } = snapshot;
    let mut out = String::from(r#"{"resultType":"complete","taskId":"#);
    json::quote_into(&mut out, task_id);
    push(
        &mut out,
        format_args!(r#","status":"{}","createdAt":"#, status.as_str()),
    );
    json::quote_into(&mut out, created_at);
    out.push_str(r#","lastUpdatedAt":"#);
    json::quote_into(&mut out, last_updated_at);
    match ttl_ms {
        Some(ttl_ms) => push(&mut out, format_args!(r#","ttlMs":{ttl_ms}"#)),
        None => out.push_str(r#","ttlMs":null"#),
    }
    if let Some(poll_interval_ms) = poll_interval_ms {
        push(
            &mut out,
            format_args!(r#","pollIntervalMs":{poll_interval_ms}"#),
        );
    }
    out
}

fn push(out: &mut String, text: fmt::Arguments<'_>) {
    // Writing to a `String` cannot fail.
    let _ = out.write_fmt(text);
}

#[cfg(test)]
mod tests;
