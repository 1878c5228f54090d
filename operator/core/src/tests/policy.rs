//! One TenantPolicy at a time: defaults, every field, every refusal.

use serde_json::json;

use super::*;

const ALICE: &str = "alice-key-of-16b";

/// The verdict on `hangar/acme` with one value set, beside two upstreams open to all.
fn mk_verdict(pointer: &str, value: Value) -> Verdict {
    let shared = json!({"namespaces": {"from": "All"}});
    let compiled = mk_compiled([
        mk_upstream("reports")
            .at("/spec/allowedPolicies", shared.clone())
            .object(),
        mk_upstream("alerts")
            .at("/spec/allowedPolicies", shared)
            .object(),
        mk_policy("acme").at(pointer, value).object(),
    ]);
    compiled.verdict(&policy_key("acme")).clone()
}

/// An entry for `tools/reports` with more members.
fn mk_entry(more: Value) -> Value {
    let mut entry = mk_grant("reports");
    let Value::Object(more) = more else {
        panic!("a map of members")
    };
    entry.as_object_mut().unwrap().extend(more);
    json!([entry])
}

#[test]
fn every_default_is_resolved() {
    let compiled = mk_compiled([
        mk_upstream("reports")
            .at(
                "/spec/allowedPolicies",
                json!({"namespaces": {"from": "All"}}),
            )
            .object(),
        mk_policy("acme")
            .generation(3)
            .at(
                "/spec/subjects",
                json!([{"name": "open", "type": "Anonymous"}]),
            )
            .at(
                "/spec/upstreams",
                mk_entry(json!({"tasks": {"consent": {}}})),
            )
            .object(),
    ]);
    assert_eq!(
        serde_json::to_value(compiled.tenant("acme")).unwrap(),
        json!({
            "namespace": "hangar",
            "name": "acme",
            "uid": "p-acme",
            "generation": 3,
            "tenant": "acme",
            "admission": "Open",
            "subjects": [{"name": "open", "kind": {"type": "Anonymous"}}],
            "grants": [{
                "name": "reports",
                "upstreamNamespace": "tools",
                "upstreamName": "reports",
                "prefix": "reports",
                "tools": {"allow": ["*"], "deny": []},
                "visibility": "Owner",
                "consent": {
                    "methods": ["elicitation/create"],
                    "answeredBy": {"type": "Owner"},
                    "onDecline": "FailTask",
                    "ttlMs": 900_000,
                },
            }],
            "limits": {"liveTasks": 1000, "requestsPerSecond": 200, "burst": 400},
        })
    );
}

#[test]
fn no_consent_stays_no_consent_and_a_namespace_defaults_to_the_own() {
    let compiled = mk_compiled([
        mk_upstream("reports")
            .at("/metadata/namespace", json!("hangar"))
            .object(),
        mk_policy("acme")
            .at(
                "/spec/upstreams",
                json!([{"name": "reports", "upstreamRef": {"name": "reports"}}]),
            )
            .object(),
    ]);
    let grant = &compiled.tenant("acme").grants[0];
    assert_eq!(grant.upstream_namespace, "hangar");
    assert_eq!(grant.consent, None);
}

#[test]
fn every_field_reaches_the_wire() {
    let compiled = mk_compiled([
        mk_upstream("reports")
            .at(
                "/spec/allowedPolicies",
                json!({"namespaces": {"from": "All"}}),
            )
            .object(),
        Object::Secret(mk_keys("keys", &[("alice", ALICE)])),
        mk_policy("acme")
            .at("/spec/className", json!("hangar"))
            .at("/spec/admission", json!("Closed"))
            .at("/spec/mode", json!("Enforce"))
            .at(
                "/spec/limits",
                json!({"liveTasks": 5, "requestsPerSecond": 6, "burst": 7}),
            )
            .at("/spec/subjects", json!([mk_key_subject("keys")]))
            .at(
                "/spec/upstreams",
                mk_entry(json!({
                    "prefix": "rep",
                    "tools": {"allow": ["read_*"], "deny": ["read_all"]},
                    "tasks": {
                        "visibility": "Tenant",
                        "consent": {
                            "methods": ["elicitation/create"],
                            "answeredBy": {"type": "Principals", "principals": ["key:alice"]},
                            "onDecline": "FailTask",
                            "ttl": "90s",
                        },
                    },
                })),
            )
            .object(),
    ]);
    let tenant = compiled.tenant("acme");
    let hash = hangar_wire::ApiKeyHash::of(ALICE.as_bytes());
    assert_eq!(
        serde_json::to_value(tenant).unwrap(),
        json!({
            "namespace": "hangar",
            "name": "acme",
            "uid": "p-acme",
            "generation": 1,
            "tenant": "acme",
            "admission": "Closed",
            "subjects": [{"name": "keys", "kind": {"type": "ApiKeys", "principals": {"alice": [hash]}}}],
            "grants": [{
                "name": "reports",
                "upstreamNamespace": "tools",
                "upstreamName": "reports",
                "prefix": "rep",
                "tools": {"allow": ["read_*"], "deny": ["read_all"]},
                "visibility": "Tenant",
                "consent": {
                    "methods": ["elicitation/create"],
                    "answeredBy": {"type": "Principals", "principals": ["key:alice"]},
                    "onDecline": "FailTask",
                    "ttlMs": 90_000,
                },
            }],
            "limits": {"liveTasks": 5, "requestsPerSecond": 6, "burst": 7},
        })
    );
}

