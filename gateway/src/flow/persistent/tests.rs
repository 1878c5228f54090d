//! Ended in place, ended alone, and panicked.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

use super::*;

#[tokio::test]
async fn what_is_waited_for_runs_where_it_is_waited_for() {
    let tracker = TaskTracker::new();
    let waits = tokio::spawn(async move {
        let work = Persistent::new(&tracker, async {
            tokio::task::yield_now().await;
            tokio::task::id()
        });
        assert_eq!(tracker.len(), 1);
        assert_eq!(work.await, Ok(tokio::task::id()));
        assert!(tracker.is_empty());
    });
    waits.await.unwrap();
}

#[tokio::test]
async fn what_nobody_waits_for_goes_on() {
    for is_begun in [false, true] {
        let tracker = TaskTracker::new();
        let (gate, ended) = (Arc::new(Notify::new()), Arc::new(AtomicBool::new(false)));
        let mut work = Persistent::new(&tracker, {
            let (gate, ended) = (Arc::clone(&gate), Arc::clone(&ended));
            async move {
                gate.notified().await;
                ended.store(true, Ordering::Release);
            }
        });
        if is_begun {
            let first = std::future::poll_fn(|context| {
                Poll::Ready(Pin::new(&mut work).poll(context).is_pending())
            });
            assert!(first.await);
        }
        drop(work);
        assert_eq!((tracker.len(), ended.load(Ordering::Acquire)), (1, false));
        gate.notify_one();
        tracker.close();
        tracker.wait().await;
        assert!(ended.load(Ordering::Acquire));
    }
}

#[tokio::test]
async fn a_panic_ends_the_work_alone() {
    let tracker = TaskTracker::new();
    let work = Persistent::new(&tracker, async {
        tokio::task::yield_now().await;
        assert!(!std::hint::black_box(true), "on purpose");
    });
    assert_eq!(work.await, Err(Panicked));
    assert!(tracker.is_empty());
}
