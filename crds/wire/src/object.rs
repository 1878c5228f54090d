//! The configuration objects, with every default resolved: a gateway guesses nothing.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::{Error, Kind, ObjectDigest, ObjectKey, Sha256Hex};

/// An upstream MCP server, from an `McpUpstream`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Upstream {
    pub namespace: String,
    pub name: String,
    /// `metadata.uid`; in folder mode SHA-256 of `kind/namespace/name` in hex.
    pub uid: String,
    /// `metadata.generation`.
    pub generation: i64,
    /// Absolute http or https URL of the MCP endpoint.
    pub url: String,
    /// Left out where it is found out by asking, so that such an object keeps its digest.
    #[serde(default, skip_serializing_if = "Protocol::is_auto")]
    pub protocol: Protocol,
    pub admission: Admission,
    pub tools: ToolRules,
    pub pinning: Pinning,
    pub tasks: UpstreamTasks,
    pub limits: UpstreamLimits,
}

/// One tenant and what it may do, from a `TenantPolicy`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Tenant {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub generation: i64,
    /// `spec.tenant`.
    pub tenant: String,
    pub admission: Admission,
    /// Which credentials are this tenant.
    pub subjects: Vec<Subject>,
    /// What it may reach; only references that resolved are here.
    pub grants: Vec<Grant>,
    pub limits: TenantLimits,
}

/// Revision of MCP that an upstream speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Protocol {
    /// Found out by asking.
    #[default]
    Auto,
    #[serde(rename = "2026-07-28")]
    V2026_07_28,
    #[serde(rename = "2025-11-25")]
    V2025_11_25,
}

/// The switch for an emergency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Admission {
    #[default]
    Open,
    /// Calls go on, no task is born.
    NoNewTasks,
    /// Only `tasks/cancel` and what the ledger can serve alone.
    Closed,
}

/// Globs over tool names; deny wins; `*` crosses every character.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolRules {
    pub allow: Vec<String>,
    pub deny: Vec<String>,
}

/// Which tool contracts may be invoked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Pinning {
    pub mode: PinningMode,
    pub new_tools: NewTools,
    /// Approved tool digests, by tool name.
    pub pins: BTreeMap<String, BTreeSet<Sha256Hex>>,
    /// Milliseconds: how old a digest a synchronous `tools/call` may rely on.
    pub max_age_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PinningMode {
    /// The first contract seen is pinned in the store; `pins` win over it.
    FirstUse,
    /// Only `pins` count.
    Explicit,
    /// Synchronous calls are not checked; a task's binding always is.
    Disabled,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NewTools {
    Serve,
    Withhold,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UpstreamTasks {
    /// False: handles are refused, live tasks can still be read and cancelled.
    pub relay: bool,
    /// Milliseconds that a task is kept after the last confirmed contact or its end.
    pub retention_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UpstreamLimits {
    pub request_timeout_ms: u64,
    pub max_response_bytes: u64,
    pub max_concurrent: u32,
}

/// One group of credentials.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Subject {
    pub name: String,
    pub kind: SubjectKind,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum SubjectKind {
    /// Keys by principal name; a principal has several while they are rotated.
    ApiKeys {
        principals: BTreeMap<String, BTreeSet<ApiKeyHash>>,
    },
    /// Callers without a credential; they own what they make as (none, none).
    Anonymous,
}

/// SHA-256 of an API key: the only form in which one leaves its Secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ApiKeyHash(pub Sha256Hex);

/// A tenant's access to one upstream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Grant {
    /// Name of the entry in `spec.upstreams`.
    pub name: String,
    pub upstream_namespace: String,
    pub upstream_name: String,
    /// On `/mcp` tools are named `prefix__name`; empty: their own names.
    pub prefix: String,
    pub tools: ToolRules,
    pub visibility: Visibility,
    /// Absent: no question may be answered.
    pub consent: Option<Consent>,
}

/// Who may read and cancel a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Visibility {
    #[default]
    Owner,
    Tenant,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Consent {
    /// Methods of questions that may be answered, as `elicitation/create`.
    pub methods: BTreeSet<String>,
    pub answered_by: AnsweredBy,
    pub on_decline: OnDecline,
    /// Milliseconds from the first sight of a question.
    pub ttl_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum AnsweredBy {
    Owner,
    Tenant,
    /// Qualified principals, as `key:alice`.
    Principals {
        principals: BTreeSet<String>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnDecline {
    FailTask,
    RelayAnswer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TenantLimits {
    pub live_tasks: u32,
    pub requests_per_second: u32,
    pub burst: u32,
}

// === impl Upstream ===

impl Upstream {
    pub fn key(&self) -> ObjectKey {
        ObjectKey::new(Kind::McpUpstream, &self.namespace, &self.name)
    }

    /// SHA-256 over the RFC 8785 form of this object.
    pub fn digest(&self) -> Result<ObjectDigest, Error> {
        Sha256Hex::of_canonical(self).map(ObjectDigest)
    }
}

// === impl Tenant ===

impl Tenant {
    pub fn key(&self) -> ObjectKey {
        ObjectKey::new(Kind::TenantPolicy, &self.namespace, &self.name)
    }

    /// SHA-256 over the RFC 8785 form of this object.
    pub fn digest(&self) -> Result<ObjectDigest, Error> {
        Sha256Hex::of_canonical(self).map(ObjectDigest)
    }
}

// === impl Protocol ===

impl Protocol {
    #[allow(clippy::trivially_copy_pass_by_ref)] // serde hands over a reference
    fn is_auto(&self) -> bool {
        *self == Self::Auto
    }
}

// === impl ApiKeyHash ===

impl ApiKeyHash {
    /// Hash of a key as the caller presents it.
    pub fn of(key: &[u8]) -> Self {
        Self(Sha256Hex::of(key))
    }
}
