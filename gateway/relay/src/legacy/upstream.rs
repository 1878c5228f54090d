//! Towards an upstream of 2025-11-25: what it is sent, and what its answers are to a client of
//! 2026-07-28.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::task::{self, Handles, Shape};
use super::{Common, Era, Error, VERSIONS, capabilities, member, without};
use crate::envelope::{self, Notification, Reply, Request, RpcError};
use crate::json::{self, Members};
use crate::method::Method;
use crate::{
    GATEWAY_NAME, GATEWAY_VERSION, META_PROGRESS_TOKEN, META_SERVER_INFO, PROTOCOL_VERSION, wire,
};

/// What an upstream of this era sends on the exchange of one request.
#[derive(Debug)]
pub enum Incoming<'a> {
    Reply(Reply<'a>),
    Notification(Notification<'a>),
    /// A request of the upstream's own.
    Asked {
        id: &'a RawValue,
        method: Cow<'a, str>,
    },
}

/// Body of `notifications/initialized`.
pub const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// Codes that 2026-07-28 retired, and what they are there.
const RETIRED: [(i64, i64); 2] = [(-32002, -32602), (-32042, -32603)];
/// Codes of upstreams that do not know `server/discover`.
const UNKNOWING: [i64; 4] = [-32700, -32602, -32601, -32600];
const UNSUPPORTED_VERSION: i64 = -32022;
const MODERN_ONLY: [i64; 2] = [-32020, -32021];

/// Body of `initialize`. No capability is declared: a question could be answered by one replica
/// only, while the request that it is about is open.
pub fn initialize(id: &RawValue) -> String {
    let version = VERSIONS[0];
    let id = id.get();
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"initialize","params":{{"protocolVersion":"{version}","capabilities":{{}},"clientInfo":{{"name":"{GATEWAY_NAME}","version":"{GATEWAY_VERSION}"}}}}}}"#
    )
}

/// The revision that an upstream chose in its result of `initialize`.
pub fn negotiated(result: &RawValue) -> Result<&'static str, Error> {
    let members = Members::of(result)?;
    let chosen = members.string("protocolVersion").unwrap_or_default();
    super::version(&chosen).ok_or(Error::Version)
}

/// Result of `server/discover`, from that of `initialize`.
pub fn discovered(result: &RawValue) -> Result<String, Error> {
    let members = Members::of(result)?;
    members.guard(&["capabilities", "instructions", "serverInfo"])?;
    let mut capabilities = match members.get("capabilities") {
        Some(raw) => capabilities(raw, &["tasks", "extensions"])?,
        None => String::new(),
    };
    if task::announced(result) {
        member(&mut capabilities, "extensions", &task::extensions());
    }
    let mut out = format!(
        r#"{{"resultType":"complete","supportedVersions":["{PROTOCOL_VERSION}"],"capabilities":{{{capabilities}}},"ttlMs":0,"cacheScope":"private""#
    );
    if let Some(raw) = members.get("instructions") {
        member(&mut out, "instructions", raw.get());
    }
    if let Some(raw) = members.get("serverInfo") {
        let info = json::quote(META_SERVER_INFO);
        member(&mut out, "_meta", &format!("{{{info}:{}}}", raw.get()));
    }
    out.push('}');
    Ok(out)
}

/// A client's request as the upstream reads it. `number` is its id within the session, and names
/// its progress too: clients of one session choose theirs without knowing each other.
pub fn request(request: &Request<'_>, number: u64) -> Result<String, Error> {
    let common = Common::of(request.params)?;
    Ok(numbered(&common, &request.method, number))
}

/// The same, of what was read already.
pub(super) fn numbered(common: &Common<'_>, method: &str, number: u64) -> String {
    let mut meta = String::new();
    for (name, value) in &common.meta {
        if name == META_PROGRESS_TOKEN && !json::is_null(value) {
            member(&mut meta, name, &number.to_string());
        } else {
            member(&mut meta, name, value.get());
        }
    }
    common.request(&number.to_string(), method, &meta)
}

/// Tells the upstream that nobody waits for this request any more.
pub fn cancelled(number: u64) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{number},"reason":"client left"}}}}"#
    )
}

/// The gateway's answer to a request of the upstream's own: it is alive, and asks nobody.
pub fn answer(id: &RawValue, method: &str) -> String {
    if method == "ping" {
        return wire::result_text(id, "{}");
    }
    let id = id.get();
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":"Method not found: this client declared no capability for it"}}}}"#
    )
}

/// Reads one message on the exchange of the request `id`.
pub fn parse_incoming<'a>(body: &'a [u8], id: &RawValue) -> Result<Incoming<'a>, envelope::Error> {
    let text =
        std::str::from_utf8(body).map_err(|_| envelope::Error::Json(json::Error::NotUtf8))?;
    let members = envelope::members(text)?;
    if let (Some(own), Some(method)) = (members.get("id"), members.string("method")) {
        return Ok(Incoming::Asked { id: own, method });
    }
    Ok(match envelope::parse_incoming(body, id)? {
        envelope::Incoming::Reply(reply, _) => Incoming::Reply(reply),
        envelope::Incoming::Notification(notification) => Incoming::Notification(notification),
    })
}

