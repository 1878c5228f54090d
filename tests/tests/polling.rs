//! `tasks/get`: what is served, what is latched, and what an upstream that fails does not change.

#![cfg(test)]

use std::time::{Duration, Instant};

use hangar_tests::client::Client;
use hangar_tests::manifests::Manifest;
use hangar_tests::scripted::{Answer, Framing, Gate};
use hangar_tests::stack::{ALICE, Stack};
use hangar_tests::wait;
use hyper::StatusCode;
use serde_json::{Value, json};

const COMPLETED: &str = "hangar_tasks_completed_total";
const FAILED: &str = "hangar_tasks_failed_total";
const CANCELLED: &str = "hangar_tasks_cancelled_total";
const REFUSALS: &str = "hangar_task_refusals_total";
const EVENTS: &str = "hangar_provenance_events_total";
const AGE: &str = "hangar.dev/ageMs";
const UNAVAILABLE: i64 = -31001;
const WITHHELD: i64 = -31002;
const DENIED: i64 = -31004;
const PROTOCOL: i64 = -31008;

async fn start() -> (Stack, Client) {
    let stack = Stack::start().await.unwrap();
    let alice = stack.client(ALICE);
    (stack, alice)
}

/// A running task of a stack of its own. Its upstream gives no hint of when to ask again, so that
/// every poll is passed on.
async fn start_task() -> (Stack, Client, String) {
    let (stack, alice) = start().await;
    let task = start_patient(&stack, &alice).await;
    (stack, alice, task)
}

async fn start_patient(stack: &Stack, client: &Client) -> String {
    let task = client.start_task("slow", json!({})).await.unwrap();
    let no_hint = json!({"pollIntervalMs": null});
    stack.upstream.bend(&task, &no_hint).unwrap();
    wait::eventually("no hint", async || {
        let served = client.get(&task).await?.result()?;
        wait::same(&served.get("pollIntervalMs"), &None)
    })
    .await
    .unwrap();
    task
}

fn snapshot(task: &str, status: &str) -> Value {
    json!({
        "resultType": "complete", "taskId": task, "status": status, "ttlMs": 900_000,
        "createdAt": "2026-12-01T06:00:00Z", "lastUpdatedAt": "2026-12-01T06:00:00Z",
    })
}

/// Code, and the status in `data`.
async fn refused(client: &Client, task: &str) -> (i64, Value) {
    let reply = client.get(task).await.unwrap();
    let code = reply.error_code().unwrap();
    let mut message = reply.message().unwrap();
    (code, message["error"]["data"]["status"].take())
}

