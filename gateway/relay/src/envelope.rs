//! The JSON-RPC envelope, borrowed from the body, with raw members.

use std::borrow::Cow;
use std::fmt;

use serde_json::value::RawValue;

use crate::json::{self, Members};

/// Why a message is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Not JSON, or JSON that cannot be read safely.
    #[error("message cannot be read")]
    Json(#[source] json::Error),
    #[error("message is a batch")]
    Batch,
    #[error("message is not of JSON-RPC 2.0")]
    Version,
    #[error("id is neither a string nor an integer")]
    Id,
    #[error("message has no method")]
    Method,
    #[error("params are no object")]
    Params,
    /// A request from a client holds `result` or `error`, or the reverse.
    #[error("message mixes a request and a reply")]
    Mixed,
    /// The reply has neither `result` nor `error`, or an error without a code.
    #[error("reply has no outcome")]
    NoOutcome,
    /// The reply is to another request, or to none.
    #[error("reply has the id of another request")]
    ForeignId,
}

/// What a client sent.
#[derive(Debug)]
pub enum Message<'a> {
    Request(Request<'a>),
    Notification(Notification<'a>),
}

#[derive(Clone)]
pub struct Request<'a> {
    /// The body that all other members are parts of.
    pub body: &'a str,
    /// A string or an integer, with the bytes that were sent.
    pub id: &'a RawValue,
    pub method: Cow<'a, str>,
    pub params: Option<&'a RawValue>,
}

#[derive(Clone)]
pub struct Notification<'a> {
    pub method: Cow<'a, str>,
    pub params: Option<&'a RawValue>,
}

/// What an upstream sent on the exchange of one request.
#[derive(Debug)]
pub enum Incoming<'a> {
    Reply(Reply<'a>, Echo),
    Notification(Notification<'a>),
}

/// How a reply carries the id of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Echo {
    /// Byte for byte: the message may go on as it is.
    Exact,
    /// In another spelling or type.
    Loose,
}

/// The outcome of a request.
#[derive(Clone)]
pub enum Reply<'a> {
    Result(&'a RawValue),
    Error(RpcError<'a>),
}

/// A JSON-RPC error object.
#[derive(Clone, Copy)]
pub struct RpcError<'a> {
    pub code: i64,
    /// The whole object.
    pub raw: &'a RawValue,
}

/// Longest id, in bytes of JSON text.
pub const MAX_ID_BYTES: usize = 1024;

const NAMES: [&str; 6] = ["jsonrpc", "id", "method", "params", "result", "error"];

/// Reads what a client sent.
pub fn parse(body: &[u8]) -> Result<Message<'_>, Error> {
    let body = std::str::from_utf8(body).map_err(|_| Error::Json(json::Error::NotUtf8))?;
    json::check_depth(body).map_err(Error::Json)?;
    let members = members(body)?;
    if members.get("result").is_some() || members.get("error").is_some() {
        return Err(Error::Mixed);
    }
    let Some(id) = members.get("id") else {
        return notification(&members).map(Message::Notification);
    };
    if !is_id(id) {
        return Err(Error::Id);
    }
    let Notification { method, params } = notification(&members)?;
    Ok(Message::Request(Request {
        body,
        id,
        method,
        params,
    }))
}

/// Reads what an upstream sent for the request `id`.
///
/// Caveats: nesting is not bounded here; what is read of a result is read one level at a time.
pub fn parse_incoming<'a>(body: &'a [u8], id: &RawValue) -> Result<Incoming<'a>, Error> {
    let body = std::str::from_utf8(body).map_err(|_| Error::Json(json::Error::NotUtf8))?;
    let members = members(body)?;
    if members.get("method").is_some() {
        // A request from the upstream has no place on this wire.
        if members.get("id").is_some() || members.get("result").is_some() {
            return Err(Error::Mixed);
        }
        return notification(&members).map(Incoming::Notification);
    }
    let reply = match (members.get("result"), members.get("error")) {
        (Some(result), None) if json::is_object(result) => Reply::Result(result),
        (None, Some(error)) => Reply::Error(rpc_error(error)?),
        (Some(_), Some(_)) => return Err(Error::Mixed),
        (Some(_) | None, None) => return Err(Error::NoOutcome),
    };
    let echoed = members.get("id").ok_or(Error::ForeignId)?;
    if !same_id(id, echoed) {
        return Err(Error::ForeignId);
    }
    let echo = if id.get() == echoed.get() {
        Echo::Exact
    } else {
        Echo::Loose
    };
    Ok(Incoming::Reply(reply, echo))
}

