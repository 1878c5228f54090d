//! The six events of a task, chained: `hash = SHA-256(JCS(event with prev))`.
//!
//! A line of an export is the exact canonical bytes, so the hash of the line is the hash of the event.

use hangar_wire::{ObjectDigest, Sha256Hex, Term};
use serde::{Deserialize, Serialize};

use crate::{
    AnswerHash, ChainHead, Entry, KeyHash, Millis, Owner, Principal, QuestionHash, TaskKey,
    ToolDigest,
};

/// One link of a task's chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Event {
    pub format: u64,
    pub key: TaskKey,
    /// Place within the task's chain, from 0.
    pub index: u64,
    pub prev: ChainHead,
    pub at: Millis,
    pub owner: Owner,
    pub upstream: String,
    pub tool: String,
    pub digest: ToolDigest,
    pub upstream_object: ObjectDigest,
    pub policy_object: ObjectDigest,
    pub term: Term,
    pub correlation: String,
    pub detail: Detail,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Detail {
    TaskCreated {},
    TaskConsentDecided {
        key: KeyHash,
        /// None: the policy denied before the question was shown and it was not hashed.
        question: Option<QuestionHash>,
        verdict: Verdict,
    },
    TaskCompleted {},
    TaskFailed {
        reason: FailureReason,
    },
    TaskCancelled {},
    DigestMismatchInTask {
        /// None: the contract could not be verified.
        found: Option<ToolDigest>,
    },
}

/// Decision on one question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "decision", rename_all = "snake_case")]
pub enum Verdict {
    Accept {
        principal: Option<Principal>,
        answer: AnswerHash,
        relay: Relay,
    },
    Decline {
        by: Decider,
        reason: DeclineReason,
        /// None: nothing went upstream, and the task ended.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        relayed: Option<Relayed>,
    },
}

/// A no that went upstream instead of ending the task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Relayed {
    pub answer: AnswerHash,
    pub relay: Relay,
}

/// How the relay of an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Relay {
    /// The upstream acknowledged it.
    Confirmed,
    /// A later poll no longer lists the question.
    Settled,
    /// The task ended first.
    Unknown,
}

/// Who declined.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decider {
    Caller(Option<Principal>),
    Policy,
}

/// Why a question was declined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeclineReason {
    /// `action: decline`.
    Declined,
    /// `action: cancel`.
    Cancelled,
    /// The response is null or no object.
    NotAnAnswer,
    /// No `action`.
    MissingAction,
    /// An `action` that the protocol does not know.
    UnknownAction,
    /// The policy does not allow this kind of question.
    MethodNotAllowed,
    /// The client did not declare what the question needs.
    CapabilityMissing,
}

/// Why a task failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureReason {
    /// The upstream reported `failed`; every other reason is the gateway's.
    UpstreamFailed,
    UpstreamLost,
    UpstreamProtocol,
    UpstreamRemoved,
    UpstreamChanged,
    DigestDrift,
    ConsentDenied,
    ConsentExpired,
    ConsentUnavailable,
    Evicted,
}

/// Format of an event.
pub const EVENT_FORMAT: u64 = 1;

// === impl Event ===

impl Event {
    /// The next link of this entry's chain.
    pub(crate) fn next(entry: &Entry, at: Millis, detail: Detail) -> Self {
        let birth = &entry.birth;
        Self {
            format: EVENT_FORMAT,
            key: entry.key.clone(),
            index: entry.events,
            prev: entry.head,
            at,
            owner: birth.owner.clone(),
            upstream: birth.upstream.clone(),
            tool: birth.tool.clone(),
            digest: birth.digest,
            upstream_object: birth.upstream_object,
            policy_object: birth.policy_object,
            term: birth.term,
            correlation: birth.correlation.clone(),
            detail,
        }
    }

    /// Canonical bytes: a line of an export, without its end.
    pub fn line(&self) -> Vec<u8> {
        crate::canonical(self)
    }

    pub fn hash(&self) -> ChainHead {
        ChainHead(Sha256Hex::of(&self.line()))
    }
}

// === impl Detail ===

impl Detail {
    /// Closed word for metrics.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::TaskCreated {} => "TaskCreated",
            Self::TaskConsentDecided { .. } => "TaskConsentDecided",
            Self::TaskCompleted {} => "TaskCompleted",
            Self::TaskFailed { .. } => "TaskFailed",
            Self::TaskCancelled {} => "TaskCancelled",
            Self::DigestMismatchInTask { .. } => "DigestMismatchInTask",
        }
    }

    pub fn is_terminal(&self) -> bool {
        match self {
            Self::TaskCompleted {} | Self::TaskFailed { .. } | Self::TaskCancelled {} => true,
            Self::TaskCreated {}
            | Self::TaskConsentDecided { .. }
            | Self::DigestMismatchInTask { .. } => false,
        }
    }
}

// === impl Verdict ===

impl Verdict {
    /// The `decision` of this verdict.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Accept { .. } => "accept",
            Self::Decline { .. } => "decline",
        }
    }

    /// Closed word for metrics: why it was declined, or how the relay ended.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Accept { relay, .. } => relay.as_str(),
            Self::Decline { reason, .. } => reason.as_str(),
        }
    }
}

// === impl Relay ===

impl Relay {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Confirmed => "confirmed",
            Self::Settled => "settled",
            Self::Unknown => "unknown",
        }
    }
}

// === impl DeclineReason ===

impl DeclineReason {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Declined => "declined",
            Self::Cancelled => "cancelled",
            Self::NotAnAnswer => "not_an_answer",
            Self::MissingAction => "missing_action",
            Self::UnknownAction => "unknown_action",
            Self::MethodNotAllowed => "method_not_allowed",
            Self::CapabilityMissing => "capability_missing",
        }
    }
}

// === impl FailureReason ===

impl FailureReason {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::UpstreamFailed => "upstream_failed",
            Self::UpstreamLost => "upstream_lost",
            Self::UpstreamProtocol => "upstream_protocol",
            Self::UpstreamRemoved => "upstream_removed",
            Self::UpstreamChanged => "upstream_changed",
            Self::DigestDrift => "digest_drift",
            Self::ConsentDenied => "consent_denied",
            Self::ConsentExpired => "consent_expired",
            Self::ConsentUnavailable => "consent_unavailable",
            Self::Evicted => "evicted",
        }
    }
}
