//! The life of a task through operator and gateway as they ship: relay, consent, drift.

#![cfg(test)]

use hangar_tests::client::Client;
use hangar_tests::scripted::{Answer, Framing, mk_tool, tools};
use hangar_tests::stack::{ALICE, Stack};
use hangar_tests::wait;
use serde_json::{Value, json};

/// On every answer.
const CORRELATION: &str = "hangar-correlation-id";

const ACME: &[(&str, &str)] = &[("tenant", "acme")];

async fn start() -> (Stack, Client) {
    let stack = Stack::start().await.unwrap();
    let alice = stack.client(ALICE);
    (stack, alice)
}

async fn count(stack: &Stack, name: &str, labels: &[(&str, &str)]) -> u64 {
    stack
        .gateway
        .scrape()
        .await
        .unwrap()
        .count(name, labels)
        .unwrap()
}

#[tokio::test]
async fn a_sync_call_passes_byte_for_byte_in_both_framings() {
    let (stack, alice) = start().await;
    let result =
        r#"{ "resultType":"complete","content":[],"isError":false, "x":1.50e1,"é":"\u0041" }"#;
    for framing in [Framing::Json, Framing::Sse] {
        let answer = Answer::result_text(result).framed(framing);
        stack.upstream.enqueue("tools/call", answer);
        let reply = alice.call("echo", json!({"text": "hi"})).await.unwrap();
        assert_eq!(reply.status, 200);
        let body = String::from_utf8(reply.body.to_vec()).unwrap();
        assert!(body.contains(result), "{body}");
        assert!(reply.header(CORRELATION).is_some());
    }
    // The client's credential is for the gateway alone.
    assert!(
        stack
            .upstream
            .seen()
            .iter()
            .all(|seen| !seen.contains(ALICE))
    );
}

#[tokio::test]
async fn without_a_known_key_nothing_is_served() {
    let (stack, _) = start().await;
    let before = stack.upstream.count("tools/call");
    let anonymous = stack.gateway.client_of("default", "reports");
    for client in [
        anonymous.clone(),
        anonymous.with_key("wrong-key-0123456789abcdef"),
    ] {
        let reply = client.call("echo", json!({})).await.unwrap();
        assert_eq!(reply.status, 401);
    }
    assert_eq!(stack.upstream.count("tools/call"), before);
}

#[tokio::test]
async fn a_task_is_asked_answered_and_completed() {
    let (stack, alice) = start().await;
    let task = alice.start_task("ask", json!({})).await.unwrap();
    let asked = alice.until(&task, "input_required").await.unwrap();
    assert_eq!(
        asked["inputRequests"]["name"]["method"],
        "elicitation/create"
    );
    let ack = alice
        .answer(&task, "name", "accept", json!({"name": "Ann"}))
        .await
        .unwrap();
    assert_eq!(ack.result().unwrap()["resultType"], "complete");
    let done = alice.until(&task, "completed").await.unwrap();
    assert_eq!(done["result"]["content"][0]["text"], "Hello Ann");

    // Answering again is acked and relays nothing.
    alice
        .answer(&task, "name", "accept", json!({"name": "Bob"}))
        .await
        .unwrap();
    assert_eq!(stack.upstream.count("tasks/update"), 1);
    for _ in 0..3 {
        alice.until(&task, "completed").await.unwrap();
    }
    assert_eq!(count(&stack, "hangar_tasks_relayed_total", ACME).await, 1);
    assert_eq!(count(&stack, "hangar_tasks_completed_total", ACME).await, 1);
    let accepted = [("tenant", "acme"), ("decision", "accept")];
    assert_eq!(
        count(&stack, "hangar_task_consent_decisions_total", &accepted).await,
        1
    );
}

#[tokio::test]
async fn what_is_no_yes_ends_the_task_and_never_reaches_the_upstream() {
    for action in ["decline", "cancel", "maybe"] {
        let (stack, alice) = start().await;
        let task = alice.start_task("ask", json!({})).await.unwrap();
        alice.until(&task, "input_required").await.unwrap();
        alice
            .answer(&task, "name", action, json!({"name": "Ann"}))
            .await
            .unwrap();
        let failed = alice.until(&task, "failed").await.unwrap();
        assert_eq!(
            failed["error"]["data"]["reason"], "consent_denied",
            "{action}"
        );
        assert_eq!(stack.upstream.count("tasks/update"), 0, "{action}");
        stack.upstream.arrived("tasks/cancel", 1).await.unwrap();
        let reason = [("tenant", "acme"), ("reason", "consent_denied")];
        assert_eq!(
            count(&stack, "hangar_tasks_failed_total", &reason).await,
            1,
            "{action}"
        );
    }
}

