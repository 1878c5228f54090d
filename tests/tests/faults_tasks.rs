//! Handles, snapshots, ids and lists of upstreams that are wrong, or right and odd: each is a row, with
//! the one outcome that it must have.

#![cfg(test)]

use hangar_tests::client::Client;
use hangar_tests::envelope::Envelope;
use hangar_tests::scripted::{Answer, Gate, Upstream, mk_tool};
use hangar_tests::stack::{ALICE, BOB, CAROL, Stack};
use hangar_tests::{usage, wait};
use serde_json::{Value, json};

const EVENTS: &str = "hangar_provenance_events_total";
const BIRTHS_REFUSED: &str = "hangar_task_registration_failures_total";
const REFUSALS: &str = "hangar_task_refusals_total";
const FAILURES: &str = "hangar_upstream_failures_total";
const AGE: &str = "hangar.dev/ageMs";
const NOT_FOUND: i64 = -32602;
const UNAVAILABLE: i64 = -31001;
const UPSTREAM_PROTOCOL: i64 = -31008;
const MIB: u64 = 1 << 20;
/// The largest number that every reader of JSON keeps.
const MOST: u64 = (1 << 53) - 1;

async fn start() -> (Stack, Client) {
    let stack = Stack::start().await.unwrap();
    let alice = stack.client(ALICE);
    (stack, alice)
}

fn mk_task(id: &str, kind: &str) -> Value {
    json!({
        "resultType": kind, "taskId": id, "status": "working", "ttlMs": 900_000,
        "createdAt": "2026-12-01T06:00:00Z", "lastUpdatedAt": "2026-12-01T06:00:00Z",
    })
}

/// The text of a task with this text for a member.
fn bent(mut task: Value, member: &str, text: &str) -> String {
    task[member] = json!("HERE");
    task.to_string().replace("\"HERE\"", text)
}

/// Members that no task may have: the member, its text, and why it is refused, of a handle and of a
/// snapshot alike.
fn wrong() -> Vec<(&'static str, String, &'static str)> {
    let long = |length| format!("\"{}\"", "x".repeat(length));
    let numbers = [
        ("-1", "duration"),
        ("-9007199254740993", "duration"),
        ("1.5", "duration"),
        ("1e400", "duration"),
        ("\"900000\"", "duration"),
        ("true", "duration"),
        ("[1]", "duration"),
        ("99999999999999999999999", "duration"),
        ("18446744073709551615", "duration"),
        ("9007199254740992", "malformed"),
    ];
    let times = [
        ("null", "time"),
        ("0", "time"),
        ("\"\"", "time"),
        ("\"2026-12-01T06:00:00Z\\n\"", "time"),
        ("\"2026-12-01 06:00:00Z\"", "time"),
        ("\"yesterday\"", "out_of_bounds"),
        ("\"<b>2026-12-01T06:00:00Z</b>\"", "out_of_bounds"),
    ];
    let mut rows = vec![
        ("taskId", "7".to_owned(), "task_id"),
        ("taskId", "null".to_owned(), "task_id"),
        ("taskId", "\"\"".to_owned(), "task_id"),
        ("taskId", long(257), "task_id"),
        ("taskId", long(10 << 10), "task_id"),
        ("status", "\"paused\"".to_owned(), "status"),
        ("status", "\"WORKING\"".to_owned(), "status"),
        ("status", "null".to_owned(), "status"),
        ("createdAt", long(20 << 10), "time"),
        ("result", "{\"content\":[]}".to_owned(), "stray_payload"),
        (
            "error",
            "{\"code\":1,\"message\":\"m\"}".to_owned(),
            "stray_payload",
        ),
        ("ttlMs", "1,\"ttlMs\":2".to_owned(), "duplicate_key"),
        ("ttlMs", "1,\"ttl\\u004ds\":2".to_owned(), "duplicate_key"),
        ("ttlMs", "1,\"TTLMS\":2".to_owned(), "lookalike_key"),
    ];
    for member in ["ttlMs", "pollIntervalMs"] {
        rows.extend(numbers.map(|(text, reason)| (member, text.to_owned(), reason)));
    }
    for member in ["createdAt", "lastUpdatedAt"] {
        rows.extend(times.map(|(text, reason)| (member, text.to_owned(), reason)));
    }
    rows
}

