//! Polls of one task: asked of the upstream together, answered each to its own client.

#![cfg(test)]

use hangar_tests::client::Client;
use hangar_tests::envelope::{Capabilities, Envelope};
use hangar_tests::manifests::Manifest;
use hangar_tests::open::Open;
use hangar_tests::scripted::{Answer, Feed, Gate};
use hangar_tests::stack::{ALICE, BOB, CAROL, Stack};
use hangar_tests::wait;
use serde_json::{Value, json};

const PATH: &str = "/mcp/default/reports";
const AGE: &str = "hangar.dev/ageMs";
const HELD: &str = "hangar_held_bytes";
const REQUESTS: &str = "hangar_requests_total";
const REFUSALS: &str = "hangar_task_refusals_total";

/// Everybody of a tenant may read its tasks.
fn shared(object: Manifest) -> Manifest {
    match object.value()["kind"].as_str() {
        Some("TenantPolicy") => object.set("/spec/upstreams/0/tasks/visibility", json!("Tenant")),
        _ => object,
    }
}

/// Asked once, the task goes on and need not be asked about for an hour.
async fn rest(stack: &Stack, client: &Client, task: &str) {
    let asked = stack.upstream.count("tasks/get");
    let hour = json!({"status": "working", "inputRequests": null, "pollIntervalMs": 3_600_000});
    stack.upstream.bend(task, &hour).unwrap();
    for _ in 0..2 {
        let served = client.get(task).await.unwrap().result().unwrap();
        assert_eq!(served["status"], "working");
    }
    assert_eq!(stack.upstream.count("tasks/get"), asked + 1);
}

/// Acknowledges what it does not do.
fn ack() -> Answer {
    Answer::result(&json!({"resultType": "complete"}))
}

/// A stack where alice's task goes on.
async fn start(edit: impl Fn(Manifest) -> Manifest) -> (Stack, String) {
    let stack = Stack::start_with(edit).await.unwrap();
    let alice = stack.client(ALICE);
    let task = alice.start_task("slow", json!({})).await.unwrap();
    (stack, task)
}

#[tokio::test]
async fn case_51_many_pollers_of_one_task_are_asked_for_together_and_checked_apart() {
    const POLLS: usize = 60;
    let (stack, task) = start(shared).await;
    stack.upstream.complete(&task, "the-payload").unwrap();
    let gate = Gate::new();
    stack.upstream.script("tasks/get", {
        let gate = gate.clone();
        move |_| Answer::built_in().held(&gate)
    });
    // Every second is bob's, who may read what is alice's; each bears an id of its own.
    let polls: Vec<_> = (0..POLLS)
        .map(|number| {
            let client = stack.client(if number % 2 == 0 { ALICE } else { BOB });
            let id = json!(format!("poll {number}"));
            let envelope = Envelope::get(&task).id(id.clone());
            tokio::spawn(async move { (id, client.send(&envelope).await) })
        })
        .collect();
    gate.reached(1).await.unwrap();
    stack
        .gateway
        .metric("hangar_inflight_requests", &[], 60.0)
        .await
        .unwrap();
    // A stranger's is nobody's: it waits for nothing and learns nothing.
    let carol = stack.client(CAROL).get(&task).await.unwrap();
    assert_eq!(carol.error_code().unwrap(), -32602);
    assert!(!String::from_utf8_lossy(&carol.body).contains("payload"));
    let not_found = [
        ("tenant", "globex"),
        ("method", "tasks/get"),
        ("reason", "task_not_found"),
    ];
    assert_eq!(stack.count(REFUSALS, &not_found).await.unwrap(), 1);
    gate.open();
    for poll in polls {
        let (id, reply) = poll.await.unwrap();
        let message = reply.unwrap().message().unwrap();
        assert_eq!(message["id"], id, "{message}");
        assert_eq!(message["result"]["status"], "completed", "{message}");
    }
    let asked = stack.upstream.count("tasks/get");
    assert!((1..=POLLS / 4).contains(&asked), "{asked} requests");
    assert_eq!(
        stack.events(&task).await.unwrap(),
        ["TaskCreated", "TaskCompleted"]
    );
}

