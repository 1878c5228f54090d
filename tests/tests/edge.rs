//! Hostile requests over HTTP/1.1: each gets its error, is counted, and leaves the connection and
//! everybody else as they were.

#![cfg(test)]

use hangar_tests::envelope::Envelope;
use hangar_tests::gateway::{Gateway, Setup};
use hangar_tests::manifests::Manifest;
use hangar_tests::raw::{Raw, head, request};
use hangar_tests::scripted::{Answer, Gate};
use hangar_tests::stack::{ALICE, BOB, Stack};
use hangar_tests::wait;
use http::StatusCode;
use serde_json::{Value, json};

const REFUSED: &str = "hangar_refused_requests_total";
const CUT: &str = "hangar_connections_cut_total";
const CONNECTIONS: &str = "hangar_connections";
const HELD: &str = "hangar_held_bytes";
const BODY: usize = 64 << 10;

/// The usual world, and a gateway of it with bounds of its own.
struct Edge {
    gateway: Gateway,
    stack: Stack,
}

/// A wrong request, and what comes of it.
struct Wrong {
    what: &'static str,
    envelope: Envelope,
    body: Vec<u8>,
    more: &'static str,
    status: u16,
    code: i64,
    reason: &'static str,
}

// === impl Edge ===

impl Edge {
    async fn start(more: &[&str]) -> Self {
        let stack = Stack::start().await.unwrap();
        let setup = Setup {
            state: stack.folder().join("edge"),
            ..stack.setup()
        };
        let gateway = Gateway::start(&setup, more).await.unwrap();
        gateway.ready().await.unwrap();
        Self { gateway, stack }
    }

    async fn connect(&self) -> Raw {
        Raw::connect(self.gateway.mcp_address()).await.unwrap()
    }

    async fn sum(&self, name: &str, labels: &[(&str, &str)]) -> u64 {
        let scrape = self.gateway.scrape().await.unwrap();
        scrape.count(name, labels).unwrap()
    }

    /// Waits until this gauge has this value.
    async fn gauge(&self, name: &str, wanted: u64) {
        wait::eventually(name, async || {
            wait::same(&self.sum(name, &[]).await, &wanted)
        })
        .await
        .unwrap();
    }

    /// Somebody else is served.
    async fn serves(&self) {
        let client = self.gateway.client_of("default", "reports").with_key(BOB);
        let result = client.call("echo", json!({"text": "well"})).await.unwrap();
        result.result().unwrap();
    }
}

fn mk_call() -> Envelope {
    Envelope::call("echo", json!({"text": "hello"}))
}

fn good() -> Vec<u8> {
    let call = mk_call();
    request(&call, ALICE, "", &call.body())
}

/// With this value and no other.
fn with(envelope: Envelope, name: &str, value: &str) -> Envelope {
    envelope.without_header(name).header(name, value)
}

async fn assert_good(raw: &mut Raw, what: &str) {
    raw.say(&good()).await.unwrap();
    let said = raw.answer().await.unwrap();
    assert_eq!(said.status, 200, "after {what}: {}", said.body);
    assert!(
        said.body.contains("\"result\""),
        "after {what}: {}",
        said.body
    );
}

/// A call whose body is bent as text.
fn bent(what: &'static str, from: &str, to: &str, code: i64, reason: &'static str) -> Wrong {
    let envelope = mk_call();
    let text = String::from_utf8(envelope.body().to_vec()).unwrap();
    assert!(text.contains(from), "{what}: no {from} in {text}");
    Wrong {
        what,
        body: text.replacen(from, to, 1).into_bytes(),
        envelope,
        more: "",
        status: 400,
        code,
        reason,
    }
}

/// A call under other headers.
fn headed(what: &'static str, edit: impl Fn(Envelope) -> Envelope, more: &'static str) -> Wrong {
    Wrong {
        what,
        body: mk_call().body().to_vec(),
        envelope: edit(mk_call()),
        more,
        status: 400,
        code: -32020,
        reason: "header_mismatch",
    }
}

