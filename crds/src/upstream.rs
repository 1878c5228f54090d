//! `McpUpstream`: an MCP server behind the gateway.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::{Admission, LocalRef, Selector, describe_by_field, duration_rule};
use crate::credential::Credential;

/// An MCP server behind the gateway, and whose policies may refer to it.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "hangar.dev",
    version = "v1alpha1",
    kind = "McpUpstream",
    plural = "mcpupstreams",
    singular = "mcpupstream",
    namespaced,
    shortname = "mcpup",
    category = "hangar",
    category = "mcp",
    status = "McpUpstreamStatus",
    derive = "PartialEq",
    doc = "An MCP server behind the gateway, and whose policies may refer to it.",
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
    printcolumn(name = "Tools", type_ = "integer", json_path = ".status.toolsTotal"),
    printcolumn(
        name = "Drift",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="DigestDrift")].status"#
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    ),
    printcolumn(
        name = "URL",
        type_ = "string",
        json_path = ".spec.endpoint.url",
        priority = 1
    ),
    printcolumn(
        name = "Era",
        type_ = "string",
        json_path = ".status.era",
        priority = 1
    )
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("(has(self.className) ? self.className : 'hangar') == (has(oldSelf.className) ? oldSelf.className : 'hangar')")
    .message("className cannot be changed: make a new object with the other class"))]
pub struct McpUpstreamSpec {
    /// Which operator looks after this object; others ignore it. Immutable. Default: hangar.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 63),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
    )]
    pub class_name: Option<String>,
    /// Where the server is: `url`, or `service`.
    pub endpoint: Endpoint,
    /// Which revision of MCP it speaks. Default: Auto.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Protocol>,
    /// The switch for an emergency: Open, NoNewTasks (calls go on, no task is born) or Closed (only
    /// tasks/cancel, and what the ledger can serve alone). Default: Open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admission: Option<Admission>,
    /// Trust towards the server. Default: the public roots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<UpstreamTls>,
    /// What the gateway presents to the server. Default: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential: Option<Credential>,
    /// Tell the server who calls, by a short-lived JWT of the gateway. Default: off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forward_identity: Option<ForwardIdentity>,
    /// Whose policies may refer to this object. Default: those of its own namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_policies: Option<AllowedPolicies>,
    /// Which tools are served, and which contracts of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<UpstreamTools>,
    /// Whether and how long tasks are relayed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tasks: Option<UpstreamTasks>,
    /// Bounds of one request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<UpstreamLimits>,
    /// Names of restricting features that the operator must know; one that does not know all of
    /// them does not accept the object. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16), inner(length(min = 1, max = 63)))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub requires: Option<Vec<String>>,
}

/// Where an MCP server is: exactly one member.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("[has(self.url), has(self.service)].exists_one(x, x)")
    .message("exactly one of url and service must be set"))]
pub struct Endpoint {
    /// Absolute URL of the MCP endpoint, http or https, without user, password and fragment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 2048),
        regex(pattern = r"^https?://[^\s/?#@]+([/?][^\s#]*)?$")
    )]
    pub url: Option<String>,
    /// A Service of the object's namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceEndpoint>,
}

/// A Service of the same namespace.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ServiceEndpoint {
    /// Name of the Service.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// Port of the Service.
    #[schemars(range(min = 1, max = 65535))]
    pub port: i32,
    /// Path of the MCP endpoint. Default: /mcp.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024), regex(pattern = r"^/"))]
    pub path: Option<String>,
    /// Speak TLS. Default: true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<bool>,
}

/// Revision of MCP that an upstream speaks.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
#[schemars(transform = describe_by_field)]
pub enum Protocol {
    /// Found out by asking.
    Auto,
    /// 2026-07-28.
    #[serde(rename = "2026-07-28")]
    V2026_07_28,
    /// 2025-11-25.
    #[serde(rename = "2025-11-25")]
    V2025_11_25,
}

/// Trust towards an upstream.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct UpstreamTls {
    /// Certificates to trust instead of the public roots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_ref: Option<CaRef>,
    /// Secret of type kubernetes.io/tls that the gateway presents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_certificate_ref: Option<LocalRef>,
    /// Name to verify instead of the URL's host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub server_name: Option<String>,
}

/// PEM certificates in a key of a ConfigMap or Secret of the same namespace.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct CaRef {
    /// ConfigMap or Secret.
    pub kind: CaRefKind,
    /// Name of the object.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Key within its data.
    #[schemars(length(min = 1, max = 253))]
    pub key: String,
}

/// Kind of an object that holds certificates.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaRefKind {
    ConfigMap,
    Secret,
}

/// A JWT of the gateway names tenant and principal to the upstream.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ForwardIdentity {
    /// Audience of the JWT.
    #[schemars(length(min = 1, max = 2048))]
    pub audience: String,
}

/// Whose policies may refer to an upstream.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct AllowedPolicies {
    /// Namespaces of the policies.
    pub namespaces: AllowedNamespaces,
}

/// Namespaces: the object's own, all, or those with given labels.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.selector) == (self.from == 'Selector')")
    .message("selector must be set with from: Selector, and only with it"))]
pub struct AllowedNamespaces {
    /// Same, All or Selector.
    pub from: From,
    /// Labels of namespaces, with `from: Selector`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<Selector>,
}

