//! What the ledger holds of one task: who, which contract, and last known status. No result, no
//! argument, no question and no answer is in here: hashes only.

use std::collections::{BTreeMap, BTreeSet};

use hangar_wire::{ObjectDigest, Term};
use serde::{Deserialize, Serialize};

use crate::{
    AnswerHash, ChainHead, Decider, DeclineReason, Error, FailureReason, KeyHash, MAX_MILLIS,
    Millis, Owner, Principal, QuestionHash, TaskId, TaskKey, TenantRef, Timestamp, ToolDigest,
};

/// `status` of a task on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    Working,
    InputRequired,
    Completed,
    Failed,
    Cancelled,
}

/// The upstream's task members that are kept: copied, never synthesized.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Snapshot {
    pub task_id: TaskId,
    pub status: Status,
    pub created_at: Timestamp,
    pub last_updated_at: Timestamp,
    /// At most [`MAX_MILLIS`]; none is unlimited.
    pub ttl_ms: Option<u64>,
    /// At most [`MAX_MILLIS`].
    pub poll_interval_ms: Option<u64>,
}

/// What a client can do with a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ability {
    ElicitationForm,
    ElicitationUrl,
    Sampling,
    Roots,
}

/// What is bound to a task when it is relayed, and never changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Birth {
    pub owner: Owner,
    /// `namespace/name` of the `McpUpstream`.
    pub upstream: String,
    pub tool: String,
    pub digest: ToolDigest,
    /// Digests of the objects in force.
    pub upstream_object: ObjectDigest,
    pub policy_object: ObjectDigest,
    /// Configuration under which it was born: a replica that holds a lower one decides nothing.
    pub term: Term,
    pub correlation: String,
    /// At most [`MAX_MILLIS`], cut down at registration.
    pub retention_ms: u64,
    /// What the request that made the task declared. Left out where that was nothing, so that such an
    /// entry is written as it was before the member was there.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub declared: BTreeSet<Ability>,
}

/// The ledger's record of one task.
///
/// Guarantees: `latch` is set once and never changes; `events` and `head` move together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Entry {
    pub key: TaskKey,
    pub birth: Birth,
    pub snapshot: Snapshot,
    /// When the handle was registered; never served.
    pub relayed_at: Millis,
    /// When the upstream last answered for this task, as far as it was worth a write.
    pub contact_at: Millis,
    pub slots: BTreeMap<KeyHash, Slot>,
    pub latch: Option<Latch>,
    /// A mismatch was recorded: no payload of this task is handed over any more.
    pub mismatch_at: Option<Millis>,
    /// When the first poll began that found no such task.
    pub lost_since: Option<Millis>,
    pub cancel_requested_at: Option<Millis>,
    /// Moves with every commit; a write behind leaves it. Begins at the time of birth, which no other
    /// task under this key can have had: a decision on that one never passes for one on this.
    pub version: u64,
    pub head: ChainHead,
    /// Number of events on the chain.
    pub events: u64,
}

/// A terminal state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Latch {
    pub outcome: Outcome,
    /// Where time ended it, the moment when it did, however late that was seen.
    pub at: Millis,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "status", content = "reason", rename_all = "snake_case")]
pub enum Outcome {
    Completed,
    Failed(FailureReason),
    Cancelled,
}

/// One question of a task, from first sight until the task is purged: a key never comes back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Slot {
    pub question: QuestionHash,
    pub seen_at: Millis,
    pub expires_at: Millis,
    /// Number of claims so far.
    pub attempts: u32,
    pub state: SlotState,
}

/// ```text
///          claim            confirm, or gone in a poll begun after the relay's end
///   Open --------> Claimed ------------------------------------------------> Used
///    ^  <--------   |  ^                                                       ^
///    |   release    |  | claim with the byte-identical answer                  |
///    v              v  |          gone in a poll                               |
///   Withdrawn    Unsettled ----------------------------------------------------+
/// ```
/// A terminal event turns `Claimed` and `Unsettled` into `Used`, with their decision recorded. A no
/// that came while a yes was `Claimed` is decided where that yes is neither confirmed nor gone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "camelCase", deny_unknown_fields)]
pub enum SlotState {
    /// Outstanding, not answered.
    Open,
    /// A grant is given and on its way; `earlier` is one of unknown outcome before it, `revoked`
    /// a no that came after it: it ends the task unless the upstream took the yes.
    Claimed {
        claim: Claim,
        earlier: Option<Claim>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        revoked: Option<No>,
    },
    /// The relay's outcome is unknown and the question is still outstanding: only the
    /// byte-identical answer may be claimed again.
    Unsettled { claim: Claim },
    /// Decided.
    Used,
    /// The upstream no longer asks, and nobody answered.
    Withdrawn,
}

/// A recorded grant for one question and one answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Claim {
    pub attempt: u32,
    pub principal: Option<Principal>,
    pub answer: AnswerHash,
    /// The answer is a no that is relayed; none: it is a yes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decline: Option<DeclineReason>,
    /// After this the relay has ended, whoever ran it.
    pub deadline: Millis,
    /// When the relay ended without a definite answer.
    pub ended_at: Option<Millis>,
}

/// A no to a question: whose, and what made it one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct No {
    pub by: Decider,
    pub reason: DeclineReason,
}

#[derive(Serialize)]
struct Sealed<'a> {
    format: u64,
    entry: &'a Entry,
}

#[derive(Deserialize)]
struct Opened {
    format: u64,
    entry: Entry,
}

#[derive(Deserialize)]
struct Header {
    format: u64,
}

