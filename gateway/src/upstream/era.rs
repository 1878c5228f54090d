//! Which revision an upstream speaks: as its object says, or found out by asking.
//!
//! Guarantees: before an upstream is asked for anything else, it is known what it speaks. An outage,
//! a server error and a refused credential tell nothing of it and are no verdict.
//! Caveats: a verdict lasts until an answer contradicts it or the upstream cannot be reached; one that
//! came of a mere refusal, where the upstream said otherwise before, for half a minute.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hangar_relay::envelope;
use hangar_relay::headers;
use hangar_relay::legacy::{Era, VERSIONS, upstream as legacy};
use hangar_relay::method::Method;
use hangar_relay::rewrite::{self, MetaOf, Own};
use hangar_relay::wire::Kind;
use hangar_wire::Protocol;
use http::StatusCode;
use serde_json::value::RawValue;

use super::exchange::{self, Exchange, Failure, Notes, Received, is_credential};
use super::{bridge, client, session};
use crate::config::Upstream;
use crate::limit::held::Room;

/// What is known of one upstream.
#[derive(Debug, Default)]
pub struct Eras {
    known: Mutex<Known>,
    /// Held while it is asked, so that it is asked once; the last answer that told nothing.
    asking: tokio::sync::Mutex<Option<Fruitless>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Known {
    era: Option<Era>,
    /// Until when that is taken for true; none: until something contradicts it.
    until: Option<Instant>,
    /// It spoke 2026-07-28 before.
    was_modern: bool,
}

/// An upstream was asked, and it is not known now either.
#[derive(Debug)]
struct Fruitless {
    ended: Instant,
    why: Arc<Failure>,
}

/// How long an upstream may take to say what it speaks: all its callers wait for that.
const ASK_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a conclusion stands that contradicts what was known.
const DOUBTFUL: Duration = Duration::from_secs(30);

/// What was learnt by asking.
enum Learnt {
    Era(Era),
    /// The request was itself the question, and this is the answer.
    Answered(Received),
}

/// What an answer to the question tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    /// The upstream says it itself.
    Said(Era),
    /// It was refused without a reply, as one that does not know the question does. Whatever stands
    /// before an upstream may do so too.
    Seems(Era),
    Nothing,
}

// === impl Eras ===

impl Eras {
    fn known(&self) -> Option<Era> {
        self.known_at(Instant::now())
    }

    fn known_at(&self, now: Instant) -> Option<Era> {
        let Known { era, until, .. } = *self.lock();
        era.filter(|_| until.is_none_or(|until| now < until))
    }

    fn take(&self, told: Told) -> Option<Era> {
        match told {
            Told::Said(era) => self.set(Some(era)),
            Told::Seems(era) => {
                let mut known = self.lock();
                known.era = Some(era);
                // One that spoke otherwise before is asked again soon.
                known.until = known.was_modern.then(|| Instant::now() + DOUBTFUL);
            }
            Told::Nothing => return None,
        }
        self.lock().era
    }