#[test]
fn what_cannot_be_enforced_yet_is_named() {
    let jwt = json!([{"name": "staff", "type": "JWT", "jwt": {
        "issuer": "https://id.example.com", "audiences": ["hangar"],
        "jwksUri": "https://id.example.com/keys",
        "match": [{"claim": "team", "values": ["acme"]}],
    }}]);
    let account = json!([{"name": "jobs", "type": "ServiceAccount", "serviceAccount": {"namespace": "jobs", "name": "runner"}}]);
    for (pointer, value, path) in [
        ("/spec/mode", json!("Audit"), "spec.mode"),
        ("/spec/subjects", jwt, "spec.subjects[0].type"),
        ("/spec/subjects", account, "spec.subjects[0].type"),
        // Whatever else it lacks.
        (
            "/spec/subjects",
            json!([{"name": "staff", "type": "JWT"}]),
            "spec.subjects[0].type",
        ),
        (
            "/spec/upstreams",
            json!([{"name": "all", "selector": {"matchLabels": {"team": "acme"}}}]),
            "spec.upstreams[0].selector",
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

/// Each value is refused as invalid, with this path in front.
#[track_caller]
fn assert_all_invalid<const N: usize>(pointer: &str, table: [(Value, &str); N]) {
    for (value, path) in table {
        let verdict = mk_verdict(pointer, value);
        assert_refused(&verdict.accepted, Reason::Invalid, &[path]);
    }
}

#[test]
fn what_the_schema_refuses_of_subjects_is_refused_again() {
    let keys = || mk_key_subject("keys");
    let open = |name: &str| json!({"name": name, "type": "Anonymous"});
    let secret = |name: &str| json!({"secretRef": {"name": name}});
    assert_all_invalid(
        "/spec/subjects",
        [
            (
                json!([{"name": "a", "type": "APIKeys"}]),
                "spec.subjects[0]: ",
            ),
            (
                json!([{"name": "a", "type": "Anonymous", "apiKeys": secret("a")}]),
                "spec.subjects[0].apiKeys: ",
            ),
            (json!([keys(), keys()]), "spec.subjects[1].name: "),
            (json!([open("a"), open("b")]), "spec.subjects[1].type: "),
            (json!([open("")]), "spec.subjects[0].name: "),
            (
                json!([{"name": "a", "type": "APIKeys", "apiKeys": secret("A_b")}]),
                "spec.subjects[0].apiKeys.secretRef.name: ",
            ),
        ],
    );
}

#[test]
fn what_the_schema_refuses_of_upstreams_is_refused_again() {
    // A good entry, and a second one that is spoilt by these members.
    let second = |name: &str, more: Value| {
        let mut entry = mk_grant("alerts");
        entry["name"] = json!(name);
        let members = entry.as_object_mut().unwrap();
        members.extend(more.as_object().unwrap().clone());
        json!([mk_grant("reports"), entry])
    };
    let same = json!({"upstreamRef": {"name": "reports", "namespace": "tools"}});
    let selector = json!({"selector": {"matchLabels": {"a": "b"}}});
    let bad_glob = json!({"tools": {"allow": [""]}});
    let no_name = json!({"upstreamRef": {"name": "a/b"}});
    assert_all_invalid(
        "/spec/upstreams",
        [
            (json!([{"name": "reports"}]), "spec.upstreams[0]: "),
            (mk_entry(selector), "spec.upstreams[0]: "),
            (second("reports", json!({})), "spec.upstreams[1].name: "),
            (second("other", same), "spec.upstreams[1].upstreamRef: "),
            (
                second("other", no_name),
                "spec.upstreams[1].upstreamRef.name: ",
            ),
            (
                second("other", json!({"prefix": "reports"})),
                "spec.upstreams[1].prefix: ",
            ),
            (
                mk_entry(json!({"prefix": "a__b"})),
                "spec.upstreams[0].prefix: ",
            ),
            (
                mk_entry(json!({"prefix": "a_"})),
                "spec.upstreams[0].prefix: ",
            ),
            (
                mk_entry(json!({"prefix": "a b"})),
                "spec.upstreams[0].prefix: ",
            ),
            (mk_entry(bad_glob), "spec.upstreams[0].tools.allow[0]: "),
        ],
    );
}

#[test]
fn what_the_schema_refuses_of_consent_is_refused_again() {
    let consent = |value: Value| mk_entry(json!({"tasks": {"consent": value}}));
    let by = |value: Value| consent(json!({"answeredBy": value}));
    let of = |path: &str| format!("spec.upstreams[0].tasks.consent.{path}");
    assert_all_invalid(
        "/spec/upstreams",
        [
            (consent(json!({"methods": []})), &of("methods: ")),
            (by(json!({"type": "Principals"})), &of("answeredBy: ")),
            (
                by(json!({"type": "Owner", "principals": ["key:a"]})),
                &of("answeredBy.principals: "),
            ),
            (
                by(json!({"type": "Principals", "principals": ["alice"]})),
                &of("answeredBy.principals[0]: "),
            ),
            (
                by(json!({"type": "Principals", "principals": ["key:"]})),
                &of("answeredBy.principals[0]: "),
            ),
            (consent(json!({"ttl": "0s"})), &of("ttl: ")),
        ],
    );
}

#[test]
fn what_the_schema_refuses_of_the_rest_is_refused_again() {
    assert_all_invalid(
        "/spec/tenant",
        [
            (json!(""), "spec.tenant: "),
            (json!("Acme Corp"), "spec.tenant: "),
        ],
    );
    assert_all_invalid(
        "/spec/limits",
        [
            (json!({"liveTasks": -1}), "spec.limits.liveTasks: "),
            (
                json!({"requestsPerSecond": 0}),
                "spec.limits.requestsPerSecond: ",
            ),
            (json!({"burst": 2_000_000}), "spec.limits.burst: "),
        ],
    );
}

#[test]
fn one_empty_prefix_is_allowed_and_two_are_not() {
    let entry = |name: &str| {
        let mut entry = mk_grant(name);
        entry["prefix"] = json!("");
        entry
    };
    let verdict = mk_verdict(
        "/spec/upstreams",
        json!([entry("reports"), mk_grant("alerts")]),
    );
    assert!(verdict.accepted.is_true(), "{verdict:?}");
    let verdict = mk_verdict(
        "/spec/upstreams",
        json!([entry("reports"), entry("alerts")]),
    );
    assert_refused(
        &verdict.accepted,
        Reason::Invalid,
        &["spec.upstreams[1].prefix: ", "empty"],
    );
}

#[test]
fn a_bad_glob_has_its_own_reason() {
    let verdict = mk_verdict(
        "/spec/upstreams",
        mk_entry(json!({"tools": {"deny": ["{a"]}})),
    );
    assert_refused(
        &verdict.accepted,
        Reason::InvalidGlob,
        &["spec.upstreams[0].tools.deny[0]: "],
    );
}

#[test]
fn a_policy_counts_in_policy_namespaces_only() {
    let compiled = mk_compiled([mk_policy("acme")
        .at("/metadata/namespace", json!("team-a"))
        .object()]);
    assert!(compiled.tenants.is_empty());
    let key = ObjectKey::new(Kind::TenantPolicy, "team-a", "acme");
    assert_refused(
        &compiled.verdict(&key).accepted,
        Reason::NamespaceNotAllowed,
        &["`team-a`", "hangar", "--policy-namespace"],
    );

    let mut everywhere = World::new(Settings {
        class: "hangar".into(),
        policy_namespaces: None,
        addresses: AddressRules::default(),
    });
    everywhere.apply(
        mk_policy("acme")
            .at("/metadata/namespace", json!("team-a"))
            .apply(),
    );
    assert_eq!(everywhere.compile().tenant_names(), ["acme"]);
}

#[test]
fn a_changed_tenant_is_refused_and_the_old_one_stays() {
    let mut world = mk_world();
    world.apply(mk_policy("acme").apply());
    world.compile();
    world.apply(
        mk_policy("acme")
            .generation(2)
            .at("/spec/tenant", json!("globex"))
            .apply(),
    );
    let compiled = world.compile();
    assert_refused(
        &compiled.verdict(&policy_key("acme")).accepted,
        Reason::Invalid,
        &["spec.tenant: is immutable", "generation 1 stays in force"],
    );
    assert_eq!(compiled.tenant("acme").tenant, "acme");
}
