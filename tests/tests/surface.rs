//! Prompts, resources and completions through one upstream: byte for byte, but for names and cache
//! hints.

#![cfg(test)]

use hangar_tests::client::{Client, Reply};
use hangar_tests::envelope::Envelope;
use hangar_tests::scripted::{Answer, Framing};
use hangar_tests::stack::{ALICE, Stack};
use serde_json::{Value, json};

const INVALID_PARAMS: i64 = -32602;
const HEADER_MISMATCH: i64 = -32020;
const UPSTREAM_PROTOCOL: i64 = -31008;

const URI: &str = "file:///caf\u{e9}?a=1#b";

/// At the upstream's own endpoint, and at the tenant's.
async fn start() -> (Stack, Client, Client) {
    let stack = Stack::start().await.unwrap();
    let alice = stack.client(ALICE);
    let at_tenant = stack.gateway.client().with_key(ALICE);
    (stack, alice, at_tenant)
}

fn text(reply: &Reply) -> String {
    String::from_utf8(reply.body.to_vec()).unwrap()
}

fn prompt(name: &str) -> Envelope {
    Envelope::new(
        "prompts/get",
        json!({"name": name, "arguments": {"a": "b"}}),
    )
}

fn read(uri: &str) -> Envelope {
    Envelope::new("resources/read", json!({"uri": uri}))
}

fn complete(reference: &Value) -> Envelope {
    Envelope::new(
        "completion/complete",
        json!({"ref": reference, "argument": {"name": "x", "value": "p"}}),
    )
}

/// Every method with a result that has odd bytes in it and needs no change.
fn methods() -> Vec<(&'static str, Envelope, &'static str)> {
    vec![
        (
            "prompts/get",
            prompt("greet"),
            r#"{ "resultType":"complete","messages":[{"x": 1.50e1}],"é":"\u0041" }"#,
        ),
        (
            "resources/read",
            read("file:///a"),
            r#"{ "resultType":"complete","contents":[{"x": 1.0}],"ttlMs":7,"cacheScope":"private" }"#,
        ),
        (
            "completion/complete",
            complete(&json!({"type": "ref/resource", "uri": "file:///{x}"})),
            r#"{ "resultType":"complete","completion":{"values":["p\u0041"],"total": 1.0} }"#,
        ),
        (
            "prompts/list",
            Envelope::new("prompts/list", json!({})),
            r#"{ "resultType":"complete","prompts":[{"name":"gr\u0065et"}],"ttlMs":0,"cacheScope":"private" }"#,
        ),
        (
            "resources/list",
            Envelope::new("resources/list", json!({})),
            r#"{ "resultType":"complete","resources":[{"uri":"file:///a"}],"ttlMs":0,"cacheScope":"private" }"#,
        ),
        (
            "resources/templates/list",
            Envelope::new("resources/templates/list", json!({})),
            r#"{ "resultType":"complete","resourceTemplates":[],"ttlMs":0,"cacheScope":"private" }"#,
        ),
    ]
}

#[tokio::test]
async fn every_method_passes_byte_for_byte_in_both_framings() {
    let (stack, alice, _) = start().await;
    for (method, envelope, result) in methods() {
        for framing in [Framing::Json, Framing::Sse] {
            let answer = Answer::result_text(result).framed(framing);
            stack.upstream.enqueue(method, answer);
            let reply = alice.send(&envelope).await.unwrap();
            assert_eq!(reply.status, 200, "{method}");
            assert!(text(&reply).contains(result), "{method}: {}", text(&reply));
            let seen = stack.upstream.seen_of(method).pop().unwrap();
            assert_eq!(
                seen.body,
                envelope.body(),
                "{method}: the body is the client's"
            );
            assert_eq!(seen.header("mcp-method"), Some(method));
            let name = match method {
                "prompts/get" => Some("greet"),
                "resources/read" => Some("file:///a"),
                _ => None,
            };
            assert_eq!(seen.header("mcp-name"), name, "{method}");
            assert!(!seen.contains(ALICE));
        }
    }
}

