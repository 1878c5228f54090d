//! A handle and its commit: which comes first, and what is left where either of them fails.

#![cfg(test)]

use hangar_tests::envelope::Envelope;
use hangar_tests::ledger::Ledger;
use hangar_tests::manifests::Manifest;
use hangar_tests::raw::{DATA, Raw, h2_request, request};
use hangar_tests::scripted::Answer;
use hangar_tests::stack::{ALICE, Stack};
use hangar_tests::wait;
use serde_json::{Value, json};

const FAILURES: &str = "hangar_task_registration_failures_total";
const INTERNAL: i64 = -32603;
const NOT_FOUND: i64 = -32602;
/// Settings of an HTTP/2 client without any window: no byte of an answer can leave.
const SHUT: [u8; 6] = [0, 4, 0, 0, 0, 0];

/// The gateway has a task, the contract of its tool pinned, and nothing more to commit.
async fn start() -> (Stack, String, Ledger) {
    let stack = Stack::start().await.unwrap();
    let alice = stack.client(ALICE);
    let known = alice.start_task("slow", json!({})).await.unwrap();
    alice.until(&known, "working").await.unwrap();
    let ledger = Ledger::open(&stack.setup().store_file()).unwrap();
    (stack, known, ledger)
}

/// A call on a connection of its own, once the gateway has the whole handle of its upstream.
async fn called(stack: &Stack) -> (Raw, String) {
    let exchanges = "hangar_upstream_duration_seconds_count";
    let before = stack.gateway.scrape().await.unwrap().sum(exchanges, &[]);
    let mut raw = Raw::connect(stack.gateway.mcp_address()).await.unwrap();
    let call = Envelope::call("slow", json!({}));
    raw.say(&request(&call, ALICE, "", &call.body()))
        .await
        .unwrap();
    let ended = stack.gateway.metric(exchanges, &[], before + 1.0);
    ended.await.unwrap();
    (raw, stack.upstream.tasks().pop().unwrap())
}

fn cancelled(stack: &Stack) -> Vec<Value> {
    let cancels = stack.upstream.seen_of("tasks/cancel");
    cancels
        .iter()
        .map(|seen| seen.params()["taskId"].take())
        .collect()
}

/// The gateway writes nothing any more: what is found was durable before the answer had come.
#[tokio::test]
async fn case_17_entry_is_durable_before_the_handle() {
    let mut stack = Stack::start().await.unwrap();
    let alice = stack.client(ALICE);
    let task = alice.start_task("slow", json!({})).await.unwrap();
    stack.gateway.process().kill().unwrap();
    assert_eq!(stack.events(&task).await.unwrap(), ["TaskCreated"]);
    let ledger = Ledger::open(&stack.setup().store_file()).unwrap();
    assert!(ledger.entry(&task).unwrap().is_some());
    stack.gateway.start_again().await.unwrap();
    stack.gateway.ready().await.unwrap();
    alice.until(&task, "working").await.unwrap();
    assert_eq!(stack.events(&task).await.unwrap(), ["TaskCreated"]);
}

/// While another process keeps the commit waiting, not even a status line leaves.
#[tokio::test]
async fn case_17_nothing_of_the_handle_leaves_before_its_commit() {
    let (stack, known, ledger) = start().await;
    let lock = ledger.lock().unwrap();
    let (mut raw, task) = called(&stack).await;
    // The gateway goes on answering what it need not commit.
    for _ in 0..3 {
        let alice = stack.client(ALICE);
        alice.until(&known, "working").await.unwrap();
    }
    assert!(!raw.has_something(), "the answer overtook its commit");
    assert_eq!(ledger.entry(&task).unwrap(), None);
    drop(lock);
    let said = raw.answer().await.unwrap();
    assert!(said.body.contains(&task), "{}", said.body);
    assert!(ledger.entry(&task).unwrap().is_some());
    assert_eq!(stack.events(&task).await.unwrap(), ["TaskCreated"]);
}

/// Another process holds the store for longer than a commit waits.
#[tokio::test]
async fn case_18_a_store_that_takes_no_commit_gives_out_no_handle() {
    let (stack, known, ledger) = start().await;
    let lock = ledger.lock().unwrap();
    let (mut raw, task) = called(&stack).await;
    let said = raw.answer().await.unwrap();
    assert_eq!((said.status, said.error().unwrap().0), (200, INTERNAL));
    assert!(!said.body.contains(&task), "{}", said.body);
    stack.upstream.arrived("tasks/cancel", 1).await.unwrap();
    let failed = [("tenant", "acme"), ("reason", "internal")];
    assert_eq!(stack.count(FAILURES, &failed).await.unwrap(), 1);
    assert_eq!(ledger.entry(&task).unwrap(), None);
    drop(lock);
    wait::eventually("the store recovers", async || {
        let reply = stack.gateway.readyz().await?;
        wait::same(&String::from_utf8_lossy(&reply.body).as_ref(), &"ok\n")
    })
    .await
    .unwrap();
    let alice = stack.client(ALICE);
    let lost = alice.get(&task).await.unwrap();
    assert_eq!(lost.error_code().unwrap(), NOT_FOUND, "nothing survived");
    alice.start_task("slow", json!({})).await.unwrap();
    alice.until(&known, "working").await.unwrap();
    assert_eq!(cancelled(&stack), [json!(task)], "once, and no other");
    assert!(stack.events(&task).await.unwrap().is_empty());
}

