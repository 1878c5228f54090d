//! One McpUpstream at a time: defaults, every field, every refusal.

use hangar_wire::{Admission, NewTools, PinningMode, Protocol};
use serde_json::json;

use super::*;

/// The verdict on `tools/reports` with one value set.
fn mk_verdict(pointer: &str, value: Value) -> Verdict {
    let compiled = mk_compiled([mk_upstream("reports").at(pointer, value).object()]);
    compiled.verdicts.into_values().next().unwrap()
}

#[test]
fn every_default_is_resolved() {
    let compiled = mk_compiled([mk_upstream("reports").generation(4).object()]);
    let wire = serde_json::to_value(compiled.upstream("reports")).unwrap();
    assert_eq!(
        wire,
        json!({
            "namespace": "tools",
            "name": "reports",
            "uid": "u-reports",
            "generation": 4,
            "url": "https://reports.example.com/mcp",
            "admission": "Open",
            "tools": {"allow": ["*"], "deny": []},
            "pinning": {"mode": "FirstUse", "newTools": "Serve", "pins": {}, "maxAgeMs": 60_000},
            "tasks": {"relay": true, "retentionMs": 86_400_000},
            "limits": {"requestTimeoutMs": 30_000, "maxResponseBytes": 16_777_216, "maxConcurrent": 256},
        })
    );
    let verdict = compiled.verdict(&upstream_key("reports"));
    assert!(verdict.accepted.is_true() && verdict.resolved_refs.is_true());
}

#[test]
fn every_field_reaches_the_wire() {
    let digest = format!("sha256:{}", "ab".repeat(32));
    let compiled = mk_compiled([mk_upstream("reports")
        .at("/spec/className", json!("hangar"))
        .at("/spec/protocol", json!("2026-07-28"))
        .at("/spec/admission", json!("NoNewTasks"))
        .at(
            "/spec/tools",
            json!({
                "allow": ["read_*"], "deny": ["read_secret"],
                "pinning": {"mode": "Explicit"}, "pins": {"crawl": [digest]}, "maxAge": "1m30s",
            }),
        )
        .at("/spec/tasks", json!({"relay": false, "retention": "2h"}))
        .at(
            "/spec/limits",
            json!({"requestTimeout": "5s", "maxResponseBytes": "1Mi", "maxConcurrent": 7}),
        )
        .at("/spec/requires", json!([]))
        .object()]);
    let wire = compiled.upstream("reports");
    assert_eq!(wire.protocol, Protocol::V2026_07_28);
    assert_eq!(wire.admission, Admission::NoNewTasks);
    assert_eq!(wire.tools.allow, ["read_*"]);
    assert_eq!(wire.tools.deny, ["read_secret"]);
    assert_eq!(wire.pinning.mode, PinningMode::Explicit);
    assert_eq!(wire.pinning.new_tools, NewTools::Serve);
    let pins: Vec<String> = wire.pinning.pins["crawl"]
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(pins, [digest]);
    assert_eq!(wire.pinning.max_age_ms, 90_000);
    assert!(!wire.tasks.relay);
    assert_eq!(wire.tasks.retention_ms, 7_200_000);
    assert_eq!(wire.limits.request_timeout_ms, 5_000);
    assert_eq!(wire.limits.max_response_bytes, 1 << 20);
    assert_eq!(wire.limits.max_concurrent, 7);
}

#[test]
fn a_default_spelled_out_is_accepted() {
    for (pointer, value) in [
        ("/spec/protocol", json!("Auto")),
        ("/spec/protocol", json!("2025-11-25")),
        ("/spec/admission", json!("Closed")),
        (
            "/spec/allowedPolicies",
            json!({"namespaces": {"from": "Same"}}),
        ),
        (
            "/spec/allowedPolicies",
            json!({"namespaces": {"from": "All"}}),
        ),
        (
            "/spec/tools",
            json!({"pinning": {"mode": "FirstUse", "newTools": "Serve"}}),
        ),
        ("/spec/tools", json!({"pinning": {"mode": "Disabled"}})),
        ("/spec/tasks", json!({})),
        ("/spec/limits", json!({})),
    ] {
        let verdict = mk_verdict(pointer, value.clone());
        assert!(verdict.accepted.is_true(), "{value}: {verdict:?}");
    }
}

