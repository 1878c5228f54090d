//! What went wrong in the field with gateways like this one: streams, ids, framing, and a field that
//! nobody read. Each test begins with the story.

#![cfg(test)]

use std::time::Duration;

use hangar_tests::client::{Client, Reply, legacy_headers};
use hangar_tests::envelope::Envelope;
use hangar_tests::open::Open;
use hangar_tests::raw::{Raw, request};
use hangar_tests::scripted::{Answer, Feed, Framing, Gate, Legacy, Seen};
use hangar_tests::stack::{ALICE, BOB, REPORTS, Stack};
use hangar_tests::{sse, usage};
use hyper::{Method, StatusCode};
use serde_json::{Value, json};

const UNAVAILABLE: i64 = -31001;
const UPSTREAM_PROTOCOL: i64 = -31008;
const MIB: u64 = 1 << 20;
const JSON: &str = "application/json";
const PATH: &str = "/mcp/default/reports";

const DONE: &str =
    r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","content":[],"x": 1.0}}"#;

async fn start() -> (Stack, Client) {
    let stack = Stack::start().await.unwrap();
    let alice = stack.client(ALICE);
    (stack, alice)
}

fn call() -> Envelope {
    Envelope::call("echo", json!({"text": "hi"}))
}

/// A call whose client wants to be told of its progress.
fn curious() -> Envelope {
    call().meta("progressToken", json!("p"))
}

fn progress(number: usize) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":"p","progress":{number}}}}}"#
    )
}

fn stream(body: impl Into<Vec<u8>>) -> Answer {
    Answer::raw(body).framed(Framing::Sse)
}

// Junk.

