//! `subscriptions/listen`: what a client asks to be told of, what is granted of it, and each message.
//!
//! Guarantees: a message of an upstream goes on only if it is one of four kinds; its subscription id
//! becomes the client's own, byte for byte; a change of a list carries nothing else; the state of a
//! task is never taken from a notification, which is a reason to ask and no more.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

use serde_json::value::RawValue;

use crate::envelope::{self, Incoming};
use crate::json::{self, Members};
use crate::list::{META_UNAVAILABLE, push_names};
use crate::params::{Error, MAX_TASK_ID_BYTES, MAX_URI_BYTES};
use crate::wire::META_AGE;

/// What somebody is told of.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Filter {
    pub lists: BTreeSet<List>,
    pub uris: BTreeSet<String>,
    pub tasks: BTreeSet<String>,
}

/// A list that may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum List {
    Tools,
    Prompts,
    Resources,
}

/// A message on the stream of an upstream, as far as it is one.
pub enum Told<'a> {
    /// What the upstream granted.
    Acknowledged(Filter),
    Changed(List),
    Updated(Update<'a>),
    /// Something happened to this task; what, is for the upstream's `tasks/get` to say.
    Task(Cow<'a, str>),
    /// The subscription is over.
    Ended,
    /// The subscription was refused with this error object.
    Refused {
        code: i64,
        error: &'a RawValue,
    },
    /// Nothing that goes on.
    Other,
}

/// A resource that changed.
pub struct Update<'a> {
    pub uri: Cow<'a, str>,
    params: Members<'a>,
}

/// Most URIs of one subscription.
pub const MAX_URIS: usize = 64;
/// Most task ids of one subscription.
pub const MAX_TASK_IDS: usize = 64;

const META_SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
const NOTIFICATIONS: &str = "notifications";
const URIS: &str = "resourceSubscriptions";
const TASK_IDS: &str = "taskIds";
const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";
const UPDATED: &str = "notifications/resources/updated";
const TASKS: &str = "notifications/tasks";

/// Reads a message on the stream of the subscription `own`.
pub fn read<'a>(message: &'a str, own: &RawValue) -> Result<Told<'a>, envelope::Error> {
    let notification = match envelope::parse_incoming(message.as_bytes(), own)? {
        Incoming::Reply(envelope::Reply::Result(_), _) => return Ok(Told::Ended),
        Incoming::Reply(envelope::Reply::Error(error), _) => {
            return Ok(Told::Refused {
                code: error.code,
                error: error.raw,
            });
        }
        Incoming::Notification(notification) => notification,
    };
    let params = match notification.params {
        Some(raw) => Members::of(raw).map_err(envelope::Error::Json)?,
        None => Members::default(),
    };
    if !is_of(&params, own) {
        return Ok(Told::Other);
    }
    Ok(told(&notification.method, params).unwrap_or(Told::Other))
}

