//! The checked-in CRDs on a real API server: installed without a warning, good manifests in, bad
//! ones refused in words that say what to do.

#![cfg(test)]

use std::fs;
use std::sync::OnceLock;

use hangar_tests::apiserver::{self, ApiServer};
use hangar_tests::manifests::{Manifest, mk_tenant, mk_upstream};
use serde_json::json;

const NAMESPACE: &str = "crds";

static INSTALLED: OnceLock<&'static ApiServer> = OnceLock::new();

/// The API server with both CRDs and a namespace.
fn installed() -> &'static ApiServer {
    INSTALLED.get_or_init(|| {
        let api = apiserver::shared().unwrap();
        api.install_crds().unwrap();
        api.make_namespace(NAMESPACE).unwrap();
        api
    })
}

fn digest(hex: char) -> String {
    format!("sha256:{}", hex.to_string().repeat(64))
}

fn url() -> Manifest {
    mk_upstream("probe", "https://reports.example.com/mcp")
}

fn tenant() -> Manifest {
    mk_tenant("probe").grants("reports")
}

fn submit(object: &Manifest, dry_run: bool) -> apiserver::Said {
    // Strict: a field that the schema does not know is an error, not a warning.
    let mut args = vec!["apply", "-n", NAMESPACE, "--validate=strict", "-f", "-"];
    if dry_run {
        args.push("--dry-run=server");
    }
    installed()
        .try_kubectl(&args, &object.value().to_string())
        .unwrap()
}

fn admits(case: &str, object: &Manifest) {
    let said = submit(object, true);
    assert!(said.success, "{case}: {}", said.stderr);
    assert!(!said.stderr.contains("Warning"), "{case}: {}", said.stderr);
}

/// Refused, and the answer names each of these.
fn refuses(case: &str, object: &Manifest, words: &[&str]) {
    let said = submit(object, true);
    assert!(!said.success, "{case} was admitted");
    for word in words {
        assert!(
            said.stderr.contains(word),
            "{case} does not say `{word}`: {}",
            said.stderr
        );
    }
}

#[test]
fn minimal_and_maximal_manifests_are_admitted() {
    admits("minimal upstream", &url());
    admits("maximal upstream", &maximal_upstream());
    admits("minimal policy", &mk_tenant("probe"));
    admits("maximal policy", &maximal_policy());
    let service = json!({"service": {"name": "mcp", "port": 8080}});
    admits("service", &url().set("/spec/endpoint", service));
    let both = json!([digest('a'), digest('b'), digest('c'), digest('d')]);
    admits("four pins", &url().set("/spec/tools/pins/crawl", both));
}

#[test]
fn the_quickstart_is_admitted() {
    let folder = hangar_tests::repository().join("examples/quickstart");
    for file in fs::read_dir(folder).unwrap() {
        let text = fs::read_to_string(file.unwrap().path()).unwrap();
        let args = [
            "apply",
            "-n",
            NAMESPACE,
            "--validate=strict",
            "--dry-run=server",
            "-f",
            "-",
        ];
        installed().kubectl(&args, &text).unwrap();
    }
}

#[test]
fn one_of_several_must_be_given_and_no_more() {
    let service = json!({"name": "mcp", "port": 8080});
    let two = url().set("/spec/endpoint/service", service);
    refuses("two endpoints", &two, &["url", "service", "exactly one"]);
    let none = url().set("/spec/endpoint", json!({}));
    refuses("no endpoint", &none, &["url", "service", "exactly one"]);
    refuses(
        "no spec.endpoint",
        &url().without("/spec/endpoint"),
        &["endpoint"],
    );

    let key = json!({"secretRef": {"name": "s", "key": "token"}});
    let wrong = url().set("/spec/credential", json!({"type": "Header", "bearer": key}));
    refuses(
        "credential of another type",
        &wrong,
        &["credential", "header"],
    );
    let anonymous =
        json!({"name": "a", "type": "Anonymous", "apiKeys": {"secretRef": {"name": "s"}}});
    let wrong = tenant().set("/spec/subjects/0", anonymous);
    refuses(
        "subject with a member of another type",
        &wrong,
        &["subjects", "apiKeys"],
    );
    let wrong = tenant().without("/spec/upstreams/0/upstreamRef");
    refuses(
        "neither upstreamRef nor selector",
        &wrong,
        &["upstreamRef", "selector"],
    );
    let wrong = tenant().set(
        "/spec/upstreams/0/selector",
        json!({"matchLabels": {"a": "b"}}),
    );
    refuses(
        "upstreamRef and selector",
        &wrong,
        &["upstreamRef", "selector"],
    );
}

