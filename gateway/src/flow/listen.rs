//! `subscriptions/listen`: one stream to the client, one from each upstream that has a part in it.
//!
//! ```text
//! shares (whose each URI and task is) ─ open at each upstream ─ acknowledge ─ legs ─ end
//! ```
//! Guarantees: the acknowledgement comes first and names only what an upstream granted; every message
//! is authorised by the configuration in force when it is told; the state of a task is what
//! `tasks/get` answers at that moment, with all its checks. Memory is bounded: what waits for a client
//! counts as held by its tenant, a client that reads slowly holds its upstreams back, and one that
//! reads nothing, or whose tenant has no room left, is let go.
//! Caveats: an upstream that is lost is not asked again; the client is told and may listen anew.

mod leg;
mod share;

use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::future::join_all;
use futures::stream::FuturesUnordered;
use hangar_relay::json;
use hangar_relay::listen::{self, Filter, List};
use hangar_relay::rewrite::{MetaOf, Own};
use hangar_relay::wire::{self, Kind, WireError};
use serde_json::value::RawValue;
use tokio::sync::mpsc;

use super::merged::Merged;
use super::{Answer, Call, Outcome, routing};
use crate::http::rescue;
use crate::listeners::Seat;
use crate::upstream::exchange::{self, Exchange};
use crate::upstream::listen::{self as stream, Opened, Subscription};
use leg::{End, Leg};

/// A subscription that may be acknowledged.
#[derive(Debug)]
pub struct Listening<'m> {
    call: &'m Call<'m>,
    to: &'m mpsc::Sender<Bytes>,
    legs: Vec<Leg<'m>>,
    /// Names of grants whose upstreams are missing.
    missing: Vec<&'m str>,
    _seat: Seat<'m>,
}

/// What becomes of a request to listen.
#[derive(Debug)]
pub enum Begun<'m> {
    Listening(Box<Listening<'m>>),
    /// The error of the only upstream there is.
    Answered(Answer),
}

/// Why an upstream has no part in a stream.
enum Absent {
    Refused { code: i64, error: Box<RawValue> },
    Failed(WireError),
}

/// Until an upstream has acknowledged.
const PATIENCE: Duration = Duration::from_secs(5);

/// The answer to a client that does not take what it asks for.
pub fn no_stream() -> WireError {
    WireError::from(Kind::InvalidRequest)
        .because("the answer is an event stream, which Accept must name")
}

/// Asks all upstreams of an endpoint that have a part in the stream.
pub async fn begin<'m>(merged: &'m Merged<'m>) -> Result<Begun<'m>, WireError> {
    let Some(call) = merged.calls.first() else {
        return Err(WireError::unavailable(None));
    };
    let Some(notes) = call.notes else {
        return Err(no_stream());
    };
    let tenant = &call.caller.tenant.object.tenant;
    let listeners = &call.gateway.listeners;
    let seat = listeners
        .take(tenant, merged.calls.len())
        .ok_or(Kind::Overloaded)?;
    let shares = share::of(merged).await?;
    let asked = merged.calls.iter().zip(shares);
    let asked = asked.map(async |(call, share)| (call, ask(call, share).await));
    let mut missing = merged.absent.to_vec();
    let (mut legs, mut answered, mut failed) = (Vec::new(), 0, None);
    for (asked_of, asked) in join_all(asked).await {
        match asked {
            Ok(leg) => {
                answered += 1;
                legs.extend(leg);
            }
            Err(Absent::Refused { code, error }) if merged.is_alone() => {
                let body = wire::rpc_error(Some(call.request.id), &error).into();
                return Ok(Begun::Answered(Answer {
                    status: wire::relayed_status(code),
                    outcome: Outcome::RpcError,
                    ..Answer::ok(body)
                }));
            }
            // It has nothing to listen to, and so is not missed.
            Err(Absent::Refused { code, .. }) if code == Kind::UnknownMethod.code() => {}
            Err(Absent::Refused { .. }) => {
                missing.push(&asked_of.grant.object.name);
                failed.get_or_insert_with(|| WireError::unavailable(None));
            }
            Err(Absent::Failed(error)) => {
                missing.push(&asked_of.grant.object.name);
                failed.get_or_insert(error);
            }
        }
    }
    if answered == 0 {
        return Err(failed.unwrap_or_else(|| Kind::UnknownMethod.into()));
    }
    missing.sort_unstable();
    Ok(Begun::Listening(Box::new(Listening {
        call,
        to: &notes.to,
        legs,
        missing,
        _seat: seat,
    })))
}

