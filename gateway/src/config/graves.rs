//! Upstreams that tasks may not be asked about any more.

use std::collections::HashMap;

use hangar_ledger::{Cause, UpstreamUid};
use hangar_wire::{Fate, Term, Tombstone};

/// Tombstones by uid.
#[derive(Debug, Default)]
pub struct Graves(HashMap<UpstreamUid, Tombstone>);

// === impl Graves ===

impl Graves {
    pub(super) fn new(tombstones: Vec<Tombstone>) -> Self {
        let by_uid = tombstones.into_iter();
        Self(
            by_uid
                .map(|tombstone| (UpstreamUid(tombstone.uid.clone()), tombstone))
                .collect(),
        )
    }

    /// Why this upstream may not be asked any more about a task born then. None says nothing of an
    /// upstream that is not in force: it may be one that this replica has not heard of yet.
    pub fn cause(&self, upstream: &UpstreamUid, born: Term) -> Option<Cause> {
        let tombstone = self.0.get(upstream)?;
        // What was made again under the same uid has tasks of its own.
        tombstone.covers(born).then_some(match tombstone.fate {
            Fate::Removed => Cause::UpstreamRemoved,
            Fate::Changed => Cause::UpstreamChanged,
        })
    }

    /// Whether an upstream of this name was buried.
    pub fn has(&self, namespace: &str, name: &str) -> bool {
        let mut tombstones = self.0.values();
        tombstones.any(|it| it.namespace == namespace && it.name == name)
    }
}
