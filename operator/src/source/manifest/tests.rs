//! What one file amounts to.

use super::*;

const UPSTREAM: &str = "\
apiVersion: hangar.dev/v1alpha1
kind: McpUpstream
metadata: {name: reports}
spec:
  endpoint: {url: \"http://127.0.0.1:7411/mcp\"}
";

const SECRET: &str = "\
apiVersion: v1
kind: Secret
metadata:
  name: acme-keys
  namespace: tenants
  labels: {hangar.dev/use: api-keys}
data: {bob: Ym9iLWtleS1ib2Ita2V5}
stringData: {alice: alice-key-alice-key}
";

fn mk_manifest(text: &str) -> Manifest {
    read(Path::new("dir/file.yaml"), text)
}

fn shown(manifest: &Manifest) -> Vec<String> {
    manifest.problems.iter().map(Problem::to_string).collect()
}

#[test]
fn objects_get_the_default_namespace() {
    let manifest = mk_manifest(&format!("{UPSTREAM}---\n{SECRET}"));
    assert_eq!(shown(&manifest), [] as [&str; 0]);
    let ids: Vec<String> = manifest
        .entries
        .iter()
        .map(|it| it.id.to_string())
        .collect();
    assert_eq!(
        ids,
        ["McpUpstream/default/reports", "Secret/tenants/acme-keys"]
    );
    assert_eq!(manifest.entries[1].line, 6);
    assert_eq!(manifest.completeness, Completeness::Whole);
    let Form::Secret(secret) = &manifest.entries[1].form else {
        panic!("a Secret");
    };
    assert_eq!(secret.purpose.as_deref(), Some("api-keys"));
    assert_eq!(secret.data["bob"], SecretBytes::new("bob-key-bob-key"));
    assert_eq!(
        secret.data["alice"],
        SecretBytes::new("alice-key-alice-key")
    );
}

#[test]
fn a_list_is_its_items() {
    let items = UPSTREAM.replace('\n', "\n  ");
    let text = format!("apiVersion: v1\nkind: List\nitems:\n- {items}");
    let manifest = mk_manifest(&text);
    assert_eq!(shown(&manifest), [] as [&str; 0]);
    assert_eq!(manifest.entries.len(), 1);
    assert_eq!(manifest.entries[0].line, 4);
}

#[test]
fn what_an_api_server_refuses_is_refused_with_line_and_field() {
    let text = UPSTREAM.replace("spec:\n", "spec:\n  tols: {allow: []}\n");
    let manifest = mk_manifest(&text);
    let [problem] = manifest.problems.as_slice() else {
        panic!("one problem: {:?}", manifest.problems);
    };
    assert_eq!(problem.line, Some(5));
    assert_eq!(problem.field.as_deref(), Some("spec.tols"));
    assert_eq!(problem.reason, Reason::Refused);
    let Form::Refused { message, .. } = &manifest.entries[0].form else {
        panic!("refused");
    };
    assert!(message.contains("spec.tols"), "{message}");
    assert_eq!(manifest.completeness, Completeness::Whole);
}

#[test]
fn what_is_no_object_damages_the_file() {
    for (text, field) in [
        ("just text\n", None),
        ("metadata: {name: x}\n", Some("kind")),
        (&UPSTREAM.replace("v1alpha1", "v9"), Some("apiVersion")),
        (
            &UPSTREAM.replace("reports}", "Not_A_Name}"),
            Some("metadata.name"),
        ),
        (
            &UPSTREAM.replace("reports}", "a, namespace: 7}"),
            Some("metadata.namespace"),
        ),
    ] {
        let manifest = mk_manifest(text);
        assert_eq!(manifest.completeness, Completeness::Damaged, "{text}");
        assert!(manifest.entries.is_empty(), "{text}");
        assert_eq!(manifest.problems[0].field.as_deref(), field, "{text}");
        assert_eq!(manifest.problems[0].reason, Reason::NoObject, "{text}");
    }
}

#[test]
fn other_kinds_are_no_fault() {
    let manifest = mk_manifest("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x}\n");
    assert_eq!(manifest.completeness, Completeness::Whole);
    assert!(!manifest.problems[0].is_fault());
}

#[test]
fn a_bad_secret_is_named_by_key_and_never_by_value() {
    let text = SECRET
        .replace("Ym9iLWtleS1ib2Ita2V5", "not-base64-hush")
        .replace("alice-key-alice-key", "31337313373133731337");
    let manifest = mk_manifest(&text);
    let fields: Vec<_> = manifest
        .problems
        .iter()
        .map(|it| it.field.clone())
        .collect();
    assert_eq!(
        fields,
        [Some("data.bob".into()), Some("stringData.alice".into())]
    );
    assert!(matches!(manifest.entries[0].form, Form::Refused { .. }));
    let all = format!("{manifest:?}");
    assert!(!all.contains("hush") && !all.contains("31337"), "{all}");
}