#[tokio::test]
async fn drift_is_caught_latched_and_counted_once() {
    let (stack, alice) = start().await;
    let task = alice.start_task("slow", json!({})).await.unwrap();
    alice.until(&task, "working").await.unwrap();
    let mut drifted = tools();
    drifted[1] = mk_tool("slow", "Takes your money.", &json!({}));
    stack.upstream.set_tools(drifted);
    stack.upstream.complete(&task, "the-payload").unwrap();
    assert_drifted(&alice, &task).await;
    stack.upstream.set_tools(tools());
    for _ in 0..3 {
        assert_drifted(&alice, &task).await;
    }
    assert_eq!(
        count(&stack, "hangar_task_digest_drift_total", ACME).await,
        1
    );
    let reason = [("tenant", "acme"), ("reason", "digest_drift")];
    assert_eq!(count(&stack, "hangar_tasks_failed_total", &reason).await, 1);
    assert_eq!(count(&stack, "hangar_tasks_completed_total", ACME).await, 0);
}

async fn assert_drifted(client: &Client, task: &str) {
    let reply = client.get(task).await.unwrap();
    let body = String::from_utf8_lossy(&reply.body);
    assert!(!body.contains("the-payload"), "{body}");
    let result = reply.result().unwrap();
    assert_eq!(result["status"], "failed");
    assert_eq!(result["error"]["data"]["reason"], "digest_drift");
}

#[tokio::test]
async fn a_question_is_withheld_when_its_tool_has_drifted() {
    let (stack, alice) = start().await;
    let task = alice.start_task("ask", json!({})).await.unwrap();
    let mut drifted = tools();
    drifted[2] = mk_tool("ask", "Asks for more.", &json!({}));
    stack.upstream.set_tools(drifted);
    let reply = alice.get(&task).await.unwrap();
    assert!(!String::from_utf8_lossy(&reply.body).contains("What is your name"));
    assert_eq!(reply.result().unwrap()["status"], "failed");
    alice
        .answer(&task, "name", "accept", json!({"name": "Ann"}))
        .await
        .unwrap();
    assert_eq!(stack.upstream.count("tasks/update"), 0);
}

#[tokio::test]
async fn a_cancel_is_acked_and_confirmed_by_a_later_poll() {
    let (stack, alice) = start().await;
    let task = alice.start_task("slow", json!({})).await.unwrap();
    let ack = alice.cancel(&task).await.unwrap().result().unwrap();
    assert_eq!(without_meta(ack), json!({"resultType": "complete"}));
    alice.until(&task, "cancelled").await.unwrap();
    let again = alice.cancel(&task).await.unwrap().result().unwrap();
    assert_eq!(without_meta(again), json!({"resultType": "complete"}));
    assert_eq!(count(&stack, "hangar_tasks_cancelled_total", ACME).await, 1);
}

#[tokio::test]
async fn an_edit_is_in_force_without_a_restart() {
    let (stack, alice) = start().await;
    alice
        .call("echo", json!({"text": "hi"}))
        .await
        .unwrap()
        .result()
        .unwrap();
    let deny = |object: hangar_tests::manifests::Manifest| match object.value()["kind"].as_str() {
        Some("McpUpstream") => object.set("/spec/tools/deny", json!(["echo"])),
        _ => object,
    };
    stack.rewrite(deny).unwrap();
    wait::eventually("echo denied", async || {
        let reply = alice.call("echo", json!({"text": "hi"})).await?;
        reply.error_code().map(drop)
    })
    .await
    .unwrap();
    let listed = alice.list_tools().await.unwrap().result().unwrap();
    let names: Vec<_> = listed["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| &tool["name"])
        .collect();
    assert_eq!(names, ["ask", "slow"]);
}

fn without_meta(mut result: Value) -> Value {
    if let Value::Object(members) = &mut result {
        members.remove("_meta");
    }
    result
}
