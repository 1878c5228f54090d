//! What went wrong in the field when a gateway was told to end. Each test begins with the story.

#![cfg(test)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use hangar_tests::chain;
use hangar_tests::client::{self, Client};
use hangar_tests::envelope::Envelope;
use hangar_tests::gateway::{Gateway, Setup};
use hangar_tests::open::Open;
use hangar_tests::process::Signal;
use hangar_tests::raw::{DATA, Frame, GOAWAY, Raw, h2_request, request};
use hangar_tests::scripted::{Answer, Feed, Gate};
use hangar_tests::stack::{ALICE, BOB, Stack};
use hangar_tests::wait;
use serde_json::{Value, json};
use tokio::task::JoinSet;

const PATH: &str = "/mcp/default/reports";
const NOT_READY: i64 = -31012;
const LISTENERS: usize = 200;
/// Callers that call again and again.
const CALLERS: usize = 8;
/// Calls whose upstream has answered half when the gateway is told to end.
const HALFWAY: usize = 10;
const HELD_ID: &str = "halfway";

/// Task ids that clients were given.
#[derive(Clone, Default)]
struct Given(Arc<Mutex<Vec<String>>>);

// === impl Given ===

impl Given {
    fn add(&self, id: String) {
        self.0.lock().unwrap().push(id);
    }

    fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

/// Makes tasks until the first call that is not answered with one, which must say to try again.
async fn call_until_refused(client: Client, given: Given, is_ending: Arc<AtomicBool>) {
    loop {
        let call = Envelope::call("slow", json!({}));
        let Ok(reply) = client.send(&call).await else {
            // The connection was closed before the request was taken.
            assert!(is_ending.load(Ordering::SeqCst), "no answer before the end");
            return;
        };
        if reply.status == 503 {
            assert!(is_ending.load(Ordering::SeqCst), "refused before the end");
            assert_eq!(reply.error_code().unwrap(), NOT_READY);
            assert_eq!(reply.header("retry-after"), Some("1"));
            return;
        }
        let result = reply.result().unwrap();
        given.add(result["taskId"].as_str().unwrap().to_owned());
    }
}

async fn listen_all(gateway: &Gateway, granted: &Value) -> Vec<Open> {
    let listen = Envelope::new("subscriptions/listen", json!({"notifications": granted}));
    let mut streams = Vec::new();
    for _ in 0..LISTENERS {
        let open = Open::send(gateway.mcp_address(), PATH, BOB, &listen).await;
        let mut open = open.unwrap();
        open.events(1).await.unwrap();
        streams.push(open);
    }
    streams
}

/// Calls with these ids whose answers are held: the upstream has made the tasks.
fn script_held(stack: &Stack, halfway: &Gate, never: &Gate) {
    let (halfway, never) = (halfway.clone(), never.clone());
    stack.upstream.script("tools/call", move |seen| {
        let id = seen.message()["id"].clone();
        match id.as_str() {
            Some("never") => Answer::built_in().held(&never),
            Some(HELD_ID) => Answer::built_in().held(&halfway),
            _ => Answer::built_in(),
        }
    });
}

async fn tell_to_end(gateway: &mut Gateway) {
    gateway.process().signal(Signal::Terminate).unwrap();
    gateway.process().message("draining").await.unwrap();
    wait::eventually("not ready", async || {
        wait::same(&gateway.readyz().await?.status.as_u16(), &503)
    })
    .await
    .unwrap();
}

/// New work is refused on a new connection, with a word on when to try again.
async fn assert_refused(gateway: &Gateway) {
    let mut raw = Raw::connect(gateway.mcp_address()).await.unwrap();
    let call = Envelope::call("echo", json!({"text": "late"}));
    raw.say(&request(&call, ALICE, "", &call.body()))
        .await
        .unwrap();
    let said = raw.answer().await.unwrap();
    assert_eq!(said.status, 503, "{}", said.body);
    assert_eq!(said.error().unwrap(), (NOT_READY, "not_ready".to_owned()));
    assert_eq!(said.header("retry-after").unwrap(), Some("1"));
    assert_eq!(said.header("connection").unwrap(), Some("close"));
    assert_eq!(raw.rest().await.unwrap(), "", "and the connection ends");
}

/// Each handle that was given out is in the ledger, on a chain that verifies.
async fn assert_kept(stack: &Stack, gateway: &Gateway, setup: &Setup, given: &[String]) {
    let alice = gateway.client_of("default", "reports").with_key(ALICE);
    let export = chain::export(&setup.store_file(), stack.folder())
        .await
        .unwrap();
    let born = |id: &&String| {
        let events = chain::of_task(&export, id).unwrap();
        events.first().is_some_and(|first| first == "TaskCreated")
    };
    assert_eq!(given.iter().filter(born).count(), given.len());
    // Asking for all of them would only take long.
    let step = given.len().div_ceil(50);
    for id in given.iter().step_by(step).chain(given.last()) {
        let got = alice.get(id).await.unwrap().result().unwrap();
        assert_eq!(got["status"], "working", "{id}");
    }
}

/// A gateway ignored SIGTERM; later it minded it, and streams that last held it past its grace, so
/// that it was killed with handles given out and the last minutes unseen.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn told_to_end_it_refuses_new_work_lets_go_in_time_and_loses_no_handle() {
    let stack = Stack::start().await.unwrap();
    let mut gateway = stack.another(&["--drain-timeout", "10"]).await.unwrap();
    let setup = Setup {
        state: gateway.state().to_owned(),
        ..stack.setup()
    };
    let granted = json!({"toolsListChanged": true});
    let feed = Feed::script(&stack.upstream, &granted, &[]);
    let (halfway, never) = (Gate::new(), Gate::new());
    script_held(&stack, &halfway, &never);
    let streams = listen_all(&gateway, &granted).await;
    let (given, is_ending) = (Given::default(), Arc::new(AtomicBool::new(false)));
    let alice = gateway.client_of("default", "reports").with_key(ALICE);
    let mut held = JoinSet::new();
    for id in std::iter::repeat_n(HELD_ID, HALFWAY).chain(["never"]) {
        let (alice, call) = (alice.clone(), Envelope::call("slow", json!({})));
        held.spawn(async move { (id, alice.send(&call.id(json!(id))).await) });
    }
    halfway.reached(HALFWAY).await.unwrap();
    never.reached(1).await.unwrap();
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        let given = given.clone();
        callers.spawn(call_until_refused(
            alice.clone(),
            given,
            Arc::clone(&is_ending),
        ));
    }
    wait::eventually("a load of calls", async || {
        let count = given.all().len();
        anyhow::ensure!(count >= 200, "{count}");
        Ok(())
    })
    .await
    .unwrap();

    is_ending.store(true, Ordering::SeqCst);
    tell_to_end(&mut gateway).await;
    assert_refused(&gateway).await;
    callers.join_all().await;
    for mut stream in streams {
        let events = stream.to_end().await.unwrap();
        assert_eq!(events.len(), 2, "acknowledged, and ended in order");
        assert_eq!(events[1]["result"]["resultType"], "complete");
    }
    feed.gone().await.unwrap();
    // What was begun before is answered, and its handles are durable before they are given out.
    halfway.open();
    for _ in 0..HALFWAY {
        let (id, reply) = held.join_next().await.unwrap().unwrap();
        assert_eq!(id, HELD_ID);
        let result = reply.unwrap().result().unwrap();
        given.add(result["taskId"].as_str().unwrap().to_owned());
    }
    let given = given.all();
    assert_window(&gateway, given.len()).await;
    // One upstream never closes. The end comes all the same, by itself and in order.
    let late = "requests in flight did not end in time";
    gateway.process().message(late).await.unwrap();
    let status = gateway.process().end(wait::PATIENCE).await.unwrap();
    assert!(status.success(), "{status}");
    let (_, reply) = held.join_next().await.unwrap().unwrap();
    assert!(reply.is_err(), "nobody was told that it went well");

    gateway.start_again().await.unwrap();
    gateway.ready().await.unwrap();
    assert_kept(&stack, &gateway, &setup, &given).await;
}