#[tokio::test]
async fn polls_that_declare_something_else_are_asked_for_apart() {
    let (stack, task) = start(|object| object).await;
    let gate = Gate::new();
    stack.upstream.script("tasks/get", {
        let gate = gate.clone();
        move |_| Answer::built_in().held(&gate)
    });
    let poll = |declared| {
        let (alice, task) = (stack.client(ALICE), task.clone());
        let envelope = Envelope::get(&task).capabilities(declared);
        tokio::spawn(async move { alice.send(&envelope).await })
    };
    let mut polls = vec![poll(Capabilities::Tasks)];
    gate.reached(1).await.unwrap();
    // Both wait for the first, and neither may speak for the other.
    polls.extend([Capabilities::Tasks, Capabilities::TasksAndElicitation].map(poll));
    let inflight = "hangar_inflight_requests";
    stack.gateway.metric(inflight, &[], 3.0).await.unwrap();
    gate.open();
    for poll in polls {
        poll.await.unwrap().unwrap().result().unwrap();
    }
    let asked = stack.upstream.seen_of("tasks/get");
    let declared = asked.iter().filter(|seen| seen.contains("elicitation"));
    assert_eq!((asked.len(), declared.count()), (3, 1));
}

#[tokio::test]
async fn a_poll_before_its_time_is_answered_from_what_is_known_of_a_task_that_goes_on() {
    let (stack, task) = start(|object| object).await;
    let alice = stack.client(ALICE);
    let hour = json!({"pollIntervalMs": 3_600_000, "statusMessage": "half"});
    stack.upstream.bend(&task, &hour).unwrap();
    let first = alice.get(&task).await.unwrap().result().unwrap();
    assert_eq!(first["statusMessage"], "half");
    let second = alice.get(&task).await.unwrap().result().unwrap();
    assert_eq!(stack.upstream.count("tasks/get"), 1, "asked too soon");
    assert_eq!(second["status"], "working");
    assert_eq!(second["statusMessage"], Value::Null, "is never kept");
    assert!(second["_meta"][AGE].as_u64().is_some(), "{second}");
    // A cancel is something new: what comes of it is asked.
    alice.cancel(&task).await.unwrap().result().unwrap();
    stack.upstream.arrived("tasks/cancel", 1).await.unwrap();
    alice.until(&task, "cancelled").await.unwrap();
}

#[tokio::test]
async fn a_question_and_a_payload_are_never_answered_from_memory() {
    let (stack, task) = start(|object| object).await;
    let alice = stack.client(ALICE);
    let hour = json!({"pollIntervalMs": 3_600_000});
    stack.upstream.ask(&task, "k", "Really?").unwrap();
    stack.upstream.bend(&task, &hour).unwrap();
    for asked in 1..=3 {
        let result = alice.get(&task).await.unwrap().result().unwrap();
        assert_eq!(result["status"], "input_required");
        assert_eq!(stack.upstream.count("tasks/get"), asked);
    }
    stack.upstream.complete(&task, "done").unwrap();
    for asked in 4..=6 {
        let result = alice.get(&task).await.unwrap().result().unwrap();
        assert_eq!(result["status"], "completed");
        assert_eq!(stack.upstream.count("tasks/get"), asked);
    }
}

/// Its answer came after that of the cancel, and was told for a minute.
#[tokio::test]
async fn a_poll_that_is_overtaken_by_a_cancel_is_not_remembered() {
    let (stack, task) = start(|object| object).await;
    let alice = stack.client(ALICE);
    let hour = json!({"pollIntervalMs": 3_600_000});
    stack.upstream.bend(&task, &hour).unwrap();
    let gate = Gate::new();
    let held = Answer::built_in().held(&gate);
    stack.upstream.enqueue("tasks/get", held);
    let poll = tokio::spawn({
        let (alice, task) = (alice.clone(), task.clone());
        async move { alice.get(&task).await }
    });
    gate.reached(1).await.unwrap();
    alice.cancel(&task).await.unwrap().result().unwrap();
    stack.upstream.arrived("tasks/cancel", 1).await.unwrap();
    gate.open();
    let overtaken = poll.await.unwrap().unwrap().result().unwrap();
    assert_eq!(overtaken["status"], "working");
    let served = alice.get(&task).await.unwrap().result().unwrap();
    assert_eq!(served["status"], "cancelled");
}

