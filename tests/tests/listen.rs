//! `subscriptions/listen` at one upstream.

#![cfg(test)]

use std::time::{Duration, Instant};

use hangar_tests::client::Client;
use hangar_tests::envelope::{Capabilities, Envelope};
use hangar_tests::manifests::Manifest;
use hangar_tests::open::Open;
use hangar_tests::scripted::{Feed, mk_tool};
use hangar_tests::stack::{ALICE, BOB, CAROL, Stack};
use hangar_tests::wait;
use http::StatusCode;
use serde_json::{Value, json};

const PATH: &str = "/mcp/default/reports";
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

async fn start() -> (Stack, Client) {
    let stack = Stack::start().await.unwrap();
    let alice = stack.client(ALICE);
    (stack, alice)
}

fn listen(notifications: &Value) -> Envelope {
    let params = json!({"notifications": notifications});
    Envelope::new("subscriptions/listen", params).id(json!("s1"))
}

async fn open(stack: &Stack, key: &str, envelope: &Envelope) -> Open {
    let address = stack.gateway.mcp_address();
    Open::send(address, PATH, key, envelope).await.unwrap()
}

fn note(method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "method": format!("notifications/{method}"), "params": params})
}

fn task(id: &str, status: &str) -> Value {
    note(
        "tasks",
        &json!({
            "taskId": id, "status": status, "createdAt": "2026-12-01T06:00:00Z",
            "lastUpdatedAt": "2026-12-01T06:00:01Z", "ttlMs": null,
            "result": {"resultType": "complete", "content": [{"type": "text", "text": "UNCHECKED"}]},
        }),
    )
}

fn ended(id: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id,
        "result": {"resultType": "complete", "_meta": {SUBSCRIPTION: id}}})
}

fn deny(tool: &'static str) -> impl Fn(Manifest) -> Manifest {
    move |object| match object.value()["kind"].as_str() {
        Some("McpUpstream") => object.set("/spec/tools/deny", json!([tool])),
        _ => object,
    }
}

#[tokio::test]
async fn what_was_granted_is_told_under_the_client_s_own_id() {
    let (stack, _) = start().await;
    let table = [
        note("tools/list_changed", &json!({"tools": ["secret"]})),
        note("prompts/list_changed", &json!({})),
        note("resources/list_changed", &json!({})),
        note("resources/updated", &json!({"uri": "x://other"})),
        note("resources/updated", &json!({"uri": "x://a/b", "x": 1})),
        note("progress", &json!({"progressToken": "s1", "progress": 1})),
        note("message", &json!({"level": "info", "data": "x"})),
        note(
            "tools/list_changed",
            &json!({"_meta": {SUBSCRIPTION: "foreign"}}),
        ),
        note("resources/updated", &json!({"uri": "x://a"})),
    ];
    let asked = json!({"toolsListChanged": true, "promptsListChanged": true,
        "resourceSubscriptions": ["x://a", "x://c"]});
    let granted = json!({"toolsListChanged": true, "resourcesListChanged": true,
        "resourceSubscriptions": ["x://a"]});
    for id in [json!("s1"), json!(7), json!("7")] {
        let feed = Feed::script(&stack.upstream, &granted, &table);
        feed.open_all();
        let mut alice = open(&stack, ALICE, &listen(&asked).id(id.clone())).await;
        let events = alice.events(4).await.unwrap();
        let meta = json!({SUBSCRIPTION: id});
        assert_eq!(
            events,
            [
                note(
                    "subscriptions/acknowledged",
                    &json!({"_meta": meta, "notifications": {
                "toolsListChanged": true, "resourceSubscriptions": ["x://a"]}})
                ),
                note("tools/list_changed", &json!({"_meta": meta})),
                note(
                    "resources/updated",
                    &json!({"_meta": meta, "uri": "x://a/b", "x": 1})
                ),
                note("resources/updated", &json!({"_meta": meta, "uri": "x://a"})),
            ]
        );
        feed.end();
        assert_eq!(alice.to_end().await.unwrap()[4..], [ended(&id)]);
        let seen = stack
            .upstream
            .seen_of("subscriptions/listen")
            .pop()
            .unwrap();
        assert_ne!(seen.message()["id"], id, "an id of its own upstream");
        assert_eq!(seen.params()["notifications"], asked);
    }
}

