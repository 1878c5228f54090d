//! Policies beside each other: references, names, keys, callers without a credential.

use hangar_wire::{ApiKeyHash, SubjectKind};
use serde_json::json;

use super::*;
use crate::Currency;

const ALICE: &str = "alice-key-of-16b";
const BOB: &str = "bob-key-of-16-by";

fn mk_shared(name: &str) -> Object {
    mk_upstream(name)
        .at(
            "/spec/allowedPolicies",
            json!({"namespaces": {"from": "All"}}),
        )
        .object()
}

fn mk_keyed(name: &str, secret: &str) -> Mk {
    mk_policy(name).at("/spec/subjects", json!([mk_key_subject(secret)]))
}

fn mk_open(name: &str) -> Mk {
    mk_policy(name).at(
        "/spec/subjects",
        json!([{"name": "open", "type": "Anonymous"}]),
    )
}

/// Hashes of all keys of a tenant.
fn keys(compiled: &Compiled, name: &str) -> Vec<ApiKeyHash> {
    let of = |kind: &SubjectKind| match kind {
        SubjectKind::ApiKeys { principals } => principals.values().flatten().copied().collect(),
        SubjectKind::Anonymous => Vec::new(),
    };
    let subjects = &compiled.tenant(name).subjects;
    subjects.iter().flat_map(|it| of(&it.kind)).collect()
}

#[test]
fn a_reference_that_leads_nowhere_says_which_way() {
    let private = mk_upstream("private").object();
    let broken = mk_upstream("broken")
        .at("/spec/endpoint", json!({}))
        .object();
    for (name, reason, words) in [
        ("absent", Reason::RefNotFound, "no McpUpstream tools/absent"),
        ("private", Reason::RefNotPermitted, "spec.allowedPolicies"),
        ("broken", Reason::UpstreamNotAccepted, "tools/broken"),
    ] {
        let compiled = mk_compiled([
            mk_shared("reports"),
            private.clone(),
            broken.clone(),
            mk_policy("acme")
                .at(
                    "/spec/upstreams",
                    json!([mk_grant("reports"), mk_grant(name)]),
                )
                .object(),
        ]);
        let verdict = compiled.verdict(&policy_key("acme"));
        assert!(verdict.accepted.is_true());
        assert_refused(
            &verdict.resolved_refs,
            reason,
            &["spec.upstreams[1].upstreamRef: ", words],
        );
        assert_eq!(
            (verdict.upstreams.resolved, verdict.upstreams.named),
            (1, 2)
        );
        let grants: Vec<&str> = compiled
            .tenant("acme")
            .grants
            .iter()
            .map(|it| it.name.as_str())
            .collect();
        assert_eq!(grants, ["reports"], "what resolves stays in force");
    }
}

#[test]
fn many_unresolved_references_fit_one_message() {
    let grants: Vec<Value> = (0..9)
        .map(|index| mk_grant(&format!("absent-{index}")))
        .collect();
    let compiled = mk_compiled([mk_policy("acme")
        .at("/spec/upstreams", json!(grants))
        .object()]);
    assert_refused(
        &compiled.verdict(&policy_key("acme")).resolved_refs,
        Reason::RefNotFound,
        &["absent-0", "absent-4", "and 4 more"],
    );
}

#[test]
fn an_upstream_in_force_by_its_last_good_form_stays_reachable() {
    let mut world = mk_world();
    world.apply(Change::Apply(mk_shared("reports")));
    world.apply(
        mk_policy("acme")
            .at("/spec/upstreams", json!([mk_grant("reports")]))
            .apply(),
    );
    world.compile();
    world.apply(
        mk_upstream("reports")
            .generation(2)
            .at("/spec/endpoint", json!({}))
            .apply(),
    );
    let compiled = world.compile();
    assert!(
        !compiled
            .verdict(&upstream_key("reports"))
            .accepted
            .is_true()
    );
    assert!(
        compiled
            .verdict(&policy_key("acme"))
            .resolved_refs
            .is_true()
    );
    assert_eq!(compiled.tenant("acme").grants.len(), 1);

    world.apply(mk_upstream("reports").delete());
    let compiled = world.compile();
    assert_refused(
        &compiled.verdict(&policy_key("acme")).resolved_refs,
        Reason::RefNotFound,
        &[],
    );
    assert!(compiled.tenant("acme").grants.is_empty());
}

