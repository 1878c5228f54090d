//! Asks the upstream how a task is, verifies the tool's contract, and decides both together.
//!
//! A payload (`result`, `error`, `inputRequests`) is handed over only after a `tools/list` that was
//! fetched after it arrived showed the contract that the task was born with.

use std::time::{Duration, Instant};

use bytes::Bytes;
use hangar_ledger::{
    Cause, Command, Decider, DeclineReason, Entry, InputKey, QuestionHash, Questions, Refusal,
    Sight, Snapshot, TaskId, Timestamp, ToolDigest,
};
use hangar_relay::envelope::{self, Reply};
use hangar_relay::method::Method;
use hangar_relay::params::Meta;
use hangar_relay::rewrite::{MetaOf, Own};
use hangar_relay::task::{self, Payload, Question};
use hangar_relay::wire::{self, Failure as GatewayMade, Kind, WireError};
use hangar_wire::Consent;
use serde_json::value::RawValue;

use super::governor::Undecided;
use super::section::Section;
use super::{Answer, Relayed, wire_status};
use crate::upstream::contracts;
use crate::upstream::polls::{self, Told};

/// What the upstream is told about the client that asks.
#[derive(Debug)]
pub struct Asker {
    /// `_meta` of the client's request.
    pub meta: Box<RawValue>,
    pub capabilities: Box<RawValue>,
}

/// What is known after the upstream was asked.
#[derive(Debug)]
pub enum Observed {
    /// The upstream's message may be handed over; the ledger agrees with it.
    Current { entry: Box<Entry>, said: Said },
    /// The truth is what the ledger holds: the upstream said something else, or may not be heard.
    Settled { entry: Box<Entry> },
    /// The upstream cannot be asked now; nothing was concluded.
    Unavailable {
        entry: Box<Entry>,
        retry_after: Option<u64>,
    },
}

/// A message of the upstream, and the id that it answers: not the client's own where the request
/// was another's.
#[derive(Clone, Debug)]
pub struct Said {
    message: Bytes,
    id: Box<RawValue>,
}

enum Contract {
    Verified,
    Drifted {
        found: Option<ToolDigest>,
    },
    /// A cause of ours, or no time left: nothing is concluded.
    Unknown,
}

/// What a poll may take in all.
const POLL_TIMEOUT: Duration = Duration::from_secs(10);
/// Of that, what the upstream's answer may take.
const ASK_TIMEOUT: Duration = Duration::from_secs(5);
/// Before each look at the contract; the last is far enough off for a restart of the upstream.
const PAUSES: [Duration; 3] = [
    Duration::ZERO,
    Duration::from_millis(500),
    Duration::from_millis(1500),
];

// === impl Asker ===

impl Asker {
    pub fn of(meta: &Meta<'_>) -> Self {
        Self {
            meta: meta.raw.to_owned(),
            capabilities: meta.capabilities.raw.to_owned(),
        }
    }
}

// === impl Said ===

impl Said {
    /// The reply, for the client whose request has this id.
    pub fn read(&self, id: &RawValue) -> Result<Relayed<'_>, WireError> {
        let relayed = Relayed::read(&self.message, &self.id)?;
        Ok(if self.id.get() == id.get() {
            relayed
        } else {
            relayed.under_another_id()
        })
    }
}

/// Asks, verifies and decides.
///
/// Guarantees: [`Observed::Current`] holds a payload only if the contract was verified by a
/// `tools/list` begun after the payload arrived, and the decision is durable. Takes ten seconds at
/// most, and the time of the store.
/// Caveats: an upstream that is down, slow or failing changes nothing.
pub async fn observe(
    section: &Section,
    entry: Entry,
    asker: &Asker,
    sight: Sight,
) -> Result<Observed, WireError> {
    let deadline = tokio::time::Instant::now() + POLL_TIMEOUT;
    let task = entry.key.task.clone();
    let told = ask(section, &task, asker).await;
    let Told {
        message,
        id,
        began,
        arrived,
    } = match &*told {
        Ok(told) => told,
        Err(failure) => {
            return Ok(Observed::Unavailable {
                entry: Box::new(entry),
                retry_after: failure.retry_after(),
            });
        }
    };
    let (began, arrived) = (*began, *arrived);
    let result = match replied(section, message, id)? {
        Reply::Result(result) => result,
        Reply::Error(error) if error.code == Kind::TaskNotFound.code() => {
            return conclude(section, entry, vec![Command::Lost { began }], None).await;
        }
        Reply::Error(_) => {
            return Ok(Observed::Unavailable {
                entry: Box::new(entry),
                retry_after: None,
            });
        }
    };
    let polled = match task::polled(result, task.as_str()) {
        Ok(polled) => polled,
        Err(task::Error::OtherTask) => {
            let cause = Cause::UpstreamProtocol;
            return conclude(section, entry, vec![Command::Fail { cause }], None).await;
        }
        Err(error) => {
            section.count_refusal(Method::TasksGet, error.reason());
            return Err(Kind::UpstreamProtocol.into());
        }
    };
    let status = polled.snapshot.status;
    note(section, &polled.snapshot, &task, arrived);
    let Some(snapshot) = ledger_snapshot(polled.snapshot) else {
        section.count_refusal(Method::TasksGet, "out_of_bounds");
        return Err(Kind::UpstreamProtocol.into());
    };
    let mut commands = vec![Command::Sync { snapshot, began }];
    if !matches!(polled.payload, Payload::None) {
        let looked = verify(section, &entry, arrived);
        match tokio::time::timeout_at(deadline, looked).await {
            Ok(Contract::Verified) => {}
            Ok(Contract::Drifted { found }) => commands.push(Command::Drift { found }),
            Ok(Contract::Unknown) | Err(_) => return Err(WireError::unavailable(Some(status))),
        }
    }
    if let Payload::InputRequired { requests } = &polled.payload {
        commands.extend(questions(section, requests, sight, began)?);
    }
    let said = Said {
        message: Bytes::clone(message),
        id: id.clone(),
    };
    conclude(section, entry, commands, Some((status, said))).await
}

