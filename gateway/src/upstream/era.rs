//! Which revision an upstream speaks: as its object says, or found out by asking.
//!
//! Guarantees: before an upstream is asked for anything else, it is known what it speaks. An outage,
//! a server error and a refused credential tell nothing of it and are no verdict.
//! Caveats: a verdict lasts until an answer contradicts it or the upstream cannot be reached.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use hangar_relay::envelope::{self, Reply};
use hangar_relay::headers;
use hangar_relay::legacy::{Era, VERSIONS, upstream as legacy};
use hangar_relay::method::Method;
use hangar_relay::rewrite::{self, MetaOf, Own};
use hangar_wire::Protocol;
use http::StatusCode;
use serde_json::value::RawValue;

use super::exchange::{self, Exchange, Failure, Notes, Received, is_credential};
use super::{bridge, client, session};
use crate::config::Upstream;

/// What is known of one upstream.
#[derive(Debug, Default)]
pub struct Eras {
    known: Mutex<Option<Era>>,
    /// Held while it is asked, so that it is asked once; the last answer that told nothing.
    asking: tokio::sync::Mutex<Option<Fruitless>>,
}

/// An upstream was asked, and it is not known now either.
#[derive(Debug)]
struct Fruitless {
    ended: Instant,
    why: Arc<Failure>,
}

/// What was learnt by asking.
enum Learnt {
    Era(Era),
    /// The request was itself the question, and this is the answer.
    Answered(Received),
}

// === impl Eras ===

impl Eras {
    fn known(&self) -> Option<Era> {
        *self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, era: Option<Era>) {
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = era;
    }
}

/// What is known of this upstream now; none before it was asked.
pub fn of(upstream: &Upstream) -> Option<Era> {
    match upstream.object.protocol {
        Protocol::V2026_07_28 => Some(Era::Modern),
        Protocol::V2025_11_25 => Some(Era::Legacy),
        Protocol::Auto => upstream.runtime.eras.known(),
    }
}

/// What the upstream of this exchange speaks, asked first where it is not known.
pub(super) async fn spoken(exchange: &Exchange<'_>) -> Result<Era, Failure> {
    if exchange.upstream.object.protocol != Protocol::Auto {
        return Ok(of(exchange.upstream).unwrap_or(Era::Modern));
    }
    Ok(match learn(exchange).await? {
        Learnt::Era(era) => era,
        Learnt::Answered(_) => Era::Modern,
    })
}

/// Sends a request in the revision that its upstream speaks.
pub(super) async fn send(
    exchange: &Exchange<'_>,
    notes: Option<&Notes<'_>>,
) -> Result<Received, Failure> {
    if exchange.upstream.object.protocol != Protocol::Auto {
        let era = of(exchange.upstream).unwrap_or(Era::Modern);
        return send_as(era, exchange, notes).await;
    }
    let eras = &exchange.upstream.runtime.eras;
    let era = match learn(exchange).await? {
        Learnt::Era(era) => era,
        Learnt::Answered(received) => return Ok(received),
    };
    let outcome = send_as(era, exchange, notes).await;
    let is_over = match &outcome {
        // A later revision refuses what has no envelope with a reply.
        Ok(received) if era == Era::Modern || !is_refusal(received.status) => return outcome,
        Ok(_) => false,
        Err(failure) if !doubts(failure) => return outcome,
        Err(failure) => is_unreachable(failure) || failure.may_have_acted(),
    };
    eras.set(None);
    if is_over {
        return outcome;
    }
    // Nothing was executed: where the upstream speaks the other revision now, it is asked in that.
    match learn(exchange).await {
        Ok(Learnt::Answered(received)) => Ok(received),
        Ok(Learnt::Era(now)) if now != era => send_as(now, exchange, notes).await,
        Ok(Learnt::Era(_)) | Err(_) => outcome,
    }
}

async fn send_as(
    era: Era,
    exchange: &Exchange<'_>,
    notes: Option<&Notes<'_>>,
) -> Result<Received, Failure> {
    match era {
        Era::Modern => exchange::once(exchange, notes).await,
        Era::Legacy => bridge::send(exchange, notes).await,
    }
}