fn bodies() -> Vec<Wrong> {
    let deep = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let whole = String::from_utf8(mk_call().body().to_vec()).unwrap();
    // Around the value are the object, `params` and `arguments`.
    let too_deep = format!("\"deep\":{},\"text\"", deep(62));
    let batch = format!("[{whole}]");
    let cut = &whole[..whole.len() - 1];
    let mut wrong = vec![
        bent("a batch", &whole, &batch, -32600, "invalid_request"),
        bent("an empty batch", &whole, "[]", -32600, "invalid_request"),
        bent("a text cut off", &whole, cut, -32700, "parse_error"),
        bent("no text", &whole, "", -32700, "parse_error"),
        bent("depth 65", "\"text\"", &too_deep, -32600, "invalid_request"),
        bent(
            "a method twice",
            "{",
            "{\"\\u006dethod\":\"tools/list\",",
            -32600,
            "invalid_request",
        ),
        bent(
            "a look-alike",
            "{",
            "{\"Method\":\"tools/list\",",
            -32600,
            "invalid_request",
        ),
        bent(
            "a name twice",
            "\"params\":{",
            "\"params\":{\"n\\u0061me\":\"slow\",",
            -32602,
            "invalid_params",
        ),
        bent(
            "_meta twice",
            "\"params\":{",
            "\"params\":{\"\\u005fmeta\":{},",
            -32602,
            "invalid_params",
        ),
        bent("version 1", "\"2.0\"", "\"1.0\"", -32600, "invalid_request"),
    ];
    let mut bytes = bent("no UTF-8", "hello", "he??o", -32700, "parse_error");
    for byte in bytes.body.iter_mut().filter(|byte| **byte == b'?') {
        *byte = 0xff;
    }
    wrong.push(bytes);
    let mut large = bent(
        "a large body",
        "hello",
        &"x".repeat(BODY),
        -31010,
        "body_too_large",
    );
    large.status = 413;
    wrong.push(large);
    let unknown = whole.replace("2026-07-28", "2099-01-01");
    let mut era = bent(
        "an unknown era",
        &whole,
        &unknown,
        -32022,
        "unsupported_version",
    );
    era.envelope = with(era.envelope, "mcp-protocol-version", "2099-01-01");
    wrong.push(era);
    wrong
}

fn headers() -> Vec<Wrong> {
    let mut plain = headed("plain text", |e| with(e, "content-type", "text/plain"), "");
    (plain.status, plain.code, plain.reason) = (415, -31015, "unsupported_media_type");
    let mut untyped = headed("no content type", |e| e.without_header("content-type"), "");
    (untyped.status, untyped.code, untyped.reason) = (415, -31015, "unsupported_media_type");
    let mut hosts = headed("two hosts", |e| e, "host: elsewhere.example\r\n");
    (hosts.status, hosts.code, hosts.reason) = (400, -32600, "invalid_request");
    let forbidden = |what, more| {
        let mut origin = headed(what, |e| e, more);
        (origin.status, origin.code, origin.reason) = (403, -31014, "origin_forbidden");
        origin
    };
    vec![
        plain,
        untyped,
        hosts,
        forbidden("a foreign page", "origin: https://evil.example\r\n"),
        forbidden("no origin to speak of", "origin: null\r\n"),
        forbidden(
            "a name with ours in it",
            "origin: http://localhost.evil.example\r\n",
        ),
        forbidden(
            "a second origin",
            "origin: http://localhost\r\norigin: https://evil.example\r\n",
        ),
        headed("no method", |e| e.without_header("mcp-method"), ""),
        headed(
            "no version",
            |e| e.without_header("mcp-protocol-version"),
            "",
        ),
        headed("no name", |e| e.without_header("mcp-name"), ""),
        headed(
            "another method",
            |e| with(e, "mcp-method", "tools/list"),
            "",
        ),
        headed(
            "another version",
            |e| with(e, "mcp-protocol-version", "2025-11-25"),
            "",
        ),
        headed("another name", |e| with(e, "mcp-name", "slow"), ""),
        headed("a method twice", |e| e, "mcp-method: tools/call\r\n"),
        headed("a name twice", |e| e, "mcp-name: echo\r\n"),
        headed(
            "half a wrapper",
            |e| with(e, "mcp-name", "=?base64?ZWNobw?="),
            "",
        ),
        headed(
            "a wrapper of no text",
            |e| with(e, "mcp-name", "=?base64?//8=?="),
            "",
        ),
        headed("a raw letter", |e| with(e, "mcp-name", "\u{e9}cho"), ""),
    ]
}