/// The task as it is known to be for so long; none where it does not go on, or not without a word
/// of the upstream's.
pub fn still_working(section: &Section, entry: &Entry, age: Duration) -> Option<Answer> {
    if entry.latch.is_some() || entry.snapshot.status != hangar_ledger::Status::Working {
        return None;
    }
    let age = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
    let task = wire::plain_task(&relay_snapshot(&entry.snapshot), Some(age));
    Some(Answer::result(&section.id, &task))
}

/// Answers with what the ledger alone may say: `working`, `cancelled`, and failures of the
/// gateway's making. Anything else is `unavailable`.
pub fn from_ledger(section: &Section, entry: &Entry, retry_after: Option<u64>) -> Answer {
    if let Some(answer) = settled(section, entry) {
        return answer;
    }
    let now = section.governor.gateway.store.now();
    let age = Duration::from_millis(now.since(entry.contact_at));
    if let Some(answer) = still_working(section, entry, age) {
        return Answer {
            retry_after,
            ..answer
        };
    }
    let error = WireError::unavailable(Some(wire_status(entry.status())));
    Answer {
        retry_after,
        ..Answer::refused(Some(&section.id), &error)
    }
}

/// The answer for a task whose end the ledger alone knows, if it is one.
pub fn settled(section: &Section, entry: &Entry) -> Option<Answer> {
    let latch = entry.latch?;
    let snapshot = relay_snapshot(&entry.snapshot);
    match latch.outcome {
        hangar_ledger::Outcome::Failed(reason) => {
            let failure = GatewayMade::parse(reason.as_str())?;
            let task = wire::failed_task(&snapshot, failure);
            Some(Answer::result(&section.id, &task))
        }
        hangar_ledger::Outcome::Cancelled => {
            let task = wire::plain_task(&snapshot, None);
            Some(Answer::result(&section.id, &task))
        }
        hangar_ledger::Outcome::Completed => None,
    }
}

/// The stored members of a task; none when the ledger's bounds refuse them.
pub fn ledger_snapshot(snapshot: task::Snapshot) -> Option<Snapshot> {
    let task::Snapshot {
        task_id,
        status,
        created_at,
        last_updated_at,
        ttl_ms,
        poll_interval_ms,
    } = snapshot;
    Some(Snapshot {
        task_id: TaskId::try_from(task_id).ok()?,
        status: hangar_ledger::Status::parse(status.as_str())?,
        created_at: Timestamp::try_from(created_at).ok()?,
        last_updated_at: Timestamp::try_from(last_updated_at).ok()?,
        ttl_ms,
        poll_interval_ms,
    })
}

fn relay_snapshot(snapshot: &Snapshot) -> task::Snapshot {
    let Snapshot {
        task_id,
        status,
        created_at,
        last_updated_at,
        ttl_ms,
        poll_interval_ms,
    } = snapshot;
    task::Snapshot {
        task_id: task_id.as_str().to_owned(),
        status: wire_status(*status),
        created_at: created_at.as_str().to_owned(),
        last_updated_at: last_updated_at.as_str().to_owned(),
        ttl_ms: *ttl_ms,
        poll_interval_ms: *poll_interval_ms,
    }
}

/// Takes note of a task that goes on, so that a poll before its time is not passed on.
fn note(section: &Section, snapshot: &task::Snapshot, task: &TaskId, arrived: Instant) {
    if snapshot.status == task::Status::Working
        && let Some(interval) = snapshot.poll_interval_ms
    {
        let polls = &section.upstream.runtime.polls;
        polls.is_working(task, arrived, Duration::from_millis(interval));
    }
}

