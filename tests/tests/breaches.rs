//! Answers of an upstream that break the protocol: what is told, to whom, and under which word it is
//! counted.

#![cfg(test)]

use hangar_tests::client::{Client, Reply};
use hangar_tests::scripted::{Answer, Gate};
use hangar_tests::stack::{ALICE, BOB, CAROL, Stack};
use serde_json::{Value, json};

/// In whatever the upstream says wrong.
const CANARY: &str = "canary-of-a-breach";

const REFUSALS: &str = "hangar_task_refusals_total";
const FAILURES: &str = "hangar_task_registration_failures_total";
const PROTOCOL: i64 = -31008;
const UNAVAILABLE: i64 = -31001;

fn snapshot(task: &str, status: &str, members: &Value) -> Value {
    let mut snapshot = json!({
        "resultType": "complete", "taskId": task, "status": status, "ttlMs": 900_000,
        "createdAt": "2026-12-01T06:00:00Z", "lastUpdatedAt": "2026-12-01T06:00:00Z",
    });
    for (name, value) in members.as_object().unwrap() {
        snapshot[name] = value.clone();
    }
    snapshot
}

fn assert_silent(reply: &Reply) {
    let body = String::from_utf8_lossy(&reply.body);
    assert!(!body.contains(CANARY), "{body}");
    let headers = format!("{:?}", reply.headers);
    assert!(!headers.contains(CANARY), "{headers}");
}

/// No line of the log, whatever its level, has what the upstream said.
fn assert_not_logged(stack: &mut Stack, least: usize) {
    let lines = stack.gateway.process().lines();
    assert!(lines.len() >= least, "{} lines", lines.len());
    for line in lines {
        assert!(!line.contains(CANARY), "{line}");
    }
}

/// Snapshots that are none, and the word for each.
fn snapshots(task: &str) -> Vec<(&'static str, Value)> {
    let of = |status: &str, members: Value| snapshot(task, status, &members);
    let said = json!({"content": [{"type": "text", "text": CANARY}]});
    let question = json!({"method": CANARY, "params": {"message": CANARY}});
    vec![
        ("result_type", of("working", json!({"resultType": CANARY}))),
        ("status", of(CANARY, json!({}))),
        ("time", of("working", json!({"createdAt": [CANARY]}))),
        (
            "time",
            of(
                "working",
                json!({"lastUpdatedAt": format!("{CANARY} {CANARY}")}),
            ),
        ),
        ("duration", of("working", json!({"ttlMs": CANARY}))),
        (
            "duration",
            of("working", json!({"pollIntervalMs": -1, "x": CANARY})),
        ),
        ("missing_payload", of("completed", json!({"x": CANARY}))),
        ("missing_payload", of("failed", json!({"error": CANARY}))),
        ("stray_payload", of("working", json!({"result": said}))),
        (
            "stray_payload",
            of(
                "failed",
                json!({"error": {"code": 1, "message": CANARY}, "result": said}),
            ),
        ),
        (
            "nested_task",
            of(
                "working",
                json!({"task": {"taskId": task, "statusMessage": CANARY}}),
            ),
        ),
        (
            "input_requests",
            of("input_required", json!({"inputRequests": {CANARY: CANARY}})),
        ),
        (
            "input_requests",
            of(
                "input_required",
                json!({"inputRequests": {("x".repeat(600)): question}}),
            ),
        ),
        ("task_id", of("working", json!({"taskId": {CANARY: 1}}))),
    ]
}