/// Which namespaces are meant.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    Same,
    All,
    Selector,
}

/// Which tools of an upstream are served, and which contracts of them.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct UpstreamTools {
    /// Globs of the tools that are served. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256), inner(length(min = 1, max = 128)))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub allow: Option<Vec<String>>,
    /// Globs of the tools that are not served, whatever `allow` says. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256), inner(length(min = 1, max = 128)))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub deny: Option<Vec<String>>,
    /// How contracts are approved. Default: FirstUse, Serve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pinning: Option<Pinning>,
    /// Approved contracts: 1 to 4 digests by tool name. A map, so that a merge patch touches one tool only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<BTreeMap<String, PinnedDigests>>", extend("maxProperties" = 256))]
    #[x_kube(validation = Rule::new("self.all(tool, tool.size() >= 1 && tool.size() <= 128)")
        .message("a tool name has 1 to 128 characters"))]
    pub pins: Option<BTreeMap<String, Vec<String>>>,
    /// How old a contract a synchronous call may rely on, as 60s; a task payload never relies on an
    /// old one. Default: 60s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    #[x_kube(validation = duration_rule())]
    pub max_age: Option<String>,
}

/// Approved digests of one tool.
#[derive(JsonSchema)]
#[schemars(transparent, inline)]
#[allow(dead_code)] // a schema only
struct PinnedDigests(#[schemars(length(min = 1, max = 4))] Vec<PinnedDigest>);

/// Digest of a contract: sha256 and 64 lower-case hexadecimal digits.
#[derive(JsonSchema)]
#[schemars(transparent, inline)]
#[allow(dead_code)] // a schema only
struct PinnedDigest(
    #[schemars(
        length(max = 128),
        extend("x-kubernetes-validations" = [{
            "rule": "self.matches('^sha256:[0-9a-f]{64}$')",
            "message": "a pin is sha256: and 64 lower-case hexadecimal digits",
        }])
    )]
    String,
);
/// How contracts are approved.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(self.newTools) || !has(self.mode) || self.mode == 'FirstUse'")
    .message("newTools has a meaning with mode: FirstUse only"))]
pub struct Pinning {
    /// FirstUse, Explicit or Disabled. Default: FirstUse.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<PinningMode>,
    /// What becomes of a tool that appears later, with FirstUse: Serve (it is pinned when it is first
    /// seen) or Withhold (it is neither listed nor called until it is approved). Default: Serve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_tools: Option<NewTools>,
}

/// Which contracts may be invoked.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
#[schemars(transform = describe_by_field)]
pub enum PinningMode {
    /// The first contract seen is pinned; `pins` win over it.
    FirstUse,
    /// Only `pins`.
    Explicit,
    /// Any, for synchronous calls; a task stays bound to the one that it was born with.
    Disabled,
}

/// What becomes of a tool that appears later.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewTools {
    Serve,
    Withhold,
}

/// Whether and how long tasks are relayed.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct UpstreamTasks {
    /// False: handles are refused, live tasks can still be read and cancelled. Default: true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relay: Option<bool>,
    /// How long a task is kept after its last contact or its end, as 24h. Default: 24h.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    #[x_kube(validation = duration_rule())]
    pub retention: Option<String>,
}

/// Bounds of one request to an upstream.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct UpstreamLimits {
    /// Longest time of one request, as 30s. Default: 30s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    #[x_kube(validation = duration_rule())]
    pub request_timeout: Option<String>,
    /// Largest answer, as 16Mi. Default: 16Mi.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    #[x_kube(validation = Rule::new("self.matches('^[1-9][0-9]{0,8}(Ki|Mi|Gi)?$')")
        .message("use a size above zero, as 512Ki, 16Mi or 1Gi"))]
    pub max_response_bytes: Option<String>,
    /// Requests in flight, of each gateway pod; of several tenants each has half of them at most. Default: 256.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub max_concurrent: Option<i32>,
}

/// What the operator saw of an McpUpstream.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct McpUpstreamStatus {
    /// `metadata.generation` that the rest is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Accepted, ResolvedRefs, Programmed, Reachable, DigestDrift, Ready.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
    /// How far the gateways are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateways: Option<GatewayCounts>,
    /// Revision of MCP that it was seen to speak.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub era: Option<String>,
    /// When its tools were last listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_discovered: Option<Time>,
    /// Number of its tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools_total: Option<i32>,
    /// Its tools, drifted ones first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub tools: Vec<ToolStatus>,
}

/// Gateway pods that are ready, and what became of this object there.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct GatewayCounts {
    /// Pods that are Ready or subscribed.
    pub ready: i32,
    /// Of these, how many acknowledged the current form.
    pub programmed: i32,
    /// Of these, how many could not use it.
    pub rejected: i32,
    /// `programmed/ready`, for a column.
    #[schemars(length(max = 32))]
    pub summary: String,
}

/// One tool as it was last seen.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ToolStatus {
    /// Name of the tool.
    #[schemars(length(min = 1, max = 128))]
    pub name: String,
    /// Digest of its contract.
    #[schemars(length(max = 71))]
    pub digest: String,
    /// Pinned, Drifted, New or Withheld.
    pub state: ToolState,
}

/// How a tool stands to its pin.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolState {
    Pinned,
    Drifted,
    New,
    Withheld,
}