async fn learn(exchange: &Exchange<'_>) -> Result<Learnt, Failure> {
    let eras = &exchange.upstream.runtime.eras;
    if let Some(era) = eras.known() {
        return Ok(Learnt::Era(era));
    }
    let arrived = Instant::now();
    let mut last = eras.asking.lock().await;
    if let Some(era) = eras.known() {
        return Ok(Learnt::Era(era));
    }
    // Whoever waited for an answer that told nothing takes it for its own.
    if let Some(last) = last.as_ref().filter(|last| last.ended >= arrived) {
        return Err(Failure::Before(Arc::clone(&last.why)));
    }
    find_out(exchange).await.map_err(|failure| {
        let why = Arc::new(failure);
        *last = Some(Fruitless {
            ended: Instant::now(),
            why: Arc::clone(&why),
        });
        Failure::Before(why)
    })
}

async fn find_out(exchange: &Exchange<'_>) -> Result<Learnt, Failure> {
    let eras = &exchange.upstream.runtime.eras;
    let discover = Method::Discover.as_str();
    let mut routing = exchange.headers.iter();
    if routing.any(|(name, value)| *name == headers::MCP_METHOD && value == discover) {
        let asked = ask(exchange, Bytes::clone(&exchange.body), exchange.id).await;
        return match judge(&asked, exchange.id) {
            Ok(Some(Era::Modern)) => {
                eras.set(Some(Era::Modern));
                asked.map(Learnt::Answered)
            }
            Ok(Some(Era::Legacy)) => {
                eras.set(Some(Era::Legacy));
                Ok(Learnt::Era(Era::Legacy))
            }
            // It is the client's to see what the upstream says.
            Ok(None) | Err(_) => asked.map(Learnt::Answered),
        };
    }
    let id = rewrite::numeric_id(1);
    let own = Own {
        id: &id,
        meta: MetaOf::Gateway,
    };
    let asked = ask(exchange, own.discover().into(), &id).await;
    match judge(&asked, &id)? {
        Some(era) => {
            eras.set(Some(era));
            Ok(Learnt::Era(era))
        }
        None => Err(asked.err().unwrap_or(Failure::NoReply("no_era"))),
    }
}

/// Asks `server/discover`. A stateful upstream of the older era may begin a session for it, which
/// nobody will use.
async fn ask(exchange: &Exchange<'_>, body: Bytes, id: &RawValue) -> Result<Received, Failure> {
    let Exchange { http, upstream, .. } = *exchange;
    let headers = headers::upstream(Method::Discover, None);
    let response = exchange::post(http, &upstream.uri, headers, body).await?;
    if let Some(orphan) = session::id_of(response.headers()) {
        session::close(http, &upstream.uri, orphan, VERSIONS[0]);
    }
    let most = upstream.object.limits.max_response_bytes;
    exchange::receive(response, id, most, &http.budget, None).await
}

/// What the answer to the question says; none where it says nothing.
fn judge(asked: &Result<Received, Failure>, id: &RawValue) -> Result<Option<Era>, Failure> {
    match asked {
        Ok(received) if is_credential(received.status) || received.status.is_server_error() => {
            Ok(None)
        }
        Ok(received) => match envelope::parse_reply(&received.message, id) {
            Ok((reply, _)) => judge_reply(&reply),
            Err(_) => Ok(Some(Era::Legacy)),
        },
        Err(Failure::Status(status)) if is_refusal(*status) => Ok(Some(Era::Legacy)),
        Err(Failure::NoReply(_)) => Ok(Some(Era::Legacy)),
        Err(_) => Ok(None),
    }
}

fn judge_reply(reply: &Reply<'_>) -> Result<Option<Era>, Failure> {
    Ok(legacy::judge(reply)?)
}

/// Whether a failure may come of speaking the wrong revision, or of an upstream that was exchanged.
fn doubts(failure: &Failure) -> bool {
    match failure {
        Failure::Status(status) => is_refusal(*status),
        Failure::Refused(_) => true,
        Failure::Before(failure) => doubts(failure),
        failure => is_unreachable(failure),
    }
}

/// Statuses about the form of a request.
fn is_refusal(status: StatusCode) -> bool {
    status.is_client_error() && !is_credential(status)
}

fn is_unreachable(failure: &Failure) -> bool {
    match failure {
        Failure::Http(client::Error::Connect(_)) => true,
        Failure::Before(failure) => is_unreachable(failure),
        _ => false,
    }
}
