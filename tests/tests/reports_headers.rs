//! What went wrong in the field with gateways like this one: headers, credentials
//! and redirects. Each test begins with the story.

#![cfg(test)]

use std::collections::BTreeSet;
use std::net::TcpListener;

use hangar_tests::client::Client;
use hangar_tests::envelope::Envelope;
use hangar_tests::manifests::{self, Manifest, mk_keys, mk_tenant, mk_upstream};
use hangar_tests::open::Open;
use hangar_tests::raw::{Raw, request};
use hangar_tests::scripted::{Answer, Feed, Framing, Legacy, Seen, Upstream, mk_tool, tools};
use hangar_tests::sse;
use hangar_tests::stack::{ALICE, Stack};
use hyper::StatusCode;
use serde_json::json;

const REFUSED: &str = "hangar_refused_requests_total";
const UPSTREAM_PROTOCOL: i64 = -31008;
const HEADER_MISMATCH: i64 = -32020;
const DAVE: &str = "dave-key-0123456789abcdef";
/// In each value that may not cross.
const MARK: &str = "of-this-hop";

async fn start() -> (Stack, Client) {
    let stack = Stack::start().await.unwrap();
    let alice = stack.client(ALICE);
    (stack, alice)
}

// A session of one hop, on the other.

/// Headers that belong to the way between a client and the gateway.
fn of_the_hop(envelope: Envelope) -> Envelope {
    let names = [
        "mcp-session-id",
        "last-event-id",
        "cookie",
        "forwarded",
        "x-forwarded-for",
        "x-forwarded-host",
        "x-forwarded-proto",
        "x-real-ip",
        "x-request-id",
        "via",
        "traceparent",
        "tracestate",
        "baggage",
        "user-agent",
        "referer",
        "accept-language",
        "if-none-match",
    ];
    let add = |envelope: Envelope, name| envelope.header(name, MARK);
    let envelope = names.into_iter().fold(envelope, add);
    envelope
        .header("te", "trailers")
        .header("accept-encoding", "gzip, br")
}

/// Headers of an upstream's answer that belong to the other way.
fn of_the_other_hop(answer: Answer) -> Answer {
    let names = [
        "mcp-session-id",
        "set-cookie",
        "server",
        "x-powered-by",
        "etag",
        "last-modified",
        "www-authenticate",
        "access-control-allow-origin",
        "location",
        "link",
        "traceresponse",
        "retry-after",
    ];
    names
        .into_iter()
        .fold(answer, |answer, name| answer.header(name, MARK))
}

fn names_of<'a>(headers: impl Iterator<Item = &'a hyper::header::HeaderName>) -> BTreeSet<&'a str> {
    headers.map(hyper::header::HeaderName::as_str).collect()
}

/// Exactly what an upstream may be told.
fn assert_documented(seen: &Seen) {
    let mut expected = BTreeSet::from([
        "accept",
        "accept-encoding",
        "content-length",
        "content-type",
        "host",
        "mcp-method",
        "mcp-protocol-version",
    ]);
    if ["tools/call", "tasks/get"].contains(&&*seen.method) {
        expected.insert("mcp-name");
    }
    assert_eq!(names_of(seen.headers.keys()), expected, "{}", seen.method);
    assert_eq!(seen.header("accept-encoding"), Some("identity"));
    assert!(!seen.contains(MARK), "{}", seen.method);
    assert!(!seen.contains(ALICE), "{}", seen.method);
}

/// A gateway handed its client's session header on. Upstreams refused a session that they had never
/// issued, and one that takes any would have mixed two callers.
#[tokio::test]
async fn a_session_header_of_the_client_reaches_no_upstream_and_none_comes_back() {
    let (stack, alice) = start().await;
    let task = alice.start_task("slow", json!({})).await.unwrap();
    let before = stack.upstream.seen().len();
    for method in ["tools/list", "tools/call", "tasks/get", "server/discover"] {
        stack
            .upstream
            .script(method, |_| of_the_other_hop(Answer::built_in()));
    }
    let tenant = stack.gateway.client().with_key(ALICE);
    for client in [&alice, &tenant] {
        let is_tenant = std::ptr::eq(client, &raw const tenant);
        let echo = if is_tenant { "reports__echo" } else { "echo" };
        for envelope in [
            Envelope::new("server/discover", json!({})),
            Envelope::new("tools/list", json!({})),
            Envelope::call(echo, json!({"text": "hi"})),
            Envelope::get(&task),
        ] {
            let reply = client.send(&of_the_hop(envelope)).await.unwrap();
            reply.result().unwrap();
            let expected = [
                "content-length",
                "content-type",
                "date",
                "hangar-correlation-id",
            ];
            assert_eq!(names_of(reply.headers.keys()), BTreeSet::from(expected));
            assert!(!String::from_utf8_lossy(&reply.body).contains(MARK));
        }
    }
    let seen = stack.upstream.seen().split_off(before);
    assert!(seen.len() >= 6, "{}", seen.len());
    seen.iter().for_each(assert_documented);
}

