//! What the core decided about one object.

use hangar_wire::ObjectDigest;

use crate::reason::{Reason, Refusal};

/// Status of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Truth {
    True,
    False,
    Unknown,
}

/// A condition before it has a type and a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub status: Truth,
    pub reason: Reason,
    pub message: String,
}

/// The decision on one object of this operator's class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Empty for an object that never could be read and came without one.
    pub uid: String,
    /// Generation that was judged.
    pub generation: i64,
    pub accepted: Finding,
    pub resolved_refs: Finding,
    /// What the gateways are to use; absent: nothing of this object.
    pub in_force: Option<InForce>,
    /// References to upstreams; both 0 for an McpUpstream.
    pub upstreams: UpstreamCount,
}

/// The form of an object that is part of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InForce {
    /// Digest of the wire form.
    pub digest: ObjectDigest,
    /// Generation that it was made from; lower than the judged one where that was refused.
    pub generation: i64,
    pub currency: Currency,
}

/// Whether the form in force is made from the object as it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Currency {
    Current,
    /// The object as it stands is not accepted.
    LastGood,
}

/// How many upstreams a policy names and how many of them it reaches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UpstreamCount {
    pub resolved: usize,
    pub named: usize,
}

/// Refusals that one message spells out; the rest are counted.
const SHOWN: usize = 5;

// === impl Truth ===

impl Truth {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

// === impl Finding ===

impl Finding {
    pub(crate) fn new(status: Truth, reason: Reason, message: impl Into<String>) -> Self {
        Self {
            status,
            reason,
            message: message.into(),
        }
    }

    pub(crate) fn accepted() -> Self {
        Self::new(Truth::True, Reason::Accepted, "the object is valid")
    }

    /// Not accepted, with what becomes of the earlier form.
    pub(crate) fn refused(refusal: &Refusal, in_force: Option<&InForce>) -> Self {
        let message = match in_force {
            Some(form) => format!("{refusal}; generation {} stays in force", form.generation),
            None => format!("{refusal}; nothing of this object is in force"),
        };
        Self::new(Truth::False, refusal.reason(), message)
    }

    /// Every reference leads somewhere, or the first reasons why one does not.
    pub(crate) fn resolved(unresolved: &[Refusal]) -> Self {
        let Some(first) = unresolved.first() else {
            return Self::new(
                Truth::True,
                Reason::ResolvedRefs,
                "every reference is resolved",
            );
        };
        let mut shown: Vec<String> = unresolved
            .iter()
            .take(SHOWN)
            .map(ToString::to_string)
            .collect();
        if unresolved.len() > SHOWN {
            shown.push(format!("and {} more", unresolved.len() - SHOWN));
        }
        Self::new(Truth::False, first.reason(), shown.join("; "))
    }

    /// References of an object that is not accepted are not judged.
    pub(crate) fn not_judged() -> Self {
        Self::new(
            Truth::Unknown,
            Reason::NotAccepted,
            "the object is not accepted",
        )
    }

    pub fn is_true(&self) -> bool {
        self.status == Truth::True
    }
}

// === impl Verdict ===

impl Verdict {
    /// Digest of the wire form in force, if it is made from the object as it stands.
    pub fn current_digest(&self) -> Option<ObjectDigest> {
        self.in_force
            .filter(|form| form.currency == Currency::Current)
            .map(|form| form.digest)
    }
}
