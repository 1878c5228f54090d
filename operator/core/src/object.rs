//! What the shell feeds in: objects, and changes of the world.

use std::collections::BTreeMap;
use std::fmt;

use hangar_crds::{LABEL_USE, McpUpstream, TenantPolicy};
use k8s_openapi::api::core::v1::Secret;

/// Kind of an object that the core reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectKind {
    McpUpstream,
    TenantPolicy,
    Secret,
}

/// Names an object of the world.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId {
    pub kind: ObjectKind,
    pub namespace: String,
    pub name: String,
}

/// One object as it stands now.
#[derive(Clone, Debug)]
pub enum Object {
    Upstream(Box<McpUpstream>),
    Policy(Box<TenantPolicy>),
    Secret(SecretView),
    Undecodable(Undecodable),
}

/// An object that exists and that the types of this version cannot hold.
#[derive(Clone, Debug)]
pub struct Undecodable {
    pub id: ObjectId,
    /// Absent: that of the object known under this name, if any.
    pub uid: Option<String>,
    /// Absent: that of the object known under this name, if any.
    pub generation: Option<i64>,
    /// `spec.className` where it could be read; absent counts as in any other object.
    pub class: Option<String>,
    /// What is wrong and where. Not used for a Secret, where it could quote a value.
    pub error: String,
}

/// A Secret, reduced to what the core reads.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretView {
    pub namespace: String,
    pub name: String,
    /// Value of the label `hangar.dev/use`.
    pub purpose: Option<String>,
    pub data: BTreeMap<String, SecretBytes>,
}

/// Bytes that no log, error or condition shows.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretBytes(Vec<u8>);

/// One step of the world.
#[derive(Clone, Debug)]
pub enum Change {
    /// The object was made or edited.
    Apply(Object),
    /// The object is gone.
    Delete(ObjectId),
    /// These are all objects of the kind; what is not among them is gone.
    Reset {
        kind: ObjectKind,
        objects: Vec<Object>,
    },
}

/// Namespace and name: the place of an object among those of its kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Place {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

// === impl ObjectKind ===

impl ObjectKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::McpUpstream => "McpUpstream",
            Self::TenantPolicy => "TenantPolicy",
            Self::Secret => "Secret",
        }
    }
}

impl fmt::Display for ObjectKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

// === impl ObjectId ===

impl ObjectId {
    pub fn new(kind: ObjectKind, namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            kind,
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.kind, self.namespace, self.name)
    }
}

// === impl Object ===

impl Object {
    /// Kind, namespace and name; what the API server always sets counts as empty where it is absent.
    pub fn id(&self) -> ObjectId {
        let of = |kind, meta: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta| {
            ObjectId::new(
                kind,
                meta.namespace.clone().unwrap_or_default(),
                meta.name.clone().unwrap_or_default(),
            )
        };
        match self {
            Self::Upstream(upstream) => of(ObjectKind::McpUpstream, &upstream.metadata),
            Self::Policy(policy) => of(ObjectKind::TenantPolicy, &policy.metadata),
            Self::Secret(secret) => {
                ObjectId::new(ObjectKind::Secret, &*secret.namespace, &*secret.name)
            }
            Self::Undecodable(object) => object.id.clone(),
        }
    }
}

// === impl SecretView ===

impl SecretView {
    /// Takes what the core reads; `stringData` wins over `data`, as in the API server.
    pub fn of(secret: Secret) -> Self {
        let label = secret
            .metadata
            .labels
            .and_then(|mut labels| labels.remove(LABEL_USE));
        let bytes = secret.data.unwrap_or_default().into_iter();
        let text = secret.string_data.unwrap_or_default().into_iter();
        Self {
            namespace: secret.metadata.namespace.unwrap_or_default(),
            name: secret.metadata.name.unwrap_or_default(),
            purpose: label,
            data: bytes
                .map(|(key, value)| (key, SecretBytes(value.0)))
                .chain(text.map(|(key, value)| (key, SecretBytes(value.into_bytes()))))
                .collect(),
        }
    }
}

impl fmt::Debug for SecretView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            namespace,
            name,
            purpose,
            data,
        } = self;
        f.debug_struct("SecretView")
            .field("namespace", namespace)
            .field("name", name)
            .field("purpose", purpose)
            .field("data", &data.keys())
            .finish()
    }
}

// === impl SecretBytes ===

impl SecretBytes {
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into())
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for SecretBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

// === impl Place ===

impl Place {
    pub(crate) fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}