/// In a handle: no task is born, and what runs there is told to stop where it has an id at all. In a
/// snapshot: the task stays as it was.
#[tokio::test]
async fn a_member_out_of_its_bounds_is_refused_by_reason() {
    let (stack, alice) = start().await;
    let live = alice.start_task("slow", json!({})).await.unwrap();
    let events = stack.count(EVENTS, &[]).await.unwrap();
    let rows = wrong();
    for (member, text, reason) in &rows {
        let what = format!("{member}: {}", text.chars().take(40).collect::<String>());
        let labels = [
            ("tenant", "acme"),
            ("upstream", "default/reports"),
            ("reason", *reason),
        ];
        let counts = async || {
            let scrape = stack.gateway.scrape().await.unwrap();
            [BIRTHS_REFUSED, REFUSALS].map(|name| scrape.count(name, &labels).unwrap())
        };
        let before = counts().await;
        let handle = bent(mk_task("odd", "task"), member, text);
        stack
            .upstream
            .enqueue("tools/call", Answer::result_text(&handle));
        let reply = alice.call("slow", json!({})).await.unwrap();
        assert_eq!(reply.error_code().unwrap(), UPSTREAM_PROTOCOL, "{what}");
        let snapshot = bent(mk_task(&live, "complete"), member, text);
        stack
            .upstream
            .enqueue("tasks/get", Answer::result_text(&snapshot));
        let reply = alice.get(&live).await.unwrap();
        assert_eq!(reply.error_code().unwrap(), UPSTREAM_PROTOCOL, "{what}");
        assert_eq!(counts().await, before.map(|count| count + 1), "{what}");
    }
    assert_eq!(
        alice.get("odd").await.unwrap().error_code().unwrap(),
        NOT_FOUND
    );
    assert_eq!(stack.count(EVENTS, &[]).await.unwrap(), events);
    assert_eq!(stack.count("hangar_tasks_live", &[]).await.unwrap(), 1);
    let told = alice.until(&live, "working").await.unwrap();
    assert!(told["_meta"][AGE].is_null(), "{told}");
    // Nobody is told to stop what was given out.
    stack.upstream.arrived("tasks/cancel", 1).await.unwrap();
    let cancels = stack.upstream.seen_of("tasks/cancel");
    assert!(cancels.iter().all(|seen| seen.params()["taskId"] == "odd"));
}

