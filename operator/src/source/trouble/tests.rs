//! A failure that a person can mend says how.

use super::*;

fn refused(code: u16, message: &str) -> watcher::Error {
    let status = Status::failure(message, "Refused").with_code(code);
    watcher::Error::InitialListFailed(kube::Error::Api(Box::new(status)))
}

#[test]
fn missing_crds_name_the_chart() {
    let said = words(ObjectKind::McpUpstream, &refused(404, "page not found"));
    assert!(said.contains("McpUpstream.hangar.dev"), "{said}");
    assert!(said.contains("hangar-crds"), "{said}");
}

#[test]
fn missing_rights_carry_the_answer_of_the_cluster() {
    let said = words(ObjectKind::Secret, &refused(403, "secrets is forbidden"));
    assert!(said.contains("secrets is forbidden"), "{said}");
}

#[test]
fn anything_else_is_said_once() {
    let said = words(ObjectKind::Secret, &refused(500, "etcd has no leader"));
    assert_eq!(said.matches("etcd has no leader").count(), 1, "{said}");
}

#[test]
fn what_was_read_is_no_trouble_any_more() {
    let troubles = Troubles::default();
    assert_eq!(troubles.lines(), "");
    troubles.set(ObjectKind::Secret, "first".to_owned());
    troubles.set(ObjectKind::Secret, "second".to_owned());
    troubles.set(ObjectKind::McpUpstream, "third".to_owned());
    assert_eq!(troubles.lines(), "McpUpstream: third\nSecret: second\n");
    troubles.clear(ObjectKind::Secret);
    assert_eq!(troubles.lines(), "McpUpstream: third\n");
}
