//! `tasks/update`: an answer reaches the upstream only under a recorded grant for exactly that
//! question.
//!
//! ```text
//! see the question and the contract anew ─ judge each answer ─ claim, durable ─ relay ─┬ confirmed: decided
//!                                   └ any decline: the task fails                      ├ refused: claim released
//!                                                                                      └ unknown: a later poll settles it
//! ```
//! Under `onDecline: RelayAnswer` a plain no (`decline`, `cancel`) is claimed and relayed like a yes,
//! and recorded as a decline. What is no answer at all still fails the task.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use hangar_ledger::{
    AnswerHash, Cause, ClaimRef, Command, Decider, DeclineReason, Effect, Entry, Grant, InputKey,
    Millis, QuestionHash, Sight, TaskId,
};
use hangar_relay::answer::{self, Verdict, Why};
use hangar_relay::envelope::Reply;
use hangar_relay::json::Members;
use hangar_relay::method::Method;
use hangar_relay::params::Capabilities;
use hangar_relay::rewrite::{MetaOf, Own};
use hangar_relay::task::{self, Payload, Question};
use hangar_relay::wire::{self, Kind, WireError};
use hangar_wire::{Admission, OnDecline};
use serde_json::value::RawValue;

use super::answers::Able;
use super::ask::Asker;
use super::get::withheld;
use super::governor::Undecided;
use super::observe::{Observed, observe};
use super::section::Section;
use super::{Answer, Call, Outcome, Relayed, breach};
use crate::http::rescue;
use crate::limit::held::Share;
use crate::upstream::exchange::Failure;

/// The owned part of an update.
#[derive(Debug)]
struct Update {
    task: TaskId,
    answers: BTreeMap<InputKey, Box<RawValue>>,
    asker: Asker,
    admission: Admission,
    _share: Share,
}

/// What the answers to outstanding questions amount to.
#[derive(Debug, Default)]
struct Judged {
    grants: BTreeMap<InputKey, Grant>,
    declines: Vec<Command>,
}

/// How the relay of an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Confirmed,
    /// The upstream cannot have taken it.
    Refused,
    Unknown,
}

/// After this the relay of an answer has ended, whoever ran it.
const CLAIM_MS: u64 = 15_000;
/// The relay itself ends so much earlier.
const MARGIN_MS: u64 = 5_000;

pub async fn run(call: &Call<'_>) -> Result<Answer, WireError> {
    let mut answers = BTreeMap::new();
    let bytes = call.params.input_responses.iter().flat_map(Members::iter);
    let bytes = bytes.map(|(key, raw)| key.len() + raw.get().len()).sum();
    let share = call.share(bytes)?;
    for (key, raw) in call.params.input_responses.iter().flat_map(Members::iter) {
        // A key that no question can have is unknown like any other: ignored.
        if let Ok(key) = InputKey::try_from(key.to_string()) {
            answers.insert(key, raw.to_owned());
        }
    }
    let update = Update {
        task: call.task_id()?,
        answers,
        asker: Asker::of(call)?,
        admission: call.admission(),
        _share: share,
    };
    call.section()
        .detached(move |section| relay(section, update))
        .await
}

async fn relay(section: Section, update: Update) -> Result<Answer, WireError> {
    let found = section.find(&update.task).await?;
    let (entry, role) = found.into_parts();
    let refuse = |kind: Kind| {
        section.count_refusal(Method::TasksUpdate, kind.reason());
        Err(WireError::from(kind))
    };
    if !role.answers() || withheld(&section, &entry).is_some() {
        return refuse(Kind::Denied);
    }
    let ack = Answer::result(&section.id, &wire::ack());
    if !entry.is_live() || update.answers.is_empty() {
        return Ok(ack);
    }
    if update.admission == Admission::Closed {
        return refuse(Kind::AdmissionClosed);
    }
    let (entry, told) = match observe(&section, entry, &update.asker, Sight::Compared).await? {
        Observed::Current { entry, told } => (*entry, told),
        Observed::Settled { .. } => return Ok(ack),
        Observed::Unavailable { entry, retry_after } => {
            let status = super::wire_status(entry.status());
            return Err(WireError::unavailable(Some(status)).retry_after(retry_after));
        }
    };
    let judged = match Relayed::told(&told, &section.id)?.reply {
        Reply::Result(result) => judge(&section, &update, &entry, result)?,
        Reply::Error(_) => return Err(Kind::UpstreamProtocol.into()),
    };
    let deadline = section.governor.gateway.store.now().plus(CLAIM_MS);
    let Some(commands) = judged.commands(&section, deadline) else {
        return Ok(ack);
    };
    let key = entry.key.clone();
    let decided = section.governor.decide(&key, Some(entry), commands).await;
    let decided = decided.map_err(Undecided::into_answer)?;
    let entry = decided.entry.ok_or(Kind::TaskNotFound)?;
    let claims = decided.effects.into_iter().find_map(|effect| match effect {
        Effect::Relay { claims } => Some(claims),
        Effect::CancelUpstream | Effect::InputRequired => None,
    });
    match claims {
        Some(claims) => send(&section, &update, entry, claims, deadline).await,
        None => Ok(ack),
    }
}

