//! Lists, relists and what falls between them.

use hangar_operator_core::SecretView;

use super::*;

fn mk_secret(namespace: &str, name: &str) -> Object {
    Object::Secret(SecretView {
        namespace: namespace.into(),
        name: name.into(),
        purpose: None,
        data: [].into(),
    })
}

fn mk_id(namespace: &str, name: &str) -> ObjectId {
    ObjectId::new(ObjectKind::Secret, namespace, name)
}

fn shown(changes: &[Change]) -> Vec<String> {
    let line = |change: &Change| match change {
        Change::Apply(object) => format!("apply {}", object.id()),
        Change::Delete(id) => format!("delete {id}"),
        Change::Reset { objects, .. } => {
            let ids: Vec<_> = objects.iter().map(|it| it.id().to_string()).collect();
            format!("reset {}", ids.join(" "))
        }
    };
    changes.iter().map(line).collect()
}

#[test]
fn the_reset_waits_for_every_watch() {
    let mut relist = Relist::new(ObjectKind::Secret, 2);
    relist.begin(0);
    relist.collect(0, mk_secret("a", "one"));
    assert!(relist.finish(0).is_empty());
    assert!(relist.apply(0, mk_secret("a", "two")).is_empty());
    assert!(relist.delete(0, &mk_id("a", "one")).is_empty());
    relist.begin(1);
    relist.collect(1, mk_secret("b", "three"));
    let changes = relist.finish(1);
    assert_eq!(shown(&changes), ["reset Secret/a/two Secret/b/three"]);
}

#[test]
fn a_relist_finds_a_missed_delete_in_its_own_namespace_only() {
    let mut relist = Relist::new(ObjectKind::Secret, 2);
    for (scope, namespace) in [(0, "a"), (1, "b")] {
        relist.begin(scope);
        relist.collect(scope, mk_secret(namespace, "one"));
        relist.collect(scope, mk_secret(namespace, "two"));
        relist.finish(scope);
    }
    relist.begin(0);
    relist.collect(0, mk_secret("a", "broken-list"));
    relist.begin(0);
    relist.collect(0, mk_secret("a", "two"));
    let changes = relist.finish(0);
    assert_eq!(
        shown(&changes),
        ["delete Secret/a/one", "apply Secret/a/two"]
    );
}

#[test]
fn events_pass_after_the_reset() {
    let mut relist = Relist::new(ObjectKind::Secret, 1);
    relist.begin(0);
    assert_eq!(shown(&relist.finish(0)), ["reset "]);
    let changes = relist.apply(0, mk_secret("a", "one"));
    assert_eq!(shown(&changes), ["apply Secret/a/one"]);
    let changes = relist.delete(0, &mk_id("a", "one"));
    assert_eq!(shown(&changes), ["delete Secret/a/one"]);
}