/// Each on one and the same connection, with a good request after it.
#[tokio::test]
async fn case_35_what_is_malformed_is_refused_and_the_connection_goes_on() {
    let size = BODY.to_string();
    let edge = Edge::start(&["--max-body", &size]).await;
    let mut raw = edge.connect().await;
    assert_good(&mut raw, "nothing").await;
    for wrong in bodies().into_iter().chain(headers()) {
        let Wrong {
            what,
            envelope,
            body,
            more,
            status,
            code,
            reason,
        } = wrong;
        let before = edge.sum(REFUSED, &[("reason", reason)]).await;
        let calls = edge.stack.upstream.count("tools/call");
        raw.say(&request(&envelope, ALICE, more, &body))
            .await
            .unwrap();
        let said = raw.answer().await.unwrap();
        assert_eq!(said.status, status, "{what}: {}", said.body);
        let (found, data) = said.error().unwrap();
        assert_eq!(found, code, "{what}: {}", said.body);
        assert!(data.is_empty() || data == reason, "{what}: {data}");
        let after = edge.sum(REFUSED, &[("reason", reason)]).await;
        assert_eq!(after, before + 1, "{what} is not counted as {reason}");
        assert_eq!(edge.stack.upstream.count("tools/call"), calls, "{what}");
        assert_good(&mut raw, what).await;
    }
    assert_eq!(edge.sum(HELD, &[]).await, 0);
    assert_eq!(edge.sum(CONNECTIONS, &[]).await, 1);
}

/// Its length is not known before: it is refused once it is over, and the rest is read.
#[tokio::test]
async fn case_35_a_body_that_grows_past_the_bound_is_refused() {
    let size = BODY.to_string();
    let edge = Edge::start(&["--max-body", &size]).await;
    let mut raw = edge.connect().await;
    let chunked = "transfer-encoding: chunked\r\n";
    raw.say(head(&mk_call(), ALICE, chunked).as_bytes())
        .await
        .unwrap();
    let piece = format!("{:x}\r\n{}\r\n", BODY / 4, " ".repeat(BODY / 4));
    for _ in 0..5 {
        raw.say(piece.as_bytes()).await.unwrap();
    }
    raw.say(b"0\r\n\r\n").await.unwrap();
    let said = raw.answer().await.unwrap();
    assert_eq!((said.status, said.error().unwrap().0), (413, -31010));
    assert_good(&mut raw, "a chunked body").await;
    // The bound itself is no refusal.
    raw.say(head(&mk_call(), ALICE, chunked).as_bytes())
        .await
        .unwrap();
    let body = mk_call().body();
    let start = format!(
        "{:x}\r\n{}\r\n",
        BODY - body.len(),
        " ".repeat(BODY - body.len())
    );
    raw.say(start.as_bytes()).await.unwrap();
    raw.say(format!("{:x}\r\n", body.len()).as_bytes())
        .await
        .unwrap();
    raw.say(&body).await.unwrap();
    raw.say(b"\r\n0\r\n\r\n").await.unwrap();
    assert_eq!(raw.answer().await.unwrap().status, 200);
}

#[tokio::test]
async fn requests_in_one_piece_are_answered_in_order() {
    let edge = Edge::start(&[]).await;
    let mut raw = edge.connect().await;
    let mut all = Vec::new();
    for id in 1..=20 {
        let call = mk_call().id(json!(id));
        let body = if id % 3 == 0 {
            b"{".to_vec()
        } else {
            call.body().to_vec()
        };
        all.extend(request(&call, ALICE, "", &body));
    }
    raw.say(&all).await.unwrap();
    for id in 1..=20 {
        let said = raw.answer().await.unwrap();
        let message: Value = serde_json::from_str(&said.body).unwrap();
        if id % 3 == 0 {
            assert_eq!(message["error"]["code"], -32700, "{id}: {message}");
        } else {
            assert_eq!(message["id"], id, "{message}");
        }
    }
}

