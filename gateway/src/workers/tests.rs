//! Who runs where.

use tokio::sync::mpsc;

use super::*;

/// What `spawn` ran says where it ran.
async fn where_it_runs(workers: &Workers) -> usize {
    let (to, mut from) = mpsc::channel(1);
    workers.spawn(async move {
        let _ = to.send(place()).await;
    });
    from.recv().await.unwrap()
}

#[tokio::test]
async fn without_workers_it_runs_where_it_is_started() {
    assert_eq!(where_it_runs(&Workers::none()).await, 0);
}

#[tokio::test]
async fn connections_that_stay_are_spread_evenly() {
    let workers = Workers::start().unwrap();
    let (to, mut from) = mpsc::unbounded_channel();
    let stay = CancellationToken::new();
    for _ in 0..4 * count() {
        let (to, stay) = (to.clone(), stay.clone());
        workers.spawn(async move {
            let _ = to.send(place());
            stay.cancelled().await;
        });
    }
    let mut runs = vec![0; places()];
    for _ in 0..4 * count() {
        runs[from.recv().await.unwrap()] += 1;
    }
    stay.cancel();
    let mut even = vec![4; places()];
    even[0] = 0;
    assert_eq!(runs, even);
}

#[tokio::test]
async fn one_that_panics_leaves_its_place() {
    let workers = Workers::start().unwrap();
    for _ in 0..2 * count() {
        workers.spawn(async { panic!("as it happens") });
    }
    for worker in &workers.each {
        while worker.load.load(Ordering::Relaxed) > 0 {
            tokio::task::yield_now().await;
        }
    }
    assert_ne!(where_it_runs(&workers).await, 0);
}
