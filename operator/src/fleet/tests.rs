//! Who counts, and since when no more.

use super::*;

fn mk_pod(name: &str) -> Pod {
    Pod {
        namespace: "hangar".into(),
        name: name.into(),
        uid: format!("uid-{name}"),
    }
}

#[test]
fn a_lost_connection_unsubscribes_at_once() {
    let fleet = Fleet::new();
    let changes = fleet.changes();
    let (waiting, _) = fleet.subscribe(&mk_pod("a"), Acknowledgement::default());
    assert_eq!(fleet.view().pods.len(), 1);
    let seen = *changes.borrow();
    drop(waiting);
    assert!(fleet.view().pods.is_empty());
    assert_ne!(*changes.borrow(), seen);
}

#[test]
fn an_answered_pod_counts_until_its_grace_ends() {
    let fleet = Fleet::new();
    let (waiting, _) = fleet.subscribe(&mk_pod("a"), Acknowledgement::default());
    waiting.answered();
    let now = Instant::now();
    fleet.expire(now);
    assert_eq!(fleet.view().pods.len(), 1);
    fleet.expire(now + GRACE + Duration::from_millis(1));
    assert!(fleet.view().pods.is_empty());
}

#[test]
fn an_older_subscription_cannot_end_a_newer_one() {
    let fleet = Fleet::new();
    let (old, _) = fleet.subscribe(&mk_pod("a"), Acknowledgement::default());
    let (_new, _) = fleet.subscribe(&mk_pod("a"), Acknowledgement::default());
    drop(old);
    assert_eq!(fleet.view().pods.len(), 1);
}

#[test]
fn ready_pods_count_without_a_subscription_and_deleted_ones_never() {
    let fleet = Fleet::new();
    let (_waiting, _) = fleet.subscribe(&mk_pod("a"), Acknowledgement::default());
    fleet.list(
        [
            (mk_pod("b"), Readiness::Ready),
            (mk_pod("c"), Readiness::NotReady),
        ]
        .into(),
    );
    let names: Vec<String> = fleet.view().pods.into_keys().map(|pod| pod.name).collect();
    assert_eq!(names, ["a", "b"]);
    assert!(fleet.lists(&mk_pod("c")));
    fleet.remove(&mk_pod("a"));
    fleet.remove(&mk_pod("b"));
    assert!(fleet.view().pods.is_empty());
}