#[tokio::test]
async fn a_task_is_told_as_tasks_get_would_answer() {
    let (stack, alice) = start().await;
    let own = alice.start_task("slow", json!({})).await.unwrap();
    let granted = json!({"taskIds": [own]});
    let feed = Feed::script(
        &stack.upstream,
        &granted,
        &[
            task(&own, "completed"),
            task("another", "completed"),
            task(&own, "completed"),
            task(&own, "completed"),
        ],
    );
    let mut open = open(&stack, ALICE, &listen(&granted)).await;
    let ack = open.events(1).await.unwrap();
    assert_eq!(ack[0]["params"]["notifications"], granted);
    // The upstream's own notification is not believed: it works still.
    feed.open(0);
    let working = open.events(2).await.unwrap().pop().unwrap();
    assert_eq!(working["method"], "notifications/tasks");
    assert_eq!(working["params"]["status"], "working");
    assert_eq!(working["params"]["_meta"][SUBSCRIPTION], "s1");
    assert!(working["params"].get("resultType").is_none());
    stack.upstream.complete(&own, "report").unwrap();
    let lists = stack.upstream.count("tools/list");
    feed.open_all();
    let done = open.events(3).await.unwrap().pop().unwrap();
    assert_eq!(done["params"]["status"], "completed");
    assert_eq!(done["params"]["result"]["content"][0]["text"], "report");
    assert!(
        stack.upstream.count("tools/list") > lists,
        "the contract was looked at"
    );
    assert_eq!(
        stack.events(&own).await.unwrap(),
        ["TaskCreated", "TaskCompleted"]
    );
    // Told once, however often it was said, and nothing of what was not checked.
    feed.end();
    assert_eq!(open.to_end().await.unwrap().len(), 4);
    assert!(!open.got.contains("UNCHECKED"));
}

/// A tool that changed its contract while a task of it ran (behaviour of the digest check) must not
/// hand its output over on another way.
#[tokio::test]
async fn a_drifted_task_is_told_as_failed_and_without_its_result() {
    let (stack, alice) = start().await;
    let own = alice.start_task("slow", json!({})).await.unwrap();
    let granted = json!({"taskIds": [own]});
    let feed = Feed::script(&stack.upstream, &granted, &[task(&own, "completed")]);
    let mut open = open(&stack, ALICE, &listen(&granted)).await;
    open.events(1).await.unwrap();
    stack.upstream.complete(&own, "poison").unwrap();
    stack
        .upstream
        .set_tools(vec![mk_tool("slow", "Does something else.", &json!({}))]);
    feed.open_all();
    let told = open.events(2).await.unwrap().pop().unwrap();
    assert_eq!(told["params"]["status"], "failed");
    assert_eq!(told["params"]["error"]["data"]["reason"], "digest_drift");
    assert!(!open.got.contains("poison") && !open.got.contains("UNCHECKED"));
}

/// joshrotenberg/tower-mcp#1089: the id alone was enough.
#[tokio::test]
async fn unknown_and_foreign_tasks_are_left_out_alike_and_no_upstream_hears_of_them() {
    let (stack, alice) = start().await;
    let own = alice.start_task("slow", json!({})).await.unwrap();
    let mut answers = Vec::new();
    for (key, id) in [(ALICE, "unknown"), (BOB, &*own), (CAROL, &*own)] {
        let mut open = open(&stack, key, &listen(&json!({"taskIds": [id]}))).await;
        let events = open.to_end().await.unwrap();
        assert_eq!(events[0]["params"]["notifications"], json!({}));
        answers.push(events);
    }
    assert!(answers.iter().all(|answer| *answer == answers[0]));
    assert_eq!(stack.upstream.count("subscriptions/listen"), 0);
    // Beside one's own they are not asked for either.
    let feed = Feed::script(&stack.upstream, &json!({"taskIds": [own, "unknown"]}), &[]);
    let mut open = open(
        &stack,
        ALICE,
        &listen(&json!({"taskIds": ["unknown", own]})),
    )
    .await;
    let events = open.events(1).await.unwrap();
    assert_eq!(
        events[0]["params"]["notifications"],
        json!({"taskIds": [own]})
    );
    let seen = stack
        .upstream
        .seen_of("subscriptions/listen")
        .pop()
        .unwrap();
    assert_eq!(seen.params()["notifications"], json!({"taskIds": [own]}));
    drop(feed);
}

#[tokio::test]
async fn what_cannot_be_listened_to_is_refused_before_the_upstream_hears_of_it() {
    let (stack, alice) = start().await;
    let many: Vec<String> = (0..65).map(|n| format!("t{n}")).collect();
    let json_only = listen(&json!({"toolsListChanged": true}))
        .without_header("accept")
        .header("accept", "application/json");
    let tasks = listen(&json!({"taskIds": ["t"]})).capabilities(Capabilities::None);
    let table = [
        (json_only, 400, -32600),
        (tasks, 400, -32021),
        (listen(&json!({"taskIds": many})), 400, -32602),
        (listen(&json!({"resourceSubscriptions": many})), 400, -32602),
        (listen(&json!([])), 400, -32602),
    ];
    for (envelope, status, code) in table {
        let reply = alice.send(&envelope).await.unwrap();
        assert_eq!(reply.status, status, "{code}");
        assert_eq!(reply.error_code().unwrap(), code);
    }
    assert_eq!(stack.upstream.seen().len(), 0);
    // An upstream that does not serve it says so itself, under the client's id.
    let reply = alice
        .send(&listen(&json!({"toolsListChanged": true})))
        .await
        .unwrap();
    assert_eq!(reply.status, StatusCode::NOT_FOUND);
    assert_eq!(reply.error_code().unwrap(), -32601);
    assert_eq!(reply.message().unwrap()["id"], "s1");
}

