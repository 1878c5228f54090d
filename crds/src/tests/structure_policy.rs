//! The structure of TenantPolicy.

use super::*;
use crate::violations;

#[test]
fn types_are_checked() {
    for (path, value, place, wanted) in [
        ("tenant", json!(7), "spec.tenant", "string"),
        ("subjects", json!({}), "spec.subjects", "array"),
        ("subjects", json!(["x"]), "spec.subjects[0]", "object"),
        ("upstreams", json!("all"), "spec.upstreams", "array"),
        ("limits/burst", json!(true), "spec.limits.burst", "integer"),
    ] {
        let draft = mk_policy().with(path, value);
        violates(&draft, place, &format!("must be of type {wanted}"));
    }
}

#[test]
fn required_members_are_missed_wherever_they_are() {
    for (parent, name, place) in [
        ("", "tenant", "spec.tenant"),
        ("", "subjects", "spec.subjects"),
        ("", "upstreams", "spec.upstreams"),
        ("/subjects/0", "type", "spec.subjects[0].type"),
        ("/subjects/0", "name", "spec.subjects[0].name"),
        ("/subjects/0/jwt", "issuer", "spec.subjects[0].jwt.issuer"),
        (
            "/subjects/0/jwt",
            "audiences",
            "spec.subjects[0].jwt.audiences",
        ),
        ("/subjects/0/jwt", "jwksUri", "spec.subjects[0].jwt.jwksUri"),
        (
            "/subjects/0/jwt/match/0",
            "values",
            "spec.subjects[0].jwt.match[0].values",
        ),
        (
            "/subjects/1/serviceAccount",
            "namespace",
            "spec.subjects[1].serviceAccount.namespace",
        ),
        (
            "/subjects/2/apiKeys",
            "secretRef",
            "spec.subjects[2].apiKeys.secretRef",
        ),
        (
            "/upstreams/0/upstreamRef",
            "name",
            "spec.upstreams[0].upstreamRef.name",
        ),
        (
            "/upstreams/0/tasks/consent/answeredBy",
            "type",
            "spec.upstreams[0].tasks.consent.answeredBy.type",
        ),
        (
            "/upstreams/1/selector",
            "matchLabels",
            "spec.upstreams[1].selector.matchLabels",
        ),
    ] {
        violates(&mk_full_policy().without(parent, name), place, "is missing");
        let path = format!("{parent}/{name}");
        let null = mk_full_policy().with(path.trim_start_matches('/'), Value::Null);
        violates(&null, place, "is missing");
    }
}

#[test]
fn an_explicit_null_is_an_absent_member() {
    for path in [
        "className",
        "admission",
        "limits",
        "limits/burst",
        "mode",
        "upstreams/0/prefix",
        "upstreams/0/tools",
        "upstreams/0/tasks",
        "subjects/0/jwt/caRef",
        "subjects/0/jwt/principalClaim",
    ] {
        let draft = mk_full_policy().with(path, Value::Null);
        assert_eq!(violations("TenantPolicy", &draft.0), [], "{path}");
        let typed: crate::TenantPolicy = serde_json::from_value(draft.0).unwrap();
        assert_eq!(typed.spec.tenant, "acme");
    }
}

#[test]
fn words_are_of_a_closed_set() {
    let consent = "upstreams/0/tasks/consent";
    let place = "spec.upstreams[0].tasks.consent";
    for (path, place, allowed) in [
        (
            "admission".to_owned(),
            "spec.admission".to_owned(),
            "Open, NoNewTasks, Closed",
        ),
        ("mode".to_owned(), "spec.mode".to_owned(), "Enforce, Audit"),
        (
            "subjects/3/type".to_owned(),
            "spec.subjects[3].type".to_owned(),
            "JWT, ServiceAccount, APIKeys, Anonymous",
        ),
        (
            "upstreams/0/tasks/visibility".to_owned(),
            "spec.upstreams[0].tasks.visibility".to_owned(),
            "Owner, Tenant",
        ),
        (
            format!("{consent}/onDecline"),
            format!("{place}.onDecline"),
            "FailTask, RelayAnswer",
        ),
        (
            format!("{consent}/answeredBy/type"),
            format!("{place}.answeredBy.type"),
            "Owner, Tenant, Principals",
        ),
    ] {
        let draft = mk_full_policy().with(&path, "Nobody");
        violates(&draft, &place, &format!("must be one of {allowed}"));
    }
}

