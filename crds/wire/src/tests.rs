//! Golden files and refusals.

use super::*;

fn mk_upstream(name: &str) -> Upstream {
    Upstream {
        namespace: "tools".into(),
        name: name.into(),
        uid: "0f3c".into(),
        generation: 4,
        url: "https://reports.example.com/mcp".into(),
        protocol: Protocol::Auto,
        admission: Admission::Open,
        tools: ToolRules {
            allow: vec!["*".into()],
            deny: vec!["drop_*".into()],
        },
        pinning: Pinning {
            mode: PinningMode::FirstUse,
            new_tools: NewTools::Serve,
            pins: [("crawl".to_owned(), [Sha256Hex::of(b"contract")].into())].into(),
            max_age_ms: 60_000,
        },
        tasks: UpstreamTasks {
            relay: true,
            retention_ms: 86_400_000,
        },
        limits: UpstreamLimits {
            request_timeout_ms: 30_000,
            max_response_bytes: 16 << 20,
            max_concurrent: 256,
        },
    }
}

fn mk_tenant() -> Tenant {
    Tenant {
        namespace: "hangar".into(),
        name: "acme-policy".into(),
        uid: "77aa".into(),
        generation: 2,
        tenant: "acme".into(),
        admission: Admission::NoNewTasks,
        subjects: vec![
            Subject {
                name: "keys".into(),
                kind: SubjectKind::ApiKeys {
                    principals: [(
                        "alice".to_owned(),
                        [ApiKeyHash::of(b"an-api-key-of-32-bytes-or-so-long")].into(),
                    )]
                    .into(),
                },
            },
            Subject {
                name: "open".into(),
                kind: SubjectKind::Anonymous,
            },
        ],
        grants: vec![Grant {
            name: "reports".into(),
            upstream_namespace: "tools".into(),
            upstream_name: "reports".into(),
            prefix: "rep".into(),
            tools: ToolRules {
                allow: vec!["crawl".into()],
                deny: vec![],
            },
            visibility: Visibility::Tenant,
            consent: Some(Consent {
                methods: ["elicitation/create".to_owned()].into(),
                answered_by: AnsweredBy::Principals {
                    principals: ["key:alice".to_owned()].into(),
                },
                on_decline: OnDecline::FailTask,
                ttl_ms: 900_000,
            }),
        }],
        limits: TenantLimits {
            live_tasks: 1000,
            requests_per_second: 200,
            burst: 400,
        },
    }
}

fn mk_snapshot() -> Snapshot {
    let term = Term {
        epoch: Epoch(3),
        generation: Generation(7),
    };
    let addresses = AddressRules {
        allow: vec!["127.0.0.0/8".into()],
        deny: vec![],
    };
    Snapshot::new(
        term,
        addresses,
        vec![mk_upstream("reports"), mk_upstream("alerts")],
        vec![mk_tenant()],
    )
    .expect("the fixture is plain JSON")
}

fn mk_subscribe() -> Subscribe {
    let snapshot = mk_snapshot();
    Subscribe {
        format: FORMAT,
        pod: Pod {
            namespace: "hangar".into(),
            name: "gateway-0".into(),
            uid: "b2c1".into(),
        },
        held: Some(snapshot.held()),
        rejected: vec![Rejection {
            object: snapshot.upstreams[0].key(),
            digest: snapshot.upstreams[0].digest().unwrap(),
            reason: "BadGlob".into(),
            message: "spec.tools.allow[0]: unclosed character class".into(),
        }],
    }
}

#[test]
fn golden_update() {
    insta::assert_json_snapshot!(Update {
        format: FORMAT,
        snapshot: Some(mk_snapshot())
    });
}

#[test]
fn golden_subscribe() {
    insta::assert_json_snapshot!(mk_subscribe());
}

/// An object made before the field was there keeps its digest, and one that names a revision has
/// another.
#[test]
fn a_protocol_travels_where_it_is_named() {
    let auto = mk_upstream("reports");
    let text = serde_json::to_string(&auto).unwrap();
    assert!(!text.contains("protocol"), "{text}");
    for (protocol, name) in [
        (Protocol::V2025_11_25, "2025-11-25"),
        (Protocol::V2026_07_28, "2026-07-28"),
    ] {
        let mut named = auto.clone();
        named.protocol = protocol;
        let text = serde_json::to_string(&named).unwrap();
        assert!(text.contains(&format!("\"protocol\":\"{name}\"")));
        assert_eq!(serde_json::from_str::<Upstream>(&text).unwrap(), named);
        assert_ne!(named.digest().unwrap(), auto.digest().unwrap());
    }
}

#[test]
fn messages_survive_the_wire() {
    let bytes = serde_json::to_vec(&mk_snapshot()).unwrap();
    let back: Snapshot = decode(&bytes).unwrap();
    assert_eq!(back, mk_snapshot());
    back.verify().unwrap();
    let bytes = serde_json::to_vec(&mk_subscribe()).unwrap();
    assert_eq!(decode::<Subscribe>(&bytes).unwrap(), mk_subscribe());
}

