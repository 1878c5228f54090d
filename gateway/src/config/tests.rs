//! Snapshots applied, refused, rejected in part, and kept on disk.

use std::collections::BTreeMap;

use hangar_ledger::UpstreamUid;
use hangar_wire::{
    AddressRules, Admission, ApiKeyHash, Epoch, Generation, Grant, NewTools, Pinning, PinningMode,
    Protocol, Snapshot, Subject, SubjectKind, Tenant, TenantLimits, Term, ToolRules, Upstream,
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
        protocol: Protocol::Auto,
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

fn mk_term(epoch: u64, generation: u64) -> Term {
    Term {
        epoch: Epoch(epoch),
        generation: Generation(generation),
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
    // Its last good form has the same address: it is out of reach too.
    let active = config.load().unwrap();
    assert!(active.upstream_by_uid(&UpstreamUid("u-1".into())).is_none());
}

#[test]
fn a_last_good_form_stays_only_where_its_address_is_still_permitted() {
    let rules = |allow: &str| AddressRules {
        allow: vec![allow.into()],
        deny: vec![],
    };
    for (allow, stays) in [("127.0.0.1", true), ("10.0.0.0/8", false)] {
        let (config, mut runtimes) = (Config::default(), Runtimes::default());
        let mk = |generation, rules, glob| {
            let upstreams = vec![mk_upstream("http://127.0.0.1:1/mcp", glob)];
            Snapshot::new(mk_term(1, generation), rules, upstreams, vec![]).unwrap()
        };
        let good = mk(1, rules("127.0.0.0/8"), "*");
        config.apply(good, &mut runtimes).unwrap();
        config
            .apply(mk(2, rules(allow), "a[b"), &mut runtimes)
            .unwrap();
        let active = config.load().unwrap();
        let kept = active.upstream_by_uid(&UpstreamUid("u-1".into()));
        assert_eq!(kept.is_some(), stays, "{allow}");
    }
}

/// An object that was deleted and made again between two pushes is another one, and nothing of
/// its predecessor stands in for it.
#[test]
fn an_object_made_again_inherits_no_last_good_form() {
    let (config, mut runtimes) = (Config::default(), Runtimes::default());
    let good = mk_upstream("https://old.example.com/mcp", "*");
    config
        .apply(mk_snapshot(1, 1, good), &mut runtimes)
        .unwrap();
    let mut upstream = mk_upstream("https://new.example.com/mcp", "a[b");
    upstream.uid = "u-2".into();
    let mut tenant = mk_tenant(mk_keys());
    tenant.uid = "t-2".into();
    tenant.grants[0].tools = mk_rules("a[b");
    let again = mk_of(2, vec![upstream], vec![tenant]);
    let rejected = rejections(&config, &mut runtimes, again);
    assert_eq!(rejected.len(), 2);
    let active = config.load().unwrap();
    assert!(active.upstream_by_uid(&UpstreamUid("u-1".into())).is_none());
    assert!(active.caller_of_key(ALICE).is_none());
}

#[test]
fn one_number_with_two_contents_is_refused() {
    let (config, mut runtimes) = (Config::default(), Runtimes::default());
    let first = mk_snapshot(2, 5, mk_upstream("https://a.example.com/mcp", "*"));
    let held = first.held();
    config.apply(first, &mut runtimes).unwrap();
    let other = mk_snapshot(2, 5, mk_upstream("https://b.example.com/mcp", "*"));
    let error = config.apply(other, &mut runtimes).unwrap_err();
    assert_eq!(error.reason(), "forked");
    assert_eq!(config.held(), Some(held));
}

/// A tenant of this name, whose principal `p` has this key.
fn mk_tenant_of(name: &str, key: &str) -> Tenant {
    let hashes = [ApiKeyHash::of(key.as_bytes())].into();
    let principals = [("p".to_owned(), hashes)].into();
    Tenant {
        name: format!("{name}-policy"),
        uid: format!("uid-{name}"),
        tenant: name.into(),
        ..mk_tenant(SubjectKind::ApiKeys { principals })
    }
}

fn mk_of(generation: u64, upstreams: Vec<Upstream>, tenants: Vec<Tenant>) -> Snapshot {
    let term = mk_term(1, generation);
    Snapshot::new(term, AddressRules::default(), upstreams, tenants).unwrap()
}

/// Applies, and tells which object was rejected and why.
fn rejections(
    config: &Config,
    runtimes: &mut Runtimes,
    snapshot: Snapshot,
) -> Vec<(String, String)> {
    let Applied::New(rejected) = config.apply(snapshot, runtimes).unwrap() else {
        panic!("not applied");
    };
    let pairs = rejected.into_iter();
    pairs.map(|it| (it.object.name, it.reason)).collect()
}

fn tenant_of(config: &Config, key: &str) -> Option<String> {
    let caller = config.load().unwrap().caller_of_key(key.as_bytes())?;
    Some(caller.tenant.object.tenant.clone())
}

#[test]
fn a_key_of_two_tenants_stays_with_the_one_that_had_it() {
    let conflict = |name: &str| (format!("{name}-policy"), "SubjectConflict".to_owned());
    // `zeta` comes after `acme` in every order, and has the key.
    let (config, mut runtimes) = (Config::default(), Runtimes::default());
    let (zeta, acme) = (mk_tenant_of("zeta", "k1"), mk_tenant_of("acme", "k2"));
    let first = mk_of(1, vec![], vec![acme, zeta.clone()]);
    assert_eq!(rejections(&config, &mut runtimes, first), []);
    let grasping = mk_tenant_of("acme", "k1");
    let second = mk_of(2, vec![], vec![grasping.clone(), zeta.clone()]);
    let rejected = rejections(&config, &mut runtimes, second);
    assert_eq!(rejected, [conflict("acme")]);
    assert_eq!(tenant_of(&config, "k1").as_deref(), Some("zeta"));
    assert_eq!(
        tenant_of(&config, "k2").as_deref(),
        Some("acme"),
        "its last good form"
    );
    // A newcomer without a last good form is nobody.
    let third = mk_of(3, vec![], vec![zeta.clone(), mk_tenant_of("beta", "k1")]);
    assert_eq!(
        rejections(&config, &mut runtimes, third),
        [conflict("beta")]
    );
    assert_eq!(tenant_of(&config, "k1").as_deref(), Some("zeta"));
    // Once the older one gave it up, it is free.
    let fourth = mk_of(4, vec![], vec![grasping, mk_tenant_of("zeta", "k3")]);
    assert_eq!(rejections(&config, &mut runtimes, fourth), []);
    assert_eq!(tenant_of(&config, "k1").as_deref(), Some("acme"));
    assert_eq!(tenant_of(&config, "k3").as_deref(), Some("zeta"));
}

/// The last good form that comes back has keys of its own, which somebody else may have got.
#[test]
fn a_conflict_may_bring_the_next_one() {
    let (config, mut runtimes) = (Config::default(), Runtimes::default());
    let (zeta, mid) = (mk_tenant_of("zeta", "k1"), mk_tenant_of("mid", "k2"));
    config
        .apply(mk_of(1, vec![], vec![mid, zeta.clone()]), &mut runtimes)
        .unwrap();
    let tenants = vec![mk_tenant_of("acme", "k2"), mk_tenant_of("mid", "k1"), zeta];
    let rejected = rejections(&config, &mut runtimes, mk_of(2, vec![], tenants));
    let names: Vec<&str> = rejected.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["mid-policy", "acme-policy"]);
    assert_eq!(tenant_of(&config, "k1").as_deref(), Some("zeta"));
    assert_eq!(tenant_of(&config, "k2").as_deref(), Some("mid"));
}

#[test]
fn one_tenant_only_is_that_of_unattributed_callers() {
    let (config, mut runtimes) = (Config::default(), Runtimes::default());
    let open = |name: &str| Tenant {
        subjects: mk_tenant(SubjectKind::Anonymous).subjects,
        ..mk_tenant_of(name, "unused")
    };
    config
        .apply(mk_of(1, vec![], vec![open("zeta")]), &mut runtimes)
        .unwrap();
    let both = mk_of(2, vec![], vec![open("acme"), open("zeta")]);
    assert_eq!(rejections(&config, &mut runtimes, both)[0].0, "acme-policy");
    assert_eq!(config.load().unwrap().anonymous_tenant(), Some("zeta"));
}

#[test]
fn so_many_pairs_have_a_label_of_their_own() {
    let tenant = |name: &str, grants: usize| {
        let mut tenant = mk_tenant_of(name, name);
        let grant = tenant.grants[0].clone();
        tenant.grants = (0..grants)
            .map(|n| Grant {
                upstream_name: format!("u{n}"),
                ..grant.clone()
            })
            .collect();
        tenant
    };
    let (config, mut runtimes) = (Config::default(), Runtimes::default());
    let labels = |config: &Config, name: &str| {
        let caller = config.load().unwrap().caller_of_key(name.as_bytes());
        let grants = caller.unwrap().tenant.grants.clone();
        let labels = grants.into_iter().map(|grant| grant.label.clone());
        labels.collect::<Vec<_>>()
    };
    let many = vec![tenant("acme", 4999), tenant("beta", 2), tenant("zeta", 1)];
    config.apply(mk_of(1, vec![], many), &mut runtimes).unwrap();
    assert_eq!(labels(&config, "acme")[4998], "tools/u4998");
    assert_eq!(labels(&config, "beta"), ["tools/u0", "other"]);
    assert_eq!(labels(&config, "zeta"), ["other"]);
    let active = config.load().unwrap();
    assert_eq!(active.upstream_label("beta", "tools/u0"), "tools/u0");
    assert_eq!(active.upstream_label("beta", "tools/u1"), "other");
    assert_eq!(active.upstream_label("nobody", "tools/u0"), "other");
    // Room that was made is used by objects that did not change.
    let fewer = vec![tenant("acme", 1), tenant("beta", 2), tenant("zeta", 1)];
    config
        .apply(mk_of(2, vec![], fewer), &mut runtimes)
        .unwrap();
    assert_eq!(labels(&config, "beta"), ["tools/u0", "tools/u1"]);
    assert_eq!(labels(&config, "zeta"), ["tools/u0"]);
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
