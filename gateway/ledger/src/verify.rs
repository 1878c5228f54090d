//! The offline verifier of an export: one event a line, the exact canonical bytes.
//!
//! Guarantees: a changed byte, an event that is missing, doubled or moved within its task, and a
//! transition that the state before it forbids are found and named.
//! Caveats: a chain cut at its tail, a whole task left out, and a byte of a chain's last event show
//! only where the export has its end line, and that line is not signed.

use std::collections::btree_map::Entry as Slot;
use std::collections::{BTreeMap, BTreeSet};

use hangar_wire::Sha256Hex;
use serde::{Deserialize, Serialize};

use crate::{
    ChainHead, Detail, EVENT_FORMAT, Event, FailureReason, KeyHash, Outcome, TaskKey, Verdict,
};

/// What a sound export holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    pub events: u64,
    /// Chains begun; a key that was purged and registered afresh has two.
    pub chains: u64,
    /// Chains without a terminal event.
    pub live: u64,
    /// The end line is there: nothing was cut off.
    pub ended: bool,
}

/// The first line that does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {fault}")]
pub struct Broken {
    /// From 1.
    pub line: u64,
    pub fault: Fault,
}

/// What is wrong with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("not an event")]
    NotAnEvent,
    #[error("format is not known to this verifier")]
    Format,
    #[error("not the canonical form of its event")]
    NotCanonical,
    #[error("an event of this place in the task was there before")]
    Duplicate,
    #[error("an event of this task is missing before it")]
    Gap,
    #[error("does not follow from the event before it")]
    Hash,
    #[error("says of its task what its birth does not")]
    Birth,
    #[error("a transition that the state before it does not allow")]
    Transition,
    #[error("end line does not fit the lines before it")]
    End,
    #[error("something follows the end line")]
    AfterEnd,
}

/// Makes the end line of an export while its lines go by.
#[derive(Clone, Debug, Default)]
pub struct Export {
    events: u64,
    log: Option<Sha256Hex>,
}

/// The end line: how many events the export holds, and a hash over all of them in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct End {
    format: u64,
    events: u64,
    log: Sha256Hex,
}

#[derive(Deserialize)]
struct Header {
    format: u64,
}

/// What is known of one task while its events go by.
struct Chain {
    first: Event,
    head: ChainHead,
    next: u64,
    outcome: Option<Outcome>,
    mismatch: bool,
    /// Keys whose answer went upstream: each goes once.
    answered: BTreeSet<KeyHash>,
    /// First events of this and of earlier lives of the key.
    births: BTreeSet<ChainHead>,
}

/// Checks every chain of an export; a line is not needed once the next one is asked for.
pub fn verify<L: AsRef<[u8]>>(lines: impl Iterator<Item = L>) -> Result<Summary, Broken> {
    let mut chains = BTreeMap::new();
    let mut export = Export::default();
    let mut summary = Summary::default();
    for (line, bytes) in (1..).zip(lines) {
        let bytes = bytes.as_ref();
        let broken = |fault| Broken { line, fault };
        if summary.ended {
            return Err(broken(Fault::AfterEnd));
        }
        if let Ok(end) = serde_json::from_slice::<End>(bytes) {
            summary.ended = end == export.stated() && bytes == export.end();
            if !summary.ended {
                return Err(broken(Fault::End));
            }
            continue;
        }
        let event = read(bytes).map_err(broken)?;
        let hash = ChainHead(Sha256Hex::of(bytes));
        if follow(&mut chains, event, hash).map_err(broken)? {
            summary.chains += 1;
        }
        export.add(bytes);
    }
    summary.events = export.events;
    let live = chains.values().filter(|chain| chain.outcome.is_none());
    summary.live = live.count() as u64;
    Ok(summary)
}

fn read(bytes: &[u8]) -> Result<Event, Fault> {
    let header: Header = serde_json::from_slice(bytes).map_err(|_| Fault::NotAnEvent)?;
    if header.format != EVENT_FORMAT {
        return Err(Fault::Format);
    }
    let event: Event = serde_json::from_slice(bytes).map_err(|_| Fault::NotAnEvent)?;
    if event.line() == bytes {
        Ok(event)
    } else {
        Err(Fault::NotCanonical)
    }
}

/// Puts an event on its chain; says whether it began one.
fn follow(
    chains: &mut BTreeMap<TaskKey, Chain>,
    event: Event,
    hash: ChainHead,
) -> Result<bool, Fault> {
    match chains.entry(event.key.clone()) {
        Slot::Vacant(slot) => {
            slot.insert(Chain::begin(event, hash, BTreeSet::new())?);
            Ok(true)
        }
        Slot::Occupied(mut slot) => {
            let chain = slot.get_mut();
            let afresh = event.index == 0 && !chain.births.contains(&hash);
            if afresh && chain.outcome.is_some() {
                let births = std::mem::take(&mut chain.births);
                *chain = Chain::begin(event, hash, births)?;
                return Ok(true);
            }
            chain.extend(&event, hash)?;
            Ok(false)
        }
    }
}

