//! Last good forms, deletion, reset, classes, order, size.

use hangar_wire::Term;
use serde_json::json;

use super::*;
use crate::{Currency, Undecodable};

const ALICE: &str = "alice-key-of-16b";

fn mk_undecodable(kind: ObjectKind, namespace: &str, name: &str, uid: Option<&str>) -> Undecodable {
    Undecodable {
        id: ObjectId::new(kind, namespace, name),
        uid: uid.map(str::to_owned),
        generation: Some(7),
        class: None,
        error: "spec.tools: invalid type: string, expected a map".into(),
    }
}

/// Everything that a world can hold, all of it good.
fn mk_everything() -> Vec<Object> {
    let policy = |name: &str, second| {
        mk_policy(name)
            .created(second)
            .at("/spec/subjects", json!([mk_key_subject(name)]))
            .at(
                "/spec/upstreams",
                json!([mk_grant("alerts"), mk_grant("reports")]),
            )
    };
    let shared = json!({"namespaces": {"from": "All"}});
    vec![
        mk_upstream("reports")
            .at("/spec/allowedPolicies", shared.clone())
            .object(),
        mk_upstream("alerts")
            .at("/spec/allowedPolicies", shared)
            .object(),
        mk_upstream("broken")
            .at("/spec/endpoint", json!({}))
            .object(),
        policy("acme", 1).object(),
        policy("globex", 2).object(),
        // Loses the tenant's name to the older acme.
        policy("thief", 3)
            .at("/spec/tenant", json!("acme"))
            .object(),
        Object::Secret(mk_keys("acme", &[("alice", ALICE)])),
        Object::Secret(mk_keys("globex", &[("bob", "bob-bob-bob-bob-")])),
        Object::Secret(mk_keys("thief", &[("eve", "eve-eve-eve-eve-")])),
        Object::Undecodable(mk_undecodable(
            ObjectKind::McpUpstream,
            "tools",
            "odd",
            Some("u-odd"),
        )),
    ]
}

#[test]
fn the_order_of_changes_does_not_matter() {
    let objects = mk_everything();
    let expected = mk_compiled(objects.clone());
    assert_eq!(expected.tenant_names(), ["acme", "globex"]);
    assert_eq!(expected.upstreams.len(), 2);
    assert_eq!(expected.verdicts.len(), 7);
    // A small generator; every object takes every place.
    let mut state = 0x9e37_79b9_u64;
    for round in 0..200 {
        let mut shuffled = objects.clone();
        for index in (1..shuffled.len()).rev() {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let other = usize::try_from(state >> 33).unwrap() % (index + 1);
            shuffled.swap(index, other);
        }
        let mut world = mk_world();
        for object in shuffled {
            world.apply(Change::Apply(object));
            if round % 2 == 1 {
                world.compile();
            }
        }
        assert_eq!(world.compile(), expected, "round {round}");
    }
}

#[test]
fn compiling_again_changes_nothing() {
    let mut world = mk_world();
    for object in mk_everything() {
        world.apply(Change::Apply(object));
    }
    assert_eq!(world.compile(), world.compile());
}

#[test]
fn objects_of_another_class_are_ignored_wholly() {
    let foreign = |mk: Mk| mk.at("/spec/className", json!("other"));
    let compiled = mk_compiled([
        foreign(mk_upstream("reports")).object(),
        foreign(mk_policy("acme")).object(),
    ]);
    assert!(compiled.verdicts.is_empty());
    assert!(compiled.upstreams.is_empty() && compiled.tenants.is_empty());

    let mut world = mk_world();
    world.apply(
        mk_upstream("reports")
            .at("/spec/className", json!("hangar"))
            .apply(),
    );
    assert_eq!(world.compile().verdicts.len(), 1);
    world.apply(foreign(mk_upstream("reports")).apply());
    assert!(world.compile().verdicts.is_empty());
    let mut undecodable = mk_undecodable(ObjectKind::McpUpstream, "tools", "reports", None);
    undecodable.class = Some("other".into());
    world.apply(Change::Apply(Object::Undecodable(undecodable)));
    assert!(world.compile().verdicts.is_empty());
}

