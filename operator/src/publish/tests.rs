//! Numbering.

use hangar_wire::Sha256Hex;

use super::*;
use crate::epoch::folder::FolderEpoch;
use crate::state::StateDir;

async fn mk_publisher(dir: &tempfile::TempDir) -> Publisher {
    let epochs = FolderEpoch::new(StateDir::new(dir.path()));
    Publisher::start(Box::new(epochs), Graves::default())
        .await
        .unwrap()
}

async fn publish(publisher: &Publisher, tenants: Vec<Tenant>) -> Option<Arc<Published>> {
    let addresses = AddressRules::default();
    publisher.publish(addresses, vec![], tenants).await.unwrap()
}

fn mk_tenant(name: &str) -> Tenant {
    serde_json::from_value(serde_json::json!({
        "namespace": "default", "name": name, "uid": "u1", "generation": 1, "tenant": name,
        "admission": "Open", "subjects": [], "grants": [],
        "limits": {"liveTasks": 1, "requestsPerSecond": 2, "burst": 3},
    }))
    .unwrap()
}

fn term(epoch: u64, generation: u64) -> Term {
    Term {
        epoch: Epoch(epoch),
        generation: Generation(generation),
    }
}

#[tokio::test]
async fn the_generation_moves_only_with_the_digest() {
    let dir = tempfile::tempdir().unwrap();
    let publisher = mk_publisher(&dir).await;
    assert!(publisher.current().is_none());
    let first = publish(&publisher, vec![]).await.unwrap();
    assert_eq!(first.held.term, term(1, 1));
    assert!(publish(&publisher, vec![]).await.is_none());
    let tenants = vec![mk_tenant("acme")];
    let second = publish(&publisher, tenants).await.unwrap();
    assert_eq!(second.held.term, term(1, 2));
    assert_eq!(second.digests.len(), 1);
    let known = publisher.digests_of(first.held.digest).unwrap();
    assert_eq!(known, first.digests);
}

#[tokio::test]
async fn what_a_gateway_holds_is_outranked_and_content_kept() {
    let dir = tempfile::tempdir().unwrap();
    let publisher = mk_publisher(&dir).await;
    let tenants = vec![mk_tenant("acme")];
    let ours = publish(&publisher, tenants).await.unwrap();

    publisher.outrank(ours.held).await.unwrap();
    assert_eq!(publisher.current().unwrap().held, ours.held);

    let higher = Held {
        term: term(9, 4),
        digest: ours.held.digest,
    };
    publisher.outrank(higher).await.unwrap();
    let current = publisher.current().unwrap();
    assert_eq!(current.held.term, term(10, 1));
    let update: Update = hangar_wire::decode(&current.body).unwrap();
    let snapshot = update.snapshot.unwrap();
    snapshot.verify().unwrap();
    assert_eq!(snapshot.term, term(10, 1));
    assert_eq!(snapshot.tenants, [mk_tenant("acme")]);

    let same_term_other_content = Held {
        term: term(10, 1),
        digest: ConfigDigest(Sha256Hex::of(b"other")),
    };
    publisher.outrank(same_term_other_content).await.unwrap();
    assert_eq!(publisher.current().unwrap().held.term, term(11, 1));
    assert_eq!(
        mk_publisher(&dir).await.numbering.lock().await.term.epoch,
        Epoch(12)
    );
}

#[tokio::test]
async fn an_epoch_that_nothing_can_follow_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let publisher = mk_publisher(&dir).await;
    let ours = publish(&publisher, vec![]).await.unwrap();
    let last = Held {
        term: term(u64::MAX, 1),
        digest: ours.held.digest,
    };
    let error = publisher.outrank(last).await.unwrap_err();
    assert_eq!(error.reason(), "implausible");
    assert_eq!(publisher.current().unwrap().held, ours.held);
}

#[tokio::test]
async fn memory_of_old_configurations_is_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let publisher = mk_publisher(&dir).await;
    let first = publish(&publisher, vec![]).await.unwrap();
    for number in 0..RECENT {
        let tenants = vec![mk_tenant(&format!("t{number}"))];
        publish(&publisher, tenants).await.unwrap();
    }
    assert!(publisher.digests_of(first.held.digest).is_none());
    assert_eq!(publisher.recent.lock().unwrap().len(), RECENT);
}
