//! The structure of McpUpstream, and what holds of both kinds.

use super::*;
use crate::violations;

#[test]
fn types_are_checked() {
    let cases = [
        ("endpoint", json!("https://x"), "spec.endpoint", "object"),
        ("endpoint/url", json!(7), "spec.endpoint.url", "string"),
        ("tools/allow", json!("*"), "spec.tools.allow", "array"),
        ("tools/pins", json!([]), "spec.tools.pins", "object"),
        ("tasks/relay", json!("false"), "spec.tasks.relay", "boolean"),
        (
            "limits/maxConcurrent",
            json!("8"),
            "spec.limits.maxConcurrent",
            "integer",
        ),
        (
            "limits/maxConcurrent",
            json!(1.5),
            "spec.limits.maxConcurrent",
            "integer",
        ),
        (
            "limits/maxResponseBytes",
            json!(16_777_216),
            "spec.limits.maxResponseBytes",
            "string",
        ),
    ];
    for (path, value, place, wanted) in cases {
        let draft = mk_upstream().with(path, value);
        violates(&draft, place, &format!("must be of type {wanted}"));
    }
}

#[test]
fn required_members_are_missed_wherever_they_are() {
    let full = mk_full_upstream;
    for (parent, name) in [
        ("", "endpoint"),
        ("/endpoint/service", "name"),
        ("/endpoint/service", "port"),
        ("/tls/caRef", "kind"),
        ("/tls/caRef", "name"),
        ("/tls/caRef", "key"),
        ("/tls/clientCertificateRef", "name"),
        ("/credential", "type"),
        ("/credential/oauth", "tokenUrl"),
        ("/credential/oauth", "clientId"),
        ("/credential/oauth", "secretRef"),
        ("/credential/oauth/secretRef", "key"),
        ("/forwardIdentity", "audience"),
        ("/allowedPolicies", "namespaces"),
        ("/allowedPolicies/namespaces", "from"),
        ("/allowedPolicies/namespaces/selector", "matchLabels"),
    ] {
        let place = format!("spec{}.{name}", parent.replace('/', "."));
        violates(&full().without(parent, name), &place, "is missing");
        // An explicit null is no value.
        let path = format!("{parent}/{name}");
        let null = full().with(path.trim_start_matches('/'), Value::Null);
        violates(&null, &place, "is missing");
    }
}

#[test]
fn an_explicit_null_is_an_absent_member() {
    for path in [
        "className",
        "protocol",
        "admission",
        "tls",
        "credential",
        "forwardIdentity",
        "allowedPolicies",
        "tools",
        "tools/allow",
        "tools/deny",
        "tools/pinning",
        "tools/pinning/mode",
        "tools/pinning/newTools",
        "tools/pins",
        "tools/maxAge",
        "tasks",
        "tasks/relay",
        "limits",
        "limits/requestTimeout",
        "requires",
    ] {
        let draft = mk_upstream().with(path, Value::Null);
        assert_eq!(violations("McpUpstream", &draft.0), [], "{path}");
        let typed: crate::McpUpstream = serde_json::from_value(draft.0).unwrap();
        assert_eq!(typed.spec.class_name, None);
    }
    let entry = mk_upstream().with("tools/allow", json!([null]));
    violates(&entry, "spec.tools.allow[0]", "must be of type string");
    let entry = mk_upstream().with("tools/pins/crawl", Value::Null);
    violates(&entry, "spec.tools.pins.crawl", "must be of type array");
}

#[test]
fn words_are_of_a_closed_set() {
    for (path, place, allowed) in [
        ("protocol", "spec.protocol", "Auto, 2026-07-28, 2025-11-25"),
        ("admission", "spec.admission", "Open, NoNewTasks, Closed"),
        (
            "tools/pinning/mode",
            "spec.tools.pinning.mode",
            "FirstUse, Explicit, Disabled",
        ),
        (
            "tools/pinning/newTools",
            "spec.tools.pinning.newTools",
            "Serve, Withhold",
        ),
    ] {
        let said = format!("must be one of {allowed}");
        for word in ["", "open", "None"] {
            violates(&mk_upstream().with(path, word), place, &said);
        }
        for word in allowed.split(", ") {
            admits(&mk_upstream().with(path, word));
        }
    }
}