/// What acknowledges an update in another shape does not: the answer may have been taken, and it is told
/// again only with the same bytes.
#[tokio::test]
async fn an_acknowledgement_that_is_none_settles_nothing() {
    let (stack, alice) = start().await;
    for (text, reason) in [
        ("{}", "result_type"),
        (r#"{"resultType":"task","taskId":"odd"}"#, "result_type"),
        (
            r#"{"resultType":"complete","resultType":"complete"}"#,
            "duplicate_key",
        ),
    ] {
        let task = alice.start_task("ask", json!({})).await.unwrap();
        alice.until(&task, "input_required").await.unwrap();
        let labels = [("method", "tasks/update"), ("reason", reason)];
        let before = stack.count(REFUSALS, &labels).await.unwrap();
        stack
            .upstream
            .enqueue("tasks/update", Answer::result_text(text));
        let answer = async || {
            alice
                .answer(&task, "name", "accept", json!({"name": "Ann"}))
                .await
                .unwrap()
        };
        assert_eq!(
            answer().await.error_code().unwrap(),
            UPSTREAM_PROTOCOL,
            "{text}"
        );
        assert_eq!(
            stack.count(REFUSALS, &labels).await.unwrap(),
            before + 1,
            "{text}"
        );
        alice.until(&task, "input_required").await.unwrap();
        answer().await.result().unwrap();
        alice.until(&task, "completed").await.unwrap();
        let expected = ["TaskCreated", "TaskConsentDecided(accept)", "TaskCompleted"];
        assert_eq!(stack.events(&task).await.unwrap(), expected);
        // Acknowledged or not, a cancel claims nothing.
        let other = alice.start_task("slow", json!({})).await.unwrap();
        stack
            .upstream
            .enqueue("tasks/cancel", Answer::result_text(text));
        alice.cancel(&other).await.unwrap().result().unwrap();
        stack.upstream.arrived("tasks/cancel", 1).await.unwrap();
        alice.until(&other, "working").await.unwrap();
        assert_eq!(stack.events(&other).await.unwrap(), ["TaskCreated"]);
    }
}

/// Ids that only a quoting reader gets right.
fn odd_ids() -> Vec<String> {
    let long = "x".repeat(256);
    [
        "nul\u{0}",
        "line\nfeed",
        "\r\nx: y",
        " ",
        "\u{e9}t\u{e9}",
        "\u{1f980}",
        "\"",
        "\\u0041",
        "../a?b=c#d",
        "%00",
        "=?base64?eA==?=",
        "'; drop table entry; --",
        &long,
    ]
    .map(str::to_owned)
    .to_vec()
}

/// A NUL, a line feed, or 256 bytes: an id is what its upstream says, and leads to one task.
#[tokio::test]
async fn an_odd_id_is_an_id_like_any_other() {
    let (mut stack, alice) = start().await;
    let ids = odd_ids();
    // By the body alone: what a header can hold of such an id is another matter.
    let bare = |envelope: Envelope| envelope.without_header("mcp-name");
    let get = |id: &str| bare(Envelope::get(id));
    for id in &ids {
        stack.upstream.set_task_ids(&[id]);
        assert_eq!(alice.start_task("slow", json!({})).await.unwrap(), *id);
    }
    stack.gateway.restart().await.unwrap();
    stack.gateway.ready().await.unwrap();
    for id in &ids {
        let told = alice.send(&get(id)).await.unwrap().result().unwrap();
        assert_eq!(
            (&told["taskId"], &told["status"]),
            (&json!(id), &json!("working"))
        );
        assert!(told["_meta"][AGE].is_null(), "its upstream's own: {told}");
        let seen = stack.upstream.seen_of("tasks/get").pop().unwrap();
        let name = seen.header("mcp-name").unwrap_or_default();
        assert!(
            name == id || name.starts_with("=?base64?"),
            "{id:?}: {name:?}"
        );
        let asked = stack.upstream.seen().len();
        for key in [BOB, CAROL] {
            let told = stack.client(key).send(&get(id)).await.unwrap();
            assert_eq!(told.error_code().unwrap(), NOT_FOUND, "{id:?}");
        }
        assert_eq!(stack.upstream.seen().len(), asked, "{id:?}");
        let cancel = bare(Envelope::cancel(id));
        alice.send(&cancel).await.unwrap().result().unwrap();
        wait::eventually("cancelled", async || {
            let told = alice.send(&get(id)).await?.result()?;
            wait::same(&told["status"], &json!("cancelled"))
        })
        .await
        .unwrap();
        let expected = ["TaskCreated", "TaskCancelled"];
        assert_eq!(stack.events(id).await.unwrap(), expected, "{id:?}");
    }
}

/// The same id from a client, as the name of its request, comes back as it was sent, or is refused.
#[tokio::test]
async fn an_odd_id_of_a_request_comes_back_as_it_was_sent() {
    let (stack, alice) = start().await;
    let call = Envelope::call("echo", json!({"text": "hi"}));
    for id in odd_ids() {
        let reply = alice.send(&call.clone().id(json!(id))).await.unwrap();
        let message = reply.message().unwrap();
        assert_eq!(message["id"], json!(id));
        assert!(message["result"].is_object(), "{message}");
    }
    let calls = stack.upstream.count("tools/call");
    let huge = "x".repeat(10 << 10);
    for id in [
        json!(huge),
        json!(1.5),
        Value::Null,
        json!([1]),
        json!(true),
    ] {
        let reply = alice.send(&call.clone().id(id)).await.unwrap();
        assert_eq!(reply.outcome().unwrap(), (400, -32600));
        assert!(reply.body.len() < 1024, "{}", reply.body.len());
    }
    assert_eq!(stack.upstream.count("tools/call"), calls);
}

/// One id for several requests at once is no mistake: each has an exchange of its own.
#[tokio::test]
async fn requests_of_one_id_at_once_get_their_own_answers() {
    let (stack, alice) = start().await;
    let bob = stack.client(BOB);
    let gate = Gate::new();
    let held = gate.clone();
    stack
        .upstream
        .script("tools/call", move |_| Answer::built_in().held(&held));
    let calls: Vec<_> = (0..8)
        .map(|number| {
            let client = if number % 2 == 0 { &alice } else { &bob }.clone();
            let text = format!("text {number}");
            let call = Envelope::call("echo", json!({"text": text})).id(json!("same"));
            tokio::spawn(async move { (text, client.send(&call).await.unwrap()) })
        })
        .collect();
    gate.reached(8).await.unwrap();
    gate.open();
    for call in calls {
        let (text, reply) = call.await.unwrap();
        assert_eq!(reply.message().unwrap()["id"], "same");
        assert_eq!(reply.result().unwrap()["content"][0]["text"], text);
    }
}

/// A clock that is years off, and times to live from none to ages: they are passed on as they came, and
/// decide nothing but what the gateway's own clock says of them.
#[tokio::test]
async fn a_clock_of_another_age_ends_no_task_and_keeps_none() {
    let (mut stack, alice) = start().await;
    let rows = [
        ("1970-01-01T00:00:00Z", json!(900_000)),
        ("0001-01-01T00:00:00Z", json!(1000 * 86_400)),
        ("9999-12-31T23:59:59.999999999+00:00", json!(900_000)),
        ("2999-01-01T00:00:00-12:00", json!(MOST)),
        ("1999-12-31T23:59:60Z", Value::Null),
    ];
    let lost = || Answer::error(-32602, "Task not found");
    let mut tasks = Vec::new();
    for (number, (time, ttl)) in rows.iter().enumerate() {
        let id = format!("skewed-{number}");
        let mut task = mk_task(&id, "task");
        task["createdAt"] = json!(time);
        task["lastUpdatedAt"] = json!(time);
        task["ttlMs"] = ttl.clone();
        stack.upstream.enqueue("tools/call", Answer::result(&task));
        let given = alice
            .call("slow", json!({}))
            .await
            .unwrap()
            .result()
            .unwrap();
        assert_eq!(given, task);
        task["resultType"] = json!("complete");
        tasks.push((id, task));
    }
    stack.gateway.restart().await.unwrap();
    stack.gateway.ready().await.unwrap();
    for (id, task) in tasks {
        let serve = Answer::result(&task);
        stack.upstream.enqueue("tasks/get", serve.clone());
        assert_eq!(alice.get(&id).await.unwrap().result().unwrap(), task);
        // From the ledger, with its own age.
        stack.upstream.enqueue(
            "tasks/get",
            Answer::raw("").status(hyper::StatusCode::BAD_GATEWAY),
        );
        let mut known = alice.get(&id).await.unwrap().result().unwrap();
        let age = known["_meta"][AGE].as_u64().unwrap();
        assert!(age < 60_000, "{age}");
        known.as_object_mut().unwrap().remove("_meta");
        assert_eq!(known, task);
        // Unknown once is not lost, however long ago its upstream believes that it began.
        stack.upstream.enqueue("tasks/get", lost());
        let told = alice.get(&id).await.unwrap();
        assert_eq!(told.error_code().unwrap(), UNAVAILABLE, "{id}");
        let mut done = task.clone();
        done["status"] = json!("completed");
        done["result"] = json!({"content": []});
        stack.upstream.enqueue("tasks/get", Answer::result(&done));
        assert_eq!(alice.get(&id).await.unwrap().result().unwrap(), done);
        let expected = ["TaskCreated", "TaskCompleted"];
        assert_eq!(stack.events(&id).await.unwrap(), expected);
    }
}

/// A list of tools whose pages never end, each with tools of its own.
fn page_for_ever(upstream: &Upstream) {
    upstream.script("tools/list", |seen| {
        let page: usize = seen.params()["cursor"]
            .as_str()
            .map_or(0, |text| text.parse().unwrap());
        let tool = |number| {
            mk_tool(
                &format!("tool-{page}-{number}"),
                &"x".repeat(1000),
                &json!({}),
            )
        };
        let tools: Vec<_> = (0..10).map(tool).collect();
        let cursor = (page + 1).to_string();
        Answer::result(&json!({"resultType": "complete", "tools": tools, "nextCursor": cursor}))
    });
}

/// Each look at such a list ends, and what needs it is answered: a list is not to be had, a call of what
/// is not known neither, and a task whose contract cannot be seen has drifted.
#[tokio::test]
async fn a_list_that_pages_for_ever_is_given_up() {
    let (mut stack, alice) = start().await;
    let pid = stack.gateway.process().pid();
    let task = alice.start_task("slow", json!({})).await.unwrap();
    stack.upstream.complete(&task, "the-payload").unwrap();
    page_for_ever(&stack.upstream);
    usage::forget_peak(pid);
    let before = usage::peak(pid).unwrap();
    let lists = stack.upstream.count("tools/list");
    let reasons = ["too_many_pages", "timeout"];
    let given_up = async || {
        let scrape = stack.gateway.scrape().await.unwrap();
        let of = |reason| scrape.count(FAILURES, &[("reason", reason)]).unwrap();
        reasons.map(of).iter().sum::<u64>()
    };
    let listed = alice.list_tools().await.unwrap();
    assert_eq!(listed.error_code().unwrap(), UNAVAILABLE);
    assert_eq!(given_up().await, 1);
    let called = alice.call("tool-0-0", json!({})).await.unwrap();
    assert_eq!(called.error_code().unwrap(), UNAVAILABLE);
    assert_eq!(given_up().await, 2);
    assert_eq!(
        stack.upstream.count("tools/call"),
        1,
        "nothing but the task's"
    );
    // What was known before is as good as it was.
    let echoed = alice.call("echo", json!({"text": "hi"})).await.unwrap();
    echoed.result().unwrap();
    let failed = alice.get(&task).await.unwrap();
    assert!(!String::from_utf8_lossy(&failed.body).contains("the-payload"));
    let failed = failed.result().unwrap();
    assert_eq!(failed["error"]["data"]["reason"], "digest_drift");
    assert_eq!(given_up().await, 5, "three looks");
    assert!(stack.upstream.count("tools/list") <= lists + 5 * 64);
    let expected = [
        "TaskCreated",
        "DigestMismatchInTask",
        "TaskFailed(digest_drift)",
    ];
    assert_eq!(stack.events(&task).await.unwrap(), expected);
    let grown = usage::peak(pid).unwrap().saturating_sub(before);
    assert!(grown < 24 * MIB, "{} MiB", grown / MIB);
    stack.upstream.unscript("tools/list");
    alice.list_tools().await.unwrap().result().unwrap();
}