#[tokio::test]
async fn an_error_of_the_upstream_passes_as_it_came() {
    let (stack, alice, _) = start().await;
    let data = json!({"uri": "file:///none"});
    let error = Answer::error_with(INVALID_PARAMS, "Resource not found", &data);
    stack.upstream.enqueue("resources/read", error);
    let reply = alice.send(&read("file:///none")).await.unwrap();
    assert_eq!(reply.message().unwrap()["error"]["data"], data);
}

#[tokio::test]
async fn headers_that_differ_from_the_body_are_refused_before_the_upstream() {
    let (stack, alice, _) = start().await;
    let before = stack.upstream.seen().len();
    for envelope in [prompt("greet"), read("file:///a")] {
        let bent = [
            envelope.clone().without_header("mcp-name"),
            envelope
                .clone()
                .without_header("mcp-name")
                .header("mcp-name", "other"),
            envelope.clone().header("mcp-name", "greet"),
            envelope
                .clone()
                .without_header("mcp-method")
                .header("mcp-method", "tools/call"),
        ];
        for envelope in bent {
            let reply = alice.send(&envelope).await.unwrap();
            assert_eq!(reply.error_code().unwrap(), HEADER_MISMATCH);
            assert_eq!(reply.status, 400);
        }
    }
    let list = Envelope::new("prompts/list", json!({})).header("mcp-name", "greet");
    let reply = alice.send(&list).await.unwrap();
    assert_eq!(reply.error_code().unwrap(), HEADER_MISMATCH);
    assert_eq!(stack.upstream.seen().len(), before);
}

/// A URI outside ASCII crosses in the base64 form on both sides.
#[tokio::test]
async fn a_uri_is_wrapped_where_a_header_cannot_hold_it() {
    let (stack, alice, _) = start().await;
    let wrapped = "=?base64?ZmlsZTovLy9jYWbDqT9hPTEjYg==?=";
    let envelope = read(URI)
        .without_header("mcp-name")
        .header("mcp-name", wrapped);
    let result = json!({"resultType": "complete", "contents": []});
    stack
        .upstream
        .enqueue("resources/read", Answer::result(&result));
    alice.send(&envelope).await.unwrap().result().unwrap();
    let seen = stack.upstream.seen_of("resources/read").remove(0);
    assert_eq!(seen.header("mcp-name"), Some(wrapped));
    assert_eq!(seen.params()["uri"], URI);
}

#[tokio::test]
async fn names_and_uris_are_bounded() {
    let (stack, alice, _) = start().await;
    let long = format!("file:///{}", "a".repeat(8192 - 8));
    let result = json!({"resultType": "complete", "contents": []});
    stack
        .upstream
        .enqueue("resources/read", Answer::result(&result));
    alice.send(&read(&long)).await.unwrap().result().unwrap();
    let before = stack.upstream.seen().len();
    for envelope in [
        read(&format!("{long}a")),
        prompt(&"p".repeat(257)),
        complete(&json!({"type": "ref/other", "name": "x"})),
        complete(&json!({"type": "ref/prompt", "uri": "x"})),
        complete(&json!("ref/prompt")),
    ] {
        let reply = alice.send(&envelope).await.unwrap();
        assert_eq!(reply.error_code().unwrap(), INVALID_PARAMS);
    }
    assert_eq!(stack.upstream.seen().len(), before);
}