#[tokio::test]
async fn slow_headers_and_slow_bodies_end() {
    let edge = Edge::start(&["--header-timeout", "1", "--body-timeout", "1"]).await;
    for (first, reason) in [
        ("", "silent"),
        ("PRI * HT", "silent"),
        ("POST /mcp HTTP/1.1\r\nhost: a\r\n", "timeout"),
    ] {
        let before = edge.sum(CUT, &[("reason", reason)]).await;
        let mut slow = edge.connect().await;
        slow.say(first.as_bytes()).await.unwrap();
        edge.serves().await;
        slow.rest().await.unwrap();
        edge.gateway
            .metric(
                CUT,
                &[("reason", reason)],
                f64::from(u32::try_from(before).unwrap() + 1),
            )
            .await
            .unwrap();
    }
    let mut slow = edge.connect().await;
    let bytes = request(&mk_call(), ALICE, "", &mk_call().body());
    slow.say(&bytes[..bytes.len() - 1]).await.unwrap();
    edge.serves().await;
    let said = slow.answer().await.unwrap();
    assert_eq!((said.status, said.error().unwrap().0), (400, -32600));
    edge.gauge(HELD, 0).await;
}

/// Further ones wait until there is room; those that are there are served.
#[tokio::test]
async fn connections_have_a_bound() {
    let edge = Edge::start(&["--max-connections", "4", "--header-timeout", "3600"]).await;
    let mut served = edge.connect().await;
    assert_good(&mut served, "nothing").await;
    let mut idle = Vec::new();
    for _ in 0..50 {
        let mut raw = edge.connect().await;
        raw.say(b"POST ").await.unwrap();
        idle.push(raw);
    }
    edge.gauge(CONNECTIONS, 4).await;
    assert_good(&mut served, "a flood of connections").await;
    assert_eq!(edge.sum(CONNECTIONS, &[]).await, 4);
    drop(idle);
    edge.gauge(CONNECTIONS, 1).await;
    edge.serves().await;
}

/// A client that says nothing more is taken for gone: the work for it ends, and nothing is kept.
#[tokio::test]
async fn a_half_closed_client_leaves_nothing_behind() {
    let edge = Edge::start(&[]).await;
    let gate = Gate::new();
    let held = gate.clone();
    let upstream = &edge.stack.upstream;
    upstream.script("tools/call", move |_| Answer::built_in().held(&held));
    let mut raw = edge.connect().await;
    raw.say(&good()).await.unwrap();
    upstream.arrived("tools/call", 1).await.unwrap();
    raw.half_close().await.unwrap();
    edge.gauge("hangar_inflight_requests", 0).await;
    edge.gauge(CONNECTIONS, 0).await;
    edge.gauge(HELD, 0).await;
    gate.open();
    edge.serves().await;
}

/// A body may take its time; what was allowed when its headers came is judged again when it is there.
#[tokio::test]
async fn a_key_that_was_taken_away_meanwhile_opens_nothing() {
    let edge = Edge::start(&[]).await;
    edge.serves().await;
    let before = edge.stack.upstream.count("tools/call");
    let request = good();
    let (first, rest) = request.split_at(request.len() - 1);
    let mut raw = edge.connect().await;
    raw.say(first).await.unwrap();
    edge.gauge("hangar_inflight_requests", 1).await;
    let other = json!("another-key-0123456789");
    let rewritten = |object: Manifest| match object.value()["metadata"]["name"].as_str() {
        Some("acme-keys") => object.set("/stringData/alice", other.clone()),
        _ => object,
    };
    edge.stack.rewrite(rewritten).unwrap();
    let alice = edge.gateway.client().with_key(ALICE);
    wait::eventually("the key is refused", async || {
        let reply = alice.discover().await?;
        wait::same(&reply.status, &StatusCode::UNAUTHORIZED)
    })
    .await
    .unwrap();
    raw.say(rest).await.unwrap();
    assert_eq!(raw.answer().await.unwrap().status, 401);
    assert_eq!(edge.stack.upstream.count("tools/call"), before);
}