/// The same where the answer is a stream, which has headers of its own.
#[tokio::test]
async fn a_session_header_crosses_no_stream_either() {
    let (stack, alice) = start().await;
    let told = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":1}}"#;
    let done = r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","content":[]}}"#;
    let body = [sse::event(told), sse::event(done)].concat();
    stack.upstream.script("tools/call", move |_| {
        let answer = Answer::raw(body.clone()).framed(Framing::Sse);
        of_the_other_hop(answer)
    });
    let call = Envelope::call("echo", json!({"text": "hi"})).meta("progressToken", json!("p"));
    let reply = alice.send(&of_the_hop(call)).await.unwrap();
    let expected = [
        "content-type",
        "date",
        "hangar-correlation-id",
        "transfer-encoding",
        "x-accel-buffering",
    ];
    assert_eq!(names_of(reply.headers.keys()), BTreeSet::from(expected));
    assert_eq!(reply.header("content-type"), Some("text/event-stream"));

    let granted = json!({"toolsListChanged": true});
    let _feed = Feed::script(&stack.upstream, &granted, &[]);
    let listen = Envelope::new("subscriptions/listen", json!({"notifications": granted}));
    let address = stack.gateway.mcp_address();
    let listen = of_the_hop(listen);
    let open = Open::send(address, "/mcp/default/reports", ALICE, &listen).await;
    let mut open = open.unwrap();
    open.events(1).await.unwrap();
    let head = open.got.split("\r\n\r\n").next().unwrap().to_lowercase();
    assert!(!head.contains("session") && !head.contains(MARK), "{head}");
    for method in ["tools/call", "subscriptions/listen"] {
        assert_documented(&stack.upstream.seen_of(method)[0]);
    }
}

// Names that are not safe in a header.

