//! Notifications before a reply: what the client asked to be told of, as an event stream.

#![cfg(test)]

use hangar_tests::client::{Client, Reply};
use hangar_tests::envelope::Envelope;
use hangar_tests::open::Open;
use hangar_tests::scripted::{Answer, Framing, Gate};
use hangar_tests::sse;
use hangar_tests::stack::{ALICE, BOB, Stack};
use hangar_tests::wait;
use serde_json::{Value, json};

const UNAVAILABLE: i64 = -31001;
const UPSTREAM_PROTOCOL: i64 = -31008;
const REQUESTS: &str = "hangar_requests_total";
const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";

const DONE: &str =
    r#"{ "jsonrpc":"2.0","id":1,"result":{"resultType":"complete","content":[],"x": 1.0} }"#;
const TASK: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"task","taskId":"streamed","status":"working","createdAt":"2026-12-01T06:00:00Z","lastUpdatedAt":"2026-12-01T06:00:00Z","ttlMs":900000}}"#;

async fn open(stack: &Stack, envelope: &Envelope) -> Open {
    let address = stack.gateway.mcp_address();
    Open::send(address, "/mcp/default/reports", ALICE, envelope)
        .await
        .unwrap()
}

/// A call that asks for both kinds of notifications.
fn curious() -> Envelope {
    Envelope::call("echo", json!({"text": "hi"}))
        .meta("progressToken", json!("p-1"))
        .meta(LOG_LEVEL, json!("info"))
}

fn progress(token: &str, progress: u32) -> String {
    format!(
        r#"{{"jsonrpc":"2.0", "method":"notifications/progress","params":{{"progressToken":{token},"progress":{progress}.0}}}}"#
    )
}

fn log(text: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{{"level":"info","data":"{text}"}}}}"#
    )
}

fn stream(messages: &[&str]) -> String {
    messages.iter().map(|message| sse::event(message)).collect()
}

fn events(reply: &Reply) -> Vec<String> {
    assert_eq!(reply.status, 200);
    assert_eq!(reply.header("content-type"), Some("text/event-stream"));
    sse::events(std::str::from_utf8(&reply.body).unwrap())
}

fn answer(messages: &[&str]) -> Answer {
    Answer::raw(stream(messages)).framed(Framing::Sse)
}

async fn start() -> (Stack, Client) {
    let stack = Stack::start().await.unwrap();
    let alice = stack.client(ALICE);
    (stack, alice)
}

