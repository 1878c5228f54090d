//! Tasks of 2025-11-25 (SEP-1686), asked for and read so that they are those of SEP-2663.
//!
//! ```text
//! tools/call + task: {ttl}  ->  {task: {..ttl, pollInterval}}    the handle, flat: ttlMs, pollIntervalMs
//! tasks/get                 ->  the task alone                   with what `tasks/result` says of its end
//! tasks/cancel              ->  the task as it is now
//! ```

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::{Common, Error, member, without};
use crate::envelope::{Reply, Request};
use crate::json::{self, Members};
use crate::method::Method;
use crate::params::Params;
use crate::task::Status;
use crate::{TASKS_EXTENSION, wire};

/// Whether a tool runs as a task, as its `execution.taskSupport` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// Also where nothing is said.
    Forbidden,
    Optional,
    Required,
}

/// What a handle in the answer to `tools/call` is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handles {
    /// The task that was asked for, or one that is judged as if it had been: given on flat.
    Flat,
    /// A breach: given on in a shape that is no result.
    Breach,
}

/// What a result of `tasks/get` tells.
#[derive(Debug)]
pub enum Polled {
    /// All of it, as a result of 2026-07-28.
    Whole(String),
    /// The task ended, and `tasks/result` says how.
    Ended(Ended),
}

/// A task that ended, without its payload.
#[derive(Debug)]
pub struct Ended {
    task_id: String,
    has_failed: bool,
    /// Members of the answer but those that depend on the payload.
    members: String,
}

/// How a result holds a handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    None,
    Nested,
    /// The shape of 2026-07-28, which this era does not have.
    Flat,
}

/// Longest time that a task is asked for, in milliseconds: the longest that a timer of
/// JavaScript takes. What is longer it takes for nothing, and the task would be gone at once.
pub const MAX_TTL_MS: u64 = 2_147_483_647;

const COMPLETE: &str = r#""complete""#;
const RELATED: &str = "io.modelcontextprotocol/related-task";
/// What members of a task are called in either era.
const RENAMED: [(&str, &str); 2] = [("ttl", "ttlMs"), ("pollInterval", "pollIntervalMs")];
/// Members that the task of this era has not, but that would be read in the later one.
const NOT_TASK: [&str; 3] = ["resultType", "ttlMs", "pollIntervalMs"];
const PAYLOADS: [&str; 3] = ["result", "error", "inputRequests"];

/// What a tool says of tasks.
pub fn support(tool: &RawValue) -> Support {
    let said = at(tool, &["execution", "taskSupport"]).and_then(json::string);
    match said.as_deref() {
        Some("required") => Support::Required,
        Some("optional") => Support::Optional,
        Some(_) | None => Support::Forbidden,
    }
}

/// Whether a result of `initialize` offers tasks of tools.
pub fn announced(result: &RawValue) -> bool {
    let path = ["capabilities", "tasks", "requests", "tools", "call"];
    at(result, &path).is_some_and(json::is_object)
}

/// The tool that is called, and whether its client can handle a task.
pub fn called<'a>(request: &Request<'a>) -> Option<(Cow<'a, str>, bool)> {
    let params = Params::parse(Method::ToolsCall, request).ok()?;
    Some((params.name?, params.meta.capabilities.tasks.is_yes()))
}

/// The task that a request is about.
pub fn asked_about<'a>(request: &Request<'a>) -> Option<Cow<'a, str>> {
    let params = Members::of(request.params?).ok()?;
    params.string("taskId")
}

