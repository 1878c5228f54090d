//! First-use pins: which contract of a tool was seen first, and which one was seen last.
//!
//! Guarantees: within one revision a pin is never replaced and never removed; only a reset, or the
//! end of an upstream's absence, moves the revision.

use std::collections::{BTreeMap, BTreeSet};

use hangar_ledger::{Millis, ToolDigest};
use hangar_wire::NewTools;

/// The upstream that pins belong to; survives the object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PinScope {
    pub class: String,
    pub namespace: String,
    pub name: String,
}

/// What is pinned of one upstream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pins {
    /// Moves when pins are forgotten, whichever upstream's.
    pub revision: u64,
    /// A whole list was seen: what is not pinned since then is new.
    pub complete: bool,
    pub pinned: BTreeMap<String, ToolDigest>,
    /// Tools whose pin was reset: their next sight is a first one again.
    pub awaited: BTreeSet<String>,
    /// The contract seen last, of tools where it is not the pinned one.
    pub others: BTreeMap<String, ToolDigest>,
    /// Bytes of the contracts that are pinned.
    pub pinned_bytes: u64,
    /// Bytes of the others.
    pub other_bytes: u64,
}

/// One whole list of an upstream's tools, without those that are known to be pinned as they are.
#[derive(Clone, Debug)]
pub struct Sight {
    pub scope: PinScope,
    /// Of the pins that this was made beside: where pins were forgotten since, nothing is taken in.
    pub revision: u64,
    pub contracts: Vec<Contract>,
    /// What becomes of a tool that was in no list before.
    pub new_tools: NewTools,
}

/// A contract in its canonical form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contract {
    pub tool: String,
    pub digest: ToolDigest,
    pub canonical: Vec<u8>,
}

/// A contract that is kept, and since when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    pub digest: ToolDigest,
    pub contract: Vec<u8>,
    pub at: Millis,
}

/// What is kept of one tool; one of both at least.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    pub pinned: Option<Kept>,
    /// Seen last, where it is not the pinned one.
    pub other: Option<Kept>,
}

/// The upstreams in force: pins of all others are forgotten once those were absent for so long.
#[derive(Clone, Debug)]
pub struct Present {
    pub class: String,
    /// Namespace and name.
    pub upstreams: BTreeSet<(String, String)>,
    pub keep_ms: u64,
}

/// Names pinned of one upstream, and as many that are only seen: one that renames its tools with
/// every list must not fill the disk of all tenants.
pub const MAX_PINS: usize = 8192;
/// Bytes of contracts pinned of one upstream, and as many that are only seen; the contract that
/// reaches them is the last.
pub const MAX_PIN_BYTES: u64 = 64 << 20;

// === impl Pins ===

impl Pins {
    /// Whether the contract of this tool is taken for its pin, were it seen now.
    ///
    /// Assumptions: none is pinned.
    pub fn takes(&self, tool: &str, new_tools: NewTools) -> bool {
        let is_first = !self.complete || self.awaited.contains(tool);
        (is_first || new_tools == NewTools::Serve) && !self.is_full()
    }

    /// Whether no further contract is pinned, until pins are forgotten.
    pub fn is_full(&self) -> bool {
        self.pinned.len() >= MAX_PINS || self.pinned_bytes >= MAX_PIN_BYTES
    }

    /// Whether another contract of this tool is remembered as seen.
    ///
    /// Assumptions: it is not the pinned one.
    pub fn notes(&self, tool: &str, digest: ToolDigest) -> bool {
        match self.others.get(tool) {
            Some(seen) if *seen == digest => false,
            Some(_) => self.other_bytes < MAX_PIN_BYTES,
            None => self.others.len() < MAX_PINS && self.other_bytes < MAX_PIN_BYTES,
        }
    }
}