/// The first message to a client: what it will be told of. `unavailable` are names of grants whose
/// upstreams are missing.
pub fn acknowledged(id: &RawValue, granted: &Filter, unavailable: &[&str]) -> String {
    let mut meta = meta(id);
    if !unavailable.is_empty() {
        meta.push(',');
        json::quote_into(&mut meta, META_UNAVAILABLE);
        meta.push(':');
        push_names(&mut meta, unavailable);
    }
    let granted = granted.encode();
    notification(
        ACKNOWLEDGED,
        &format!(r#""{NOTIFICATIONS}":{granted},"#),
        &meta,
    )
}

/// A list changed.
pub fn changed(list: List, id: &RawValue) -> String {
    notification(list.method(), "", &meta(id))
}

/// A resource changed: the message of its upstream with the client's id.
pub fn updated(update: &Update<'_>, id: &RawValue) -> String {
    notification(
        UPDATED,
        &kept(&update.params, &["_meta"]),
        &with_meta(&update.params, id),
    )
}

/// The state of a task as `tasks/get` answers it; none where the answer is the ledger's, since the
/// upstream could not be asked: that is no news.
pub fn task(result: &RawValue, id: &RawValue) -> Option<String> {
    let members = Members::of(result).ok()?;
    let is_old = members
        .get("_meta")
        .and_then(|meta| Members::of(meta).ok())
        .is_some_and(|meta| meta.get(META_AGE).is_some());
    if is_old {
        return None;
    }
    let params = kept(&members, &["_meta", "resultType"]);
    Some(notification(TASKS, &params, &with_meta(&members, id)))
}

/// The result that ends a subscription.
pub fn ended(id: &RawValue) -> Box<RawValue> {
    json::raw(format!(
        r#"{{"resultType":"complete","_meta":{{{}}}}}"#,
        meta(id)
    ))
}

// === impl Filter ===

impl Filter {
    /// Reads the `notifications` of a request's params, or of an acknowledgement.
    pub fn parse(params: &Members<'_>) -> Result<Self, Error> {
        let raw = params
            .get(NOTIFICATIONS)
            .filter(|raw| json::is_object(raw))
            .ok_or(Error::Member(NOTIFICATIONS))?;
        let json_error = |source| Error::Json {
            member: NOTIFICATIONS,
            source,
        };
        let members = Members::of(raw).map_err(json_error)?;
        let names = List::ALL.map(List::member);
        members
            .guard(&[&names[..], &[URIS, TASK_IDS]].concat())
            .map_err(json_error)?;
        let mut lists = BTreeSet::new();
        for list in List::ALL {
            match members.get(list.member()).map(RawValue::get) {
                Some("true") => {
                    lists.insert(list);
                }
                Some("false" | "null") | None => {}
                Some(_) => return Err(Error::Member(list.member())),
            }
        }
        Ok(Self {
            lists,
            uris: texts(&members, URIS, MAX_URIS, MAX_URI_BYTES)?,
            tasks: texts(&members, TASK_IDS, MAX_TASK_IDS, MAX_TASK_ID_BYTES)?,
        })
    }

    pub fn is_empty(&self) -> bool {
        let Self { lists, uris, tasks } = self;
        lists.is_empty() && uris.is_empty() && tasks.is_empty()
    }

    /// What both have.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let Self { lists, uris, tasks } = self;
        Self {
            lists: lists & &other.lists,
            uris: uris & &other.uris,
            tasks: tasks & &other.tasks,
        }
    }

    /// What either has.
    #[must_use]
    pub fn or(&self, other: &Self) -> Self {
        let Self { lists, uris, tasks } = self;
        Self {
            lists: lists | &other.lists,
            uris: uris | &other.uris,
            tasks: tasks | &other.tasks,
        }
    }

    /// Whether this resource is one of these, or a part of one.
    pub fn covers(&self, uri: &str) -> bool {
        let is_part = |whole: &String| {
            uri.strip_prefix(whole.as_str())
                .is_some_and(|rest| whole.ends_with('/') || rest.starts_with(['/', '?', '#']))
        };
        self.uris.contains(uri) || self.uris.iter().any(is_part)
    }

    /// The value of the member `notifications`.
    pub fn encode(&self) -> String {
        let Self { lists, uris, tasks } = self;
        let mut members: Vec<String> = lists
            .iter()
            .map(|list| format!(r#""{}":true"#, list.member()))
            .collect();
        for (name, texts) in [(URIS, uris), (TASK_IDS, tasks)] {
            if texts.is_empty() {
                continue;
            }
            let mut member = format!(r#""{name}":"#);
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            push_names(&mut member, &texts);
            members.push(member);
        }
        format!("{{{}}}", members.join(","))
    }
}

/// How many of each; what they are is the client's.
impl fmt::Debug for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Filter")
            .field("lists", &self.lists)
            .field("uris", &self.uris.len())
            .field("tasks", &self.tasks.len())
            .finish()
    }
}

// === impl List ===

impl List {
    pub const ALL: [Self; 3] = [Self::Tools, Self::Prompts, Self::Resources];

    fn member(self) -> &'static str {
        match self {
            Self::Tools => "toolsListChanged",
            Self::Prompts => "promptsListChanged",
            Self::Resources => "resourcesListChanged",
        }
    }

    /// The notification that tells of a change.
    pub fn method(self) -> &'static str {
        match self {
            Self::Tools => "notifications/tools/list_changed",
            Self::Prompts => "notifications/prompts/list_changed",
            Self::Resources => "notifications/resources/list_changed",
        }
    }
}

