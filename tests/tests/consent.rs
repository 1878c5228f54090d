//! Questions of a task: only an explicit yes to exactly that question reaches the upstream.

#![cfg(test)]

use hangar_tests::client::{Client, Reply};
use hangar_tests::envelope::{Capabilities, Envelope};
use hangar_tests::manifests::Manifest;
use hangar_tests::scripted::{Answer, Gate, mk_tool, tools};
use hangar_tests::stack::{ALICE, BOB, CAROL, Stack};
use hyper::StatusCode;
use serde_json::{Value, json};

const DECISIONS: &str = "hangar_task_consent_decisions_total";

/// A task that asks under the key `name`, not yet polled.
async fn start() -> (Stack, Client, String) {
    start_with(|object| object).await
}

async fn start_with(edit: impl Fn(Manifest) -> Manifest) -> (Stack, Client, String) {
    let stack = Stack::start_with(edit).await.unwrap();
    let alice = stack.client(ALICE);
    let task = alice.start_task("ask", json!({})).await.unwrap();
    (stack, alice, task)
}

/// The same after the question was shown.
async fn asked() -> (Stack, Client, String) {
    let (stack, alice, task) = start().await;
    alice.until(&task, "input_required").await.unwrap();
    (stack, alice, task)
}

fn yes() -> Value {
    json!({"action": "accept", "content": {"name": "Ann"}})
}

async fn accept(client: &Client, task: &str) -> Reply {
    update(client, task, &json!({"name": yes()})).await
}

async fn update(client: &Client, task: &str, responses: &Value) -> Reply {
    client
        .send(&Envelope::update(task, responses))
        .await
        .unwrap()
}

fn assert_ack(reply: &Reply) {
    assert_eq!(reply.status, 200);
    let mut result = reply.result().unwrap();
    result.as_object_mut().unwrap().remove("_meta");
    assert_eq!(result, json!({"resultType": "complete"}));
}

async fn assert_failed(client: &Client, task: &str, reason: &str) {
    let failed = client.get(task).await.unwrap().result().unwrap();
    assert_eq!(failed["status"], "failed", "{failed}");
    assert_eq!(failed["error"]["data"]["reason"], reason);
}

#[tokio::test]
async fn case_63_an_accept_is_relayed_byte_for_byte_and_recorded_with_its_principal() {
    let (stack, alice, task) = asked().await;
    let answer = r#"{ "content":{"name":"\u0041nn","n":1.50e1},"action":"accept", "_meta":{} }"#;
    let envelope = Envelope::update(&task, &json!({"name": "HERE"}));
    let body = String::from_utf8(envelope.body().to_vec()).unwrap();
    let body = body.replace("\"HERE\"", answer);
    let reply = alice.post(envelope.headers(), body.into()).await.unwrap();
    assert_ack(&reply);
    let relayed = stack.upstream.seen_of("tasks/update");
    assert_eq!(relayed.len(), 1);
    assert!(relayed[0].contains(answer));
    assert_eq!(relayed[0].params()["taskId"], json!(task));
    let done = alice.until(&task, "completed").await.unwrap();
    assert_eq!(done["result"]["content"][0]["text"], "Hello Ann");
    assert_eq!(
        stack.events(&task).await.unwrap(),
        ["TaskCreated", "TaskConsentDecided(accept)", "TaskCompleted"]
    );
    let verdict = &decided(&stack, &task).await["detail"]["verdict"];
    assert_eq!(verdict["principal"], "key:alice");
    assert_eq!(verdict["relay"], "confirmed");
}

#[tokio::test]
async fn case_64_one_answer_many_times_at_once_is_relayed_once() {
    let (stack, alice, task) = asked().await;
    // All of them are told that the question is open, before any is relayed.
    let gate = Gate::new();
    let held = Answer::built_in().held(&gate);
    stack.upstream.script("tasks/get", move |_| held.clone());
    let answers: Vec<_> = (0..5)
        .map(|_| {
            let (alice, task) = (alice.clone(), task.clone());
            tokio::spawn(async move { accept(&alice, &task).await })
        })
        .collect();
    gate.reached(1).await.unwrap();
    let inflight = "hangar_inflight_requests";
    stack.gateway.metric(inflight, &[], 5.0).await.unwrap();
    gate.open();
    for answer in answers {
        assert_ack(&answer.await.unwrap());
    }
    alice.until(&task, "completed").await.unwrap();
    assert_eq!(stack.upstream.count("tasks/update"), 1);
    assert_eq!(stack.count(DECISIONS, &[]).await.unwrap(), 1);
}

