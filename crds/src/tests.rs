//! The schema as it is shipped: what it admits, what it refuses and in which words.

use kube_cel::Validator;
use serde_json::{Value, json};

use crate::definitions;

mod chart;
mod rules_policy;
mod rules_upstream;
mod schema;
mod structure_policy;
mod structure_upstream;

/// A manifest and what is set in it.
#[derive(Clone)]
struct Draft(Value);

/// The schema of a kind, as an API server gets it.
fn schema_of(kind: &str) -> Value {
    let both = definitions().unwrap();
    let own = |one: &&Value| one["spec"]["names"]["kind"] == kind;
    let definition = both.iter().find(own).unwrap();
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
}

fn mk_upstream() -> Draft {
    Draft(json!({
        "apiVersion": "hangar.dev/v1alpha1",
        "kind": "McpUpstream",
        "metadata": {"name": "reports", "namespace": "tools"},
        "spec": {"endpoint": {"url": "https://reports.example.com/mcp"}},
    }))
}

fn mk_policy() -> Draft {
    Draft(json!({
        "apiVersion": "hangar.dev/v1alpha1",
        "kind": "TenantPolicy",
        "metadata": {"name": "acme-policy", "namespace": "hangar"},
        "spec": {"tenant": "acme", "subjects": [], "upstreams": []},
    }))
}

/// Every field of an McpUpstream.
fn mk_full_upstream() -> Draft {
    Draft(json!({
        "apiVersion": "hangar.dev/v1alpha1",
        "kind": "McpUpstream",
        "metadata": {"name": "reports", "namespace": "tools"},
        "spec": {
            "className": "blue",
            "endpoint": {"service": {"name": "mcp", "port": 65_535, "path": "/v1/mcp", "tls": false}},
            "protocol": "2025-11-25",
            "admission": "NoNewTasks",
            "tls": {
                "caRef": {"kind": "ConfigMap", "name": "ca", "key": "ca.crt"},
                "clientCertificateRef": {"name": "client"},
                "serverName": "mcp.example.com",
            },
            "credential": {"type": "OAuth", "oauth": {
                "tokenUrl": "https://issuer.example.com/token?tenant=x",
                "clientId": "hangar-gateway",
                "secretRef": {"name": "oauth", "key": "secret"},
                "scopes": ["mcp.read", "mcp.write"],
                "audience": "https://reports.example.com",
                "caRef": {"kind": "Secret", "name": "issuer-ca", "key": "tls.crt"},
            }},
            "forwardIdentity": {"audience": "https://reports.example.com"},
            "allowedPolicies": {"namespaces": {
                "from": "Selector", "selector": {"matchLabels": {"example.com/team": "blue"}},
            }},
            "tools": {
                "allow": ["report_*", "crawl"],
                "deny": ["report_drop"],
                "pinning": {"mode": "FirstUse", "newTools": "Withhold"},
                "pins": {"crawl": [digest('a'), digest('b'), digest('c'), digest('4')]},
                "maxAge": "90s",
            },
            "tasks": {"relay": false, "retention": "1h30m"},
            "limits": {"requestTimeout": "1m500ms", "maxResponseBytes": "512Ki", "maxConcurrent": 65_535},
            "requires": ["windows"],
        },
    }))
}

