//! What a run leaves behind: bounded series, and no word of an upstream or a caller.

#![cfg(test)]

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};

use hangar_tests::client::{self, Client, Reply};
use hangar_tests::envelope::Envelope;
use hangar_tests::manifests::Manifest;
use hangar_tests::raw;
use hangar_tests::scripted::{Answer, mk_tool, tools};
use hangar_tests::stack::{ALICE, BOB, CAROL, Stack};
use hyper::StatusCode;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

const NAMES: usize = 100_000;
const CONNECTIONS: usize = 4;
/// Sorts of names: methods, tools, upstreams, keys.
const KINDS: usize = 4;
const STATUS: &[u8] = b"HTTP/1.1 ";

/// In every text that an upstream or a caller may choose freely.
const CANARY: &str = "CANARYx7q";

const METHODS: [&str; 5] = [
    "tools/call",
    "tasks/get",
    "tasks/update",
    "tasks/cancel",
    "server/discover",
];

async fn metrics(address: &str) -> String {
    let reply = client::get(&format!("http://{address}/metrics")).await;
    String::from_utf8(reply.unwrap().body.to_vec()).unwrap()
}

/// Name and labels of each series.
fn series(text: &str) -> BTreeSet<String> {
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    samples
        .map(|line| {
            line.rsplit_once(' ')
                .map_or(line, |(series, _)| series)
                .to_owned()
        })
        .collect()
}

#[tokio::test]
async fn case_91_what_a_caller_or_an_upstream_invents_makes_no_series() {
    let stack = Stack::start().await.unwrap();
    let (alice, carol) = (stack.client(ALICE), stack.client(CAROL));
    let unknown = stack
        .gateway
        .client_of("default", "nowhere")
        .with_key(ALICE);
    let round = async |number: usize| {
        let word = format!("{CANARY}{number}");
        let handle = json!({"resultType": "task", "taskId": word, "status": word});
        let result = json!({"resultType": word});
        for client in [&alice, &carol, &unknown, &alice.with_key(&word)] {
            stack
                .upstream
                .enqueue("tools/call", Answer::result(&handle));
            client.call("slow", json!({})).await.unwrap();
            stack
                .upstream
                .enqueue("tools/call", Answer::result(&result));
            client.call("slow", json!({})).await.unwrap();
            client.call(&word, json!({})).await.unwrap();
            client.send(&Envelope::new(&word, json!({}))).await.unwrap();
            client.get(&word).await.unwrap();
            client.cancel(&word).await.unwrap();
            let answer = json!({&word: {"action": word}});
            client
                .send(&Envelope::update(&word, &answer))
                .await
                .unwrap();
            stack.upstream.unscript("tools/call");
        }
        let elsewhere = stack.gateway.client_of(&word, &word).with_key(ALICE);
        elsewhere.list_tools().await.unwrap();
    };
    round(0).await;
    let address = stack.gateway.metrics_address();
    let before = series(&metrics(address).await);
    for number in 1..12 {
        round(number).await;
    }
    let text = metrics(address).await;
    let after = series(&text);
    let fresh: Vec<_> = after.difference(&before).collect();
    assert!(fresh.is_empty(), "{fresh:?}");
    assert!(!text.contains(CANARY), "{text}");
    let other = [("method", "other")];
    assert!(stack.count("hangar_requests_total", &other).await.unwrap() >= 12);
}

/// Names that nobody configured, in one go: methods, tools, upstreams and keys.
#[tokio::test]
async fn case_91_a_hundred_thousand_names_make_no_series() {
    let open = |object: Manifest| match object.value()["spec"]["tenant"].as_str() {
        Some("acme") => object
            .set(
                "/spec/upstreams/0/tools/allow",
                json!(["echo", "slow", "ask"]),
            )
            .set("/spec/limits/requestsPerSecond", json!(1_000_000))
            .set("/spec/limits/burst", json!(1_000_000)),
        _ => object,
    };
    let stack = Stack::start_with(open).await.unwrap();
    let mcp = stack.gateway.mcp_address();
    send_names(mcp.to_owned(), 0..KINDS).await;
    let address = stack.gateway.metrics_address();
    let before = series(&metrics(address).await);
    let mut parts = JoinSet::new();
    let each = NAMES / CONNECTIONS;
    for part in 0..CONNECTIONS {
        parts.spawn(send_names(mcp.to_owned(), part * each..(part + 1) * each));
    }
    parts.join_all().await;
    let text = metrics(address).await;
    let after = series(&text);
    let fresh: Vec<_> = after.difference(&before).collect();
    assert!(fresh.is_empty(), "{fresh:?}");
    assert!(!text.contains(CANARY), "{text}");
    let requests = stack.count("hangar_requests_total", &[]).await.unwrap();
    assert!(requests >= NAMES as u64, "{requests}");
    assert!(stack.upstream.seen().len() < 100);
}

