//! One request to an upstream of 2025-11-25, in the session of its owner.
//!
//! Guarantees: ids and progress tokens of one session differ, whatever its clients chose; a session
//! that the upstream has lost is begun again once, and the request sent again only then, when
//! nothing of it was executed; a request that nobody waits for any more is cancelled.

use std::sync::Arc;

use bytes::Bytes;
use hangar_relay::envelope::{self, Message, Reply, Request};
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

/// Requests of the upstream's own that are answered within one exchange.
const MAX_QUESTIONS: usize = 32;
const UNKNOWN_METHOD: i64 = -32601;

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
    if method.is_task() {
        return Err(Failure::NoTasks);
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
    let number = session.number();
    let own = rewrite::numeric_id(number);
    let body = legacy::request(request, number);
    let body = body.map_err(|error| Failure::from(error).before())?;
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
    let message = translated(&text, status, method, &own, id)?;
    Ok(Received { status, message })
}

fn translated(
    text: &Bytes,
    status: StatusCode,
    method: Method,
    own: &RawValue,
    id: &RawValue,
) -> Result<Bytes, Failure> {
    match legacy::parse_incoming(text, own) {
        // An error under this status is about the session, unless it says what it is about.
        Ok(Incoming::Reply(Reply::Error(error)))
            if status == StatusCode::NOT_FOUND && error.code != UNKNOWN_METHOD =>
        {
            Err(Failure::Status(status))
        }
        Ok(Incoming::Reply(reply)) => Ok(legacy::reply(method, id, &reply)?.into()),
        _ if !status.is_success() => Err(Failure::Status(status)),
        Ok(Incoming::Notification(_) | Incoming::Asked { .. }) => {
            Err(Failure::NoReply("no_outcome"))
        }
        Err(error) => Err(Failure::NoReply(error.reason())),
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
