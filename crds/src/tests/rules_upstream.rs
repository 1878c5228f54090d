//! The rules of McpUpstream.

use super::*;

const DURATION: &str = "use a duration longer than zero, as 30s, 15m or 1h30m";
const SIZE: &str = "use a size above zero, as 512Ki, 16Mi or 1Gi";

#[test]
fn minimal_and_full_objects_are_admitted() {
    admits(&mk_upstream());
    admits(&mk_full_upstream());
    for section in ["tls", "tools", "tasks", "limits", "tools/pinning"] {
        admits(&mk_upstream().with(section, json!({})));
    }
}

#[test]
fn endpoint_is_one_of_two() {
    let said = "spec.endpoint: exactly one of url and service must be set";
    let service = json!({"name": "mcp", "port": 1});
    admits(&mk_upstream().with("endpoint", json!({"service": service})));
    breaks(&mk_upstream().with("endpoint/service", service), said);
    breaks(&mk_upstream().with("endpoint", json!({})), said);
}

#[test]
fn credential_has_the_member_of_its_type() {
    let said = "spec.credential: exactly the member of the type must be set: bearer for Bearer, header for Header, oauth for OAuth";
    let secret = json!({"secretRef": {"name": "token", "key": "token"}});
    let header = json!({"name": "X-Api-Key", "secretRef": {"name": "token", "key": "token"}});
    let oauth = json!({
        "tokenUrl": "https://issuer.example.com", "clientId": "x", "secretRef": {"name": "a", "key": "b"},
    });
    let credential = |value: Value| mk_upstream().with("credential", value);
    for good in [
        json!({"type": "Bearer", "bearer": secret}),
        json!({"type": "Header", "header": header}),
        json!({"type": "OAuth", "oauth": oauth}),
    ] {
        admits(&credential(good));
    }
    for bad in [
        json!({"type": "Bearer"}),
        json!({"type": "Header"}),
        json!({"type": "OAuth"}),
        json!({"type": "Header", "bearer": secret}),
        json!({"type": "Bearer", "header": header}),
        json!({"type": "Bearer", "oauth": oauth}),
        json!({"type": "Bearer", "bearer": secret, "header": header}),
        json!({"type": "OAuth", "oauth": oauth, "bearer": secret}),
    ] {
        breaks(&credential(bad), said);
    }
}

#[test]
fn a_selector_of_namespaces_goes_with_its_mode() {
    let said = "spec.allowedPolicies.namespaces: selector must be set with from: Selector, and only with it";
    let namespaces = |value: Value| mk_upstream().with("allowedPolicies/namespaces", value);
    let selector = json!({"matchLabels": {"team": "blue"}});
    admits(&namespaces(json!({"from": "Same"})));
    admits(&namespaces(json!({"from": "All"})));
    admits(&namespaces(
        json!({"from": "Selector", "selector": selector}),
    ));
    breaks(&namespaces(json!({"from": "Selector"})), said);
    breaks(
        &namespaces(json!({"from": "Same", "selector": selector})),
        said,
    );
    breaks(
        &namespaces(json!({"from": "All", "selector": selector})),
        said,
    );
}

#[test]
fn label_keys_are_bounded() {
    let labelled = |length: usize| {
        let labels = json!({"matchLabels": {"k".repeat(length): "v"}});
        let namespaces = json!({"from": "Selector", "selector": labels});
        mk_upstream().with("allowedPolicies/namespaces", namespaces)
    };
    admits(&labelled(317));
    breaks(
        &labelled(318),
        "spec.allowedPolicies.namespaces.selector.matchLabels: a label key has at most 317 characters",
    );
}

#[test]
fn new_tools_go_with_first_use() {
    let said = "spec.tools.pinning: newTools has a meaning with mode: FirstUse only";
    let pinning = |value: Value| mk_upstream().with("tools/pinning", value);
    admits(&pinning(json!({"mode": "FirstUse", "newTools": "Serve"})));
    // Without a mode it is FirstUse.
    admits(&pinning(json!({"newTools": "Withhold"})));
    admits(&pinning(json!({"mode": "Explicit"})));
    admits(&pinning(json!({"mode": "Disabled"})));
    breaks(
        &pinning(json!({"mode": "Explicit", "newTools": "Serve"})),
        said,
    );
    breaks(
        &pinning(json!({"mode": "Disabled", "newTools": "Withhold"})),
        said,
    );
}

#[test]
fn tool_names_of_pins_are_bounded() {
    let said = "spec.tools.pins: a tool name has 1 to 128 characters";
    let pinned = |tool: &str| {
        mk_upstream().with(
            "tools/pins",
            json!({"crawl": [digest('a')], tool: [digest('b')]}),
        )
    };
    admits(&pinned("t"));
    admits(&pinned(&"t".repeat(128)));
    breaks(&pinned(""), said);
    breaks(&pinned(&"t".repeat(129)), said);
}

#[test]
fn digests_have_one_form() {
    for bad in [
        digest('A'),
        digest('g'),
        digest('a')[..70].to_owned(),
        digest('a').replace("sha256", "sha512"),
    ] {
        breaks(
            &mk_upstream().with("tools/pins/crawl", json!([digest('a'), bad])),
            "spec.tools.pins.crawl[1]: a pin is sha256: and 64 lower-case hexadecimal digits",
        );
    }
}

#[test]
fn durations_are_in_gos_form() {
    for path in ["tools/maxAge", "tasks/retention", "limits/requestTimeout"] {
        for good in [
            "1ms",
            "30s",
            "15m",
            "1h30m",
            "24h",
            "604800s",
            "99999h",
            "1h1m1s1ms",
        ] {
            admits(&mk_upstream().with(path, good));
        }
        let said = format!("spec.{}: {DURATION}", path.replace('/', "."));
        for bad in [
            "",
            "0s",
            "0h0m",
            "30",
            "s",
            "1d",
            "1w",
            "-5s",
            "+5s",
            "1.5s",
            ".5s",
            "1 h",
            " 1h",
            "1us",
            "1ns",
            "soon",
            "999999h",
            "1h1h1h1h1h",
            "PT30S",
        ] {
            breaks(&mk_upstream().with(path, bad), &said);
        }
    }
}

#[test]
fn sizes_have_binary_suffixes() {
    let size = |text: &str| mk_upstream().with("limits/maxResponseBytes", text);
    for good in ["1", "999999999", "512Ki", "16Mi", "1Gi"] {
        admits(&size(good));
    }
    for bad in [
        "", "0", "0Mi", "016Mi", "16M", "16MB", "16mi", "1.5Gi", "-1", "1Ti", "much", "1Mi ",
    ] {
        breaks(&size(bad), &format!("spec.limits.maxResponseBytes: {SIZE}"));
    }
}

#[test]
fn the_class_never_changes() {
    let classes = [None, Some("hangar"), Some("blue"), Some("green")];
    let mk_of = |class: Option<&str>| match class {
        None => mk_upstream(),
        Some(class) => mk_upstream().with("className", class),
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
fn everything_but_the_class_may_change() {
    let other = mk_full_upstream().with("className", "hangar");
    assert_eq!(broken_rules(&other, Some(&mk_upstream())), [""; 0]);
    assert_eq!(broken_rules(&mk_upstream(), Some(&other)), [""; 0]);
}
