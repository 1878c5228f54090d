//! The scripted upstream against the harness's own client: both must be right before they may
//! judge a gateway.

use hyper::StatusCode;
use hyper::body::Bytes;
use serde_json::json;

use super::{Answer, Framing, Gate, Upstream, mk_tool};
use crate::client::Client;
use crate::envelope::{Capabilities, Envelope};

async fn start() -> (Upstream, Client) {
    let upstream = Upstream::start().await.unwrap();
    let client = Client::new(&upstream.url());
    (upstream, client)
}

#[tokio::test]
async fn plays_the_life_of_a_task_in_both_framings() {
    for framing in [Framing::Json, Framing::Sse] {
        let (upstream, client) = start().await;
        upstream.framing(framing);
        let called = client.call("echo", json!({"text": "hi"})).await.unwrap();
        assert_eq!(called.result().unwrap()["content"][0]["text"], "hi");

        let slow = client.start_task("slow", json!({})).await.unwrap();
        client.until(&slow, "working").await.unwrap();
        upstream.complete(&slow, "report").unwrap();
        let done = client.until(&slow, "completed").await.unwrap();
        assert_eq!(done["result"]["content"][0]["text"], "report");

        let ask = client.start_task("ask", json!({})).await.unwrap();
        let asked = client.until(&ask, "input_required").await.unwrap();
        assert_eq!(
            asked["inputRequests"]["name"]["method"],
            "elicitation/create"
        );
        let ack = client
            .answer(&ask, "name", "accept", json!({"name": "Ann"}))
            .await
            .unwrap();
        assert_eq!(ack.result().unwrap(), json!({"resultType": "complete"}));
        let done = client.until(&ask, "completed").await.unwrap();
        assert_eq!(done["result"]["content"][0]["text"], "Hello Ann");
        assert!(done.get("inputRequests").is_none());

        let gone = client.start_task("slow", json!({})).await.unwrap();
        client.cancel(&gone).await.unwrap();
        client.until(&gone, "cancelled").await.unwrap();
        assert!(
            upstream.complete(&gone, "late").is_err(),
            "a terminal state is final"
        );
        assert_eq!(upstream.tasks(), [slow, ask, gone]);
    }
}

#[tokio::test]
async fn keeps_what_arrives_byte_for_byte_and_in_order() {
    let (upstream, client) = start().await;
    let body = Bytes::from_static(b"{ \"jsonrpc\":\"2.0\", \"id\": 1.0, \"method\":\"odd\" }");
    let headers = [("x-canary".to_owned(), "tweet".to_owned())];
    client
        .with_key("sesame")
        .post(&headers, body.clone())
        .await
        .unwrap();
    client.discover().await.unwrap();
    let seen = upstream.seen();
    let methods: Vec<_> = seen.iter().map(|one| one.method.as_str()).collect();
    assert_eq!(methods, ["odd", "server/discover"]);
    assert_eq!(seen[0].body, body);
    assert_eq!(seen[0].header("x-canary"), Some("tweet"));
    assert!(seen[0].contains("sesame") && !seen[1].contains("sesame"));
    assert_eq!(upstream.count("server/discover"), 1);
    upstream.arrived("odd", 1).await.unwrap();
}

