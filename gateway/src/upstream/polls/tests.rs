//! Which polls share a request.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hangar_ledger::{Millis, TaskId};
use hangar_wire::Sha256Hex;
use serde_json::value::RawValue;
use tokio::sync::Semaphore;

use super::{Outcome, Polls, Told};
use crate::upstream::exchange::Failure;

/// An upstream that answers each request when it is let.
struct World {
    polls: Polls,
    requests: AtomicUsize,
    answers: Semaphore,
}

impl World {
    fn new(stagger: Duration) -> Arc<Self> {
        Arc::new(Self {
            polls: Polls {
                stagger,
                ..Polls::default()
            },
            requests: AtomicUsize::new(0),
            answers: Semaphore::new(0),
        })
    }

    /// Answers with how many requests came before.
    async fn poll(self: Arc<Self>, name: &str, capabilities: &str) -> Outcome {
        let capabilities = raw(capabilities);
        let send = || async {
            let number = self.requests.fetch_add(1, Ordering::SeqCst);
            self.answers.acquire().await.unwrap().forget();
            Ok::<_, Failure>(told(number))
        };
        self.polls.ask(&task(name), &capabilities, send).await
    }

    fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

fn task(name: &str) -> TaskId {
    TaskId::try_from(name.to_owned()).unwrap()
}

fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).unwrap()
}

fn told(number: usize) -> Told {
    Told {
        message: Bytes::from(number.to_string()),
        id: raw("1"),
        began: Millis(0),
        sent: Instant::now(),
        arrived: Instant::now(),
    }
}

fn number(outcome: &Outcome) -> usize {
    let told = outcome.as_ref().unwrap();
    std::str::from_utf8(&told.message).unwrap().parse().unwrap()
}

/// Lets every task that can go on do so.
async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn those_who_come_while_one_asks_share_the_next_request() {
    let world = World::new(Duration::MAX);
    let first = tokio::spawn(Arc::clone(&world).poll("a", "{}"));
    settle().await;
    let later: Vec<_> = (0..50)
        .map(|_| tokio::spawn(Arc::clone(&world).poll("a", "{}")))
        .collect();
    settle().await;
    assert_eq!(world.requests(), 1);
    world.answers.add_permits(1);
    assert_eq!(number(&first.await.unwrap()), 0);
    settle().await;
    assert_eq!(world.requests(), 2);
    world.answers.add_permits(1);
    for poll in later {
        assert_eq!(
            number(&poll.await.unwrap()),
            1,
            "asked before it was called"
        );
    }
    assert_eq!(world.requests(), 2);
    assert!(world.polls.flights().is_empty());
}

#[tokio::test]
async fn other_tasks_and_other_declarations_are_asked_apart() {
    let world = World::new(Duration::MAX);
    let polls = [("a", "{}"), ("b", "{}"), ("a", r#"{"elicitation":{}}"#)]
        .map(|(task, capabilities)| tokio::spawn(Arc::clone(&world).poll(task, capabilities)));
    settle().await;
    assert_eq!(world.requests(), 3);
    // Nothing is kept of what a client writes: it may be long.
    let declared = Sha256Hex::of(b"{}");
    for name in ["a", "b"] {
        let question = (task(name), declared);
        assert!(world.polls.flights().contains_key(&question));
    }
    world.answers.add_permits(3);
    for poll in polls {
        assert!(poll.await.unwrap().is_ok());
    }
}

#[tokio::test]
async fn a_slow_request_does_not_keep_later_polls_waiting() {
    let world = World::new(Duration::from_millis(1));
    let slow = tokio::spawn(Arc::clone(&world).poll("a", "{}"));
    while world.requests() < 1 {
        tokio::task::yield_now().await;
    }
    let later = tokio::spawn(Arc::clone(&world).poll("a", "{}"));
    while world.requests() < 2 {
        tokio::task::yield_now().await;
    }
    world.answers.add_permits(2);
    assert_eq!(number(&slow.await.unwrap()), 0);
    assert_eq!(number(&later.await.unwrap()), 1);
    assert!(world.polls.flights().is_empty());
}

#[tokio::test]
async fn a_leader_that_ends_early_leaves_the_lead_to_another() {
    let world = World::new(Duration::MAX);
    let first = tokio::spawn(Arc::clone(&world).poll("a", "{}"));
    settle().await;
    let second = tokio::spawn(Arc::clone(&world).poll("a", "{}"));
    settle().await;
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    settle().await;
    world.answers.add_permits(1);
    assert_eq!(number(&second.await.unwrap()), 1);
}