/// What comes while the first is on its way does not wait for it, not even a no.
#[tokio::test]
async fn case_64_an_answer_that_is_on_its_way_is_the_answer() {
    let (stack, alice, task) = asked().await;
    let gate = Gate::new();
    // The upstream goes on asking: nothing but the claim says that it has an answer.
    let late = Answer::result(&json!({"resultType": "complete"})).held(&gate);
    stack.upstream.enqueue("tasks/update", late);
    let first = tokio::spawn({
        let (alice, task) = (alice.clone(), task.clone());
        async move { accept(&alice, &task).await }
    });
    gate.reached(1).await.unwrap();
    assert_ack(&accept(&alice, &task).await);
    let no = json!({"name": {"action": "decline"}});
    assert_ack(&update(&alice, &task, &no).await);
    gate.open();
    assert_ack(&first.await.unwrap());
    stack.upstream.complete(&task, "done").unwrap();
    alice.until(&task, "completed").await.unwrap();
    assert_eq!(stack.upstream.count("tasks/update"), 1);
    assert_eq!(
        stack.events(&task).await.unwrap(),
        ["TaskCreated", "TaskConsentDecided(accept)", "TaskCompleted"]
    );
}

/// A no, in either of its two words.
#[tokio::test]
async fn case_65_decline_and_cancel_end_the_task() {
    assert_declines(vec![
        (json!({"action": "decline"}), "declined"),
        (json!({"action": "cancel"}), "cancelled"),
    ])
    .await;
}

/// Whatever else is no yes to an outstanding question is a no, with its reason.
#[tokio::test]
async fn case_66_what_is_no_answer_is_a_decline_with_a_reason() {
    assert_declines(vec![
        (Value::Null, "not_an_answer"),
        (json!("accept"), "not_an_answer"),
        (json!({"content": {"name": "Ann"}}), "missing_action"),
        (json!({"action": "Accept"}), "unknown_action"),
        (json!({"action": true}), "unknown_action"),
        (json!({"action": ["accept"]}), "unknown_action"),
    ])
    .await;
}

async fn assert_declines(cases: Vec<(Value, &str)>) {
    let stack = Stack::start().await.unwrap();
    let alice = stack.client(ALICE);
    for (count, (answer, reason)) in (1..).zip(cases) {
        let task = alice.start_task("ask", json!({})).await.unwrap();
        alice.until(&task, "input_required").await.unwrap();
        assert_ack(&update(&alice, &task, &json!({"name": answer})).await);
        assert_failed(&alice, &task, "consent_denied").await;
        assert_eq!(
            stack.events(&task).await.unwrap(),
            [
                "TaskCreated",
                "TaskConsentDecided(decline)",
                "TaskFailed(consent_denied)"
            ],
            "{answer}"
        );
        let verdict = &decided(&stack, &task).await["detail"]["verdict"];
        assert_eq!(verdict["by"], json!({"caller": "key:alice"}), "{verdict}");
        assert_eq!(verdict["reason"], reason);
        let labels = [("decision", "decline"), ("reason", reason)];
        assert!(stack.count(DECISIONS, &labels).await.unwrap() >= 1);
        stack.upstream.arrived("tasks/cancel", count).await.unwrap();
        assert_eq!(stack.upstream.count("tasks/cancel"), count, "{answer}");
    }
    assert_eq!(stack.upstream.count("tasks/update"), 0);
}

/// The decision on a task's only question.
async fn decided(stack: &Stack, task: &str) -> Value {
    let export = stack.export().await.unwrap();
    let mut lines = export
        .lines()
        .filter(|line| line.contains(task) && line.contains("TaskConsentDecided"));
    let line = lines.next().unwrap();
    assert!(lines.next().is_none(), "{export}");
    serde_json::from_str(line).unwrap()
}