#[test]
fn values_are_well_formed() {
    let pin = |digest: &str| url().set("/spec/tools/pins/crawl", json!([digest]));
    let limit = |name: &str, value: &str| url().set(&format!("/spec/limits/{name}"), json!(value));
    let prefix = tenant().set("/spec/upstreams/0/prefix", json!("a__b"));
    let glob = url().set("/spec/tools/deny", json!([""]));
    refuses(
        "short digest",
        &pin("sha256:abc"),
        &["pins", "64 lower-case hexadecimal digits"],
    );
    refuses("no hexadecimal digit", &pin(&digest('g')), &["pins"]);
    refuses("digest in capitals", &pin(&digest('A')), &["pins"]);
    for bad in ["30", "1d", "-5s", "soon"] {
        refuses(bad, &limit("requestTimeout", bad), &["requestTimeout"]);
    }
    refuses(
        "no size",
        &limit("maxResponseBytes", "much"),
        &["maxResponseBytes"],
    );
    refuses("empty glob", &glob, &["deny"]);
    refuses(
        "protocol",
        &url().set("/spec/protocol", json!("2024-01-01")),
        &["protocol"],
    );
    refuses(
        "admission",
        &url().set("/spec/admission", json!("Maybe")),
        &["admission"],
    );
    refuses("prefix with the separator", &prefix, &["prefix"]);
    refuses("no tenant", &tenant().without("/spec/tenant"), &["tenant"]);
    refuses(
        "unknown field",
        &url().set("/spec/limitz", json!({})),
        &["limitz"],
    );
}

#[test]
fn values_are_bounded() {
    for port in [0, 65_536] {
        let service = json!({"service": {"name": "x", "port": port}});
        refuses("port", &url().set("/spec/endpoint", service), &["port"]);
    }
    let pins: Vec<_> = ['a', 'b', 'c', 'd', 'e'].map(digest).into();
    for wrong in [&pins[..0], &pins[..]] {
        let object = url().set("/spec/tools/pins/crawl", json!(wrong));
        refuses("number of pins", &object, &["pins"]);
    }
    let tools: Vec<_> = (0..5000).map(|n| format!("tool{n}")).collect();
    refuses(
        "tools",
        &url().set("/spec/tools/allow", json!(tools)),
        &["allow", "at most"],
    );
    let grant = |n: u32| json!({"name": format!("u{n}"), "upstreamRef": {"name": format!("x{n}")}});
    let grants: Vec<_> = (0..5000).map(grant).collect();
    let object = tenant().set("/spec/upstreams", json!(grants));
    refuses("upstreams", &object, &["upstreams", "at most"]);
    let name = url().set(
        "/spec/endpoint/url",
        json!(format!("https://{}/mcp", "x".repeat(9000))),
    );
    refuses("url", &name, &["url"]);
}

#[test]
fn what_depends_on_each_other_is_checked_together() {
    let pinning = json!({"mode": "Disabled", "newTools": "Withhold"});
    let wrong = url().set("/spec/tools/pinning", pinning);
    refuses(
        "newTools without FirstUse",
        &wrong,
        &["newTools", "FirstUse"],
    );
    let twice = tenant()
        .grants("reports")
        .set("/spec/upstreams/1/name", json!("again"));
    refuses("the same upstream twice", &twice, &["upstream"]);
    let twice = tenant()
        .grants("mail")
        .set("/spec/upstreams/1/name", json!("reports"));
    refuses("one name twice", &twice, &["reports"]);
}

