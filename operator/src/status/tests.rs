//! What is written, and in which order.

use hangar_operator_core::{Change, Object, ObjectKind, Settings, World};
use hangar_wire::{AddressRules, Kind};

use super::folder::{FILE, FolderWriter, load};
use super::*;
use crate::graves::Graves;
use crate::state::StateDir;

/// Verdicts on upstreams that cannot be decoded: enough to have something to report.
fn mk_verdicts(names: &[&str]) -> Verdicts {
    let mut world = World::new(Settings {
        class: "hangar".into(),
        policy_namespaces: None,
        addresses: AddressRules::default(),
    });
    for name in names {
        world.apply(Change::Apply(Object::Undecodable(
            hangar_operator_core::Undecodable {
                id: hangar_operator_core::ObjectId::new(ObjectKind::McpUpstream, "default", *name),
                uid: Some("uid".into()),
                generation: Some(3),
                class: None,
                error: "spec.tols: not known".into(),
            },
        )));
    }
    Arc::new(world.compile().verdicts)
}

/// One object that is accepted.
fn mk_accepted(name: &str) -> Verdicts {
    let mut world = World::new(Settings {
        class: "hangar".into(),
        policy_namespaces: None,
        addresses: AddressRules::default(),
    });
    let object = serde_json::json!({
        "apiVersion": "hangar.dev/v1alpha1", "kind": "McpUpstream",
        "metadata": {"namespace": "default", "name": name, "uid": "uid", "generation": 1},
        "spec": {"endpoint": {"url": "https://a.example.com/mcp"}},
    });
    let object = serde_json::from_value(object).unwrap();
    world.apply(Change::Apply(Object::Upstream(Box::new(object))));
    Arc::new(world.compile().verdicts)
}

fn mk_key(name: &str) -> ObjectKey {
    ObjectKey::new(Kind::McpUpstream, "default", name)
}

struct Rig {
    reporter: Reporter,
    dir: tempfile::TempDir,
}

async fn mk_rig() -> Rig {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::new(dir.path());
    let epochs = crate::epoch::folder::FolderEpoch::new(state.clone());
    let publisher = Publisher::start(Box::new(epochs), Graves::default())
        .await
        .unwrap();
    let addresses = AddressRules::default();
    publisher.publish(addresses, vec![], vec![]).await.unwrap();
    let metrics = Metrics::new().unwrap();
    let (_, verdicts) = watch::channel(Verdicts::default());
    let reporter = Reporter {
        verdicts,
        fleet: Fleet::new(),
        publisher: Arc::new(publisher),
        book: Arc::new(load(&state)),
        writer: Box::new(FolderWriter::new(state, metrics.clone())),
        metrics,
        since: OnceLock::new(),
    };
    Rig { reporter, dir }
}

fn written(reporter: &Reporter) -> u64 {
    let text = reporter.metrics.render().unwrap();
    let line = text.lines().find_map(|it| {
        it.strip_prefix("hangar_operator_status_writes_total{outcome=\"written\"} ")
    });
    line.map_or(0, |count| count.parse().unwrap())
}

#[tokio::test]
async fn a_status_is_written_once_and_again_only_on_change() {
    let rig = mk_rig().await;
    let verdicts = mk_verdicts(&["a"]);
    rig.reporter.pass(&verdicts).await;
    rig.reporter.pass(&verdicts).await;
    assert_eq!(written(&rig.reporter), 1);
    let text = std::fs::read_to_string(rig.dir.path().join(FILE)).unwrap();
    let found: serde_json::Value = serde_json::from_str(&text).unwrap();
    let status = &found["McpUpstream/default/a"];
    assert_eq!(status["observedGeneration"], 3);
    assert_eq!(status["conditions"][0]["reason"], "Undecodable");

    rig.reporter.pass(&mk_verdicts(&[])).await;
    assert_eq!(written(&rig.reporter), 2);
    let text = std::fs::read_to_string(rig.dir.path().join(FILE)).unwrap();
    assert_eq!(text, "{}\n");
}

