//! What callers who know nothing of each other may not do to each other.

#![cfg(test)]

use hangar_tests::client::Client;
use hangar_tests::manifests::{self, Manifest, mk_keys};
use hangar_tests::scripted::{Answer, Gate};
use hangar_tests::stack::{ALICE, CAROL, Stack, world};
use hangar_tests::wait;
use hyper::StatusCode;
use serde_json::json;

const UNAVAILABLE: i64 = -31001;
const OTHER_ALICE: &str = "other-alice-key-0123456789abcdef";
const CORRELATION: &str = "hangar-correlation-id";

/// An API key is a principal of its tenant: `alice` here is not `alice` there.
#[tokio::test]
async fn case_97_a_name_in_two_tenants_is_two_owners() {
    let stack = Stack::start().await.unwrap();
    let mut objects = world(&stack.upstream.url());
    objects.pop();
    objects.push(mk_keys(
        "globex",
        &[("carol", CAROL), ("alice", OTHER_ALICE)],
    ));
    manifests::write(&stack.manifests(), "world.yaml", &objects).unwrap();
    let (alice, other) = (stack.client(ALICE), stack.client(OTHER_ALICE));
    wait::eventually("the other alice", async || {
        other.list_tools().await?.result().map(drop)
    })
    .await
    .unwrap();
    let clients = [&alice, &other];
    let mut tasks = Vec::new();
    for client in clients {
        tasks.push(client.start_task("slow", json!({})).await.unwrap());
    }
    for (at, task) in tasks.iter().enumerate() {
        clients[at].until(task, "working").await.unwrap();
        let stranger = clients[1 - at];
        let unknown = stranger.get("unknown").await.unwrap();
        let found = stranger.get(task).await.unwrap();
        assert_eq!(
            found.fingerprint(CORRELATION),
            unknown.fingerprint(CORRELATION)
        );
    }
    let export = stack.export().await.unwrap();
    for tenant in ["acme", "globex"] {
        let owner = format!(r#""tenant":"{tenant}""#);
        let mut lines = export.lines().filter(|line| line.contains(&owner));
        let created = lines.next().unwrap();
        assert!(created.contains(r#""principal":"key:alice""#), "{created}");
    }
}

/// Two requests at once, one of them of each tenant.
fn narrow(object: Manifest) -> Manifest {
    match object.value()["kind"].as_str() {
        Some("McpUpstream") => object.set("/spec/limits/maxConcurrent", json!(2)),
        _ => object,
    }
}

/// A call that keeps its place until the gate opens.
fn hold(client: &Client) -> tokio::task::JoinHandle<()> {
    let client = client.clone();
    tokio::spawn(async move {
        client.call("echo", json!({})).await.unwrap();
    })
}

/// The contract is looked at three times; the third look begins when others have taken every place.
#[tokio::test]
async fn case_99_a_contract_is_seen_though_others_use_up_every_place() {
    let stack = Stack::start_with(narrow).await.unwrap();
    let (alice, carol) = (stack.client(ALICE), stack.client(CAROL));
    let task = alice.start_task("slow", json!({})).await.unwrap();
    stack.upstream.complete(&task, "the-payload").unwrap();
    let lists = stack.upstream.count("tools/list");
    let fails = || Answer::raw("").status(StatusCode::INTERNAL_SERVER_ERROR);
    for _ in 0..2 {
        stack.upstream.enqueue("tools/list", fails());
    }
    let poll = tokio::spawn({
        let (alice, task) = (alice.clone(), task.clone());
        async move { alice.get(&task).await }
    });
    stack
        .upstream
        .arrived("tools/list", lists + 1)
        .await
        .unwrap();
    let gate = Gate::new();
    let held = Answer::built_in().held(&gate);
    stack.upstream.script("tools/call", move |_| held.clone());
    let calls = [hold(&carol), hold(&alice)];
    gate.reached(2).await.unwrap();
    let done = poll.await.unwrap().unwrap().result().unwrap();
    assert_eq!(done["result"]["content"][0]["text"], "the-payload");
    // What cannot be asked now is not answered for, and ends nothing.
    let reply = alice.get(&task).await.unwrap();
    let message = reply.message().unwrap();
    assert_eq!(message["error"]["code"], UNAVAILABLE, "{message}");
    assert_eq!(message["error"]["data"]["status"], "completed");
    gate.open();
    for call in calls {
        call.await.unwrap();
    }
    alice.until(&task, "completed").await.unwrap();
    let events = stack.events(&task).await.unwrap();
    assert_eq!(events, ["TaskCreated", "TaskCompleted"]);
}

/// One tenant that takes all it can is refused itself, and its neighbour's tasks go on.
#[tokio::test]
async fn case_99_a_tenant_at_its_limit_fails_no_task_of_another() {
    let slow = |object: Manifest| match object.value()["spec"]["tenant"].as_str() {
        Some("globex") => object
            .set("/spec/limits/requestsPerSecond", json!(1))
            .set("/spec/limits/burst", json!(4)),
        _ => narrow(object),
    };
    let stack = Stack::start_with(slow).await.unwrap();
    let (alice, carol) = (stack.client(ALICE), stack.client(CAROL));
    let task = alice.start_task("ask", json!({})).await.unwrap();
    let gate = Gate::new();
    for _ in 0..2 {
        let held = Answer::built_in().held(&gate);
        stack.upstream.enqueue("tools/call", held);
    }
    // Half of the places are hers: one of the two is refused at once.
    let calls = [hold(&carol), hold(&carol)];
    gate.reached(1).await.unwrap();
    let mut refused = 0;
    for _ in 0..8 {
        let reply = carol.call("echo", json!({})).await.unwrap();
        refused += usize::from(reply.error_code().is_ok());
        alice.until(&task, "input_required").await.unwrap();
    }
    assert!(refused >= 4, "{refused}");
    let answer = alice.answer(&task, "name", "accept", json!({"name": "Ann"}));
    answer.await.unwrap().result().unwrap();
    alice.until(&task, "completed").await.unwrap();
    let events = stack.events(&task).await.unwrap();
    assert_eq!(
        events,
        ["TaskCreated", "TaskConsentDecided(accept)", "TaskCompleted"]
    );
    assert_eq!(gate.count(), 1);
    gate.open();
    for call in calls {
        call.await.unwrap();
    }
}