/// Every field of a TenantPolicy.
fn mk_full_policy() -> Draft {
    Draft(json!({
        "apiVersion": "hangar.dev/v1alpha1",
        "kind": "TenantPolicy",
        "metadata": {"name": "acme-policy", "namespace": "hangar"},
        "spec": {
            "className": "blue",
            "tenant": "acme",
            "admission": "Closed",
            "subjects": [
                {"name": "staff", "type": "JWT", "jwt": mk_jwt()},
                {"name": "jobs", "type": "ServiceAccount", "serviceAccount": {"namespace": "batch", "name": "nightly"}},
                {"name": "keys", "type": "APIKeys", "apiKeys": {"secretRef": {"name": "acme-keys"}}},
                {"name": "open", "type": "Anonymous"},
            ],
            "upstreams": [
                {
                    "name": "reports",
                    "upstreamRef": {"name": "reports", "namespace": "tools"},
                    "prefix": "rep_v1.x",
                    "tools": {"allow": ["*"], "deny": ["report_drop"]},
                    "tasks": {"visibility": "Tenant", "consent": {
                        "methods": ["elicitation/create", "sampling/createMessage"],
                        "answeredBy": {"type": "Principals", "principals": ["key:alice", "sa:batch/nightly"]},
                        "onDecline": "RelayAnswer",
                        "ttl": "5m",
                    }},
                },
                {"name": "labelled", "selector": {"matchLabels": {"team": "blue", "stage": ""}}, "prefix": ""},
            ],
            "limits": {"liveTasks": 0, "requestsPerSecond": 1_000_000, "burst": 1},
            "mode": "Audit",
        },
    }))
}

fn mk_jwt() -> Value {
    json!({
        "issuer": "https://issuer.example.com",
        "audiences": ["hangar", "hangar-staging"],
        "jwksUri": "https://issuer.example.com/keys",
        "caRef": {"kind": "Secret", "name": "issuer-ca", "key": "tls.crt"},
        "principalClaim": "email",
        "match": [{"claim": "groups", "values": ["staff", "interns"]}],
    })
}

fn mk_entry(name: &str, upstream: &str) -> Value {
    json!({"name": name, "upstreamRef": {"name": upstream}})
}

fn digest(hex: char) -> String {
    format!("sha256:{}", hex.to_string().repeat(64))
}

/// What the rules of the schema say of a change; both or only the new object.
fn broken_rules(new: &Draft, old: Option<&Draft>) -> Vec<String> {
    let kind = new.0["kind"].as_str().unwrap();
    let verdict = Validator::new().validate(&schema_of(kind), &new.0, old.map(|old| &old.0));
    let Err(errors) = verdict else {
        return Vec::new();
    };
    errors.as_slice().iter().map(ToString::to_string).collect()
}

/// Neither the structure nor a rule refuses it.
#[track_caller]
fn admits(draft: &Draft) {
    let kind = draft.0["kind"].as_str().unwrap();
    assert_eq!(crate::violations(kind, &draft.0), [], "{}", draft.0);
    assert_eq!(broken_rules(draft, None), [""; 0], "{}", draft.0);
}

/// The structure is right, and exactly one rule says this.
#[track_caller]
fn breaks(draft: &Draft, said: &str) {
    let kind = draft.0["kind"].as_str().unwrap();
    assert_eq!(crate::violations(kind, &draft.0), [], "{}", draft.0);
    assert_eq!(broken_rules(draft, None), [said], "{}", draft.0);
}

/// The structure is wrong in exactly this place, in these words.
#[track_caller]
fn violates(draft: &Draft, path: &str, message: &str) {
    let kind = draft.0["kind"].as_str().unwrap();
    let found = crate::violations(kind, &draft.0);
    let found: Vec<_> = found
        .iter()
        .map(|one| (&*one.path, &*one.message))
        .collect();
    assert_eq!(found, [(path, message)], "{}", draft.0);
}

// === impl Draft ===

impl Draft {
    /// With one member of `spec` set; what is missing on the way is made.
    fn with(mut self, path: &str, value: impl Into<Value>) -> Self {
        let mut place = &mut self.0["spec"];
        for step in path.split('/') {
            place = match step.parse::<usize>() {
                Ok(index) if place.is_array() => &mut place[index],
                _ => &mut place[step],
            };
        }
        *place = value.into();
        self
    }

    /// With one member of an object below `spec` taken out.
    fn without(mut self, parent: &str, name: &str) -> Self {
        let place = self.0.pointer_mut(&format!("/spec{parent}")).unwrap();
        assert!(place.as_object_mut().unwrap().remove(name).is_some());
        self
    }
}