#[tokio::test]
async fn case_66_what_answers_nothing_is_acknowledged_and_ignored() {
    let (stack, alice, task) = asked().await;
    let working = alice.start_task("slow", json!({})).await.unwrap();
    assert_ack(&update(&alice, &working, &json!({"name": yes()})).await);
    assert_ack(&update(&alice, &working, &json!({"name": null})).await);
    for nothing in [
        json!({}),
        json!({"unknown": yes()}),
        json!({"unknown": {"action": "decline"}}),
        json!({"": yes()}),
        json!({"k".repeat(600): yes()}),
    ] {
        assert_ack(&update(&alice, &task, &nothing).await);
    }
    assert_eq!(stack.upstream.count("tasks/update"), 0);
    assert_ack(&accept(&alice, &task).await);
    // Used up, also for a no.
    assert_ack(&accept(&alice, &task).await);
    assert_ack(&update(&alice, &task, &json!({"name": {"action": "decline"}})).await);
    alice.until(&task, "completed").await.unwrap();
    assert_eq!(stack.upstream.count("tasks/update"), 1);
    assert_eq!(stack.count(DECISIONS, &[]).await.unwrap(), 1);
    assert_eq!(stack.events(&working).await.unwrap(), ["TaskCreated"]);
}

#[tokio::test]
async fn case_67_of_two_questions_each_has_its_own_answer() {
    let (stack, alice, task) = start().await;
    stack.upstream.ask(&task, "age", "How old?").unwrap();
    alice.until(&task, "input_required").await.unwrap();
    let age = json!({"age": {"action": "accept", "content": {"name": "7"}}});
    assert_ack(&update(&alice, &task, &age).await);
    let still = alice.until(&task, "input_required").await.unwrap();
    let left: Vec<_> = still["inputRequests"].as_object().unwrap().keys().collect();
    assert_eq!(left, ["name"]);
    assert_eq!(stack.count(DECISIONS, &[]).await.unwrap(), 1);
    assert_ack(&accept(&alice, &task).await);
    alice.until(&task, "completed").await.unwrap();
    assert_eq!(stack.count(DECISIONS, &[]).await.unwrap(), 2);
    let relayed = stack.upstream.seen_of("tasks/update");
    let keys = |index: usize| relayed[index].params()["inputResponses"].take();
    assert_eq!(keys(0), age);
    assert_eq!(keys(1), json!({"name": yes()}));
}

/// A yes beside a no is not relayed.
#[tokio::test]
async fn case_65_one_decline_relays_nothing_of_its_update() {
    let (stack, alice, task) = start().await;
    stack.upstream.ask(&task, "age", "How old?").unwrap();
    alice.until(&task, "input_required").await.unwrap();
    let mixed = json!({"name": yes(), "age": {"action": "decline"}});
    assert_ack(&update(&alice, &task, &mixed).await);
    assert_failed(&alice, &task, "consent_denied").await;
    assert_eq!(stack.upstream.count("tasks/update"), 0);
    let accepted = [("decision", "accept")];
    assert_eq!(stack.count(DECISIONS, &accepted).await.unwrap(), 0);
}

/// The no was acknowledged while the yes was on its way, and is not forgotten when that yes is not
/// taken: a retry of it would go upstream against the last word of the one who answers.
#[tokio::test]
async fn case_65_a_no_after_a_yes_on_its_way_holds_unless_the_yes_was_taken() {
    let refused = Answer::error(-32602, "not so");
    let denied = [
        "TaskCreated",
        "TaskConsentDecided(decline)",
        "TaskFailed(consent_denied)",
    ];
    let in_doubt = [
        "TaskCreated",
        "TaskConsentDecided(accept)",
        "TaskConsentDecided(decline)",
        "TaskFailed(consent_denied)",
    ];
    let ends = [(refused, &denied[..]), (Answer::hang_up(), &in_doubt[..])];
    for (end, chain) in ends {
        let (stack, alice, task) = asked().await;
        let gate = Gate::new();
        stack.upstream.enqueue("tasks/update", end.held(&gate));
        let first = tokio::spawn({
            let (alice, task) = (alice.clone(), task.clone());
            async move { accept(&alice, &task).await }
        });
        gate.reached(1).await.unwrap();
        let no = json!({"name": {"action": "decline"}});
        assert_ack(&update(&alice, &task, &no).await);
        assert_eq!(stack.count(DECISIONS, &[]).await.unwrap(), 0);
        gate.open();
        assert!(first.await.unwrap().error_code().is_ok());
        assert_failed(&alice, &task, "consent_denied").await;
        assert_ack(&accept(&alice, &task).await);
        assert_eq!(stack.upstream.count("tasks/update"), 1);
        assert_eq!(stack.events(&task).await.unwrap(), chain);
    }
}

