//! The decision: one task, the commands of one access, one time.

use std::collections::BTreeMap;

use crate::stage::{Passed, Stage};
use crate::{
    AnswerHash, Birth, Decider, DeclineReason, Detail, Entry, Event, InputKey, MAX_MILLIS, Millis,
    Outcome, Principal, QuestionHash, Snapshot, Status, TaskKey, ToolDigest,
};

/// What happened to a task, or what is wanted of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// The upstream made a task.
    Register {
        birth: Box<Birth>,
        snapshot: Snapshot,
    },
    /// The upstream answered a `tasks/get` that began at `began` on the store's clock.
    Sync { snapshot: Snapshot, began: Millis },
    /// The tool's contract as it is now; none could not be verified. Equal to the bound one: nothing.
    Drift { found: Option<ToolDigest> },
    /// What the answer of that `tasks/get` asks; all outstanding questions.
    Question(Questions),
    /// A caller answers: each grant becomes an [`Effect::Relay`], or is ignored. A no that comes
    /// too late to be relayed ends the task like a [`Command::Decline`].
    Claim {
        principal: Option<Principal>,
        grants: BTreeMap<InputKey, Grant>,
        /// When the relay has ended at the latest.
        deadline: Millis,
    },
    /// The upstream acknowledged the relayed answers.
    Confirm { claims: Vec<ClaimRef> },
    /// The upstream refused them definitely: they may be answered again.
    Release { claims: Vec<ClaimRef> },
    /// The relay ended and nobody knows how.
    RelayUnknown { claims: Vec<ClaimRef> },
    /// Anything but an explicit yes, for an outstanding question; the task ends.
    Decline {
        key: InputKey,
        by: Decider,
        reason: DeclineReason,
        /// The question, where the policy denies before it was shown.
        question: Option<QuestionHash>,
    },
    /// The caller wants it cancelled. Each request on a live entry is an [`Effect::CancelUpstream`],
    /// so that one that got lost is repeated by asking again.
    CancelRequested,
    /// The upstream answered a `tasks/get` that began at `began` that it knows no such task.
    Lost { began: Millis },
    /// The gateway found a reason to end it.
    Fail { cause: Cause },
    /// Nothing but the passing of time, which every access decides anyway.
    Due,
}

/// The outstanding questions of one poll.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Questions {
    pub outstanding: BTreeMap<InputKey, QuestionHash>,
    pub sight: Sight,
    /// Milliseconds from first sight until an unanswered question ends the task.
    pub ttl_ms: u64,
    pub began: Millis,
}

/// Who sees the questions of a poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    /// They are shown to a caller who may answer: new ones open a slot.
    Shown,
    /// They are only compared.
    Compared,
}

/// One answer that may go upstream, to the question that is asked there now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    pub question: QuestionHash,
    pub answer: AnswerHash,
    /// None: an explicit yes. Otherwise a no that the policy has relayed instead of ending the task.
    pub decline: Option<DeclineReason>,
}

/// One claim of one key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClaimRef {
    pub key: InputKey,
    pub attempt: u32,
}

/// Why the gateway ends a task, where no other command says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    UpstreamProtocol,
    UpstreamRemoved,
    UpstreamChanged,
    ConsentUnavailable,
}

/// What was decided. The shell commits `change` and `events` in one transaction, then acts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    pub change: Change,
    pub events: Vec<Event>,
    pub effects: Vec<Effect>,
}

/// What becomes of the entry, and how durable it must be before anything is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    Unchanged,
    /// Only hints changed: written without being awaited, under the same version.
    WriteBehind(Box<Entry>),
    /// Governance changed: durable first.
    Commit(Box<Entry>),
    /// Its retention ended: it no longer exists. Where nobody looked since it was live, its end is
    /// among the events.
    Purge,
}

/// What the shell does once the decision is durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Send `tasks/cancel` to the upstream, best effort; it may be told more than once.
    CancelUpstream,
    /// Send these answers upstream in one `tasks/update`, then `Confirm`, `Release` or
    /// `RelayUnknown`.
    Relay { claims: Vec<ClaimRef> },
    /// The task came to ask for input: metered.
    InputRequired,
}

/// Why nothing was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The id belongs to an entry that exists: never cancel it upstream.
    #[error("task id already belongs to an entry")]
    Collision,
    #[error("task members are out of bounds")]
    Malformed,
    /// The upstream left a terminal state: the latched one is served.
    #[error("upstream left a terminal state")]
    Regression,
    /// The upstream lost a task whose end is recorded: not found.
    #[error("upstream no longer knows a finished task")]
    Gone,
    #[error("no such entry")]
    Missing,
}

/// Order in which the commands of one decision are applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    Birth,
    RelayEnd,
    Time,
    Cause,
    Drift,
    Lost,
    Sync,
    Question,
    Decline,
    Claim,
    Cancel,
}

/// Most questions outstanding at once.
pub const MAX_OUTSTANDING: usize = 32;
/// Most keys in a task's life.
pub const MAX_KEYS: usize = 256;

