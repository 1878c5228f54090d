//! `tasks/cancel`: an acknowledgement that claims nothing, and the end that a later poll confirms.

#![cfg(test)]

use hangar_tests::client::Client;
use hangar_tests::scripted::Answer;
use hangar_tests::stack::{ALICE, Stack};
use hyper::StatusCode;
use serde_json::{Value, json};

const CANCELLED: &str = "hangar_tasks_cancelled_total";

async fn start_task() -> (Stack, Client, String) {
    let stack = Stack::start().await.unwrap();
    let alice = stack.client(ALICE);
    let task = alice.start_task("slow", json!({})).await.unwrap();
    (stack, alice, task)
}

/// Cancels, and expects the empty acknowledgement.
async fn cancel(client: &Client, task: &str) {
    let reply = client.cancel(task).await.unwrap();
    assert_eq!(reply.status, 200);
    let mut result = reply.result().unwrap();
    result.as_object_mut().unwrap().remove("_meta");
    assert_eq!(result, json!({"resultType": "complete"}));
}

/// What a 2026-07-28 upstream says, without doing it yet.
fn ack() -> Answer {
    Answer::result(&json!({"resultType": "complete"}))
}

/// Whatever the upstream says to it.
#[tokio::test]
async fn case_77_any_cancel_is_acknowledged_empty() {
    let (stack, alice, task) = start_task().await;
    let telling = json!({
        "resultType": "complete", "taskId": task, "status": "cancelled", "statusMessage": "told",
    });
    let answers = [
        ack(),
        Answer::result(&telling),
        Answer::error(-32602, "Task not found").status(StatusCode::BAD_REQUEST),
        Answer::error(-32603, "told"),
        Answer::raw("told").status(StatusCode::INTERNAL_SERVER_ERROR),
        Answer::hang_up(),
    ];
    for answer in answers {
        stack
            .upstream
            .script("tasks/cancel", move |_| answer.clone());
        cancel(&alice, &task).await;
        alice.until(&task, "working").await.unwrap();
    }
    assert_eq!(stack.events(&task).await.unwrap(), ["TaskCreated"]);
}

/// Requested is not cancelled.
#[tokio::test]
async fn case_78_a_cancel_is_recorded_when_a_poll_confirms_it() {
    let (stack, alice, task) = start_task().await;
    stack.upstream.script("tasks/cancel", |_| ack());
    cancel(&alice, &task).await;
    let served = alice.get(&task).await.unwrap().result().unwrap();
    assert_eq!(served["status"], "working");
    assert_eq!(stack.count(CANCELLED, &[]).await.unwrap(), 0);
    stack
        .upstream
        .bend(&task, &json!({"status": "cancelled"}))
        .unwrap();
    for _ in 0..3 {
        alice.until(&task, "cancelled").await.unwrap();
    }
    assert_eq!(stack.count(CANCELLED, &[]).await.unwrap(), 1);
    let events = stack.events(&task).await.unwrap();
    assert_eq!(events, ["TaskCreated", "TaskCancelled"]);
}

/// The upstream owns the race.
#[tokio::test]
async fn case_78_a_task_that_completes_all_the_same_delivers_its_result() {
    let (stack, alice, task) = start_task().await;
    stack.upstream.script("tasks/cancel", |_| ack());
    cancel(&alice, &task).await;
    stack.upstream.complete(&task, "faster").unwrap();
    let done = alice.until(&task, "completed").await.unwrap();
    assert_eq!(done["result"]["content"][0]["text"], "faster");
    let events = stack.events(&task).await.unwrap();
    assert_eq!(events, ["TaskCreated", "TaskCompleted"]);
}

/// Passed on once, as the client's request and nothing else.
#[tokio::test]
async fn a_cancel_is_passed_on_once() {
    let (stack, alice, task) = start_task().await;
    cancel(&alice, &task).await;
    alice.until(&task, "cancelled").await.unwrap();
    // Whatever else the gateway sends for it has its own connection; what comes after a later
    // request on the same upstream has been sent before.
    let other = alice.start_task("slow", json!({})).await.unwrap();
    cancel(&alice, &other).await;
    alice.until(&other, "cancelled").await.unwrap();
    assert_eq!(cancels_of(&stack, &task), 1);
}

fn cancels_of(stack: &Stack, task: &str) -> usize {
    let of_task = |params: Value| params["taskId"] == task;
    let cancels = stack.upstream.seen_of("tasks/cancel");
    cancels.iter().filter(|seen| of_task(seen.params())).count()
}

#[tokio::test]
async fn case_80_a_cancelled_task_can_still_be_read() {
    let (stack, alice, task) = start_task().await;
    cancel(&alice, &task).await;
    alice.until(&task, "cancelled").await.unwrap();
    // Also when the upstream has long forgotten it, or is gone.
    stack.upstream.lose(&task).unwrap();
    alice.until(&task, "cancelled").await.unwrap();
    drop(stack.upstream);
    let served = alice.get(&task).await.unwrap().result().unwrap();
    assert_eq!(served["status"], "cancelled");
}

#[tokio::test]
async fn case_81_a_cancel_twice_or_too_late_adds_nothing() {
    let (stack, alice, task) = start_task().await;
    cancel(&alice, &task).await;
    cancel(&alice, &task).await;
    alice.until(&task, "cancelled").await.unwrap();
    cancel(&alice, &task).await;
    assert_eq!(
        stack.events(&task).await.unwrap(),
        ["TaskCreated", "TaskCancelled"]
    );

    let done = alice.start_task("slow", json!({})).await.unwrap();
    stack.upstream.complete(&done, "done").unwrap();
    alice.until(&done, "completed").await.unwrap();
    cancel(&alice, &done).await;
    alice.until(&done, "completed").await.unwrap();
    assert_eq!(
        stack.events(&done).await.unwrap(),
        ["TaskCreated", "TaskCompleted"]
    );
    // What has ended is not cancelled upstream.
    let cancels = stack.upstream.seen_of("tasks/cancel");
    assert!(cancels.iter().all(|it| it.params()["taskId"] != *done));
    assert_eq!(stack.count(CANCELLED, &[]).await.unwrap(), 1);
}

/// On an upstream that is gone.
#[tokio::test]
async fn case_81_a_cancel_without_an_upstream_is_acknowledged() {
    let (stack, alice, task) = start_task().await;
    let store = stack.setup().store_file();
    drop(stack.upstream);
    cancel(&alice, &task).await;
    let served = alice.get(&task).await.unwrap().result().unwrap();
    assert_eq!(served["status"], "working");
    let export = hangar_tests::chain::export(&store, store.parent().unwrap()).await;
    let events = hangar_tests::chain::of_task(&export.unwrap(), &task).unwrap();
    assert_eq!(events, ["TaskCreated"]);
}