/// Found by the poll and found by the update.
#[tokio::test]
async fn case_68_another_question_under_the_same_key_ends_the_task() {
    for answers in [false, true] {
        let (stack, alice, task) = asked().await;
        stack.upstream.ask(&task, "name", "May I sell it?").unwrap();
        if answers {
            assert_ack(&accept(&alice, &task).await);
        } else {
            let reply = alice.get(&task).await.unwrap();
            assert!(!String::from_utf8_lossy(&reply.body).contains("May I sell it"));
        }
        assert_failed(&alice, &task, "upstream_protocol").await;
        assert_ack(&accept(&alice, &task).await);
        assert_eq!(stack.upstream.count("tasks/update"), 0);
        stack.upstream.arrived("tasks/cancel", 1).await.unwrap();
        assert_eq!(
            stack.events(&task).await.unwrap(),
            ["TaskCreated", "TaskFailed(upstream_protocol)"]
        );
    }
}

/// What was never shown cannot have been agreed to.
#[tokio::test]
async fn an_answer_to_a_question_that_was_never_shown_is_not_relayed() {
    let (stack, alice, task) = start().await;
    accept(&alice, &task).await;
    assert_eq!(stack.upstream.count("tasks/update"), 0);
    let accepted = [("decision", "accept")];
    assert_eq!(stack.count(DECISIONS, &accepted).await.unwrap(), 0);
}

#[tokio::test]
async fn case_69_a_used_key_never_asks_anything_else() {
    // Two questions, so that the task goes on after the first answer.
    let (stack, alice, task) = start().await;
    stack.upstream.ask(&task, "age", "How old?").unwrap();
    let first = alice.until(&task, "input_required").await.unwrap();
    assert_ack(&accept(&alice, &task).await);
    assert_eq!(stack.upstream.count("tasks/update"), 1);
    // The same one again passes, and its answer goes nowhere.
    let again = json!({"inputRequests": first["inputRequests"]});
    stack.upstream.bend(&task, &again).unwrap();
    alice.until(&task, "input_required").await.unwrap();
    assert_ack(&accept(&alice, &task).await);
    // Nor does a no undo it.
    assert_ack(&update(&alice, &task, &json!({"name": {"action": "decline"}})).await);
    alice.until(&task, "input_required").await.unwrap();
    assert_eq!(stack.upstream.count("tasks/update"), 1);
    assert_eq!(stack.count(DECISIONS, &[]).await.unwrap(), 1);
    // Another one does not.
    stack.upstream.ask(&task, "name", "May I sell it?").unwrap();
    assert_failed(&alice, &task, "upstream_protocol").await;
    assert_eq!(
        stack.events(&task).await.unwrap(),
        [
            "TaskCreated",
            "TaskConsentDecided(accept)",
            "TaskFailed(upstream_protocol)"
        ]
    );
}

#[tokio::test]
async fn case_70_a_question_that_nobody_answers_expires() {
    let brief = |object: Manifest| match object.value()["spec"]["tenant"].as_str() {
        Some("acme") => object.set("/spec/upstreams/0/tasks/consent/ttl", json!("1s")),
        _ => object,
    };
    let (stack, alice, task) = start_with(brief).await;
    alice.until(&task, "input_required").await.unwrap();
    let failed = alice.until(&task, "failed").await.unwrap();
    assert_eq!(failed["error"]["data"]["reason"], "consent_expired");
    assert_ack(&accept(&alice, &task).await);
    assert_eq!(stack.upstream.count("tasks/update"), 0);
    stack.upstream.arrived("tasks/cancel", 1).await.unwrap();
    assert_eq!(
        stack.events(&task).await.unwrap(),
        ["TaskCreated", "TaskFailed(consent_expired)"]
    );
}

