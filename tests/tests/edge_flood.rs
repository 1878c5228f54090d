//! Clients that send as much as they can: HTTP/2 floods, connections by the thousand, and the
//! memory that bodies at their bound take.

#![cfg(test)]

use hangar_tests::envelope::Envelope;
use hangar_tests::gateway::{Gateway, Setup};
use hangar_tests::raw::{
    self, ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PING, RST_STREAM, Raw,
    SETTINGS, frame, h2_head, h2_request, header_block,
};
use hangar_tests::scripted::{Answer, Gate};
use hangar_tests::stack::{ALICE, BOB, CAROL, Stack};
use hangar_tests::{usage, wait};
use serde_json::json;

const CONNECTIONS: &str = "hangar_connections";
const CUT: &str = "hangar_connections_cut_total";
const HELD: &str = "hangar_held_bytes";
const INFLIGHT: &str = "hangar_inflight_requests";
const REFUSED_STREAM: [u8; 4] = [0, 0, 0, 7];
/// `:status: 431` as the server packs it (RFC 7541, Huffman).
const STATUS_431: [u8; 5] = [0x48, 0x83, 0x69, 0x90, 0xff];
const MIB: u64 = 1 << 20;
/// Settings of a client without any window: no answer can leave.
const SHUT: [u8; 6] = [0, 4, 0, 0, 0, 0];

fn mk_call() -> Envelope {
    Envelope::call("echo", json!({"text": "hello"}))
}

/// The header block of a call, with these headers behind.
fn block(more: &[(&str, &str)]) -> Vec<u8> {
    h2_head(&mk_call(), ALICE, more)
}

/// A call on this stream.
fn call(stream: u32) -> Vec<u8> {
    h2_request(stream, &mk_call(), ALICE)
}

async fn h2(stack: &Stack, settings: &[u8]) -> Raw {
    Raw::connect_h2(stack.gateway.mcp_address(), settings)
        .await
        .unwrap()
}

/// The connection still answers.
async fn assert_answered(raw: &mut Raw, stream: u32) {
    raw.say(&call(stream)).await.unwrap();
    let wanted = |frame: &raw::Frame| {
        frame.kind == DATA && frame.stream == stream && !frame.payload.is_empty()
    };
    let answer = raw.frame_until(wanted).await.unwrap().expect("closed");
    let text = String::from_utf8_lossy(&answer.payload).into_owned();
    assert!(text.contains("\"result\""), "{text}");
}

async fn assert_ended(mut raw: Raw, what: &str) {
    let goaway = raw.frame_until(|frame| frame.kind == GOAWAY).await.unwrap();
    if let Some(goaway) = goaway {
        assert_ne!(
            goaway.payload[4..8],
            [0; 4],
            "{what}: no error in {goaway:?}"
        );
    }
    // What was still on its way may turn the end into a reset.
    raw.rest().await.unwrap();
}

async fn serves(stack: &Stack) {
    let reply = stack
        .client(BOB)
        .call("echo", json!({"text": "well"}))
        .await;
    reply.unwrap().result().unwrap();
}

async fn gauge(stack: &Stack, name: &str, wanted: u64) {
    wait::eventually(name, async || {
        wait::same(&stack.count(name, &[]).await?, &wanted)
    })
    .await
    .unwrap();
}

/// CVE-2023-44487.
#[tokio::test]
async fn streams_that_are_given_up_at_once_end_the_connection() {
    let stack = Stack::start().await.unwrap();
    let mut raw = h2(&stack, &[]).await;
    assert_answered(&mut raw, 1).await;
    let mut flood = Vec::new();
    for stream in (3..4003).step_by(2) {
        flood.extend(call(stream));
        flood.extend(frame(RST_STREAM, 0, stream, &[0, 0, 0, 8]));
    }
    // The server may be gone before it has read all of it.
    let _ = raw.say(&flood).await;
    assert_ended(raw, "rapid reset").await;
    stack
        .gateway
        .metric(CUT, &[("reason", "malformed")], 1.0)
        .await
        .unwrap();
    gauge(&stack, INFLIGHT, 0).await;
    gauge(&stack, HELD, 0).await;
    serves(&stack).await;
}

