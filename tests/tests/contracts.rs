//! The contract that a synchronous call relies on: how old it may be, and what makes it stale.

#![cfg(test)]

use hangar_tests::client::Client;
use hangar_tests::envelope::Envelope;
use hangar_tests::manifests::Manifest;
use hangar_tests::open::Open;
use hangar_tests::scripted::{Answer, Feed, Framing, Legacy, mk_tool, tools};
use hangar_tests::stack::{ALICE, Stack};
use hangar_tests::{sse, wait};
use hyper::StatusCode;
use serde_json::{Value, json};

const PATH: &str = "/mcp/default/reports";
const DRIFTED: i64 = -31003;
const UNAVAILABLE: i64 = -31001;
const UNKNOWN: i64 = -32602;

/// Contracts of this upstream may be so old.
async fn start(max_age: &str) -> (Stack, Client) {
    let aged = |object: Manifest| match object.value()["kind"].as_str() {
        Some("McpUpstream") => object.set("/spec/tools/maxAge", json!(max_age)),
        _ => object,
    };
    let stack = Stack::start_with(aged).await.unwrap();
    let alice = stack.client(ALICE);
    (stack, alice)
}

/// The usual tools with another contract of `echo`.
fn drifted() -> Vec<Value> {
    let mut tools = tools();
    tools[0] = mk_tool("echo", "Says something else.", &json!({}));
    tools
}

async fn call(client: &Client) -> Result<Value, i64> {
    let reply = client.call_sync("echo", json!({"text": "hi"})).await;
    let reply = reply.unwrap();
    reply.result().map_err(|_| reply.error_code().unwrap())
}

/// Calls are refused, and nothing of them reaches the upstream.
async fn assert_refused(stack: &Stack, client: &Client) {
    let calls = stack.upstream.count("tools/call");
    let drift = [("method", "tools/call"), ("outcome", "drift")];
    let name = "hangar_requests_total";
    let before = stack.gateway.scrape().await.unwrap().sum(name, &drift);
    for _ in 0..3 {
        assert_eq!(call(client).await.unwrap_err(), DRIFTED);
    }
    assert_eq!(stack.upstream.count("tools/call"), calls);
    let counted = stack.gateway.metric(name, &drift, before + 3.0).await;
    counted.unwrap();
}

#[tokio::test]
async fn a_call_relies_on_a_contract_that_is_young_enough_and_asks_for_no_other() {
    let (stack, alice) = start("1h").await;
    call(&alice).await.unwrap();
    let lists = stack.upstream.count("tools/list");
    stack.upstream.set_tools(drifted());
    for _ in 0..3 {
        call(&alice).await.unwrap();
    }
    assert_eq!(stack.upstream.count("tools/list"), lists);
    // Whoever lists asks anew, and calls rely on what came of it.
    assert_eq!(names(&alice).await, ["ask", "slow"]);
    assert_refused(&stack, &alice).await;
}

#[tokio::test]
async fn a_call_relies_on_no_contract_that_is_too_old() {
    let (stack, alice) = start("1s").await;
    call(&alice).await.unwrap();
    stack.upstream.set_tools(drifted());
    wait::eventually("the contract is too old", async || {
        match call(&alice).await {
            Ok(_) => anyhow::bail!("served still"),
            Err(code) => wait::same(&code, &DRIFTED),
        }
    })
    .await
    .unwrap();
    assert_refused(&stack, &alice).await;
    // Put back, it is the pinned one again, and nobody waits for an age.
    stack.upstream.set_tools(tools());
    call(&alice).await.unwrap();
}

#[tokio::test]
async fn a_call_is_refused_as_soon_as_a_listener_was_told_of_a_change() {
    let (stack, alice) = start("1h").await;
    let granted = json!({"toolsListChanged": true});
    let changed = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
    let feed = Feed::script(&stack.upstream, &granted, &[changed]);
    let listen = Envelope::new("subscriptions/listen", json!({"notifications": granted}));
    let address = stack.gateway.mcp_address();
    let mut open = Open::send(address, PATH, ALICE, &listen).await.unwrap();
    open.events(1).await.unwrap();
    call(&alice).await.unwrap();
    stack.upstream.set_tools(drifted());
    call(&alice).await.unwrap();
    feed.open(0);
    open.events(2).await.unwrap();
    assert_refused(&stack, &alice).await;
}

/// An upstream may say so on the stream of any request.
#[tokio::test]
async fn a_call_is_refused_as_soon_as_another_s_stream_told_of_a_change() {
    let (stack, alice) = start("1h").await;
    call(&alice).await.unwrap();
    stack.upstream.set_tools(drifted());
    let done = json!({"jsonrpc": "2.0", "id": 1, "result": {
        "resultType": "complete", "content": [],
    }});
    stack.upstream.enqueue("tools/call", told(&done));
    call(&alice).await.unwrap();
    assert_refused(&stack, &alice).await;
}