#[test]
fn another_class_of_operator_ignores_what_names_none() {
    let mut world = World::new(Settings {
        class: "edge".into(),
        policy_namespaces: None,
        addresses: AddressRules::default(),
    });
    world.apply(mk_upstream("reports").apply());
    world.apply(
        mk_upstream("alerts")
            .at("/spec/className", json!("edge"))
            .apply(),
    );
    let compiled = world.compile();
    assert_eq!(
        compiled.verdicts.keys().collect::<Vec<_>>(),
        [&upstream_key("alerts")]
    );
}

#[test]
fn a_bad_edit_keeps_the_last_good_form_in_force() {
    let mut world = mk_world();
    world.apply(mk_upstream("reports").generation(3).apply());
    let before = world.compile();
    world.apply(
        mk_upstream("reports")
            .generation(4)
            .at("/spec/endpoint", json!({}))
            .apply(),
    );
    let after = world.compile();
    assert_eq!(after.upstreams, before.upstreams);
    let verdict = after.verdict(&upstream_key("reports"));
    assert_refused(
        &verdict.accepted,
        Reason::Invalid,
        &["spec.endpoint", "generation 3 stays in force"],
    );
    assert_eq!(verdict.resolved_refs.status, Truth::Unknown);
    assert_eq!(verdict.generation, 4);
    let in_force = verdict.in_force.unwrap();
    assert_eq!(
        (in_force.generation, in_force.currency),
        (3, Currency::LastGood)
    );
    assert_eq!(in_force.digest, before.upstreams[0].digest().unwrap());
    assert_eq!(verdict.current_digest(), None);

    world.apply(mk_upstream("reports").generation(5).apply());
    let verdict = world
        .compile()
        .verdicts
        .remove(&upstream_key("reports"))
        .unwrap();
    assert!(verdict.accepted.is_true());
    assert_eq!(verdict.in_force.unwrap().generation, 5);
}

#[test]
fn a_bad_object_without_a_past_is_not_in_force() {
    let compiled = mk_compiled([mk_upstream("reports")
        .at("/spec/endpoint", json!({}))
        .object()]);
    assert!(compiled.upstreams.is_empty());
    let verdict = compiled.verdict(&upstream_key("reports"));
    assert_refused(
        &verdict.accepted,
        Reason::Invalid,
        &["nothing of this object is in force"],
    );
    assert_eq!(verdict.in_force, None);
}

#[test]
fn a_deleted_object_goes_at_once_and_leaves_nothing_to_its_successor() {
    let mut world = mk_world();
    world.apply(mk_upstream("reports").apply());
    world.compile();
    world.apply(mk_upstream("reports").delete());
    let compiled = world.compile();
    assert!(compiled.upstreams.is_empty() && compiled.verdicts.is_empty());
    world.apply(
        mk_upstream("reports")
            .at("/spec/endpoint", json!({}))
            .apply(),
    );
    assert!(world.compile().upstreams.is_empty());

    // The deletion was missed: another uid under the same name.
    world.apply(mk_upstream("alerts").apply());
    world.compile();
    world.apply(
        mk_upstream("alerts")
            .uid("another")
            .at("/spec/endpoint", json!({}))
            .apply(),
    );
    assert!(world.compile().upstreams.is_empty());
}

#[test]
fn an_undecodable_object_keeps_its_last_good_form() {
    let mut world = mk_world();
    world.apply(mk_upstream("reports").generation(3).apply());
    world.apply(mk_policy("acme").generation(2).apply());
    let before = world.compile();
    for (kind, namespace, name) in [
        (ObjectKind::McpUpstream, "tools", "reports"),
        (ObjectKind::TenantPolicy, "hangar", "acme"),
    ] {
        let object = mk_undecodable(kind, namespace, name, None);
        world.apply(Change::Apply(Object::Undecodable(object)));
    }
    let after = world.compile();
    assert_eq!(after.upstreams, before.upstreams);
    assert_eq!(after.tenants, before.tenants);
    let verdict = after.verdict(&upstream_key("reports"));
    assert_refused(
        &verdict.accepted,
        Reason::Undecodable,
        &["spec.tools: invalid type", "generation 3 stays"],
    );
    assert_eq!((verdict.uid.as_str(), verdict.generation), ("u-reports", 7));
    assert_refused(
        &after.verdict(&policy_key("acme")).accepted,
        Reason::Undecodable,
        &["generation 2 stays"],
    );

    let object = mk_undecodable(ObjectKind::McpUpstream, "tools", "reports", Some("another"));
    world.apply(Change::Apply(Object::Undecodable(object)));
    let compiled = world.compile();
    assert!(compiled.upstreams.is_empty());
    assert_eq!(compiled.verdict(&upstream_key("reports")).uid, "another");
}