/// Requests with a name of their own each, over one connection without waiting in between.
async fn send_names(address: String, numbers: Range<usize>) {
    let socket = TcpStream::connect(address).await.unwrap();
    let (mut from, mut to) = socket.into_split();
    let count = numbers.len();
    let writing = tokio::spawn(async move {
        for number in numbers {
            to.write_all(&named(number)).await.unwrap();
        }
        to
    });
    // Each answer has one status line, and no body has another.
    let (mut answers, mut rest) = (0, Vec::new());
    while answers < count {
        let mut bytes = vec![0; 64 << 10];
        let read = from.read(&mut bytes).await.unwrap();
        assert!(read > 0, "closed after {answers} of {count}");
        rest.extend_from_slice(&bytes[..read]);
        answers += rest
            .windows(STATUS.len())
            .filter(|it| *it == STATUS)
            .count();
        let keep = rest.len().saturating_sub(STATUS.len() - 1);
        rest.drain(..keep);
    }
    writing.await.unwrap();
}

/// A request with a name that nobody has used before.
fn named(number: usize) -> Vec<u8> {
    let word = format!("{CANARY}{number}");
    let envelope = match number % KINDS {
        0 => Envelope::new(&word, json!({})),
        1 => Envelope::call(&word, json!({})),
        _ => Envelope::get(&word),
    };
    let key = if number % KINDS == 3 { &word } else { ALICE };
    let request = raw::request(&envelope, key, "", &envelope.body());
    if number % KINDS != 2 {
        return request;
    }
    let text = String::from_utf8(request).unwrap();
    let elsewhere = format!("/mcp/{word}/{word} ");
    text.replacen("/mcp/default/reports ", &elsewhere, 1)
        .into_bytes()
}