    fn set(&self, era: Option<Era>) {
        let mut known = self.lock();
        known.was_modern |= era == Some(Era::Modern);
        (known.era, known.until) = (era, None);
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
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
    Ok(match learn(exchange, None).await? {
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
    let era = match learn(exchange, None).await? {
        Learnt::Era(era) => era,
        Learnt::Answered(received) => return Ok(received),
    };
    let outcome = send_as(era, exchange, notes).await;
    let is_over = match &outcome {
        // A later revision refuses what has no envelope with a reply.
        Ok(received) if era == Era::Modern || !is_refusal(received.status) => return outcome,
        Ok(_) => false,
        // Whatever it said when it was asked: only the later revision has no `initialize`. Nothing
        // was executed.
        Err(failure) if era == Era::Legacy && knows_no_initialize(failure) => {
            eras.set(Some(Era::Modern));
            return send_as(Era::Modern, exchange, notes).await;
        }
        Err(failure) if !doubts(failure) => return outcome,
        Err(failure) => is_unreachable(failure) || failure.may_have_acted(),
    };
    if is_over {
        eras.set(None);
        return outcome;
    }
    // Nothing was executed: where the upstream speaks the other revision now, it is asked in that.
    // Until it says so, all others go on with what is known.
    match learn(exchange, Some(era)).await {
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

/// Finds out what an upstream speaks, unless something else than `doubted` is known.
async fn learn(exchange: &Exchange<'_>, doubted: Option<Era>) -> Result<Learnt, Failure> {
    let eras = &exchange.upstream.runtime.eras;
    let known = || eras.known().filter(|era| Some(*era) != doubted);
    if let Some(era) = known() {
        return Ok(Learnt::Era(era));
    }
    let asking = tokio::time::timeout_at(exchange.deadline, ask_once(exchange, known));
    asking.await.unwrap_or(Err(Failure::Late))
}

async fn ask_once(
    exchange: &Exchange<'_>,
    known: impl Fn() -> Option<Era>,
) -> Result<Learnt, Failure> {
    let eras = &exchange.upstream.runtime.eras;
    let arrived = Instant::now();
    let mut last = eras.asking.lock().await;
    if let Some(era) = known() {
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
        let asked = ask(
            exchange,
            Bytes::clone(&exchange.body),
            exchange.id,
            exchange.room,
        )
        .await;
        return match judge(&asked, exchange.id).map(|told| eras.take(told)) {
            Ok(Some(Era::Legacy)) => Ok(Learnt::Era(Era::Legacy)),
            // It is the client's to see what the upstream says.
            Ok(Some(Era::Modern) | None) | Err(_) => asked.map(Learnt::Answered),
        };
    }
    let id = rewrite::numeric_id(1);
    let own = Own {
        id: &id,
        meta: MetaOf::Gateway,
    };
    // For all tenants: the room of one of them must not decide it.
    let room = exchange.http.own();
    let asked = ask(exchange, own.discover().into(), &id, room).await;
    match eras.take(judge(&asked, &id)?) {
        Some(era) => Ok(Learnt::Era(era)),
        None => Err(asked.err().unwrap_or(Failure::NoReply("no_era"))),
    }
}

/// Asks `server/discover`. A stateful upstream of the older era may begin a session for it, which
/// nobody will use.
async fn ask(
    exchange: &Exchange<'_>,
    body: Bytes,
    id: &RawValue,
    room: &Arc<Room>,
) -> Result<Received, Failure> {
    let Exchange { http, upstream, .. } = *exchange;
    let headers = headers::upstream(Method::Discover, None);
    let asked = async {
        let response = exchange::post(http, &upstream.uri, headers, body).await?;
        if let Some(orphan) = session::id_of(response.headers()) {
            session::close(http, &upstream.uri, orphan, VERSIONS[0]);
        }
        let most = upstream.object.limits.max_response_bytes;
        exchange::receive(response, id, most, room, None).await
    };
    tokio::time::timeout(ASK_TIMEOUT, asked)
        .await
        .unwrap_or(Err(Failure::Timeout))
}

/// What the answer to the question says.
fn judge(asked: &Result<Received, Failure>, id: &RawValue) -> Result<Told, Failure> {
    Ok(match asked {
        Ok(received) if is_credential(received.status) || received.status.is_server_error() => {
            Told::Nothing
        }
        Ok(received) => match envelope::parse_reply(&received.message, id) {
            Ok((reply, _)) => legacy::judge(&reply)?.map_or(Told::Nothing, Told::Said),
            Err(_) => Told::Seems(Era::Legacy),
        },
        Err(Failure::Status(status)) if is_refusal(*status) => Told::Seems(Era::Legacy),
        Err(Failure::NoReply(_)) => Told::Seems(Era::Legacy),
        Err(_) => Told::Nothing,
    })
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

fn knows_no_initialize(failure: &Failure) -> bool {
    match failure {
        Failure::Refused(code) => *code == Kind::UnknownMethod.code(),
        Failure::Before(failure) => knows_no_initialize(failure),
        _ => false,
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

#[cfg(test)]
mod tests;
