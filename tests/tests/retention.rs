//! How long a task is kept, and what is left of it on the chain when it goes.

#![cfg(test)]

use hangar_tests::client::Client;
use hangar_tests::manifests::Manifest;
use hangar_tests::scripted::{Answer, Gate};
use hangar_tests::stack::{ALICE, Stack};
use hangar_tests::wait;
use hyper::StatusCode;
use rusqlite::Connection;
use serde_json::{Value, json};

const TASK_NOT_FOUND: i64 = -32602;
const FAILED: &str = "hangar_tasks_failed_total";
const EXCHANGES: &str = "hangar_upstream_duration_seconds_count";
const EVENTS: &str = "hangar_provenance_events_total";

/// The usual world with tasks kept for two seconds.
async fn start() -> (Stack, Client) {
    let brief = |object: Manifest| match object.value()["kind"].as_str() {
        Some("McpUpstream") => object.set("/spec/tasks/retention", json!("2s")),
        _ => object,
    };
    let stack = Stack::start_with(brief).await.unwrap();
    let alice = stack.client(ALICE);
    (stack, alice)
}

/// A handle whose own time to live keeps nothing.
fn handle(id: &str) -> Value {
    json!({
        "resultType": "task", "taskId": id, "status": "working", "ttlMs": 1,
        "createdAt": "2026-12-01T06:00:00Z", "lastUpdatedAt": "2026-12-01T06:00:00Z",
    })
}

async fn start_task(stack: &Stack, alice: &Client, id: &str) {
    let answer = Answer::result(&handle(id));
    stack.upstream.enqueue("tools/call", answer);
    alice.start_task("slow", json!({})).await.unwrap();
}

/// What the upstream says of its tasks from now on.
fn script_status(stack: &Stack, status: &'static str) {
    stack.upstream.script("tasks/get", move |seen| {
        let mut task = handle(seen.params()["taskId"].as_str().unwrap_or_default());
        task["resultType"] = json!("complete");
        task["status"] = json!(status);
        if status == "completed" {
            task["result"] = json!({"content": [], "isError": false});
        }
        Answer::result(&task)
    });
}