#[tokio::test]
async fn what_was_asked_for_passes_raw_and_in_order_before_the_reply() {
    let (stack, alice) = start().await;
    let own = [progress(r#""p-1""#, 1), log("a"), progress(r#""p-1""#, 2)];
    let sent = [
        own[0].as_str(),
        &progress(r#""p-2""#, 1),
        r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#,
        &own[1],
        r#"{"jsonrpc":"2.0","method":"notifications/tasks","params":{"taskId":"9f1c"}}"#,
        &own[2],
        DONE,
    ];
    let methods = [
        ("tools/call", curious()),
        (
            "prompts/get",
            Envelope::new("prompts/get", json!({"name": "greet"}))
                .meta("progressToken", json!("p-1"))
                .meta(LOG_LEVEL, json!("debug")),
        ),
        (
            "resources/read",
            Envelope::new("resources/read", json!({"uri": "x://y"}))
                .meta("progressToken", json!("p-1"))
                .meta(LOG_LEVEL, json!("debug")),
        ),
    ];
    for (method, envelope) in methods {
        stack.upstream.enqueue(method, answer(&sent));
        let reply = alice.send(&envelope).await.unwrap();
        let events = events(&reply);
        assert_eq!(events[..3], own, "{method}");
        assert_eq!(events.len(), 4, "{method}");
        assert_eq!(reply.header("x-accel-buffering"), Some("no"));
        assert!(reply.header("hangar-correlation-id").is_some());
        if method == "tools/call" {
            assert_eq!(events[3], DONE);
        } else {
            assert!(reply.result().is_ok(), "{method}");
        }
        // The upstream was asked with the client's own token.
        let seen = stack.upstream.seen_of(method).pop().unwrap();
        assert_eq!(seen.body, envelope.body());
    }
}

#[tokio::test]
async fn each_kind_passes_only_where_it_was_asked_for() {
    let (stack, alice) = start().await;
    let (told, logged) = (progress(r#""p-1""#, 1), log("a"));
    let sent = [told.as_str(), &logged, DONE];
    let call = || Envelope::call("echo", json!({"text": "hi"}));
    let table = [
        (call().meta("progressToken", json!("p-1")), &told),
        (call().meta(LOG_LEVEL, json!("info")), &logged),
    ];
    for (envelope, expected) in table {
        stack.upstream.enqueue("tools/call", answer(&sent));
        let reply = alice.send(&envelope).await.unwrap();
        assert_eq!(events(&reply), [expected.as_str(), DONE]);
    }
    // Nothing asked for, or nothing so little severe, or no stream taken: the answer is JSON and its bytes are the upstream's.
    let json_only = curious()
        .without_header("accept")
        .header("accept", "application/json");
    let severe_only = call().meta(LOG_LEVEL, json!("error"));
    for envelope in [call(), severe_only, json_only] {
        stack.upstream.enqueue("tools/call", answer(&sent));
        let reply = alice.send(&envelope).await.unwrap();
        assert_eq!(reply.header("content-type"), Some("application/json"));
        assert_eq!(reply.body, DONE);
    }
}

#[tokio::test]
async fn without_notifications_the_answer_stays_json() {
    let (stack, alice) = start().await;
    stack.upstream.enqueue("tools/call", answer(&[DONE]));
    let reply = alice.send(&curious()).await.unwrap();
    assert_eq!(reply.header("content-type"), Some("application/json"));
    assert_eq!(reply.body, DONE);
    // Also an error, with its own status.
    let unknown = Envelope::call("nothing", json!({})).meta("progressToken", json!(7));
    let reply = alice.send(&unknown).await.unwrap();
    assert_eq!(reply.header("content-type"), Some("application/json"));
    assert_eq!(reply.error_code().unwrap(), -32602);
    let reply = alice
        .send(&curious().header("mcp-name", "echo"))
        .await
        .unwrap();
    assert_eq!(reply.status, 400);
}

#[tokio::test]
async fn an_event_reaches_the_client_before_the_reply_is_there() {
    let (stack, _) = start().await;
    let told = progress(r#""p-1""#, 1);
    let gate = Gate::new();
    let held = answer(&[&told, DONE]).held_at(sse::event(&told).len(), &gate);
    stack.upstream.enqueue("tools/call", held);
    let mut open = open(&stack, &curious()).await;
    open.until(&told).await.unwrap();
    assert!(!open.got.contains("resultType"));
    gate.open();
    open.until(DONE).await.unwrap();
    let end = "0\r\n\r\n";
    open.until(end).await.unwrap();
}

#[tokio::test]
async fn an_error_after_the_first_event_is_the_last_event() {
    let (stack, alice) = start().await;
    let told = progress(r#""p-1""#, 1);
    let first = sse::event(&told).len();
    let refused = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"theirs"}}"#;
    let asks = r#"{"jsonrpc":"2.0","id":9,"method":"roots/list"}"#;
    let table = [
        (answer(&[&told, DONE]).cut_at(first), UNAVAILABLE),
        (answer(&[&told]), UPSTREAM_PROTOCOL),
        (answer(&[&told, asks, DONE]), UPSTREAM_PROTOCOL),
        (answer(&[&told, refused]), -32000),
    ];
    for (answer, code) in table {
        stack.upstream.enqueue("tools/call", answer);
        let reply = alice.send(&curious()).await.unwrap();
        let events = events(&reply);
        assert_eq!(events[0], told);
        assert_eq!(events.len(), 2, "{events:?}");
        assert_eq!(reply.error_code().unwrap(), code);
        assert_eq!(reply.message().unwrap()["id"], json!(1));
    }
}

/// The client left and the upstream worked on.
#[tokio::test]
async fn a_client_that_leaves_ends_the_upstream_s_work() {
    let (stack, alice) = start().await;
    let told = progress(r#""p-1""#, 1);
    let first = sse::event(&told).len();
    for (at, waits_for) in [(0, None), (first, Some(&told))] {
        let (never, ended) = (Gate::new(), Gate::new());
        let held = answer(&[&told, DONE]).held_at(at, &never).rings(&ended);
        stack.upstream.enqueue("tools/call", held);
        let mut open = open(&stack, &curious()).await;
        if let Some(told) = waits_for {
            open.until(told).await.unwrap();
        }
        never.reached(1).await.unwrap();
        assert_eq!(ended.count(), 0);
        drop(open);
        ended.reached(1).await.unwrap();
    }
    alice.list_tools().await.unwrap().result().unwrap();
    wait::eventually("nothing in flight", async || {
        let inflight = stack
            .gateway
            .scrape()
            .await?
            .sum("hangar_inflight_requests", &[]);
        wait::same(&inflight, &0.0)
    })
    .await
    .unwrap();
    assert_eq!(stack.upstream.count("tasks/cancel"), 0);
    // Who hung up is counted too: once each, as what it was.
    let gone = [("method", "tools/call"), ("outcome", "gone")];
    assert_eq!(stack.count(REQUESTS, &gone).await.unwrap(), 2);
    assert_eq!(stack.count(REQUESTS, &[]).await.unwrap(), 3);
}

/// A task is in the ledger before its handle is the last event; the client's leave never ends it.
#[tokio::test]
async fn case_17_a_task_is_registered_before_its_handle_is_streamed() {
    let (stack, alice) = start().await;
    let told = progress(r#""p-1""#, 1);
    let live = json!({
        "resultType": "complete", "taskId": "streamed", "status": "working",
        "createdAt": "2026-12-01T06:00:00Z", "lastUpdatedAt": "2026-12-01T06:00:00Z",
        "ttlMs": 900_000,
    });
    stack
        .upstream
        .script("tasks/get", move |_| Answer::result(&live));
    stack.upstream.enqueue("tools/call", answer(&[&told, TASK]));
    let reply = alice.send(&curious()).await.unwrap();
    assert_eq!(events(&reply), [told.as_str(), TASK]);
    alice.until("streamed", "working").await.unwrap();
    assert_eq!(
        stack.events("streamed").await.unwrap(),
        ["TaskCreated"],
        "the chain has it"
    );
    // The same id for somebody else: no handle goes out, and the live task is not touched.
    stack.upstream.enqueue("tools/call", answer(&[&told, TASK]));
    let bob = stack.client(BOB).send(&curious()).await.unwrap();
    assert_eq!(events(&bob).len(), 2);
    assert_eq!(bob.error_code().unwrap(), UPSTREAM_PROTOCOL);
    assert!(!events(&bob)[1].contains("streamed"));
    assert_eq!(stack.upstream.count("tasks/cancel"), 0);
}

/// A client that does not read holds its upstream back, and nobody else.
#[tokio::test]
async fn a_client_that_does_not_read_is_not_buffered_for() {
    let (stack, alice) = start().await;
    let filler = "x".repeat(60_000);
    let notes: Vec<String> = (0..250).map(|n| log(&format!("{n}-{filler}"))).collect();
    let mut sent: Vec<&str> = notes.iter().map(String::as_str).collect();
    sent.push(DONE);
    let ended = Gate::new();
    stack
        .upstream
        .enqueue("tools/call", answer(&sent).rings(&ended));
    let mut open = open(&stack, &curious()).await;
    open.until(r#""data":"0-"#).await.unwrap();
    for _ in 0..50 {
        alice
            .call("echo", json!({"text": "hi"}))
            .await
            .unwrap()
            .result()
            .unwrap();
    }
    assert_eq!(ended.count(), 0, "15 MB wait at the upstream");
    open.until(r#""data":"249-"#).await.unwrap();
    open.until(DONE).await.unwrap();
    ended.reached(1).await.unwrap();
}

/// Idle streams are cut by what lies between.
#[tokio::test]
async fn a_silent_stream_shows_that_it_lives() {
    let (stack, _) = start().await;
    let told = progress(r#""p-1""#, 1);
    let gate = Gate::new();
    let held = answer(&[&told, DONE]).held_at(sse::event(&told).len(), &gate);
    stack.upstream.enqueue("tools/call", held);
    let mut open = open(&stack, &curious()).await;
    open.until(&told).await.unwrap();
    open.until("\n: ").await.unwrap();
    gate.open();
    open.until(DONE).await.unwrap();
}

#[tokio::test]
async fn the_tenant_endpoint_streams_too() {
    let (stack, _) = start().await;
    let told = progress(r#""p-1""#, 1);
    stack.upstream.enqueue("tools/call", answer(&[&told, DONE]));
    let alice = stack.gateway.client().with_key(ALICE);
    let call = Envelope::call("reports__echo", json!({"text": "hi"}));
    let reply = alice.send(&call.meta("progressToken", json!("p-1"))).await;
    assert_eq!(events(&reply.unwrap()), [told.as_str(), DONE]);
}

/// What was streamed is counted like any other answer.
#[tokio::test]
async fn a_stream_is_one_request_in_the_metrics() {
    let (stack, alice) = start().await;
    let told = progress(r#""p-1""#, 1);
    for last in [
        DONE,
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"x"}}"#,
    ] {
        stack.upstream.enqueue("tools/call", answer(&[&told, last]));
        let reply: Value = alice.send(&curious()).await.unwrap().message().unwrap();
        assert_eq!(reply["id"], json!(1));
    }
    for outcome in ["ok", "rpc_error"] {
        let labels = [("method", "tools/call"), ("outcome", outcome)];
        let count = stack.count(REQUESTS, &labels).await.unwrap();
        assert_eq!(count, 1, "{outcome}");
    }
}