/// Every message is judged anew, and the stream ends with what it stands on.
#[tokio::test]
async fn a_stream_ends_with_the_grant_or_the_upstream_or_the_key() {
    let edits: [fn(Manifest) -> Manifest; 4] = [
        |object| match object.value()["metadata"]["name"].as_str() {
            Some("acme") => object.set("/spec/upstreams", json!([])),
            _ => object,
        },
        |object| match object.value()["kind"].as_str() {
            Some("McpUpstream") => object.set("/spec/endpoint/url", json!("http://127.0.0.1:1/x")),
            _ => object,
        },
        |object| match object.value()["metadata"]["name"].as_str() {
            Some("acme-keys") => object.set("/stringData/alice", json!("another-key-0123456789")),
            _ => object,
        },
        |object| match object.value()["kind"].as_str() {
            Some("McpUpstream") => object.set("/spec/admission", json!("Closed")),
            _ => object,
        },
    ];
    let (stack, _) = start().await;
    let granted = json!({"toolsListChanged": true});
    for (number, edit) in edits.into_iter().enumerate() {
        stack.rewrite(|object| object).unwrap();
        let feed = Feed::script(&stack.upstream, &granted, &[]);
        let mut open = wait::eventually("listening", async || {
            let mut open = open(&stack, ALICE, &listen(&granted)).await;
            open.until("acknowledged").await?;
            Ok(open)
        })
        .await
        .unwrap();
        stack.rewrite(edit).unwrap();
        let events = open.to_end().await.unwrap();
        assert_eq!(events[1..], [ended(&json!("s1"))], "edit {number}");
        feed.gone().await.unwrap();
    }
}

/// The policy may take a tool away while its task is listened to.
#[tokio::test]
async fn a_task_whose_tool_is_denied_is_not_told() {
    let (stack, alice) = start().await;
    let own = alice.start_task("slow", json!({})).await.unwrap();
    let granted = json!({"taskIds": [own], "toolsListChanged": true});
    let messages = [
        task(&own, "completed"),
        note("tools/list_changed", &json!({})),
    ];
    let feed = Feed::script(&stack.upstream, &granted, &messages);
    let mut open = open(&stack, ALICE, &listen(&granted)).await;
    open.events(1).await.unwrap();
    stack.upstream.complete(&own, "report").unwrap();
    stack.rewrite(deny("slow")).unwrap();
    // The client is told that it has other tools now.
    let changed = open.events(2).await.unwrap().pop().unwrap();
    assert_eq!(changed["method"], "notifications/tools/list_changed");
    let refused = [("reason", "withheld")];
    let before = stack
        .count("hangar_task_refusals_total", &refused)
        .await
        .unwrap();
    feed.open(0);
    stack
        .gateway
        .metric("hangar_task_refusals_total", &refused, 1.0)
        .await
        .unwrap();
    assert_eq!(before, 0);
    feed.open_all();
    open.events(3).await.unwrap();
    feed.end();
    let events = open.to_end().await.unwrap();
    assert_eq!(events.len(), 4);
    assert!(!open.got.contains("notifications/tasks"));
    // It is not granted any more either.
    let mut again = self::open(&stack, ALICE, &listen(&json!({"taskIds": [own]}))).await;
    assert_eq!(
        again.to_end().await.unwrap()[0]["params"]["notifications"],
        json!({})
    );
}

#[tokio::test]
async fn a_client_that_leaves_closes_the_upstream_s_stream() {
    let (stack, _) = start().await;
    let granted = json!({"toolsListChanged": true});
    let feed = Feed::script(&stack.upstream, &granted, &[]);
    let mut open = open(&stack, ALICE, &listen(&granted)).await;
    open.events(1).await.unwrap();
    stack
        .gateway
        .metric("hangar_listen_streams", &[], 1.0)
        .await
        .unwrap();
    drop(open);
    feed.gone().await.unwrap();
    wait::eventually("no stream left", async || {
        wait::same(&stack.count("hangar_listen_streams", &[]).await?, &0)
    })
    .await
    .unwrap();
    let labels = [("method", "subscriptions/listen"), ("outcome", "ok")];
    assert_eq!(
        stack.count("hangar_requests_total", &labels).await.unwrap(),
        1
    );
    assert_eq!(
        stack.count("hangar_inflight_requests", &[]).await.unwrap(),
        0
    );
}

