//! Snapshots applied, refused, rejected in part, and kept on disk.

use std::collections::BTreeMap;

use hangar_wire::{
    AddressRules, Admission, ApiKeyHash, Epoch, Generation, Grant, NewTools, Pinning, PinningMode,
    Snapshot, Subject, SubjectKind, Tenant, TenantLimits, Term, ToolRules, Upstream,
    UpstreamLimits, UpstreamTasks, Visibility,
};

use super::disk::LastKnownGood;
use super::{Applied, Config, Runtimes};

const ALICE: &[u8] = b"alice-key-0123456789abcdef";

fn mk_rules(allow: &str) -> ToolRules {
    ToolRules {
        allow: vec![allow.into()],
        deny: vec![],
    }
}

fn mk_upstream(url: &str, allow: &str) -> Upstream {
    Upstream {
        namespace: "tools".into(),
        name: "reports".into(),
        uid: "u-1".into(),
        generation: 1,
        url: url.into(),
        admission: Admission::Open,
        tools: mk_rules(allow),
        pinning: Pinning {
            mode: PinningMode::FirstUse,
            new_tools: NewTools::Serve,
            pins: BTreeMap::new(),
            max_age_ms: 60_000,
        },
        tasks: UpstreamTasks {
            relay: true,
            retention_ms: 1000,
        },
        limits: UpstreamLimits {
            request_timeout_ms: 1000,
            max_response_bytes: 1024,
            max_concurrent: 1,
        },
    }
}

fn mk_tenant(kind: SubjectKind) -> Tenant {
    Tenant {
        namespace: "hangar".into(),
        name: "acme-policy".into(),
        uid: "t-1".into(),
        generation: 1,
        tenant: "acme".into(),
        admission: Admission::Open,
        subjects: vec![Subject {
            name: "who".into(),
            kind,
        }],
        grants: vec![Grant {
            name: "r".into(),
            upstream_namespace: "tools".into(),
            upstream_name: "reports".into(),
            prefix: "r".into(),
            tools: mk_rules("*"),
            visibility: Visibility::Owner,
            consent: None,
        }],
        limits: TenantLimits {
            live_tasks: 1,
            requests_per_second: 1,
            burst: 1,
        },
    }
}

fn mk_keys() -> SubjectKind {
    SubjectKind::ApiKeys {
        principals: [("alice".to_owned(), [ApiKeyHash::of(ALICE)].into())].into(),
    }
}

fn mk_snapshot(epoch: u64, generation: u64, upstream: Upstream) -> Snapshot {
    let term = Term {
        epoch: Epoch(epoch),
        generation: Generation(generation),
    };
    let tenants = vec![mk_tenant(mk_keys())];
    Snapshot::new(term, AddressRules::default(), vec![upstream], tenants).unwrap()
}

#[test]
fn terms_never_go_back() {
    let (config, mut runtimes) = (Config::default(), Runtimes::default());
    let good = || mk_upstream("https://a.example.com/mcp", "*");
    let mut apply =
        |epoch, generation| config.apply(mk_snapshot(epoch, generation, good()), &mut runtimes);
    assert!(matches!(apply(2, 5), Ok(Applied::New(rejected)) if rejected.is_empty()));
    assert!(matches!(apply(2, 5), Ok(Applied::Same)));
    assert_eq!(apply(2, 4).unwrap_err().reason(), "older");
    assert_eq!(apply(1, 9).unwrap_err().reason(), "older");
    assert!(matches!(apply(3, 1), Ok(Applied::New(_))));
    assert_eq!(config.held().unwrap().term.epoch, Epoch(3));
}

#[test]
fn a_damaged_snapshot_changes_nothing() {
    let (config, mut runtimes) = (Config::default(), Runtimes::default());
    let mut snapshot = mk_snapshot(1, 1, mk_upstream("https://a.example.com/mcp", "*"));
    snapshot.tenants[0].limits.live_tasks += 1;
    assert_eq!(
        config.apply(snapshot, &mut runtimes).unwrap_err().reason(),
        "damaged"
    );
    assert!(config.load().is_none());
}