/// Junk, what is sent of it, and whether the answer behind it is read.
fn junk() -> [(&'static str, String, bool); 6] {
    [
        (
            "events that are no JSON",
            "data: x\n\n".repeat(50_000),
            true,
        ),
        ("many more of them", "data: x\n\n".repeat(100_000), false),
        ("events without data", "data\n\n".repeat(50_000), true),
        ("comments", ": hello\n\n".repeat(50_000), true),
        ("a million comments", ":\n".repeat(1_000_000), false),
        ("other fields", "id: 1\nretry: 5\n".repeat(200_000), false),
    ]
}

/// A reader skipped what it could not decode by calling itself: a burst of it in one buffer was the
/// end of its stack, and of everybody's streams on that process.
#[tokio::test]
async fn a_burst_of_junk_in_one_buffer_ends_no_process_and_disturbs_nobody() {
    let (mut stack, alice) = start().await;
    let pid = stack.gateway.process().pid();
    let granted = json!({"toolsListChanged": true});
    let changed = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
    let feed = Feed::script(&stack.upstream, &granted, &vec![changed; junk().len()]);
    let listen = Envelope::new("subscriptions/listen", json!({"notifications": granted}));
    let address = stack.gateway.mcp_address().to_owned();
    let mut bystander = Open::send(&address, PATH, BOB, &listen).await.unwrap();
    bystander.events(1).await.unwrap();
    alice.send(&call()).await.unwrap().result().unwrap();
    usage::forget_peak(pid);
    let before = (usage::peak(pid).unwrap(), usage::processor(pid).unwrap());
    for (number, (what, junk, is_read)) in junk().into_iter().enumerate() {
        let body = junk + &sse::event(DONE);
        for envelope in [call(), curious()] {
            stack.upstream.enqueue("tools/call", stream(body.clone()));
            let reply = alice.send(&envelope).await.unwrap();
            if is_read {
                assert_eq!(reply.body, DONE, "{what}");
            } else {
                assert_eq!(reply.error_code().unwrap(), UPSTREAM_PROTOCOL, "{what}");
                let message = reply.message().unwrap()["error"]["message"].to_string();
                assert!(message.contains("too_much_junk"), "{what}: {message}");
            }
        }
        feed.open(number);
        bystander.events(number + 2).await.unwrap();
        alice.send(&call()).await.unwrap().result().unwrap();
    }
    let peak = usage::peak(pid).unwrap();
    let grown = peak.saturating_sub(before.0);
    assert!(grown < 32 * MIB, "{} MiB", grown / MIB);
    // Reading every byte again for each event would take minutes.
    let busy = usage::processor(pid).unwrap().saturating_sub(before.1);
    assert!(busy < Duration::from_secs(30), "{busy:?}");
    // What the bystander asked is held as long as its stream.
    let held = stack.count("hangar_held_bytes", &[]).await.unwrap();
    assert_eq!(held, u64::try_from(listen.body().len()).unwrap());
}

/// The same from an upstream of the revision before, whose streams are read on another way.
#[tokio::test]
async fn a_burst_of_junk_from_an_older_upstream_is_skipped_or_refused() {
    let (stack, alice) = start().await;
    let legacy = Legacy::teach(&stack.upstream);
    for (what, junk, is_read) in junk() {
        legacy.within(&stack.upstream, "tools/call", move |seen| {
            let id = &seen.message()["id"];
            let done = json!({"jsonrpc": "2.0", "id": id, "result": {"content": []}});
            stream([&*junk, &sse::event(&done.to_string())].concat())
        });
        let reply = alice.send(&call()).await.unwrap();
        if is_read {
            assert_eq!(reply.result().unwrap()["content"], json!([]), "{what}");
        } else {
            assert_eq!(reply.error_code().unwrap(), UPSTREAM_PROTOCOL, "{what}");
        }
    }
}

/// The same on a stream that lasts, whose end is nobody's to wait for.
#[tokio::test]
async fn a_burst_of_junk_on_a_subscription_ends_that_one_at_most() {
    let (stack, alice) = start().await;
    let acknowledged = r#"{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{"toolsListChanged":true},"_meta":{"io.modelcontextprotocol/subscriptionId":ID}}}"#;
    let changed = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":ID}}}"#;
    let granted = json!({"toolsListChanged": true});
    let listen = Envelope::new("subscriptions/listen", json!({"notifications": granted}));
    let address = stack.gateway.mcp_address();
    for (what, junk, is_read) in junk() {
        let never = Gate::new();
        let gate = never.clone();
        stack.upstream.script("subscriptions/listen", move |seen| {
            let id = seen.message()["id"].to_string();
            let event = |text: &str| sse::event(&text.replace("ID", &id));
            let body = [&*event(acknowledged), &*junk, &event(changed)].concat();
            let length = body.len();
            stream(body).held_at(length, &gate)
        });
        let mut open = Open::send(address, PATH, ALICE, &listen).await.unwrap();
        if is_read {
            open.until("tools/list_changed").await.unwrap();
        } else {
            let events = open.to_end().await.unwrap();
            assert!(events.last().unwrap()["result"].is_object(), "{what}");
        }
        never.open();
    }
    alice.send(&call()).await.unwrap().result().unwrap();
}

/// A burst of good events in one buffer: every one arrives, in order, and nothing is held but a few.
#[tokio::test]
async fn a_burst_of_events_in_one_buffer_arrives_whole() {
    let (stack, alice) = start().await;
    let mut sent: Vec<String> = (0..20_000).map(progress).collect();
    sent.push(DONE.to_owned());
    let body: String = sent.iter().map(|message| sse::event(message)).collect();
    stack.upstream.enqueue("tools/call", stream(body));
    let reply = alice.send(&curious()).await.unwrap();
    let events = sse::events(std::str::from_utf8(&reply.body).unwrap());
    assert!(events == sent, "in order and complete");
}

// A field that nobody read.

/// A field of the configuration was misspelt, and silently ignored: what it asked for was believed
/// to be in force.
#[tokio::test]
async fn a_misspelt_field_is_refused_and_what_was_in_force_goes_on() {
    let (stack, alice) = start().await;
    stack
        .rewrite(|object| match object.value()["kind"].as_str() {
            Some("McpUpstream") => object.set("/spec/limits/requestTimeOut", json!("1s")),
            _ => object,
        })
        .unwrap();
    let refused = stack.operator.condition(REPORTS, "Accepted", "False").await;
    let message = refused.unwrap()["message"].to_string();
    for words in [
        "spec.limits.requestTimeOut",
        "look for a misspelling",
        "generation 1 stays in force",
    ] {
        assert!(message.contains(words), "{words}: {message}");
    }
    alice.send(&call()).await.unwrap().result().unwrap();
    // Spelt right, it is in force.
    stack
        .rewrite(|object| match object.value()["kind"].as_str() {
            Some("McpUpstream") => object.set("/spec/limits/requestTimeout", json!("1s")),
            _ => object,
        })
        .unwrap();
    let accepted = stack.operator.condition(REPORTS, "Accepted", "True").await;
    accepted.unwrap();
    stack.operator.programmed(REPORTS).await.unwrap();
    let never = Gate::new();
    stack
        .upstream
        .script("tools/call", move |_| Answer::built_in().held(&never));
    let reply = alice.send(&call()).await.unwrap();
    assert_eq!(reply.error_code().unwrap(), UNAVAILABLE);
}

// Ids.

/// The id that was sent, the one that came back, and whether that is the same in other clothes.
fn echoes() -> [(Value, &'static str, bool); 15] {
    [
        (json!(1), r#""id":1,"#, true),
        (json!(1), r#""id":"1","#, true),
        (json!("1"), r#""id":1,"#, true),
        (json!("a"), r#""id":"\u0061","#, true),
        (json!(-7), r#""id":"-7","#, true),
        (json!(1), r#""id":null,"#, false),
        (json!(1), "", false),
        (json!(1), r#""id":2,"#, false),
        (json!(1), r#""id":1.0,"#, false),
        (json!(1), r#""id":"01","#, false),
        (json!(1), r#""id":true,"#, false),
        (json!(1), r#""id":[1],"#, false),
        (json!("a"), r#""id":"A","#, false),
        (json!("1"), r#""id":" 1","#, false),
        (json!("null"), r#""id":null,"#, false),
    ]
}

/// A server answered `"1"` to a request with id 1 and its client waited for ever; others say null,
/// or the id of another request.
#[tokio::test]
async fn an_id_in_other_clothes_is_given_back_as_it_was_sent_and_any_other_is_an_error() {
    let (stack, alice) = start().await;
    let member = r#""result":{"resultType":"complete","content":[{"type":"text","text":"here"}]}"#;
    let error = r#""error":{"code":-32050,"message":"theirs"}"#;
    for (sent, echoed, is_ours) in echoes() {
        for (member, good) in [(member, None), (error, Some(-32050))] {
            let message = format!(r#"{{"jsonrpc":"2.0",{echoed}{member}}}"#);
            let streamed = [sse::event(&progress(1)), sse::event(&message)].concat();
            for (answer, envelope) in [
                (Answer::raw(message.clone()), call()),
                (stream(sse::event(&message)), call()),
                (stream(streamed), curious()),
            ] {
                let what = format!("{sent} {message}");
                stack.upstream.enqueue("tools/call", answer);
                let reply = alice.send(&envelope.id(sent.clone())).await.unwrap();
                assert_eq!(reply.message().unwrap()["id"], sent, "{what}");
                let code = reply.error_code().ok();
                let expected = if is_ours {
                    good
                } else {
                    Some(UPSTREAM_PROTOCOL)
                };
                assert_eq!(code, expected, "{what}");
                let text = String::from_utf8_lossy(&reply.body).into_owned();
                assert_eq!(text.contains("here"), is_ours && good.is_none(), "{what}");
            }
        }
    }
    // A status that is no success, and an id of nobody: what it says is not known to be meant.
    let nobody = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"theirs"}}"#;
    let answer = Answer::raw(nobody).status(StatusCode::BAD_REQUEST);
    stack.upstream.enqueue("tools/call", answer);
    let reply = alice.send(&call()).await.unwrap();
    assert_eq!(reply.message().unwrap()["id"], json!(1));
    assert_eq!(reply.error_code().unwrap(), UNAVAILABLE);
}

/// The same between all revisions: each side has ids of its own, and the client gets its own back.
#[tokio::test]
async fn a_client_of_either_revision_gets_its_own_id_back_from_either() {
    for is_old in [false, true] {
        let (stack, alice) = start().await;
        let loose = |seen: &Seen| {
            let id = match &seen.message()["id"] {
                Value::String(text) => text.parse().map_or(json!(text), |n: i64| json!(n)),
                other => json!(other.to_string()),
            };
            let result = json!({"resultType": "complete", "content": []});
            Answer::raw(json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string())
        };
        if is_old {
            Legacy::teach(&stack.upstream).within(&stack.upstream, "tools/call", loose);
        } else {
            stack.upstream.script("tools/call", loose);
        }
        for id in [json!(1), json!("1"), json!("a"), json!(-1), json!("")] {
            let modern = alice.send(&call().id(id.clone())).await.unwrap();
            let params = json!({"name": "echo", "arguments": {"text": "hi"}});
            let old = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
            let old = alice.post(&legacy_headers(), old.to_string().into()).await;
            for reply in [modern, old.unwrap()] {
                let message = reply.message().unwrap();
                assert_eq!(message["id"], id, "{message}");
                assert_eq!(message["result"]["content"], json!([]), "{message}");
            }
        }
    }
}

/// The same on a follow-up: news under the id of another request is none, and changes no task.
#[tokio::test]
async fn an_answer_to_somebody_else_changes_no_task() {
    let (stack, alice) = start().await;
    let task = alice.start_task("slow", json!({})).await.unwrap();
    let done = json!({
        "resultType": "complete", "taskId": task, "status": "completed",
        "createdAt": "2026-12-01T06:00:00Z", "lastUpdatedAt": "2026-12-01T06:00:00Z",
        "ttlMs": 900_000, "result": {"content": [{"type": "text", "text": "swapped"}]},
    });
    for id in ["null", "2", "\"x\""] {
        let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{done}}}"#);
        for answer in [Answer::raw(body.clone()), stream(sse::event(&body))] {
            stack.upstream.enqueue("tasks/get", answer);
            let reply = alice.get(&task).await.unwrap();
            let text = String::from_utf8_lossy(&reply.body).into_owned();
            assert!(!text.contains("swapped"), "{id}: {text}");
            assert!(!text.contains("completed"), "{id}: {text}");
        }
    }
    let got = alice.until(&task, "working").await.unwrap();
    assert_eq!(got["_meta"]["hangar.dev/ageMs"], Value::Null, "fresh");
    assert_eq!(stack.events(&task).await.unwrap(), ["TaskCreated"]);
}

/// Two answers were swapped: each went to the caller of the other.
#[tokio::test]
async fn two_answers_that_are_swapped_reach_nobody() {
    let (stack, alice) = start().await;
    let bob = stack.client(BOB);
    let both = Gate::new();
    for framing in [Framing::Json, Framing::Sse] {
        let gate = both.clone();
        stack.upstream.script("tools/call", move |seen| {
            let message = seen.message();
            let other = 30 - message["id"].as_i64().unwrap();
            let body = json!({"jsonrpc": "2.0", "id": other, "result": {
                "resultType": "complete", "content": [{"type": "text", "text": format!("swapped {other}")}],
            }});
            let body = body.to_string();
            let body = if framing == Framing::Sse { sse::event(&body) } else { body };
            Answer::raw(body).framed(framing).held(&gate)
        });
        let (ten, twenty) = (call().id(json!(10)), call().id(json!(20)));
        let opens = async {
            stack.upstream.arrived("tools/call", 2).await.unwrap();
            both.open();
        };
        let (to_alice, to_bob, ()) = tokio::join!(alice.send(&ten), bob.send(&twenty), opens);
        for (reply, id) in [(to_alice.unwrap(), 10), (to_bob.unwrap(), 20)] {
            assert_eq!(reply.message().unwrap()["id"], json!(id));
            assert_eq!(reply.error_code().unwrap(), UPSTREAM_PROTOCOL);
            assert!(!String::from_utf8_lossy(&reply.body).contains("swapped"));
        }
    }
    stack.upstream.unscript("tools/call");
    for client in [&alice, &bob] {
        client.send(&call()).await.unwrap().result().unwrap();
    }
}

// Framing.

/// A gzip file whose only block is stored (RFC 1951, 3.2.4; RFC 1952, 2.3).
fn gzip(bytes: &[u8]) -> Vec<u8> {
    let length = u16::try_from(bytes.len()).unwrap();
    let mut file = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255, 1];
    file.extend(length.to_le_bytes());
    file.extend((!length).to_le_bytes());
    file.extend(bytes);
    let crc = bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg())
        })
    });
    file.extend((!crc).to_le_bytes());
    file.extend(u32::from(length).to_le_bytes());
    file
}

/// What an upstream answers, with headers of its own about the body, and what its client gets.
fn bodies() -> Vec<(&'static str, Answer, Option<i64>)> {
    let packed = gzip(DONE.as_bytes());
    let packed_stream = gzip(sse::event(DONE).as_bytes());
    let length = packed.len().to_string();
    let entity = |answer: Answer| {
        answer
            .header("etag", "\"of-the-upstream\"")
            .header("content-language", "tlh")
            .header("content-md5", "of-the-upstream")
            .header("accept-ranges", "bytes")
            .header("vary", "accept-encoding")
    };
    let broken = Some(UPSTREAM_PROTOCOL);
    vec![
        (
            "packed, with its own length",
            Answer::raw(packed.clone())
                .header("content-encoding", "gzip")
                .header("content-length", &length),
            broken,
        ),
        (
            "packed, in pieces",
            Answer::raw(packed.clone()).header("content-encoding", "gzip"),
            broken,
        ),
        (
            "a packed stream",
            stream(packed_stream).header("content-encoding", "gzip"),
            broken,
        ),
        (
            "said to be packed and plain",
            Answer::raw(DONE).header("content-encoding", "gzip"),
            broken,
        ),
        ("packed and not said to be", Answer::raw(packed), broken),
        (
            "plain, with headers about it",
            entity(Answer::raw(DONE).header("content-encoding", "identity")),
            None,
        ),
        (
            "plain, with its own length",
            entity(Answer::raw(DONE)).header("content-length", &DONE.len().to_string()),
            None,
        ),
        ("a stream", entity(stream(sse::event(DONE))), None),
        (
            "no content",
            Answer::raw("").status(StatusCode::NO_CONTENT),
            broken,
        ),
        (
            "accepted",
            Answer::raw("").status(StatusCode::ACCEPTED),
            broken,
        ),
        (
            "nothing at all",
            Answer::raw("").header("content-length", "0"),
            broken,
        ),
    ]
}

/// The head says what the bytes are.
fn assert_framed(what: &str, reply: &Reply) {
    let length = reply.header("content-length").map(str::to_owned);
    assert_eq!(length, Some(reply.body.len().to_string()), "{what}");
    for name in [
        "content-encoding",
        "etag",
        "content-language",
        "content-md5",
        "accept-ranges",
        "vary",
        "transfer-encoding",
    ] {
        assert!(!reply.headers.contains_key(name), "{what}: {name}");
    }
}

/// A length was copied from an upstream's answer and the body then compressed, or the reverse: strict
/// clients could read no reply at all.
#[tokio::test]
async fn the_length_and_the_coding_of_an_answer_are_its_own_and_not_the_upstreams() {
    let (stack, alice) = start().await;
    let url = format!("http://{}{PATH}", stack.gateway.mcp_address());
    let h2 = Client::over_http2(&url).with_key(ALICE);
    for takes in [
        None,
        Some("gzip"),
        Some("identity"),
        Some("gzip;q=1, *;q=0"),
    ] {
        for (what, answer, code) in bodies() {
            for (version, client) in [("1.1", &alice), ("2", &h2)] {
                let what = format!("{what}, for {takes:?} over HTTP/{version}");
                let add = |envelope: Envelope, takes| envelope.header("accept-encoding", takes);
                let envelope = takes.into_iter().fold(call(), add);
                stack.upstream.enqueue("tools/call", answer.clone());
                let reply = client.send(&envelope).await.unwrap();
                assert_framed(&what, &reply);
                assert_eq!(reply.header("content-type"), Some(JSON), "{what}");
                assert_eq!(reply.error_code().ok(), code, "{what}");
                if code.is_none() {
                    assert_eq!(reply.body, DONE, "{what}");
                }
            }
        }
    }
    let seen = stack.upstream.seen();
    let plain = |name| move |seen: &Seen| seen.header(name) == Some("identity");
    assert!(seen.iter().all(plain("accept-encoding")), "asked for plain");
}

/// The same answers to a client that reads to the byte: the next one begins where the last one ends.
#[tokio::test]
async fn answers_on_one_connection_begin_where_the_last_one_ended() {
    let (stack, _) = start().await;
    let mut raw = Raw::connect(stack.gateway.mcp_address()).await.unwrap();
    let good = request(&call(), ALICE, "", &call().body());
    let head = format!("HEAD {PATH} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {ALICE}\r\n\r\n");
    let note = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    let note = request(&call(), ALICE, "", note.as_bytes());
    for (what, answer, code) in bodies() {
        stack.upstream.enqueue("tools/call", answer);
        raw.say(&[head.as_bytes(), &good, &note].concat())
            .await
            .unwrap();
        let said = raw.answer_to_head().await.unwrap();
        assert_eq!(said.status, 405, "{what}");
        assert!(said.length().unwrap().is_none_or(|length| length == 0));
        let said = raw.answer().await.unwrap();
        assert_eq!(said.status, 200, "{what}: {}", said.body);
        assert_eq!(said.error().ok().map(|(code, _)| code), code, "{what}");
        let said = raw.answer().await.unwrap();
        assert_eq!(
            (said.status, said.length().unwrap()),
            (202, Some(0)),
            "{what}"
        );
        assert_eq!(said.header("content-type").unwrap(), None, "{what}");
    }
}

/// Whatever has no body says so, in both versions of HTTP.
#[tokio::test]
async fn what_has_no_body_is_framed_as_having_none() {
    let (stack, alice) = start().await;
    let url = format!("http://{}{PATH}", stack.gateway.mcp_address());
    let h2 = Client::over_http2(&url).with_key(ALICE);
    for (version, client) in [("1.1", &alice), ("2", &h2)] {
        for method in [Method::HEAD, Method::GET, Method::DELETE, Method::PUT] {
            let reply = client.bare(method.clone()).await.unwrap();
            let what = format!("{method} over HTTP/{version}: {reply:?}");
            assert_eq!(reply.status, 405, "{what}");
            assert_eq!(reply.header("allow"), Some("POST"), "{what}");
            assert!(!reply.headers.contains_key("content-encoding"), "{what}");
            if method != Method::HEAD {
                assert_framed(&what, &reply);
            }
        }
        let note = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        let reply = client.post(call().headers(), note.into()).await.unwrap();
        assert_eq!((reply.status.as_u16(), reply.body.len()), (202, 0));
        assert_framed(version, &reply);
        // A stream has no length, and is complete.
        let body = [sse::event(&progress(1)), sse::event(DONE)].concat();
        let length = body.len().to_string();
        let answer = stream(body).header("content-length", &length);
        stack.upstream.enqueue("tools/call", answer);
        let reply = client.send(&curious()).await.unwrap();
        assert_eq!(reply.header("content-length"), None);
        let events = sse::events(std::str::from_utf8(&reply.body).unwrap());
        assert_eq!(events, [progress(1), DONE.to_owned()]);
    }
}