/// Snapshots that two readers could take for different ones.
fn doubled(task: &str) -> [(&'static str, Answer); 2] {
    let whole = snapshot(task, "working", &json!({})).to_string();
    let with = |name: &str| {
        let both = format!("\"{name}\":\"{CANARY}\",\"status\":");
        Answer::result_text(&whole.replace("\"status\":", &both))
    };
    [
        ("duplicate_key", with("status")),
        ("lookalike_key", with("Status")),
    ]
}

/// Bodies that are no replies to the request.
fn no_replies(task: &str) -> [Answer; 4] {
    let whole = snapshot(task, "working", &json!({})).to_string();
    let message = |id: &str, more: &str| {
        Answer::raw(format!(
            r#"{{"jsonrpc":"2.0","id":{id},"result":{whole}{more}}}"#
        ))
    };
    let error = format!(r#","error":{{"code":1,"message":"{CANARY}"}}"#);
    [
        message("1", &error),
        message(&format!("\"{CANARY}\""), ""),
        Answer::raw(format!("<html>{CANARY}")),
        Answer::raw([CANARY.as_bytes(), &[0xff]].concat()),
    ]
}

#[tokio::test]
async fn a_snapshot_that_is_none_is_refused_under_its_word_and_not_repeated() {
    let mut stack = Stack::start().await.unwrap();
    let alice = stack.client(ALICE);
    let task = alice.start_task("slow", json!({})).await.unwrap();
    let snapshots = snapshots(&task).into_iter();
    let cases: Vec<_> = snapshots
        .map(|(reason, said)| (reason, Answer::result(&said)))
        .chain(doubled(&task))
        .collect();
    for (reason, answer) in &cases {
        let labels = [
            ("tenant", "acme"),
            ("upstream", "default/reports"),
            ("method", "tasks/get"),
            ("reason", reason),
        ];
        let before = stack.count(REFUSALS, &labels).await.unwrap();
        stack.upstream.enqueue("tasks/get", answer.clone());
        let reply = alice.get(&task).await.unwrap();
        assert_silent(&reply);
        assert_eq!(
            reply.error_code().unwrap(),
            PROTOCOL,
            "{reason}: {answer:?}"
        );
        let after = stack.count(REFUSALS, &labels).await.unwrap();
        assert_eq!(after, before + 1, "{reason}: {answer:?}");
    }
    let all = stack.count(REFUSALS, &[]).await.unwrap();
    assert_eq!(usize::try_from(all).unwrap(), cases.len());
    for answer in no_replies(&task) {
        stack.upstream.enqueue("tasks/get", answer);
        assert_silent(&alice.get(&task).await.unwrap());
    }
    // Nothing of it changed the task.
    alice.until(&task, "working").await.unwrap();
    assert_eq!(stack.events(&task).await.unwrap(), ["TaskCreated"]);
    assert_not_logged(&mut stack, cases.len());
}

#[tokio::test]
async fn an_answer_to_a_call_that_is_none_is_refused_and_not_repeated() {
    let mut stack = Stack::start().await.unwrap();
    let alice = stack.client(ALICE);
    let handle = |members: &Value| {
        let mut handle = snapshot("t", "working", members);
        handle["resultType"] = json!("task");
        Answer::result(&handle)
    };
    let nested = json!({"task": {"taskId": "t", "status": CANARY}});
    let cases = [
        (
            "result_type",
            Answer::result(&json!({"resultType": CANARY})),
        ),
        ("result_type", Answer::result(&json!({"content": [CANARY]}))),
        ("nested_task", Answer::result(&nested)),
        ("status", handle(&json!({"status": CANARY}))),
        ("time", handle(&json!({"createdAt": [CANARY]}))),
        ("stray_payload", handle(&json!({"error": {CANARY: 1}}))),
    ];
    for (reason, answer) in &cases {
        let labels = [
            ("tenant", "acme"),
            ("upstream", "default/reports"),
            ("reason", *reason),
        ];
        let before = stack.count(FAILURES, &labels).await.unwrap();
        stack.upstream.enqueue("tools/call", answer.clone());
        let reply = alice.call("slow", json!({})).await.unwrap();
        assert_silent(&reply);
        assert_eq!(
            reply.error_code().unwrap(),
            PROTOCOL,
            "{reason}: {answer:?}"
        );
        let after = stack.count(FAILURES, &labels).await.unwrap();
        assert_eq!(after, before + 1, "{reason}: {answer:?}");
    }
    for answer in no_replies("t") {
        stack.upstream.enqueue("tools/call", answer);
        let reply = alice.call("slow", json!({})).await.unwrap();
        assert_silent(&reply);
        assert_eq!(reply.error_code().unwrap(), PROTOCOL);
    }
    let upstream = [("method", "tools/call"), ("outcome", "upstream")];
    let least = cases.len() + 4;
    let counted = stack.count("hangar_requests_total", &upstream).await;
    assert_eq!(usize::try_from(counted.unwrap()).unwrap(), least);
    let nothing: [&str; 0] = [];
    assert_eq!(stack.events("t").await.unwrap(), nothing);
    assert_not_logged(&mut stack, least);
}

/// What an upstream says to one tenant, and of lists to nobody in particular, is no other's to read.
#[tokio::test]
async fn what_an_upstream_says_wrong_reaches_no_other_tenant() {
    let mut stack = Stack::start().await.unwrap();
    let (alice, carol) = (stack.client(ALICE), stack.client(CAROL));
    let own = carol.start_task("slow", json!({})).await.unwrap();
    let task = alice.start_task("slow", json!({})).await.unwrap();
    // An error of her call is hers.
    let wrong = Answer::error_with(-32042, CANARY, &json!({CANARY: CANARY}));
    stack.upstream.enqueue("tools/call", wrong.clone());
    let reply = alice.call("slow", json!({})).await.unwrap();
    assert_eq!(reply.message().unwrap()["error"]["message"], CANARY);
    for (method, answer) in [
        ("tasks/get", Answer::error(-32042, CANARY)),
        ("tasks/get", Answer::raw(CANARY)),
        ("tools/call", Answer::raw(CANARY)),
    ] {
        stack.upstream.enqueue(method, answer);
        ask_everything(&alice, &task).await;
        stack.upstream.unscript(method);
        for reply in ask_everything(&carol, &own).await {
            assert_silent(&reply);
        }
    }
    stack.upstream.enqueue("tasks/cancel", wrong);
    assert_silent(&alice.cancel(&task).await.unwrap());
    stack.upstream.arrived("tasks/cancel", 1).await.unwrap();
    // An error of her task is hers, too.
    stack.upstream.fail(&task, -32042, CANARY).unwrap();
    let failed = alice.until(&task, "failed").await.unwrap();
    assert_eq!(failed["error"]["message"], CANARY);
    for key in [BOB, CAROL] {
        let reply = stack.client(key).get(&task).await.unwrap();
        assert_silent(&reply);
    }
    share_a_failed_list(&stack, &[alice, carol]).await;
    assert_not_logged(&mut stack, 20);
}

/// Two tenants wait for one list, which its upstream refuses with words.
async fn share_a_failed_list(stack: &Stack, clients: &[Client]) {
    for wrong in [
        Answer::error_with(-32603, CANARY, &json!(CANARY)),
        Answer::raw(CANARY),
        Answer::result(&json!({"resultType": "complete", "tools": CANARY})),
    ] {
        let gate = Gate::new();
        stack.upstream.script("tools/list", {
            let gate = gate.clone();
            move |_| wrong.clone().held(&gate)
        });
        let listing = clients
            .iter()
            .cloned()
            .map(|client| tokio::spawn(async move { client.list_tools().await }));
        let listing: Vec<_> = listing.collect();
        gate.reached(1).await.unwrap();
        gate.open();
        for listed in listing {
            let reply = listed.await.unwrap().unwrap();
            assert_silent(&reply);
            assert_eq!(reply.error_code().unwrap(), UNAVAILABLE);
        }
        stack.upstream.unscript("tools/list");
    }
}

async fn ask_everything(client: &Client, task: &str) -> Vec<Reply> {
    vec![
        client.get(task).await.unwrap(),
        client.call("slow", json!({})).await.unwrap(),
        client.list_tools().await.unwrap(),
        client.discover().await.unwrap(),
    ]
}
