//! The server over HTTP, as a client sees it.

use std::{net::SocketAddr, time::Duration};

use axum::body::{Body, Bytes};
use http_body_util::BodyExt;
use hyper::{Request, StatusCode, http::request::Builder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use serde_json::{Value, json};

struct Peer {
    address: SocketAddr,
    http: Client<HttpConnector, Body>,
}

const VERSION: &str = "2026-07-28";

async fn mk_peer() -> Peer {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(super::run(listener, Vec::new()));
    let http = Client::builder(TokioExecutor::new()).build_http();
    Peer { address, http }
}

fn with_tasks() -> Value {
    json!({"elicitation": {"form": {}}, "extensions": {"io.modelcontextprotocol/tasks": {}}})
}

impl Peer {
    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    async fn send(&self, request: Builder, body: String) -> (StatusCode, Bytes) {
        let response = self
            .http
            .request(request.body(Body::from(body)).unwrap())
            .await
            .unwrap();
        let status = response.status();
        let body = response.into_body().collect().await.unwrap();
        (status, body.to_bytes())
    }

    /// One MCP request; the SDK answers as an event stream of one message.
    async fn mcp(
        &self,
        method: &str,
        name: Option<&str>,
        mut params: Value,
        capabilities: Value,
    ) -> Value {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": VERSION,
            "io.modelcontextprotocol/clientCapabilities": capabilities,
            "io.modelcontextprotocol/clientInfo": {"name": "peer", "version": "1"},
        });
        let mut request = Request::post(self.url("/mcp"))
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", VERSION)
            .header("mcp-method", method);
        if let Some(name) = name {
            request = request.header("mcp-name", name);
        }
        let body =
            json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
        let (_, bytes) = self.send(request, body).await;
        let text = std::str::from_utf8(&bytes).unwrap();
        let message = text
            .lines()
            .filter_map(|line| line.strip_prefix("data:"))
            .next_back()
            .unwrap_or(text);
        serde_json::from_str(message).unwrap_or_else(|_| panic!("{method} answered {text}"))
    }

    async fn crawl(&self, seconds: f64) -> String {
        let params =
            json!({"name": "crawl", "arguments": {"site": "example.com", "seconds": seconds}});
        let created = self
            .mcp("tools/call", Some("crawl"), params, with_tasks())
            .await;
        assert_eq!(created["result"]["resultType"], "task", "{created}");
        assert_eq!(created["result"]["status"], "working", "{created}");
        created["result"]["taskId"].as_str().unwrap().to_owned()
    }

    async fn get(&self, id: &str) -> Value {
        self.mcp("tasks/get", Some(id), json!({"taskId": id}), with_tasks())
            .await["result"]
            .take()
    }

    /// Polls until the task has the status, for 10 seconds at most.
    async fn reach(&self, id: &str, status: &str) -> Value {
        let reached = async {
            loop {
                let task = self.get(id).await;
                if task["status"] == status {
                    return task;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), reached)
            .await
            .unwrap()
    }

    async fn answer(&self, id: &str, answer: Value) -> Value {
        let params = json!({"taskId": id, "inputResponses": {"publish": answer}});
        self.mcp("tasks/update", Some(id), params, with_tasks())
            .await
    }

    async fn crawl_contract(&self) -> Value {
        let listed = self.mcp("tools/list", None, json!({}), json!({})).await;
        let tools = listed["result"]["tools"].as_array().unwrap();
        tools
            .iter()
            .find(|tool| tool["name"] == "crawl")
            .unwrap()
            .clone()
    }

    async fn set_schema(&self, text: &str) -> StatusCode {
        self.send(Request::post(self.url("/control/schema")), text.to_owned())
            .await
            .0
    }

    async fn log(&self) -> Value {
        let (_, body) = self
            .send(Request::get(self.url("/control/log")), String::new())
            .await;
        serde_json::from_slice(&body).unwrap()
    }
}