#[tokio::test]
async fn headers_without_an_end_end_the_connection() {
    let stack = Stack::start().await.unwrap();
    let mut raw = h2(&stack, &[]).await;
    raw.say(&frame(HEADERS, 0, 1, &block(&[]))).await.unwrap();
    let more = header_block(&[("x-more", &"x".repeat(8000))]);
    for _ in 0..4000 {
        if raw.say(&frame(CONTINUATION, 0, 1, &more)).await.is_err() {
            break;
        }
    }
    assert_ended(raw, "CONTINUATION").await;
    stack.gateway.metric(CUT, &[], 1.0).await.unwrap();
    serves(&stack).await;
}

#[tokio::test]
async fn a_huge_header_list_is_refused_alone() {
    let stack = Stack::start().await.unwrap();
    let mut raw = h2(&stack, &[]).await;
    let value = "x".repeat(9000);
    let names: Vec<_> = (0..8).map(|number| format!("x-{number}")).collect();
    let more: Vec<_> = names
        .iter()
        .map(|name| (name.as_str(), value.as_str()))
        .collect();
    let block = block(&more);
    let mut pieces = block.chunks(16_000).enumerate().peekable();
    while let Some((number, piece)) = pieces.next() {
        let kind = if number == 0 { HEADERS } else { CONTINUATION };
        let mut flags = if number == 0 { END_STREAM } else { 0 };
        if pieces.peek().is_none() {
            flags |= END_HEADERS;
        }
        raw.say(&frame(kind, flags, 1, piece)).await.unwrap();
    }
    let answer = raw
        .frame_until(|frame| frame.kind == HEADERS && frame.stream == 1)
        .await;
    let answer = answer.unwrap().expect("closed");
    assert_eq!(answer.payload[..5], STATUS_431);
    assert_answered(&mut raw, 3).await;
}

#[tokio::test]
async fn pings_and_settings_without_number_disturb_nobody() {
    let stack = Stack::start().await.unwrap();
    let mut raw = h2(&stack, &[]).await;
    for kind in [PING, SETTINGS] {
        let payload: &[u8] = if kind == PING { &[7; 8] } else { &[] };
        let flood: Vec<u8> = (0..5000).flat_map(|_| frame(kind, 0, 0, payload)).collect();
        raw.say(&flood).await.unwrap();
        serves(&stack).await;
        for _ in 0..5000 {
            let ack = raw
                .frame_until(|frame| frame.kind == kind && frame.flags == ACK)
                .await;
            ack.unwrap().expect("closed");
        }
    }
    assert_answered(&mut raw, 1).await;
}

#[tokio::test]
async fn too_many_streams_are_refused_and_the_others_go_on() {
    let stack = Stack::start().await.unwrap();
    let mut raw = h2(&stack, &[]).await;
    assert_answered(&mut raw, 1).await;
    for number in 0..129 {
        let head = frame(HEADERS, END_HEADERS, 3 + 2 * number, &block(&[]));
        raw.say(&head).await.unwrap();
    }
    let refused = raw
        .frame_until(|frame| frame.kind == RST_STREAM)
        .await
        .unwrap();
    let refused = refused.expect("closed");
    assert_eq!(
        (refused.stream, &refused.payload[..]),
        (3 + 2 * 128, &REFUSED_STREAM[..])
    );
    serves(&stack).await;
    let end = frame(DATA, END_STREAM, 3, &mk_call().body());
    raw.say(&end).await.unwrap();
    let answer = raw
        .frame_until(|frame| frame.kind == DATA && frame.stream == 3)
        .await;
    answer.unwrap().expect("closed");
    drop(raw);
    gauge(&stack, INFLIGHT, 0).await;
    gauge(&stack, HELD, 0).await;
}

/// Its window is shut, so that no answer can leave.
#[tokio::test]
async fn a_client_that_takes_no_answer_disturbs_nobody() {
    let stack = Stack::start().await.unwrap();
    let mut raw = h2(&stack, &SHUT).await;
    for number in 0..100 {
        raw.say(&call(1 + 2 * number)).await.unwrap();
    }
    stack.upstream.arrived("tools/call", 100).await.unwrap();
    for _ in 0..20 {
        serves(&stack).await;
    }
    drop(raw);
    gauge(&stack, INFLIGHT, 0).await;
    gauge(&stack, HELD, 0).await;
}

