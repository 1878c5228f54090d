//! The subscription between two requests: who it says it is, and how long it waits.

use std::path::Path;

use base64::Engine as _;
use hangar_wire::{AddressRules, Epoch, Generation, Term};

use super::*;

fn mk_subscription(folder: &Path, state: &Path) -> Subscription {
    let operator = "https://127.0.0.1:1".parse().unwrap();
    let (ca, token) = (folder.join("ca.crt"), folder.join("token"));
    Subscription {
        link: Link::new(&operator, ca, token).unwrap(),
        disk: LastKnownGood::new(state),
        config: Arc::default(),
        freshness: Arc::default(),
        metrics: Arc::new(Metrics::new().unwrap()),
        stop: CancellationToken::new(),
    }
}

fn mk_snapshot(generation: u64) -> Snapshot {
    let term = Term {
        epoch: Epoch(3),
        generation: Generation(generation),
    };
    Snapshot::new(term, AddressRules::default(), vec![], vec![]).unwrap()
}

fn mk_token() -> String {
    let claims = br#"{"kubernetes.io":{"namespace":"edge","pod":{"name":"gw-0","uid":"pod-7"}}}"#;
    let payload = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(claims);
    format!("e30.{payload}.c2ln\n")
}

/// The token is mounted after the process has started. It was read at the start only, so that the
/// pod went by a name that no operator admits until it was restarted.
#[test]
fn a_token_that_comes_late_names_the_pod() {
    let folder = tempfile::tempdir().unwrap();
    let subscription = mk_subscription(folder.path(), folder.path());
    let state = State::new(None);
    let early = subscription.message(&state).pod;
    assert_eq!(
        (early.namespace.as_str(), early.name.as_str()),
        ("local", "gateway")
    );
    assert_eq!(early.uid, state.local);
    assert_eq!(subscription.message(&state).pod, early, "one uid a process");
    std::fs::write(folder.path().join("token"), mk_token()).unwrap();
    let late = subscription.message(&state).pod;
    let expected = ("edge", "gw-0", "pod-7");
    assert_eq!(
        (
            late.namespace.as_str(),
            late.name.as_str(),
            late.uid.as_str()
        ),
        expected
    );
}

/// An operator that is told of an older configuration answers at once with the whole newer one:
/// while the disk is broken, the time between two of these answers must grow all the same.
#[tokio::test]
async fn a_broken_disk_slows_the_subscription_down() {
    let folder = tempfile::tempdir().unwrap();
    let state_folder = folder.path().join("state");
    std::fs::write(&state_folder, "a file where the folder should be").unwrap();
    let mut subscription = mk_subscription(folder.path(), &state_folder);
    let mut state = State::new(None);
    assert_eq!(state.pause(), None);
    for turn in 1..=8 {
        subscription.receive(&mut state, mk_snapshot(1));
        assert_eq!(state.failures, 0, "the operator is well");
        subscription.save(&mut state).await;
        assert_eq!((state.unwritten, state.held), (turn, None));
    }
    assert!(state.pause().unwrap() >= LONGEST_PAUSE / 2);
    assert!(subscription.freshness.volume_broken.load(Ordering::Relaxed));
    // The disk is back: what is in force is written, acknowledged, and nothing is waited for.
    std::fs::remove_file(&state_folder).unwrap();
    subscription.save(&mut state).await;
    assert_eq!(state.held, Some(mk_snapshot(1).held()));
    assert_eq!(state.pause(), None);
    assert!(!subscription.freshness.volume_broken.load(Ordering::Relaxed));
    // What is in force and not yet written is no reason to wait.
    subscription.receive(&mut state, mk_snapshot(2));
    assert_eq!((state.unsaved.is_some(), state.pause()), (true, None));
}

#[tokio::test]
async fn a_writer_that_ends_early_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut subscription = mk_subscription(folder.path(), folder.path());
    let mut state = State::new(None);
    let snapshot = Arc::new(mk_snapshot(1));
    let writer = tokio::spawn(std::future::pending::<Result<(), disk::Error>>());
    writer.abort();
    let ended = writer.await;
    assert!(ended.is_err());
    subscription.saved(&mut state, Arc::clone(&snapshot), ended);
    assert_eq!((state.held, state.unwritten), (None, 1));
    subscription.save(&mut state).await;
    assert_eq!(state.held, Some(snapshot.held()));
    assert_eq!(subscription.disk.load().unwrap().as_ref(), Some(&*snapshot));
}

/// Two operators that number alike: what is held is said again, and not in a loop.
#[test]
fn a_fork_is_refused_and_slows_the_subscription_down() {
    let folder = tempfile::tempdir().unwrap();
    let mut subscription = mk_subscription(folder.path(), folder.path());
    let mut state = State::new(None);
    subscription.receive(&mut state, mk_snapshot(1));
    let rules = AddressRules {
        allow: vec!["10.0.0.0/8".into()],
        deny: vec![],
    };
    let other = Snapshot::new(mk_snapshot(1).term, rules, vec![], vec![]).unwrap();
    for turn in 1..=3 {
        subscription.receive(&mut state, other.clone());
        assert_eq!(state.failures, turn);
    }
    assert_eq!(state.held, Some(mk_snapshot(1).held()));
    let errors = &subscription.metrics.config_errors;
    assert_eq!(errors.with_label_values(&["forked"]).get(), 3);
}