/// A contract that the upstream says has changed is not taken for known, however fresh it is.
#[tokio::test]
async fn a_changed_list_makes_the_remembered_contracts_stale_at_once() {
    let (stack, alice) = start().await;
    let echo = async || {
        alice
            .call("echo", json!({"text": "hi"}))
            .await
            .unwrap()
            .result()
            .unwrap()
    };
    echo().await;
    let lists = stack.upstream.count("tools/list");
    echo().await;
    assert_eq!(stack.upstream.count("tools/list"), lists, "remembered");
    let granted = json!({"toolsListChanged": true});
    let messages = [note("tools/list_changed", &json!({}))];
    let feed = Feed::script(&stack.upstream, &granted, &messages);
    let mut open = open(&stack, ALICE, &listen(&granted)).await;
    feed.open_all();
    open.events(2).await.unwrap();
    echo().await;
    assert_eq!(stack.upstream.count("tools/list"), lists + 1);
}

#[tokio::test]
async fn a_tenant_has_so_many_streams_and_no_more() {
    let (stack, alice) = start().await;
    let granted = json!({"toolsListChanged": true});
    let _feed = Feed::script(&stack.upstream, &granted, &[]);
    let mut streams = Vec::new();
    for _ in 0..256 {
        let mut one = open(&stack, ALICE, &listen(&granted)).await;
        one.until("acknowledged").await.unwrap();
        streams.push(one);
    }
    let reply = alice.send(&listen(&granted)).await.unwrap();
    assert_eq!(reply.status, 503);
    assert_eq!(reply.error_code().unwrap(), -31013);
    assert_eq!(stack.upstream.count("subscriptions/listen"), 256);
    // Nobody else is kept out, and nothing else of this tenant.
    let mut carol = open(&stack, CAROL, &listen(&granted)).await;
    carol.until("acknowledged").await.unwrap();
    alice.list_tools().await.unwrap().result().unwrap();
    streams.pop();
    wait::eventually("a place is free", async || {
        let mut one = open(&stack, ALICE, &listen(&granted)).await;
        one.until("acknowledged").await
    })
    .await
    .unwrap();
}

/// A client that does not read holds its own upstream stream back, and nobody else.
#[tokio::test]
async fn a_client_that_does_not_read_is_not_buffered_for() {
    const MESSAGES: usize = 200;
    let (stack, alice) = start().await;
    // More than what Linux keeps in sockets on the way, whose buffers grow by themselves to 14 MB in all.
    // A debug build takes a second for 7 MB.
    let filler = "x".repeat(120_000);
    let messages: Vec<Value> = (0..MESSAGES)
        .map(|n| {
            note(
                "resources/updated",
                &json!({"uri": "x://a", "n": n, "x": filler}),
            )
        })
        .collect();
    let granted = json!({"resourceSubscriptions": ["x://a"]});
    let feed = Feed::script(&stack.upstream, &granted, &messages);
    feed.open_all();
    let mut open = open(&stack, ALICE, &listen(&granted)).await;
    open.until("acknowledged").await.unwrap();
    for _ in 0..50 {
        alice.list_tools().await.unwrap().result().unwrap();
    }
    assert!(!feed.is_through(), "24 MB wait at the upstream");
    let last = format!(r#""n":{}"#, MESSAGES - 1);
    open.until(&last).await.unwrap();
    feed.end();
    let events = open.to_end().await.unwrap();
    let numbers = events[1..=MESSAGES]
        .iter()
        .map(|event| &event["params"]["n"]);
    assert!(numbers.eq(&(0..MESSAGES).map(|n| json!(n)).collect::<Vec<_>>()));
}

#[tokio::test]
async fn a_silent_stream_shows_that_it_lives_and_ends_with_the_process() {
    let (mut stack, _) = start().await;
    let granted = json!({"toolsListChanged": true});
    let _feed = Feed::script(&stack.upstream, &granted, &[]);
    let mut open = open(&stack, ALICE, &listen(&granted)).await;
    open.events(1).await.unwrap();
    open.until("\n: ").await.unwrap();
    let started = Instant::now();
    let process = stack.gateway.process();
    let ended_well = process.terminate(Duration::from_secs(15)).await.unwrap();
    assert!(ended_well.success());
    assert!(
        started.elapsed() < Duration::from_secs(15),
        "streams do not hold the drain"
    );
    assert_eq!(open.to_end().await.unwrap()[1..], [ended(&json!("s1"))]);
}