/// An answer that comes too late, without a poll in between.
#[tokio::test]
async fn case_70_an_answer_after_the_question_expired_is_not_relayed() {
    let brief = |object: Manifest| match object.value()["spec"]["tenant"].as_str() {
        Some("acme") => object.set("/spec/upstreams/0/tasks/consent/ttl", json!("1s")),
        _ => object,
    };
    let (stack, alice, task) = start_with(brief).await;
    let later = alice.start_task("ask", json!({})).await.unwrap();
    for task in [&task, &later] {
        alice.until(task, "input_required").await.unwrap();
    }
    // Shown after the other one, so that it is over for both.
    alice.until(&later, "failed").await.unwrap();
    assert_ack(&accept(&alice, &task).await);
    assert_failed(&alice, &task, "consent_expired").await;
    assert_eq!(stack.upstream.count("tasks/update"), 0);
    assert_eq!(stack.count(DECISIONS, &[]).await.unwrap(), 0);
}

#[tokio::test]
async fn case_72_a_definite_refusal_releases_the_answer() {
    let (stack, alice, task) = asked().await;
    let refusals = [
        Answer::error(-32602, "not so").status(StatusCode::BAD_REQUEST),
        Answer::error(-32021, "not so"),
        Answer::raw("").status(StatusCode::TOO_MANY_REQUESTS),
    ];
    for refusal in refusals {
        stack.upstream.enqueue("tasks/update", refusal);
        let reply = accept(&alice, &task).await;
        assert!(reply.error_code().is_ok());
        alice.until(&task, "input_required").await.unwrap();
        assert_eq!(stack.count(DECISIONS, &[]).await.unwrap(), 0);
    }
    // Released: another answer may be given.
    let other = json!({"name": {"action": "accept", "content": {"name": "Bea"}}});
    assert_ack(&update(&alice, &task, &other).await);
    let done = alice.until(&task, "completed").await.unwrap();
    assert_eq!(done["result"]["content"][0]["text"], "Hello Bea");
    assert_eq!(stack.count(DECISIONS, &[]).await.unwrap(), 1);
}

/// The upstream took it, and nobody heard so.
#[tokio::test]
async fn case_73_a_relay_of_unknown_outcome_is_settled_by_a_later_poll() {
    let (stack, alice, task) = asked().await;
    stack
        .upstream
        .enqueue("tasks/update", Answer::built_in().cut_at(5));
    let reply = accept(&alice, &task).await;
    assert!(reply.error_code().is_ok());
    assert_eq!(stack.count(DECISIONS, &[]).await.unwrap(), 0);
    alice.until(&task, "completed").await.unwrap();
    assert_eq!(stack.upstream.count("tasks/update"), 1);
    let accepted = [("decision", "accept")];
    assert_eq!(stack.count(DECISIONS, &accepted).await.unwrap(), 1);
    assert_eq!(
        stack.events(&task).await.unwrap(),
        ["TaskCreated", "TaskConsentDecided(accept)", "TaskCompleted"]
    );
}

/// What a poll says that began before the relay ended is no word of how it ended.
#[tokio::test]
async fn case_73_a_poll_that_began_before_settles_nothing() {
    let (stack, alice, task) = asked().await;
    let gate = Gate::new();
    let mut working = stack.upstream.task(&task).unwrap();
    working["resultType"] = json!("complete");
    working["status"] = json!("working");
    working.as_object_mut().unwrap().remove("inputRequests");
    let early = Answer::result(&working).held(&gate);
    stack.upstream.enqueue("tasks/get", early);
    let poll = tokio::spawn({
        let (alice, task) = (alice.clone(), task.clone());
        async move { alice.get(&task).await }
    });
    gate.reached(1).await.unwrap();
    stack.upstream.enqueue("tasks/update", Answer::hang_up());
    assert!(accept(&alice, &task).await.error_code().is_ok());
    gate.open();
    poll.await.unwrap().unwrap().result().unwrap();
    assert_eq!(stack.count(DECISIONS, &[]).await.unwrap(), 0);
    // Begun after it, and the question is still there: the same bytes may go again.
    alice.until(&task, "input_required").await.unwrap();
    assert_eq!(stack.count(DECISIONS, &[]).await.unwrap(), 0);
    assert_ack(&accept(&alice, &task).await);
    alice.until(&task, "completed").await.unwrap();
    assert_eq!(stack.upstream.count("tasks/update"), 2);
    let verdict = &decided(&stack, &task).await["detail"]["verdict"];
    assert_eq!(verdict["relay"], "confirmed");
}

