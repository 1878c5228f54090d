//! Sessions of 2025-11-25 that the gateway holds at an upstream: one for each owner, and one of its
//! own.
//!
//! Guarantees: no owner's request travels in another's session; a session id leaves the gateway
//! only towards the upstream that gave it; there are at most [`MAX_SESSIONS`] at an upstream, and
//! one that nobody used for [`IDLE`] is closed with `DELETE`, unless a task may live in it.
//! Caveats: a session is this replica's. Nothing of a client is kept in it but its tasks, where the
//! upstream ties them to it: another replica's serves as well everywhere else.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hangar_ledger::Owner;
use hangar_relay::envelope::{self, Reply};
use hangar_relay::headers::MCP_PROTOCOL_VERSION;
use hangar_relay::legacy::{task, upstream as legacy};
use hangar_relay::rewrite;
use http::{HeaderMap, HeaderName, HeaderValue, Uri};

use super::client::Http;
use super::exchange::{self, Exchange, Failure, is_credential};
use crate::config::Upstream;

/// The sessions at one upstream.
#[derive(Debug, Default)]
pub struct Sessions {
    slots: Mutex<HashMap<Option<Owner>, Arc<Slot>>>,
    /// What the session that was begun last says of tasks.
    has_tasks: AtomicBool,
}

/// A session that was begun; closed on drop, unless the upstream has lost it.
#[derive(Debug)]
pub(super) struct Session {
    http: Http,
    uri: Uri,
    /// None: the upstream keeps no sessions.
    id: Option<HeaderValue>,
    version: &'static str,
    /// What `initialize` announced, as a result of `server/discover`.
    pub(super) announced: String,
    /// Whether `initialize` offered tasks of tools.
    pub(super) has_tasks: bool,
    next: AtomicU64,
    is_lost: AtomicBool,
}

#[derive(Debug)]
struct Slot {
    /// Held while it is begun, so that an owner begins one at a time.
    session: tokio::sync::Mutex<Option<Arc<Session>>>,
    /// When it was used last, or will have been: a task may live in it.
    used: Mutex<Instant>,
}

pub(super) const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
/// Sessions at one upstream; the one that was idle longest makes room.
pub const MAX_SESSIONS: usize = 1024;
/// A session that nobody used for so long is closed.
pub const IDLE: Duration = Duration::from_mins(5);
/// Longest id that is taken, in bytes.
const MAX_ID_BYTES: usize = 1024;
/// For a message that nobody's request depends on.
const TELL_TIMEOUT: Duration = Duration::from_secs(5);

// === impl Sessions ===

impl Sessions {
    /// The session of this owner, begun if there is none.
    pub(super) async fn of(&self, exchange: &Exchange<'_>) -> Result<Arc<Session>, Failure> {
        let slot = self.slot(exchange.owner.cloned(), Instant::now());
        let mut held = slot.session.lock().await;
        if let Some(session) = &*held {
            // Under other address rules the upstream may not even be told that it is over.
            if !session.http.is(exchange.http) {
                session.lose();
            }
            if !session.is_lost.load(Ordering::Relaxed) {
                return Ok(Arc::clone(session));
            }
        }
        *held = None;
        let begun = Arc::new(begin_apart(exchange.http, exchange.upstream).await?);
        self.has_tasks.store(begun.has_tasks, Ordering::Relaxed);
        *held = Some(Arc::clone(&begun));
        Ok(begun)
    }

    /// Whether the upstream offers tasks of tools.
    pub fn has_tasks(&self) -> bool {
        self.has_tasks.load(Ordering::Relaxed)
    }

    /// A task was born in the session of this owner: it counts as used until then.
    pub(super) fn keep(&self, owner: Option<&Owner>, until: Instant) {
        if let Some(slot) = self.lock().get(&owner.cloned()) {
            slot.touch(until);
        }
    }

    /// Closes what nobody used for [`IDLE`] before `now`.
    pub fn sweep(&self, now: Instant) {
        self.lock().retain(|_, slot| slot.idle_for(now) < IDLE);
    }