#[tokio::test]
async fn connections_by_the_thousand_disturb_nobody() {
    let stack = Stack::start().await.unwrap();
    let address = stack.gateway.mcp_address();
    let mut idle = Vec::new();
    for _ in 0..3000 {
        let mut raw = Raw::connect(address).await.unwrap();
        raw.say(b"POST /mcp HTTP/1.1\r\n").await.unwrap();
        idle.push(raw);
        if idle.len() % 500 == 0 {
            serves(&stack).await;
        }
    }
    drop(idle);
    wait::eventually("connections gone", async || {
        let left = stack.count(CONNECTIONS, &[]).await?;
        anyhow::ensure!(left <= 1, "{left}");
        Ok(())
    })
    .await
    .unwrap();
    serves(&stack).await;
}

/// A field of one byte on the wire is a hundred in memory: what was refused must not be kept while
/// the rest of its request is waited for.
#[tokio::test]
async fn heads_of_many_small_fields_are_refused_and_not_kept() {
    const STREAMS: u32 = 128;
    let mut stack = Stack::start().await.unwrap();
    // `authorization` without a value, from the static table (RFC 7541, appendix A).
    let mut fields = header_block(&[
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "localhost"),
        (":path", "/mcp"),
    ]);
    fields.extend([0x97; 650]);
    let pid = stack.gateway.process().pid();
    usage::forget_peak(pid);
    let before = usage::peak(pid).unwrap();
    // No answer is waited for before all are sent, so that what is kept is kept together; only that
    // each connection's heads are read and looked at.
    let mut clients = Vec::new();
    for _ in 0..40 {
        let mut raw = h2(&stack, &[]).await;
        for number in 0..STREAMS {
            let head = frame(HEADERS, END_HEADERS, 1 + 2 * number, &fields);
            raw.say(&head).await.unwrap();
        }
        serves(&stack).await;
        clients.push(raw);
    }
    for raw in &mut clients {
        for number in 0..STREAMS {
            let answer = raw.frame_until(|frame| frame.kind == HEADERS).await;
            let answer = answer.unwrap().expect("closed");
            // Packed in full for the first, whichever stream's that is, and by reference after it.
            assert!(number > 0 || answer.payload[..5] == STATUS_431);
        }
    }
    let grown = usage::peak(pid).unwrap() - before;
    assert!(grown < 48 * MIB, "{} MiB more", grown / MIB);
    gauge(&stack, INFLIGHT, 0).await;
    serves(&stack).await;
}

/// A gateway of this world that holds little, and lets go of what nobody takes.
async fn mk_narrow(stack: &Stack) -> Gateway {
    let setup = Setup {
        state: stack.folder().join("edge"),
        ..stack.setup()
    };
    let flags = [
        "--max-held",
        "8Mi",
        "--max-body",
        "1Mi",
        "--send-timeout",
        "5",
    ];
    let gateway = Gateway::start(&setup, &flags).await.unwrap();
    gateway.ready().await.unwrap();
    gateway
}

async fn held(gateway: &Gateway, least: u64, most: u64) {
    wait::eventually("bytes held", async || {
        let held = gateway.scrape().await?.count(HELD, &[])?;
        anyhow::ensure!(held >= least && held <= most, "{held}");
        Ok(())
    })
    .await
    .unwrap();
}

/// One tenant whose clients took no answer held all that the pod may hold, for as long as it liked.
#[tokio::test]
async fn answers_that_nobody_takes_leave_half_to_others_and_are_let_go() {
    let stack = Stack::start().await.unwrap();
    let gateway = mk_narrow(&stack).await;
    let text = "x".repeat(usize::try_from(MIB).unwrap());
    let result = json!({"resultType": "complete", "content": [{"type": "text", "text": text}]});
    let answer = move |_: &_| Answer::result(&result);
    stack.upstream.script("tools/call", answer);
    let mut raw = Raw::connect_h2(gateway.mcp_address(), &SHUT).await.unwrap();
    for number in 0..16 {
        raw.say(&call(1 + 2 * number)).await.unwrap();
    }
    stack.upstream.arrived("tools/call", 16).await.unwrap();
    held(&gateway, 3 * MIB, 4 * MIB).await;
    // Others have the rest, and the gateway's own look at the contract has room of its own.
    let carol = gateway.client_of("default", "reports").with_key(CAROL);
    let text = json!({"text": "hello"});
    carol.call("echo", text).await.unwrap().result().unwrap();
    let dropped = "hangar_answers_dropped_total";
    gateway.metric(dropped, &[], 3.0).await.unwrap();
    held(&gateway, 0, 0).await;
    gateway.metric(INFLIGHT, &[], 0.0).await.unwrap();
}

