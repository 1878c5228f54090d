//! The closed set of words that conditions give as their reason.
//!
//! Each one is a row of `docs/conditions.md`; a test compares the two.

use std::fmt;

/// Why a condition has the status that it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    // Accepted
    Accepted,
    Invalid,
    InvalidGlob,
    NotYetSupported,
    UnknownRequirement,
    NamespaceNotAllowed,
    Conflicted,
    SubjectConflict,
    Undecodable,
    // ResolvedRefs
    ResolvedRefs,
    SecretNotFound,
    SecretNotLabelled,
    InvalidSecret,
    RefNotFound,
    RefNotPermitted,
    UpstreamNotAccepted,
    // Programmed
    Programmed,
    NoGateways,
    Pending,
    Rejected,
    // Ready
    Ready,
    UnresolvedRefs,
    NotProgrammed,
    // any but Accepted
    NotAccepted,
}

/// Why an object, or one reference of it, is not used. The message names the field path,
/// what is wrong and what to do, and never holds a secret value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    reason: Reason,
    message: String,
}

// === impl Reason ===

impl Reason {
    /// Every reason, in the order of the document.
    pub const ALL: [Self; 24] = [
        Self::Accepted,
        Self::Invalid,
        Self::InvalidGlob,
        Self::NotYetSupported,
        Self::UnknownRequirement,
        Self::NamespaceNotAllowed,
        Self::Conflicted,
        Self::SubjectConflict,
        Self::Undecodable,
        Self::ResolvedRefs,
        Self::SecretNotFound,
        Self::SecretNotLabelled,
        Self::InvalidSecret,
        Self::RefNotFound,
        Self::RefNotPermitted,
        Self::UpstreamNotAccepted,
        Self::Programmed,
        Self::NoGateways,
        Self::Pending,
        Self::Rejected,
        Self::Ready,
        Self::UnresolvedRefs,
        Self::NotProgrammed,
        Self::NotAccepted,
    ];

    /// The word as it stands in a condition.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "Accepted",
            Self::Invalid => "Invalid",
            Self::InvalidGlob => "InvalidGlob",
            Self::NotYetSupported => "NotYetSupported",
            Self::UnknownRequirement => "UnknownRequirement",
            Self::NamespaceNotAllowed => "NamespaceNotAllowed",
            Self::Conflicted => "Conflicted",
            Self::SubjectConflict => "SubjectConflict",
            Self::Undecodable => "Undecodable",
            Self::ResolvedRefs => "ResolvedRefs",
            Self::SecretNotFound => "SecretNotFound",
            Self::SecretNotLabelled => "SecretNotLabelled",
            Self::InvalidSecret => "InvalidSecret",
            Self::RefNotFound => "RefNotFound",
            Self::RefNotPermitted => "RefNotPermitted",
            Self::UpstreamNotAccepted => "UpstreamNotAccepted",
            Self::Programmed => "Programmed",
            Self::NoGateways => "NoGateways",
            Self::Pending => "Pending",
            Self::Rejected => "Rejected",
            Self::Ready => "Ready",
            Self::UnresolvedRefs => "UnresolvedRefs",
            Self::NotProgrammed => "NotProgrammed",
            Self::NotAccepted => "NotAccepted",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

// === impl Refusal ===

impl Refusal {
    pub(crate) fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
        }
    }

    /// A field that breaks a rule of the schema.
    pub(crate) fn invalid(path: impl fmt::Display, what: impl fmt::Display) -> Self {
        Self::new(Reason::Invalid, format!("{path}: {what}"))
    }

    /// A field whose value this version reads and cannot enforce.
    pub(crate) fn unsupported(path: impl fmt::Display, what: impl fmt::Display) -> Self {
        Self::new(
            Reason::NotYetSupported,
            format!("{path}: {what} is not supported by this version, remove it"),
        )
    }

    pub fn reason(&self) -> Reason {
        self.reason
    }

    pub fn message(&self) -> &str {
        &self.message
    }
}