// === impl Chain ===

impl Chain {
    fn begin(
        first: Event,
        hash: ChainHead,
        mut births: BTreeSet<ChainHead>,
    ) -> Result<Self, Fault> {
        if first.index != 0 {
            return Err(Fault::Gap);
        }
        if first.prev != first.key.root() {
            return Err(Fault::Hash);
        }
        if first.detail != (Detail::TaskCreated {}) {
            return Err(Fault::Transition);
        }
        births.insert(hash);
        Ok(Self {
            first,
            head: hash,
            next: 1,
            outcome: None,
            mismatch: false,
            answered: BTreeSet::new(),
            births,
        })
    }

    fn extend(&mut self, event: &Event, hash: ChainHead) -> Result<(), Fault> {
        if event.index < self.next {
            return Err(Fault::Duplicate);
        }
        if event.index > self.next {
            return Err(Fault::Gap);
        }
        if event.prev != self.head {
            return Err(Fault::Hash);
        }
        if !self.is_of(event) {
            return Err(Fault::Birth);
        }
        if !self.step(&event.detail) {
            return Err(Fault::Transition);
        }
        self.head = hash;
        self.next += 1;
        Ok(())
    }

    /// Whether the event repeats what was bound at birth.
    fn is_of(&self, event: &Event) -> bool {
        let Event {
            format: _,
            key: _,
            index: _,
            prev: _,
            at: _,
            detail: _,
            owner,
            upstream,
            tool,
            digest,
            upstream_object,
            policy_object,
            term,
            correlation,
        } = event;
        let first = &self.first;
        *owner == first.owner
            && *upstream == first.upstream
            && *tool == first.tool
            && *digest == first.digest
            && *upstream_object == first.upstream_object
            && *policy_object == first.policy_object
            && *term == first.term
            && *correlation == first.correlation
    }

    /// Moves on, where the state allows it.
    fn step(&mut self, detail: &Detail) -> bool {
        let live = self.outcome.is_none();
        match detail {
            Detail::TaskCreated {} => false,
            Detail::TaskConsentDecided { key, verdict, .. } => match verdict {
                Verdict::Accept { .. }
                | Verdict::Decline {
                    relayed: Some(_), ..
                } => live && self.answered.insert(*key),
                Verdict::Decline { relayed: None, .. } => live,
            },
            Detail::DigestMismatchInTask { .. } => {
                let payload = match self.outcome {
                    None
                    | Some(Outcome::Completed | Outcome::Failed(FailureReason::UpstreamFailed)) => {
                        true
                    }
                    Some(Outcome::Cancelled | Outcome::Failed(_)) => false,
                };
                payload && !std::mem::replace(&mut self.mismatch, true)
            }
            Detail::TaskCompleted {} => self.end(Outcome::Completed),
            Detail::TaskCancelled {} => self.end(Outcome::Cancelled),
            Detail::TaskFailed { reason } => self.end(Outcome::Failed(*reason)),
        }
    }

    /// A live task with a mismatch ends by drift, and by nothing else.
    fn end(&mut self, outcome: Outcome) -> bool {
        let drift = outcome == Outcome::Failed(FailureReason::DigestDrift);
        let allowed = self.outcome.is_none() && drift == self.mismatch;
        self.outcome = Some(outcome);
        allowed
    }
}

// === impl Export ===

impl Export {
    /// Takes the next line of the export.
    pub fn add(&mut self, line: &[u8]) {
        let mut both = Vec::with_capacity(64);
        if let Some(log) = self.log {
            both.extend_from_slice(log.as_bytes());
        }
        both.extend_from_slice(Sha256Hex::of(line).as_bytes());
        self.log = Some(Sha256Hex::of(&both));
        self.events += 1;
    }

    /// The line that ends the export.
    pub fn end(&self) -> Vec<u8> {
        crate::canonical(&self.stated())
    }

    fn stated(&self) -> End {
        End {
            format: EVENT_FORMAT,
            events: self.events,
            log: self.log.unwrap_or_else(|| Sha256Hex::of(b"")),
        }
    }
}

// === impl Broken ===

impl Broken {
    /// Closed word for metrics and logs.
    pub fn reason(&self) -> &'static str {
        match self.fault {
            Fault::NotAnEvent => "not_an_event",
            Fault::Format => "format",
            Fault::NotCanonical => "not_canonical",
            Fault::Duplicate => "duplicate",
            Fault::Gap => "gap",
            Fault::Hash => "hash",
            Fault::Birth => "birth",
            Fault::Transition => "transition",
            Fault::End => "end",
            Fault::AfterEnd => "after_end",
        }
    }
}
