//! The rules of TenantPolicy.

use super::*;

const SAME_UPSTREAM: &str = "spec.upstreams: the same upstream stands here twice";
const SAME_PREFIX: &str = "spec.upstreams: two entries have the same prefix (an entry without one has its name): give each its own";

/// One entry with these tasks.
fn mk_tasks(tasks: Value) -> Draft {
    let mut entry = mk_entry("reports", "reports");
    entry["tasks"] = tasks;
    mk_policy().with("upstreams", json!([entry]))
}

#[test]
fn minimal_and_full_objects_are_admitted() {
    admits(&mk_policy());
    admits(&mk_full_policy());
    admits(&mk_policy().with("upstreams", json!([mk_entry("reports", "reports")])));
    admits(&mk_policy().with("limits", json!({})));
    admits(&mk_tasks(json!({})));
    admits(&mk_tasks(json!({"consent": {}})));
}

#[test]
fn a_subject_has_the_member_of_its_type() {
    let said = "spec.subjects[0]: exactly the member of the type must be set: jwt for JWT, serviceAccount for ServiceAccount, apiKeys for APIKeys, none for Anonymous";
    let members = [
        ("JWT", "jwt", mk_jwt()),
        (
            "ServiceAccount",
            "serviceAccount",
            json!({"namespace": "batch", "name": "nightly"}),
        ),
        (
            "APIKeys",
            "apiKeys",
            json!({"secretRef": {"name": "acme-keys"}}),
        ),
    ];
    let subject = |kind: &str, set: &[&(&str, &str, Value)]| {
        let mut subject = json!({"name": "only", "type": kind});
        for (_, name, value) in set {
            subject[*name] = value.clone();
        }
        mk_policy().with("subjects", json!([subject]))
    };
    admits(&subject("Anonymous", &[]));
    for own in &members {
        admits(&subject(own.0, &[own]));
        breaks(&subject(own.0, &[]), said);
        breaks(&subject("Anonymous", &[own]), said);
        for other in members.iter().filter(|other| other.0 != own.0) {
            breaks(&subject(own.0, &[other]), said);
            breaks(&subject(own.0, &[own, other]), said);
        }
    }
}

#[test]
fn a_jwt_subject_says_which_tokens_are_meant() {
    let said =
        "spec.subjects[0].jwt: exactly one of match and allSubjectsOfIssuer: true must be set";
    let matching = Some(json!([{"claim": "groups", "values": ["staff"]}]));
    let jwt = |matching: &Option<Value>, all: Option<bool>| {
        let mut jwt = mk_jwt();
        jwt.as_object_mut().unwrap().remove("match");
        if let Some(matching) = matching {
            jwt["match"] = matching.clone();
        }
        if let Some(all) = all {
            jwt["allSubjectsOfIssuer"] = all.into();
        }
        mk_policy().with(
            "subjects",
            json!([{"name": "staff", "type": "JWT", "jwt": jwt}]),
        )
    };
    admits(&jwt(&matching, None));
    admits(&jwt(&matching, Some(false)));
    admits(&jwt(&None, Some(true)));
    breaks(&jwt(&None, None), said);
    breaks(&jwt(&None, Some(false)), said);
    breaks(&jwt(&matching, Some(true)), said);
}

#[test]
fn anonymous_stands_once() {
    let anonymous = |name: &str| json!({"name": name, "type": "Anonymous"});
    admits(&mk_policy().with("subjects", json!([anonymous("open")])));
    breaks(
        &mk_policy().with("subjects", json!([anonymous("open"), anonymous("wide")])),
        "spec.subjects: Anonymous stands here twice",
    );
}

#[test]
fn an_entry_is_one_of_two() {
    let said = "spec.upstreams[0]: exactly one of upstreamRef and selector must be set";
    let entry = |value: Value| mk_policy().with("upstreams", json!([value]));
    let selector = json!({"matchLabels": {"team": "blue"}});
    admits(&entry(json!({"name": "a", "selector": selector})));
    breaks(&entry(json!({"name": "a"})), said);
    breaks(
        &entry(json!({"name": "a", "selector": selector, "upstreamRef": {"name": "a"}})),
        said,
    );
}

#[test]
fn an_upstream_stands_once() {
    let entry = |name: &str, upstream: &str, namespace: Option<&str>| {
        let mut entry = mk_entry(name, upstream);
        if let Some(namespace) = namespace {
            entry["upstreamRef"]["namespace"] = namespace.into();
        }
        entry
    };
    let both = |one: Value, other: Value| mk_policy().with("upstreams", json!([one, other]));
    let tools = Some("tools");
    admits(&both(
        entry("a", "reports", tools),
        entry("b", "mail", tools),
    ));
    admits(&both(
        entry("a", "reports", tools),
        entry("b", "reports", Some("other")),
    ));
    // Which namespace is meant without one is not known here: the operator compares again.
    admits(&both(
        entry("a", "reports", tools),
        entry("b", "reports", None),
    ));
    let selector = json!({"matchLabels": {"team": "blue"}});
    admits(&both(
        json!({"name": "a", "selector": selector}),
        json!({"name": "b", "selector": selector}),
    ));
    breaks(
        &both(entry("a", "reports", tools), entry("b", "reports", tools)),
        SAME_UPSTREAM,
    );
    breaks(
        &both(entry("a", "reports", None), entry("b", "reports", None)),
        SAME_UPSTREAM,
    );
}