/// The upstream did not take it, or so it seems.
#[tokio::test]
async fn case_73_after_an_unknown_outcome_only_the_same_bytes_are_relayed_again() {
    let stack = Stack::start().await.unwrap();
    let alice = stack.client(ALICE);
    let unknown = [
        Answer::hang_up(),
        Answer::raw("").status(StatusCode::BAD_GATEWAY),
        Answer::error(-32603, "perhaps").status(StatusCode::INTERNAL_SERVER_ERROR),
        Answer::error(-32000, "perhaps"),
    ];
    for (count, answer) in (1..).zip(unknown) {
        let task = alice.start_task("ask", json!({})).await.unwrap();
        alice.until(&task, "input_required").await.unwrap();
        let relayed = stack.upstream.count("tasks/update");
        stack.upstream.enqueue("tasks/update", answer);
        let reply = accept(&alice, &task).await;
        assert!(reply.error_code().is_ok());
        alice.until(&task, "input_required").await.unwrap();
        let other = json!({"name": {"action": "accept", "content": {"name": "Bea"}}});
        assert_ack(&update(&alice, &task, &other).await);
        assert_eq!(stack.upstream.count("tasks/update"), relayed + 1);
        assert_ack(&accept(&alice, &task).await);
        assert_eq!(stack.upstream.count("tasks/update"), relayed + 2);
        let done = alice.until(&task, "completed").await.unwrap();
        assert_eq!(done["result"]["content"][0]["text"], "Hello Ann");
        assert_eq!(stack.count(DECISIONS, &[]).await.unwrap(), count);
    }
}

/// The gateway dies while it relays an answer.
#[tokio::test]
async fn case_95_an_accept_survives_kill_9_in_the_middle_of_its_relay() {
    let (mut stack, alice, task) = asked().await;
    let gate = Gate::new();
    stack
        .upstream
        .enqueue("tasks/update", Answer::built_in().held(&gate));
    let answer = tokio::spawn({
        let (alice, task) = (alice.clone(), task.clone());
        let update = Envelope::update(&task, &json!({"name": yes()}));
        async move { alice.send(&update).await }
    });
    gate.reached(1).await.unwrap();
    stack.gateway.process().kill().unwrap();
    assert!(answer.await.unwrap().is_err());
    gate.open();
    stack.gateway.start_again().await.unwrap();
    stack.gateway.ready().await.unwrap();
    alice.until(&task, "completed").await.unwrap();
    assert_eq!(stack.upstream.count("tasks/update"), 1);
    assert_eq!(
        stack.events(&task).await.unwrap(),
        ["TaskCreated", "TaskConsentDecided(accept)", "TaskCompleted"]
    );
    let verdict = &decided(&stack, &task).await["detail"]["verdict"];
    assert_eq!(verdict["relay"], "unknown");
}