#[test]
fn what_becomes_of_new_tools_reaches_the_wire() {
    for (pinning, new_tools) in [
        (json!({"newTools": "Withhold"}), NewTools::Withhold),
        (
            json!({"mode": "FirstUse", "newTools": "Withhold"}),
            NewTools::Withhold,
        ),
        (json!({"newTools": "Serve"}), NewTools::Serve),
        (json!({}), NewTools::Serve),
    ] {
        let tools = json!({"pinning": pinning});
        let compiled = mk_compiled([mk_upstream("reports").at("/spec/tools", tools).object()]);
        let wire = compiled.upstream("reports");
        assert_eq!(wire.pinning.mode, PinningMode::FirstUse);
        assert_eq!(wire.pinning.new_tools, new_tools, "{pinning}");
    }
    for mode in ["Explicit", "Disabled"] {
        let tools = json!({"pinning": {"mode": mode, "newTools": "Withhold"}});
        let verdict = mk_verdict("/spec/tools", tools);
        let path = "spec.tools.pinning.newTools: ";
        assert_refused(&verdict.accepted, Reason::Invalid, &[path]);
    }
}

#[test]
fn a_service_becomes_a_url() {
    for (service, url) in [
        (
            json!({"name": "mcp", "port": 8080, "path": "/v1/mcp", "tls": false}),
            "http://mcp.tools.svc:8080/v1/mcp",
        ),
        (
            json!({"name": "mcp", "port": 443, "path": "/v1/mcp", "tls": true}),
            "https://mcp.tools.svc:443/v1/mcp",
        ),
    ] {
        let compiled = mk_compiled([mk_upstream("reports")
            .at("/spec/endpoint", json!({"service": service}))
            .object()]);
        assert_eq!(compiled.upstream("reports").url, url);
    }
}

#[test]
fn what_cannot_be_enforced_yet_is_named() {
    for (pointer, value, path) in [
        (
            "/spec/tls",
            json!({"serverName": "x"}),
            "spec.tls.serverName",
        ),
        (
            "/spec/tls",
            json!({"caRef": {"kind": "ConfigMap", "name": "x", "key": "ca.crt"}}),
            "spec.tls.caRef",
        ),
        (
            "/spec/tls",
            json!({"clientCertificateRef": {"name": "x"}}),
            "spec.tls.clientCertificateRef",
        ),
        (
            "/spec/credential",
            json!({"type": "Bearer", "bearer": {"secretRef": {"name": "x", "key": "token"}}}),
            "spec.credential",
        ),
        (
            "/spec/forwardIdentity",
            json!({"audience": "https://reports"}),
            "spec.forwardIdentity",
        ),
        (
            "/spec/allowedPolicies",
            json!({"namespaces": {"from": "Selector", "selector": {"matchLabels": {"a": "b"}}}}),
            "spec.allowedPolicies.namespaces.from",
        ),
    ] {
        let verdict = mk_verdict(pointer, value);
        assert_refused(
            &verdict.accepted,
            Reason::NotYetSupported,
            &[&format!("{path}: ")],
        );
    }
}

#[test]
fn an_unknown_requirement_has_its_own_reason() {
    let verdict = mk_verdict("/spec/requires", json!(["Quarantine"]));
    assert_refused(
        &verdict.accepted,
        Reason::UnknownRequirement,
        &["spec.requires[0]", "Quarantine"],
    );
}

#[test]
fn a_bad_glob_has_its_own_reason() {
    let verdict = mk_verdict("/spec/tools", json!({"allow": ["ok", "{a"]}));
    assert_refused(
        &verdict.accepted,
        Reason::InvalidGlob,
        &["spec.tools.allow[1]"],
    );
    let verdict = mk_verdict("/spec/tools", json!({"deny": ["[z-"]}));
    assert_refused(
        &verdict.accepted,
        Reason::InvalidGlob,
        &["spec.tools.deny[0]"],
    );
}

