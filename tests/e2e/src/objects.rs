//! The manifests that a platform team applies in the story.

use serde_json::{Value, json};

use crate::stage::{PLATFORM, TOOLS};

/// Who calls, and with which key.
pub(crate) const ALICE: &str = "acme-alice-key-of-the-end-to-end-story";

/// Service and port of the upstream.
pub(crate) const UPSTREAM: (&str, u16) = ("reports", 7411);

/// Room for the ledger: a folder of the node, made by hand since no provisioner runs there.
pub(crate) fn volume(folder: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": "ledger"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "local": {"path": folder},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                {"key": "kubernetes.io/hostname", "operator": "In", "values": ["node1"]},
            ]}]}},
        },
    })
}

/// A namespace that admits only pods without any privilege.
pub(crate) fn namespace(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": name, "labels": {
            "pod-security.kubernetes.io/enforce": "restricted",
            "pod-security.kubernetes.io/warn": "restricted",
        }},
    })
}

/// The MCP server itself, made with the official Rust SDK.
pub(crate) fn server(image: &str) -> Value {
    let (name, port) = UPSTREAM;
    let labels = json!({"app": name});
    let container = json!({
        "name": "server", "image": image, "imagePullPolicy": "Never",
        "args": [
            "--address", format!("0.0.0.0:{port}"),
            "--allow-host", format!("{name}.{TOOLS}.svc"),
        ],
        "readinessProbe": {"tcpSocket": {"port": port}, "periodSeconds": 1},
        "securityContext": {
            "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
            "capabilities": {"drop": ["ALL"]},
        },
    });
    let pod = json!({
        "metadata": {"labels": labels},
        "spec": {
            "automountServiceAccountToken": false,
            "securityContext": {
                "runAsNonRoot": true, "runAsUser": 65532,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [container],
        },
    });
    json!({"apiVersion": "v1", "kind": "List", "items": [
        {
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
            "spec": {"selector": {"matchLabels": labels}, "template": pod},
        },
        {
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
            "spec": {"selector": labels, "ports": [{"port": port}]},
        },
    ]})
}

pub(crate) fn upstream() -> Value {
    let (name, port) = UPSTREAM;
    json!({
        "apiVersion": "hangar.dev/v1alpha1", "kind": "McpUpstream",
        "metadata": {"name": name, "namespace": TOOLS},
        "spec": {
            "endpoint": {"service": {"name": name, "port": port, "path": "/mcp", "tls": false}},
            "allowedPolicies": {"namespaces": {"from": "All"}},
        },
    })
}

/// A tenant whose keys are in the Secret `NAME-keys`.
pub(crate) fn tenant(name: &str) -> Value {
    json!({
        "apiVersion": "hangar.dev/v1alpha1", "kind": "TenantPolicy",
        "metadata": {"name": name, "namespace": PLATFORM},
        "spec": {
            "tenant": name,
            "subjects": [{
                "name": "keys", "type": "APIKeys",
                "apiKeys": {"secretRef": {"name": format!("{name}-keys")}},
            }],
            "upstreams": [{
                "name": "reports",
                "upstreamRef": {"name": UPSTREAM.0, "namespace": TOOLS},
                "tasks": {"consent": {"methods": ["elicitation/create"]}},
            }],
        },
    })
}

/// The Secret of a tenant, with one principal.
pub(crate) fn keys(tenant: &str, principal: &str, key: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {
            "name": format!("{tenant}-keys"), "namespace": PLATFORM,
            "labels": {"hangar.dev/use": "api-keys"},
        },
        "stringData": {principal: key},
    })
}

/// Several objects in one `kubectl apply`.
pub(crate) fn list(items: &[Value]) -> String {
    json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
}
