//! The two messages of the subscription and what they carry.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::{
    ConfigDigest, Error, ObjectDigest, ObjectKey, Sha256Hex, Tenant, Term, Tombstone, Upstream,
};

/// Format of every message; moves when a reader of the old one could misread the new.
pub const FORMAT: u64 = 1;

/// Where a gateway subscribes (HTTP POST).
pub const SUBSCRIBE_PATH: &str = "/v1/subscribe";

/// The one name in the operator's serving certificate; gateways verify it whatever address they dial.
pub const SERVER_NAME: &str = "operator.hangar.dev";

/// Audience of the projected service-account token that a gateway pod proves itself with.
pub const TOKEN_AUDIENCE: &str = "hangar.dev/push";

/// Longest time that an operator holds a subscription, in seconds, before it answers "nothing newer".
pub const HOLD_SECONDS: u64 = 50;

/// Largest body of a [`Subscribe`], in bytes: rejections of 10,000 objects fit.
pub const MAX_REQUEST_BYTES: usize = 16 << 20;

/// `reason` of a [`Refused`] from an operator that does not lead: ask another address.
pub const REASON_NOT_LEADER: &str = "NotLeader";

/// Gateway to operator: what I hold, what I could not apply, and give me what is newer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Subscribe {
    pub format: u64,
    pub pod: Pod,
    /// Absent before the first configuration.
    pub held: Option<Held>,
    /// Objects of the held configuration that this pod could not use, with their last good form in force.
    pub rejected: Vec<Rejection>,
}

/// Which pod speaks; must equal the identity in its token.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pod {
    pub namespace: String,
    pub name: String,
    pub uid: String,
}

/// The configuration that a pod applied and wrote to disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Held {
    #[serde(flatten)]
    pub term: Term,
    pub digest: ConfigDigest,
}

/// One object that a pod could not use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rejection {
    pub object: ObjectKey,
    pub digest: ObjectDigest,
    /// CamelCase word.
    pub reason: String,
    /// What is wrong, for a person.
    pub message: String,
}

/// Operator to gateway.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Update {
    pub format: u64,
    /// Absent: nothing newer than what the pod holds; subscribe again.
    pub snapshot: Option<Snapshot>,
}

/// Body of an answer that is not 200.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Refused {
    /// CamelCase word.
    pub reason: String,
    /// What is wrong and what to do, for a person.
    pub message: String,
}

/// A whole configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    /// Also in a stored snapshot, so that a file of another version is refused by name.
    pub format: u64,
    #[serde(flatten)]
    pub term: Term,
    pub digest: ConfigDigest,
    pub addresses: AddressRules,
    pub upstreams: Vec<Upstream>,
    pub tenants: Vec<Tenant>,
    /// Left out where there are none, so that such a configuration keeps its digest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tombstones: Vec<Tombstone>,
}

/// Which upstream addresses may be dialled, checked after name resolution. CIDR notation.
/// Loopback, link-local and cloud metadata addresses are refused unless allowed; deny wins.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AddressRules {
    pub allow: Vec<String>,
    pub deny: Vec<String>,
}

#[derive(Deserialize)]
struct FormatOnly {
    format: u64,
}

/// Reads a message, its format first: what comes from a newer peer is refused by name, not by a riddle.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Error> {
    let FormatOnly { format } = serde_json::from_slice(bytes).map_err(Error::Malformed)?;
    if format != FORMAT {
        return Err(Error::Format { found: format });
    }
    serde_json::from_slice(bytes).map_err(Error::Malformed)
}

// === impl Snapshot ===

impl Snapshot {
    /// Builds a snapshot in canonical order, with its digest.
    pub fn new(
        term: Term,
        addresses: AddressRules,
        mut upstreams: Vec<Upstream>,
        mut tenants: Vec<Tenant>,
    ) -> Result<Self, Error> {
        upstreams.sort_by_cached_key(Upstream::key);
        tenants.sort_by_cached_key(Tenant::key);
        let mut snapshot = Self {
            format: FORMAT,
            term,
            digest: ConfigDigest(Sha256Hex::of(b"")),
            addresses,
            upstreams,
            tenants,
            tombstones: Vec::new(),
        };
        snapshot.digest = snapshot.compute_digest()?;
        Ok(snapshot)
    }

    /// The same with these tombstones.
    pub fn with_tombstones(mut self, mut tombstones: Vec<Tombstone>) -> Result<Self, Error> {
        tombstones.sort_by(|one, other| one.uid.cmp(&other.uid));
        self.tombstones = tombstones;
        self.digest = self.compute_digest()?;
        Ok(self)
    }

    /// Digest of each object by key.
    pub fn object_digests(&self) -> Result<BTreeMap<ObjectKey, ObjectDigest>, Error> {
        let upstreams = self.upstreams.iter().map(|u| Ok((u.key(), u.digest()?)));
        let tenants = self.tenants.iter().map(|t| Ok((t.key(), t.digest()?)));
        upstreams.chain(tenants).collect()
    }

    /// SHA-256 over sorted `key digest` lines, so that an edit costs one object; the term does not enter.
    pub fn compute_digest(&self) -> Result<ConfigDigest, Error> {
        let mut lines = format!("addresses {}\n", Sha256Hex::of_canonical(&self.addresses)?);
        for (key, digest) in self.object_digests()? {
            // Writing to a String cannot fail.
            let _ = writeln!(lines, "{key} {digest}");
        }
        for tombstone in &self.tombstones {
            let digest = Sha256Hex::of_canonical(tombstone)?;
            let _ = writeln!(lines, "tombstone {digest}");
        }
        Ok(ConfigDigest(Sha256Hex::of(lines.as_bytes())))
    }

    /// Refuses a snapshot whose digest does not match its content.
    pub fn verify(&self) -> Result<(), Error> {
        let computed = self.compute_digest()?;
        if computed == self.digest {
            return Ok(());
        }
        Err(Error::Digest {
            what: format!("configuration {}", self.term),
            stated: self.digest.to_string(),
            computed: computed.to_string(),
        })
    }

    pub fn held(&self) -> Held {
        Held {
            term: self.term,
            digest: self.digest,
        }
    }
}