/// One event, one count.
#[tokio::test]
async fn case_91_each_event_increments_exactly_its_counter() {
    let stack = Stack::start().await.unwrap();
    let alice = stack.client(ALICE);
    let start = async |tool: &str| alice.start_task(tool, json!({})).await.unwrap();
    let (done, failed) = (start("slow").await, start("slow").await);
    let (cancelled, answered) = (start("slow").await, start("ask").await);
    let denied = start("ask").await;
    stack.upstream.complete(&done, "done").unwrap();
    stack.upstream.fail(&failed, 1, "no").unwrap();
    alice.cancel(&cancelled).await.unwrap();
    for task in [&answered, &denied] {
        alice.until(task, "input_required").await.unwrap();
    }
    for (task, action) in [(&answered, "accept"), (&denied, "decline")] {
        let answer = alice.answer(task, "name", action, json!({"name": "Ann"}));
        answer.await.unwrap().result().unwrap();
    }
    let ends = [
        (&done, "completed"),
        (&failed, "failed"),
        (&cancelled, "cancelled"),
        (&answered, "completed"),
        (&denied, "failed"),
    ];
    for _ in 0..3 {
        for (task, status) in ends {
            alice.until(task, status).await.unwrap();
        }
    }
    let owner = [("tenant", "acme"), ("upstream", "default/reports")];
    for (name, count) in [
        ("hangar_tasks_relayed_total", 5),
        ("hangar_tasks_completed_total", 2),
        ("hangar_tasks_failed_total", 2),
        ("hangar_tasks_cancelled_total", 1),
        ("hangar_task_input_required_total", 2),
        ("hangar_task_consent_decisions_total", 2),
        ("hangar_task_digest_drift_total", 0),
    ] {
        assert_eq!(stack.count(name, &owner).await.unwrap(), count, "{name}");
    }
    // The chain and its counter agree, type by type.
    let export = stack.export().await.unwrap();
    let mut lines = 0;
    for kind in [
        "TaskCreated",
        "TaskConsentDecided",
        "TaskCompleted",
        "TaskFailed",
        "TaskCancelled",
        "DigestMismatchInTask",
    ] {
        let typed = format!(r#""type":"{kind}""#);
        let on_chain = export.lines().filter(|line| line.contains(&typed)).count();
        let labels = [("type", kind)];
        let counted = stack.count("hangar_provenance_events_total", &labels);
        assert_eq!(counted.await.unwrap(), on_chain as u64, "{kind}");
        lines += on_chain;
    }
    assert_eq!(lines, 12);
    assert_eq!(stack.count("hangar_tasks_live", &[]).await.unwrap(), 0);
}

#[tokio::test]
async fn case_98_no_word_of_an_upstream_or_a_caller_is_left_anywhere() {
    let stack = Stack::start().await.unwrap();
    let alice = stack.client(ALICE);
    let done = tell(&stack, &alice).await;
    break_the_protocol(&stack, &alice).await;
    invent(&alice).await;
    // A list that cannot be read, last: from here on every payload is withheld.
    let mut listed = tools();
    listed.push(mk_tool("", CANARY, &json!({})));
    stack.upstream.set_tools(listed);
    alice.get(&done).await.unwrap();
    alice.list_tools().await.unwrap();

    let export = stack.export().await.unwrap();
    assert!(export.contains(&done), "this is the export of the run");
    assert!(!export.contains(CANARY), "export");
    for address in [
        stack.gateway.metrics_address(),
        stack.operator.metrics_address(),
    ] {
        assert!(!metrics(address).await.contains(CANARY), "metrics");
    }
    assert_clean(stack.folder());
}

/// A contract that is pinned is kept, which is what pins are for; of any other nothing is left.
#[tokio::test]
async fn case_98_no_member_of_an_answer_is_left_anywhere() {
    let unpinned = |object: Manifest| match object.value()["kind"].as_str() {
        Some("McpUpstream") => object.set("/spec/tools/pinning/mode", json!("Disabled")),
        _ => object,
    };
    let stack = Stack::start_with(unpinned).await.unwrap();
    let alice = stack.client(ALICE);
    stack.upstream.set_tools(talking_tools());
    let meta = json!({CANARY: CANARY});
    let announced = json!({
        "resultType": "complete", "supportedVersions": ["2026-07-28", CANARY],
        "capabilities": {
            "tools": meta, "prompts": {}, "resources": {}, CANARY: meta, "experimental": meta,
            "extensions": {"io.modelcontextprotocol/tasks": meta, CANARY: meta},
        },
        "instructions": CANARY, "ttlMs": 0, "cacheScope": "private", CANARY: CANARY,
        "_meta": {"io.modelcontextprotocol/serverInfo": {"name": CANARY, "version": CANARY}},
    });
    let announced = Answer::result(&announced);
    stack
        .upstream
        .script("server/discover", move |_| announced.clone());
    for (method, result) in lists() {
        let answer = Answer::result(&result).header("x-of-the-upstream", CANARY);
        stack.upstream.script(method, move |_| answer.clone());
        let reply = alice.send(&Envelope::new(method, params_of(method))).await;
        assert!(says(&reply.unwrap()), "{method}");
    }
    assert!(says(&alice.discover().await.unwrap()));
    assert!(says(&alice.list_tools().await.unwrap()));
    stack
        .upstream
        .enqueue("tools/call", Answer::result(&talk()));
    let called = alice.call("echo", json!({"text": "hi"})).await.unwrap();
    assert!(says(&called));
    let done = talk_of_tasks(&stack, &alice).await;

    let export = stack.export().await.unwrap();
    assert!(export.contains(&done), "this is the export of the run");
    for address in [
        stack.gateway.metrics_address(),
        stack.operator.metrics_address(),
    ] {
        assert!(!metrics(address).await.contains(CANARY), "metrics");
    }
    assert_clean(stack.folder());
}

/// Whether the word came through to the client: it was there to be left somewhere.
fn says(reply: &Reply) -> bool {
    String::from_utf8_lossy(&reply.body).contains(CANARY)
}

/// The usual tools with the word in each member that a tool may have, and in one that it may not.
fn talking_tools() -> Vec<Value> {
    let mut tools = tools();
    for tool in &mut tools {
        let schema = json!({
            "type": "object", "title": CANARY, "description": CANARY,
            "properties": {CANARY: {"type": "string", "enum": [CANARY], "default": CANARY}},
        });
        let more = json!({
            "title": CANARY, "description": CANARY, "inputSchema": schema, "outputSchema": schema,
            "annotations": {"title": CANARY}, "icons": [{"src": CANARY}], "_meta": {CANARY: CANARY},
            CANARY: CANARY,
        });
        for (name, value) in more.as_object().unwrap() {
            tool[name] = value.clone();
        }
    }
    tools
}

/// A result of a tool with the word in each member.
fn talk() -> Value {
    json!({
        "resultType": "complete", "isError": true, "structuredContent": {CANARY: CANARY},
        "content": [
            {"type": "text", "text": CANARY, "annotations": {"audience": [CANARY]}},
            {"type": "resource_link", "uri": CANARY, "name": CANARY, "mimeType": CANARY},
            {"type": CANARY},
        ],
        "_meta": {CANARY: CANARY}, CANARY: CANARY,
    })
}

/// Answers of the methods that are relayed as they are.
fn lists() -> Vec<(&'static str, Value)> {
    let item = json!({
        "name": CANARY, "title": CANARY, "uri": CANARY, "uriTemplate": CANARY, "text": CANARY,
        "description": CANARY, "mimeType": CANARY, "_meta": {CANARY: CANARY}, CANARY: CANARY,
    });
    let answer = |items: &str, value: Value| {
        json!({
            "resultType": "complete", items: value, "ttlMs": 0, "cacheScope": "private",
            "_meta": {CANARY: CANARY}, CANARY: CANARY,
        })
    };
    let message = json!({"role": CANARY, "content": {"type": "text", "text": CANARY}});
    vec![
        ("prompts/list", answer("prompts", json!([item]))),
        ("resources/list", answer("resources", json!([item]))),
        (
            "resources/templates/list",
            answer("resourceTemplates", json!([item])),
        ),
        ("prompts/get", answer("messages", json!([message]))),
        ("resources/read", answer("contents", json!([item]))),
        (
            "completion/complete",
            answer("completion", json!({"values": [CANARY]})),
        ),
    ]
}

fn params_of(method: &str) -> Value {
    match method {
        "prompts/get" => json!({"name": "p"}),
        "resources/read" => json!({"uri": "r://r"}),
        "completion/complete" => json!({
            "ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "a", "value": "v"},
        }),
        _ => json!({}),
    }
}

/// Tasks whose payloads hold nothing but the word. Gives one that completed.
async fn talk_of_tasks(stack: &Stack, alice: &Client) -> String {
    let start = async || alice.start_task("slow", json!({})).await.unwrap();
    let (done, failed, asked) = (start().await, start().await, start().await);
    let error = json!({"code": 7, "message": CANARY, "data": {CANARY: CANARY}, CANARY: CANARY});
    let question = json!({CANARY: {"method": "elicitation/create", CANARY: CANARY, "params": {
        "mode": "form", "message": CANARY, "_meta": {CANARY: CANARY}, CANARY: CANARY,
        "requestedSchema": {
            "type": "object", "properties": {CANARY: {"type": "string", "title": CANARY}},
        },
    }}});
    let mut result = talk();
    result.as_object_mut().unwrap().remove("resultType");
    for (task, status, payload, value) in [
        (&done, "completed", "result", result),
        (&failed, "failed", "error", error),
        (&asked, "input_required", "inputRequests", question),
    ] {
        let bend = json!({
            "status": status, payload: value, "statusMessage": CANARY, "_meta": {CANARY: CANARY},
            CANARY: CANARY,
        });
        stack.upstream.bend(task, &bend).unwrap();
        alice.until(task, status).await.unwrap();
        assert!(says(&alice.get(task).await.unwrap()), "{status}");
    }
    done
}

/// Tasks with the word in whatever may be said and asked. Gives one that completed.
async fn tell(stack: &Stack, alice: &Client) -> String {
    let argument = json!({"text": CANARY});
    let mut tasks = Vec::new();
    for _ in 0..3 {
        let task = alice.start_task("slow", argument.clone()).await.unwrap();
        let hints = json!({
            "statusMessage": CANARY, CANARY: {CANARY: CANARY}, "_meta": {CANARY: CANARY},
        });
        stack.upstream.bend(&task, &hints).unwrap();
        let shown = alice.until(&task, "working").await.unwrap();
        assert_eq!(shown["statusMessage"], CANARY);
        tasks.push(task);
    }
    let (asked, done, failed) = (&tasks[0], &tasks[1], &tasks[2]);
    stack.upstream.ask(asked, CANARY, CANARY).unwrap();
    alice.until(asked, "input_required").await.unwrap();
    let stranger = stack.client(BOB);
    let foreign = stranger.answer(asked, CANARY, "accept", argument.clone());
    foreign.await.unwrap();
    let answers = json!({"other": CANARY, CANARY: {"action": "accept", "content": argument}});
    let update = Envelope::update(asked, &answers);
    alice.send(&update).await.unwrap().result().unwrap();
    stack.upstream.ask(asked, "again", CANARY).unwrap();
    alice.until(asked, "input_required").await.unwrap();
    let no = alice.answer(asked, "again", CANARY, argument.clone());
    no.await.unwrap().result().unwrap();
    stack.upstream.complete(done, CANARY).unwrap();
    alice.until(done, "completed").await.unwrap();
    stack.upstream.fail(failed, 7, CANARY).unwrap();
    alice.until(failed, "failed").await.unwrap();
    done.clone()
}

/// Answers that are none, for every method, with the word in them.
async fn break_the_protocol(stack: &Stack, alice: &Client) {
    let members = [
        "resultType",
        "status",
        "ttlMs",
        "createdAt",
        "lastUpdatedAt",
    ];
    let mut answers: Vec<_> = members.map(|member| Answer::result(&bad(member))).into();
    answers.extend([
        Answer::error_with(-32000, CANARY, &json!(CANARY)),
        Answer::error(-32602, CANARY).status(StatusCode::INTERNAL_SERVER_ERROR),
        Answer::raw(CANARY),
        Answer::raw(CANARY).status(StatusCode::BAD_GATEWAY),
        Answer::raw(format!("{{\"{CANARY}\":")),
        Answer::raw("")
            .status(StatusCode::FOUND)
            .header("location", CANARY),
        Answer::raw("")
            .status(StatusCode::TOO_MANY_REQUESTS)
            .header("retry-after", CANARY),
        Answer::built_in().header("x-of-the-upstream", CANARY),
    ]);
    let argument = json!({"name": CANARY});
    for answer in answers {
        // Born and asked as it should be, then answered for badly.
        let task = alice.start_task("ask", json!({})).await.unwrap();
        alice.until(&task, "input_required").await.unwrap();
        for method in METHODS {
            stack.upstream.enqueue(method, answer.clone());
        }
        alice.call("ask", argument.clone()).await.unwrap();
        alice.discover().await.unwrap();
        alice.get(&task).await.unwrap();
        let yes = alice.answer(&task, "name", "accept", argument.clone());
        yes.await.unwrap();
        alice.cancel(&task).await.unwrap();
        for method in METHODS {
            stack.upstream.unscript(method);
        }
    }
}

fn bad(member: &str) -> Value {
    let mut handle = json!({
        "resultType": "task", "taskId": "t", "status": "working", "ttlMs": 1,
        "createdAt": "2026-12-01T06:00:00Z", "lastUpdatedAt": "2026-12-01T06:00:00Z",
    });
    handle[member] = json!(CANARY);
    handle
}

/// What a caller may make up, with a credential and without one.
async fn invent(alice: &Client) {
    let argument = json!({"text": CANARY});
    for client in [alice, &alice.with_key(CANARY)] {
        for envelope in [
            Envelope::call(CANARY, argument.clone()),
            Envelope::get(CANARY),
            Envelope::new(CANARY, argument.clone()),
            Envelope::get("t").header("mcp-name", CANARY),
            Envelope::get("t").id(json!(CANARY)),
            Envelope::get("t").header("x-of-the-client", CANARY),
        ] {
            client.send(&envelope).await.unwrap();
        }
    }
}

/// Looks at every byte of every file: the ledger with its log, configuration, logs, export.
fn assert_clean(folder: &Path) {
    let mut files = Vec::new();
    collect(folder, &mut files);
    let named = |name: &str| files.iter().any(|file| file.ends_with(name));
    assert!(
        named("ledger.sqlite") && named("hangar-gateway.log"),
        "{files:?}"
    );
    for file in files {
        let bytes = std::fs::read(&file).unwrap();
        let found = bytes
            .windows(CANARY.len())
            .any(|bytes| bytes == CANARY.as_bytes());
        assert!(!found, "{}", file.display());
    }
}

fn collect(folder: &Path, into: &mut Vec<PathBuf>) {
    for item in std::fs::read_dir(folder).unwrap() {
        let item = item.unwrap();
        if item.file_type().unwrap().is_dir() {
            collect(&item.path(), into);
        } else {
            into.push(item.path());
        }
    }
}
