//! One request to an upstream of 2025-11-25, in the session of its owner.
//!
//! Guarantees: ids and progress tokens of one session differ, whatever its clients chose; a session
//! that the upstream has lost is begun again once, and the request sent again only then, when
//! nothing of it was executed; a request that nobody waits for any more is cancelled. A task is
//! asked for only where client, upstream and tool are for it, and the end of one is fetched with it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use hangar_relay::envelope::{self, Message, Reply, Request};
use hangar_relay::legacy::task::{self, Handles, Polled, Support};
use hangar_relay::legacy::upstream::{self as legacy, Incoming};
use hangar_relay::method::Method;
use hangar_relay::{rewrite, wire};
use http::StatusCode;
use serde_json::value::RawValue;

use super::contracts::Contracts;
use super::events::Events;
use super::exchange::{self, Exchange, Failure, Notes, Received};
use super::session::Session;
use crate::limit::held::Share;

/// A request on its way; the upstream is told when it is dropped before its reply.
struct Underway<'a> {
    session: &'a Arc<Session>,
    contracts: &'a Contracts,
    number: u64,
    is_answered: bool,
}

/// What came back for one message: the text of a reply, or of something else.
struct Said {
    status: StatusCode,
    text: Bytes,
    number: Box<RawValue>,
}

/// What a call is sent with.
#[derive(Clone, Copy)]
struct Wish {
    /// A task is asked for, to be kept so many milliseconds.
    ttl_ms: Option<u64>,
    handles: Handles,
}

/// Requests of the upstream's own that are answered within one exchange.
const MAX_QUESTIONS: usize = 32;
const UNKNOWN_METHOD: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;

/// Sends a request of 2026-07-28, and returns the reply as one of that revision.
pub(super) async fn send(
    exchange: &Exchange<'_>,
    notes: Option<&Notes<'_>>,
) -> Result<Received, Failure> {
    let Ok(Message::Request(request)) = envelope::parse(&exchange.body) else {
        return Err(Failure::NoReply("no_request").before());
    };
    let method = Method::parse(&request.method);
    let method = method.ok_or_else(|| Failure::NoReply("no_request").before())?;
    if method == Method::TasksUpdate {
        return Err(Failure::NoAnswers);
    }
    let session = session_of(exchange).await?;
    let outcome = send_in(&session, exchange, &request, method, notes).await;
    if session.has_id() && matches!(&outcome, Err(failure) if is_lost(failure)) {
        session.lose();
        let session = session_of(exchange).await?;
        return send_in(&session, exchange, &request, method, notes).await;
    }
    outcome
}

/// The session of the exchange's owner. That there was no time for one says nothing of the request.
async fn session_of(exchange: &Exchange<'_>) -> Result<Arc<Session>, Failure> {
    let sessions = &exchange.upstream.runtime.sessions;
    tokio::time::timeout_at(exchange.deadline, sessions.of(exchange))
        .await
        .unwrap_or(Err(Failure::Late))
        .map_err(Failure::before)
}

/// The upstream knows no such session: it has looked no further.
fn is_lost(failure: &Failure) -> bool {
    matches!(
        failure,
        Failure::Status(StatusCode::NOT_FOUND | StatusCode::BAD_REQUEST)
    )
}

async fn send_in(
    session: &Arc<Session>,
    exchange: &Exchange<'_>,
    request: &Request<'_>,
    method: Method,
    notes: Option<&Notes<'_>>,
) -> Result<Received, Failure> {
    let id = exchange.id;
    if method == Method::Discover {
        return Ok(Received {
            status: StatusCode::OK,
            message: wire::result_text(id, &session.announced).into(),
        });
    }
    let wish = Wish::of(exchange, session, request, method);
    let number = session.number();
    let body = match wish.ttl_ms {
        Some(ttl_ms) => task::call(request, number, ttl_ms),
        None => legacy::request(request, number),
    };
    let body = body.map_err(|error| Failure::from(error).before())?;
    let said = put(session, exchange, number, body, notes).await?;
    let message = match said.reply(method)? {
        Reply::Result(raw) if method == Method::TasksGet => {
            polled(session, exchange, request, raw).await?
        }
        reply => {
            if let Reply::Result(raw) = &reply
                && method == Method::ToolsCall
            {
                keep(exchange, raw);
            }
            legacy::reply(method, id, &reply, wish.handles)?
        }
    };
    Ok(Received {
        status: said.status,
        message: message.into(),
    })
}

