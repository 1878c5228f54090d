//! Names and numbers of the configuration.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Error;

/// Leadership term of the operator; moves at every start of a leading process.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Epoch(pub u64);

/// Number of a configuration within its epoch; starts at 1.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Generation(pub u64);

/// Orders configurations: a receiver refuses what is lower, ignores what is equal, applies what is higher.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Term {
    pub epoch: Epoch,
    pub generation: Generation,
}

/// Kind of an object that is part of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Kind {
    McpUpstream,
    TenantPolicy,
}

/// `Kind/namespace/name`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ObjectKey {
    pub kind: Kind,
    pub namespace: String,
    pub name: String,
}

// === impl Term ===

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.epoch.0, self.generation.0)
    }
}

// === impl Kind ===

impl Kind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::McpUpstream => "McpUpstream",
            Self::TenantPolicy => "TenantPolicy",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

// === impl ObjectKey ===

impl ObjectKey {
    pub fn new(kind: Kind, namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            kind,
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.kind, self.namespace, self.name)
    }
}

impl FromStr for ObjectKey {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let refuse = || Error::NotAKey(text.to_owned());
        let mut parts = text.split('/');
        let kind = match parts.next() {
            Some("McpUpstream") => Kind::McpUpstream,
            Some("TenantPolicy") => Kind::TenantPolicy,
            _ => return Err(refuse()),
        };
        match (parts.next(), parts.next(), parts.next()) {
            (Some(namespace), Some(name), None) if !namespace.is_empty() && !name.is_empty() => {
                Ok(Self::new(kind, namespace, name))
            }
            _ => Err(refuse()),
        }
    }
}

impl TryFrom<String> for ObjectKey {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        text.parse()
    }
}

impl From<ObjectKey> for String {
    fn from(key: ObjectKey) -> Self {
        key.to_string()
    }
}
