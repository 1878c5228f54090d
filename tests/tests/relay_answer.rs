//! `onDecline: RelayAnswer`: a plain no goes to the upstream instead of ending the task.

#![cfg(test)]

use hangar_tests::client::{Client, Reply};
use hangar_tests::envelope::{Capabilities, Envelope};
use hangar_tests::manifests::Manifest;
use hangar_tests::scripted::{Answer, Gate, mk_tool, tools};
use hangar_tests::stack::{ALICE, BOB, Stack};
use serde_json::{Value, json};

const DECISIONS: &str = "hangar_task_consent_decisions_total";
const FAILED: &str = "hangar_tasks_failed_total";

/// A no in a spelling of its own, so that a rewrite would show.
const NO: &str = r#"{ "_meta":{"n":1.50e1}, "action" : "decl\u0069ne" }"#;

/// A task that asks under the key `name`, shown once, of a tenant that has its declines relayed.
async fn asked() -> (Stack, Client, String) {
    let relays = |object: Manifest| match object.value()["spec"]["tenant"].as_str() {
        Some("acme") => object.set(
            "/spec/upstreams/0/tasks/consent/onDecline",
            json!("RelayAnswer"),
        ),
        _ => object,
    };
    let stack = Stack::start_with(relays).await.unwrap();
    let alice = stack.client(ALICE);
    let task = begin(&alice).await;
    (stack, alice, task)
}

async fn begin(client: &Client) -> String {
    let task = client.start_task("ask", json!({})).await.unwrap();
    client.until(&task, "input_required").await.unwrap();
    task
}

/// An update whose answers are spelled exactly so.
async fn spelled(client: &Client, task: &str, answers: &[(&str, &str)]) -> Reply {
    let places: serde_json::Map<_, _> = answers
        .iter()
        .map(|(key, _)| ((*key).to_owned(), json!(format!("HERE {key}"))))
        .collect();
    let envelope = Envelope::update(task, &Value::Object(places));
    let mut body = String::from_utf8(envelope.body().to_vec()).unwrap();
    for (key, answer) in answers {
        body = body.replace(&format!("\"HERE {key}\""), answer);
    }
    client.post(envelope.headers(), body.into()).await.unwrap()
}

fn assert_ack(reply: &Reply) {
    let mut result = reply.result().unwrap();
    result.as_object_mut().unwrap().remove("_meta");
    assert_eq!(result, json!({"resultType": "complete"}));
}

async fn assert_failed(client: &Client, task: &str, reason: &str) {
    let failed = client.get(task).await.unwrap().result().unwrap();
    assert_eq!(failed["status"], "failed", "{failed}");
    assert_eq!(failed["error"]["data"]["reason"], reason);
}

/// The verdicts on the chain of one task, in order.
async fn verdicts(stack: &Stack, task: &str) -> Vec<Value> {
    let export = stack.export().await.unwrap();
    let events = export
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    events
        .filter(|event: &Value| event["key"]["task"] == task)
        .map(|event| event["detail"]["verdict"].clone())
        .filter(|verdict| !verdict.is_null())
        .collect()
}

#[tokio::test]
async fn case_65_with_relay_answer_a_no_is_relayed_byte_equal_and_recorded_as_a_decline() {
    let (stack, alice, declined) = asked().await;
    let cancelled = begin(&alice).await;
    let cancel = NO.replace("decl\\u0069ne", "cancel");
    for (count, (task, answer, reason)) in (1..).zip([
        (&declined, NO, "declined"),
        (&cancelled, cancel.as_str(), "cancelled"),
    ]) {
        assert_ack(&spelled(&alice, task, &[("name", answer)]).await);
        let relayed = stack.upstream.seen_of("tasks/update");
        assert_eq!(relayed.len(), count);
        let relayed = &relayed[count - 1];
        assert!(relayed.contains(answer), "{relayed:?}");
        assert_eq!(relayed.params()["taskId"], json!(task));
        // The upstream decides what becomes of its task.
        let done = alice.until(task, "completed").await.unwrap();
        assert_eq!(done["result"]["content"][0]["text"], "No name given");
        assert_eq!(
            stack.events(task).await.unwrap(),
            [
                "TaskCreated",
                "TaskConsentDecided(decline)",
                "TaskCompleted"
            ]
        );
        let verdicts = verdicts(&stack, task).await;
        assert_eq!(verdicts[0]["by"], json!({"caller": "key:alice"}));
        assert_eq!(verdicts[0]["reason"], reason);
        assert_eq!(verdicts[0]["relayed"]["relay"], "confirmed");
        let labels = [("decision", "decline"), ("reason", reason)];
        assert_eq!(stack.count(DECISIONS, &labels).await.unwrap(), 1);
    }
    assert_eq!(stack.upstream.count("tasks/cancel"), 0);
    assert_eq!(stack.count(FAILED, &[]).await.unwrap(), 0);
}

