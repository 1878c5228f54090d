//! `TenantPolicy`: who a tenant is, and what it may do with which upstream.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::{Admission, LocalRef, Selector, ToolGlobs, describe_by_field, duration_rule};
use crate::upstream::{CaRef, GatewayCounts};

/// Who a tenant is, and what it may do with which upstream.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "hangar.dev",
    version = "v1alpha1",
    kind = "TenantPolicy",
    plural = "tenantpolicies",
    singular = "tenantpolicy",
    namespaced,
    shortname = "tpol",
    category = "hangar",
    category = "mcp",
    status = "TenantPolicyStatus",
    derive = "PartialEq",
    doc = "Who a tenant is, and what it may do with which upstream.",
    printcolumn(name = "Tenant", type_ = "string", json_path = ".spec.tenant"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#
    ),
    printcolumn(
        name = "Gateways",
        type_ = "string",
        json_path = ".status.gateways.summary"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("(has(self.className) ? self.className : 'hangar') == (has(oldSelf.className) ? oldSelf.className : 'hangar')")
    .message("className cannot be changed: make a new object with the other class"))]
pub struct TenantPolicySpec {
    /// Which operator looks after this object; others ignore it. Immutable. Default: hangar.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 63),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
    )]
    pub class_name: Option<String>,
    /// Name of the tenant, unique within a class: the older object wins. Immutable.
    #[schemars(
        length(min = 1, max = 63),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
    )]
    #[x_kube(validation = Rule::new("self == oldSelf")
        .message("tenant cannot be changed: make a new TenantPolicy for the other tenant"))]
    pub tenant: String,
    /// The switch for an emergency: Open, NoNewTasks (calls go on, no task is born) or Closed (only
    /// tasks/cancel, and what the ledger can serve alone). Default: Open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admission: Option<Admission>,
    /// Which verified credentials are this tenant.
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    #[x_kube(validation = Rule::new("self.filter(s, s.type == 'Anonymous').size() <= 1")
        .message("Anonymous stands here twice"))]
    pub subjects: Vec<Subject>,
    /// What the tenant may reach.
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    #[x_kube(validation = Rule::new("self.all(u, !has(u.upstreamRef) || self.exists_one(v, has(v.upstreamRef) && v.upstreamRef.name == u.upstreamRef.name && (has(v.upstreamRef.__namespace__) ? v.upstreamRef.__namespace__ : '') == (has(u.upstreamRef.__namespace__) ? u.upstreamRef.__namespace__ : '')))")
        .message("the same upstream stands here twice"))]
    #[x_kube(validation = Rule::new("self.all(a, self.exists_one(b, (has(b.prefix) ? b.prefix : b.name) == (has(a.prefix) ? a.prefix : a.name)))")
        .message("two entries have the same prefix (an entry without one has its name): give each its own"))]
    pub upstreams: Vec<UpstreamEntry>,
    /// Bounds of the tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<TenantLimits>,
    /// Enforce, or Audit: tool rules and request rate only count. Never applies to ownership,
    /// digests, consent or quota. Default: Enforce.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
}

/// One group of credentials: the member of its type, and no other.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.jwt) == (self.type == 'JWT') && has(self.serviceAccount) == (self.type == 'ServiceAccount') && has(self.apiKeys) == (self.type == 'APIKeys')")
    .message("exactly the member of the type must be set: jwt for JWT, serviceAccount for ServiceAccount, apiKeys for APIKeys, none for Anonymous"))]
pub struct Subject {
    /// Name within the list.
    #[schemars(
        length(min = 1, max = 63),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
    )]
    pub name: String,
    /// JWT, ServiceAccount, APIKeys or Anonymous.
    #[serde(rename = "type")]
    pub type_: SubjectType,
    /// Tokens of an issuer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jwt: Option<JwtSubject>,
    /// A service account of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account: Option<ServiceAccountSubject>,
    /// Keys of a Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_keys: Option<ApiKeysSubject>,
}

/// Kind of a group of credentials.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubjectType {
    #[serde(rename = "JWT")]
    Jwt,
    ServiceAccount,
    #[serde(rename = "APIKeys")]
    ApiKeys,
    /// Callers without a credential. One policy of a class at most.
    Anonymous,
}

/// Tokens of an issuer (RFC 7519).
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.match) != (has(self.allSubjectsOfIssuer) && self.allSubjectsOfIssuer)")
    .message("exactly one of match and allSubjectsOfIssuer: true must be set"))]
pub struct JwtSubject {
    /// `iss`.
    #[schemars(length(min = 1, max = 2048))]
    pub issuer: String,
    /// Values of `aud`, one of which a token must have.
    #[schemars(length(min = 1, max = 16), inner(length(min = 1, max = 2048)))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub audiences: Vec<String>,
    /// Where the issuer's keys are: an http or https URL.
    #[schemars(
        length(min = 1, max = 2048),
        regex(pattern = r"^https?://[^\s/?#@]+([/?][^\s#]*)?$")
    )]
    pub jwks_uri: String,
    /// Certificates to trust there instead of the public roots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_ref: Option<CaRef>,
    /// Claim that names the principal. Default: sub.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub principal_claim: Option<String>,
    /// Claims that a token must have, all of them.
    #[serde(rename = "match", default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 16))]
    pub match_: Option<Vec<Claim>>,
    /// Every token of the issuer is this tenant. Default: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all_subjects_of_issuer: Option<bool>,
}