/// Judges the answers to what is outstanding now; all others are ignored.
fn judge(
    section: &Section,
    update: &Update,
    entry: &Entry,
    result: &RawValue,
) -> Result<Judged, WireError> {
    let capabilities = Capabilities::parse(&update.asker.capabilities).map_err(WireError::from)?;
    let polled = task::polled(result, update.task.as_str()).map_err(|_| Kind::UpstreamProtocol)?;
    let Payload::InputRequired { requests } = polled.payload else {
        return Ok(Judged::default());
    };
    let consent = section.grant.object.consent.as_ref();
    let on_decline = consent.map_or(OnDecline::FailTask, |consent| consent.on_decline);
    let able = Able {
        born: &entry.birth.declared,
        now: &capabilities,
    };
    let mut judged = Judged::default();
    for question in &requests {
        let Ok(key) = InputKey::try_from(question.key.to_string()) else {
            continue;
        };
        let Some(raw) = update.answers.get(&key) else {
            continue;
        };
        if entry.slot(&key).is_none() {
            // Answered, outstanding, and never shown by us: no grant can exist for it.
            let cause = Cause::ConsentUnavailable;
            judged.declines.push(Command::Fail { cause });
            continue;
        }
        match verdict(question, raw, able, on_decline) {
            Ok(grant) => {
                judged.grants.insert(key, grant);
            }
            Err(reason) => judged.declines.push(Command::Decline {
                key,
                by: Decider::Caller(section.caller.owner.principal.clone()),
                reason,
                question: Some(QuestionHash(question.hash)),
            }),
        }
    }
    Ok(judged)
}

fn verdict(
    question: &Question<'_>,
    raw: &RawValue,
    able: Able<'_>,
    on_decline: OnDecline,
) -> Result<Grant, DeclineReason> {
    let grant = |decline| Grant {
        question: QuestionHash(question.hash),
        answer: AnswerHash(answer::hash(raw)),
        decline,
    };
    let no = |reason| match on_decline {
        OnDecline::RelayAnswer => Ok(grant(Some(reason))),
        OnDecline::FailTask => Err(reason),
    };
    match answer::judge(&question.method, raw) {
        Verdict::Decline(why) => match why {
            Why::Declined => no(DeclineReason::Declined),
            Why::Cancelled => no(DeclineReason::Cancelled),
            // Never relayed: an upstream could take for a yes what the protocol does not know.
            Why::Null | Why::Malformed => Err(DeclineReason::NotAnAnswer),
            Why::NoAction => Err(DeclineReason::MissingAction),
            Why::UnknownAction => Err(DeclineReason::UnknownAction),
        },
        Verdict::Accept if !able.meets(question.needs) => Err(DeclineReason::CapabilityMissing),
        Verdict::Accept => Ok(grant(None)),
    }
}

/// Sends what was claimed, and only that; then tells the ledger how it ended.
///
/// Guarantees: the relay ends before the claim's deadline, after which a poll may settle it.
async fn send(
    section: &Section,
    update: &Update,
    entry: Entry,
    claims: Vec<ClaimRef>,
    deadline: Millis,
) -> Result<Answer, WireError> {
    let own = Own {
        id: &section.id,
        meta: MetaOf::Client(&update.asker.meta),
    };
    let granted = claims.iter().filter_map(|claim| {
        let raw = update.answers.get(&claim.key)?;
        Some((claim.key.as_str(), &**raw))
    });
    let body = own.tasks_update(update.task.as_str(), granted).into();
    let left = deadline.since(section.governor.gateway.store.now());
    let most = Duration::from_millis(left.saturating_sub(MARGIN_MS));
    let reply = if most.is_zero() {
        Err(Failure::Late)
    } else {
        section
            .exchange(Method::TasksUpdate, &entry, body, most)
            .await
    };
    // Whatever became of it: what was asked before is no longer news.
    let polls = &section.upstream.runtime.polls;
    polls.forget(&entry.birth.owner, &update.task);
    let (end, answer) = ended(section, &reply);
    let command = match end {
        End::Confirmed => Command::Confirm { claims },
        End::Refused => Command::Release { claims },
        End::Unknown => Command::RelayUnknown { claims },
    };
    let key = entry.key.clone();
    let told = section
        .governor
        .decide(&key, Some(entry), vec![command])
        .await;
    told.map_err(Undecided::into_answer)?;
    answer
}

/// What a reply to a relayed answer says, and what the client is told.
fn ended(section: &Section, reply: &Result<Bytes, Failure>) -> (End, Result<Answer, WireError>) {
    let message = match reply {
        Ok(message) => message,
        Err(failure) => {
            let end = if failure.may_have_acted() {
                End::Unknown
            } else {
                End::Refused
            };
            return (end, Err(rescue::exchange(failure)));
        }
    };
    match Relayed::parse(message, &section.id) {
        Ok(relayed) => match relayed.reply {
            Reply::Result(result) => match task::acknowledged(result) {
                Ok(()) => {
                    let ack = Answer::result(&section.id, &wire::ack());
                    (End::Confirmed, Ok(ack))
                }
                Err(error) => {
                    section.count_refusal(Method::TasksUpdate, error.reason());
                    (End::Unknown, Err(Kind::UpstreamProtocol.into()))
                }
            },
            Reply::Error(error) => {
                let end = if refuses(error.code) {
                    End::Refused
                } else {
                    End::Unknown
                };
                let answer = Answer::relayed(&section.id, &relayed, Outcome::RpcError);
                (end, Ok(answer))
            }
        },
        Err(error) => {
            section.upstream_failed(error.reason());
            (End::Unknown, Err(breach(error)))
        }
    }
}

/// Errors about the request itself: the upstream cannot have taken the answer. Any other, as an
/// internal error, may have come after it was taken.
fn refuses(code: i64) -> bool {
    matches!(code, -32700 | -32602..=-32600 | -32099..=-32020)
}

// === impl Judged ===

impl Judged {
    /// One decline that fails the task relays nothing of its update.
    fn commands(self, section: &Section, deadline: Millis) -> Option<Vec<Command>> {
        let Self { grants, declines } = self;
        if !declines.is_empty() {
            return Some(declines);
        }
        if grants.is_empty() {
            return None;
        }
        Some(vec![Command::Claim {
            principal: section.caller.owner.principal.clone(),
            grants,
            deadline,
        }])
    }
}