/// A form of `Mcp-Name` that no reader may take, with the name that a lenient one reads there.
type Form = (&'static str, &'static str, &'static [u8]);

const FORMS: [Form; 19] = [
    ("raw UTF-8", "\u{e9}cho", "\u{e9}cho".as_bytes()),
    (
        "raw UTF-8 of three bytes",
        "\u{30a8}",
        "\u{30a8}".as_bytes(),
    ),
    ("a raw byte of Latin-1", "\u{e9}cho", b"\xe9cho"),
    ("raw bytes that are no text", "\u{fffd}", b"\xff"),
    ("a tab", "ec\tho", b"ec\tho"),
    ("no padding", "echo", b"=?base64?ZWNobw?="),
    ("half the padding", "echo", b"=?base64?ZWNobw=?="),
    ("too much padding", "echo", b"=?base64?ZWNobw===?="),
    ("padding in the middle", "echo", b"=?base64?ZQ==Y2hv?="),
    ("bits behind the last byte", "echo", b"=?base64?ZWNobx==?="),
    ("a blank within", "echo", b"=?base64?ZWNo bw==?="),
    (
        "the alphabet of URLs",
        "\u{ff}\u{ff}",
        b"=?base64?w7_Dvw==?=",
    ),
    ("no alphabet", "echo", b"=?base64?%%%%?="),
    ("no UTF-8 within", "\u{fffd}\u{fffd}", b"=?base64?//8=?="),
    ("an upper-case marker", "echo", b"=?BASE64?ZWNobw==?="),
    ("a mixed marker", "echo", b"=?Base64?ZWNobw==?="),
    (
        "a wrapper within a wrapper",
        "echo",
        b"=?base64?PT9iYXNlNjQ/WldOb2J3PT0/PQ==?=",
    ),
    ("an empty wrapper", "echo", b"=?base64??="),
    ("a marker and no end", "echo", b"=?base64?ZWNobw=="),
];

/// The requests that mirror a name, by method and the member that it is in.
const MIRRORED: [(&str, &str); 4] = [
    ("tools/call", "name"),
    ("prompts/get", "name"),
    ("resources/read", "uri"),
    ("tasks/get", "taskId"),
];

/// A request as bytes, with this value of `Mcp-Name`, which need not be text.
fn named(method: &str, member: &str, name: &str, header: &[u8]) -> Vec<u8> {
    let envelope = Envelope::new(method, json!({member: name})).without_header("mcp-name");
    with_raw(&envelope, "mcp-name", header)
}

/// A request with a further header, whose value need not be text.
fn with_raw(envelope: &Envelope, name: &str, header: &[u8]) -> Vec<u8> {
    let more = format!("{name}: @\r\n");
    let mut bytes = request(envelope, ALICE, &more, &envelope.body());
    let at = bytes.windows(2).position(|two| two == b" @").unwrap() + 1;
    bytes.splice(at..=at, header.iter().copied());
    bytes
}

/// A name outside ASCII came as raw bytes, and was taken because it happened to equal the body; a
/// broken wrapper was read as well as it went. What stands before the gateway read another name.
#[tokio::test]
async fn a_name_that_is_raw_or_badly_wrapped_is_refused_even_where_it_equals_the_body() {
    let (stack, alice) = start().await;
    // Each of them is there, so that only its header is wrong.
    let mut listed = tools();
    let unsafe_names: BTreeSet<_> = FORMS.map(|(_, name, _)| name).into();
    let others = unsafe_names.into_iter().filter(|name| *name != "echo");
    listed.extend(others.map(|name| mk_tool(name, "Never called.", &json!({}))));
    stack.upstream.set_tools(listed);
    alice.list_tools().await.unwrap().result().unwrap();
    let before = stack.upstream.seen().len();
    let mut raw = Raw::connect(stack.gateway.mcp_address()).await.unwrap();
    let mut refused = 0;
    for (method, member) in MIRRORED {
        for (what, name, header) in FORMS {
            raw.say(&named(method, member, name, header)).await.unwrap();
            let said = raw.answer().await.unwrap();
            assert_eq!(said.status, 400, "{method}, {what}: {}", said.body);
            let (code, _) = said.error().unwrap();
            assert_eq!(code, HEADER_MISMATCH, "{method}, {what}: {}", said.body);
            refused += 1;
        }
    }
    let labels = [("reason", "header_mismatch")];
    assert_eq!(stack.count(REFUSED, &labels).await.unwrap(), refused);
    assert_eq!(stack.upstream.seen().len(), before, "no upstream was asked");
    // A name that looks like a wrapper is sent in one, and in no other way.
    let looks = "=?base64?ZWNobw==?=";
    let wrapped = b"=?base64?PT9iYXNlNjQ/WldOb2J3PT0/PQ==?=";
    for (header, status) in [(&wrapped[..], 200), (looks.as_bytes(), 400)] {
        let bytes = named("tools/call", "name", looks, header);
        raw.say(&bytes).await.unwrap();
        let said = raw.answer().await.unwrap();
        assert_eq!(said.status, status, "{}", said.body);
    }
}

/// The same for an argument that the tool's contract asks to see in a header.
#[tokio::test]
async fn an_argument_in_a_header_is_refused_in_the_same_forms() {
    let (stack, _) = start().await;
    let region = json!({"region": {"type": "string", "x-mcp-header": "Region"}});
    stack
        .upstream
        .set_tools(vec![mk_tool("placed", "Runs somewhere.", &region)]);
    let mut raw = Raw::connect(stack.gateway.mcp_address()).await.unwrap();
    for (what, value, header) in FORMS {
        let call = Envelope::call("placed", json!({"region": value}));
        let bytes = with_raw(&call, "mcp-param-region", header);
        raw.say(&bytes).await.unwrap();
        let said = raw.answer().await.unwrap();
        assert_eq!(said.status, 400, "{what}: {}", said.body);
        assert_eq!(said.error().unwrap().0, HEADER_MISMATCH, "{what}");
    }
    assert_eq!(stack.upstream.count("tools/call"), 0);
}

/// Only names may be wrapped: a wrapped method or revision is one that a plain reader does not see.
#[tokio::test]
async fn a_method_or_a_revision_in_a_wrapper_is_refused() {
    let (stack, alice) = start().await;
    let before = stack.upstream.seen().len();
    for (header, wrapped) in [
        ("mcp-method", "=?base64?dG9vbHMvY2FsbA==?="),
        ("mcp-protocol-version", "=?base64?MjAyNi0wNy0yOA==?="),
    ] {
        let call = Envelope::call("echo", json!({})).without_header(header);
        let reply = alice.send(&call.header(header, wrapped)).await.unwrap();
        assert_eq!(reply.outcome().unwrap(), (400, HEADER_MISMATCH), "{header}");
    }
    assert_eq!(stack.upstream.seen().len(), before);
}

// Credentials of the wrong hop.

/// A call with every proof of its sender that people put into headers.
fn proofs(key: &str) -> Envelope {
    Envelope::call("echo", json!({"text": "hi"}))
        .header("proxy-authorization", &format!("Bearer {key}"))
        .header("cookie", &format!("session={key}"))
        .header("x-api-key", key)
        .header("x-auth-token", key)
        .header("api-key", key)
}

fn assert_no_proof(upstream: &Upstream, keys: &[&str]) {
    for seen in upstream.seen() {
        let told = keys.iter().find(|key| seen.contains(key));
        assert!(told.is_none(), "{seen:?}");
        for name in [
            "authorization",
            "proxy-authorization",
            "cookie",
            "x-api-key",
        ] {
            assert!(!seen.headers.contains_key(name), "{name}: {seen:?}");
        }
    }
}

/// A client's key for the gateway was passed to upstreams that had no credential of their own.
#[tokio::test]
async fn what_a_client_proves_itself_with_reaches_no_upstream() {
    let (stack, alice) = start().await;
    let old = Upstream::start().await.unwrap();
    let _legacy = Legacy::teach(&old);
    let more = [
        mk_upstream("old", &old.url()),
        mk_tenant("initech").grants("old"),
        mk_keys("initech", &[("dave", DAVE)]),
    ];
    manifests::write(&stack.manifests(), "more.yaml", &more).unwrap();
    let url = format!("http://{}/mcp/default/reports", stack.gateway.mcp_address());
    let in_query = alice.at(&format!("{url}?access_token={ALICE}"));
    for client in [&alice, &in_query] {
        let reply = client.send(&proofs(ALICE)).await.unwrap();
        reply.result().unwrap();
        client.list_tools().await.unwrap().result().unwrap();
        client.start_task("slow", json!({})).await.unwrap();
    }
    for object in ["McpUpstream/default/old", "TenantPolicy/default/initech"] {
        stack.operator.programmed(object).await.unwrap();
    }
    let dave = stack.gateway.client_of("default", "old").with_key(DAVE);
    let reply = dave.send(&proofs(DAVE)).await.unwrap();
    reply.result().unwrap();
    assert_eq!(old.count("initialize"), 2, "for dave, and for contracts");
    for upstream in [&stack.upstream, &old] {
        assert_no_proof(upstream, &[ALICE, DAVE]);
    }
}

/// An upstream that wants a credential was called without any while there was none to be had, and its
/// client's own went instead. This version can present none, and so serves no such upstream.
#[tokio::test]
async fn an_upstream_that_wants_a_credential_is_never_called_without_it() {
    let (stack, _) = start().await;
    let keyed = Upstream::start().await.unwrap();
    let unkeyed = Upstream::start().await.unwrap();
    let credential = |secret: &str| json!({"type": "Bearer", "bearer": {"secretRef": {"name": secret, "key": "token"}}});
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "stringData": {"token": "the-gateways-own"},
        "metadata": {"name": "there", "labels": {"hangar.dev/use": "credential"}},
    });
    let more = [
        mk_upstream("keyed", &keyed.url()).set("/spec/credential", credential("there")),
        Manifest::new(secret),
        mk_upstream("unkeyed", &unkeyed.url()).set("/spec/credential", credential("missing")),
        mk_tenant("initech").grants("keyed").grants("unkeyed"),
        mk_keys("initech", &[("dave", DAVE)]),
    ];
    manifests::write(&stack.manifests(), "more.yaml", &more).unwrap();
    for name in ["keyed", "unkeyed"] {
        let object = format!("McpUpstream/default/{name}");
        let accepted = stack.operator.condition(&object, "Accepted", "False").await;
        assert_eq!(accepted.unwrap()["reason"], "NotYetSupported", "{name}");
        let dave = stack.gateway.client_of("default", name).with_key(DAVE);
        let reply = dave.send(&proofs(DAVE)).await.unwrap();
        assert!(reply.result().is_err(), "{name}: {reply:?}");
    }
    let tenant = stack.gateway.client().with_key(DAVE);
    let listed = tenant.list_tools().await.unwrap();
    assert!(listed.result().is_err(), "{listed:?}");
    assert_eq!([keyed.seen().len(), unkeyed.seen().len()], [0, 0]);
}