#[test]
fn counts_and_numbers_are_bounded_at_both_ends() {
    let many = |count: usize| json!((0..count).map(|n| format!("t{n}")).collect::<Vec<_>>());
    admits(&mk_upstream().with("tools/allow", many(256)));
    violates(
        &mk_upstream().with("tools/allow", many(257)),
        "spec.tools.allow",
        "has 257 entries, at most 256 are allowed",
    );
    let pins = |count: usize| json!(&['a', 'b', 'c', 'd', 'e'].map(digest)[..count]);
    for count in 1..=4 {
        admits(&mk_upstream().with("tools/pins/crawl", pins(count)));
    }
    violates(
        &mk_upstream().with("tools/pins/crawl", pins(0)),
        "spec.tools.pins.crawl",
        "has 0 entries, at least 1 are needed",
    );
    violates(
        &mk_upstream().with("tools/pins/crawl", pins(5)),
        "spec.tools.pins.crawl",
        "has 5 entries, at most 4 are allowed",
    );
    let tools: serde_json::Map<_, _> = (0..257).map(|n| (format!("t{n}"), pins(1))).collect();
    violates(
        &mk_upstream().with("tools/pins", tools),
        "spec.tools.pins",
        "has 257 entries, at most 256 are allowed",
    );
    let service = |port: i64| json!({"service": {"name": "mcp", "port": port}});
    admits(&mk_upstream().with("endpoint", service(65_535)));
    let place = "spec.endpoint.service.port";
    violates(
        &mk_upstream().with("endpoint", service(0)),
        place,
        "must be at least 1",
    );
    violates(
        &mk_upstream().with("endpoint", service(65_536)),
        place,
        "must be at most 65535",
    );
    // Characters count, not bytes.
    admits(&mk_upstream().with("tools/deny", json!(["ä".repeat(128)])));
    violates(
        &mk_upstream().with("tools/deny", json!(["ä".repeat(129)])),
        "spec.tools.deny[0]",
        "has 129 characters, at most 128 are allowed",
    );
    violates(
        &mk_upstream().with("tools/deny", json!([""])),
        "spec.tools.deny[0]",
        "has 0 characters, at least 1 are needed",
    );
}

#[test]
fn urls_have_one_form() {
    let pattern = r"must match ^https?://[^\s/?#@]+([/?][^\s#]*)?$";
    for good in [
        "http://127.0.0.1:8080/mcp",
        "https://a",
        "https://[::1]:8443/x?y=z@w",
    ] {
        admits(&mk_upstream().with("endpoint/url", good));
    }
    for bad in [
        "reports.example.com",
        "ftp://a",
        "HTTPS://a",
        "https://",
        "https:///mcp",
        "https://user:password@a/mcp",
        "https://a/mcp#top",
        "https://a b",
        " https://a",
    ] {
        let draft = mk_upstream().with("endpoint/url", bad);
        violates(&draft, "spec.endpoint.url", pattern);
    }
    // The client secret goes there: never in clear.
    violates(
        &mk_full_upstream().with("credential/oauth/tokenUrl", "http://issuer.example.com"),
        "spec.credential.oauth.tokenUrl",
        r"must match ^https://[^\s/?#@]+([/?][^\s#]*)?$",
    );
}

#[test]
fn other_patterns_are_checked() {
    let label = "must match ^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
    for bad in ["Blue", "-a", "a-", "a.b", "a_b"] {
        violates(
            &mk_upstream().with("className", bad),
            "spec.className",
            label,
        );
    }
    violates(
        &mk_full_upstream().with("endpoint/service/path", "mcp"),
        "spec.endpoint.service.path",
        "must match ^/",
    );
    let header = json!({"type": "Header", "header": {
        "name": "X Key", "secretRef": {"name": "a", "key": "b"},
    }});
    violates(
        &mk_upstream().with("credential", header),
        "spec.credential.header.name",
        "must match ^[A-Za-z0-9-]+$",
    );
}

#[test]
fn sets_hold_each_entry_once() {
    for (path, place) in [
        ("tools/allow", "spec.tools.allow[2]"),
        ("tools/deny", "spec.tools.deny[2]"),
        ("requires", "spec.requires[2]"),
    ] {
        let draft = mk_upstream().with(path, json!(["a", "b", "a"]));
        violates(&draft, place, "stands here twice");
    }
}

#[test]
fn unknown_members_are_named_with_their_path() {
    let said = "is no field here; look for a misspelling";
    for (path, place) in [
        ("limitz", "spec.limitz"),
        ("endpoint/uri", "spec.endpoint.uri"),
        ("tools/pinning/newTool", "spec.tools.pinning.newTool"),
        ("tasks/Relay", "spec.tasks.Relay"),
    ] {
        violates(&mk_upstream().with(path, "x"), place, said);
    }
    let mut draft = mk_upstream();
    draft.0["spce"] = json!({});
    violates(&draft, "spce", "is no field of this kind");
    // A status is dropped by an API server as well.
    let mut draft = mk_upstream();
    draft.0["status"] = json!({"anything": 1});
    admits(&draft);
}

#[test]
fn a_manifest_without_a_spec_or_of_another_kind_is_refused() {
    let mut draft = mk_upstream();
    draft.0.as_object_mut().unwrap().remove("spec");
    violates(&draft, "spec", "is missing");
    let mut draft = mk_upstream();
    draft.0["kind"] = "Secret".into();
    violates(
        &draft,
        "kind",
        "`Secret` is not McpUpstream or TenantPolicy",
    );
}

#[test]
fn all_that_is_wrong_is_listed() {
    let draft = mk_upstream()
        .with("endpoint/url", "x")
        .with("admission", "open")
        .with("more", 1);
    let found = violations("McpUpstream", &draft.0);
    let places: Vec<_> = found.iter().map(|one| &*one.path).collect();
    assert_eq!(places, ["spec.admission", "spec.endpoint.url", "spec.more"]);
}

#[test]
fn the_full_object_is_read_and_written_without_a_loss() {
    let draft = mk_full_upstream();
    let typed: crate::McpUpstream = serde_json::from_value(draft.0.clone()).unwrap();
    assert_eq!(serde_json::to_value(typed).unwrap(), draft.0);
}
