//! The Kubernetes API of Hangar: `McpUpstream` and `TenantPolicy`, group `hangar.dev`, version `v1alpha1`.
//!
//! The schema has no defaults: the operator resolves them, and each field's description names its
//! own. A one-of is written as optional fields with a rule that says in words what is wrong. Every
//! list, map and string has a bound.
//!
//! Guarantees: `v1alpha1` changes additively only; what [`definitions`] returns is what
//! `charts/hangar-crds` holds, byte for byte.

// The schema derive writes each type into a scope of its own, where `pub` looks unreachable.
#![allow(unreachable_pub)]
// Printer columns repeat their keys.
#![allow(clippy::duplicated_attributes)]
// Descriptions are read in `kubectl explain`, where backticks are noise.
#![allow(clippy::doc_markdown)]

pub mod common;
pub mod credential;
pub mod definition;
pub mod policy;
pub mod structure;
pub mod upstream;

#[cfg(test)]
mod tests;

pub use common::{Admission, LocalRef, SecretKeyRef, Selector, ToolGlobs};
pub use credential::{
    BearerCredential, Credential, CredentialType, HeaderCredential, OAuthCredential,
};
pub use definition::{Error, FOLDER, HEADER, definitions, file_name, render};
pub use policy::{
    AnsweredBy, AnsweredByType, ApiKeysSubject, Claim, Consent, JwtSubject, Mode, OnDecline,
    ServiceAccountSubject, Subject, SubjectType, TenantLimits, TenantPolicy, TenantPolicySpec,
    TenantPolicyStatus, TenantTasks, UpstreamEntry, UpstreamRef, UpstreamSelector, UpstreamsCount,
    Visibility,
};
pub use structure::{Violation, violations};
pub use upstream::{
    AllowedNamespaces, AllowedPolicies, CaRef, CaRefKind, Endpoint, ForwardIdentity, From,
    GatewayCounts, McpUpstream, McpUpstreamSpec, McpUpstreamStatus, NewTools, Pinning, PinningMode,
    Protocol, ServiceEndpoint, ToolState, ToolStatus, UpstreamLimits, UpstreamTasks, UpstreamTls,
    UpstreamTools,
};

/// API group of both kinds.
pub const GROUP: &str = "hangar.dev";
/// Served version.
pub const VERSION: &str = "v1alpha1";
/// Class of an object that names none.
pub const DEFAULT_CLASS: &str = "hangar";
/// Label that a Secret must carry to be used, and to be watched at all.
pub const LABEL_USE: &str = "hangar.dev/use";
/// Value of [`LABEL_USE`]: what the gateway presents to an upstream.
pub const USE_CREDENTIAL: &str = "credential";
/// Value of [`LABEL_USE`]: certificates and keys.
pub const USE_TLS: &str = "tls";
/// Value of [`LABEL_USE`]: keys that tenants' callers present.
pub const USE_API_KEYS: &str = "api-keys";
