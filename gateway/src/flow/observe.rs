//! Asks the upstream how a task is, verifies the tool's contract, and decides both together.
//!
//! A payload (`result`, `error`, `inputRequests`) is handed over only after a `tools/list` that was
//! fetched after it arrived showed the contract that the task was born with.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hangar_ledger::{
    Cause, Command, Decider, DeclineReason, Entry, InputKey, QuestionHash, Questions, Refusal,
    Sight, Snapshot, TaskId, Timestamp, ToolDigest,
};
use hangar_relay::envelope::Reply;
use hangar_relay::method::Method;
use hangar_relay::task::{self, Payload, Question};
use hangar_relay::wire::{self, Failure as GatewayMade, Kind, WireError};
use hangar_wire::Consent;
use serde_json::value::RawValue;

use super::ask::{self, Asker};
use super::governor::Undecided;
use super::section::Section;
use super::{Answer, wire_status};
use crate::upstream::contracts;
use crate::upstream::exchange::Failure;
use crate::upstream::polls::Told;

/// What is known after the upstream was asked.
#[derive(Debug)]
pub enum Observed {
    /// The upstream's message may be handed over; the ledger agrees with it.
    Current { entry: Box<Entry>, told: Arc<Told> },
    /// The truth is what the ledger holds: the upstream said something else, or may not be heard.
    Settled { entry: Box<Entry> },
    /// The upstream cannot be asked now; nothing was concluded.
    Unavailable {
        entry: Box<Entry>,
        retry_after: Option<u64>,
    },
}

enum Contract {
    Verified,
    Drifted {
        found: Option<ToolDigest>,
    },
    /// A cause of ours, or the upstream asked to be asked later: nothing is concluded.
    Unknown {
        retry_after: Option<u64>,
    },
}

/// What a poll may take in all.
const POLL_TIMEOUT: Duration = Duration::from_secs(10);
/// Before each look at the contract; the last is far enough off for a restart of the upstream.
const PAUSES: [Duration; 3] = [
    Duration::ZERO,
    Duration::from_millis(500),
    Duration::from_millis(1500),
];

// === impl Observed ===

impl Observed {
    fn unavailable(entry: Entry, retry_after: Option<u64>) -> Self {
        Self::Unavailable {
            entry: Box::new(entry),
            retry_after,
        }
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
    let told = match ask::ask(section, &entry, asker).await {
        Ok(told) => told,
        // Nobody can be asked, and nothing but an explicit yes lets it go on.
        Err(failure) if failure.is_question() => {
            let cause = Cause::ConsentUnavailable;
            return conclude(section, entry, vec![Command::Fail { cause }], None).await;
        }
        Err(failure) => return unanswered(section, entry, &failure),
    };
    let began = told.began;
    let reply = match ask::reply(&told) {
        Ok(reply) => reply,
        // However it was framed: what is no reply says nothing of the task.
        Err(error) => {
            section.upstream_failed(error.reason());
            return Ok(Observed::unavailable(entry, None));
        }
    };
    let result = match reply {
        Reply::Result(result) => result,
        Reply::Error(error) if error.code == Kind::TaskNotFound.code() => {
            return conclude(section, entry, vec![Command::Lost { began }], None).await;
        }
        Reply::Error(_) => return Ok(Observed::unavailable(entry, None)),
    };
    let polled = match task::polled(result, entry.key.task.as_str()) {
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
    let Some(snapshot) = ledger_snapshot(polled.snapshot) else {
        section.count_refusal(Method::TasksGet, "out_of_bounds");
        return Err(Kind::UpstreamProtocol.into());
    };
    let mut commands = vec![Command::Sync { snapshot, began }];
    if !matches!(polled.payload, Payload::None) {
        let looked = verify(section, &entry, told.arrived);
        match tokio::time::timeout_at(deadline, looked).await {
            Ok(Contract::Verified) => {}
            Ok(Contract::Drifted { found }) => commands.push(Command::Drift { found }),
            Ok(Contract::Unknown { retry_after }) => {
                return Err(WireError::unavailable(Some(status)).retry_after(retry_after));
            }
            Err(_) => return Err(WireError::unavailable(Some(status))),
        }
    }
    if let Payload::InputRequired { requests } = &polled.payload {
        commands.extend(questions(section, requests, sight, began)?);
    }
    let observed = conclude(section, entry, commands, Some((status, told))).await?;
    if let Observed::Current { entry, told } = &observed {
        ask::note(section, entry, told);
    }
    Ok(observed)
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
    if let Some(answer) = settled(&section.id, entry) {
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
pub fn settled(id: &RawValue, entry: &Entry) -> Option<Answer> {
    let latch = entry.latch?;
    let snapshot = relay_snapshot(&entry.snapshot);
    match latch.outcome {
        hangar_ledger::Outcome::Failed(reason) => {
            let failure = GatewayMade::parse(reason.as_str())?;
            let task = wire::failed_task(&snapshot, failure);
            Some(Answer::result(id, &task))
        }
        hangar_ledger::Outcome::Cancelled => {
            let task = wire::plain_task(&snapshot, None);
            Some(Answer::result(id, &task))
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

/// Why the upstream's answer is none.
fn unanswered(section: &Section, entry: Entry, failure: &Failure) -> Result<Observed, WireError> {
    if let Failure::Untranslated(error) = failure {
        section.count_refusal(Method::TasksGet, error.reason());
        return Err(Kind::UpstreamProtocol.into());
    }
    Ok(Observed::unavailable(entry, failure.retry_after()))
}

/// Decides, and tells whether what the upstream said may be handed over.
async fn conclude(
    section: &Section,
    entry: Entry,
    commands: Vec<Command>,
    said: Option<(task::Status, Arc<Told>)>,
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
        Err(undecided) => {
            if let Undecided::Refused(refusal) = &undecided {
                section.count_refusal(Method::TasksGet, refusal.reason());
            }
            return Err(undecided.into_answer());
        }
    };
    let ended_here = entry
        .latch
        .is_some_and(|latch| latch.outcome.is_gateway_made());
    let entry = Box::new(entry);
    Ok(match said {
        Some((status, told))
            if !ended_here
                && entry.mismatch_at.is_none()
                && wire_status(entry.status()) == status =>
        {
            Observed::Current { entry, told }
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
            Err(error) => {
                section.upstream_failed(error.reason());
                if let contracts::Error::Ours(failure) = &error {
                    let retry_after = failure.retry_after();
                    ask::heed(section, retry_after);
                    return Contract::Unknown { retry_after };
                }
                tracing::warn!(
                    correlation = section.correlation(),
                    upstream = upstream.label,
                    reason = error.reason(),
                    look,
                    "contract of a task's tool cannot be seen"
                );
            }
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