#[tokio::test]
async fn what_is_polled_while_a_cancel_is_on_its_way_is_asked_again_after_it() {
    let (stack, task) = start(|object| object).await;
    let alice = stack.client(ALICE);
    rest(&stack, &alice, &task).await;
    let gate = Gate::new();
    stack.upstream.enqueue("tasks/cancel", ack().held(&gate));
    alice.cancel(&task).await.unwrap().result().unwrap();
    gate.reached(1).await.unwrap();
    rest(&stack, &alice, &task).await;
    let end = json!({"status": "cancelled"});
    stack.upstream.bend(&task, &end).unwrap();
    gate.open();
    alice.until(&task, "cancelled").await.unwrap();
}

#[tokio::test]
async fn a_task_whose_question_was_answered_is_asked_about() {
    let stack = Stack::start().await.unwrap();
    let alice = stack.client(ALICE);
    let task = alice.start_task("ask", json!({})).await.unwrap();
    alice.until(&task, "input_required").await.unwrap();
    let gate = Gate::new();
    stack.upstream.enqueue("tasks/update", ack().held(&gate));
    let update = tokio::spawn({
        let (alice, task) = (alice.clone(), task.clone());
        async move {
            alice
                .answer(&task, "name", "accept", json!({"name": "Ann"}))
                .await
        }
    });
    gate.reached(1).await.unwrap();
    // The upstream has taken the answer, and not said so yet.
    rest(&stack, &alice, &task).await;
    stack.upstream.complete(&task, "done").unwrap();
    gate.open();
    update.await.unwrap().unwrap().result().unwrap();
    let served = alice.get(&task).await.unwrap().result().unwrap();
    assert_eq!(served["status"], "completed");
}

/// A listener hears of news sooner than its task is looked after.
#[tokio::test]
async fn a_task_that_there_is_news_of_is_asked_about() {
    let (stack, task) = start(|object| object).await;
    let alice = stack.client(ALICE);
    let granted = json!({"taskIds": [task]});
    let news = json!({"jsonrpc": "2.0", "method": "notifications/tasks", "params": {
        "taskId": task, "status": "completed", "createdAt": "2026-12-01T06:00:00Z",
        "lastUpdatedAt": "2026-12-01T06:00:01Z", "ttlMs": null,
    }});
    let feed = Feed::script(&stack.upstream, &granted, &[news]);
    let params = json!({"notifications": granted});
    let listen = Envelope::new("subscriptions/listen", params).id(json!("s1"));
    let address = stack.gateway.mcp_address();
    let listener = Open::send(address, PATH, ALICE, &listen).await;
    let mut listener = listener.unwrap();
    listener.events(1).await.unwrap();
    rest(&stack, &alice, &task).await;
    stack.upstream.complete(&task, "done").unwrap();
    // What the listener is to be told does not come.
    let gate = Gate::new();
    let held = Answer::built_in().held(&gate);
    stack.upstream.enqueue("tasks/get", held);
    feed.open_all();
    gate.reached(1).await.unwrap();
    let served = alice.get(&task).await.unwrap().result().unwrap();
    assert_eq!(served["status"], "completed");
}

/// What a poll tells its upstream of the client, or an answer that is judged while the upstream is asked,
/// is there for as long as that takes, whether or not the client is.
#[tokio::test]
async fn what_outlives_its_request_counts_as_held() {
    let (stack, task) = start(|object| object).await;
    let (long, address) = ("x".repeat(64 << 10), stack.gateway.mcp_address());
    let least = long.len() as u64;
    let long = json!(long);
    let answer = json!({"k": {"action": "accept", "content": {"name": long.clone()}}});
    let requests = [
        ("tasks/get", Envelope::get(&task).meta("example/long", long)),
        ("tasks/update", Envelope::update(&task, &answer)),
    ];
    for (method, envelope) in requests {
        let gate = Gate::new();
        let held = Answer::built_in().held(&gate);
        stack.upstream.enqueue("tasks/get", held);
        let client = Open::send(address, PATH, ALICE, &envelope).await.unwrap();
        gate.reached(1).await.unwrap();
        drop(client);
        let gone = [("method", method), ("outcome", "gone")];
        stack.gateway.metric(REQUESTS, &gone, 1.0).await.unwrap();
        let what = format!("bytes held for {method}");
        wait::eventually(&what, async || {
            let held = stack.gateway.scrape().await?.count(HELD, &[])?;
            anyhow::ensure!((least..2 * least).contains(&held), "{held}");
            Ok(())
        })
        .await
        .unwrap();
        gate.open();
        wait::eventually("nothing held", async || {
            wait::same(&stack.gateway.scrape().await?.count(HELD, &[])?, &0)
        })
        .await
        .unwrap();
    }
}