#[test]
fn a_reset_replaces_the_world_of_its_kind_only() {
    let mut world = mk_world();
    for name in ["reports", "alerts", "maps"] {
        world.apply(mk_upstream(name).apply());
    }
    world.apply(mk_policy("acme").apply());
    let before = world.compile();
    world.apply(Change::Reset {
        kind: ObjectKind::McpUpstream,
        objects: vec![
            mk_upstream("maps").object(),
            mk_upstream("reports")
                .generation(2)
                .at("/spec/endpoint", json!({}))
                .object(),
            Object::Undecodable(mk_undecodable(
                ObjectKind::McpUpstream,
                "tools",
                "alerts",
                Some("u-alerts"),
            )),
            // Not of the kind: not for this reset to say.
            mk_policy("globex").object(),
        ],
    });
    let after = world.compile();
    assert_eq!(
        after.upstreams, before.upstreams,
        "last good forms outlive a reset"
    );
    assert_eq!(after.tenants, before.tenants);
    world.apply(Change::Reset {
        kind: ObjectKind::McpUpstream,
        objects: vec![mk_upstream("maps").object()],
    });
    let names: Vec<String> = world
        .compile()
        .upstreams
        .into_iter()
        .map(|it| it.name)
        .collect();
    assert_eq!(names, ["maps"]);
}

#[test]
fn a_snapshot_of_the_compiled_world_verifies() {
    let compiled = mk_compiled(mk_everything());
    let snapshot = compiled.snapshot(Term::default()).unwrap();
    snapshot.verify().unwrap();
    for (key, digest) in snapshot.object_digests().unwrap() {
        assert_eq!(
            compiled.verdict(&key).in_force.unwrap().digest,
            digest,
            "{key}"
        );
    }
}

#[test]
fn ten_thousand_upstreams_and_a_thousand_tenants() {
    let mut world = mk_world();
    let shared = json!({"namespaces": {"from": "All"}});
    for index in 0..10_000 {
        world.apply(
            mk_upstream(&format!("u{index}"))
                .at("/spec/allowedPolicies", shared.clone())
                .apply(),
        );
    }
    for index in 0..1_000 {
        let name = format!("t{index}");
        let grants: Vec<Value> = (index * 10..index * 10 + 10)
            .map(|it| mk_grant(&format!("u{it}")))
            .collect();
        world.apply(Change::Apply(Object::Secret(mk_keys(
            &name,
            &[("alice", &format!("{ALICE}-{index}"))],
        ))));
        world.apply(
            mk_policy(&name)
                .at("/spec/subjects", json!([mk_key_subject(&name)]))
                .at("/spec/upstreams", json!(grants))
                .apply(),
        );
    }
    let first = world.compile();
    assert_eq!(
        (first.upstreams.len(), first.tenants.len()),
        (10_000, 1_000)
    );
    assert!(first.verdicts.values().all(|it| it.resolved_refs.is_true()));
    world.apply(mk_upstream("u5").generation(2).apply());
    let second = world.compile();
    assert_eq!(
        second
            .verdicts
            .values()
            .filter(|it| !it.resolved_refs.is_true())
            .count(),
        1
    );
}

#[test]
fn a_good_form_counts_before_any_compile_has_seen_it() {
    let mut world = mk_world();
    world.apply(mk_upstream("reports").apply());
    let bad = mk_undecodable(
        ObjectKind::McpUpstream,
        "tools",
        "reports",
        Some("u-reports"),
    );
    world.apply(Change::Apply(Object::Undecodable(bad)));
    let compiled = world.compile();
    assert_eq!(compiled.upstream("reports").name, "reports");
    let verdict = compiled.verdict(&upstream_key("reports"));
    let in_force = verdict.in_force.as_ref().unwrap();
    assert_eq!(in_force.currency, Currency::LastGood);
}