#[tokio::test]
async fn a_file_that_cannot_be_written_is_tried_again() {
    let rig = mk_rig().await;
    let blocked = rig.dir.path().join(FILE);
    std::fs::create_dir(&blocked).unwrap();
    let verdicts = mk_verdicts(&["a"]);
    rig.reporter.pass(&verdicts).await;
    assert_eq!(written(&rig.reporter), 0);
    std::fs::remove_dir(&blocked).unwrap();
    rig.reporter.pass(&verdicts).await;
    assert_eq!(written(&rig.reporter), 1);
    assert!(blocked.is_file());
}

#[tokio::test]
async fn transition_times_go_on_over_a_restart() {
    let rig = mk_rig().await;
    let verdicts = mk_verdicts(&["a"]);
    rig.reporter.pass(&verdicts).await;
    let before = rig.reporter.book.get(&mk_key("a")).unwrap();
    let reloaded = load(&StateDir::new(rig.dir.path()));
    assert_eq!(
        reloaded.get(&mk_key("a")).unwrap().conditions(),
        before.conditions()
    );
    let later = Timestamp::now() + Duration::from_hours(1);
    let updates = rig
        .reporter
        .updates(&verdicts, &FleetView::default(), later);
    assert_eq!(updates, []);
}

#[tokio::test]
async fn conditions_go_before_counts_and_counts_are_few() {
    let rig = mk_rig().await;
    let names: Vec<String> = (0..20).map(|number| format!("n{number:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    rig.reporter.pass(&mk_verdicts(&names)).await;
    // A gateway more changes only counts of objects that are not accepted.
    let pod = hangar_wire::Pod {
        namespace: "hangar".into(),
        name: "gateway-0".into(),
        uid: "u".into(),
    };
    let fleet = FleetView {
        pods: [(pod, hangar_operator_core::PodView::default())].into(),
    };
    let with_one_more = mk_verdicts(&[&names[..], &["zz"]].concat());
    let updates = rig
        .reporter
        .updates(&with_one_more, &fleet, Timestamp::now());
    assert_eq!(updates.len(), 1 + COUNTS_AT_ONCE);
    assert_eq!(updates[0].key, mk_key("zz"));
    assert_eq!(updates[0].difference, Difference::Conditions);
    assert_eq!(updates[1].difference, Difference::Counts);
}

#[tokio::test]
async fn a_restart_does_not_unprogram_what_did_not_change() {
    let rig = mk_rig().await;
    let status = |verdicts: &Verdicts, fleet: &FleetView| {
        let (key, verdict) = verdicts.first_key_value().unwrap();
        status(key, verdict, fleet, &[], Timestamp::now())
    };
    let verdicts = mk_accepted("a");
    let mut known = FleetView::default();
    let (key, verdict) = verdicts.first_key_value().unwrap();
    let digest = verdict.current_digest().unwrap();
    let acknowledged = Arc::new([(key.clone(), digest)].into());
    let view = hangar_operator_core::PodView {
        acknowledged,
        ..Default::default()
    };
    let pod = hangar_wire::Pod {
        namespace: "hangar".into(),
        name: "gateway-0".into(),
        uid: "u".into(),
    };
    known.pods.insert(pod, view);
    rig.reporter
        .book
        .set(key.clone(), status(&verdicts, &known));
    let none_yet = FleetView::default();
    let updates = |reporter: &Reporter| reporter.updates(&verdicts, &none_yet, Timestamp::now());
    assert_eq!(updates(&rig.reporter), [], "the gateways are not back yet");
    let later = Reporter {
        since: OnceLock::from(Instant::now().checked_sub(SETTLE).unwrap()),
        ..rig.reporter
    };
    assert_eq!(updates(&later).len(), 1, "they did not come back");
}
