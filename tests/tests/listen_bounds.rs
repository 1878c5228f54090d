//! How long a subscription lasts: until it is old, or until its client takes nothing any more.

#![cfg(test)]

use hangar_tests::envelope::Envelope;
use hangar_tests::gateway::Gateway;
use hangar_tests::open::Open;
use hangar_tests::raw::{Raw, h2_request};
use hangar_tests::scripted::Feed;
use hangar_tests::stack::{ALICE, BOB, CAROL, Stack};
use hangar_tests::wait;
use serde_json::{Value, json};

const STREAMS: &str = "hangar_listen_streams";
const CUT: &str = "hangar_connections_cut_total";
const PATH: &str = "/mcp/default/reports";
/// HTTP/2 settings: a window of no bytes, so that no answer can leave.
const SHUT: [u8; 6] = [0, 4, 0, 0, 0, 0];

fn granted() -> Value {
    json!({"toolsListChanged": true, "resourceSubscriptions": ["x://a"]})
}

fn listen() -> Envelope {
    Envelope::new("subscriptions/listen", json!({"notifications": granted()}))
}

async fn open(gateway: &Gateway, key: &str) -> Open {
    let open = Open::send(gateway.mcp_address(), PATH, key, &listen()).await;
    open.unwrap()
}

async fn streams(gateway: &Gateway, wanted: u64) {
    wait::eventually(STREAMS, async || {
        wait::same(&gateway.scrape().await?.count(STREAMS, &[])?, &wanted)
    })
    .await
    .unwrap();
}

/// Far more than sockets and queues between hold: 15 MB.
fn too_much() -> Vec<Value> {
    let filler = "x".repeat(60_000);
    let update = |n| {
        json!({
            "jsonrpc": "2.0", "method": "notifications/resources/updated",
            "params": {"uri": "x://a", "n": n, "x": filler},
        })
    };
    (0..250).map(update).collect()
}

/// A client that listens over HTTP/2, answers pings and takes no byte of any answer.
async fn shut(gateway: &Gateway) -> Raw {
    let mut raw = Raw::connect_h2(gateway.mcp_address(), &SHUT).await.unwrap();
    raw.say(&h2_request(1, &listen(), BOB)).await.unwrap();
    raw
}

/// Clients that take nothing kept their place, and what was queued for them, as long as they liked.
#[tokio::test]
async fn a_listener_that_takes_nothing_is_let_go_and_no_other() {
    let stack = Stack::start().await.unwrap();
    // No socket is cut in this test: it is the stream that ends.
    let flags = ["--stall-timeout", "1", "--send-timeout", "3600"];
    let gateway = stack.another(&flags).await.unwrap();
    let feed = Feed::script(&stack.upstream, &granted(), &too_much());
    let mut stalled = open(&gateway, ALICE).await;
    stalled.events(1).await.unwrap();
    let _shut = shut(&gateway).await;
    streams(&gateway, 2).await;
    feed.open_all();
    let mut reads = open(&gateway, CAROL).await;
    reads.until(r#""n":249"#).await.unwrap();
    streams(&gateway, 1).await;
    feed.gone().await.unwrap();
    let cut = gateway.scrape().await.unwrap().count(CUT, &[]).unwrap();
    assert_eq!(cut, 0, "no connection was");
    // Who reads listens on, to the end.
    feed.end();
    let events = reads.to_end().await.unwrap();
    assert_eq!(events.len(), 252);
    streams(&gateway, 0).await;
}

/// Where the socket itself stands still it is cut, and the upstream's stream goes with it.
#[tokio::test]
async fn a_listener_whose_socket_stands_still_is_cut_off() {
    let stack = Stack::start().await.unwrap();
    let flags = ["--stall-timeout", "3600", "--send-timeout", "1"];
    let gateway = stack.another(&flags).await.unwrap();
    let feed = Feed::script(&stack.upstream, &granted(), &too_much());
    let mut stalled = open(&gateway, ALICE).await;
    stalled.events(1).await.unwrap();
    feed.open_all();
    let labels = [("reason", "timeout")];
    gateway.metric(CUT, &labels, 1.0).await.unwrap();
    streams(&gateway, 0).await;
    feed.gone().await.unwrap();
}

/// Silence is no stall: a client with nothing to take is let be, and its place is freed when the
/// stream is old. It is told so, and listens anew.
#[tokio::test]
async fn a_subscription_that_is_old_ends_with_its_result_and_its_client_listens_anew() {
    let stack = Stack::start().await.unwrap();
    let gateway = stack.another(&["--listen-timeout", "2", "--stall-timeout", "1"]);
    let mut gateway = gateway.await.unwrap();
    let feed = Feed::script(&stack.upstream, &granted(), &[]);
    for round in 1..=2 {
        let mut stream = open(&gateway, ALICE).await;
        stream.events(1).await.unwrap();
        streams(&gateway, 1).await;
        let events = stream.to_end().await.unwrap();
        assert_eq!(events.len(), 2, "{events:?}");
        assert_eq!(events[1]["id"], json!(1));
        assert_eq!(events[1]["result"]["resultType"], "complete");
        streams(&gateway, 0).await;
        wait::eventually("the upstream's stream", async || {
            wait::same(&stack.upstream.count("subscriptions/listen"), &round)
        })
        .await
        .unwrap();
    }
    feed.gone().await.unwrap();
    let ended = gateway.process().message("listening ended").await.unwrap();
    assert_eq!(ended["why"], "old", "{ended}");
}
