//! What became of upstreams that tasks were born at: only what is said here ends a task.

use serde::{Deserialize, Serialize};

use crate::Term;

/// An upstream that was deleted, or that is another server now.
///
/// A uid that a configuration does not name says nothing: the reader may hold an older one than the
/// one that knew it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tombstone {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub fate: Fate,
    /// Tasks born under a lower configuration end by it. An upstream that was made again under the
    /// same uid has tasks that were born later.
    pub before: Term,
    /// So do tasks born under these, which count higher and are older all the same: the operator had
    /// lost its epoch when it buried the upstream, and learnt of them afterwards.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outranked: Vec<Outranked>,
}

/// Configurations between two, of which neither is one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outranked {
    pub after: Term,
    pub before: Term,
}

/// Why an upstream may not be asked about its tasks any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Fate {
    /// The object was deleted.
    Removed,
    /// Its endpoint has another origin.
    Changed,
}

// === impl Tombstone ===

impl Tombstone {
    /// Whether a task born then ends by it.
    pub fn covers(&self, born: Term) -> bool {
        let is_within = |it: &Outranked| it.after < born && born < it.before;
        born < self.before || self.outranked.iter().any(is_within)
    }
}
