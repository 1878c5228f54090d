//! The checks that every request climbs: their order, what each refuses, and what goes upstream.

#![cfg(test)]

use hangar_tests::client::Client;
use hangar_tests::envelope::{Capabilities, Envelope, TASKS};
use hangar_tests::manifests::Manifest;
use hangar_tests::scripted::{Answer, mk_tool, tools};
use hangar_tests::stack::{ALICE, CAROL, Stack};
use hangar_tests::{usage, wait};
use hyper::StatusCode;
use hyper::body::Bytes;
use serde_json::{Value, json};

const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const VERSION: &str = "io.modelcontextprotocol/protocolVersion";

/// An error that answers no request in particular.
const REFUSAL: &str = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no"}}"#;

/// More than the default bound of a body.
const OVER_BOUND: usize = (4 << 20) + 1;

async fn start() -> (Stack, Client) {
    let stack = Stack::start().await.unwrap();
    let alice = stack.client(ALICE);
    (stack, alice)
}

fn headers(envelope: &Envelope) -> Vec<(String, String)> {
    envelope.headers().to_vec()
}

#[tokio::test]
async fn case_31_the_first_failing_check_answers() {
    let (stack, alice) = start().await;
    let carol = stack.client(CAROL);
    let nobody = stack.gateway.client_of("default", "reports");
    let task = carol.start_task("slow", json!({})).await.unwrap();
    let seen = stack.upstream.seen().len();

    // Each request is wrong in every later way too, as far as one request can be.
    let mismatch = Envelope::get(&task)
        .without_header("mcp-name")
        .header("mcp-name", "another")
        .capabilities(Capabilities::None)
        .meta(VERSION, json!("2025-11-25"));
    let fat = Bytes::from(vec![b'['; OVER_BOUND]);
    let reply = nobody.post(&headers(&mismatch), fat.clone()).await.unwrap();
    assert_eq!(reply.outcome().unwrap(), (401, -31009), "authentication");
    let reply = alice.post(&headers(&mismatch), fat).await.unwrap();
    assert_eq!(reply.outcome().unwrap(), (413, -31010), "bound of the body");
    let batch = Bytes::from([b"[", &mismatch.body()[..], b"]"].concat());
    let reply = alice.post(&headers(&mismatch), batch).await.unwrap();
    assert_eq!(reply.outcome().unwrap(), (400, -32600), "shape of the body");
    let reply = alice
        .send(&mismatch.clone().without_meta(CAPABILITIES))
        .await
        .unwrap();
    assert_eq!(reply.outcome().unwrap(), (400, -32602), "envelope");
    let reply = alice.send(&mismatch).await.unwrap();
    assert_eq!(reply.outcome().unwrap(), (400, -32020), "header agreement");
    let era = Envelope::get(&task)
        .without_header("mcp-protocol-version")
        .header("mcp-protocol-version", "2025-11-25")
        .meta(VERSION, json!("2025-11-25"))
        .capabilities(Capabilities::None);
    let reply = alice.send(&era).await.unwrap();
    assert_eq!(reply.outcome().unwrap(), (400, -32022), "era");
    let undeclared = Envelope::get(&task).capabilities(Capabilities::None);
    let reply = alice.send(&undeclared).await.unwrap();
    assert_eq!(reply.outcome().unwrap(), (400, -32021), "capability");
    // The policy does not allow the tool either, and says so to its owner alone.
    stack.rewrite(deny_slow).unwrap();
    let withheld = async || {
        let reply = carol.get(&task).await?;
        wait::same(&reply.outcome()?, &(200, -31002))
    };
    wait::eventually("policy", withheld).await.unwrap();
    let seen = seen + stack.upstream.count("tasks/get");
    let reply = alice.get(&task).await.unwrap();
    assert_eq!(reply.outcome().unwrap(), (200, -32602), "ownership");
    assert_eq!(stack.upstream.seen().len(), seen, "nothing went upstream");
}