#[tokio::test]
async fn the_tenant_endpoint_prefixes_prompts_and_leaves_uris_alone() {
    let (stack, _, alice) = start().await;
    let prompts = r#"{"resultType":"complete","prompts":[{"x": 1.0, "name":"greet"}]}"#;
    stack
        .upstream
        .enqueue("prompts/list", Answer::result_text(prompts));
    let listed = alice.send(&Envelope::new("prompts/list", json!({}))).await;
    assert!(text(&listed.unwrap()).contains(r#"[{"x": 1.0, "name":"reports__greet"}]"#));

    let got = json!({"resultType": "complete", "messages": []});
    stack.upstream.enqueue("prompts/get", Answer::result(&got));
    let reply = alice.send(&prompt("reports__greet")).await.unwrap();
    assert_eq!(reply.result().unwrap(), got);
    let seen = stack.upstream.seen_of("prompts/get").remove(0);
    assert_eq!(seen.params()["name"], "greet");
    assert_eq!(seen.header("mcp-name"), Some("greet"));

    let completed = json!({"resultType": "complete", "completion": {"values": []}});
    for _ in 0..2 {
        let answer = Answer::result(&completed);
        stack.upstream.enqueue("completion/complete", answer);
    }
    let of_prompt = complete(&json!({"type": "ref/prompt", "name": "reports__greet"}));
    alice.send(&of_prompt).await.unwrap().result().unwrap();
    let uri = "reports__x:///{x}";
    let of_resource = complete(&json!({"type": "ref/resource", "uri": uri}));
    alice.send(&of_resource).await.unwrap().result().unwrap();
    let seen = stack.upstream.seen_of("completion/complete");
    assert_eq!(seen[0].params()["ref"]["name"], "greet");
    assert_eq!(seen[1].params()["ref"]["uri"], uri);

    let before = stack.upstream.seen().len();
    for envelope in [
        prompt("greet"),
        complete(&json!({"type": "ref/prompt", "name": "greet"})),
    ] {
        let reply = alice.send(&envelope).await.unwrap();
        assert_eq!(reply.error_code().unwrap(), INVALID_PARAMS);
    }
    assert_eq!(stack.upstream.seen().len(), before);
}

/// modelcontextprotocol#3207: a hostile upstream says `public`, and a cache that tenants share
/// serves one tenant what another may see.
#[tokio::test]
async fn no_list_may_be_shared_or_kept_and_cursors_pass() {
    let (stack, alice, _) = start().await;
    for (method, items) in [
        ("prompts/list", "prompts"),
        ("resources/list", "resources"),
        ("resources/templates/list", "resourceTemplates"),
    ] {
        let page = json!({
            "resultType": "complete", items: [], "nextCursor": "", "ttlMs": 60_000,
            "cacheScope": "public",
        });
        stack.upstream.enqueue(method, Answer::result(&page));
        let envelope = Envelope::new(method, json!({"cursor": "\u{e9} 1"}));
        let listed = alice.send(&envelope).await.unwrap().result().unwrap();
        assert_eq!(listed["cacheScope"], "private", "{method}");
        assert_eq!(listed["ttlMs"], 0, "{method}");
        assert_eq!(listed["nextCursor"], "", "{method}");
        let seen = stack.upstream.seen_of(method).remove(0);
        assert_eq!(seen.params()["cursor"], "\u{e9} 1");
    }
    let public = json!({
        "resultType": "complete", "contents": [], "ttlMs": 60_000, "cacheScope": "public",
    });
    stack
        .upstream
        .enqueue("resources/read", Answer::result(&public));
    let content = alice.send(&read("file:///a")).await.unwrap();
    assert_eq!(content.result().unwrap()["cacheScope"], "private");
}

/// PrefectHQ/fastmcp#3948 and #4579: a proxy announced capabilities of its own and lost the
/// upstream's instructions.
#[tokio::test]
async fn discover_announces_what_the_upstream_announced() {
    let (stack, alice, _) = start().await;
    let theirs = json!({
        "resultType": "complete", "supportedVersions": ["2026-07-28"],
        "capabilities": {
            "prompts": {"listChanged": true}, "resources": {"subscribe": true, "x": 1},
            "completions": {}, "logging": {}, "experimental": {"y": {}},
        },
        "instructions": "Read first.", "ttlMs": 5, "cacheScope": "public",
    });
    stack
        .upstream
        .enqueue("server/discover", Answer::result(&theirs));
    let ours = alice.discover().await.unwrap().result().unwrap();
    assert_eq!(
        ours["capabilities"],
        json!({
            "prompts": {"listChanged": true}, "resources": {"subscribe": true, "x": 1},
            "completions": {}, "logging": {},
        })
    );
    assert_eq!(ours["instructions"], "Read first.");
    assert_eq!(ours["cacheScope"], "private");
    let usual = alice.discover().await.unwrap().result().unwrap();
    assert!(usual["capabilities"]["extensions"].is_object());
}

#[tokio::test]
async fn rounds_of_questions_pass_both_ways() {
    let (stack, alice, _) = start().await;
    let asking = r#"{ "resultType":"input_required","requestState":"s\u0041 \/","inputRequests":{"k":{"method":"roots/list"}} }"#;
    for (method, params) in [
        ("tools/call", json!({"name": "echo", "arguments": {}})),
        ("prompts/get", json!({"name": "greet"})),
        ("resources/read", json!({"uri": "file:///a"})),
    ] {
        stack.upstream.enqueue(method, Answer::result_text(asking));
        let first = Envelope::new(method, params.clone());
        let asked = alice.send(&first).await.unwrap();
        assert!(text(&asked).contains(asking), "{method}: {}", text(&asked));
        let mut answered = params;
        answered["inputResponses"] = json!({"k": {"roots": []}, "other": null});
        answered["requestState"] = json!("sA /");
        let done = json!({"resultType": "complete", "contents": [], "messages": [], "content": []});
        stack.upstream.enqueue(method, Answer::result(&done));
        let second = Envelope::new(method, answered).id(json!(2));
        alice.send(&second).await.unwrap().result().unwrap();
        let seen = stack.upstream.seen_of(method).pop().unwrap();
        assert_eq!(seen.body, second.body(), "{method}");
    }
}

#[tokio::test]
async fn questions_where_none_may_be_are_a_breach() {
    let (stack, alice, _) = start().await;
    let asking = json!({"resultType": "input_required", "requestState": "s"});
    for (method, envelope, _) in methods() {
        if method == "prompts/get" || method == "resources/read" {
            continue;
        }
        stack.upstream.enqueue(method, Answer::result(&asking));
        let reply = alice.send(&envelope).await.unwrap();
        assert_eq!(reply.error_code().unwrap(), UPSTREAM_PROTOCOL, "{method}");
    }
    stack
        .upstream
        .enqueue("server/discover", Answer::result(&asking));
    let reply = alice.discover().await.unwrap();
    assert_eq!(reply.error_code().unwrap(), UPSTREAM_PROTOCOL);
}

/// A task that nobody governs must not run on.
#[tokio::test]
async fn case_22_a_task_for_anything_but_a_call_is_refused_and_cancelled() {
    let (stack, alice, _) = start().await;
    let mut all: Vec<_> = methods()
        .into_iter()
        .map(|(method, envelope, _)| (method, envelope))
        .collect();
    all.push((
        "server/discover",
        Envelope::new("server/discover", json!({})),
    ));
    for (index, (method, envelope)) in all.into_iter().enumerate() {
        let id = format!("stray-{index}");
        let handle = json!({
            "resultType": "task", "taskId": id, "status": "working",
            "createdAt": "2026-12-01T06:00:00Z", "lastUpdatedAt": "2026-12-01T06:00:00Z",
            "ttlMs": 1000,
        });
        stack.upstream.enqueue(method, Answer::result(&handle));
        let reply = alice.send(&envelope).await.unwrap();
        assert_eq!(reply.error_code().unwrap(), UPSTREAM_PROTOCOL, "{method}");
        assert!(!text(&reply).contains(&id), "{method}");
        stack
            .upstream
            .arrived("tasks/cancel", index + 1)
            .await
            .unwrap();
        let cancel = stack.upstream.seen_of("tasks/cancel").pop().unwrap();
        assert_eq!(cancel.params()["taskId"], *id, "{method}");
    }
}