#[test]
fn counts_and_numbers_are_bounded_at_both_ends() {
    let key = |n: usize| json!({"name": format!("k{n}"), "type": "APIKeys", "apiKeys": {"secretRef": {"name": "s"}}});
    let subjects = |count: usize| json!((0..count).map(key).collect::<Vec<_>>());
    admits(&mk_policy().with("subjects", subjects(16)));
    violates(
        &mk_policy().with("subjects", subjects(17)),
        "spec.subjects",
        "has 17 entries, at most 16 are allowed",
    );
    let entry = |n: usize| mk_entry(&format!("u{n}"), &format!("x{n}"));
    let entries = |count: usize| json!((0..count).map(entry).collect::<Vec<_>>());
    admits(&mk_policy().with("upstreams", entries(64)));
    violates(
        &mk_policy().with("upstreams", entries(65)),
        "spec.upstreams",
        "has 65 entries, at most 64 are allowed",
    );
    for (name, least) in [("liveTasks", 0), ("requestsPerSecond", 1), ("burst", 1)] {
        let limit = |value: i64| mk_policy().with(&format!("limits/{name}"), value);
        let place = format!("spec.limits.{name}");
        admits(&limit(least));
        admits(&limit(1_000_000));
        violates(
            &limit(least - 1),
            &place,
            &format!("must be at least {least}"),
        );
        violates(&limit(1_000_001), &place, "must be at most 1000000");
    }
    for (path, place) in [
        ("subjects/0/jwt/audiences", "spec.subjects[0].jwt.audiences"),
        ("subjects/0/jwt/match", "spec.subjects[0].jwt.match"),
        (
            "upstreams/0/tasks/consent/methods",
            "spec.upstreams[0].tasks.consent.methods",
        ),
        (
            "upstreams/1/selector/matchLabels",
            "spec.upstreams[1].selector.matchLabels",
        ),
    ] {
        let is_map = path.ends_with("matchLabels");
        let none = if is_map { json!({}) } else { json!([]) };
        let draft = mk_full_policy().with(path, none);
        violates(&draft, place, "has 0 entries, at least 1 are needed");
    }
    let label = json!({"team": "v".repeat(64)});
    violates(
        &mk_full_policy().with("upstreams/1/selector/matchLabels", label),
        "spec.upstreams[1].selector.matchLabels.team",
        "has 64 characters, at most 63 are allowed",
    );
}

#[test]
fn patterns_are_checked() {
    let label = "must match ^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
    for bad in ["Acme", "a_b", "-acme", "acme-", "a.b"] {
        for (path, place) in [
            ("tenant", "spec.tenant"),
            ("className", "spec.className"),
            ("subjects/0/name", "spec.subjects[0].name"),
            ("upstreams/0/name", "spec.upstreams[0].name"),
        ] {
            violates(&mk_full_policy().with(path, bad), place, label);
        }
    }
    let prefix = |text: &str| mk_full_policy().with("upstreams/0/prefix", text);
    for good in ["a", "a_b", "A.b-c_1"] {
        admits(&prefix(good));
    }
    // What stands before `__` holds none, and does not end in a part of one.
    for bad in ["a__b", "_a", "a_", "a/b", "a b"] {
        violates(
            &prefix(bad),
            "spec.upstreams[0].prefix",
            "must match ^([A-Za-z0-9.-]+(_[A-Za-z0-9.-]+)*)?$",
        );
    }
    violates(
        &mk_full_policy().with("subjects/0/jwt/jwksUri", "issuer.example.com/keys"),
        "spec.subjects[0].jwt.jwksUri",
        r"must match ^https?://[^\s/?#@]+([/?][^\s#]*)?$",
    );
}

#[test]
fn names_and_entries_stand_once() {
    let open = json!({"name": "keys", "type": "Anonymous"});
    violates(
        &mk_full_policy().with("subjects/3", open),
        "spec.subjects[3]",
        "stands here twice",
    );
    violates(
        &mk_full_policy().with("upstreams/1/name", "reports"),
        "spec.upstreams[1]",
        "stands here twice",
    );
    violates(
        &mk_full_policy().with("subjects/0/jwt/audiences", json!(["a", "a"])),
        "spec.subjects[0].jwt.audiences[1]",
        "stands here twice",
    );
}

#[test]
fn unknown_members_are_named_with_their_path() {
    for (path, place) in [
        ("namespaces", "spec.namespaces"),
        ("subjects/0/jwt/jwksUrl", "spec.subjects[0].jwt.jwksUrl"),
        (
            "upstreams/0/tasks/consent/TTL",
            "spec.upstreams[0].tasks.consent.TTL",
        ),
        (
            "upstreams/0/upstreamRef/kind",
            "spec.upstreams[0].upstreamRef.kind",
        ),
    ] {
        let draft = mk_full_policy().with(path, "x");
        violates(&draft, place, "is no field here; look for a misspelling");
    }
}

#[test]
fn the_full_object_is_read_and_written_without_a_loss() {
    let draft = mk_full_policy();
    let typed: crate::TenantPolicy = serde_json::from_value(draft.0.clone()).unwrap();
    assert_eq!(serde_json::to_value(typed).unwrap(), draft.0);
}
