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
}

/// Why an upstream may not be asked about its tasks any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Fate {
    /// The object was deleted.
    Removed,
    /// Its endpoint has another origin.
    Changed,
}