#[test]
fn a_subject_without_a_usable_secret_gives_nobody_and_the_others_go_on() {
    let unlabelled = SecretView {
        purpose: None,
        ..mk_keys("bad", &[("bob", BOB)])
    };
    for (secret, reason) in [
        (None, Reason::SecretNotFound),
        (Some(unlabelled), Reason::SecretNotLabelled),
        (
            Some(mk_keys("bad", &[("bob", "short"), ("carol", BOB)])),
            Reason::InvalidSecret,
        ),
        // Never from another namespace.
        (
            Some(SecretView {
                namespace: "tools".into(),
                ..mk_keys("bad", &[("bob", BOB)])
            }),
            Reason::SecretNotFound,
        ),
    ] {
        let policy = mk_policy("acme").at(
            "/spec/subjects",
            json!([mk_key_subject("bad"), mk_key_subject("good")]),
        );
        let mut objects = vec![
            policy.object(),
            Object::Secret(mk_keys("good", &[("alice", ALICE)])),
        ];
        objects.extend(secret.map(Object::Secret));
        let compiled = mk_compiled(objects);
        let verdict = compiled.verdict(&policy_key("acme"));
        assert!(verdict.accepted.is_true());
        assert_refused(
            &verdict.resolved_refs,
            reason,
            &["spec.subjects[0].apiKeys.secretRef: "],
        );
        assert!(!verdict.resolved_refs.message.contains("short"));
        assert_eq!(keys(&compiled, "acme"), [ApiKeyHash::of(ALICE.as_bytes())]);
    }
}

#[test]
fn a_rotated_or_withdrawn_key_counts_at_the_next_compile() {
    let mut world = mk_world();
    world.apply(Change::Apply(Object::Secret(mk_keys(
        "keys",
        &[("alice", ALICE)],
    ))));
    world.apply(mk_keyed("acme", "keys").apply());
    let first = world.compile();
    world.apply(Change::Apply(Object::Secret(mk_keys(
        "keys",
        &[("alice", BOB)],
    ))));
    let second = world.compile();
    assert_eq!(keys(&second, "acme"), [ApiKeyHash::of(BOB.as_bytes())]);
    let digest = |compiled: &Compiled| {
        compiled
            .verdict(&policy_key("acme"))
            .in_force
            .unwrap()
            .digest
    };
    assert_ne!(digest(&first), digest(&second));
    assert_eq!(digest(&second), second.tenants[0].digest().unwrap());
    world.apply(Change::Delete(secret_id("keys")));
    let third = world.compile();
    assert!(third.tenant("acme").subjects.is_empty());
    assert_refused(
        &third.verdict(&policy_key("acme")).resolved_refs,
        Reason::SecretNotFound,
        &[],
    );
}

#[test]
fn a_withdrawn_key_leaves_a_last_good_policy_too() {
    let mut world = mk_world();
    world.apply(Change::Apply(Object::Secret(mk_keys(
        "keys",
        &[("alice", ALICE), ("bob", BOB)],
    ))));
    world.apply(mk_keyed("acme", "keys").apply());
    world.compile();
    world.apply(
        mk_keyed("acme", "keys")
            .generation(2)
            .at("/spec/mode", json!("Audit"))
            .apply(),
    );
    world.apply(Change::Apply(Object::Secret(mk_keys(
        "keys",
        &[("bob", BOB)],
    ))));
    let compiled = world.compile();
    let verdict = compiled.verdict(&policy_key("acme"));
    assert_refused(
        &verdict.accepted,
        Reason::NotYetSupported,
        &["generation 1 stays in force"],
    );
    assert_eq!(verdict.in_force.unwrap().currency, Currency::LastGood);
    assert_eq!(keys(&compiled, "acme"), [ApiKeyHash::of(BOB.as_bytes())]);
}

#[test]
fn the_older_policy_has_the_name() {
    let named = |name: &str, second| {
        mk_policy(name)
            .created(second)
            .at("/spec/tenant", json!("acme"))
    };
    let compiled = mk_compiled([named("a-late", 9).object(), named("z-early", 1).object()]);
    assert_eq!(compiled.tenant_names(), ["z-early"]);
    let verdict = compiled.verdict(&policy_key("a-late"));
    assert_refused(
        &verdict.accepted,
        Reason::Conflicted,
        &["spec.tenant: `acme`", "hangar/z-early"],
    );
    assert_eq!(verdict.in_force, None);
    // In the same second, and in a folder, the name decides.
    let compiled = mk_compiled([named("b", 1).object(), named("a", 1).object()]);
    assert_eq!(compiled.tenant_names(), ["a"]);
    let timeless = |name: &str| mk_policy(name).at("/spec/tenant", json!("acme")).object();
    let compiled = mk_compiled([timeless("b"), timeless("a"), named("c", 50).object()]);
    assert_eq!(compiled.tenant_names(), ["c"], "a time is older than none");
}

#[test]
fn a_name_is_free_once_its_policy_is_gone() {
    let mut world = mk_world();
    let young = mk_policy("young")
        .created(2)
        .at("/spec/tenant", json!("acme"));
    world.apply(mk_policy("acme").created(1).apply());
    world.apply(young.apply());
    assert_eq!(world.compile().tenant_names(), ["acme"]);
    world.apply(mk_policy("acme").delete());
    assert_eq!(world.compile().tenant_names(), ["young"]);
}