/// A `tools/call` that asks for a task which is kept so many milliseconds.
pub fn call(request: &Request<'_>, number: u64, ttl_ms: u64) -> Result<String, Error> {
    let ttl_ms = ttl_ms.min(MAX_TTL_MS);
    let mut common = Common::of(request.params)?;
    let wish = format!(r#"{{"ttl":{ttl_ms}}}"#);
    member(&mut common.params, "task", &wish);
    Ok(super::upstream::numbered(&common, &request.method, number))
}

/// The `tasks/result` of a task that has ended.
pub fn result_request(task_id: &str, number: u64) -> String {
    let task_id = json::quote(task_id);
    format!(
        r#"{{"jsonrpc":"2.0","id":{number},"method":"tasks/result","params":{{"taskId":{task_id}}}}}"#
    )
}

/// For how long the task of this handle asks to be kept, `most` milliseconds at most; none where
/// the result is no handle.
pub fn kept_ms(result: &RawValue, most: u64) -> Option<u64> {
    let task = Members::of(result).ok()?.get("task")?;
    let task = Members::of(task).ok()?;
    task.get("taskId")?;
    let ttl = task.get("ttl").and_then(json::unsigned);
    Some(ttl.unwrap_or(most).min(most))
}

/// Reads a result of `tasks/get` about the task `asked`.
///
/// A task that asks for input is an error: what it asks is put to one session, by a request that
/// only the replica which holds that session could answer.
pub fn polled(result: &RawValue, asked: &str) -> Result<Polled, Error> {
    let members = read(result)?;
    let status = members.string("status");
    let status = status.and_then(|status| Status::parse(&status));
    // What is wrong with any other answer is seen by whoever reads it.
    let is_about = members.string("taskId").as_deref() == Some(asked);
    match status.filter(|_| is_about) {
        Some(Status::InputRequired) => Err(Error::TaskAsks),
        Some(status @ (Status::Completed | Status::Failed)) => {
            let mut dropped = PAYLOADS.to_vec();
            dropped.extend(["taskId", "status"]);
            Ok(Polled::Ended(Ended {
                task_id: asked.to_owned(),
                has_failed: status == Status::Failed,
                members: flat(&members, &dropped),
            }))
        }
        Some(Status::Working | Status::Cancelled) | None => Ok(Polled::Whole(whole(&members))),
    }
}

/// The result of `tasks/cancel`: the task as it is now.
pub(super) fn told(result: &RawValue) -> Result<String, Error> {
    Ok(whole(&read(result)?))
}

/// How this result of `method` holds a handle.
pub(super) fn shape(method: Method, members: &Members<'_>) -> Shape {
    if members.string("resultType").as_deref() == Some("task") {
        return Shape::Flat;
    }
    // Some servers put empty content beside it.
    let content = members.get("content");
    let has_content =
        content.is_some_and(|raw| !matches!(json::array(raw, 1), Ok(all) if all.is_empty()));
    let is_call = method == Method::ToolsCall;
    let nested = members.get("task").and_then(|raw| Members::of(raw).ok());
    match nested {
        Some(task) if !has_content && (is_call || task.get("taskId").is_some()) => Shape::Nested,
        None if is_call && content.is_none() && members.get("taskId").is_some() => Shape::Flat,
        Some(_) | None => Shape::None,
    }
}

/// The handle that is nested in this result, flat.
pub(super) fn handle(members: &Members<'_>) -> Result<String, Error> {
    let task = members.get("task").ok_or(Error::Task)?;
    let task = read(task)?;
    let mut out = flat(&task, &["status"]);
    // How it failed is known with its payload only, and until then not that it did.
    match task.string("status").as_deref() {
        Some("failed") => member(&mut out, "status", r#""working""#),
        _ => {
            if let Some(status) = task.get("status") {
                member(&mut out, "status", status.get());
            }
        }
    }
    if let Some(meta) = members.get("_meta").filter(|_| task.get("_meta").is_none()) {
        member(&mut out, "_meta", meta.get());
    }
    member(&mut out, "resultType", r#""task""#);
    Ok(format!("{{{out}}}"))
}

// === impl Ended ===

impl Ended {
    /// The answer to `tasks/get` of the request `id`, with what `tasks/result` said.
    ///
    /// In this era a tool that failed is a failed task; in the later one the task completed, and its
    /// result says `isError`. An error in place of a result that there must be is the answer's own.
    pub fn reply(&self, id: &RawValue, payload: &Reply<'_>) -> Result<String, Error> {
        let mut out = self.members.clone();
        member(&mut out, "resultType", COMPLETE);
        match payload {
            Reply::Result(raw) => {
                let members = Members::of(raw)?;
                members.guard(&["resultType", "isError", "_meta"])?;
                // A payload of another task makes the whole answer one about another.
                let related = at(raw, &["_meta", RELATED, "taskId"]).and_then(json::string);
                let task_id = related.as_deref().unwrap_or(&self.task_id);
                member(&mut out, "taskId", &json::quote(task_id));
                member(&mut out, "status", r#""completed""#);
                member(&mut out, "result", &self.result(&members));
            }
            Reply::Error(error) if self.has_failed => {
                member(&mut out, "taskId", &json::quote(&self.task_id));
                member(&mut out, "status", r#""failed""#);
                let error = super::upstream::error(error)?;
                member(&mut out, "error", &error);
            }
            Reply::Error(error) => {
                let error = json::raw(super::upstream::error(error)?.into_owned());
                return Ok(wire::rpc_error(Some(id), &error));
            }
        }
        Ok(wire::result_text(id, &format!("{{{out}}}")))
    }

    /// What `tools/call` would have answered.
    fn result(&self, members: &Members<'_>) -> String {
        let says_so = members
            .get("isError")
            .is_some_and(|raw| raw.get() == "true");
        let mut dropped = vec!["resultType"];
        if self.has_failed && !says_so {
            dropped.push("isError");
        }
        let mut out = without(members, &dropped);
        if self.has_failed && !says_so {
            member(&mut out, "isError", "true");
        }
        member(&mut out, "resultType", COMPLETE);
        format!("{{{out}}}")
    }
}

/// Capability `extensions` of an upstream that has tasks.
pub(super) fn extensions() -> String {
    format!(r#"{{"{TASKS_EXTENSION}":{{}}}}"#)
}

fn read(raw: &RawValue) -> Result<Members<'_>, Error> {
    let members = Members::of(raw)?;
    let mut names = vec!["taskId", "status", "ttl", "pollInterval", "task"];
    names.extend(NOT_TASK);
    names.extend(PAYLOADS);
    members.guard(&names)?;
    Ok(members)
}

fn whole(members: &Members<'_>) -> String {
    let mut out = flat(members, &[]);
    member(&mut out, "resultType", COMPLETE);
    format!("{{{out}}}")
}

/// The members of a task but these, by the names of the later era.
fn flat(members: &Members<'_>, dropped: &[&str]) -> String {
    let mut out = String::new();
    for (name, value) in members.iter() {
        if NOT_TASK.contains(&&**name) || dropped.contains(&&**name) {
            continue;
        }
        let renamed = RENAMED.iter().find(|(theirs, _)| theirs == name);
        member(
            &mut out,
            renamed.map_or(&**name, |(_, ours)| ours),
            value.get(),
        );
    }
    out
}

/// The value at the end of these names.
fn at<'a>(raw: &'a RawValue, path: &[&str]) -> Option<&'a RawValue> {
    path.iter()
        .try_fold(raw, |raw, name| Members::of(raw).ok()?.get(name))
}

#[cfg(test)]
mod tests;
