//! Debounce, and nothing before everything is loaded.

use hangar_operator_core::{Object, ObjectId, SecretView};
use hangar_wire::{AddressRules, Fate, Generation, Update};

use super::*;
use crate::epoch::folder::FolderEpoch;
use crate::graves::Graves;
use crate::publish::Published;
use crate::state::StateDir;

struct Rig {
    changes: mpsc::Sender<Change>,
    publisher: Arc<Publisher>,
    stop: CancellationToken,
    _dir: tempfile::TempDir,
}

async fn mk_rig() -> Rig {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::new(dir.path());
    let graves = Graves::load(state.clone(), &[]);
    let epochs = FolderEpoch::new(state);
    let publisher = Arc::new(Publisher::start(Box::new(epochs), graves).await.unwrap());
    let settings = Settings {
        class: "hangar".into(),
        policy_namespaces: None,
        addresses: AddressRules::default(),
    };
    let (verdicts, _) = watch::channel(Verdicts::default());
    let metrics = Metrics::new().unwrap();
    let control = Control::new(settings, Arc::clone(&publisher), verdicts, metrics);
    let (changes, receiver) = mpsc::channel(8);
    let stop = CancellationToken::new();
    tokio::spawn(control.run(receiver, stop.clone()));
    Rig {
        changes,
        publisher,
        stop,
        _dir: dir,
    }
}

fn mk_reset(kind: ObjectKind) -> Change {
    Change::Reset {
        kind,
        objects: vec![],
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_published_before_every_kind_is_loaded() {
    let rig = mk_rig().await;
    for kind in [ObjectKind::McpUpstream, ObjectKind::TenantPolicy] {
        rig.changes.send(mk_reset(kind)).await.unwrap();
    }
    let mut current = rig.publisher.subscribe();
    // Paused time: this ends only after every timer before it ran, the debounce included.
    let waited = tokio::time::timeout(DEBOUNCE_AT_MOST, current.changed()).await;
    assert!(waited.is_err());
    rig.changes
        .send(mk_reset(ObjectKind::Secret))
        .await
        .unwrap();
    let published = current.wait_for(Option::is_some).await.unwrap().clone();
    assert_eq!(published.unwrap().held.term.generation, Generation(1));
    rig.stop.cancel();
}

#[tokio::test(start_paused = true)]
async fn a_stream_of_changes_cannot_put_a_compile_off_for_ever() {
    let now = Instant::now();
    let mut due = Due::extend(None, now);
    assert_eq!(due.at, now + DEBOUNCE);
    for step in 1..100 {
        due = Due::extend(Some(due), now + Duration::from_millis(40) * step);
    }
    assert_eq!(due.at, now + DEBOUNCE_AT_MOST);
}

#[tokio::test(start_paused = true)]
async fn changes_without_effect_keep_the_generation() {
    let rig = mk_rig().await;
    for kind in [
        ObjectKind::McpUpstream,
        ObjectKind::TenantPolicy,
        ObjectKind::Secret,
    ] {
        rig.changes.send(mk_reset(kind)).await.unwrap();
    }
    let mut current = rig.publisher.subscribe();
    current.wait_for(Option::is_some).await.unwrap();
    let secret = SecretView {
        namespace: "default".into(),
        name: "unused".into(),
        purpose: None,
        data: [].into(),
    };
    let change = Change::Apply(Object::Secret(secret));
    rig.changes.send(change).await.unwrap();
    let waited = tokio::time::timeout(DEBOUNCE_AT_MOST, current.changed()).await;
    assert!(waited.is_err());
    rig.stop.cancel();
}

/// The only change is the one that takes it away.
#[tokio::test(start_paused = true)]
async fn an_upstream_that_stays_away_is_buried_without_another_change() {
    let rig = mk_rig().await;
    let upstream = serde_json::from_value(serde_json::json!({
        "apiVersion": "hangar.dev/v1alpha1", "kind": "McpUpstream",
        "metadata": {"namespace": "tools", "name": "reports", "uid": "u", "generation": 1},
        "spec": {"endpoint": {"url": "https://reports.example.com/mcp"}},
    }));
    let kind = ObjectKind::McpUpstream;
    let objects = vec![Object::Upstream(upstream.unwrap())];
    rig.changes
        .send(Change::Reset { kind, objects })
        .await
        .unwrap();
    for kind in [ObjectKind::TenantPolicy, ObjectKind::Secret] {
        rig.changes.send(mk_reset(kind)).await.unwrap();
    }
    let mut current = rig.publisher.subscribe();
    current.wait_for(Option::is_some).await.unwrap();
    let id = ObjectId::new(kind, "tools", "reports");
    rig.changes.send(Change::Delete(id)).await.unwrap();
    // Before the timed pass could have found it.
    let in_time = Instant::now() + FULL_PASS_EVERY / 2;
    let mut seen = Vec::new();
    for generation in [2, 3] {
        let is_there = |it: &Option<Arc<Published>>| {
            let it = it.as_ref();
            it.is_some_and(|it| it.held.term.generation == Generation(generation))
        };
        let published = tokio::time::timeout_at(in_time, current.wait_for(is_there)).await;
        let published = published.unwrap().unwrap().clone().unwrap();
        let update: Update = hangar_wire::decode(&published.body).unwrap();
        let snapshot = update.snapshot.unwrap();
        let fates: Vec<Fate> = snapshot.tombstones.iter().map(|it| it.fate).collect();
        seen.push((snapshot.upstreams.len(), fates));
    }
    // Refused at once, buried later.
    assert_eq!(seen, [(0, vec![]), (0, vec![Fate::Removed])]);
    rig.stop.cancel();
}