/// A notification as the client reads it: its progress under the client's own token.
pub fn notification(message: &str, token: Option<&RawValue>) -> Option<String> {
    let members = envelope::members(message).ok()?;
    if members.string("method").as_deref() != Some("notifications/progress") {
        return Some(message.to_owned());
    }
    let params = Members::of(members.get("params")?).ok()?;
    params.guard(&[META_PROGRESS_TOKEN]).ok()?;
    let told = params.get(META_PROGRESS_TOKEN)?;
    let range = json::span(message, told.get())?;
    let mut out = message.to_owned();
    out.replace_range(range, token?.get());
    Some(out)
}

/// Whether a notification of progress is about the request of this number.
pub fn is_progress_of(notification: &Notification<'_>, number: u64) -> bool {
    let params = notification.params.and_then(|raw| Members::of(raw).ok());
    let told = params.and_then(|params| params.get(META_PROGRESS_TOKEN));
    told.is_some_and(|told| {
        let number = number.to_string();
        told.get() == number || json::string(told).is_some_and(|told| *told == *number)
    })
}

/// The whole reply as a client of 2026-07-28 reads it, under its own id.
pub fn reply(
    method: Method,
    id: &RawValue,
    reply: &Reply<'_>,
    handles: Handles,
) -> Result<String, Error> {
    match reply {
        Reply::Result(raw) => {
            let result = result(method, raw, handles)?;
            Ok(wire::result_text(id, &result))
        }
        Reply::Error(error) => {
            let error = json::raw(self::error(error)?.into_owned());
            Ok(wire::rpc_error(Some(id), &error))
        }
    }
}

/// An error object without a code that was retired.
pub(super) fn error<'a>(error: &RpcError<'a>) -> Result<Cow<'a, str>, Error> {
    let code = RETIRED.into_iter().find(|(old, _)| *old == error.code);
    let Some((_, code)) = code else {
        return Ok(Cow::Borrowed(error.raw.get()));
    };
    let rest = without(&Members::of(error.raw)?, &["code"]);
    Ok(Cow::Owned(format!(r#"{{"code":{code},{rest}}}"#)))
}

/// What an answer to `server/discover` tells of an upstream; none where it tells nothing.
pub fn judge(reply: &Reply<'_>) -> Result<Option<Era>, Error> {
    match reply {
        Reply::Result(raw) => {
            let Ok(members) = Members::of(raw) else {
                return Ok(Some(Era::Legacy));
            };
            let versions = members.get("supportedVersions");
            let is_modern = members.get("resultType").is_some()
                || versions.is_some_and(|raw| lists(raw, &[PROTOCOL_VERSION]));
            Ok(Some(if is_modern { Era::Modern } else { Era::Legacy }))
        }
        Reply::Error(error) if error.code == UNSUPPORTED_VERSION => {
            let data = Members::of(error.raw)?.get("data");
            let data = data.and_then(|raw| Members::of(raw).ok());
            let supported = data.and_then(|data| data.get("supported"));
            let is_legacy = supported.is_some_and(|raw| lists(raw, &VERSIONS));
            is_legacy.then_some(Some(Era::Legacy)).ok_or(Error::Version)
        }
        Reply::Error(error) if MODERN_ONLY.contains(&error.code) => Ok(Some(Era::Modern)),
        Reply::Error(error) => {
            let is_legacy =
                UNKNOWING.contains(&error.code) || (-32019..=-32000).contains(&error.code);
            Ok(is_legacy.then_some(Era::Legacy))
        }
    }
}

/// With the members that 2026-07-28 requires. What is a breach goes on without any `resultType`, so
/// that whoever reads it sees the breach, and the task behind it.
fn result(method: Method, raw: &RawValue, handles: Handles) -> Result<String, Error> {
    if method == Method::TasksCancel {
        return task::told(raw);
    }
    let members = Members::of(raw)?;
    members.guard(&["resultType", "task", "taskId", "ttlMs", "cacheScope"])?;
    let mut out = without(&members, &["resultType", "ttlMs", "cacheScope"]);
    match task::shape(method, &members) {
        Shape::None => {}
        Shape::Nested if method == Method::ToolsCall && handles == Handles::Flat => {
            return task::handle(&members);
        }
        Shape::Nested | Shape::Flat => return Ok(format!("{{{out}}}")),
    }
    match members.string("resultType").as_deref() {
        None if members.get("resultType").is_none() => {}
        Some("complete") => {}
        Some(_) | None => return Err(Error::ResultType),
    }
    member(&mut out, "resultType", r#""complete""#);
    if method.items().is_some() || method == Method::ResourcesRead {
        member(&mut out, "ttlMs", "0");
        member(&mut out, "cacheScope", r#""private""#);
    }
    Ok(format!("{{{out}}}"))
}

fn lists(raw: &RawValue, versions: &[&str]) -> bool {
    let listed = json::array(raw, json::MAX_MEMBERS).unwrap_or_default();
    let mut listed = listed.into_iter().filter_map(json::string);
    listed.any(|version| versions.contains(&&*version))
}