#[test]
fn a_bad_object_is_rejected_alone_and_its_last_good_form_stays() {
    for (bad, reason) in [
        (
            mk_upstream("https://a.example.com/mcp", "a[b"),
            "InvalidGlob",
        ),
        (mk_upstream("ftp://a.example.com/mcp", "*"), "BadUrl"),
        (mk_upstream("http://127.0.0.1:1/mcp", "*"), "AddressDenied"),
        (mk_upstream("http://[::1]:1/mcp", "*"), "AddressDenied"),
    ] {
        let (config, mut runtimes) = (Config::default(), Runtimes::default());
        let good = mk_upstream("https://good.example.com/mcp", "*");
        config
            .apply(mk_snapshot(1, 1, good), &mut runtimes)
            .unwrap();
        let applied = config
            .apply(mk_snapshot(1, 2, bad.clone()), &mut runtimes)
            .unwrap();
        let Applied::New(rejected) = applied else {
            panic!("{reason}: not applied");
        };
        assert_eq!(rejected.len(), 1);
        assert_eq!(rejected[0].reason, reason);
        assert_eq!(rejected[0].object, bad.key());
        let active = config.load().unwrap();
        let caller = active.caller_of_key(ALICE).unwrap();
        let upstream = active.upstream(&caller.tenant.grants[0]).unwrap();
        assert_eq!(upstream.uri.host(), Some("good.example.com"));
        // Without a last good form there is nothing to reach.
        let (config, mut runtimes) = (Config::default(), Runtimes::default());
        config.apply(mk_snapshot(1, 1, bad), &mut runtimes).unwrap();
        let active = config.load().unwrap();
        assert!(active.upstream(&caller.tenant.grants[0]).is_none());
    }
}

#[test]
fn a_literal_address_is_judged_again_under_other_rules() {
    let (config, mut runtimes) = (Config::default(), Runtimes::default());
    let mk = |generation, rules| {
        let term = Term {
            epoch: Epoch(1),
            generation: Generation(generation),
        };
        let upstreams = vec![mk_upstream("http://127.0.0.1:1/mcp", "*")];
        Snapshot::new(term, rules, upstreams, vec![]).unwrap()
    };
    let allowed = AddressRules {
        allow: vec!["127.0.0.0/8".into()],
        deny: vec![],
    };
    let applied = config.apply(mk(1, allowed), &mut runtimes).unwrap();
    assert!(matches!(applied, Applied::New(rejected) if rejected.is_empty()));
    let applied = config
        .apply(mk(2, AddressRules::default()), &mut runtimes)
        .unwrap();
    assert!(matches!(applied, Applied::New(rejected) if rejected[0].reason == "AddressDenied"));
}

#[test]
fn callers_are_who_their_key_says() {
    let (config, mut runtimes) = (Config::default(), Runtimes::default());
    let upstream = mk_upstream("https://a.example.com/mcp", "*");
    config
        .apply(mk_snapshot(1, 1, upstream.clone()), &mut runtimes)
        .unwrap();
    let active = config.load().unwrap();
    let alice = active.caller_of_key(ALICE).unwrap();
    assert_eq!(alice.owner.principal.unwrap().as_str(), "key:alice");
    assert_eq!(alice.owner.tenant.unwrap().namespace, "hangar");
    assert!(
        active
            .caller_of_key(b"alice-key-0123456789abcdee")
            .is_none()
    );
    assert!(active.caller_of_key(b"").is_none());
    assert!(active.anonymous().is_none());

    let term = Term {
        epoch: Epoch(1),
        generation: Generation(2),
    };
    let tenants = vec![mk_tenant(SubjectKind::Anonymous)];
    let open = Snapshot::new(term, AddressRules::default(), vec![upstream], tenants).unwrap();
    config.apply(open, &mut runtimes).unwrap();
    let active = config.load().unwrap();
    assert!(
        active.caller_of_key(ALICE).is_none(),
        "her key was withdrawn"
    );
    let anyone = active.anonymous().unwrap();
    assert_eq!((anyone.owner.tenant, anyone.owner.principal), (None, None));
}

#[test]
fn last_known_good_survives_and_damage_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let disk = LastKnownGood::new(folder.path().join("state"));
    assert!(disk.load().unwrap().is_none());
    let upstream = mk_upstream("https://a.example.com/mcp", "*");
    let first = mk_snapshot(1, 1, upstream.clone());
    disk.save(&first).unwrap();
    let second = mk_snapshot(1, 2, upstream);
    disk.save(&second).unwrap();
    assert_eq!(disk.load().unwrap(), Some(second));
    let file = folder.path().join("state/last-known-good.json");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(!text.contains(std::str::from_utf8(ALICE).unwrap()));
    std::fs::write(&file, text.replacen("\"acme\"", "\"evil\"", 1)).unwrap();
    assert!(disk.load().is_err());
    std::fs::write(&file, text.replacen("\"format\":1", "\"format\":9", 1)).unwrap();
    let error = crate::chain(&disk.load().unwrap_err());
    assert!(error.contains("format 9 is not known"), "{error}");
}
