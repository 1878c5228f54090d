//! Upstreams that fail in every way that could be thought of: each way is a row, with the one outcome
//! that it must have for every method, and nothing of it is seen by anybody else.

#![cfg(test)]

use std::sync::Arc;
use std::time::Duration;

use hangar_tests::client::{Client, Reply};
use hangar_tests::envelope::Envelope;
use hangar_tests::manifests::{Manifest, mk_upstream, write};
use hangar_tests::scripted::{Answer, Framing, Gate, Seen, Upstream};
use hangar_tests::stack::{ALICE, BOB, CAROL, Stack, world};
use hangar_tests::{sse, usage, wait};
use hyper::StatusCode;
use serde_json::{Value, json};

const FAILURES: &str = "hangar_upstream_failures_total";
const EVENTS: &str = "hangar_provenance_events_total";
const AGE: &str = "hangar.dev/ageMs";
const UNAVAILABLE: i64 = -31001;
const UPSTREAM_PROTOCOL: i64 = -31008;
const OVERLOADED: i64 = -31013;
const KIB: usize = 1 << 10;
const MIB: u64 = 1 << 20;
/// What the gateway may grow by while it is sent hundreds of times its bound.
const GROWTH: u64 = 24 * MIB;
const DONE: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","content":[]}}"#;
/// What is scripted while an upstream fails in one way; contracts are known and stay so.
const METHODS: [&str; 4] = ["tools/call", "prompts/get", "tasks/get", "tasks/cancel"];
/// Requests of a row that the upstream is asked for: two calls, three polls, an update, a cancel.
const ASKED: u64 = 7;

/// One way to fail: no reply comes of it.
struct Fault {
    what: &'static str,
    does: Arc<dyn Fn(&Seen) -> Answer + Send + Sync>,
    /// For a client of a method that the ledger knows nothing of.
    code: i64,
    reason: &'static str,
}

/// An upstream `reports` that will fail, tasks on it, and one beside it, `papers`, that is well.
struct Rig {
    stack: Stack,
    alice: Client,
    bystander: Client,
    _papers: Upstream,
    working: String,
    asking: String,
    done: String,
}

fn mk_fault(what: &'static str, answer: Answer, code: i64, reason: &'static str) -> Fault {
    Fault {
        what,
        does: Arc::new(move |_| answer.clone()),
        code,
        reason,
    }
}

fn stream(body: impl Into<Vec<u8>>) -> Answer {
    Answer::raw(body).framed(Framing::Sse)
}

fn status(code: u16, body: &str) -> Answer {
    Answer::raw(body).status(StatusCode::from_u16(code).unwrap())
}

fn yes() -> Value {
    json!({"name": {"action": "accept", "content": {"name": "Ann"}}})
}

fn prompt() -> Envelope {
    Envelope::new("prompts/get", json!({"name": "greet"}))
}

/// A gzip file (RFC 1951, 3.2.6; RFC 1952) that unpacks to as many zeros, and is 150 times smaller.
fn bomb(zeros: usize) -> Vec<u8> {
    // A last block with fixed codes: a zero, then matches of 258 bytes at distance 1, then the end.
    let mut bits = vec![true, true, false];
    let code = |bits: &mut Vec<bool>, code: u32, length: u32| {
        bits.extend((0..length).rev().map(|bit| code >> bit & 1 == 1));
    };
    code(&mut bits, 0b0011_0000, 8);
    for _ in 0..zeros / 258 {
        code(&mut bits, 0b1100_0101, 8);
        code(&mut bits, 0, 5);
    }
    code(&mut bits, 0, 7);
    let byte = |bits: &[bool]| {
        bits.iter()
            .rev()
            .fold(0, |byte, bit| byte << 1 | u8::from(*bit))
    };
    let mut file = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    file.extend(bits.chunks(8).map(byte));
    file.extend([0; 8]);
    file
}

