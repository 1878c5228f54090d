//! The epoch only goes up.

use super::folder::FolderEpoch;
use super::*;
use crate::state::{Access, StateDir};

#[tokio::test]
async fn each_start_takes_the_next_number() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::new(dir.path());
    for expected in 1..=3 {
        let store = FolderEpoch::new(state.clone());
        assert_eq!(store.raise(Epoch(1)).await.unwrap(), Epoch(expected));
    }
}

#[tokio::test]
async fn a_higher_epoch_at_a_pod_is_outranked_and_kept() {
    let dir = tempfile::tempdir().unwrap();
    let store = FolderEpoch::new(StateDir::new(dir.path()));
    assert_eq!(store.raise(Epoch(41)).await.unwrap(), Epoch(41));
    assert_eq!(store.raise(Epoch(7)).await.unwrap(), Epoch(42));
}

#[tokio::test]
async fn damage_and_exhaustion_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::new(dir.path());
    let store = FolderEpoch::new(state.clone());
    state.write("epoch", b"seven\n", Access::Public).unwrap();
    let error = store.raise(Epoch(1)).await.unwrap_err();
    assert_eq!(error.reason(), "not_a_number");
    let last = u64::MAX.to_string();
    state
        .write("epoch", last.as_bytes(), Access::Public)
        .unwrap();
    let error = store.raise(Epoch(1)).await.unwrap_err();
    assert_eq!(error.reason(), "exhausted");
}