/// A claim with one of some values.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Claim {
    /// Name of the claim.
    #[schemars(length(min = 1, max = 128))]
    pub claim: String,
    /// Values, one of which it must have.
    #[schemars(length(min = 1, max = 64), inner(length(min = 1, max = 256)))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub values: Vec<String>,
}

/// A service account of the cluster.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ServiceAccountSubject {
    /// Its namespace.
    #[schemars(length(min = 1, max = 63))]
    pub namespace: String,
    /// Its name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// Keys of a Secret, sent as `Authorization: Bearer KEY`. Each data key is a principal, its value
/// that principal's key, at least 16 bytes; several on several lines while they are rotated.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ApiKeysSubject {
    /// Secret of the same namespace with the label `hangar.dev/use: api-keys`.
    pub secret_ref: LocalRef,
}

/// Access to one upstream, or to those with given labels.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.upstreamRef) != has(self.selector)")
    .message("exactly one of upstreamRef and selector must be set"))]
pub struct UpstreamEntry {
    /// Name within the list.
    #[schemars(
        length(min = 1, max = 63),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
    )]
    pub name: String,
    /// One upstream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream_ref: Option<UpstreamRef>,
    /// Upstreams of the policy's own namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<UpstreamSelector>,
    /// Before tool names on `/mcp`, as `prefix__tool`; empty for one entry at most. Default: the name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(max = 63),
        regex(pattern = r"^([A-Za-z0-9.-]+(_[A-Za-z0-9.-]+)*)?$")
    )]
    pub prefix: Option<String>,
    /// Globs of the tools that the tenant may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<ToolGlobs>,
    /// Who sees and answers for its tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tasks: Option<TenantTasks>,
}

/// An McpUpstream.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct UpstreamRef {
    /// Its name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Its namespace. Default: the policy's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub namespace: Option<String>,
}

/// Upstreams by their labels.
pub type UpstreamSelector = Selector;

/// Who sees the tasks of an entry, and who answers their questions.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct TenantTasks {
    /// Who may read and cancel. Default: Owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub visibility: Option<Visibility>,
    /// Which questions may be answered, by whom. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consent: Option<Consent>,
}

/// Who may read and cancel a task.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
#[schemars(transform = describe_by_field)]
pub enum Visibility {
    /// Who made it.
    Owner,
    /// Everybody of the tenant.
    Tenant,
}

/// Which questions of a task may be answered, by whom.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Consent {
    /// Methods of questions that may be answered. Default: elicitation/create.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 8), inner(length(min = 1, max = 128)))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub methods: Option<Vec<String>>,
    /// Who may answer. Default: Owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_by: Option<AnsweredBy>,
    /// What a no does: FailTask (the task fails, its upstream is told to stop) or RelayAnswer (the
    /// upstream gets the no). Default: FailTask.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_decline: Option<OnDecline>,
    /// From first sight of a question until it ends the task, as 15m. Default: 15m.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    #[x_kube(validation = duration_rule())]
    pub ttl: Option<String>,
}

/// Who may answer questions.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.principals) == (self.type == 'Principals')")
    .message("principals must be set with type: Principals, and only with it"))]
pub struct AnsweredBy {
    /// Owner, Tenant or Principals.
    #[serde(rename = "type")]
    pub type_: AnsweredByType,
    /// Principals in their qualified form, as key:alice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64), inner(length(min = 1, max = 512)))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub principals: Option<Vec<String>>,
}

/// Kind of an answerer.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnsweredByType {
    Owner,
    Tenant,
    Principals,
}

/// What a no does.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
#[schemars(transform = describe_by_field)]
pub enum OnDecline {
    /// The task fails and its upstream is told to stop.
    FailTask,
    /// The upstream gets the no.
    RelayAnswer,
}

/// Bounds of a tenant.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct TenantLimits {
    /// Tasks without a terminal state. Default: 1000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1_000_000))]
    pub live_tasks: Option<i32>,
    /// Requests a second, of each gateway pod. Default: 200.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub requests_per_second: Option<i32>,
    /// Requests at once. Default: 400.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub burst: Option<i32>,
}

/// Whether a policy is enforced.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Enforce,
    Audit,
}

/// What the operator saw of a TenantPolicy.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct TenantPolicyStatus {
    /// `metadata.generation` that the rest is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Accepted, ResolvedRefs, Programmed, Ready.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
    /// How far the gateways are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateways: Option<GatewayCounts>,
    /// Upstreams that the policy names, and how many of them it may reach.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstreams: Option<UpstreamsCount>,
}

/// Upstreams that a policy names.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct UpstreamsCount {
    /// Entries that lead somewhere.
    pub resolved: i32,
    /// All entries.
    pub total: i32,
}