#[test]
fn class_and_tenant_never_change() {
    let api = installed();
    let upstream = url().set("/metadata/name", json!("classless"));
    assert!(submit(&upstream, false).success);
    // Left out is the same class as written out; any other is a change.
    let other = upstream.clone().set("/spec/className", json!("other"));
    refuses("another class", &other, &["className"]);

    let classy = url()
        .set("/metadata/name", json!("classy"))
        .set("/spec/className", json!("other"));
    assert!(submit(&classy, false).success);
    refuses(
        "class removed",
        &classy.clone().without("/spec/className"),
        &["className"],
    );
    let moved = classy
        .clone()
        .set("/spec/endpoint/url", json!("https://other.example.com/mcp"));
    admits("another url", &moved);

    let policy = tenant().set("/metadata/name", json!("renamed"));
    assert!(submit(&policy, false).success);
    refuses(
        "another tenant",
        &policy.clone().set("/spec/tenant", json!("other")),
        &["tenant"],
    );
    // By name: the other tests keep objects in this namespace.
    let made = ["mcpup/classless", "mcpup/classy", "tpol/renamed"];
    api.kubectl(&[&["delete", "-n", NAMESPACE][..], &made].concat(), "")
        .unwrap();
}

#[test]
fn kubectl_shows_both_kinds_and_their_state() {
    let api = installed();
    let namespace = "columns";
    api.make_namespace(namespace).unwrap();
    let objects = [
        mk_upstream("reports", "https://reports.example.com/mcp"),
        mk_tenant("acme"),
    ];
    for object in &objects {
        api.apply(namespace, &object.value().to_string()).unwrap();
    }
    let status = json!({"status": {
        "observedGeneration": 1,
        "era": "2026-07-28",
        "toolsTotal": 7,
        "gateways": {"ready": 3, "programmed": 2, "rejected": 0, "summary": "2/3"},
        "conditions": [{
            "type": "Ready", "status": "True", "reason": "Ready", "message": "",
            "lastTransitionTime": "2026-12-01T06:00:00Z", "observedGeneration": 1,
        }],
    }});
    let patch = [
        "patch",
        "mcpup",
        "reports",
        "-n",
        namespace,
        "--subresource=status",
        "--type=merge",
    ];
    api.kubectl(&[&patch[..], &["-p", &status.to_string()]].concat(), "")
        .unwrap();

    // By category: both kinds, which are printed as two tables.
    let listed = api.kubectl(&["get", "mcp", "-n", namespace], "").unwrap();
    assert!(
        listed.contains("mcpupstream.hangar.dev/reports"),
        "{listed}"
    );
    assert!(listed.contains("tenantpolicy.hangar.dev/acme"), "{listed}");

    let shown = api.kubectl(&["get", "mcpup", "-n", namespace], "").unwrap();
    let lines: Vec<Vec<_>> = shown
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(
        lines[0],
        ["NAME", "READY", "GATEWAYS", "TOOLS", "DRIFT", "AGE"]
    );
    assert_eq!(lines[1][..4], ["reports", "True", "2/3", "7"]);
    let wide = api
        .kubectl(&["get", "mcpup", "-n", namespace, "-o", "wide"], "")
        .unwrap();
    assert!(wide.contains("URL") && wide.contains("ERA"), "{wide}");
    assert!(wide.contains("https://reports.example.com/mcp") && wide.contains("2026-07-28"));

    let shown = api.kubectl(&["get", "tpol", "-n", namespace], "").unwrap();
    assert!(
        shown.contains("TENANT") && shown.contains("acme"),
        "{shown}"
    );
}