#[test]
fn prefixes_differ() {
    let entry = |name: &str, upstream: &str, prefix: Option<&str>| {
        let mut entry = mk_entry(name, upstream);
        if let Some(prefix) = prefix {
            entry["prefix"] = prefix.into();
        }
        entry
    };
    let policy = |entries: [Value; 2]| mk_policy().with("upstreams", json!(entries));
    admits(&policy([
        entry("a", "reports", Some("x")),
        entry("b", "mail", Some("y")),
    ]));
    admits(&policy([
        entry("a", "reports", Some("")),
        entry("b", "mail", None),
    ]));
    // The names are free when both prefixes are given.
    admits(&policy([
        entry("a", "reports", Some("b")),
        entry("b", "mail", Some("a")),
    ]));
    for twice in [
        [
            entry("a", "reports", Some("x")),
            entry("b", "mail", Some("x")),
        ],
        [
            entry("a", "reports", Some("")),
            entry("b", "mail", Some("")),
        ],
        [entry("a", "reports", None), entry("b", "mail", Some("a"))],
    ] {
        breaks(&policy(twice), SAME_PREFIX);
    }
}

#[test]
fn principals_go_with_their_type() {
    let said = "spec.upstreams[0].tasks.consent.answeredBy: principals must be set with type: Principals, and only with it";
    let answered = |by: Value| mk_tasks(json!({"consent": {"answeredBy": by}}));
    let principals = json!(["key:alice"]);
    admits(&answered(json!({"type": "Owner"})));
    admits(&answered(json!({"type": "Tenant"})));
    admits(&answered(
        json!({"type": "Principals", "principals": principals}),
    ));
    breaks(&answered(json!({"type": "Principals"})), said);
    for other in ["Owner", "Tenant"] {
        breaks(
            &answered(json!({"type": other, "principals": principals})),
            said,
        );
    }
}

#[test]
fn consent_lasts_a_while() {
    let ttl = |text: &str| mk_tasks(json!({"consent": {"ttl": text}}));
    for good in ["1ms", "30s", "15m", "1h30m", "86400s"] {
        admits(&ttl(good));
    }
    for bad in ["", "0s", "15", "1d", "-15m", "1.5h"] {
        breaks(
            &ttl(bad),
            "spec.upstreams[0].tasks.consent.ttl: use a duration longer than zero, as 30s, 15m or 1h30m",
        );
    }
}

#[test]
fn label_keys_are_bounded() {
    let labelled = |length: usize| {
        let labels = json!({"matchLabels": {"k".repeat(length): "v"}});
        mk_policy().with("upstreams", json!([{"name": "a", "selector": labels}]))
    };
    admits(&labelled(317));
    breaks(
        &labelled(318),
        "spec.upstreams[0].selector.matchLabels: a label key has at most 317 characters",
    );
}

#[test]
fn the_tenant_never_changes() {
    let other = mk_policy().with("tenant", "other");
    assert_eq!(
        broken_rules(&other, Some(&mk_policy())),
        ["spec.tenant: tenant cannot be changed: make a new TenantPolicy for the other tenant"]
    );
    assert_eq!(broken_rules(&mk_policy(), Some(&mk_policy())), [""; 0]);
}

#[test]
fn the_class_never_changes() {
    let classes = [None, Some("hangar"), Some("blue"), Some("green")];
    let mk_of = |class: Option<&str>| match class {
        None => mk_policy(),
        Some(class) => mk_policy().with("className", class),
    };
    for old in classes {
        for new in classes {
            // Left out is the same as written out.
            let is_same = old.unwrap_or("hangar") == new.unwrap_or("hangar");
            let said = "spec: className cannot be changed: make a new object with the other class";
            let expected = if is_same { &[][..] } else { &[said] };
            let found = broken_rules(&mk_of(new), Some(&mk_of(old)));
            assert_eq!(found, expected, "{old:?} to {new:?}");
        }
    }
}

#[test]
fn everything_but_class_and_tenant_may_change() {
    let other = mk_full_policy().with("className", "hangar");
    assert_eq!(broken_rules(&other, Some(&mk_policy())), [""; 0]);
    assert_eq!(broken_rules(&mk_policy(), Some(&other)), [""; 0]);
}