#[tokio::test]
async fn greet_answers_at_once_and_wrong_arguments_are_refused() {
    let peer = mk_peer().await;
    let params = json!({"name": "greet", "arguments": {"name": "Ada"}});
    let greeted = peer
        .mcp("tools/call", Some("greet"), params, with_tasks())
        .await;
    assert_eq!(greeted["result"]["content"][0]["text"], "Hello, Ada!");

    let refused = peer
        .mcp(
            "tools/call",
            Some("greet"),
            json!({"name": "greet"}),
            with_tasks(),
        )
        .await;
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    let params = json!({"name": "crawl", "arguments": {"site": "example.com", "seconds": -1}});
    let refused = peer
        .mcp("tools/call", Some("crawl"), params, with_tasks())
        .await;
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
}

#[tokio::test]
async fn a_crawl_asks_in_the_middle_and_publishes_on_a_yes() {
    let peer = mk_peer().await;
    let id = peer.crawl(0.1).await;
    let task = peer.reach(&id, "input_required").await;
    let question = &task["inputRequests"]["publish"];
    assert_eq!(question["method"], "elicitation/create");
    assert_eq!(
        question["params"]["message"],
        "Publish the report of example.com?"
    );
    assert_eq!(
        question["params"]["requestedSchema"]["properties"]["publish"]["type"],
        "boolean"
    );

    let ack = peer
        .answer(
            &id,
            json!({"action": "accept", "content": {"publish": true}}),
        )
        .await;
    assert_eq!(ack["result"]["resultType"], "complete", "{ack}");
    let task = peer.reach(&id, "completed").await;
    assert_eq!(
        task["result"]["content"][0]["text"],
        "the report of example.com is published"
    );
}

#[tokio::test]
async fn anything_but_a_yes_leaves_a_draft() {
    let peer = mk_peer().await;
    for answer in [
        json!({"action": "decline"}),
        json!({"action": "accept", "content": {"publish": false}}),
    ] {
        let id = peer.crawl(0.0).await;
        peer.reach(&id, "input_required").await;
        peer.answer(&id, answer).await;
        let task = peer.reach(&id, "completed").await;
        assert_eq!(
            task["result"]["content"][0]["text"],
            "the report of example.com stays a draft"
        );
    }
}

#[tokio::test]
async fn a_cancelled_crawl_stops() {
    let peer = mk_peer().await;
    let id = peer.crawl(600.0).await;
    peer.mcp(
        "tasks/cancel",
        Some(&id),
        json!({"taskId": &id}),
        with_tasks(),
    )
    .await;
    peer.reach(&id, "cancelled").await;
}

#[tokio::test]
async fn without_the_extension_a_crawl_is_an_ordinary_call() {
    let peer = mk_peer().await;
    let params = json!({"name": "crawl", "arguments": {"site": "example.com", "seconds": 0}});
    let answer = peer
        .mcp("tools/call", Some("crawl"), params, json!({}))
        .await;
    assert_eq!(answer["result"]["resultType"], "complete", "{answer}");
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.ends_with("nobody could be asked"), "{text}");
}

#[tokio::test]
async fn the_contract_changes_and_comes_back_byte_for_byte() {
    let peer = mk_peer().await;
    let reviewed = peer.crawl_contract().await;
    assert_eq!(peer.set_schema("v2").await, StatusCode::OK);
    let drifted = peer.crawl_contract().await;
    assert_ne!(drifted["description"], reviewed["description"]);
    assert_ne!(drifted["inputSchema"], reviewed["inputSchema"]);
    assert_eq!(peer.set_schema("v3").await, StatusCode::BAD_REQUEST);
    assert_eq!(peer.crawl_contract().await, drifted);
    assert_eq!(peer.set_schema("v1\n").await, StatusCode::OK);
    assert_eq!(peer.crawl_contract().await, reviewed);
}

#[tokio::test]
async fn the_log_counts_each_method_and_not_itself() {
    let peer = mk_peer().await;
    peer.crawl_contract().await;
    peer.crawl_contract().await;
    peer.get("no-such-task").await;
    peer.send(Request::post(peer.url("/mcp")), "{".to_owned())
        .await;
    peer.log().await;
    peer.send(
        Request::post(peer.url("/mcp")).header("authorization", "Bearer leaked"),
        "{}".to_owned(),
    )
    .await;
    let expected = json!({"tools/list": 2, "tasks/get": 1, "unreadable": 2});
    assert_eq!(
        peer.log().await,
        json!({"total": 5, "received": expected, "withCredential": 1})
    );
}
