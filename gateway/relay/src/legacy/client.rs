//! For a client of 2025-11-25: its requests as those of 2026-07-28, and results in its own shape.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::{Common, Error, VERSIONS, capabilities, member, without};
use crate::contract::MAX_TOOLS;
use crate::envelope::Request;
use crate::json::{self, Members};
use crate::method::Method;
use crate::rewrite::gateway_meta_without_tasks;
use crate::{GATEWAY_NAME, GATEWAY_VERSION, META_PROTOCOL_VERSION};

/// What a client of this era asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// With the revision that is answered.
    Initialize(&'static str),
    Ping,
    Relayed(Method),
}

/// Members that only results of 2026-07-28 have.
const NOT_RESULT: [&str; 3] = ["resultType", "ttlMs", "cacheScope"];
/// Capabilities that a client without a session has no use of: its log level would have to be
/// remembered, and tasks are not of its revision.
const NOT_CAPABILITIES: [&str; 2] = ["logging", "extensions"];

/// Whether the request says itself that it is of 2026-07-28.
pub fn has_envelope(request: &Request<'_>) -> bool {
    let params = request.params.and_then(|raw| Members::of(raw).ok());
    let meta = params.and_then(|params| params.get("_meta"));
    let meta = meta.and_then(|raw| Members::of(raw).ok());
    meta.is_some_and(|meta| meta.get(META_PROTOCOL_VERSION).is_some())
}

/// What is asked for; none for a method that this era does not have here.
pub fn asked(request: &Request<'_>) -> Option<Asked> {
    match &*request.method {
        "initialize" => {
            let params = request.params.and_then(|raw| Members::of(raw).ok());
            let wanted = params.and_then(|params| params.string("protocolVersion"));
            let spoken = wanted.and_then(|wanted| super::version(&wanted));
            Some(Asked::Initialize(spoken.unwrap_or(VERSIONS[0])))
        }
        "ping" => Some(Asked::Ping),
        method => match Method::parse(method)? {
            Method::Discover | Method::Listen => None,
            method if method.is_task() => None,
            method => Some(Asked::Relayed(method)),
        },
    }
}

/// The request with the envelope of 2026-07-28; no capability is declared in it.
pub fn request(request: &Request<'_>) -> Result<String, Error> {
    let common = Common::of(request.params)?;
    let mut meta = gateway_meta_without_tasks();
    for (name, value) in &common.meta {
        member(&mut meta, name, value.get());
    }
    Ok(common.request(request.id.get(), &request.method, &meta))
}

/// The `server/discover` that answers an `initialize` of this id.
pub fn discover(id: &RawValue) -> String {
    let (id, meta) = (id.get(), gateway_meta_without_tasks());
    let method = Method::Discover;
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{"_meta":{{{meta}}}}}}}"#)
}

/// Result of `initialize`, from that of `server/discover`.
pub fn initialized(version: &str, discovered: &RawValue) -> Result<String, Error> {
    let members = Members::of(discovered)?;
    let capabilities = match members.get("capabilities") {
        Some(raw) => capabilities(raw, &NOT_CAPABILITIES)?,
        None => String::new(),
    };
    let mut out = format!(
        r#"{{"protocolVersion":"{version}","capabilities":{{{capabilities}}},"serverInfo":{{"name":"{GATEWAY_NAME}","version":"{GATEWAY_VERSION}"}}"#
    );
    if let Some(raw) = members.get("instructions") {
        member(&mut out, "instructions", raw.get());
    }
    out.push('}');
    Ok(out)
}

/// A result as this era has it.
pub fn result(method: Method, raw: &RawValue) -> Result<String, Error> {
    let members = Members::of(raw)?;
    match members.string("resultType").as_deref() {
        Some("complete") | None => {}
        Some("input_required") => return Err(Error::Asks),
        Some("task") => return Err(Error::Task),
        Some(_) => return Err(Error::ResultType),
    }
    let mut dropped = NOT_RESULT.to_vec();
    // Here structured content is an object, and a list of tools may describe no other.
    let structured = members.get("structuredContent");
    if method == Method::ToolsCall && structured.is_some_and(|raw| !json::is_object(raw)) {
        dropped.push("structuredContent");
    }
    if method != Method::ToolsList {
        return Ok(format!("{{{}}}", without(&members, &dropped)));
    }
    dropped.push("tools");
    let mut out = without(&members, &dropped);
    if let Some(raw) = members.get("tools") {
        member(&mut out, "tools", &tools(raw)?);
    }
    Ok(format!("{{{out}}}"))
}

fn tools(raw: &RawValue) -> Result<String, Error> {
    let mut out = String::from("[");
    for (index, tool) in json::array(raw, MAX_TOOLS)?.into_iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        out.push_str(&self::tool(tool)?);
    }
    out.push(']');
    Ok(out)
}

/// Without how it runs as a task, and without a schema of results that are no objects.
fn tool(raw: &RawValue) -> Result<Cow<'_, str>, Error> {
    let members = Members::of(raw)?;
    let mut dropped = Vec::new();
    if members.get("execution").is_some() {
        dropped.push("execution");
    }
    if let Some(schema) = members.get("outputSchema") {
        let kind = Members::of(schema).ok();
        let kind = kind.and_then(|schema| schema.string("type"));
        if kind.as_deref() != Some("object") {
            dropped.push("outputSchema");
        }
    }
    if dropped.is_empty() {
        return Ok(Cow::Borrowed(raw.get()));
    }
    Ok(Cow::Owned(format!("{{{}}}", without(&members, &dropped))))
}