/// The drain itself is in the metrics, which are served until the end.
async fn assert_window(gateway: &Gateway, given: usize) {
    let scrape = gateway.scrape().await.unwrap();
    let sum = |name: &str, labels: &[(&str, &str)]| scrape.count(name, labels).unwrap();
    let refused = sum("hangar_refused_requests_total", &[("reason", "not_ready")]);
    assert!(refused >= 1, "{refused}");
    let relayed = sum("hangar_tasks_relayed_total", &[("tenant", "acme")]);
    let given = u64::try_from(given).unwrap();
    assert_eq!(relayed, given, "what was given out is what was counted");
    assert_eq!(sum("hangar_listen_streams", &[]), 0);
    assert_eq!(
        sum("hangar_inflight_requests", &[]),
        1,
        "the one that hangs"
    );
    let ready = client::get(&format!("http://{}/readyz", gateway.metrics_address())).await;
    let ready = ready.unwrap();
    assert_eq!(
        (ready.status.as_u16(), &ready.body[..]),
        (503, &b"draining\n"[..])
    );
}

/// With nothing in flight there is nothing to wait for, however long the grace is.
#[tokio::test]
async fn told_to_end_with_nothing_in_flight_it_ends() {
    let stack = Stack::start().await.unwrap();
    let mut gateway = stack.another(&["--drain-timeout", "3600"]).await.unwrap();
    let alice = gateway.client_of("default", "reports").with_key(ALICE);
    alice.start_task("slow", json!({})).await.unwrap();
    let mut silent = Raw::connect(gateway.mcp_address()).await.unwrap();
    let granted = json!({"toolsListChanged": true});
    let _feed = Feed::script(&stack.upstream, &granted, &[]);
    let listen = Envelope::new("subscriptions/listen", json!({"notifications": granted}));
    let address = gateway.mcp_address().to_owned();
    let mut open = Open::send(&address, PATH, BOB, &listen).await.unwrap();
    open.events(1).await.unwrap();
    let status = gateway.process().terminate(wait::PATIENCE).await.unwrap();
    assert!(status.success(), "{status}");
    assert_eq!(open.to_end().await.unwrap().len(), 2);
    assert_eq!(silent.rest().await.unwrap(), "");
}

/// A call on this stream of an HTTP/2 connection.
fn on_stream(stream: u32, id: &str) -> Vec<u8> {
    let call = Envelope::call("slow", json!({})).id(json!(id));
    h2_request(stream, &call, ALICE)
}

/// Text of a stream's next data.
async fn data_of(raw: &mut Raw, stream: u32) -> String {
    let is_data =
        |frame: &Frame| frame.kind == DATA && frame.stream == stream && !frame.payload.is_empty();
    let data = raw.frame_until(is_data).await.unwrap().expect("closed");
    String::from_utf8(data.payload).unwrap()
}

/// Over HTTP/2 one connection carries the new and the old: it is told to go away without an error,
/// what is new is refused, and what was begun is answered.
#[tokio::test]
async fn over_http2_the_end_is_announced_and_what_was_begun_is_answered() {
    let stack = Stack::start().await.unwrap();
    let mut gateway = stack.another(&["--drain-timeout", "3600"]).await.unwrap();
    let (halfway, never) = (Gate::new(), Gate::new());
    script_held(&stack, &halfway, &never);
    let mut raw = Raw::connect_h2(gateway.mcp_address(), &[]).await.unwrap();
    raw.say(&on_stream(1, HELD_ID)).await.unwrap();
    halfway.reached(1).await.unwrap();
    tell_to_end(&mut gateway).await;
    let is_goaway = |frame: &Frame| frame.kind == GOAWAY;
    let goaway = raw.frame_until(is_goaway).await.unwrap().expect("closed");
    assert_eq!(goaway.payload[4..8], [0; 4], "no error");
    raw.say(&on_stream(3, "late")).await.unwrap();
    let refused = data_of(&mut raw, 3).await;
    assert!(refused.contains(r#""reason":"not_ready""#), "{refused}");
    halfway.open();
    let given = data_of(&mut raw, 1).await;
    assert!(given.contains(r#""resultType":"task""#), "{given}");
    drop(raw);
    let status = gateway.process().end(wait::PATIENCE).await.unwrap();
    assert!(status.success(), "{status}");
    assert_eq!(
        stack.upstream.count("tools/call"),
        1,
        "nothing new was begun"
    );
}