/// The state of a task; where it has ended, with what `tasks/result` says of it. That answers at
/// once for such a task, and is bounded by the exchange's own time where it does not.
async fn polled(
    session: &Arc<Session>,
    exchange: &Exchange<'_>,
    request: &Request<'_>,
    result: &RawValue,
) -> Result<String, Failure> {
    let asked = task::asked_about(request).unwrap_or_default();
    let ended = match task::polled(result, &asked)? {
        Polled::Whole(text) => return Ok(wire::result_text(exchange.id, &text)),
        Polled::Ended(ended) => ended,
    };
    let number = session.number();
    let body = task::result_request(&asked, number);
    let said = put(session, exchange, number, body, None).await?;
    Ok(ended.reply(exchange.id, &said.reply(Method::TasksGet)?)?)
}

/// Some upstreams tie a task to the session that it was born in.
fn keep(exchange: &Exchange<'_>, result: &RawValue) {
    let upstream = exchange.upstream;
    if let Some(kept_ms) = task::kept_ms(result, upstream.object.tasks.retention_ms)
        && let Some(until) = Instant::now().checked_add(Duration::from_millis(kept_ms))
    {
        upstream.runtime.sessions.keep(exchange.owner, until);
    }
}

/// One message and what comes back for it.
async fn put(
    session: &Arc<Session>,
    exchange: &Exchange<'_>,
    number: u64,
    body: String,
    notes: Option<&Notes<'_>>,
) -> Result<Said, Failure> {
    let own = rewrite::numeric_id(number);
    let mut underway = Underway {
        session,
        contracts: &exchange.upstream.runtime.contracts,
        number,
        is_answered: false,
    };
    let Exchange {
        http,
        upstream,
        room,
        ..
    } = *exchange;
    let posted = exchange::post(http, &upstream.uri, session.headers(), body.into()).await;
    let response = match posted {
        Ok(response) => response,
        Err(failure) => {
            underway.is_answered = !failure.may_have_acted();
            return Err(failure);
        }
    };
    let status = response.status();
    let most = upstream.object.limits.max_response_bytes;
    let text = if exchange::is_stream(&response) {
        let events = Events::new(response.into_body(), most, room.share());
        underway.read(events, status, &own, notes).await?
    } else {
        exchange::read_whole(response, most, room).await?
    };
    underway.is_answered = true;
    Ok(Said {
        status,
        text,
        number: own,
    })
}

// === impl Said ===

impl Said {
    fn reply(&self, method: Method) -> Result<Reply<'_>, Failure> {
        let status = self.status;
        match legacy::parse_incoming(&self.text, &self.number) {
            // An error under this status is about the session, unless it says what it is about.
            Ok(Incoming::Reply(Reply::Error(error)))
                if status == StatusCode::NOT_FOUND && !says_what(method, error.code) =>
            {
                Err(Failure::Status(status))
            }
            Ok(Incoming::Reply(reply)) => Ok(reply),
            _ if !status.is_success() => Err(Failure::Status(status)),
            Ok(Incoming::Notification(_) | Incoming::Asked { .. }) => {
                Err(Failure::NoReply("no_outcome"))
            }
            Err(error) => Err(Failure::NoReply(error.reason())),
        }
    }
}

/// Whether an error is about the request itself: its method, or the task that it names.
fn says_what(method: Method, code: i64) -> bool {
    code == UNKNOWN_METHOD || (method.is_task() && code == INVALID_PARAMS)
}