// === impl Told ===

impl fmt::Debug for Told<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Acknowledged(filter) => filter.fmt(f),
            Self::Changed(list) => list.fmt(f),
            Self::Updated(update) => update.fmt(f),
            Self::Task(_) => f.write_str("Task(..)"),
            Self::Ended => f.write_str("Ended"),
            Self::Refused { code, .. } => write!(f, "Refused({code})"),
            Self::Other => f.write_str("Other"),
        }
    }
}

// === impl Update ===

impl fmt::Debug for Update<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Update(..)")
    }
}

/// What a notification tells; none where it lacks what its kind needs.
fn told<'a>(method: &str, params: Members<'a>) -> Option<Told<'a>> {
    if let Some(list) = List::ALL.into_iter().find(|list| list.method() == method) {
        return Some(Told::Changed(list));
    }
    match method {
        ACKNOWLEDGED => Filter::parse(&params).ok().map(Told::Acknowledged),
        UPDATED => {
            // A client that matches names without regard to case must not read another URI.
            params.guard(&["uri", "_meta"]).ok()?;
            let uri = params.string("uri")?;
            Some(Told::Updated(Update { uri, params }))
        }
        TASKS => params.string("taskId").map(Told::Task),
        _ => None,
    }
}

/// Whether a message is of the subscription `own`; one that does not say is.
fn is_of(params: &Members<'_>, own: &RawValue) -> bool {
    let Some(meta) = params.get("_meta") else {
        return true;
    };
    Members::of(meta).is_ok_and(|meta| {
        let subscription = meta.get(META_SUBSCRIPTION);
        // A client that matches names without regard to case must not read another id.
        meta.guard(&[META_SUBSCRIPTION]).is_ok()
            && subscription.is_none_or(|id| envelope::same_id(own, id))
    })
}

fn texts(
    members: &Members<'_>,
    name: &'static str,
    most: usize,
    most_bytes: usize,
) -> Result<BTreeSet<String>, Error> {
    let Some(raw) = members.get(name).filter(|raw| !json::is_null(raw)) else {
        return Ok(BTreeSet::new());
    };
    let values = json::array(raw, most).map_err(|source| Error::Json {
        member: name,
        source,
    })?;
    values
        .into_iter()
        .map(|value| {
            let text = json::string(value).ok_or(Error::Member(name))?;
            if text.is_empty() || text.len() > most_bytes {
                return Err(Error::Bounds(name));
            }
            Ok(text.into_owned())
        })
        .collect()
}

/// `params` are members with a comma behind each.
fn notification(method: &str, params: &str, meta: &str) -> String {
    [
        r#"{"jsonrpc":"2.0","method":""#,
        method,
        r#"","params":{"#,
        params,
        r#""_meta":{"#,
        meta,
        "}}}",
    ]
    .concat()
}

fn meta(id: &RawValue) -> String {
    format!(r#""{META_SUBSCRIPTION}":{}"#, id.get())
}

/// The members of an upstream's `_meta`, with the client's subscription id.
fn with_meta(params: &Members<'_>, id: &RawValue) -> String {
    let theirs = params.get("_meta").and_then(|meta| Members::of(meta).ok());
    let theirs = theirs.unwrap_or_default();
    kept(&theirs, &[META_SUBSCRIPTION]) + &meta(id)
}

/// All members but these, with a comma behind each.
fn kept(members: &Members<'_>, without: &[&str]) -> String {
    let mut out = String::new();
    for (name, value) in members.iter() {
        if without.contains(&&**name) {
            continue;
        }
        json::quote_into(&mut out, name);
        out.push(':');
        out.push_str(value.get());
        out.push(',');
    }
    out
}

#[cfg(test)]
mod tests;