// Redirects.

/// A client followed redirects and replayed what it had been given, a key for one, to whatever host
/// an upstream named.
#[tokio::test]
async fn a_redirect_is_an_error_and_the_host_it_names_sees_no_connection() {
    let (stack, alice) = start().await;
    let task = alice.start_task("slow", json!({})).await.unwrap();
    let elsewhere = TcpListener::bind("127.0.0.1:0").unwrap();
    elsewhere.set_nonblocking(true).unwrap();
    let other = elsewhere.local_addr().unwrap();
    let places = [
        format!("http://{other}/mcp"),
        format!("https://{other}/mcp"),
        format!("//{other}/mcp"),
        stack.upstream.url(),
        "/mcp".to_owned(),
        "/loop".to_owned(),
        String::new(),
    ];
    let mut asked = 0;
    for status in [300, 301, 302, 303, 307, 308] {
        for place in places.clone() {
            let what = format!("{status} {place}");
            let status = StatusCode::from_u16(status).unwrap();
            for method in ["tools/call", "tasks/get"] {
                // A reply in the body of a redirect is none.
                let answer = Answer::built_in().status(status).header("location", &place);
                stack.upstream.enqueue(method, answer);
            }
            let reply = alice.call("echo", json!({"text": "hi"})).await.unwrap();
            assert_eq!(reply.error_code().unwrap(), UPSTREAM_PROTOCOL, "{what}");
            assert!(reply.header("location").is_none(), "{what}");
            let known = alice.get(&task).await.unwrap().result().unwrap();
            let age = &known["_meta"]["hangar.dev/ageMs"];
            assert!(age.is_u64(), "{what}: the ledger's own: {known}");
            asked += 1;
        }
    }
    assert_eq!(stack.upstream.count("tools/call"), asked + 1, "once each");
    assert_eq!(stack.upstream.count("tasks/get"), asked, "once each");
    let seen = stack.upstream.seen();
    assert!(seen.iter().all(|seen| seen.path == "/mcp"), "no loop");
    let labels = [("method", "tools/call"), ("outcome", "upstream")];
    let counted = stack.count("hangar_requests_total", &labels).await.unwrap();
    assert_eq!(counted, u64::try_from(asked).unwrap());
    let untouched = elsewhere.accept().unwrap_err();
    assert_eq!(untouched.kind(), std::io::ErrorKind::WouldBlock);
    alice.until(&task, "working").await.unwrap();
}

