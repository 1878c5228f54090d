//! The builders give what the names say.

use serde_json::json;

use super::{Manifest, mk_tenant, mk_upstream, to_yaml, write};

#[test]
fn sets_and_removes_by_pointer() {
    let upstream = mk_upstream("reports", "http://127.0.0.1:1/mcp")
        .namespace("tools")
        .set("/spec/tools/pins/crawl", json!(["sha256:x"]))
        .set("/metadata/labels/hangar.dev~1use", json!("credential"))
        .without("/spec/endpoint/url");
    assert_eq!(upstream.value()["metadata"]["namespace"], "tools");
    assert_eq!(
        upstream.value()["spec"]["tools"],
        json!({"pins": {"crawl": ["sha256:x"]}})
    );
    assert_eq!(
        upstream.value()["metadata"]["labels"],
        json!({"hangar.dev/use": "credential"})
    );
    assert_eq!(upstream.value()["spec"]["endpoint"], json!({}));
}

#[test]
fn grants_append() {
    let tenant = mk_tenant("acme")
        .grants("reports")
        .grants_with_consent("mail");
    let names: Vec<_> = tenant.value()["spec"]["upstreams"]
        .as_array()
        .unwrap()
        .iter()
        .map(|u| &u["name"])
        .collect();
    assert_eq!(names, ["reports", "mail"]);
}

#[test]
fn documents_are_separated_and_files_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let one = Manifest::new(json!({"kind": "A"}));
    let two = Manifest::new(json!({"kind": "B"}));
    assert_eq!(to_yaml(&[one.clone(), two]).matches("\n---\n").count(), 1);
    write(folder.path(), "a.yaml", std::slice::from_ref(&one)).unwrap();
    write(folder.path(), "a.yaml", &[one]).unwrap();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}