/// Connections that break, and statuses.
fn broken() -> Vec<Fault> {
    let fault = |what, answer, reason| mk_fault(what, answer, UNAVAILABLE, reason);
    let html = "<html><body>Bad gateway</body></html>";
    let cut = DONE.len() / 2;
    vec![
        fault("closes without a word", Answer::hang_up(), "broken"),
        fault(
            "closes in mid-body",
            Answer::raw(DONE).cut_at(cut),
            "broken",
        ),
        fault(
            "closes before the length it stated",
            Answer::raw(DONE).header("content-length", "1000"),
            "broken",
        ),
        fault(
            "closes in mid-event",
            stream(sse::event(DONE)).cut_at(cut),
            "broken",
        ),
        fault("500 and nothing", status(500, ""), "http_status"),
        fault("502 and HTML", status(502, html), "http_status"),
        fault(
            "503 and JSON of its own",
            status(503, r#"{"error":"down"}"#),
            "http_status",
        ),
        fault(
            "504 and half a reply",
            status(504, &DONE[..cut]),
            "http_status",
        ),
        fault("401 and HTML", status(401, html), "http_status"),
        fault(
            "500 and the reply to another request",
            status(500, &DONE.replace("\"id\":1", "\"id\":2")),
            "http_status",
        ),
        fault("429", status(429, html), "throttled"),
    ]
}

/// Bodies that are no reply to the request.
fn garbled() -> Vec<Fault> {
    let fault = |what, answer, reason| mk_fault(what, answer, UPSTREAM_PROTOCOL, reason);
    let raw = |text: &str| Answer::raw(text);
    let other = DONE.replace("\"id\":1", "\"id\":2");
    let result = r#""result":{"resultType":"complete","content":[]}"#;
    let mut latin = DONE.as_bytes().to_vec();
    latin.splice(latin.len() - 4..latin.len() - 4, *b"\"\xe9\"");
    let question = r#"{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{}}"#;
    let doubled = DONE.replace(result, &format!("{result},{result}"));
    let lookalike = DONE.replace(result, &format!("{result},\"Result\":{{}}"));
    let escaped = DONE.replace(result, &format!("{result},\"resul\\u0074\":{{}}"));
    vec![
        fault("HTML under 200", raw("<html></html>"), "syntax"),
        fault("nothing under 200", raw(""), "syntax"),
        fault("202 and nothing", status(202, ""), "syntax"),
        fault("half a reply", raw(&DONE[..20]), "syntax"),
        fault("two replies", raw(&format!("{DONE}\n{DONE}")), "syntax"),
        fault("a batch of two", raw(&format!("[{DONE},{DONE}]")), "batch"),
        fault("another's reply", raw(&other), "foreign_id"),
        fault(
            "another's reply on a stream",
            stream(sse::event(&other)),
            "foreign_id",
        ),
        fault(
            "a reply to nobody",
            raw(&DONE.replace("\"id\":1,", "")),
            "foreign_id",
        ),
        fault("invalid UTF-8", Answer::raw(latin.clone()), "not_utf8"),
        fault(
            "invalid UTF-8 on a stream",
            stream([b"data: ", &*latin, b"\n\n"].concat()),
            "not_utf8",
        ),
        fault("a key twice", raw(&doubled), "duplicate_key"),
        fault("a key twice, once escaped", raw(&escaped), "duplicate_key"),
        fault("a key in two cases", raw(&lookalike), "lookalike_key"),
        fault(
            "JSON-RPC 1.0",
            raw(&DONE.replace("2.0", "1.0")),
            "jsonrpc_version",
        ),
        fault(
            "no outcome",
            raw(r#"{"jsonrpc":"2.0","id":1}"#),
            "no_outcome",
        ),
        fault(
            "an outcome that is none",
            raw(r#"{"jsonrpc":"2.0","id":1,"result":7}"#),
            "no_outcome",
        ),
        fault("a request for a reply", raw(question), "mixed"),
        fault(
            "a request on the stream",
            stream([sse::event(question), sse::event(DONE)].concat()),
            "mixed",
        ),
        fault("a stream that ends at once", stream(""), "stream_ended"),
        fault(
            "a stream of nothing but comments",
            stream(": hello\n\n"),
            "stream_ended",
        ),
        fault(
            "a redirect",
            status(307, "").header("location", "http://127.0.0.1:1/mcp"),
            "redirect",
        ),
    ]
}

/// Bodies that would fill the memory of one who takes them.
fn huge() -> Vec<Fault> {
    let fault = |what, answer, reason| mk_fault(what, answer, UPSTREAM_PROTOCOL, reason);
    let sixty_four = (64 * MIB).to_string();
    let filler = "x".repeat(64 * KIB);
    let event = sse::event(r#"{"jsonrpc":"2.0","method":"notifications/message","params":{}}"#);
    let gzip = bomb(64 << 20);
    assert!(gzip.len() < 512 * KIB, "{}", gzip.len());
    vec![
        fault(
            "64 MB, as stated",
            Answer::raw(&DONE[..40])
                .header("content-length", &sixty_four)
                .repeating(&filler),
            "too_large",
        ),
        fault(
            "bytes without end",
            Answer::raw(&DONE[..40]).repeating(&filler),
            "too_large",
        ),
        fault(
            "white space without end",
            Answer::raw("").repeating(&" ".repeat(64 * KIB)),
            "too_large",
        ),
        fault(
            "an event without end",
            stream("data: ").repeating(&filler),
            "event_too_large",
        ),
        fault(
            "notifications without end",
            stream("").repeating(&event.repeat(100)),
            "too_large",
        ),
        fault(
            "comments without end",
            stream("").repeating(&": hello\n".repeat(1000)),
            "too_much_junk",
        ),
        fault(
            "events of junk without end",
            stream("").repeating(&"data: x\n\n".repeat(1000)),
            "too_much_junk",
        ),
        fault(
            "a gzip bomb",
            Answer::raw(gzip.clone()).header("content-encoding", "gzip"),
            "compressed",
        ),
        fault(
            "a gzip bomb that does not say so",
            Answer::raw(gzip.clone()),
            "not_utf8",
        ),
        fault(
            "a gzip bomb on a stream",
            stream(gzip).header("content-encoding", "gzip"),
            "compressed",
        ),
    ]
}

/// Upstreams that take their time. What nobody opens is never said.
fn slow() -> Vec<Fault> {
    let fault = |what, answer, reason| mk_fault(what, answer, UNAVAILABLE, reason);
    let drip = Duration::from_millis(250);
    vec![
        fault(
            "never answers",
            Answer::raw(DONE).held(&Gate::new()),
            "timeout",
        ),
        fault(
            "stops in mid-body",
            Answer::raw(DONE).held_at(30, &Gate::new()),
            "timeout",
        ),
        fault(
            "a byte now and then",
            Answer::raw(DONE).dripping(drip),
            "timeout",
        ),
        fault(
            "a byte of an event now and then",
            stream(sse::event(DONE)).dripping(drip),
            "timeout",
        ),
        fault(
            "a stream without a word",
            stream("").held_at(0, &Gate::new()),
            "timeout",
        ),
        fault(
            "a sign of life now and then",
            stream(":\n".repeat(1000)).dripping(drip),
            "timeout",
        ),
    ]
}

// === impl Rig ===

impl Rig {
    async fn start(timeout: &'static str) -> Self {
        let limits =
            json!({"requestTimeout": timeout, "maxResponseBytes": "1Mi", "maxConcurrent": 32});
        Self::start_with(|object| match object.value()["kind"].as_str() {
            Some("McpUpstream") => object.set("/spec/limits", limits.clone()),
            _ => object,
        })
        .await
    }

    async fn start_with(edit: impl Fn(Manifest) -> Manifest) -> Self {
        let stack = Stack::start().await.unwrap();
        let papers = Upstream::start().await.unwrap();
        let granted = |object: Manifest| match object.value()["kind"].as_str() {
            Some("TenantPolicy") => object.grants_with_consent("papers"),
            _ => object,
        };
        let mut objects: Vec<_> = world(&stack.upstream.url())
            .into_iter()
            .map(|object| granted(edit(object)))
            .collect();
        objects.push(mk_upstream("papers", &papers.url()));
        write(&stack.manifests(), "world.yaml", &objects).unwrap();
        let bystander = stack.gateway.client_of("default", "papers").with_key(CAROL);
        wait::eventually("papers served", async || {
            bystander.list_tools().await?.result()
        })
        .await
        .unwrap();
        let alice = stack.client(ALICE);
        let start = async |tool: &str| alice.start_task(tool, json!({})).await.unwrap();
        let (working, asking, done) =
            (start("slow").await, start("ask").await, start("slow").await);
        alice.until(&working, "working").await.unwrap();
        alice.until(&asking, "input_required").await.unwrap();
        stack.upstream.complete(&done, "done").unwrap();
        alice.until(&done, "completed").await.unwrap();
        Self {
            alice,
            bystander,
            _papers: papers,
            working,
            asking,
            done,
            stack,
        }
    }

    fn script(&self, methods: &[&str], fault: &Fault) {
        for method in methods {
            let does = Arc::clone(&fault.does);
            self.stack.upstream.script(method, move |seen| does(seen));
        }
    }

    fn unscript(&self) {
        for method in METHODS.into_iter().chain(["tasks/update", "tools/list"]) {
            self.stack.upstream.unscript(method);
        }
    }

    /// Failures of this reason, and of any.
    async fn failures(&self, reason: &str) -> [u64; 2] {
        let scrape = self.stack.gateway.scrape().await.unwrap();
        let of = |labels: &[(&str, &str)]| scrape.count(FAILURES, labels).unwrap();
        let reports = ("upstream", "default/reports");
        [of(&[reports, ("reason", reason)]), of(&[])]
    }

    /// Waits until so many failures of this reason came on top, and none of another.
    async fn counted(&self, fault: &Fault, before: [u64; 2], more: u64) {
        wait::eventually(fault.what, async || {
            let now = self.failures(fault.reason).await;
            wait::same(&now, &before.map(|count| count + more))
        })
        .await
        .unwrap();
    }

    async fn call(&self) -> Reply {
        self.alice
            .call("echo", json!({"text": "hi"}))
            .await
            .unwrap()
    }

    async fn get(&self, task: &str) -> Reply {
        self.alice.get(task).await.unwrap()
    }

    async fn accept(&self, task: &str) -> Reply {
        let update = Envelope::update(task, &yes());
        self.alice.send(&update).await.unwrap()
    }

    /// Another upstream answers while this one was asked and fails.
    async fn disturbs_nobody(&self, calls: usize) {
        self.stack
            .upstream
            .arrived("tools/call", calls + 1)
            .await
            .unwrap();
        let reply = self
            .bystander
            .call("echo", json!({"text": "well"}))
            .await
            .unwrap();
        assert_eq!(reply.result().unwrap()["content"][0]["text"], "well");
    }
}

/// The status in the `data` of an `unavailable`.
fn unavailable(reply: &Reply) -> Value {
    let message = reply.message().unwrap();
    assert_eq!(message["error"]["code"], UNAVAILABLE, "{message}");
    message["error"]["data"]["status"].clone()
}

/// Whatever is asked meanwhile: a bounded answer of the right kind, counted, and nothing else.
async fn assert_fails(rig: &Rig, fault: &Fault) {
    let what = fault.what;
    let before = rig.failures(fault.reason).await;
    let calls = rig.stack.upstream.count("tools/call");
    rig.script(&METHODS, fault);
    let (call, prompt, working, asking, done, update, cancel, ()) = tokio::join!(
        rig.call(),
        async { rig.alice.send(&prompt()).await.unwrap() },
        rig.get(&rig.working),
        rig.get(&rig.asking),
        rig.get(&rig.done),
        rig.accept(&rig.asking),
        async { rig.alice.cancel(&rig.working).await.unwrap() },
        rig.disturbs_nobody(calls),
    );
    for reply in [call, prompt] {
        assert_eq!(reply.error_code().unwrap(), fault.code, "{what}: {reply:?}");
    }
    let working = working.result().unwrap();
    assert_eq!(working["status"], "working", "{what}");
    assert!(working["_meta"][AGE].is_u64(), "{what}: {working}");
    assert_eq!(unavailable(&asking), "input_required", "{what}");
    assert_eq!(unavailable(&done), "completed", "{what}");
    assert_eq!(unavailable(&update), "input_required", "{what}");
    assert_eq!(cancel.result().unwrap()["resultType"], "complete", "{what}");
    rig.counted(fault, before, ASKED).await;
    assert_eq!(rig.stack.upstream.count("tasks/update"), 0, "{what}");
    rig.unscript();
}

/// An answer on its way to such an upstream is a yes that is told once, however often it is sent.
async fn assert_settled(rig: &Rig, fault: &Fault) -> String {
    let what = fault.what;
    let task = rig.alice.start_task("ask", json!({})).await.unwrap();
    rig.alice.until(&task, "input_required").await.unwrap();
    let before = rig.failures(fault.reason).await;
    let events = rig.stack.count(EVENTS, &[]).await.unwrap();
    rig.script(&["tasks/update"], fault);
    let reply = rig.accept(&task).await;
    assert_eq!(reply.error_code().unwrap(), fault.code, "{what}");
    rig.counted(fault, before, 1).await;
    assert_eq!(
        rig.stack.count(EVENTS, &[]).await.unwrap(),
        events,
        "{what}"
    );
    rig.unscript();
    rig.alice.until(&task, "input_required").await.unwrap();
    rig.accept(&task).await.result().unwrap();
    rig.alice.until(&task, "completed").await.unwrap();
    task
}

/// All rows, and what is left of them: three tasks as they were, and the gateway no larger.
async fn assert_all_fail(timeout: &'static str, faults: &[Fault]) {
    let mut rig = Rig::start(timeout).await;
    let pid = rig.stack.gateway.process().pid();
    let events = rig.stack.count(EVENTS, &[]).await.unwrap();
    usage::forget_peak(pid);
    let before = usage::peak(pid).unwrap();
    for fault in faults {
        assert_fails(&rig, fault).await;
    }
    assert_eq!(rig.stack.count(EVENTS, &[]).await.unwrap(), events);
    let mut answered = Vec::new();
    for fault in faults {
        answered.push(assert_settled(&rig, fault).await);
    }
    let grown = usage::peak(pid).unwrap().saturating_sub(before);
    assert!(grown < GROWTH, "{} MiB", grown / MIB);
    // As if nothing had been.
    rig.call().await.result().unwrap();
    rig.alice.until(&rig.working, "working").await.unwrap();
    rig.alice.until(&rig.done, "completed").await.unwrap();
    rig.accept(&rig.asking).await.result().unwrap();
    rig.alice.until(&rig.asking, "completed").await.unwrap();
    answered.push(rig.asking.clone());
    let export = rig.stack.export().await.unwrap();
    let of = |task: &str| hangar_tests::chain::of_task(&export, task).unwrap();
    assert_eq!(of(&rig.working), ["TaskCreated"]);
    assert_eq!(of(&rig.done), ["TaskCreated", "TaskCompleted"]);
    let expected = ["TaskCreated", "TaskConsentDecided(accept)", "TaskCompleted"];
    for task in answered {
        assert_eq!(of(&task), expected);
    }
    assert_eq!(rig.stack.count("hangar_held_bytes", &[]).await.unwrap(), 0);
}

#[tokio::test]
async fn a_connection_that_breaks_and_a_status_without_a_reply_change_nothing() {
    assert_all_fail("30s", &broken()).await;
}

#[tokio::test]
async fn what_is_no_reply_is_refused_by_reason_and_changes_nothing() {
    assert_all_fail("30s", &garbled()).await;
}

#[tokio::test]
async fn what_is_larger_than_its_bound_is_not_kept() {
    assert_all_fail("30s", &huge()).await;
}

#[tokio::test]
async fn what_takes_too_long_is_given_up() {
    assert_all_fail("2s", &slow()).await;
}

/// The first reply on a stream is the reply; whatever follows, also without end, is for nobody.
#[tokio::test]
async fn what_follows_a_reply_is_not_read() {
    let rig = Rig::start("30s").await;
    let other = sse::event(&DONE.replace("[]", r#"[{"type":"text","text":"second"}]"#));
    let question = r#"{"jsonrpc":"2.0","id":1,"method":"roots/list"}"#;
    for (what, answer) in [
        (
            "another reply",
            stream([sse::event(DONE), other.clone()].concat()),
        ),
        (
            "replies without end",
            stream(sse::event(DONE)).repeating(&other),
        ),
        (
            "a request",
            stream([sse::event(DONE), sse::event(question)].concat()),
        ),
        (
            "silence",
            stream(sse::event(DONE)).held_at(sse::event(DONE).len(), &Gate::new()),
        ),
    ] {
        rig.stack
            .upstream
            .script("tools/call", move |_| answer.clone());
        let reply = rig.call().await;
        assert_eq!(reply.body, DONE, "{what}");
    }
    assert_eq!(rig.failures("mixed").await, [0, 0]);
}

/// A handle, a result and an end come after their client was told that nothing came: nobody hears of
/// them, and nothing is made of them.
#[tokio::test]
async fn an_answer_after_its_deadline_is_nobodys() {
    let rig = Rig::start("2s").await;
    let (stack, alice) = (&rig.stack, &rig.alice);
    let events = stack.count(EVENTS, &[]).await.unwrap();
    let late = Gate::new();
    for method in ["tools/call", "tasks/get"] {
        let gate = late.clone();
        stack
            .upstream
            .script(method, move |_| Answer::built_in().held(&gate));
    }
    let made = stack.upstream.tasks().len();
    stack.upstream.complete(&rig.working, "too late").unwrap();
    let (handle, end) = tokio::join!(alice.call("slow", json!({})), alice.get(&rig.working));
    assert_eq!(handle.unwrap().error_code().unwrap(), UNAVAILABLE);
    assert_eq!(end.unwrap().result().unwrap()["status"], "working");
    late.open();
    let orphan = stack.upstream.tasks().remove(made);
    stack.upstream.unscript("tools/call");
    // What comes on another connection after it has been read after it.
    rig.call().await.result().unwrap();
    let unknown = alice.get(&orphan).await.unwrap();
    assert_eq!(unknown.error_code().unwrap(), -32602);
    assert_eq!(stack.count(EVENTS, &[]).await.unwrap(), events);
    // The end is found by whoever asks again, once.
    stack.upstream.unscript("tasks/get");
    alice.until(&rig.working, "completed").await.unwrap();
    assert_eq!(stack.count(EVENTS, &[]).await.unwrap(), events + 1);
}

/// Every place of an upstream is taken by requests that it does not answer: no other upstream is
/// worse off, what waits is refused at once, and a cancel still gets through.
#[tokio::test]
async fn an_upstream_that_hangs_is_nobody_elses_trouble() {
    let rig = Rig::start("30s").await;
    let hanging = Gate::new();
    let gate = hanging.clone();
    rig.stack
        .upstream
        .script("tools/call", move |_| Answer::built_in().held(&gate));
    // One tenant of two has half of the 32 places.
    let calls: Vec<_> = (0..16)
        .map(|_| {
            let alice = rig.alice.clone();
            tokio::spawn(async move { alice.call("echo", json!({"text": "hi"})).await })
        })
        .collect();
    hanging.reached(16).await.unwrap();
    assert_eq!(rig.call().await.error_code().unwrap(), OVERLOADED);
    let known = rig.get(&rig.working).await.result().unwrap();
    assert!(known["_meta"][AGE].is_u64(), "{known}");
    let busy = [("reason", "busy"), ("upstream", "default/reports")];
    assert_eq!(rig.stack.count(FAILURES, &busy).await.unwrap(), 2);
    for key in [ALICE, BOB, CAROL] {
        let papers = rig.bystander.with_key(key);
        let task = papers.start_task("slow", json!({})).await.unwrap();
        papers.until(&task, "working").await.unwrap();
    }
    // The other tenant's half is its own.
    let carol = rig.stack.client(CAROL).send(&prompt()).await.unwrap();
    assert_eq!(carol.error_code().unwrap(), -32601, "by the upstream");
    rig.alice
        .cancel(&rig.working)
        .await
        .unwrap()
        .result()
        .unwrap();
    rig.stack.upstream.arrived("tasks/cancel", 1).await.unwrap();
    hanging.open();
    for call in calls {
        call.await.unwrap().unwrap().result().unwrap();
    }
    rig.alice.until(&rig.working, "cancelled").await.unwrap();
}
