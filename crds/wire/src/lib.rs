//! What travels between operator and gateway, and nothing else.
//!
//! The gateway subscribes: it POSTs a [`Subscribe`] to [`SUBSCRIBE_PATH`], which is
//! acknowledgement and next request in one, and gets an [`Update`] back. Bodies are JSON,
//! members are camelCase, every message carries `format`.
//!
//! Guarantees: a message of another format is refused by name before anything in it is read;
//! a snapshot whose digests do not match its content is refused whole.
//! Caveats: `ApiKeyHash` is the only form in which a caller's key exists on this wire.

mod digest;
mod id;
mod message;
mod object;
mod tombstone;

#[cfg(test)]
mod tests;

pub use digest::{ConfigDigest, ObjectDigest, Sha256Hex, canonical, hex};
pub use id::{Epoch, Generation, Kind, ObjectKey, Term};
pub use message::{
    AddressRules, FORMAT, HOLD_SECONDS, Held, MAX_REQUEST_BYTES, Pod, REASON_NOT_LEADER, Refused,
    Rejection, SERVER_NAME, SUBSCRIBE_PATH, Snapshot, Subscribe, TOKEN_AUDIENCE, Update, decode,
};
pub use object::{
    Admission, AnsweredBy, ApiKeyHash, Consent, Grant, NewTools, OnDecline, Pinning, PinningMode,
    Protocol, Subject, SubjectKind, Tenant, TenantLimits, ToolRules, Upstream, UpstreamLimits,
    UpstreamTasks, Visibility,
};
pub use tombstone::{Fate, Outranked, Tombstone};

/// What is wrong with a message.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The peer speaks another format: upgrade the older of the two.
    #[error("configuration format {found} is not known, this binary reads format {FORMAT}")]
    Format { found: u64 },
    /// Not JSON, or not the shape of this message.
    #[error("message cannot be read")]
    Malformed(#[source] serde_json::Error),
    /// A value has no canonical JSON form.
    #[error("value has no canonical form")]
    Canonical(#[source] serde_json::Error),
    /// Content and digest disagree: damaged in transit or on disk.
    #[error("{what} says digest {stated} and its content has {computed}")]
    Digest {
        what: String,
        stated: String,
        computed: String,
    },
    /// The text is no digest.
    #[error("`{0}` is not `sha256:` and 64 lower-case hexadecimal digits")]
    NotADigest(String),
    /// The text is no `Kind/namespace/name`.
    #[error("`{0}` is not `Kind/namespace/name`")]
    NotAKey(String),
}

// === impl Error ===

impl Error {
    /// Closed word for metrics and logs.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Format { .. } => "format",
            Self::Malformed(_) => "malformed",
            Self::Canonical(_) => "canonical",
            Self::Digest { .. } => "digest",
            Self::NotADigest(_) => "not_a_digest",
            Self::NotAKey(_) => "not_a_key",
        }
    }
}
