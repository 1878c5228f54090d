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

/// The library prints the cause in the error itself, and gives it as its source too.
#[test]
fn a_cause_that_the_error_prints_is_not_repeated() {
    let lost = kube::Error::Service("connection refused".into());
    let error = watcher::Error::WatchStartFailed(lost);
    let said = words(ObjectKind::Secret, &error);
    assert_eq!(said.matches("connection refused").count(), 1, "{said}");
}

#[test]
fn what_was_read_is_no_trouble_any_more() {
    let troubles = Troubles::default();
    assert_eq!(troubles.lines(), "");
    troubles.set(ObjectKind::Secret, 0, "first".to_owned());
    troubles.set(ObjectKind::Secret, 0, "second".to_owned());
    troubles.set(ObjectKind::McpUpstream, 0, "third".to_owned());
    assert_eq!(troubles.lines(), "McpUpstream: third\nSecret: second\n");
    troubles.clear(ObjectKind::Secret, 0);
    assert_eq!(troubles.lines(), "McpUpstream: third\n");
}

/// One namespace that can be read says nothing of another that cannot.
#[test]
fn each_watch_of_a_kind_has_its_own_trouble() {
    let troubles = Troubles::default();
    troubles.set(ObjectKind::Secret, 0, "first".to_owned());
    troubles.set(ObjectKind::Secret, 1, "second".to_owned());
    troubles.clear(ObjectKind::Secret, 0);
    assert_eq!(troubles.lines(), "Secret: second\n");
}