#[test]
fn a_key_in_two_policies_refuses_the_younger_whole() {
    let compiled = mk_compiled([
        Object::Secret(mk_keys("old", &[("alice", ALICE)])),
        Object::Secret(mk_keys(
            "new",
            &[("bob", BOB), ("eve", &format!("{BOB}-2\n{ALICE}"))],
        )),
        mk_shared("reports"),
        mk_keyed("a-new", "new")
            .created(2)
            .at("/spec/upstreams", json!([mk_grant("reports")]))
            .object(),
        mk_keyed("z-old", "old").created(1).object(),
    ]);
    assert_eq!(compiled.tenant_names(), ["z-old"]);
    let verdict = compiled.verdict(&policy_key("a-new"));
    assert_refused(
        &verdict.accepted,
        Reason::SubjectConflict,
        &["subject `new`", "`eve`", "hangar/z-old"],
    );
    assert!(
        !verdict.accepted.message.contains(ALICE) && !verdict.accepted.message.contains("sha256")
    );
}

#[test]
fn a_refused_policy_claims_nothing() {
    // `mid` loses to `old` by name, so its key is free for `new`.
    let compiled = mk_compiled([
        Object::Secret(mk_keys("keys", &[("alice", ALICE)])),
        mk_policy("old").created(1).object(),
        mk_keyed("mid", "keys")
            .created(2)
            .at("/spec/tenant", json!("old"))
            .object(),
        mk_keyed("new", "keys").created(3).object(),
    ]);
    assert_eq!(compiled.tenant_names(), ["new", "old"]);
}

#[test]
fn one_policy_has_the_callers_without_a_credential() {
    let compiled = mk_compiled([
        mk_open("acme").created(2).object(),
        mk_open("globex").created(1).object(),
    ]);
    assert_eq!(compiled.tenant_names(), ["globex"]);
    assert_refused(
        &compiled.verdict(&policy_key("acme")).accepted,
        Reason::SubjectConflict,
        &["subject `open`", "hangar/globex"],
    );
}

#[test]
fn one_key_is_one_principal() {
    let policy = mk_policy("acme").at(
        "/spec/subjects",
        json!([mk_key_subject("one"), mk_key_subject("two")]),
    );
    let compiled = mk_compiled([
        Object::Secret(mk_keys("one", &[("alice", ALICE)])),
        Object::Secret(mk_keys("two", &[("bob", ALICE)])),
        policy.object(),
    ]);
    assert!(compiled.tenants.is_empty());
    assert_refused(
        &compiled.verdict(&policy_key("acme")).accepted,
        Reason::SubjectConflict,
        &["`bob`", "`alice`", "subject `one`"],
    );
    let compiled = mk_compiled([
        Object::Secret(mk_keys("one", &[("alice", ALICE), ("bob", ALICE)])),
        mk_keyed("acme", "one").object(),
    ]);
    assert_refused(
        &compiled.verdict(&policy_key("acme")).accepted,
        Reason::SubjectConflict,
        &[],
    );
}

#[test]
fn a_last_good_form_yields_to_an_older_policy() {
    let mut world = mk_world();
    world.apply(Change::Apply(Object::Secret(mk_keys(
        "keys",
        &[("alice", ALICE)],
    ))));
    world.apply(mk_policy("old").created(1).apply());
    world.apply(mk_keyed("young", "keys").created(2).apply());
    assert_eq!(world.compile().tenant_names(), ["old", "young"]);
    world.apply(
        mk_keyed("young", "keys")
            .created(2)
            .generation(2)
            .at("/spec/mode", json!("Audit"))
            .apply(),
    );
    assert_eq!(world.compile().tenant_names(), ["old", "young"]);
    world.apply(mk_keyed("old", "keys").created(1).generation(2).apply());
    let compiled = world.compile();
    assert_eq!(compiled.tenant_names(), ["old"]);
    let verdict = compiled.verdict(&policy_key("young"));
    assert_refused(
        &verdict.accepted,
        Reason::NotYetSupported,
        &["nothing of this object is in force"],
    );
    assert_eq!(verdict.in_force, None);
}

#[test]
fn a_conflicting_edit_keeps_the_earlier_form() {
    let mut world = mk_world();
    world.apply(Change::Apply(Object::Secret(mk_keys(
        "a",
        &[("alice", ALICE)],
    ))));
    world.apply(Change::Apply(Object::Secret(mk_keys("b", &[("bob", BOB)]))));
    world.apply(mk_keyed("old", "a").created(1).apply());
    world.apply(mk_keyed("young", "b").created(2).apply());
    world.compile();
    world.apply(mk_keyed("young", "a").created(2).generation(2).apply());
    let compiled = world.compile();
    assert_refused(
        &compiled.verdict(&policy_key("young")).accepted,
        Reason::SubjectConflict,
        &["hangar/old", "generation 1 stays in force"],
    );
    assert_eq!(keys(&compiled, "young"), [ApiKeyHash::of(BOB.as_bytes())]);
}