/// Killed while the commit waits: the upstream's task is an orphan that nobody was given, and ends
/// by its own time.
#[tokio::test]
async fn case_25_a_crash_before_the_commit_gives_out_no_handle() {
    let (mut stack, known, ledger) = start().await;
    let lock = ledger.lock().unwrap();
    let (mut raw, orphan) = called(&stack).await;
    let alice = stack.client(ALICE);
    alice.until(&known, "working").await.unwrap();
    stack.gateway.process().kill().unwrap();
    drop(lock);
    assert_eq!(raw.rest().await.unwrap(), "", "something was given out");
    stack.gateway.start_again().await.unwrap();
    stack.gateway.ready().await.unwrap();
    let lookup = alice.get(&orphan).await.unwrap();
    assert_eq!(lookup.error_code().unwrap(), NOT_FOUND);
    assert!(stack.events(&orphan).await.unwrap().is_empty());
    assert_eq!(ledger.entry(&orphan).unwrap(), None);
    alice.until(&known, "working").await.unwrap();
    // It counts for no quota, and the upstream was told the time after which it may forget it.
    assert_eq!(stack.count("hangar_tasks_live", &[]).await.unwrap(), 1);
    assert!(stack.upstream.task(&orphan).unwrap()["ttlMs"].is_number());
    assert_eq!(cancelled(&stack), [] as [Value; 0]);
}

/// The commit fails when its client is gone as well: whoever saw the id counts it.
#[tokio::test]
async fn case_25_an_orphan_is_counted_when_its_id_was_seen() {
    let (stack, known, ledger) = start().await;
    let lock = ledger.lock().unwrap();
    let (raw, orphan) = called(&stack).await;
    stack.client(ALICE).until(&known, "working").await.unwrap();
    drop(raw);
    let failed = [("tenant", "acme"), ("reason", "internal")];
    stack.gateway.metric(FAILURES, &failed, 1.0).await.unwrap();
    stack.upstream.arrived("tasks/cancel", 1).await.unwrap();
    drop(lock);
    assert_eq!(cancelled(&stack), [json!(orphan)]);
    assert_eq!(ledger.entry(&orphan).unwrap(), None);
    assert_eq!(stack.count(FAILURES, &[]).await.unwrap(), 1);
}

fn brief(object: Manifest) -> Manifest {
    match object.value()["kind"].as_str() {
        Some("McpUpstream") => object.set("/spec/tasks/retention", json!("4s")),
        _ => object,
    }
}

/// Committed, and killed before a byte of the answer could leave.
#[tokio::test]
async fn case_26_a_crash_after_the_commit_loses_nothing() {
    let mut stack = Stack::start_with(brief).await.unwrap();
    let alice = stack.client(ALICE);
    let live = json!({
        "taskId": "undelivered", "status": "working", "ttlMs": 1,
        "createdAt": "2026-12-01T06:00:00Z", "lastUpdatedAt": "2026-12-01T06:00:00Z",
    });
    let of_type = |kind: &str| {
        let mut result = live.clone();
        result["resultType"] = json!(kind);
        Answer::result(&result)
    };
    stack.upstream.enqueue("tools/call", of_type("task"));
    let polled = of_type("complete");
    stack.upstream.script("tasks/get", move |_| polled.clone());
    let address = stack.gateway.mcp_address();
    let mut raw = Raw::connect_h2(address, &SHUT).await.unwrap();
    let call = Envelope::call("slow", json!({}));
    raw.say(&h2_request(1, &call, ALICE)).await.unwrap();
    wait::eventually("the commit", async || {
        let events = stack.events("undelivered").await?;
        wait::same(&events, &vec!["TaskCreated".to_owned()])
    })
    .await
    .unwrap();
    stack.gateway.process().kill().unwrap();
    let given = raw.frame_until(|frame| frame.kind == DATA).await.unwrap();
    assert!(given.is_none(), "{given:?}");

    stack.gateway.start_again().await.unwrap();
    stack.gateway.ready().await.unwrap();
    alice.until("undelivered", "working").await.unwrap();
    // Nobody asks any more: its retention ends it, and the chain says so once.
    wait::eventually("evicted", async || {
        alice.start_task("ask", json!({})).await?;
        let events = stack.events("undelivered").await?;
        wait::same(&events.len(), &2)
    })
    .await
    .unwrap();
    let events = stack.events("undelivered").await.unwrap();
    assert_eq!(events, ["TaskCreated", "TaskFailed(evicted)"]);
    assert_eq!(cancelled(&stack), [json!("undelivered")]);
}