/// Decides the commands of one access together.
///
/// They are applied in a fixed order, whatever the order given: ends of relays, time, causes of the
/// gateway, drift, lost, snapshot, questions, declines, claims, cancel. So a drifted payload never
/// completes a task, a decline beside a grant relays nothing, and time is decided at every access.
/// `Register` comes alone.
///
/// Guarantees: on a refusal nothing is changed. With a terminal event every open claim is closed.
/// Assumptions: `entry` is what the store holds under `key`, and `now` comes from the store.
pub fn decide(
    key: &TaskKey,
    entry: Option<&Entry>,
    commands: Vec<Command>,
    now: Millis,
) -> Result<Decision, Refusal> {
    let (birth, commands): (Vec<_>, Vec<_>) = commands
        .into_iter()
        .partition(|command| command.rank() == Rank::Birth);
    if let Some(Command::Register { birth, snapshot }) = birth.into_iter().next() {
        return register(key, entry, *birth, snapshot, now);
    }
    let before = entry.ok_or(Refusal::Missing)?;
    let (ends, mut rest): (Vec<_>, Vec<_>) = commands
        .into_iter()
        .partition(|command| command.rank() == Rank::RelayEnd);
    let mut stage = Stage::new(before.clone(), now);
    for command in ends {
        stage.apply(command)?;
    }
    // A poll is an access when it begins: one that the upstream answered slowly evicts nothing.
    let began = rest.iter().filter_map(Command::began).min();
    if stage.pass_time(began.map_or(now, |began| began.min(now))) == Passed::Purge {
        return Ok(Decision {
            change: Change::Purge,
            events: stage.events,
            effects: stage.effects,
        });
    }
    // Stable, so that declines keep their order; behind a decline there is no claim to relay.
    rest.sort_by_key(Command::rank);
    for command in rest {
        stage.apply(command)?;
    }
    Ok(stage.finish(before))
}

/// The first decision of a task. The quota is the store's to enforce, in the same transaction.
fn register(
    key: &TaskKey,
    existing: Option<&Entry>,
    birth: Birth,
    snapshot: Snapshot,
    now: Millis,
) -> Result<Decision, Refusal> {
    if !snapshot.is_sound() || snapshot.task_id != key.task {
        return Err(Refusal::Malformed);
    }
    let purged = |entry: &Entry| !entry.is_live() && entry.expires_at() <= now;
    if let Some(entry) = existing.filter(|entry| !purged(entry)) {
        let same = entry.birth.owner == birth.owner && entry.birth.tool == birth.tool;
        if entry.is_live() && same {
            return Ok(Decision::unchanged());
        }
        return Err(Refusal::Collision);
    }
    let status = snapshot.status;
    let birth = Birth {
        retention_ms: birth.retention_ms.min(MAX_MILLIS),
        ..birth
    };
    let entry = Entry {
        key: key.clone(),
        birth,
        snapshot,
        relayed_at: now,
        contact_at: now,
        slots: BTreeMap::new(),
        latch: None,
        mismatch_at: None,
        lost_since: None,
        cancel_requested_at: None,
        version: existing.map_or(now.0, |entry| entry.version.saturating_add(1)),
        head: key.root(),
        events: 0,
    };
    let mut stage = Stage::new(entry, now);
    stage.push(Detail::TaskCreated {});
    match status {
        // No payload will ever need a check: the end is known now.
        Status::Cancelled => stage.end(Outcome::Cancelled),
        Status::InputRequired => stage.effects.push(Effect::InputRequired),
        // The payload of an end comes with the first poll, and the event after its check.
        Status::Working | Status::Completed | Status::Failed => {}
    }
    Ok(Decision {
        change: Change::Commit(Box::new(stage.entry)),
        events: stage.events,
        effects: stage.effects,
    })
}

// === impl Command ===

impl Command {
    pub(crate) fn rank(&self) -> Rank {
        match self {
            Self::Register { .. } => Rank::Birth,
            Self::Confirm { .. } | Self::Release { .. } | Self::RelayUnknown { .. } => {
                Rank::RelayEnd
            }
            Self::Due => Rank::Time,
            Self::Fail { .. } => Rank::Cause,
            Self::Drift { .. } => Rank::Drift,
            Self::Lost { .. } => Rank::Lost,
            Self::Sync { .. } => Rank::Sync,
            Self::Question(_) => Rank::Question,
            Self::Decline { .. } => Rank::Decline,
            Self::Claim { .. } => Rank::Claim,
            Self::CancelRequested => Rank::Cancel,
        }
    }

    /// When the poll behind this command began.
    fn began(&self) -> Option<Millis> {
        match self {
            Self::Sync { began, .. } | Self::Lost { began } => Some(*began),
            Self::Question(questions) => Some(questions.began),
            Self::Register { .. }
            | Self::Drift { .. }
            | Self::Claim { .. }
            | Self::Confirm { .. }
            | Self::Release { .. }
            | Self::RelayUnknown { .. }
            | Self::Decline { .. }
            | Self::CancelRequested
            | Self::Fail { .. }
            | Self::Due => None,
        }
    }
}

// === impl Decision ===

impl Decision {
    pub(crate) fn unchanged() -> Self {
        Self {
            change: Change::Unchanged,
            events: Vec::new(),
            effects: Vec::new(),
        }
    }

    /// The entry after the decision, when it changed and still exists.
    pub fn entry(&self) -> Option<&Entry> {
        match &self.change {
            Change::Unchanged | Change::Purge => None,
            Change::WriteBehind(entry) | Change::Commit(entry) => Some(entry),
        }
    }

    /// The claims that must be relayed.
    pub fn claims(&self) -> &[ClaimRef] {
        let relays = self.effects.iter().find_map(|effect| match effect {
            Effect::Relay { claims } => Some(claims.as_slice()),
            Effect::CancelUpstream | Effect::InputRequired => None,
        });
        relays.unwrap_or_default()
    }
}

// === impl Refusal ===

impl Refusal {
    /// Closed word for metrics and logs.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Collision => "collision",
            Self::Malformed => "malformed",
            Self::Regression => "regression",
            Self::Gone => "gone",
            Self::Missing => "missing",
        }
    }
}