#[test]
fn status_is_a_subresource() {
    let api = installed();
    let object = url()
        .set("/metadata/name", json!("sneaky"))
        .set("/status/toolsTotal", json!(9));
    assert!(submit(&object, false).success);
    let stored = api.get(&["mcpup", "sneaky", "-n", NAMESPACE]).unwrap();
    assert!(stored["status"]["toolsTotal"].is_null(), "{stored}");
}

/// Every field of the design with a value that differs from its default.
fn maximal_upstream() -> Manifest {
    Manifest::new(json!({
        "apiVersion": "hangar.dev/v1alpha1",
        "kind": "McpUpstream",
        "metadata": {"name": "probe"},
        "spec": {
            "className": "other",
            "endpoint": {"service": {"name": "mcp", "port": 443, "path": "/mcp", "tls": true}},
            "protocol": "2026-07-28",
            "admission": "NoNewTasks",
            "tls": {
                "caRef": {"kind": "ConfigMap", "name": "ca", "key": "ca.crt"},
                "clientCertificateRef": {"name": "client"},
                "serverName": "mcp.example.com",
            },
            "credential": {
                "type": "OAuth",
                "oauth": {
                    "tokenUrl": "https://issuer.example.com/token",
                    "clientId": "hangar",
                    "secretRef": {"name": "oauth", "key": "secret"},
                    "scopes": ["mcp"],
                    "audience": "https://reports",
                    "caRef": {"kind": "Secret", "name": "ca", "key": "ca.crt"},
                },
            },
            "forwardIdentity": {"audience": "https://reports"},
            "allowedPolicies": {"namespaces": {
                "from": "Selector", "selector": {"matchLabels": {"team": "x"}},
            }},
            "tools": {
                "allow": ["report_*"],
                "deny": ["report_delete"],
                "pinning": {"mode": "FirstUse", "newTools": "Withhold"},
                "pins": {"crawl": [digest('a')]},
                "maxAge": "30s",
            },
            "tasks": {"relay": false, "retention": "1h30m"},
            "limits": {"requestTimeout": "10s", "maxResponseBytes": "1Mi", "maxConcurrent": 8},
            "requires": ["something-new"],
        },
    }))
}

fn maximal_policy() -> Manifest {
    let jwt = json!({
        "issuer": "https://issuer.example.com",
        "audiences": ["hangar"],
        "jwksUri": "https://issuer.example.com/keys",
        "caRef": {"kind": "ConfigMap", "name": "ca", "key": "ca.crt"},
        "principalClaim": "email",
        "match": [{"claim": "groups", "values": ["staff"]}],
    });
    Manifest::new(json!({
        "apiVersion": "hangar.dev/v1alpha1",
        "kind": "TenantPolicy",
        "metadata": {"name": "probe"},
        "spec": {
            "className": "other",
            "tenant": "acme",
            "admission": "Closed",
            "subjects": [
                {"name": "staff", "type": "JWT", "jwt": jwt},
                {"name": "jobs", "type": "ServiceAccount", "serviceAccount": {"namespace": "x", "name": "y"}},
                {"name": "keys", "type": "APIKeys", "apiKeys": {"secretRef": {"name": "keys"}}},
                {"name": "open", "type": "Anonymous"},
            ],
            "upstreams": [
                {
                    "name": "reports",
                    "upstreamRef": {"name": "reports", "namespace": "tools"},
                    "prefix": "r",
                    "tools": {"allow": ["*"], "deny": ["x"]},
                    "tasks": {
                        "visibility": "Tenant",
                        "consent": {
                            "methods": ["elicitation/create"],
                            "answeredBy": {"type": "Principals", "principals": ["key:alice"]},
                            "onDecline": "RelayAnswer",
                            "ttl": "5m",
                        },
                    },
                },
                {"name": "rest", "selector": {"matchLabels": {"team": "x"}}},
            ],
            "limits": {"liveTasks": 10, "requestsPerSecond": 5, "burst": 7},
            "mode": "Audit",
        },
    }))
}