#[tokio::test]
async fn bodies_together_have_a_bound() {
    let edge = Edge::start(&["--max-held", "1Mi", "--max-body", "1Mi"]).await;
    let body = |size: usize| {
        let mut body = mk_call().body().to_vec();
        body.resize(size, b' ');
        body
    };
    let mut first = edge.connect().await;
    let whole = request(&mk_call(), ALICE, "", &body(900 << 10));
    first.say(&whole[..800 << 10]).await.unwrap();
    wait::eventually("bytes held", async || {
        let held = edge.sum(HELD, &[]).await;
        anyhow::ensure!(held > 780 << 10, "{held}");
        Ok(())
    })
    .await
    .unwrap();
    let mut second = edge.connect().await;
    let large = request(&mk_call(), BOB, "", &body(600 << 10));
    second.say(&large).await.unwrap();
    let said = second.answer().await.unwrap();
    assert_eq!(said.status, 503, "{}", said.body);
    assert_eq!(said.error().unwrap(), (-31013, "overloaded".to_owned()));
    assert!(
        said.head.contains("\r\nretry-after: 1\r\n"),
        "{}",
        said.head
    );
    assert_eq!(edge.sum(REFUSED, &[("reason", "overloaded")]).await, 1);
    assert_good(&mut second, "a body too many").await;
    // Without a length it is refused as it arrives.
    let chunked = "transfer-encoding: chunked\r\n";
    let mut text = head(&mk_call(), BOB, chunked).into_bytes();
    text.extend(format!("{:x}\r\n{}\r\n0\r\n\r\n", 600 << 10, " ".repeat(600 << 10)).bytes());
    second.say(&text).await.unwrap();
    assert_eq!(second.answer().await.unwrap().status, 503);
    drop(first);
    edge.gauge(HELD, 0).await;
    second.say(&large).await.unwrap();
    assert_eq!(second.answer().await.unwrap().status, 200);
    edge.gauge(HELD, 0).await;
}

#[tokio::test]
async fn what_is_copied_from_bodies_is_within_the_same_bound() {
    let edge = Edge::start(&["--max-held", "1Mi", "--max-body", "1Mi"]).await;
    let long = json!("x".repeat(600 << 10));
    let meta = |envelope: Envelope| envelope.meta("example/long", long.clone());
    let answer = json!({"k": {"action": "accept", "content": {"name": long.clone()}}});
    let mut raw = edge.connect().await;
    for (envelope, status) in [
        // Nothing is copied of it.
        (meta(mk_call()), 200),
        (meta(Envelope::get("task")), 503),
        (meta(Envelope::update("task", &json!({}))), 503),
        (Envelope::update("task", &answer), 503),
    ] {
        let body = envelope.body();
        raw.say(&request(&envelope, ALICE, "", &body))
            .await
            .unwrap();
        let said = raw.answer().await.unwrap();
        assert_eq!(said.status, status, "{}", said.body);
        edge.gauge(HELD, 0).await;
    }
}

#[tokio::test]
async fn answers_of_upstreams_are_within_the_same_bound() {
    // Two tenants are configured: half of it is for one.
    let edge = Edge::start(&["--max-held", "2Mi", "--max-body", "64Ki"]).await;
    let result = |size: usize| {
        let text = "x".repeat(size);
        json!({"resultType": "complete", "content": [{"type": "text", "text": text}]})
    };
    let upstream = &edge.stack.upstream;
    let mut raw = edge.connect().await;
    for framing in [
        hangar_tests::scripted::Framing::Json,
        hangar_tests::scripted::Framing::Sse,
    ] {
        upstream.script("tools/call", move |_| {
            Answer::result(&result(2 << 20)).framed(framing)
        });
        raw.say(&good()).await.unwrap();
        let said = raw.answer().await.unwrap();
        assert_eq!(said.error().unwrap().0, -31013, "{}", said.status);
        edge.gauge(HELD, 0).await;
        upstream.script("tools/call", move |_| {
            Answer::result(&result(1 << 19)).framed(framing)
        });
        assert_good(&mut raw, "an answer too large for now").await;
        edge.gauge(HELD, 0).await;
    }
}

#[tokio::test]
async fn an_answer_that_nobody_takes_is_not_kept() {
    let edge = Edge::start(&["--send-timeout", "1"]).await;
    let text = "x".repeat(8 << 20);
    let result = json!({"resultType": "complete", "content": [{"type": "text", "text": text}]});
    let upstream = &edge.stack.upstream;
    upstream.script("tools/call", move |_| Answer::result(&result));
    let mut raw = edge.connect().await;
    raw.say(&good()).await.unwrap();
    upstream.arrived("tools/call", 1).await.unwrap();
    edge.gateway
        .metric(CUT, &[("reason", "timeout")], 1.0)
        .await
        .unwrap();
    edge.gauge(CONNECTIONS, 0).await;
    edge.gauge(HELD, 0).await;
    upstream.unscript("tools/call");
    edge.serves().await;
}