/// Asks the upstream, together with whoever asks the same at the same time.
async fn ask(section: &Section, task: &TaskId, asker: &Asker) -> polls::Outcome {
    let polls = &section.upstream.runtime.polls;
    let send = || async {
        let own = Own {
            id: &section.id,
            meta: MetaOf::Client(&asker.meta),
        };
        let body = own.tasks_get(task.as_str()).into();
        let began = section.governor.gateway.store.now();
        let exchange = section.exchange(Method::TasksGet, task, body, ASK_TIMEOUT);
        let message = exchange.await.inspect_err(|failure| {
            tracing::warn!(
                correlation = section.correlation(),
                upstream = section.upstream.label,
                reason = failure.reason(),
                "upstream cannot be asked about a task"
            );
        })?;
        Ok(Told {
            message,
            id: section.id.clone(),
            began,
            arrived: Instant::now(),
        })
    };
    polls.ask(task, &asker.capabilities, send).await
}

/// What the upstream answered; counted where it is no reply at all.
fn replied<'m>(
    section: &Section,
    message: &'m Bytes,
    id: &RawValue,
) -> Result<Reply<'m>, WireError> {
    match envelope::parse_reply(message, id) {
        Ok((reply, _)) => Ok(reply),
        Err(error) => {
            section.count_refusal(Method::TasksGet, error.reason());
            Err(WireError::from(Kind::UpstreamProtocol).because(error))
        }
    }
}

/// Decides, and tells whether what the upstream said may be handed over.
async fn conclude(
    section: &Section,
    entry: Entry,
    commands: Vec<Command>,
    said: Option<(task::Status, Said)>,
) -> Result<Observed, WireError> {
    let key = entry.key.clone();
    let decided = section.governor.decide(&key, Some(entry), commands).await;
    let entry = match decided {
        Ok(decided) => decided.entry.ok_or(Kind::TaskNotFound)?,
        Err(Undecided::Refused(Refusal::Regression)) => {
            section.count_refusal(Method::TasksGet, Refusal::Regression.reason());
            // Somebody latched the end that this answer contradicts: that is what is served.
            let current = section.governor.gateway.store.get(&key).await;
            let current = current.map_err(|error| section.store_failed(&error))?;
            let entry = Box::new(current.ok_or(Kind::TaskNotFound)?);
            return Ok(Observed::Settled { entry });
        }
        Err(undecided) => return Err(undecided.into_answer()),
    };
    let ended_here = entry
        .latch
        .is_some_and(|latch| latch.outcome.is_gateway_made());
    let entry = Box::new(entry);
    Ok(match said {
        Some((status, said))
            if !ended_here
                && entry.mismatch_at.is_none()
                && wire_status(entry.status()) == status =>
        {
            Observed::Current { entry, said }
        }
        Some(_) => Observed::Settled { entry },
        None if ended_here => Observed::Settled { entry },
        // Unknown to the upstream for the first time: neither lost nor as it was.
        None => return Err(WireError::unavailable(Some(wire_status(entry.status())))),
    })
}

/// Compares the contract now with the one bound at birth. What the upstream fails to show is looked
/// for twice more; after that it counts as drifted.
///
/// Guarantees: each look is a fetch begun after the payload arrived.
async fn verify(section: &Section, entry: &Entry, arrived: Instant) -> Contract {
    let (upstream, http) = (&section.upstream, &section.governor.active.http);
    let mut not_before = arrived;
    for (look, pause) in PAUSES.into_iter().enumerate() {
        if look > 0 {
            tokio::time::sleep(pause).await;
            not_before = Instant::now();
        }
        match upstream
            .runtime
            .contracts
            .since(upstream, http, not_before)
            .await
        {
            Ok(catalogue) => {
                if let Some(tool) = catalogue.tools.get(&entry.birth.tool) {
                    let found = ToolDigest(tool.digest);
                    return if found == entry.birth.digest {
                        Contract::Verified
                    } else {
                        Contract::Drifted { found: Some(found) }
                    };
                }
            }
            Err(contracts::Error::Ours(_)) => return Contract::Unknown,
            Err(error) => tracing::warn!(
                correlation = section.correlation(),
                upstream = upstream.label,
                reason = error.reason(),
                look,
                "contract of a task's tool cannot be seen"
            ),
        }
    }
    Contract::Drifted { found: None }
}

fn questions(
    section: &Section,
    requests: &[Question<'_>],
    sight: Sight,
    began: hangar_ledger::Millis,
) -> Result<Vec<Command>, WireError> {
    let consent = section.grant.object.consent.as_ref();
    let mut outstanding = std::collections::BTreeMap::new();
    let mut commands = Vec::new();
    for question in requests {
        let key = InputKey::try_from(question.key.to_string())
            .map_err(|_| WireError::from(Kind::UpstreamProtocol))?;
        let hash = QuestionHash(question.hash);
        if !allows(consent, &question.method) {
            commands.push(Command::Decline {
                key: key.clone(),
                by: Decider::Policy,
                reason: DeclineReason::MethodNotAllowed,
                question: Some(hash),
            });
        }
        outstanding.insert(key, hash);
    }
    commands.push(Command::Question(Questions {
        outstanding,
        sight,
        ttl_ms: consent.map_or(0, |consent| consent.ttl_ms),
        began,
    }));
    Ok(commands)
}

/// Whether the policy lets questions of this method be answered at all.
pub fn allows(consent: Option<&Consent>, method: &str) -> bool {
    consent.is_some_and(|consent| consent.methods.contains(method))
}