async fn until_unknown(alice: &Client, task: &str) {
    wait::eventually("purged", async || {
        let code = alice.get(task).await?.error_code()?;
        wait::same(&code, &TASK_NOT_FOUND)
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn case_85_a_live_task_is_evicted_once_and_then_purged_without_an_event() {
    let (stack, alice) = start().await;
    script_status(&stack, "working");
    start_task(&stack, &alice, "forgotten").await;
    let evicted = [("reason", "evicted")];
    // Births retire what is due of their tenant.
    wait::eventually("evicted", async || {
        alice.start_task("ask", json!({})).await?;
        let count = stack.count(FAILED, &evicted).await?;
        anyhow::ensure!(count > 0, "not yet");
        Ok(())
    })
    .await
    .unwrap();
    for _ in 0..3 {
        let failed = alice.until("forgotten", "failed").await.unwrap();
        assert_eq!(failed["error"]["data"]["reason"], "evicted");
    }
    let events = ["TaskCreated", "TaskFailed(evicted)"];
    assert_eq!(stack.events("forgotten").await.unwrap(), events);
    stack.upstream.arrived("tasks/cancel", 1).await.unwrap();
    let cancels = stack.upstream.seen_of("tasks/cancel");
    let of_it = cancels
        .iter()
        .filter(|it| it.params()["taskId"] == "forgotten");
    assert_eq!(of_it.count(), 1);
    assert_eq!(stack.upstream.count("tasks/get"), 0);
    until_unknown(&alice, "forgotten").await;
    assert_eq!(stack.events("forgotten").await.unwrap(), events);
}

#[tokio::test]
async fn case_85_a_terminal_task_is_purged_without_an_event() {
    let (stack, alice) = start().await;
    start_task(&stack, &alice, "done").await;
    script_status(&stack, "completed");
    alice.until("done", "completed").await.unwrap();
    let failed = [("type", "TaskFailed")];
    until_unknown(&alice, "done").await;
    let events = ["TaskCreated", "TaskCompleted"];
    assert_eq!(stack.events("done").await.unwrap(), events);
    assert_eq!(stack.count(EVENTS, &failed).await.unwrap(), 0);
    assert_eq!(stack.upstream.count("tasks/cancel"), 0);
}

/// Polls do not lengthen what is over.
#[tokio::test]
async fn case_80_a_cancelled_task_is_read_until_its_retention_ends() {
    let (stack, alice) = start().await;
    start_task(&stack, &alice, "stopped").await;
    script_status(&stack, "cancelled");
    let first = alice.until("stopped", "cancelled").await.unwrap();
    assert_eq!(first["taskId"], "stopped");
    let gets = stack.upstream.count("tasks/get");
    let mut served = 0;
    wait::eventually("purged", async || {
        let reply = alice.get("stopped").await?;
        if let Ok(result) = reply.result() {
            assert_eq!(result["status"], "cancelled");
            served += 1;
        }
        wait::same(&reply.error_code()?, &TASK_NOT_FOUND)
    })
    .await
    .unwrap();
    assert!(served > 0);
    assert_eq!(stack.upstream.count("tasks/get"), gets);
    let events = ["TaskCreated", "TaskCancelled"];
    assert_eq!(stack.events("stopped").await.unwrap(), events);
}

/// On a task that its upstream has lost.
#[tokio::test]
async fn case_81_a_cancel_of_a_lost_task_is_acknowledged_and_adds_nothing() {
    let stack = Stack::start().await.unwrap();
    let alice = stack.client(ALICE);
    let task = alice.start_task("slow", json!({})).await.unwrap();
    stack.upstream.lose(&task).unwrap();
    // Lost for the upstream, and not yet for us.
    let reply = alice.cancel(&task).await.unwrap();
    assert_eq!(reply.result().unwrap()["resultType"], "complete");
    assert_eq!(stack.events(&task).await.unwrap(), ["TaskCreated"]);
    let failed = alice.until(&task, "failed").await.unwrap();
    assert_eq!(failed["error"]["data"]["reason"], "upstream_lost");
    stack.upstream.arrived("tasks/cancel", 1).await.unwrap();
    for _ in 0..2 {
        let reply = alice.cancel(&task).await.unwrap();
        assert_eq!(reply.result().unwrap()["resultType"], "complete");
    }
    assert_eq!(stack.upstream.count("tasks/cancel"), 1);
    let events = ["TaskCreated", "TaskFailed(upstream_lost)"];
    assert_eq!(stack.events(&task).await.unwrap(), events);
}

/// Nobody waits for the handle any more while its birth is being written.
#[tokio::test]
async fn case_96_a_birth_completes_without_its_client_and_ends_by_retention() {
    let (stack, alice) = start().await;
    // So that its contract is pinned, which is a commit too.
    alice.call_sync("slow", json!({})).await.unwrap();
    let lock = Connection::open(stack.setup().store_file()).unwrap();
    lock.execute_batch("begin immediate").unwrap();
    let answer = Answer::result(&handle("undelivered"));
    stack.upstream.enqueue("tools/call", answer);
    let leaving = stack.client(ALICE);
    let call = tokio::spawn(async move { leaving.call("slow", json!({})).await });
    // Observed at the end of the exchange; what follows does not wait for anything until it is apart
    // from its client.
    stack.gateway.metric(EXCHANGES, &[], 2.0).await.unwrap();
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    lock.execute_batch("rollback").unwrap();
    script_status(&stack, "working");
    let created = [("type", "TaskCreated")];
    stack.gateway.metric(EVENTS, &created, 1.0).await.unwrap();
    let events = stack.events("undelivered").await.unwrap();
    assert_eq!(events, ["TaskCreated"]);
    let evicted = [("reason", "evicted")];
    wait::eventually("evicted", async || {
        alice.start_task("ask", json!({})).await?;
        let count = stack.count(FAILED, &evicted).await?;
        anyhow::ensure!(count > 0, "not yet");
        Ok(())
    })
    .await
    .unwrap();
    let events = stack.events("undelivered").await.unwrap();
    assert_eq!(events, ["TaskCreated", "TaskFailed(evicted)"]);
}

/// A relay is on its way when its task is evicted.
#[tokio::test]
async fn case_95_an_eviction_during_the_relay_leaves_the_accept_on_the_chain() {
    let (stack, alice) = start().await;
    let task = alice.start_task("ask", json!({})).await.unwrap();
    stack.upstream.bend(&task, &json!({"ttlMs": 1})).unwrap();
    alice.until(&task, "input_required").await.unwrap();
    let gate = Gate::new();
    let late = Answer::result(&json!({"resultType": "complete"})).held(&gate);
    stack.upstream.enqueue("tasks/update", late);
    let answer = tokio::spawn({
        let (alice, task) = (alice.clone(), task.clone());
        async move {
            let answer = alice.answer(&task, "name", "accept", json!({"name": "Ann"}));
            answer.await
        }
    });
    gate.reached(1).await.unwrap();
    let evicted = [("reason", "evicted")];
    wait::eventually("evicted", async || {
        alice.start_task("slow", json!({})).await?;
        let count = stack.count(FAILED, &evicted).await?;
        wait::same(&count, &1)
    })
    .await
    .unwrap();
    gate.open();
    answer.await.unwrap().unwrap();
    let failed = alice.get(&task).await.unwrap().result().unwrap();
    assert_eq!(failed["error"]["data"]["reason"], "evicted");
    let events = stack.events(&task).await.unwrap();
    let wanted = [
        "TaskCreated",
        "TaskConsentDecided(accept)",
        "TaskFailed(evicted)",
    ];
    assert_eq!(events, wanted);
    let export = stack.export().await.unwrap();
    assert!(export.contains(r#""relay":"unknown""#), "{export}");
}

/// An end that was delivered stays the end, whatever the upstream forgets.
#[tokio::test]
async fn case_94_an_end_that_its_upstream_forgot_is_not_found_and_not_rewritten() {
    let stack = Stack::start().await.unwrap();
    let alice = stack.client(ALICE);
    let start = async || alice.start_task("slow", json!({})).await.unwrap();
    let (done, failed) = (start().await, start().await);
    stack.upstream.complete(&done, "SECRET").unwrap();
    stack.upstream.fail(&failed, -32042, "SECRET").unwrap();
    alice.until(&done, "completed").await.unwrap();
    alice.until(&failed, "failed").await.unwrap();
    let ends = [
        (&done, "TaskCompleted"),
        (&failed, "TaskFailed(upstream_failed)"),
    ];
    for (task, end) in ends {
        stack.upstream.lose(task).unwrap();
        for _ in 0..3 {
            let reply = alice.get(task).await.unwrap();
            let found = reply.outcome().unwrap();
            let unknown = alice.get("unknown").await.unwrap().outcome().unwrap();
            assert_eq!(found, unknown);
            assert_eq!(found.0, StatusCode::OK.as_u16());
        }
        let events = stack.events(task).await.unwrap();
        assert_eq!(events, ["TaskCreated", end]);
    }
    let lost = [("reason", "upstream_lost")];
    assert_eq!(stack.count(FAILED, &lost).await.unwrap(), 0);
}
