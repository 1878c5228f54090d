//! Pure governance of tasks: commands and `now` in, a decision or a refusal out.
//!
//! [`decide`] takes what the ledger holds of one task, the commands of one access and the time, and
//! returns the new entry, the events of the chain and what the shell must do next. The shell commits
//! the decision in one transaction before it acts on it. [`verify`] checks an export offline.
//!
//! Guarantees: a terminal state is final; each transition is on the chain exactly once, in order; a
//! grant is used once; drift is latched for good.
//! Caveats: the ledger never holds a result, an argument, a question or an answer; it has no clock,
//! no input or output and no randomness.

mod consent;
mod decide;
mod entry;
mod event;
mod id;
mod stage;
mod verify;

#[cfg(test)]
mod tests;

use serde::Serialize;

pub use decide::{
    Cause, Change, ClaimRef, Command, Decision, Effect, Grant, MAX_KEYS, MAX_OUTSTANDING,
    Questions, Refusal, Sight, decide,
};
pub use entry::{
    Ability, Birth, Claim, ENTRY_FORMAT, Entry, Latch, No, Outcome, Slot, SlotState, Snapshot,
    Status,
};
pub use event::{
    Decider, DeclineReason, Detail, EVENT_FORMAT, Event, FailureReason, Relay, Relayed, Verdict,
};
pub use id::{
    AnswerHash, ChainHead, InputKey, KeyHash, MAX_INPUT_KEY_BYTES, MAX_MILLIS, MAX_TASK_ID_BYTES,
    Millis, Owner, Principal, QuestionHash, TaskId, TaskKey, TenantRef, Timestamp, ToolDigest,
    UpstreamUid,
};
pub use verify::{Broken, Export, Fault, Summary, verify};

/// What cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("task id of {bytes} bytes, 1 to {MAX_TASK_ID_BYTES} are allowed")]
    TaskId { bytes: usize },
    #[error("input key of {bytes} bytes, 1 to {MAX_INPUT_KEY_BYTES} are allowed")]
    InputKey { bytes: usize },
    #[error("a time of the upstream is not in the form of RFC 3339")]
    Timestamp,
    /// A newer binary wrote it.
    #[error("{what} has format {found}, this binary reads format {known}")]
    Format {
        what: &'static str,
        found: u64,
        known: u64,
    },
    #[error("ledger entry cannot be read")]
    Malformed(#[source] serde_json::Error),
}

/// Canonical bytes of what this crate stores or hashes.
///
/// Assumptions: the types given are this crate's: string keys, and numbers below 2^53.
fn canonical<T: Serialize>(value: &T) -> Vec<u8> {
    hangar_wire::canonical(value).expect("ledger types have string keys and plain numbers")
}

// === impl Error ===

impl Error {
    /// Closed word for metrics and logs.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::TaskId { .. } => "task_id",
            Self::InputKey { .. } => "input_key",
            Self::Timestamp => "timestamp",
            Self::Format { .. } => "format",
            Self::Malformed(_) => "malformed",
        }
    }
}
