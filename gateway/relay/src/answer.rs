//! What a client's answer to a question says: only an explicit yes is a yes.

use hangar_wire::Sha256Hex;
use serde_json::value::RawValue;

use crate::json::{self, Members};

/// What an input response says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Accept,
    Decline(Why),
}

/// Why an answer is no yes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// `action: decline`.
    Declined,
    /// `action: cancel`.
    Cancelled,
    Null,
    NoAction,
    UnknownAction,
    /// Not an object, or one that two readers could take for two answers.
    Malformed,
}

/// Judges the answer to a question of this method.
pub fn judge(method: &str, answer: &RawValue) -> Verdict {
    if json::is_null(answer) {
        return Verdict::Decline(Why::Null);
    }
    let Ok(members) = Members::of(answer) else {
        return Verdict::Decline(Why::Malformed);
    };
    if method != "elicitation/create" {
        return Verdict::Accept;
    }
    if members.guard(&["action", "content"]).is_err() {
        return Verdict::Decline(Why::Malformed);
    }
    let Some(action) = members.get("action") else {
        return Verdict::Decline(Why::NoAction);
    };
    match json::string(action).as_deref() {
        Some("accept") => Verdict::Accept,
        Some("decline") => Verdict::Decline(Why::Declined),
        Some("cancel") => Verdict::Decline(Why::Cancelled),
        Some(_) | None => Verdict::Decline(Why::UnknownAction),
    }
}

/// Hash of an answer's bytes: after an unknown outcome only the same bytes may be sent again.
pub fn hash(answer: &RawValue) -> Sha256Hex {
    Sha256Hex::of(answer.get().as_bytes())
}

// === impl Why ===

impl Why {
    pub const ALL: [Self; 6] = [
        Self::Declined,
        Self::Cancelled,
        Self::Null,
        Self::NoAction,
        Self::UnknownAction,
        Self::Malformed,
    ];

    /// Closed word for events and metrics.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Declined => "declined",
            Self::Cancelled => "cancelled",
            Self::Null => "null_answer",
            Self::NoAction => "no_action",
            Self::UnknownAction => "unknown_action",
            Self::Malformed => "malformed_answer",
        }
    }
}

#[cfg(test)]
mod tests;