/// One of the revision before has no other way to say it.
#[tokio::test]
async fn a_call_is_refused_as_soon_as_an_older_upstream_told_of_a_change() {
    let (stack, alice) = start("1h").await;
    let legacy = Legacy::teach(&stack.upstream);
    call(&alice).await.unwrap();
    legacy.within(&stack.upstream, "tools/list", |_| {
        Answer::result(&json!({"tools": drifted()}))
    });
    call(&alice).await.unwrap();
    legacy.within(&stack.upstream, "tools/call", |seen| {
        let id = &seen.message()["id"];
        told(&json!({"jsonrpc": "2.0", "id": id, "result": {"content": []}}))
    });
    call(&alice).await.unwrap();
    assert_refused(&stack, &alice).await;
}

/// A stream that tells of a change before its reply.
fn told(reply: &Value) -> Answer {
    let changed = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
    let body = sse::event(changed) + &sse::event(&reply.to_string());
    Answer::raw(body).framed(Framing::Sse)
}

/// A change that is told while a list is on its way is not in that list, for all one knows.
#[tokio::test]
async fn a_list_that_told_of_a_change_itself_is_asked_for_once_more() {
    let (stack, alice) = start("1h").await;
    call(&alice).await.unwrap();
    stack.upstream.set_tools(drifted());
    let old = json!({"jsonrpc": "2.0", "id": 1, "result": {
        "resultType": "complete", "tools": tools(),
    }});
    stack.upstream.enqueue("tools/list", told(&old));
    let lists = stack.upstream.count("tools/list");
    assert_eq!(names(&alice).await, ["ask", "slow"]);
    assert_eq!(stack.upstream.count("tools/list"), lists + 2);
    // One that tells of a change with every list is taken at its word in the end.
    let old = told(&old);
    stack.upstream.script("tools/list", move |_| old.clone());
    let lists = stack.upstream.count("tools/list");
    assert_eq!(names(&alice).await, ["ask", "echo", "slow"]);
    assert_eq!(stack.upstream.count("tools/list"), lists + 2);
}

async fn names(client: &Client) -> Vec<String> {
    let listed = client.list_tools().await.unwrap().result().unwrap();
    let tools = listed["tools"].as_array().unwrap().iter();
    let names = tools.map(|tool| tool["name"].as_str().unwrap().to_owned());
    names.collect()
}

#[tokio::test]
async fn without_a_contract_no_call_is_relayed() {
    let (stack, alice) = start("1s").await;
    // Whatever the mode, a tool that is not listed does not exist.
    stack.upstream.set_tools(tools().split_off(1));
    assert_eq!(call(&alice).await.unwrap_err(), UNKNOWN);
    for answer in [
        Answer::error(-32603, "no"),
        Answer::raw("").status(StatusCode::BAD_GATEWAY),
        Answer::raw("").status(StatusCode::TOO_MANY_REQUESTS),
        Answer::hang_up(),
        Answer::result(&json!({"resultType": "complete", "tools": {}})),
    ] {
        let what = format!("{answer:?}");
        stack.upstream.script("tools/list", move |_| answer.clone());
        assert_eq!(call(&alice).await.unwrap_err(), UNAVAILABLE, "{what}");
        stack.upstream.unscript("tools/list");
        assert_eq!(call(&alice).await.unwrap_err(), UNKNOWN, "{what}");
    }
    assert_eq!(stack.upstream.count("tools/call"), 0);
    stack.upstream.set_tools(tools());
    call(&alice).await.unwrap();
}

#[tokio::test]
async fn where_pins_are_explicit_a_tool_without_one_is_refused() {
    let explicit = |object: Manifest| match object.value()["kind"].as_str() {
        Some("McpUpstream") => object.set("/spec/tools/pinning", json!({"mode": "Explicit"})),
        _ => object,
    };
    let stack = Stack::start_with(explicit).await.unwrap();
    let alice = stack.client(ALICE);
    assert_refused(&stack, &alice).await;
    assert!(names(&alice).await.is_empty());
}

/// The first sight of a tool is kept: neither a restart nor another start makes a drift a first one.
#[tokio::test]
async fn a_first_sight_is_kept_over_a_restart() {
    let (mut stack, alice) = start("1h").await;
    call(&alice).await.unwrap();
    stack.gateway.restart().await.unwrap();
    stack.gateway.ready().await.unwrap();
    stack.upstream.set_tools(drifted());
    assert_refused(&stack, &alice).await;
    stack.upstream.set_tools(tools());
    call(&alice).await.unwrap();
}