/// Each value is refused as invalid, with this path in front.
#[track_caller]
fn assert_all_invalid(table: impl IntoIterator<Item = (&'static str, Value, &'static str)>) {
    for (pointer, value, path) in table {
        let verdict = mk_verdict(pointer, value);
        assert_refused(&verdict.accepted, Reason::Invalid, &[path]);
    }
}

#[test]
fn what_the_schema_refuses_of_an_endpoint_is_refused_again() {
    let both = json!({"url": "https://a/mcp", "service": {"name": "a", "port": 80}});
    let service = |value| json!({"service": value});
    let name = "spec.endpoint.service.name: ";
    let port = "spec.endpoint.service.port: ";
    let path = "spec.endpoint.service.path: ";
    assert_all_invalid(
        [
            (json!({}), "spec.endpoint: "),
            (both, "spec.endpoint: "),
            (json!({"url": "reports"}), "spec.endpoint.url: "),
            (service(json!({"name": "A", "port": 80})), name),
            (service(json!({"name": "a", "port": 0})), port),
            (service(json!({"name": "a", "port": 65536})), port),
            (
                service(json!({"name": "a", "port": 80, "path": "mcp"})),
                path,
            ),
            (
                service(json!({"name": "a", "port": 80, "path": "/m cp"})),
                path,
            ),
        ]
        .map(|(value, path)| ("/spec/endpoint", value, path)),
    );
}

#[test]
fn what_the_schema_refuses_of_tools_is_refused_again() {
    let one = format!("sha256:{}", "ab".repeat(32));
    let five: Vec<String> = (0..5)
        .map(|i| format!("sha256:{}", format!("{i}a").repeat(32)))
        .collect();
    assert_all_invalid(
        [
            (json!({"allow": ["a", "a"]}), "spec.tools.allow[1]: "),
            (json!({"deny": [""]}), "spec.tools.deny[0]: "),
            (json!({"maxAge": "1d"}), "spec.tools.maxAge: "),
            (
                json!({"pins": {"a": ["md5:00"]}}),
                "spec.tools.pins[a][0]: ",
            ),
            (json!({"pins": {"a": []}}), "spec.tools.pins[a]: "),
            (json!({"pins": {"a": five}}), "spec.tools.pins[a]: "),
            (
                json!({"pins": {"a": [one, one]}}),
                "spec.tools.pins[a][1]: ",
            ),
            (json!({"pins": {"": [one]}}), "spec.tools.pins: "),
            (
                json!({"pinning": {"mode": "Explicit", "newTools": "Serve"}}),
                "spec.tools.pinning.newTools: ",
            ),
        ]
        .map(|(value, path)| ("/spec/tools", value, path)),
    );
}

#[test]
fn what_the_schema_refuses_of_the_rest_is_refused_again() {
    let stray = json!({"namespaces": {"from": "All", "selector": {"matchLabels": {"a": "b"}}}});
    assert_all_invalid([
        ("/metadata/namespace", json!("a/b"), "metadata.namespace: "),
        (
            "/spec/tasks",
            json!({"retention": "0s"}),
            "spec.tasks.retention: ",
        ),
        (
            "/spec/limits",
            json!({"requestTimeout": "0s"}),
            "spec.limits.requestTimeout: ",
        ),
        (
            "/spec/limits",
            json!({"maxResponseBytes": "0"}),
            "spec.limits.maxResponseBytes: ",
        ),
        (
            "/spec/limits",
            json!({"maxConcurrent": 0}),
            "spec.limits.maxConcurrent: ",
        ),
        (
            "/spec/limits",
            json!({"maxConcurrent": 65536}),
            "spec.limits.maxConcurrent: ",
        ),
        (
            "/spec/allowedPolicies",
            stray,
            "spec.allowedPolicies.namespaces.selector: ",
        ),
    ]);
}