/// Opens the subscription at one upstream; none where it has no part in it.
async fn ask<'m>(call: &'m Call<'m>, share: Filter) -> Result<Option<Leg<'m>>, Absent> {
    call.admit().map_err(Absent::Failed)?;
    if share.is_empty() {
        return Ok(None);
    }
    let own = json::raw(json::quote(call.correlation));
    let meta = MetaOf::Client(call.params.meta.raw);
    let body = Own { id: &own, meta }.listen(&share);
    let opened = stream::open(Exchange {
        http: &call.active.http,
        upstream: call.upstream,
        headers: routing(call.method, None, Vec::new()),
        body: body.into(),
        id: &own,
        owner: Some(&call.caller.owner),
        room: &call.caller.tenant.room,
        deadline: exchange::deadline(call.upstream, PATIENCE),
    });
    match opened.await {
        Ok(Opened::Granted(subscription)) => {
            let Subscription { granted, .. } = &*subscription;
            let granted = granted.and(&share);
            // An upstream that grants nothing has nothing to say.
            let leg = Leg::new(call, granted, *subscription);
            Ok((!leg.granted().is_empty()).then_some(leg))
        }
        Ok(Opened::Refused { code, error }) => Err(Absent::Refused { code, error }),
        Err(failure) => Err(Absent::Failed(rescue::exchange(&failure))),
    }
}

// === impl Listening ===

impl Listening<'_> {
    /// Tells until somebody ends it; the answer is what ends the stream.
    pub async fn run(self) -> Answer {
        let Self {
            call,
            to,
            legs,
            mut missing,
            _seat,
        } = self;
        let id = call.request.id;
        let mut parts: Vec<Option<Filter>> = Vec::new();
        let mut running = FuturesUnordered::new();
        for (index, leg) in legs.into_iter().enumerate() {
            parts.push(Some(leg.granted().clone()));
            running.push(async move {
                let name = leg.name();
                (index, name, leg.run(to).await)
            });
        }
        let ended = Answer::result(id, &listen::ended(id));
        let first = listen::acknowledged(id, &united(&parts), &missing);
        let listeners = &call.gateway.listeners;
        if !leg::tell(call, to, first).await {
            return ended;
        }
        let mut over = std::pin::pin!(listeners.grown_old());
        let why = loop {
            let (index, name, end) = tokio::select! {
                biased;
                () = listeners.closed() => break "draining",
                () = &mut over => break "old",
                next = running.next() => match next {
                    Some(next) => next,
                    None => break "nothing_left",
                },
            };
            let lost = parts[index].take().unwrap_or_default();
            match end {
                End::Client => break "client",
                End::Revoked => {}
                End::Upstream => missing.push(name),
            }
            if running.is_empty() {
                break "nothing_left";
            }
            missing.sort_unstable();
            let rest = listen::acknowledged(id, &united(&parts), &missing);
            let lists = lost
                .lists
                .iter()
                .map(|list: &List| listen::changed(*list, id));
            let mut told = true;
            for message in std::iter::once(rest).chain(lists) {
                told = told && leg::tell(call, to, message).await;
            }
            if !told {
                break "client";
            }
        };
        tracing::info!(correlation = call.correlation, why, "listening ended");
        ended
    }
}

/// What all parts that are left grant together.
fn united(parts: &[Option<Filter>]) -> Filter {
    let parts = parts.iter().flatten();
    parts.fold(Filter::default(), |all, part| all.or(part))
}