fn deny_slow(object: Manifest) -> Manifest {
    match object.value()["kind"].as_str() {
        Some("McpUpstream") => object.set("/spec/tools/deny", json!(["slow"])),
        _ => object,
    }
}

/// Header limits come before anybody is asked who they are.
#[tokio::test]
async fn case_31_headers_over_the_bound_are_refused_first() {
    let (stack, _) = start().await;
    let nobody = stack.gateway.client_of("default", "reports");
    let fat = Envelope::get("any").header("x-fat", &"a".repeat(80 << 10));
    let reply = nobody.send(&fat).await.unwrap();
    assert_eq!(reply.status, StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
    let mut many = Envelope::get("any");
    for number in 0..120 {
        many = many.header(&format!("x-{number}"), "a");
    }
    let reply = nobody.send(&many).await.unwrap();
    assert_eq!(reply.status, StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
}

/// The rate comes after authentication and before the body.
#[tokio::test]
async fn case_31_a_tenant_over_its_rate_is_refused_before_its_body_is_read() {
    let slow = |object: Manifest| match object.value()["spec"]["tenant"].as_str() {
        Some("acme") => object
            .set("/spec/limits/requestsPerSecond", json!(1))
            .set("/spec/limits/burst", json!(1)),
        _ => object,
    };
    let stack = Stack::start_with(slow).await.unwrap();
    let (alice, carol) = (stack.client(ALICE), stack.client(CAROL));
    let list = Envelope::new("tools/list", json!({}));
    let garbage = Bytes::from_static(b"[");
    let limited = wait::eventually("over the rate", async || {
        let reply = alice.post(&headers(&list), garbage.clone()).await?;
        wait::same(&reply.status.as_u16(), &429)?;
        Ok(reply)
    })
    .await
    .unwrap();
    assert_eq!(limited.error_code().unwrap(), -31005);
    assert!(limited.header("retry-after").is_some());
    let stranger = alice.with_key("unknown-key-0123456789");
    let reply = stranger.send(&list).await.unwrap();
    assert_eq!(reply.outcome().unwrap(), (401, -31009));
    // Another tenant's rate is its own.
    carol.list_tools().await.unwrap().result().unwrap();
}

#[tokio::test]
async fn case_32_the_name_header_may_be_absent_or_encoded_and_never_different() {
    let (stack, alice) = start().await;
    let task = alice.start_task("slow", json!({})).await.unwrap();
    let bare = || Envelope::get(&task).without_header("mcp-name");
    alice.send(&bare()).await.unwrap().result().unwrap();
    let encoded = format!("=?base64?{}?=", base64(task.as_bytes()));
    let reply = alice.send(&bare().header("mcp-name", &encoded)).await;
    reply.unwrap().result().unwrap();
    // The header of the upstream leg is made anew.
    let gets = stack.upstream.seen_of("tasks/get");
    assert_eq!(gets.len(), 2);
    for get in gets {
        assert_eq!(get.header("mcp-name"), Some(task.as_str()));
    }

    let other = format!("=?base64?{}?=", base64(b"another"));
    let method = || Envelope::get(&task).header("mcp-method", "tasks/get");
    let version = Envelope::get(&task).header("mcp-protocol-version", "2026-07-28");
    for wrong in [
        bare().header("mcp-name", "another"),
        bare().header("mcp-name", &other),
        bare().header("mcp-name", "=?base64?%%%?="),
        Envelope::get(&task).header("mcp-name", &task),
        method(),
        version,
        Envelope::get(&task).without_header("mcp-method"),
        Envelope::get(&task)
            .without_header("mcp-method")
            .header("mcp-method", "tasks/cancel"),
        Envelope::get(&task).without_header("mcp-protocol-version"),
        Envelope::call("echo", json!({})).without_header("mcp-name"),
    ] {
        let reply = alice.send(&wrong).await.unwrap();
        assert_eq!(reply.outcome().unwrap(), (400, -32020), "{wrong:?}");
    }
    assert_eq!(stack.upstream.count("tasks/get"), 2);
}

/// As the protocol demands it, for those who want it so.
#[tokio::test]
async fn case_32_a_strict_gateway_demands_the_name_header() {
    let (stack, alice) = start().await;
    let strict = stack.another(&["--require-task-name"]).await.unwrap();
    let at_strict = strict.client_of("default", "reports").with_key(ALICE);
    let task = at_strict.start_task("slow", json!({})).await.unwrap();
    for envelope in [
        Envelope::get(&task),
        Envelope::update(&task, &json!({})),
        Envelope::cancel(&task),
    ] {
        let bare = envelope.clone().without_header("mcp-name");
        let reply = at_strict.send(&bare).await.unwrap();
        assert_eq!(reply.outcome().unwrap(), (400, -32020));
        at_strict.send(&envelope).await.unwrap().result().unwrap();
        let encoded = format!("=?base64?{}?=", base64(task.as_bytes()));
        let encoded = bare.clone().header("mcp-name", &encoded);
        at_strict.send(&encoded).await.unwrap().result().unwrap();
        // The other one takes what comes: it does not know the task, and says no more.
        let reply = alice.send(&bare).await.unwrap();
        assert_eq!(reply.outcome().unwrap(), (200, -32602));
    }
}

#[tokio::test]
async fn case_33_what_is_about_tasks_needs_the_extension() {
    let (stack, alice) = start().await;
    let task = alice.start_task("slow", json!({})).await.unwrap();
    let seen = stack.upstream.seen().len();
    let listen = json!({"notifications": {"taskIds": [task], "toolsListChanged": true}});
    for envelope in [
        Envelope::get(&task),
        Envelope::update(&task, &json!({"name": {"action": "accept"}})),
        Envelope::cancel(&task),
        Envelope::new("subscriptions/listen", listen),
    ] {
        let undeclared = envelope.capabilities(Capabilities::None);
        let reply = alice.send(&undeclared).await.unwrap();
        assert_eq!(reply.outcome().unwrap(), (400, -32021));
        let message = reply.message().unwrap();
        let required = &message["error"]["data"]["requiredCapabilities"];
        assert!(required["extensions"][TASKS].is_object(), "{message}");
    }
    assert_eq!(stack.upstream.seen().len(), seen);
}

/// Both were removed with the older tasks; what never was is answered alike.
#[tokio::test]
async fn case_34_tasks_list_and_tasks_result_are_unknown_methods() {
    let (stack, alice) = start().await;
    let task = alice.start_task("slow", json!({})).await.unwrap();
    let seen = stack.upstream.seen().len();
    for method in [
        "tasks/list",
        "tasks/result",
        "resources/subscribe",
        "initialize",
        "ping",
        "x/y",
    ] {
        for capabilities in [Capabilities::Tasks, Capabilities::None] {
            let envelope = Envelope::new(method, json!({"taskId": task}));
            let reply = alice.send(&envelope.capabilities(capabilities)).await;
            let outcome = reply.unwrap().outcome().unwrap();
            assert_eq!(outcome, (404, -32601), "{method}");
        }
    }
    assert_eq!(stack.upstream.seen().len(), seen);
}

/// A call with this member in its arguments.
fn call_with(member: &str) -> Vec<u8> {
    let body = Envelope::call("echo", json!({"HERE": 1})).body();
    let text = String::from_utf8(body.to_vec()).unwrap();
    text.replace("\"HERE\":1", member).into()
}

/// Arrays in arrays, so that the message is so deep: it, its params and the arguments are three.
fn nested(depth: usize) -> Vec<u8> {
    let (open, close) = ("[".repeat(depth - 3), "]".repeat(depth - 3));
    call_with(&format!("\"deep\":{open}{close}"))
}

/// A call with a second copy of a member in front of the first, behind this much padding.
fn twice(first: &str, copy: &str, padding: usize) -> Vec<u8> {
    let text = call_with("\"text\":\"hi\"");
    let text = String::from_utf8(text).unwrap();
    let pad = format!("\"pad\":\"{}\",{copy},{first}", "x".repeat(padding));
    assert!(text.contains(first), "{first}: {text}");
    text.replacen(first, &pad, 1).into()
}

/// What is wrong, the body, and the answer.
fn hostile(padding: usize) -> Vec<(&'static str, Vec<u8>, (u16, i64))> {
    let call = Envelope::call("echo", json!({}));
    let batch = [b"[", &call.body()[..], &b",1".repeat(padding / 2), b"]"].concat();
    let of_meta = "\"io.modelcontextprotocol/protocolVersion\"";
    let copies = |first: &str, copy: &str| twice(first, copy, padding);
    vec![
        ("a batch", batch, (400, -32600)),
        ("an empty batch", b"[]".to_vec(), (400, -32600)),
        ("no end", b"{".to_vec(), (400, -32700)),
        ("65 levels", nested(65), (400, -32600)),
        ("many levels", nested(padding.max(1000)), (400, -32600)),
        (
            "a method twice",
            copies("\"method\"", "\"method\":\"tools/list\""),
            (400, -32600),
        ),
        ("an id twice", copies("\"id\"", "\"id\":7"), (400, -32600)),
        (
            "params twice",
            copies("\"params\"", "\"params\":{}"),
            (400, -32600),
        ),
        (
            "a name twice",
            copies("\"name\":\"echo\"", "\"name\":\"slow\""),
            (400, -32602),
        ),
        (
            "arguments twice",
            copies("\"arguments\"", "\"arguments\":{}"),
            (400, -32602),
        ),
        (
            "_meta twice",
            copies("\"_meta\"", "\"_meta\":{}"),
            (400, -32602),
        ),
        (
            "a revision twice",
            copies(of_meta, &format!("{of_meta}:\"2026-07-28\"")),
            (400, -32602),
        ),
        (
            "a large body",
            call_with(&format!("\"text\":\"{}\"", "a".repeat(OVER_BOUND))),
            (413, -31010),
        ),
    ]
}

#[tokio::test]
async fn case_35_what_is_malformed_is_refused_with_its_code() {
    let (stack, alice) = start().await;
    let call = Envelope::call("echo", json!({}));
    let send = async |body: Vec<u8>| alice.post(&headers(&call), body.into()).await.unwrap();
    send(nested(64)).await.result().unwrap();
    for padding in [0, 500_000] {
        for (what, body, outcome) in hostile(padding) {
            let reply = send(body).await;
            assert_eq!(reply.outcome().unwrap(), outcome, "{what}");
        }
    }
    assert_eq!(stack.upstream.count("tools/call"), 1);
}

/// Each refused body is as large as may be read; none of them stays.
#[tokio::test]
async fn case_35_refused_bodies_take_constant_memory() {
    const ROUNDS: usize = 6;
    const MIB: u64 = 1 << 20;
    let (mut stack, alice) = start().await;
    let call = Envelope::call("echo", json!({}));
    let bodies: Vec<Bytes> = hostile(2 << 20)
        .into_iter()
        .map(|(_, body, _)| body.into())
        .collect();
    let round = async || {
        for body in &bodies {
            let reply = alice.post(&headers(&call), body.clone()).await.unwrap();
            reply.error_code().unwrap();
        }
    };
    let pid = stack.gateway.process().pid();
    round().await;
    let first = usage::peak(pid).unwrap();
    for _ in 0..ROUNDS {
        round().await;
    }
    let grown = usage::peak(pid).unwrap() - first;
    let sent: usize = ROUNDS * bodies.iter().map(Bytes::len).sum::<usize>();
    assert!(sent as u64 > 100 * MIB, "{sent} bytes say little");
    assert!(grown < 16 * MIB, "{grown} bytes more after {sent}");
    assert_eq!(stack.count("hangar_held_bytes", &[]).await.unwrap(), 0);
}

#[tokio::test]
async fn case_36_the_upstream_gets_the_routing_headers_and_nothing_of_the_clients() {
    let (stack, alice) = start().await;
    let mut listed = tools();
    let region = json!({"region": {"type": "string", "x-mcp-header": "Region"}});
    listed.push(mk_tool("placed", "Runs somewhere.", &region));
    stack.upstream.set_tools(listed);
    stack.upstream.script("tools/call", |_| {
        Answer::result(&json!({"resultType": "complete", "content": []}))
    });
    let call = Envelope::call("placed", json!({"region": "eu"}))
        .header("mcp-param-region", "eu")
        .header("mcp-param-other", "smuggled")
        .header("x-of-the-client", "smuggled")
        .header("cookie", "smuggled");
    alice.send(&call).await.unwrap().result().unwrap();
    let seen = stack.upstream.seen_of("tools/call").remove(0);
    assert_eq!(seen.header("mcp-protocol-version"), Some("2026-07-28"));
    assert_eq!(seen.header("mcp-method"), Some("tools/call"));
    assert_eq!(seen.header("mcp-name"), Some("placed"));
    assert_eq!(seen.header("mcp-param-region"), Some("eu"));
    assert!(!seen.contains("smuggled"));
    assert!(!seen.contains(ALICE));

    let differs = Envelope::call("placed", json!({"region": "eu"}));
    let wrong = differs.clone().header("mcp-param-region", "us");
    for wrong in [wrong, differs] {
        let reply = alice.send(&wrong).await.unwrap();
        assert_eq!(reply.outcome().unwrap(), (400, -32020));
    }

    stack.upstream.unscript("tools/call");
}

/// Whatever else the client writes beside it stays here.
#[tokio::test]
async fn case_36_a_follow_up_names_its_task_to_the_upstream_and_nothing_more() {
    let (stack, alice) = start().await;
    let asked = alice.start_task("ask", json!({})).await.unwrap();
    let slow = alice.start_task("slow", json!({})).await.unwrap();
    let send = async |method: &str, task: &str, more: Value| {
        let mut params = json!({"taskId": task, "id": "smuggled", "task_id": "smuggled"});
        for (name, value) in more.as_object().unwrap() {
            params[name] = value.clone();
        }
        let envelope = Envelope::new(method, params).header("x-of-the-client", "smuggled");
        alice.send(&envelope).await.unwrap().result().unwrap();
    };
    send("tasks/get", &asked, json!({})).await;
    let answer = json!({"name": {"action": "accept", "content": {"name": "Ann"}}});
    send("tasks/update", &asked, json!({"inputResponses": answer})).await;
    send("tasks/cancel", &slow, json!({})).await;
    for (method, task, wanted) in [
        ("tasks/get", &asked, &["_meta", "taskId"][..]),
        (
            "tasks/update",
            &asked,
            &["_meta", "inputResponses", "taskId"],
        ),
        ("tasks/cancel", &slow, &["_meta", "taskId"]),
    ] {
        stack.upstream.arrived(method, 1).await.unwrap();
        let seen = stack.upstream.seen_of(method).remove(0);
        assert_eq!(seen.header("mcp-method"), Some(method));
        assert_eq!(seen.header("mcp-name"), Some(task.as_str()));
        assert_eq!(seen.header("mcp-protocol-version"), Some("2026-07-28"));
        assert_eq!(seen.params()["taskId"], **task, "{method}");
        assert_eq!(members(&seen.params()), wanted, "{method}");
        assert!(!seen.contains("smuggled"), "{method}");
        assert!(!seen.contains(ALICE), "{method}");
    }
}

#[tokio::test]
async fn case_37_rpc_errors_are_read_under_any_status() {
    let (stack, alice) = start().await;
    let error = r#"{"code":-32055, "message":"no \u0061","data":{"x":1.50}}"#;
    for status in [200, 202, 400, 401, 403, 404, 409, 500, 503] {
        let answer = Answer::error_with(-32055, "no", &json!({"x": 1}))
            .status(StatusCode::from_u16(status).unwrap());
        stack.upstream.enqueue("tools/call", answer);
        let reply = alice.call("echo", json!({})).await.unwrap();
        assert_eq!(reply.error_code().unwrap(), -32055, "{status}");
        // Byte for byte, whatever its status.
        let text = alice_id(error);
        let raw = Answer::raw(text.clone()).status(StatusCode::from_u16(status).unwrap());
        stack.upstream.enqueue("tools/call", raw);
        let reply = alice.call("echo", json!({})).await.unwrap();
        assert_eq!(reply.body, text.as_bytes(), "{status}");
    }
    // Without one, a bad status is an upstream that cannot be asked.
    let page = Answer::raw("<html>").status(StatusCode::BAD_GATEWAY);
    stack.upstream.enqueue("tools/call", page);
    let reply = alice.call("echo", json!({})).await.unwrap();
    assert_eq!(reply.error_code().unwrap(), -31001);
}

/// It refuses the probe like one that never heard of it, and has no `initialize` all the same.
#[tokio::test]
async fn case_37_an_upstream_without_initialize_is_recognised_as_modern() {
    let unknown = || Answer::error(-32601, "Method not found").status(StatusCode::NOT_FOUND);
    let refused = || Answer::raw(REFUSAL).status(StatusCode::BAD_REQUEST);
    let probes: [fn() -> Answer; 2] = [unknown, refused];
    for probe in probes {
        let (stack, alice) = start().await;
        stack.upstream.script("server/discover", move |_| probe());
        stack.upstream.script("initialize", move |_| unknown());
        for _ in 0..2 {
            let reply = alice.call("echo", json!({"text": "hi"})).await.unwrap();
            reply.result().unwrap();
        }
        let task = alice.start_task("slow", json!({})).await.unwrap();
        alice.until(&task, "working").await.unwrap();
        for call in stack.upstream.seen_of("tools/call") {
            assert_eq!(call.header("mcp-protocol-version"), Some("2026-07-28"));
        }
        assert_eq!(stack.upstream.count("tools/call"), 3);
        assert_eq!(stack.upstream.count("initialize"), 1, "it is remembered");
    }
}

/// The protocol demands a status for some codes, also of an upstream that says 200 or streams.
#[tokio::test]
async fn rpc_errors_keep_the_status_that_the_protocol_ties_to_them() {
    let (stack, alice) = start().await;
    for (code, tied) in [
        (-32601, 404),
        (-32020, 400),
        (-32021, 400),
        (-32022, 400),
        (-32602, 200),
    ] {
        for said in [StatusCode::OK, StatusCode::BAD_REQUEST] {
            let answer = Answer::error_with(code, "theirs", &json!({})).status(said);
            stack.upstream.enqueue("tools/call", answer);
            let reply = alice.call("echo", json!({})).await.unwrap();
            assert_eq!(reply.error_code().unwrap(), code);
            assert_eq!(reply.status, tied, "{code} under {said}");
        }
    }
}

/// A message with the id that envelopes have.
fn alice_id(error: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":1,"error":{error}}}"#)
}

fn members(object: &Value) -> Vec<&str> {
    object
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect()
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for chunk in bytes.chunks(3) {
        let word = chunk
            .iter()
            .chain([0, 0].iter())
            .take(3)
            .fold(0_usize, |word, byte| word << 8 | usize::from(*byte));
        for place in 0..4 {
            if place <= chunk.len() {
                out.push(char::from(DIGITS[word >> (18 - 6 * place) & 63]));
            } else {
                out.push('=');
            }
        }
    }
    out
}