/// Format of an encoded entry.
pub const ENTRY_FORMAT: u64 = 1;
/// A contact is written once this part of the retention went by, and the retention is lengthened by
/// as much: no polled task ends early, and a quiet poll costs no commit.
const CONTACT_PART: u64 = 16;

// === impl Status ===

impl Status {
    pub const ALL: [Self; 5] = [
        Self::Working,
        Self::InputRequired,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::InputRequired => "input_required",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// The status of this name, if the protocol has it.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == text)
    }

    pub fn is_terminal(self) -> bool {
        match self {
            Self::Working | Self::InputRequired => false,
            Self::Completed | Self::Failed | Self::Cancelled => true,
        }
    }
}

// === impl Snapshot ===

impl Snapshot {
    /// Every number is one that canonical JSON keeps.
    pub(crate) fn is_sound(&self) -> bool {
        let fits = |ms: Option<u64>| ms.is_none_or(|ms| ms <= MAX_MILLIS);
        fits(self.ttl_ms) && fits(self.poll_interval_ms)
    }
}

// === impl Outcome ===

impl Outcome {
    pub fn status(self) -> Status {
        match self {
            Self::Completed => Status::Completed,
            Self::Failed(_) => Status::Failed,
            Self::Cancelled => Status::Cancelled,
        }
    }

    /// The gateway ended the task: it is served from the ledger, whatever the upstream says.
    pub fn is_gateway_made(self) -> bool {
        match self {
            Self::Completed | Self::Cancelled | Self::Failed(FailureReason::UpstreamFailed) => {
                false
            }
            Self::Failed(_) => true,
        }
    }
}

// === impl Entry ===

impl Entry {
    /// Latched state, otherwise what the upstream last said.
    pub fn status(&self) -> Status {
        self.latch
            .map_or(self.snapshot.status, |latch| latch.outcome.status())
    }

    /// No terminal event yet: it counts for the quota.
    pub fn is_live(&self) -> bool {
        self.latch.is_none()
    }

    pub fn tenant(&self) -> Option<&TenantRef> {
        self.birth.owner.tenant.as_ref()
    }

    /// When its retention ends: a live entry is evicted then, a terminal one purged.
    pub fn expires_at(&self) -> Millis {
        let retention = self.birth.retention_ms;
        if let Some(latch) = self.latch {
            return latch.at.plus(retention);
        }
        let idle = self.contact_at.plus(retention).plus(self.contact_step());
        self.ttl_ends_at().map_or(idle, |end| idle.max(end))
    }

    /// When the oldest unanswered question ends the task.
    pub fn consent_expires_at(&self) -> Option<Millis> {
        if !self.is_live() {
            return None;
        }
        let unanswered = |slot: &&Slot| match slot.state {
            SlotState::Open | SlotState::Unsettled { .. } => true,
            // A grant was given in time: a poll settles it, not the clock.
            SlotState::Claimed { .. } | SlotState::Used | SlotState::Withdrawn => false,
        };
        let open = self.slots.values().filter(unanswered);
        open.map(|slot| slot.expires_at).min()
    }

    /// When [`crate::Command::Due`] has something to decide.
    pub fn due_at(&self) -> Millis {
        let expires = self.expires_at();
        self.consent_expires_at()
            .map_or(expires, |consent| consent.min(expires))
    }

    /// Creation + `ttlMs` on our clock: `createdAt` is the upstream's, and never later than ours.
    pub fn ttl_ends_at(&self) -> Option<Millis> {
        self.snapshot.ttl_ms.map(|ttl| self.relayed_at.plus(ttl))
    }

    /// When nothing is left of it: a retention after its end, be that recorded or only due.
    pub fn gone_at(&self) -> Millis {
        match self.latch {
            Some(_) => self.expires_at(),
            None => self.due_at().plus(self.birth.retention_ms),
        }
    }

    pub fn slot(&self, key: &crate::InputKey) -> Option<&Slot> {
        self.slots.get(&key.hash())
    }

    /// How old a stored contact may get before the next one is worth a commit.
    pub(crate) fn contact_step(&self) -> u64 {
        self.birth.retention_ms / CONTACT_PART
    }

    /// Bytes for the store: canonical JSON with a format number.
    pub fn encode(&self) -> Vec<u8> {
        let sealed = Sealed {
            format: ENTRY_FORMAT,
            entry: self,
        };
        crate::canonical(&sealed)
    }

    /// Reads what [`Entry::encode`] wrote; refuses a newer format by that name, whatever else it holds.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let opened = serde_json::from_slice::<Opened>(bytes).map_err(Error::Malformed);
        let format = if let Ok(opened) = &opened {
            opened.format
        } else {
            // What is newer may not look like an entry of ours at all.
            let header: Header = serde_json::from_slice(bytes).map_err(Error::Malformed)?;
            header.format
        };
        if format != ENTRY_FORMAT {
            return Err(Error::Format {
                what: "ledger entry",
                found: format,
                known: ENTRY_FORMAT,
            });
        }
        opened.map(|opened| opened.entry)
    }
}

// === impl Claim ===

impl Claim {
    /// Only a poll begun after the relay ended, or after the deadline, tells how it ended.
    pub(crate) fn is_settled_by(&self, began: Millis) -> bool {
        self.ended_at.is_some_and(|ended| began > ended) || began > self.deadline
    }

    /// Whether its relay is over, however it ended.
    pub(crate) fn is_over(&self, now: Millis) -> bool {
        self.ended_at.is_some() || now > self.deadline
    }
}