/// A list is written anew for each client: it was not even counted.
#[tokio::test]
async fn a_list_that_nobody_takes_is_held_like_any_answer() {
    let stack = Stack::start().await.unwrap();
    let gateway = mk_narrow(&stack).await;
    let tools = [json!({"name": "wide", "inputSchema": {"type": "object"},
        "description": "y".repeat(usize::try_from(MIB).unwrap())})];
    let list = json!({"resultType": "complete", "tools": tools});
    let answer = move |_: &_| Answer::result(&list);
    stack.upstream.script("tools/list", answer);
    let lists = Envelope::new("tools/list", json!({}));
    let mut raw = Raw::connect_h2(gateway.mcp_address(), &SHUT).await.unwrap();
    raw.say(&h2_request(1, &lists, ALICE)).await.unwrap();
    // It is written by then, and what it was made of is gone.
    let begun = raw.frame_until(|frame| frame.kind == HEADERS).await;
    begun.unwrap().expect("closed");
    held(&gateway, MIB, 2 * MIB).await;
    drop(raw);
    held(&gateway, 0, 0).await;
}

/// A connection that asks nothing kept its place for as long as it answered pings.
#[tokio::test]
async fn a_connection_without_a_request_is_told_to_go() {
    let stack = Stack::start().await.unwrap();
    let setup = Setup {
        state: stack.folder().join("edge"),
        ..stack.setup()
    };
    let gateway = Gateway::start(&setup, &["--header-timeout", "1"])
        .await
        .unwrap();
    gateway.ready().await.unwrap();
    let mut raw = Raw::connect_h2(gateway.mcp_address(), &[]).await.unwrap();
    // Before it is even asked whether it is there.
    let asked_or_told = |frame: &raw::Frame| [PING, GOAWAY].contains(&frame.kind);
    let told = raw.frame_until(asked_or_told).await.unwrap();
    let told = told.expect("closed without a word");
    assert_eq!((told.kind, &told.payload[4..8]), (GOAWAY, &[0; 4][..]));
    raw.rest().await.unwrap();
}

/// The bodies of all clients are held at once, complete, while their upstream keeps them waiting.
#[tokio::test]
async fn memory_is_the_bodies_and_little_more() {
    const CLIENTS: u32 = 16;
    let stack = Stack::start().await.unwrap();
    let setup = Setup {
        state: stack.folder().join("edge"),
        ..stack.setup()
    };
    let mut gateway = Gateway::start(&setup, &["--max-body", "4Mi"])
        .await
        .unwrap();
    gateway.ready().await.unwrap();
    let gate = Gate::new();
    let held = gate.clone();
    let upstream = &stack.upstream;
    let result = json!({"resultType": "complete", "content": []});
    upstream.script("tools/call", move |_| Answer::result(&result).held(&held));
    let text = "x".repeat(usize::try_from(4 * MIB).unwrap() - 1024);
    let call = Envelope::call("echo", json!({"text": text}));
    let bytes = raw::request(&call, ALICE, "", &call.body());
    let pid = gateway.process().pid();
    usage::forget_peak(pid);
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        let mut raw = Raw::connect(gateway.mcp_address()).await.unwrap();
        raw.say(&bytes).await.unwrap();
        clients.push(raw);
    }
    let count = usize::try_from(CLIENTS).unwrap();
    upstream.arrived("tools/call", count).await.unwrap();
    let bodies = 4 * MIB * u64::from(CLIENTS);
    let scrape = gateway.scrape().await.unwrap();
    let held = scrape.count(HELD, &[]).unwrap();
    assert!(held > bodies - MIB && held <= bodies, "{held} bytes held");
    let waiting = usage::peak(pid).unwrap();
    gate.open();
    for raw in &mut clients {
        assert_eq!(raw.answer().await.unwrap().status, 200);
    }
    let (peak, most) = (usage::peak(pid).unwrap(), bodies + 32 * MIB);
    assert!(
        peak < most,
        "{} MiB of {}, {} while it waited",
        peak / MIB,
        most / MIB,
        waiting / MIB
    );
    gateway.metric(INFLIGHT, &[], 0.0).await.unwrap();
    wait::eventually("nothing held", async || {
        wait::same(&gateway.scrape().await?.count(HELD, &[])?, &0)
    })
    .await
    .unwrap();
}