#[tokio::test]
async fn case_38_a_working_task_is_served_as_its_upstream_tells_it() {
    let (stack, alice, task) = start_task().await;
    let first = [
        r#"{ "resultType":"complete","taskId":""#,
        &task,
        r#"","status":"working","ttlMs":50000, "x":1.50,"statusMessage":"h\u0061lf","#,
        r#""createdAt":"2026-12-01T06:00:00Z","lastUpdatedAt":"2026-12-01T06:00:01Z","#,
        r#""pollIntervalMs":1 }"#,
    ]
    .concat();
    let second = first
        .replace(r#""statusMessage":"h\u0061lf","#, "")
        .replace("50000", "60000")
        .replace(":1 ", ":2 ")
        .replace("06:00:01", "06:00:02");
    assert_ne!(first, second);
    let lists = stack.upstream.count("tools/list");
    for (text, framing) in [(&first, Framing::Json), (&second, Framing::Sse)] {
        let asked = stack.upstream.count("tasks/get");
        let text_of = text.clone();
        stack.upstream.script("tasks/get", move |_| {
            Answer::result_text(&text_of).framed(framing)
        });
        let sent: Value = serde_json::from_str(text).unwrap();
        let reply = wait::eventually("the new snapshot", async || {
            let reply = alice.get(&task).await?;
            wait::same(&reply.result()?, &sent)?;
            Ok(reply)
        })
        .await
        .unwrap();
        let body = String::from_utf8(reply.body.to_vec()).unwrap();
        if framing == Framing::Json {
            assert!(body.contains(text.as_str()), "{body}");
        }
        let relayed = stack.upstream.seen_of("tasks/get");
        assert!(relayed.len() > asked);
        assert!(relayed.iter().all(|get| get.params()["taskId"] == task));
    }
    // There was nothing to withhold, so no contract was looked at.
    assert_eq!(stack.upstream.count("tools/list"), lists);
    // From the ledger now: the last snapshot, without what is never stored.
    stack.upstream.script("tasks/get", |_| Answer::hang_up());
    let kept = wait::eventually("from the ledger", async || {
        let kept = alice.get(&task).await?.result()?;
        wait::same(&kept["_meta"][AGE].is_u64(), &true)?;
        Ok(kept)
    })
    .await
    .unwrap();
    assert_eq!(kept["ttlMs"], 60_000);
    assert_eq!(kept["pollIntervalMs"], 2);
    assert_eq!(kept["lastUpdatedAt"], "2026-12-01T06:00:02Z");
    assert!(kept.get("statusMessage").is_none() && kept.get("x").is_none());
    assert_eq!(stack.events(&task).await.unwrap(), ["TaskCreated"]);
}

/// The upstream completes the task with this text as its result.
fn complete_with(stack: &Stack, task: &str, result: &str) {
    let text = snapshot(task, "completed").to_string();
    let text = format!("{},\"result\":{result}}}", text.trim_end_matches('}'));
    stack
        .upstream
        .script("tasks/get", move |_| Answer::result_text(&text));
}

#[tokio::test]
async fn case_39_a_result_is_served_byte_for_byte_behind_a_look_at_the_contract() {
    let (stack, alice, task) = start_task().await;
    let result = r#"{ "content":[ ],"isError":false,"x":1.50e1,"é":"\u0041" }"#;
    complete_with(&stack, &task, result);
    let before = stack.upstream.seen().len();
    let reply = alice.get(&task).await.unwrap();
    let body = String::from_utf8(reply.body.to_vec()).unwrap();
    assert!(body.contains(result), "{body}");
    assert_eq!(reply.result().unwrap()["status"], "completed");
    let seen = stack.upstream.seen().split_off(before);
    let methods: Vec<_> = seen.iter().map(|seen| seen.method.as_str()).collect();
    assert_eq!(methods, ["tasks/get", "tools/list"]);
    assert_eq!(stack.upstream.count("tasks/result"), 0);
    assert_eq!(
        stack.events(&task).await.unwrap(),
        ["TaskCreated", "TaskCompleted"]
    );
}

#[tokio::test]
async fn case_43_ten_polls_of_a_completed_task_are_one_event() {
    let (stack, alice, task) = start_task().await;
    stack.upstream.complete(&task, "done").unwrap();
    let lists = stack.upstream.count("tools/list");
    for _ in 0..10 {
        let served = alice.get(&task).await.unwrap().result().unwrap();
        assert_eq!(served["result"]["content"][0]["text"], "done");
    }
    // Each was vouched for by a list that was fetched after it.
    assert_eq!(stack.upstream.count("tools/list"), lists + 10);
    assert_eq!(stack.count(COMPLETED, &[]).await.unwrap(), 1);
    assert_eq!(stack.count(FAILED, &[]).await.unwrap(), 0);
    assert_eq!(
        stack.events(&task).await.unwrap(),
        ["TaskCreated", "TaskCompleted"]
    );
}

#[tokio::test]
async fn case_44_a_result_that_is_an_error_of_its_tool_completes_the_task() {
    let (stack, alice, task) = start_task().await;
    let result = r#"{"content":[{"type":"text","text":"it broke"}],"isError":true}"#;
    complete_with(&stack, &task, result);
    for _ in 0..3 {
        let served = alice.get(&task).await.unwrap().result().unwrap();
        assert_eq!(served["status"], "completed");
        assert_eq!(served["result"]["isError"], true);
        assert!(served.get("error").is_none());
    }
    assert_eq!(stack.count(COMPLETED, &[]).await.unwrap(), 1);
    assert_eq!(stack.count(FAILED, &[]).await.unwrap(), 0);
    assert_eq!(
        stack.events(&task).await.unwrap(),
        ["TaskCreated", "TaskCompleted"]
    );
}

/// Answers from which nothing about a task is to be concluded.
fn failures() -> [Answer; 10] {
    [
        Answer::hang_up(),
        Answer::built_in().cut_at(20),
        Answer::raw("").status(StatusCode::INTERNAL_SERVER_ERROR),
        Answer::raw("<html>").status(StatusCode::BAD_GATEWAY),
        Answer::raw("").status(StatusCode::TOO_MANY_REQUESTS),
        Answer::raw("")
            .status(StatusCode::FOUND)
            .header("location", "http://127.0.0.1:1/"),
        Answer::error(-32603, "canary"),
        Answer::error(-32000, "canary").status(StatusCode::SERVICE_UNAVAILABLE),
        // About the gateway's credential, whatever the code says.
        Answer::error(-32602, "canary").status(StatusCode::UNAUTHORIZED),
        Answer::error(-32602, "canary").status(StatusCode::FORBIDDEN),
    ]
}

#[tokio::test]
async fn case_41_an_upstream_that_fails_changes_nothing() {
    let (stack, alice, task) = start_task().await;
    for failure in failures() {
        stack.upstream.script("tasks/get", move |_| failure.clone());
        let asked = stack.upstream.count("tasks/get");
        let served = alice.get(&task).await.unwrap().result().unwrap();
        assert_eq!(served["status"], "working");
        assert!(served["_meta"][AGE].is_u64(), "{served}");
        assert_eq!(stack.upstream.count("tasks/get"), asked + 1);
    }
    stack.upstream.unscript("tasks/get");
    stack.upstream.ask(&task, "name", "Who?").unwrap();
    alice.until(&task, "input_required").await.unwrap();
    for failure in failures() {
        stack.upstream.script("tasks/get", move |_| failure.clone());
        let told = refused(&alice, &task).await;
        assert_eq!(told, (UNAVAILABLE, json!("input_required")));
    }
    stack.upstream.unscript("tasks/get");
    stack.upstream.complete(&task, "done").unwrap();
    alice.until(&task, "completed").await.unwrap();
    for failure in failures() {
        stack.upstream.script("tasks/get", move |_| failure.clone());
        let told = refused(&alice, &task).await;
        assert_eq!(told, (UNAVAILABLE, json!("completed")));
    }
    assert_eq!(
        stack.events(&task).await.unwrap(),
        ["TaskCreated", "TaskCompleted"]
    );
}

#[tokio::test]
async fn case_41_a_silent_upstream_and_a_closed_one_are_answered_for_in_time() {
    let (stack, alice, working) = start_task().await;
    let asking = start_patient(&stack, &alice).await;
    stack.upstream.ask(&asking, "name", "Who?").unwrap();
    alice.until(&asking, "input_required").await.unwrap();
    let gate = Gate::new();
    stack.upstream.script("tasks/get", {
        let gate = gate.clone();
        move |_| Answer::built_in().held(&gate)
    });
    let asked = Instant::now();
    let (served, told) = tokio::join!(alice.get(&working), refused(&alice, &asking));
    let took = asked.elapsed();
    assert!(took < Duration::from_secs(10), "{took:?}");
    let served = served.unwrap().result().unwrap();
    assert_eq!(served["status"], "working");
    // Nothing was heard of it while the upstream was waited for.
    let age = Duration::from_millis(served["_meta"][AGE].as_u64().unwrap());
    assert!(age >= took / 2, "{age:?} of {took:?}");
    assert_eq!(told, (UNAVAILABLE, json!("input_required")));
    gate.open();

    let before = stack.gateway.scrape().await.unwrap();
    drop(stack.upstream);
    let served = alice.get(&working).await.unwrap().result().unwrap();
    assert_eq!(served["status"], "working");
    assert!(served["_meta"][AGE].is_u64(), "{served}");
    let told = refused(&alice, &asking).await;
    assert_eq!(told, (UNAVAILABLE, json!("input_required")));
    let after = stack.gateway.scrape().await.unwrap();
    for scrape in [before, after] {
        assert_eq!(scrape.count(EVENTS, &[]).unwrap(), 2, "two births");
    }
}

#[tokio::test]
async fn case_42_a_task_that_is_unknown_twice_a_second_apart_is_lost_once() {
    let (stack, alice, task) = start_task().await;
    stack.upstream.lose(&task).unwrap();
    let asked = Instant::now();
    let failed = wait::eventually("upstream_lost", async || {
        let message = alice.get(&task).await?.message()?;
        let error = &message["error"];
        if !error.is_null() {
            // Neither lost yet nor `working` still.
            let told = (&error["code"], &error["data"]["status"]);
            assert_eq!(told, (&json!(UNAVAILABLE), &json!("working")));
            anyhow::bail!("{message}");
        }
        Ok(message["result"].clone())
    })
    .await
    .unwrap();
    assert!(asked.elapsed() >= Duration::from_secs(1));
    assert!(stack.upstream.count("tasks/get") >= 2);
    assert_eq!(failed["status"], "failed");
    assert_eq!(failed["error"]["data"]["reason"], "upstream_lost");
    for _ in 0..3 {
        alice.until(&task, "failed").await.unwrap();
    }
    let reason = [("reason", "upstream_lost")];
    assert_eq!(stack.count(FAILED, &reason).await.unwrap(), 1);
    assert_eq!(
        stack.events(&task).await.unwrap(),
        ["TaskCreated", "TaskFailed(upstream_lost)"]
    );
    assert_eq!(stack.upstream.count("tasks/cancel"), 0);
}

/// Past its time to live once is enough.
#[tokio::test]
async fn case_42_a_task_that_is_unknown_past_its_time_is_lost_at_once() {
    let (stack, alice) = start().await;
    let mut handle = snapshot("brief", "working");
    handle["resultType"] = json!("task");
    handle["ttlMs"] = json!(1);
    stack
        .upstream
        .enqueue("tools/call", Answer::result(&handle));
    let task = alice.start_task("slow", json!({})).await.unwrap();
    let failed = alice.get(&task).await.unwrap().result().unwrap();
    assert_eq!(failed["status"], "failed");
    assert_eq!(failed["error"]["data"]["reason"], "upstream_lost");
    assert_eq!(stack.upstream.count("tasks/get"), 1);
    assert_eq!(
        stack.events(&task).await.unwrap(),
        ["TaskCreated", "TaskFailed(upstream_lost)"]
    );
}

/// Unknown once is not lost, and not `working` either.
#[tokio::test]
async fn case_42_a_task_that_is_unknown_once_is_unavailable() {
    let (stack, alice, task) = start_task().await;
    let unknown = || Answer::error(-32602, "Task not found").status(StatusCode::BAD_REQUEST);
    stack.upstream.enqueue("tasks/get", unknown());
    let told = refused(&alice, &task).await;
    assert_eq!(told, (UNAVAILABLE, json!("working")));
    alice.until(&task, "working").await.unwrap();
    // It was heard of since, so this one is a first one again.
    stack.upstream.enqueue("tasks/get", unknown());
    let told = refused(&alice, &task).await;
    assert_eq!(told, (UNAVAILABLE, json!("working")));
    assert_eq!(stack.events(&task).await.unwrap(), ["TaskCreated"]);
}

#[tokio::test]
async fn case_45_a_failure_of_the_upstream_is_served_with_its_error() {
    let (stack, alice, task) = start_task().await;
    stack.upstream.fail(&task, -32042, "it broke").unwrap();
    for _ in 0..3 {
        let failed = alice.get(&task).await.unwrap().result().unwrap();
        assert_eq!(failed["status"], "failed");
        assert_eq!(
            failed["error"],
            json!({"code": -32042, "message": "it broke"})
        );
    }
    assert_eq!(
        stack.events(&task).await.unwrap(),
        ["TaskCreated", "TaskFailed(upstream_failed)"]
    );
    let reason = [("reason", "upstream_failed")];
    assert_eq!(stack.count(FAILED, &reason).await.unwrap(), 1);
}

#[tokio::test]
async fn case_45_a_cancel_of_the_upstreams_own_is_recorded_once() {
    let (stack, alice, task) = start_task().await;
    stack
        .upstream
        .bend(&task, &json!({"status": "cancelled"}))
        .unwrap();
    for _ in 0..3 {
        alice.until(&task, "cancelled").await.unwrap();
    }
    assert_eq!(
        stack.events(&task).await.unwrap(),
        ["TaskCreated", "TaskCancelled"]
    );
    assert_eq!(stack.count(CANCELLED, &[]).await.unwrap(), 1);
}

#[tokio::test]
async fn case_46_a_terminal_state_is_final() {
    let (stack, alice, task) = start_task().await;
    stack.upstream.complete(&task, "done").unwrap();
    alice.until(&task, "completed").await.unwrap();
    let others = [
        json!({"status": "working", "result": null}),
        json!({"status": "cancelled"}),
        json!({"status": "failed", "error": {"code": 1, "message": "m"}}),
    ];
    assert_regressions(&stack, &alice, &task, "completed", &others).await;
    let back = json!({"status": "completed", "error": null, "result": {"content": []}});
    stack.upstream.bend(&task, &back).unwrap();
    alice.until(&task, "completed").await.unwrap();
    assert_eq!(
        stack.events(&task).await.unwrap(),
        ["TaskCreated", "TaskCompleted"]
    );
}

#[tokio::test]
async fn case_46_a_task_that_failed_stays_failed() {
    let (stack, alice, task) = start_task().await;
    stack.upstream.fail(&task, -32042, "it broke").unwrap();
    alice.until(&task, "failed").await.unwrap();
    let others = [
        json!({"status": "working", "error": null}),
        json!({"status": "cancelled"}),
        json!({"status": "completed", "result": {"content": []}}),
    ];
    assert_regressions(&stack, &alice, &task, "failed", &others).await;
    assert_eq!(
        stack.events(&task).await.unwrap(),
        ["TaskCreated", "TaskFailed(upstream_failed)"]
    );
}

/// The gateway holds no payload, so the latched state is all that it can tell.
async fn assert_regressions(
    stack: &Stack,
    client: &Client,
    task: &str,
    latched: &str,
    others: &[Value],
) {
    for (count, other) in (1..).zip(others) {
        stack.upstream.bend(task, other).unwrap();
        let told = refused(client, task).await;
        assert_eq!(told, (UNAVAILABLE, json!(latched)), "{other}");
        let reason = [("reason", "regression")];
        assert_eq!(stack.count(REFUSALS, &reason).await.unwrap(), count);
    }
}

#[tokio::test]
async fn case_46_a_cancelled_task_stays_cancelled() {
    let (stack, alice, task) = start_task().await;
    alice.cancel(&task).await.unwrap().result().unwrap();
    alice.until(&task, "cancelled").await.unwrap();
    for other in [
        json!({"status": "completed", "result": {"content": []}}),
        json!({"status": "working", "result": null}),
    ] {
        stack.upstream.bend(&task, &other).unwrap();
        let served = alice.get(&task).await.unwrap().result().unwrap();
        assert_eq!(served["status"], "cancelled");
        assert!(served.get("result").is_none());
    }
    assert_eq!(
        stack.events(&task).await.unwrap(),
        ["TaskCreated", "TaskCancelled"]
    );
}

#[tokio::test]
async fn case_47_a_payload_that_is_missing_or_stray_is_a_breach_of_the_protocol() {
    let (stack, alice, task) = start_task().await;
    let with = |status: &str, member: &str, value: Value| {
        let mut snapshot = snapshot(&task, status);
        snapshot[member] = value;
        snapshot
    };
    let cases = [
        snapshot(&task, "completed"),
        with("completed", "result", Value::Null),
        with("completed", "result", json!("text")),
        snapshot(&task, "failed"),
        with("failed", "error", Value::Null),
        snapshot(&task, "input_required"),
        with("input_required", "inputRequests", json!({})),
        with("input_required", "inputRequests", Value::Null),
        with("working", "result", json!({"content": []})),
        with("cancelled", "error", json!({"code": 1, "message": "m"})),
        snapshot(&task, "paused"),
    ];
    for case in &cases {
        stack.upstream.enqueue("tasks/get", Answer::result(case));
        let reply = alice.get(&task).await.unwrap();
        assert_eq!(reply.error_code().unwrap(), PROTOCOL, "{case}");
    }
    // Two readers must not take one answer for two.
    let whole = with("completed", "result", json!({"content": []})).to_string();
    let doubled = [
        whole.replace("\"result\":", "\"result\":{},\"result\":"),
        whole.replace("\"result\":", "\"Result\":{},\"result\":"),
        whole.replace("\"taskId\":", "\"TASKID\":\"x\",\"taskId\":"),
    ];
    for text in &doubled {
        assert_ne!(*text, whole);
        stack
            .upstream
            .enqueue("tasks/get", Answer::result_text(text));
        let reply = alice.get(&task).await.unwrap();
        assert_eq!(reply.error_code().unwrap(), PROTOCOL, "{text}");
    }
    let refusals = stack.count(REFUSALS, &[]).await.unwrap();
    let expected = cases.len() + doubled.len();
    assert_eq!(usize::try_from(refusals).unwrap(), expected);
    alice.until(&task, "working").await.unwrap();
    assert_eq!(stack.events(&task).await.unwrap(), ["TaskCreated"]);
}

/// Nesting without end is no way to stop the gateway.
#[tokio::test]
async fn deep_nesting_of_an_upstream_stops_nothing() {
    let (stack, alice, task) = start_task().await;
    let (open, close) = (r#"{"a":"#.repeat(200_000), "}".repeat(200_000));
    let deep = format!("{open}1{close}");
    let whole = |status: &str, member: &str, value: &str| {
        let text = snapshot(&task, status).to_string();
        let text = text.trim_end_matches('}');
        Answer::result_text(&format!("{text},\"{member}\":{value}}}"))
    };
    let question = format!(r#"{{"key":{{"method":"elicitation/create","params":{deep}}}}}"#);
    stack.upstream.enqueue(
        "tasks/get",
        whole("input_required", "inputRequests", &question),
    );
    let reply = alice.get(&task).await.unwrap();
    assert_eq!(reply.error_code().unwrap(), PROTOCOL);
    let list = format!(r#"{{"resultType":"complete","tools":[{{"name":"slow","x":{deep}}}]}}"#);
    stack
        .upstream
        .enqueue("tools/list", Answer::result_text(&list));
    let reply = alice.list_tools().await.unwrap();
    assert_eq!(reply.error_code().unwrap(), UNAVAILABLE);
    // What nobody reads passes.
    stack
        .upstream
        .enqueue("tasks/get", whole("completed", "result", &deep));
    let reply = alice.get(&task).await.unwrap();
    assert!(String::from_utf8_lossy(&reply.body).contains(&deep));
    stack.upstream.complete(&task, "done").unwrap();
    alice.until(&task, "completed").await.unwrap();
}

#[tokio::test]
async fn case_48_an_answer_about_another_task_ends_this_one() {
    let (stack, alice, task) = start_task().await;
    let mut other = snapshot("other", "completed");
    other["result"] = json!({"content": [{"type": "text", "text": "of-another"}]});
    stack.upstream.enqueue("tasks/get", Answer::result(&other));
    let reply = alice.get(&task).await.unwrap();
    assert!(!String::from_utf8_lossy(&reply.body).contains("of-another"));
    let failed = reply.result().unwrap();
    assert_eq!(failed["taskId"], json!(task));
    assert_eq!(failed["error"]["data"]["reason"], "upstream_protocol");
    stack.upstream.arrived("tasks/cancel", 1).await.unwrap();
    let cancel = stack.upstream.seen_of("tasks/cancel").remove(0);
    assert_eq!(cancel.params()["taskId"], json!(task));
    assert_eq!(
        stack.events(&task).await.unwrap(),
        ["TaskCreated", "TaskFailed(upstream_protocol)"]
    );
}

#[tokio::test]
async fn case_49_a_tool_that_its_tenant_is_denied_keeps_its_output_to_itself() {
    assert_withheld(|object| match object.value()["spec"]["tenant"].as_str() {
        Some("acme") => object.set("/spec/upstreams/0/tools/deny", json!(["ask"])),
        _ => object,
    })
    .await;
}

#[tokio::test]
async fn case_49_a_tool_that_its_upstream_withdrew_keeps_its_output_to_itself() {
    assert_withheld(|object| match object.value()["kind"].as_str() {
        Some("McpUpstream") => object.set("/spec/tools/allow", json!(["echo", "slow"])),
        _ => object,
    })
    .await;
}

async fn assert_withheld(edit: impl Fn(Manifest) -> Manifest) {
    let (stack, alice) = start().await;
    let task = alice.start_task("ask", json!({})).await.unwrap();
    alice.until(&task, "input_required").await.unwrap();
    stack.rewrite(edit).unwrap();
    wait::eventually("withheld", async || {
        let code = alice.get(&task).await?.error_code()?;
        wait::same(&code, &WITHHELD)
    })
    .await
    .unwrap();
    let gets = stack.upstream.count("tasks/get");
    let told = refused(&alice, &task).await;
    assert_eq!(told, (WITHHELD, json!("input_required")));
    let answer = alice.answer(&task, "name", "accept", json!({"name": "Ann"}));
    assert_eq!(answer.await.unwrap().error_code().unwrap(), DENIED);
    assert_eq!(stack.upstream.count("tasks/update"), 0);
    assert_eq!(stack.upstream.count("tasks/get"), gets);
    let reason = [("reason", "withheld")];
    assert!(stack.count(REFUSALS, &reason).await.unwrap() >= 2);
    alice.cancel(&task).await.unwrap().result().unwrap();
    stack.upstream.arrived("tasks/cancel", 1).await.unwrap();
    let cancel = stack.upstream.seen_of("tasks/cancel").remove(0);
    assert_eq!(cancel.params()["taskId"], json!(task));
    // Withheld is not ended.
    assert_eq!(stack.events(&task).await.unwrap(), ["TaskCreated"]);
}

fn retained_for(retention: &'static str) -> impl Fn(Manifest) -> Manifest {
    move |object| match object.value()["kind"].as_str() {
        Some("McpUpstream") => object.set("/spec/tasks/retention", json!(retention)),
        _ => object,
    }
}

/// Polls keep a task, and nothing else does.
#[tokio::test]
async fn case_50_a_quiet_task_that_is_polled_is_kept_and_one_that_is_not_is_evicted_once() {
    let stack = Stack::start_with(retained_for("4s")).await.unwrap();
    let alice = stack.client(ALICE);
    for id in ["polled", "forgotten"] {
        let mut handle = snapshot(id, "working");
        handle["resultType"] = json!("task");
        handle["ttlMs"] = json!(1);
        stack
            .upstream
            .enqueue("tools/call", Answer::result(&handle));
        alice.start_task("slow", json!({})).await.unwrap();
    }
    stack.upstream.script("tasks/get", |seen| {
        let params = seen.params();
        let mut task = snapshot(params["taskId"].as_str().unwrap_or_default(), "working");
        task["ttlMs"] = json!(1);
        Answer::result(&task)
    });
    let evicted = [("reason", "evicted")];
    // Births retire what is due of their tenant.
    wait::eventually("the forgotten one evicted", async || {
        let polled = alice.get("polled").await?.result()?;
        wait::same(&polled["status"], &json!("working"))?;
        alice.start_task("ask", json!({})).await?;
        let count = stack.count(FAILED, &evicted).await?;
        wait::same(&count, &1)
    })
    .await
    .unwrap();
    let events = stack.events("forgotten").await.unwrap();
    assert_eq!(events, ["TaskCreated", "TaskFailed(evicted)"]);
    stack.upstream.arrived("tasks/cancel", 1).await.unwrap();
    let cancel = stack.upstream.seen_of("tasks/cancel").remove(0);
    assert_eq!(cancel.params()["taskId"], "forgotten");
    alice.until("polled", "working").await.unwrap();
    let failed = alice.until("forgotten", "failed").await.unwrap();
    assert_eq!(failed["error"]["data"]["reason"], "evicted");

    // The end has a retention too, and its end is no event.
    wait::eventually("purged", async || {
        let code = alice.get("forgotten").await?.error_code()?;
        wait::same(&code, &-32602)
    })
    .await
    .unwrap();
    assert_eq!(stack.events("forgotten").await.unwrap(), events);
    let mut handle = snapshot("forgotten", "working");
    handle["resultType"] = json!("task");
    stack
        .upstream
        .enqueue("tools/call", Answer::result(&handle));
    let again = alice.start_task("slow", json!({})).await.unwrap();
    assert_eq!(again, "forgotten");
    alice.until(&again, "working").await.unwrap();
}

/// Polls that were answered from memory were no contact with the upstream: a task whose retention was
/// shorter than its poll interval was evicted under the eyes of who polled it.
#[tokio::test]
async fn a_task_that_is_polled_before_its_time_is_kept() {
    let stack = Stack::start_with(retained_for("4s")).await.unwrap();
    let alice = stack.client(ALICE);
    let mut task = snapshot("polled", "working");
    task["ttlMs"] = json!(1);
    task["pollIntervalMs"] = json!(3_600_000);
    let mut handle = task.clone();
    handle["resultType"] = json!("task");
    stack
        .upstream
        .enqueue("tools/call", Answer::result(&handle));
    alice.start_task("slow", json!({})).await.unwrap();
    stack
        .upstream
        .script("tasks/get", move |_| Answer::result(&task));
    let mut polls = 0;
    // Half a retention lies between two of them, so that the whole is over by the fourth.
    let last = wait::eventually("asked four times", async || {
        polls += 1;
        let polled = alice.get("polled").await?.result()?;
        let asked = stack.upstream.count("tasks/get");
        let is_over = asked >= 4 || polled["status"] != "working";
        anyhow::ensure!(is_over, "asked {asked} times");
        Ok(polled)
    })
    .await
    .unwrap();
    assert_eq!(last["status"], "working", "{last}");
    assert!(polls > 4, "none was answered from memory");
    assert_eq!(stack.events("polled").await.unwrap(), ["TaskCreated"]);
}