/// The same for every method, and for what the gateway asks by itself: contracts, announcements, and
/// sessions of the revision before.
#[tokio::test]
async fn a_redirect_is_followed_for_no_method_and_not_in_a_handshake() {
    let elsewhere = TcpListener::bind("127.0.0.1:0").unwrap();
    elsewhere.set_nonblocking(true).unwrap();
    let place = format!("http://{}/mcp", elsewhere.local_addr().unwrap());
    let away = move || {
        Answer::built_in()
            .status(StatusCode::TEMPORARY_REDIRECT)
            .header("location", &place)
    };
    for is_old in [false, true] {
        let (stack, alice) = start().await;
        let task = alice.start_task("ask", json!({})).await.unwrap();
        alice.until(&task, "input_required").await.unwrap();
        if is_old {
            Legacy::teach(&stack.upstream);
        }
        for method in [
            "initialize",
            "prompts/get",
            "resources/read",
            "server/discover",
            "subscriptions/listen",
            "tasks/cancel",
            "tasks/update",
        ] {
            if !(is_old && method == "server/discover") {
                let away = away.clone();
                stack.upstream.script(method, move |_| away());
            }
        }
        let kinds = json!({"notifications": {"toolsListChanged": true}});
        for envelope in [
            Envelope::new("server/discover", json!({})),
            Envelope::new("prompts/get", json!({"name": "greet"})),
            Envelope::new("resources/read", json!({"uri": "x://a"})),
            Envelope::new("subscriptions/listen", kinds),
            Envelope::update(&task, &json!({"name": {"action": "accept", "content": {}}})),
        ] {
            let reply = alice.send(&envelope).await.unwrap();
            assert!(reply.error_code().is_ok(), "{envelope:?}: {reply:?}");
        }
        // A cancel is acknowledged, whatever becomes of it.
        alice.cancel(&task).await.unwrap().result().unwrap();
        let refused = if is_old { "initialize" } else { "tasks/cancel" };
        stack.upstream.arrived(refused, 1).await.unwrap();
        // Without a contract there is no call.
        let away = away.clone();
        stack.upstream.script("tools/list", move |_| away());
        let listed = alice.list_tools().await.unwrap();
        assert!(listed.error_code().is_ok(), "{listed:?}");
    }
    let untouched = elsewhere.accept().unwrap_err();
    assert_eq!(untouched.kind(), std::io::ErrorKind::WouldBlock);
}