/// What is no answer is not relayed: the upstream could take it for a yes.
#[tokio::test]
async fn case_66_with_relay_answer_what_is_no_answer_still_fails_the_task() {
    let (stack, alice, first) = asked().await;
    let table = [
        ("null", "not_an_answer"),
        ("7", "not_an_answer"),
        ("{}", "missing_action"),
        (r#"{"action":"yes"}"#, "unknown_action"),
        (r#"{"action":"DECLINE"}"#, "unknown_action"),
        (r#"{"action":"decline","action":"accept"}"#, "not_an_answer"),
    ];
    let mut task = first;
    for (count, (answer, reason)) in (1..).zip(table) {
        let reply = spelled(&alice, &task, &[("name", answer)]).await;
        assert_ack(&reply);
        assert_failed(&alice, &task, "consent_denied").await;
        let labels = [("decision", "decline"), ("reason", reason)];
        let decided = stack.count(DECISIONS, &labels).await.unwrap();
        assert!(decided >= 1, "{answer}");
        stack.upstream.arrived("tasks/cancel", count).await.unwrap();
        task = begin(&alice).await;
    }
    assert_eq!(stack.upstream.count("tasks/update"), 0);
}

/// One Decline in an update relays nothing of it, a relayed one aside.
#[tokio::test]
async fn case_65_a_yes_and_a_relayed_no_go_in_one_update() {
    let (stack, alice, task) = asked().await;
    stack.upstream.ask(&task, "age", "How old?").unwrap();
    alice.until(&task, "input_required").await.unwrap();
    let yes = r#"{"action":"accept", "content":{"name":"Ann"}}"#;
    assert_ack(&spelled(&alice, &task, &[("age", NO), ("name", yes)]).await);
    let relayed = stack.upstream.seen_of("tasks/update");
    assert_eq!(relayed.len(), 1);
    assert!(relayed[0].contains(NO) && relayed[0].contains(yes));
    alice.until(&task, "completed").await.unwrap();
    for (decision, count) in [("accept", 1), ("decline", 1)] {
        let labels = [("decision", decision)];
        assert_eq!(stack.count(DECISIONS, &labels).await.unwrap(), count);
    }
    // What cannot be relayed takes all of its update with it.
    let task = begin(&alice).await;
    stack.upstream.ask(&task, "age", "How old?").unwrap();
    alice.until(&task, "input_required").await.unwrap();
    assert_ack(&spelled(&alice, &task, &[("age", NO), ("name", "null")]).await);
    assert_failed(&alice, &task, "consent_denied").await;
    assert_eq!(stack.upstream.count("tasks/update"), 1);
}

/// A relayed no is a grant like any other: once, under a claim, and never beside drift.
#[tokio::test]
async fn case_64_the_same_no_many_times_at_once_is_relayed_once() {
    let (stack, alice, task) = asked().await;
    let gate = Gate::new();
    stack
        .upstream
        .enqueue("tasks/update", Answer::built_in().held(&gate));
    let answers: Vec<_> = (0..5)
        .map(|_| {
            let (alice, task) = (alice.clone(), task.clone());
            tokio::spawn(async move { spelled(&alice, &task, &[("name", NO)]).await })
        })
        .collect();
    gate.reached(1).await.unwrap();
    gate.open();
    for answer in answers {
        assert_ack(&answer.await.unwrap());
    }
    alice.until(&task, "completed").await.unwrap();
    assert_eq!(stack.upstream.count("tasks/update"), 1);
    assert_eq!(stack.count(DECISIONS, &[]).await.unwrap(), 1);
    // Drift wins against a no as well.
    let task = begin(&alice).await;
    let mut drifted = tools();
    drifted[2] = mk_tool("ask", "Asks for more.", &json!({}));
    stack.upstream.set_tools(drifted);
    assert_ack(&spelled(&alice, &task, &[("name", NO)]).await);
    assert_failed(&alice, &task, "digest_drift").await;
    assert_eq!(stack.upstream.count("tasks/update"), 1);
}

/// A definite refusal gives the question back; an unknown outcome after a yes does not take a no.
#[tokio::test]
async fn case_73_a_no_after_a_yes_of_unknown_outcome_fails_the_task() {
    let (stack, alice, task) = asked().await;
    stack
        .upstream
        .enqueue("tasks/update", Answer::error(-32602, "not so"));
    let reply = spelled(&alice, &task, &[("name", NO)]).await;
    assert!(reply.error_code().is_ok());
    alice.until(&task, "input_required").await.unwrap();
    assert_eq!(stack.count(DECISIONS, &[]).await.unwrap(), 0);
    stack.upstream.enqueue("tasks/update", Answer::hang_up());
    let yes = alice.answer(&task, "name", "accept", json!({"name": "Ann"}));
    assert!(yes.await.unwrap().error_code().is_ok());
    alice.until(&task, "input_required").await.unwrap();
    assert_ack(&spelled(&alice, &task, &[("name", NO)]).await);
    assert_failed(&alice, &task, "consent_denied").await;
    assert_eq!(stack.upstream.count("tasks/update"), 2);
    stack.upstream.arrived("tasks/cancel", 1).await.unwrap();
    assert_eq!(
        stack.events(&task).await.unwrap(),
        [
            "TaskCreated",
            "TaskConsentDecided(accept)",
            "TaskConsentDecided(decline)",
            "TaskFailed(consent_denied)"
        ]
    );
    let verdicts = verdicts(&stack, &task).await;
    assert_eq!(verdicts[0]["relay"], "unknown");
    assert!(verdicts[1]["relayed"].is_null());
}

/// Who may not say yes may not say no either, and a no needs no capability.
#[tokio::test]
async fn case_75_a_no_needs_no_capability_and_a_stranger_has_none() {
    let (stack, alice, task) = asked().await;
    let bob = stack.client(BOB);
    let reply = spelled(&bob, &task, &[("name", NO)]).await;
    assert_eq!(reply.error_code().unwrap(), -32602);
    assert_eq!(stack.upstream.count("tasks/update"), 0);
    let no = json!({"name": {"action": "decline"}});
    let update = Envelope::update(&task, &no).capabilities(Capabilities::Tasks);
    assert_ack(&alice.send(&update).await.unwrap());
    alice.until(&task, "completed").await.unwrap();
    assert_eq!(stack.upstream.count("tasks/update"), 1);
}