    fn slot(&self, owner: Option<Owner>, now: Instant) -> Arc<Slot> {
        let mut slots = self.lock();
        if let Some(slot) = slots.get(&owner) {
            slot.touch(now);
            return Arc::clone(slot);
        }
        if slots.len() >= MAX_SESSIONS
            && let Some((owner, _)) = superfluous(&slots, now)
        {
            slots.remove(&owner);
        }
        let slot = Arc::new(Slot {
            session: tokio::sync::Mutex::new(None),
            used: Mutex::new(now),
        });
        slots.insert(owner, Arc::clone(&slot));
        slot
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Option<Owner>, Arc<Slot>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Slot ===

impl Slot {
    fn touch(&self, now: Instant) {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        *used = now.max(*used);
    }

    fn idle_for(&self, now: Instant) -> Duration {
        let used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        now.saturating_duration_since(*used)
    }
}

// === impl Session ===

impl Session {
    /// The headers of every message after `initialize`.
    pub(super) fn headers(&self) -> Vec<(HeaderName, HeaderValue)> {
        let version = HeaderValue::from_static(self.version);
        let mut headers = vec![(MCP_PROTOCOL_VERSION, version)];
        headers.extend(self.id.clone().map(|id| (SESSION_ID, id)));
        headers
    }

    /// An id that no request of this session had.
    pub(super) fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn has_id(&self) -> bool {
        self.id.is_some()
    }

    /// The upstream knows it no more: the next request begins another.
    pub(super) fn lose(&self) {
        self.is_lost.store(true, Ordering::Relaxed);
    }

    /// Sends a message that has no reply.
    pub(super) async fn tell(&self, message: String) -> Result<(), Failure> {
        let posted = exchange::post(&self.http, &self.uri, self.headers(), message.into()).await;
        match posted?.status() {
            status if status.is_success() => Ok(()),
            status => Err(Failure::Status(status)),
        }
    }

    /// Answers a question of the upstream's own. A request is running meanwhile, and an answer that
    /// was not taken says nothing of it: its reply may come all the same.
    pub(super) async fn answer(&self, message: String) {
        let told = tokio::time::timeout(TELL_TIMEOUT, self.tell(message)).await;
        match told {
            Ok(Ok(())) => {}
            Ok(Err(failure)) => {
                let reason = failure.reason();
                tracing::debug!(reason, "an upstream took no answer to its question");
            }
            Err(_) => tracing::debug!("an upstream took no answer to its question in time"),
        }
    }

    /// The same as `tell`, without anybody waiting for it.
    pub(super) fn tell_apart(self: &Arc<Self>, message: String) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let session = Arc::clone(self);
        runtime.spawn(async move {
            let told = session.tell(message);
            let _ = tokio::time::timeout(TELL_TIMEOUT, told).await;
        });
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(id) = self.id.take()
            && !self.is_lost.load(Ordering::Relaxed)
        {
            close(&self.http, &self.uri, id, self.version);
        }
    }
}

/// The id of a session that an answer hands out.
pub(super) fn id_of(headers: &HeaderMap) -> Option<HeaderValue> {
    let id = headers.get(SESSION_ID)?;
    (!id.is_empty() && id.len() <= MAX_ID_BYTES).then(|| id.clone())
}

/// Tells the upstream that a session is over, without anybody waiting for it.
pub(super) fn close(http: &Http, uri: &Uri, id: HeaderValue, version: &'static str) {
    // Without a runtime the process is about to end, and the upstream's own expiry must do.
    let Ok(runtime) = tokio::runtime::Handle::try_current() else {
        return;
    };
    let mut request = http::Request::new(http_body_util::Full::new(Bytes::new()));
    *request.method_mut() = http::Method::DELETE;
    *request.uri_mut() = uri.clone();
    let headers = request.headers_mut();
    headers.insert(SESSION_ID, id);
    headers.insert(MCP_PROTOCOL_VERSION, HeaderValue::from_static(version));
    let http = http.clone();
    runtime.spawn(async move {
        let _ = tokio::time::timeout(TELL_TIMEOUT, http.send(request)).await;
    });
}

/// The slot that makes room: of the tenant that has most of them, the one that was idle
/// longest, so that no tenant takes another's.
fn superfluous(
    slots: &HashMap<Option<Owner>, Arc<Slot>>,
    now: Instant,
) -> Option<(Option<Owner>, Arc<Slot>)> {
    let tenant = |owner: &Option<Owner>| owner.as_ref().and_then(|owner| owner.tenant.clone());
    let mut counts: HashMap<_, usize> = HashMap::new();
    for owner in slots.keys() {
        *counts.entry(tenant(owner)).or_default() += 1;
    }
    let (most, _) = counts.into_iter().max_by_key(|(_, count)| *count)?;
    let own = slots.iter().filter(|(owner, _)| tenant(owner) == most);
    let oldest = own.max_by_key(|(_, slot)| slot.idle_for(now));
    oldest.map(|(owner, slot)| (owner.clone(), Arc::clone(slot)))
}

/// Begins a session whether or not its caller waits for it: one that nobody waits for any more is
/// closed as soon as its id is known.
async fn begin_apart(http: &Http, upstream: &Upstream) -> Result<Session, Failure> {
    let most = upstream.object.limits.max_response_bytes;
    let deadline = exchange::deadline(upstream, Duration::MAX);
    let begun = begin(http.clone(), upstream.uri.clone(), most);
    let begun = tokio::spawn(tokio::time::timeout_at(deadline, begun));
    match begun.await {
        Ok(Ok(begun)) => begun,
        Ok(Err(_)) => Err(Failure::Timeout),
        Err(error) => {
            tracing::error!(%error, "the beginning of a session ended early");
            Err(Failure::NoReply("no_session"))
        }
    }
}

async fn begin(http: Http, uri: Uri, most: u64) -> Result<Session, Failure> {
    let id = rewrite::numeric_id(0);
    let body = legacy::initialize(&id).into();
    let response = exchange::post(&http, &uri, Vec::new(), body).await?;
    let mut session = Session {
        http,
        uri,
        id: id_of(response.headers()),
        version: hangar_relay::legacy::VERSIONS[0],
        announced: String::new(),
        has_tasks: false,
        next: AtomicU64::new(1),
        is_lost: AtomicBool::new(false),
    };
    let own = &session.http.own;
    let received = exchange::receive(response, &id, most, own, None).await?;
    let reply = envelope::parse_reply(&received.message, &id);
    let (reply, _) = reply.map_err(|error| Failure::NoReply(error.reason()))?;
    match reply {
        Reply::Result(result) => {
            session.version = legacy::negotiated(result)?;
            session.announced = legacy::discovered(result)?;
            session.has_tasks = task::announced(result);
        }
        Reply::Error(_) if is_credential(received.status) => {
            return Err(Failure::Status(received.status));
        }
        Reply::Error(error) => return Err(Failure::Refused(error.code)),
    }
    session.tell(legacy::INITIALIZED.to_owned()).await?;
    Ok(session)
}

#[cfg(test)]
mod tests;
