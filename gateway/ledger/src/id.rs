//! Names and numbers of the ledger: parsed at the edge, bounded, one type a kind.

use std::fmt;
use std::str::FromStr;

use hangar_wire::Sha256Hex;
use serde::{Deserialize, Serialize};

use crate::Error;

/// A task's id as its upstream minted it: 1 to 256 bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TaskId(String);

/// Key of one question in `inputRequests`: 1 to 512 bytes. The ledger keeps its hash only.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InputKey(String);

/// `metadata.uid` of the `McpUpstream` behind a task.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct UpstreamUid(pub String);

/// What identifies a task: an id is unique within its upstream only.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TaskKey {
    pub upstream: UpstreamUid,
    pub task: TaskId,
}

/// A tenant, with the namespace of its policy: one made again elsewhere inherits nothing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TenantRef {
    pub namespace: String,
    pub tenant: String,
}

/// Who acts, qualified by its source: `key:alice`, `jwt:<issuer>#<claim>`, `sa:<namespace>/<name>`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Principal(String);

/// The pair bound to a task when it is relayed; (none, none) is an unattributed caller.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Owner {
    pub tenant: Option<TenantRef>,
    pub principal: Option<Principal>,
}

/// Milliseconds of Unix time on the store's clock.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Millis(pub u64);

/// Digest of a tool's contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ToolDigest(pub Sha256Hex);

/// Hash of an input key's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct KeyHash(pub Sha256Hex);

/// Hash of a question, over all of its members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct QuestionHash(pub Sha256Hex);

/// Hash of an answer's bytes as they go upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AnswerHash(pub Sha256Hex);

/// Hash of the last event of a task's chain; before the first one the hash of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ChainHead(pub Sha256Hex);

/// A time as the upstream wrote it, kept verbatim: 20 to 40 characters of an RFC 3339 text.
///
/// The alphabet is checked because the text is stored: no upstream puts words into the store by it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Timestamp(String);

/// Longest task id in bytes.
pub const MAX_TASK_ID_BYTES: usize = 256;
/// Longest input key in bytes.
pub const MAX_INPUT_KEY_BYTES: usize = 512;
/// Largest time and duration: beyond it JSON numbers lose digits.
pub const MAX_MILLIS: u64 = (1 << 53) - 1;

// === impl TaskId ===

impl TaskId {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for TaskId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        text.to_owned().try_into()
    }
}

impl TryFrom<String> for TaskId {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        if (1..=MAX_TASK_ID_BYTES).contains(&text.len()) {
            return Ok(Self(text));
        }
        Err(Error::TaskId { bytes: text.len() })
    }
}

impl From<TaskId> for String {
    fn from(id: TaskId) -> Self {
        id.0
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

// === impl InputKey ===

impl InputKey {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn hash(&self) -> KeyHash {
        KeyHash(Sha256Hex::of(self.0.as_bytes()))
    }
}

impl FromStr for InputKey {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        text.to_owned().try_into()
    }
}

impl TryFrom<String> for InputKey {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        if (1..=MAX_INPUT_KEY_BYTES).contains(&text.len()) {
            return Ok(Self(text));
        }
        Err(Error::InputKey { bytes: text.len() })
    }
}

// === impl UpstreamUid ===

impl fmt::Display for UpstreamUid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

// === impl TaskKey ===

impl TaskKey {
    pub fn new(upstream: UpstreamUid, task: TaskId) -> Self {
        Self { upstream, task }
    }

    /// The `prev` of a task's first event.
    pub fn root(&self) -> ChainHead {
        ChainHead(Sha256Hex::of(&crate::canonical(self)))
    }
}

impl fmt::Display for TaskKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.upstream, self.task)
    }
}

// === impl TenantRef ===

impl fmt::Display for TenantRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.tenant)
    }
}

// === impl Principal ===

impl Principal {
    /// A principal that already carries its source.
    pub fn new(qualified: impl Into<String>) -> Self {
        Self(qualified.into())
    }

    /// The owner of an API key, `key:<name>`.
    pub fn api_key(name: &str) -> Self {
        Self(format!("key:{name}"))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

// === impl Owner ===

impl Owner {
    pub fn new(tenant: TenantRef, principal: Option<Principal>) -> Self {
        Self {
            tenant: Some(tenant),
            principal,
        }
    }

    /// A caller without a credential.
    pub fn anonymous() -> Self {
        Self {
            tenant: None,
            principal: None,
        }
    }
}

// === impl Millis ===

impl Millis {
    /// This much later; stops at the end of time, [`MAX_MILLIS`], instead of wrapping.
    #[must_use]
    pub fn plus(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms).min(MAX_MILLIS))
    }

    /// Milliseconds from `earlier` to this; none when `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

// === impl Timestamp ===

impl Timestamp {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Timestamp {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        text.to_owned().try_into()
    }
}

impl TryFrom<String> for Timestamp {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        let known = |byte: &u8| byte.is_ascii_digit() || b"TtZz:+-. ".contains(byte);
        let plausible = (20..=40).contains(&text.len())
            && text.as_bytes().iter().all(known)
            && text.as_bytes()[..4].iter().all(u8::is_ascii_digit);
        if plausible {
            return Ok(Self(text));
        }
        Err(Error::Timestamp)
    }
}

impl From<Timestamp> for String {
    fn from(time: Timestamp) -> Self {
        time.0
    }
}
