//! Upstreams that ask for patience, in the field and here: the hint reaches whoever asked, and is heeded.

#![cfg(test)]

use std::time::Duration;

use hangar_tests::client::{Client, Reply};
use hangar_tests::scripted::{Answer, Seen};
use hangar_tests::stack::{ALICE, Stack};
use hyper::StatusCode;
use serde_json::json;

const UNAVAILABLE: i64 = -31001;

async fn start() -> (Stack, Client) {
    let stack = Stack::start().await.unwrap();
    let alice = stack.client(ALICE);
    (stack, alice)
}

/// Asks to be asked again in so many seconds.
fn throttled(seconds: &str) -> Answer {
    Answer::raw("")
        .status(StatusCode::TOO_MANY_REQUESTS)
        .header("retry-after", seconds)
}

/// For as long as the upstream asks, and no longer.
#[tokio::test]
async fn bb_14_patience_ends() {
    let (stack, alice) = start().await;
    let task = alice.start_task("slow", json!({})).await.unwrap();
    stack.upstream.enqueue("tasks/get", throttled("1"));
    alice.get(&task).await.unwrap().result().unwrap();
    stack.upstream.complete(&task, "done").unwrap();
    let waited = std::time::Instant::now();
    alice.until(&task, "completed").await.unwrap();
    assert!(waited.elapsed() > Duration::from_millis(500), "{waited:?}");
    assert_eq!(stack.upstream.count("tasks/get"), 2);
}

/// Whatever of a poll or an answer is refused: the hint reaches the client, and is heeded.
#[tokio::test]
async fn bb_14_patience_is_asked_for_by_whatever_is_refused() {
    let later = |_: &Seen| throttled("30");
    let hint = |reply: &Reply| -> u64 {
        assert_eq!(reply.error_code().unwrap(), UNAVAILABLE, "{reply:?}");
        reply.header("retry-after").unwrap().parse().unwrap()
    };
    // The list of tools that a payload needs.
    let (stack, alice) = start().await;
    let task = alice.start_task("slow", json!({})).await.unwrap();
    stack.upstream.complete(&task, "done").unwrap();
    stack.upstream.script("tools/list", later);
    let asked = |method| stack.upstream.count(method);
    let (polls, lists) = (asked("tasks/get"), asked("tools/list"));
    assert!((1..=30).contains(&hint(&alice.get(&task).await.unwrap())));
    assert!(
        alice
            .get(&task)
            .await
            .unwrap()
            .header("retry-after")
            .is_some()
    );
    assert_eq!(
        (asked("tasks/get"), asked("tools/list")),
        (polls + 1, lists + 1)
    );
    // The look at a question before it is answered.
    let (stack, alice) = start().await;
    let task = alice.start_task("ask", json!({})).await.unwrap();
    alice.until(&task, "input_required").await.unwrap();
    stack.upstream.script("tasks/get", later);
    let polls = stack.upstream.count("tasks/get");
    for _ in 0..2 {
        let answer = alice.answer(&task, "name", "accept", json!({"name": "Ann"}));
        assert!((1..=30).contains(&hint(&answer.await.unwrap())));
    }
    assert_eq!(stack.upstream.count("tasks/get"), polls + 1);
    assert_eq!(stack.upstream.count("tasks/update"), 0);
}