#[test]
fn a_newer_format_is_refused_by_name() {
    let bytes = br#"{"format":2,"snapshot":{"whatever":"comes"}}"#;
    let error = decode::<Update>(bytes).unwrap_err();
    assert_eq!(
        error.to_string(),
        "configuration format 2 is not known, this binary reads format 1"
    );
    assert_eq!(error.reason(), "format");
    assert_eq!(
        decode::<Update>(br#"{"snapshot":null}"#)
            .unwrap_err()
            .reason(),
        "malformed"
    );
}

#[test]
fn a_changed_byte_is_found() {
    let mut snapshot = mk_snapshot();
    snapshot.tenants[0].limits.live_tasks += 1;
    assert_eq!(snapshot.verify().unwrap_err().reason(), "digest");
}

#[test]
fn the_digest_ignores_term_and_order() {
    let snapshot = mk_snapshot();
    let other = Snapshot::new(
        Term::default(),
        snapshot.addresses.clone(),
        vec![mk_upstream("alerts"), mk_upstream("reports")],
        snapshot.tenants.clone(),
    )
    .unwrap();
    assert_eq!(other.digest, snapshot.digest);
    assert_eq!(other.upstreams, snapshot.upstreams);
}

/// A configuration without one is as it was before there were any.
#[test]
fn tombstones_enter_the_digest_and_no_others() {
    let plain = mk_snapshot();
    let stone = |uid: &str| Tombstone {
        namespace: "default".into(),
        name: "reports".into(),
        uid: uid.into(),
        fate: Fate::Removed,
        before: plain.term,
        outranked: vec![],
    };
    let none = plain.clone().with_tombstones(vec![]).unwrap();
    assert_eq!(none, plain);
    assert!(!serde_json::to_string(&none).unwrap().contains("tombstones"));
    let two = vec![stone("b"), stone("a")];
    let buried = plain.clone().with_tombstones(two).unwrap();
    assert_ne!(buried.digest, plain.digest);
    let other = vec![stone("a"), stone("b")];
    assert_eq!(plain.clone().with_tombstones(other).unwrap(), buried);
    let mut altered = buried;
    altered.tombstones[0].fate = Fate::Changed;
    assert_eq!(altered.verify().unwrap_err().reason(), "digest");
}

#[test]
fn a_tombstone_covers_what_was_born_before_it_and_under_outranked_ones() {
    let term = |epoch: u64, generation: u64| Term {
        epoch: Epoch(epoch),
        generation: Generation(generation),
    };
    let mut stone = Tombstone {
        namespace: "tools".into(),
        name: "reports".into(),
        uid: "0f3c".into(),
        fate: Fate::Removed,
        before: term(2, 5),
        outranked: vec![],
    };
    let mut form = serde_json::json!({
        "namespace": "tools", "name": "reports", "uid": "0f3c", "fate": "Removed",
        "before": {"epoch": 2, "generation": 5},
    });
    assert_eq!(serde_json::to_value(&stone).unwrap(), form);
    assert_eq!(
        serde_json::from_value::<Tombstone>(form.clone()).unwrap(),
        stone
    );
    stone.outranked.push(Outranked {
        after: term(2, 9),
        before: term(9, 9),
    });
    form["outranked"] = serde_json::json!([{
        "after": {"epoch": 2, "generation": 9}, "before": {"epoch": 9, "generation": 9},
    }]);
    assert_eq!(serde_json::to_value(&stone).unwrap(), form);
    for born in [term(1, 7), term(2, 4), term(2, 10), term(8, 10)] {
        assert!(stone.covers(born), "{born}");
    }
    // Under the same uid, made again.
    for born in [term(2, 5), term(2, 9), term(9, 9)] {
        assert!(!stone.covers(born), "{born}");
    }
}

#[test]
fn digests_and_keys_parse_strictly() {
    let digest = Sha256Hex::of(b"x");
    assert_eq!(digest.to_string().parse::<Sha256Hex>().unwrap(), digest);
    let upper = digest.to_string().to_uppercase();
    for bad in ["", "sha256:", "sha256:00", upper.as_str(), "md5:00"] {
        assert!(bad.parse::<Sha256Hex>().is_err(), "{bad}");
    }
    let key: ObjectKey = "TenantPolicy/hangar/acme".parse().unwrap();
    assert_eq!(key, ObjectKey::new(Kind::TenantPolicy, "hangar", "acme"));
    for bad in [
        "Secret/a/b",
        "McpUpstream/a",
        "McpUpstream/a/b/c",
        "McpUpstream//b",
    ] {
        assert!(bad.parse::<ObjectKey>().is_err(), "{bad}");
    }
}