/// Reads a JSON body that must be the reply to the request `id`.
pub fn parse_reply<'a>(body: &'a [u8], id: &RawValue) -> Result<(Reply<'a>, Echo), Error> {
    match parse_incoming(body, id)? {
        Incoming::Reply(reply, echo) => Ok((reply, echo)),
        Incoming::Notification(_) => Err(Error::NoOutcome),
    }
}

/// The id of a message, as it was sent.
pub fn id_of(text: &str) -> Option<&RawValue> {
    Members::parse(text).ok()?.get("id")
}

/// Whether a reply's id answers a request's: equal, or a number that came back as a string of
/// the same digits, or the reverse. Nothing else does.
pub fn same_id(sent: &RawValue, echoed: &RawValue) -> bool {
    match (id_text(sent), id_text(echoed)) {
        (Some(sent), Some(echoed)) => sent == echoed,
        _ => false,
    }
}

// === impl Error ===

impl Error {
    /// Closed word for metrics and logs.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Json(error) => error.reason(),
            Self::Batch => "batch",
            Self::Version => "jsonrpc_version",
            Self::Id => "bad_id",
            Self::Method => "no_method",
            Self::Params => "bad_params",
            Self::Mixed => "mixed",
            Self::NoOutcome => "no_outcome",
            Self::ForeignId => "foreign_id",
        }
    }
}

// === impl Request ===

impl fmt::Debug for Request<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("method", &self.method)
            .finish_non_exhaustive()
    }
}

// === impl Notification ===

impl fmt::Debug for Notification<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notification")
            .field("method", &self.method)
            .finish_non_exhaustive()
    }
}

// === impl Reply ===

impl fmt::Debug for Reply<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Result(_) => f.write_str("Result(..)"),
            Self::Error(error) => error.fmt(f),
        }
    }
}

// === impl RpcError ===

impl fmt::Debug for RpcError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RpcError")
            .field("code", &self.code)
            .finish_non_exhaustive()
    }
}

pub(crate) fn members(body: &str) -> Result<Members<'_>, Error> {
    let members = Members::parse(body).map_err(|error| match error {
        json::Error::NotObject if body.trim_start().starts_with('[') => Error::Batch,
        other => Error::Json(other),
    })?;
    members.guard(&NAMES).map_err(Error::Json)?;
    if members.string("jsonrpc").as_deref() != Some("2.0") {
        return Err(Error::Version);
    }
    Ok(members)
}

fn notification<'a>(members: &Members<'a>) -> Result<Notification<'a>, Error> {
    let method = members.string("method").ok_or(Error::Method)?;
    let params = members.get("params");
    if params.is_some_and(|params| !json::is_object(params)) {
        return Err(Error::Params);
    }
    Ok(Notification { method, params })
}

fn rpc_error(raw: &RawValue) -> Result<RpcError<'_>, Error> {
    let members = Members::of(raw).map_err(Error::Json)?;
    members
        .guard(&["code", "message", "data"])
        .map_err(Error::Json)?;
    let code = members.get("code").and_then(json::integer);
    match (code, members.string("message")) {
        (Some(code), Some(_)) => Ok(RpcError { code, raw }),
        _ => Err(Error::NoOutcome),
    }
}

fn is_id(raw: &RawValue) -> bool {
    raw.get().len() <= MAX_ID_BYTES && id_text(raw).is_some()
}

/// An id without its type.
fn id_text(raw: &RawValue) -> Option<Cow<'_, str>> {
    let text = raw.get();
    let digits = text.strip_prefix('-').unwrap_or(text);
    if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(Cow::Borrowed(text));
    }
    json::string(raw)
}

#[cfg(test)]
mod tests;