#[tokio::test]
async fn queue_comes_before_script_and_script_before_the_built_in() {
    let (upstream, client) = start().await;
    upstream.script("tools/list", |seen| {
        Answer::result(&json!({"from": seen.method}))
    });
    upstream.enqueue("tools/list", Answer::result(&json!({"from": "queue"})));
    let mut from = Vec::new();
    for _ in 0..2 {
        from.push(client.list_tools().await.unwrap().result().unwrap()["from"].take());
    }
    assert_eq!(from, ["queue", "tools/list"]);
    upstream.unscript("tools/list");
    let listed = client.list_tools().await.unwrap().result().unwrap();
    assert_eq!(listed["tools"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn gives_exact_bytes_status_headers_and_the_id_as_it_was_spelled() {
    let (upstream, client) = start().await;
    let text = "{ \"n\": 1.50,\n \"z\": 1e2 }";
    let teapot = StatusCode::IM_A_TEAPOT;
    upstream.enqueue(
        "odd",
        Answer::result_text(text)
            .status(teapot)
            .header("x-more", "1"),
    );
    let body = Bytes::from_static(b"{\"id\": \"s\\u0031\", \"method\":\"odd\"}");
    let reply = client.post(&[], body).await.unwrap();
    assert_eq!(reply.status, teapot);
    assert_eq!(reply.header("x-more"), Some("1"));
    let expected = format!("{{\"jsonrpc\":\"2.0\",\"id\":\"s\\u0031\",\"result\":{text}}}");
    assert_eq!(reply.body, expected);
}

#[tokio::test]
async fn holds_an_answer_whose_request_was_handled() {
    let (upstream, client) = start().await;
    let gate = Gate::new();
    upstream.enqueue("tools/call", Answer::built_in().held(&gate));
    let call = tokio::spawn({
        let client = client.clone();
        async move { client.start_task("slow", json!({})).await }
    });
    gate.reached(1).await.unwrap();
    assert_eq!(
        upstream.tasks().len(),
        1,
        "the task exists before its handle is out"
    );
    assert!(!call.is_finished());
    gate.open();
    assert_eq!([call.await.unwrap().unwrap()], *upstream.tasks());
}

#[tokio::test]
async fn rings_when_the_answer_is_out() {
    let (upstream, client) = start().await;
    let (hold, out) = (Gate::new(), Gate::new());
    let answer = Answer::built_in().held_at(10, &hold).rings(&out);
    upstream.enqueue("tools/list", answer);
    let call = tokio::spawn(async move { client.list_tools().await });
    hold.reached(1).await.unwrap();
    assert_eq!(out.count(), 0);
    hold.open();
    out.reached(1).await.unwrap();
    call.await.unwrap().unwrap().result().unwrap();
}

#[tokio::test]
async fn holds_and_cuts_in_the_middle_of_a_body() {
    let (upstream, client) = start().await;
    let gate = Gate::new();
    upstream.enqueue(
        "tools/list",
        Answer::built_in().held_at(10, &gate).cut_at(20),
    );
    let call = tokio::spawn({
        let client = client.clone();
        async move { client.list_tools().await }
    });
    gate.reached(1).await.unwrap();
    gate.open();
    let error = call.await.unwrap().unwrap_err();
    assert!(format!("{error:#}").contains("cut off"), "{error:#}");

    upstream.enqueue("tools/list", Answer::hang_up());
    let error = client.list_tools().await.unwrap_err();
    assert!(format!("{error:#}").contains("no answer"), "{error:#}");
    client.list_tools().await.unwrap().result().unwrap();
}

#[tokio::test]
async fn lists_what_the_test_sets() {
    let (upstream, client) = start().await;
    upstream.set_tools(vec![mk_tool("echo", "Says it twice.", &json!({}))]);
    let listed = client.list_tools().await.unwrap().result().unwrap();
    assert_eq!(listed["tools"][0]["description"], "Says it twice.");
}

#[tokio::test]
async fn refuses_what_a_correct_server_refuses() {
    let (_upstream, client) = start().await;
    let call = || Envelope::call("slow", json!({}));
    let cases = [
        (
            "wrong name",
            -32020,
            call()
                .without_header("mcp-name")
                .header("mcp-name", "other"),
        ),
        ("no name", -32020, call().without_header("mcp-name")),
        ("name twice", -32020, call().header("mcp-name", "slow")),
        ("no method", -32020, call().without_header("mcp-method")),
        (
            "no version header",
            -32020,
            call().without_header("mcp-protocol-version"),
        ),
        ("no accept", -32602, call().without_header("accept")),
        (
            "no capabilities",
            -32602,
            call().without_meta(crate::envelope::CAPABILITIES_KEY),
        ),
        (
            "old version",
            -32022,
            call().meta(crate::envelope::VERSION_KEY, json!("2025-11-25")),
        ),
        ("unknown task", -32602, Envelope::get("nobody")),
        (
            "no tasks",
            -32021,
            Envelope::get("nobody").capabilities(Capabilities::None),
        ),
        (
            "ask without tasks",
            -32021,
            Envelope::call("ask", json!({})).capabilities(Capabilities::None),
        ),
        (
            "removed method",
            -32601,
            Envelope::new("tasks/list", json!({})),
        ),
    ];
    for (case, code, envelope) in cases {
        let reply = client.send(&envelope).await.unwrap();
        assert_eq!(reply.error_code().unwrap(), code, "{case}");
        assert!(reply.status.is_client_error(), "{case}");
    }
    let sync = client.call_sync("slow", json!({})).await.unwrap();
    assert_eq!(sync.result().unwrap()["resultType"], "complete");
}

#[tokio::test]
async fn bends_loses_and_reuses_tasks() {
    let (upstream, client) = start().await;
    upstream.set_task_ids(&["twin", "twin"]);
    let first = client.start_task("slow", json!({})).await.unwrap();
    let second = client.start_task("slow", json!({})).await.unwrap();
    assert_eq!((first.as_str(), second.as_str()), ("twin", "twin"));
    upstream
        .bend("twin", &json!({"status": "odd", "ttlMs": null}))
        .unwrap();
    let bent = client.get("twin").await.unwrap().result().unwrap();
    assert_eq!(bent["status"], "odd");
    assert!(bent.get("ttlMs").is_none());
    assert!(
        upstream.fail("twin", -32603, "late").is_ok(),
        "the second twin lives"
    );
    upstream.lose("twin").unwrap();
    assert_eq!(
        client.get("twin").await.unwrap().error_code().unwrap(),
        -32602
    );
}
