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
const AGE: &str = "hangar.dev/ageMs";
const UNAVAILABLE: i64 = -31001;
const WITHHELD: i64 = -31002;
const PROTOCOL: i64 = -31008;

async fn start() -> (Stack, Client) {
    let stack = Stack::start().await.unwrap();
    let alice = stack.client(ALICE);
    (stack, alice)
}

/// A running task of a stack of its own.
async fn start_task() -> (Stack, Client, String) {
    let (stack, alice) = start().await;
    let task = alice.start_task("slow", json!({})).await.unwrap();
    (stack, alice, task)
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
async fn a_working_task_is_served_as_its_upstream_tells_it() {
    let (stack, alice, task) = start_task().await;
    let first = [
        r#"{ "resultType":"complete","taskId":""#,
        &task,
        r#"","status":"working","ttlMs":50000, "x":1.50,"statusMessage":"h\u0061lf","#,
        r#""createdAt":"2026-12-01T06:00:00Z","lastUpdatedAt":"2026-12-01T06:00:01Z","#,
        r#""pollIntervalMs":0 }"#,
    ]
    .concat();
    let second = first
        .replace(r#""statusMessage":"h\u0061lf","#, "")
        .replace("50000", "60000")
        .replace(r#"Ms":0 }"#, r#"Ms":1 }"#)
        .replace("06:00:01", "06:00:02");
    assert_ne!(first, second);
    for (text, framing) in [(&first, Framing::Json), (&second, Framing::Sse)] {
        stack
            .upstream
            .enqueue("tasks/get", Answer::result_text(text).framed(framing));
        let reply = alice.get(&task).await.unwrap();
        let body = String::from_utf8(reply.body.to_vec()).unwrap();
        if framing == Framing::Json {
            assert!(body.contains(text.as_str()), "{body}");
        }
        let sent: Value = serde_json::from_str(text).unwrap();
        assert_eq!(reply.result().unwrap(), sent);
    }
    // From the ledger now: the last snapshot, without what is never stored.
    stack.upstream.script("tasks/get", |_| Answer::hang_up());
    let kept = alice.get(&task).await.unwrap().result().unwrap();
    assert_eq!(kept["ttlMs"], 60_000);
    assert_eq!(kept["pollIntervalMs"], 1);
    assert_eq!(kept["lastUpdatedAt"], "2026-12-01T06:00:02Z");
    assert!(kept.get("statusMessage").is_none() && kept.get("x").is_none());
}

#[tokio::test]
async fn a_result_is_served_byte_for_byte_and_counted_once() {
    let (stack, alice, task) = start_task().await;
    let result = r#"{ "content":[ ],"isError":true,"x":1.50e1,"é":"\u0041" }"#;
    let text = snapshot(&task, "completed").to_string();
    let text = format!("{},\"result\":{result}}}", text.trim_end_matches('}'));
    stack
        .upstream
        .script("tasks/get", move |_| Answer::result_text(&text));
    let lists = stack.upstream.count("tools/list");
    for _ in 0..10 {
        let reply = alice.get(&task).await.unwrap();
        let body = String::from_utf8(reply.body.to_vec()).unwrap();
        assert!(body.contains(result), "{body}");
        assert_eq!(reply.result().unwrap()["status"], "completed");
    }
    // Each was vouched for by a list that was fetched after it.
    assert_eq!(stack.upstream.count("tools/list"), lists + 10);
    assert_eq!(stack.upstream.count("tasks/result"), 0);
    assert_eq!(stack.count(COMPLETED, &[]).await.unwrap(), 1);
    assert_eq!(stack.count(FAILED, &[]).await.unwrap(), 0);
    assert_eq!(
        stack.events(&task).await.unwrap(),
        ["TaskCreated", "TaskCompleted"]
    );
}

#[tokio::test]
async fn an_upstream_that_fails_changes_nothing() {
    let (stack, alice, task) = start_task().await;
    let failures = [
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
    ];
    for failure in &failures {
        let failure = failure.clone();
        stack.upstream.script("tasks/get", move |_| failure.clone());
        let served = alice.get(&task).await.unwrap().result().unwrap();
        assert_eq!(served["status"], "working");
        assert!(served["_meta"][AGE].is_u64(), "{served}");
    }
    stack.upstream.unscript("tasks/get");
    stack.upstream.ask(&task, "name", "Who?").unwrap();
    alice.until(&task, "input_required").await.unwrap();
    for failure in &failures {
        let failure = failure.clone();
        stack.upstream.script("tasks/get", move |_| failure.clone());
        let told = refused(&alice, &task).await;
        assert_eq!(told, (UNAVAILABLE, json!("input_required")));
    }
    stack.upstream.unscript("tasks/get");
    stack.upstream.complete(&task, "done").unwrap();
    alice.until(&task, "completed").await.unwrap();
    for failure in failures {
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
async fn a_silent_upstream_and_a_closed_one_are_answered_for_in_time() {
    let (stack, alice, task) = start_task().await;
    let gate = Gate::new();
    stack.upstream.script("tasks/get", {
        let gate = gate.clone();
        move |_| Answer::built_in().held(&gate)
    });
    let asked = Instant::now();
    let served = alice.get(&task).await.unwrap().result().unwrap();
    assert!(asked.elapsed() < Duration::from_secs(10));
    assert_eq!(served["status"], "working");
    gate.open();

    drop(stack.upstream);
    let served = alice.get(&task).await.unwrap().result().unwrap();
    assert_eq!(served["status"], "working");
    let ended = stack.gateway.scrape().await.unwrap();
    assert_eq!(ended.count(FAILED, &[]).unwrap(), 0);
}

#[tokio::test]
async fn a_lost_task_fails_once() {
    let (stack, alice, task) = start_task().await;
    stack.upstream.lose(&task).unwrap();
    let failed = wait::eventually("upstream_lost", async || {
        let reply = alice.get(&task).await?;
        let result = reply.result()?;
        wait::same(&result["status"], &json!("failed"))?;
        Ok(result)
    })
    .await
    .unwrap();
    assert_eq!(failed["error"]["data"]["reason"], "upstream_lost");
    alice.until(&task, "failed").await.unwrap();
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
async fn a_task_that_is_unknown_past_its_time_is_lost_at_once() {
    let (stack, alice) = start().await;
    let mut handle = snapshot("brief", "working");
    handle["resultType"] = json!("task");
    handle["ttlMs"] = json!(1);
    stack
        .upstream
        .enqueue("tools/call", Answer::result(&handle));
    let task = alice.start_task("slow", json!({})).await.unwrap();
    let failed = alice.get(&task).await.unwrap().result().unwrap();
    assert_eq!(failed["error"]["data"]["reason"], "upstream_lost");
}

#[tokio::test]
async fn a_failure_of_the_upstream_is_served_with_its_error() {
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
async fn a_cancel_of_the_upstreams_own_is_recorded_once() {
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
async fn a_terminal_state_is_final() {
    let (stack, alice, task) = start_task().await;
    stack.upstream.complete(&task, "done").unwrap();
    alice.until(&task, "completed").await.unwrap();
    let others = [
        json!({"status": "working", "result": null}),
        json!({"status": "cancelled"}),
        json!({"status": "failed", "error": {"code": 1, "message": "m"}}),
    ];
    for (count, other) in (1..).zip(others) {
        stack.upstream.bend(&task, &other).unwrap();
        // The gateway holds no result, so the latched state is all that it can tell.
        let told = refused(&alice, &task).await;
        assert_eq!(told, (UNAVAILABLE, json!("completed")), "{other}");
        let reason = [("reason", "regression")];
        assert_eq!(stack.count(REFUSALS, &reason).await.unwrap(), count);
    }
    let back = json!({"status": "completed", "error": null, "result": {"content": []}});
    stack.upstream.bend(&task, &back).unwrap();
    alice.until(&task, "completed").await.unwrap();
    assert_eq!(
        stack.events(&task).await.unwrap(),
        ["TaskCreated", "TaskCompleted"]
    );
}

#[tokio::test]
async fn a_cancelled_task_stays_cancelled() {
    let (stack, alice, task) = start_task().await;
    alice.cancel(&task).await.unwrap().result().unwrap();
    alice.until(&task, "cancelled").await.unwrap();
    let other = json!({"status": "completed", "result": {"content": []}});
    stack.upstream.bend(&task, &other).unwrap();
    let served = alice.get(&task).await.unwrap().result().unwrap();
    assert_eq!(served["status"], "cancelled");
    assert!(served.get("result").is_none());
    assert_eq!(
        stack.events(&task).await.unwrap(),
        ["TaskCreated", "TaskCancelled"]
    );
}

#[tokio::test]
async fn a_payload_that_is_missing_or_stray_is_a_breach_of_the_protocol() {
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
async fn an_answer_about_another_task_ends_this_one() {
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
async fn a_tool_that_was_withdrawn_keeps_its_output_to_itself() {
    let (stack, alice) = start().await;
    let task = alice.start_task("ask", json!({})).await.unwrap();
    alice.until(&task, "input_required").await.unwrap();
    let deny = |object: Manifest| match object.value()["spec"]["tenant"].as_str() {
        Some("acme") => object.set("/spec/upstreams/0/tools/deny", json!(["ask"])),
        _ => object,
    };
    stack.rewrite(deny).unwrap();
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
    assert_eq!(answer.await.unwrap().error_code().unwrap(), -31004);
    assert_eq!(stack.upstream.count("tasks/update"), 0);
    assert_eq!(stack.upstream.count("tasks/get"), gets);
    alice.cancel(&task).await.unwrap().result().unwrap();
    stack.upstream.arrived("tasks/cancel", 1).await.unwrap();
}

/// Polls keep a task, and nothing else does.
#[tokio::test]
async fn a_task_that_is_polled_is_kept_and_one_that_is_not_is_evicted_once() {
    let brief = |object: Manifest| match object.value()["kind"].as_str() {
        Some("McpUpstream") => object.set("/spec/tasks/retention", json!("4s")),
        _ => object,
    };
    let stack = Stack::start_with(brief).await.unwrap();
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

    // The end has a retention too, and its end is no event: case 11 and the second half of 85.
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

/// Unknown once is not lost, and not `working` either.
#[tokio::test]
async fn a_task_that_is_unknown_once_is_unavailable() {
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