/// Nobody waits for the acknowledgement any more.
#[tokio::test]
async fn case_96_an_accept_is_recorded_when_its_client_is_gone() {
    let (stack, alice, task) = asked().await;
    let gate = Gate::new();
    stack
        .upstream
        .enqueue("tasks/update", Answer::built_in().held(&gate));
    let leaving = stack.client(ALICE);
    let answer = tokio::spawn({
        let task = task.clone();
        async move { accept(&leaving, &task).await }
    });
    gate.reached(1).await.unwrap();
    answer.abort();
    assert!(answer.await.unwrap_err().is_cancelled());
    gate.open();
    let accepted = [("decision", "accept")];
    stack
        .gateway
        .metric(DECISIONS, &accepted, 1.0)
        .await
        .unwrap();
    alice.until(&task, "completed").await.unwrap();
    let export = stack.export().await.unwrap();
    assert!(export.contains(r#""relay":"confirmed""#), "{export}");
}

/// Who may answer need not see the outcome.
#[tokio::test]
async fn who_may_only_answer_sees_questions_and_no_outcome() {
    let tenant = |object: Manifest| match object.value()["spec"]["tenant"].as_str() {
        Some("acme") => object.set(
            "/spec/upstreams/0/tasks/consent/answeredBy",
            json!({"type": "Principals", "principals": ["key:bob"]}),
        ),
        _ => object,
    };
    let (stack, alice, task) = start_with(tenant).await;
    let (bob, carol) = (stack.client(BOB), stack.client(CAROL));
    assert_eq!(
        carol.get(&task).await.unwrap().error_code().unwrap(),
        -32602
    );
    // The owner sees it, and may not answer.
    alice.until(&task, "input_required").await.unwrap();
    let reply = accept(&alice, &task).await;
    assert_eq!(reply.error_code().unwrap(), -31004);
    let shown = bob.until(&task, "input_required").await.unwrap();
    assert!(shown["inputRequests"]["name"].is_object());
    assert_eq!(
        bob.cancel(&task).await.unwrap().error_code().unwrap(),
        -31004
    );
    assert_ack(&accept(&bob, &task).await);
    alice.until(&task, "completed").await.unwrap();
    let reply = bob.get(&task).await.unwrap();
    assert_eq!(reply.error_code().unwrap(), -31002);
    assert!(!String::from_utf8_lossy(&reply.body).contains("Hello Ann"));
    let export = stack.export().await.unwrap();
    assert!(export.contains(r#""principal":"key:bob""#), "{export}");
    assert_eq!(stack.upstream.count("tasks/cancel"), 0);
}

#[tokio::test]
async fn case_74_a_question_that_the_policy_does_not_allow_is_never_shown() {
    let sampling = json!({"inputRequests": {"name": {
        "method": "sampling/createMessage",
        "params": {"messages": [{"role": "user", "content": {"type": "text", "text": "SECRET"}}]},
    }}});
    let none = |object: Manifest| object.without("/spec/upstreams/0/tasks");
    for (edit, bend) in [(None, sampling), (Some(none), json!({}))] {
        let (stack, alice, task) = match edit {
            Some(edit) => start_with(edit).await,
            None => start().await,
        };
        stack.upstream.bend(&task, &bend).unwrap();
        let reply = alice.get(&task).await.unwrap();
        let body = String::from_utf8_lossy(&reply.body);
        assert!(
            !body.contains("SECRET") && !body.contains("What is your name"),
            "{body}"
        );
        assert_failed(&alice, &task, "consent_denied").await;
        accept(&alice, &task).await;
        assert_eq!(stack.upstream.count("tasks/update"), 0);
        stack.upstream.arrived("tasks/cancel", 1).await.unwrap();
        let labels = [("decision", "decline"), ("reason", "method_not_allowed")];
        assert_eq!(stack.count(DECISIONS, &labels).await.unwrap(), 1);
        assert_eq!(
            stack.events(&task).await.unwrap(),
            [
                "TaskCreated",
                "TaskConsentDecided(decline)",
                "TaskFailed(consent_denied)"
            ]
        );
    }
}

/// Starts a task with a question, creating and answering with these declarations.
async fn answered_with(
    (stack, alice): (&Stack, &Client),
    mode: &str,
    creating: Capabilities,
    updating: Capabilities,
) -> String {
    let call = Envelope::call("ask", json!({})).capabilities(creating);
    let handle = alice.send(&call).await.unwrap().result().unwrap();
    let task = handle["taskId"].as_str().unwrap();
    if mode == "url" {
        let url = json!({"name": {"method": "elicitation/create", "params": {
            "mode": "url", "message": "Go there.", "url": "https://there.test/", "elicitationId": "e",
        }}});
        let bend = json!({"status": "input_required", "inputRequests": url});
        stack.upstream.bend(task, &bend).unwrap();
    }
    alice.until(task, "input_required").await.unwrap();
    let update = Envelope::update(task, &json!({"name": yes()}));
    let reply = alice.send(&update.capabilities(updating)).await.unwrap();
    assert_ack(&reply);
    task.to_owned()
}

/// The request that made the task may have declared it, or the one that answers.
#[tokio::test]
async fn case_75_an_answer_needs_the_capability_of_its_question() {
    let stack = Stack::start().await.unwrap();
    let alice = stack.client(ALICE);
    let (none, form) = (Capabilities::Tasks, Capabilities::TasksAndElicitation);
    for (relayed, (creating, updating)) in (1..).zip([(form, none), (none, form)]) {
        let task = answered_with((&stack, &alice), "form", creating, updating).await;
        alice.until(&task, "completed").await.unwrap();
        assert_eq!(stack.upstream.count("tasks/update"), relayed);
    }
    let missing = [("form", none, none), ("url", form, form)];
    for (count, (mode, creating, updating)) in (1..).zip(missing) {
        let task = answered_with((&stack, &alice), mode, creating, updating).await;
        assert_failed(&alice, &task, "consent_denied").await;
        let labels = [("decision", "decline"), ("reason", "capability_missing")];
        assert_eq!(stack.count(DECISIONS, &labels).await.unwrap(), count);
        let verdict = &decided(&stack, &task).await["detail"]["verdict"];
        assert_eq!(verdict["by"], json!({"caller": "key:alice"}), "{verdict}");
    }
    assert_eq!(stack.upstream.count("tasks/update"), 2);
    stack.upstream.arrived("tasks/cancel", 2).await.unwrap();
}

/// The drift is found while the update still looks at the question.
#[tokio::test]
async fn case_76_drift_wins_against_an_answer_on_its_way() {
    let (stack, alice, task) = asked().await;
    let gate = Gate::new();
    stack
        .upstream
        .enqueue("tasks/get", Answer::built_in().held(&gate));
    let answer = tokio::spawn({
        let (alice, task) = (alice.clone(), task.clone());
        async move { accept(&alice, &task).await }
    });
    gate.reached(1).await.unwrap();
    let mut drifted = tools();
    drifted[2] = mk_tool("ask", "Asks for more.", &json!({}));
    stack.upstream.set_tools(drifted);
    assert_failed(&alice, &task, "digest_drift").await;
    // Put back: for the update all looks well again, and it is over all the same.
    stack.upstream.set_tools(tools());
    gate.open();
    assert_ack(&answer.await.unwrap());
    assert_eq!(stack.upstream.count("tasks/update"), 0);
    assert_failed(&alice, &task, "digest_drift").await;
    assert_eq!(
        stack.events(&task).await.unwrap(),
        [
            "TaskCreated",
            "DigestMismatchInTask",
            "TaskFailed(digest_drift)"
        ]
    );
}

/// The answer was on its way when the drift was found.
#[tokio::test]
async fn case_95_drift_during_the_relay_leaves_the_accept_on_the_chain() {
    let (stack, alice, task) = asked().await;
    let gate = Gate::new();
    let late = Answer::result(&json!({"resultType": "complete"})).held(&gate);
    stack.upstream.enqueue("tasks/update", late);
    let answer = tokio::spawn({
        let (alice, task) = (alice.clone(), task.clone());
        async move { accept(&alice, &task).await }
    });
    gate.reached(1).await.unwrap();
    let mut drifted = tools();
    drifted[2] = mk_tool("ask", "Asks for more.", &json!({}));
    stack.upstream.set_tools(drifted);
    assert_failed(&alice, &task, "digest_drift").await;
    gate.open();
    answer.await.unwrap();
    assert_failed(&alice, &task, "digest_drift").await;
    assert_eq!(
        stack.events(&task).await.unwrap(),
        [
            "TaskCreated",
            "DigestMismatchInTask",
            "TaskConsentDecided(accept)",
            "TaskFailed(digest_drift)"
        ]
    );
    assert!(
        stack
            .export()
            .await
            .unwrap()
            .contains(r#""relay":"unknown""#)
    );
}