// === impl Wish ===

impl Wish {
    /// A task is asked for where the client can handle one, the upstream offers them, and the tool
    /// runs as one. A handle that comes unasked for is a breach, and to a client that cannot handle
    /// it what it is in any era.
    fn of(
        exchange: &Exchange<'_>,
        session: &Session,
        request: &Request<'_>,
        method: Method,
    ) -> Self {
        let none = Self {
            ttl_ms: None,
            handles: Handles::Breach,
        };
        if method != Method::ToolsCall {
            return none;
        }
        let Some((tool, declares)) = task::called(request) else {
            return none;
        };
        let runtime = &exchange.upstream.runtime;
        let runs = || {
            let latest = runtime.contracts.latest();
            let tool = latest.as_ref().and_then(|latest| latest.tools.get(&tool));
            tool.is_some_and(|tool| task::support(&tool.raw) != Support::Forbidden)
        };
        let is_asked_for = declares && session.has_tasks && runs();
        let retention_ms = exchange.upstream.object.tasks.retention_ms;
        Self {
            ttl_ms: is_asked_for.then_some(retention_ms),
            handles: if is_asked_for || !declares {
                Handles::Flat
            } else {
                Handles::Breach
            },
        }
    }
}

// === impl Underway ===

impl Underway<'_> {
    /// Reads events until the reply; what the upstream asks meanwhile is answered.
    async fn read(
        &self,
        mut events: Events,
        status: StatusCode,
        own: &RawValue,
        notes: Option<&Notes<'_>>,
    ) -> Result<Bytes, Failure> {
        let (mut questions, mut has_begun) = (0, false);
        while let Some(event) = events.next().await? {
            has_begun = true;
            match legacy::parse_incoming(event.as_bytes(), own) {
                Ok(Incoming::Reply(_)) => return Ok(events.keep(event)),
                Ok(Incoming::Notification(notification)) => {
                    self.contracts.hear(&notification);
                    self.note(&event, events.part(event.len()), own, notes)
                        .await;
                }
                Ok(Incoming::Asked { id, method }) => {
                    questions += 1;
                    if questions > MAX_QUESTIONS {
                        return Err(Failure::NoReply("too_many_questions"));
                    }
                    self.session.answer(legacy::answer(id, &method)).await;
                }
                Err(envelope::Error::Json(_)) => events.reject(event.len())?,
                Err(error) => return Err(Failure::NoReply(error.reason())),
            }
        }
        // Under any status: one that told something has taken the request up.
        if has_begun {
            return Err(Failure::NoReply("stream_ended"));
        }
        Err(exchange::ended(status))
    }

    /// Hands a notification on, where its client asked for it.
    async fn note(&self, event: &str, share: Share, own: &RawValue, notes: Option<&Notes<'_>>) {
        let Some(notes) = notes else {
            return;
        };
        let is_another = |notification: &envelope::Notification<'_>| {
            notification.method == "notifications/progress"
                && !legacy::is_progress_of(notification, self.number)
        };
        match legacy::parse_incoming(event.as_bytes(), own) {
            Ok(Incoming::Notification(notification)) if !is_another(&notification) => {}
            _ => return,
        }
        let Some(told) = legacy::notification(event, notes.wanted.token()) else {
            return;
        };
        let is_wanted = match envelope::parse_incoming(told.as_bytes(), own) {
            Ok(envelope::Incoming::Notification(notification)) => {
                notes.wanted.admits(&notification)
            }
            _ => false,
        };
        if is_wanted {
            let _ = notes.to.send(share.keep(told.into())).await;
        }
    }
}

impl Drop for Underway<'_> {
    fn drop(&mut self) {
        if !self.is_answered {
            let message = legacy::cancelled(self.number);
            self.session.tell_apart(message);
        }
    }
}

#[cfg(test)]
mod tests;
