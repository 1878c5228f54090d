//! What went wrong in the field with gateways like this one: another call was judged than the one
//! that ran, and another list was shown than the one that held. Each test begins with the story.

#![cfg(test)]

use std::collections::BTreeSet;

use hangar_tests::client::{Client, Reply};
use hangar_tests::envelope::Envelope;
use hangar_tests::manifests::{self, mk_keys, mk_tenant, mk_upstream};
use hangar_tests::scripted::{Answer, mk_tool, tools};
use hangar_tests::stack::{ALICE, BOB, CAROL, Stack};
use hangar_tests::wait;
use serde_json::{Value, json};

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const HEADER_MISMATCH: i64 = -32020;
const INVALID_PARAMS: i64 = -32602;
const INVALID_REQUEST: i64 = -32600;

async fn start() -> (Stack, Client) {
    let stack = Stack::start().await.unwrap();
    let alice = stack.client(ALICE);
    (stack, alice)
}

fn names(listed: &Reply) -> BTreeSet<String> {
    let result = listed.result().unwrap();
    let tools = result["tools"].as_array().unwrap();
    let name = |tool: &Value| tool["name"].as_str().unwrap().to_owned();
    tools.iter().map(name).collect()
}

// One key, two values.

/// Text that says two things: one copy is allowed and the other is not.
type TwoFaced = (&'static str, i64, String);

/// A message of both parts, in both orders.
fn both_orders(
    what: &'static str,
    code: i64,
    (first, second): (&str, &str),
    whole: impl Fn(&str) -> String,
) -> Vec<TwoFaced> {
    vec![
        (what, code, whole(&format!("{first},{second}"))),
        (what, code, whole(&format!("{second},{first}"))),
    ]
}

fn message(members: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0",{members}}}"#)
}

fn call(params: &str) -> String {
    message(&format!(
        r#""id":1,"method":"tools/call","params":{{{params}}}"#
    ))
}

fn padding() -> String {
    "x".repeat(1 << 20)
}

/// Members of the message.
fn messages() -> Vec<TwoFaced> {
    let meta = format!(r#"{{"{VERSION}":"2026-07-28","{CAPABILITIES}":{{}}}}"#);
    let of = |name: &str| format!(r#""params":{{"name":"{name}","_meta":{meta}}}"#);
    let (echo, drop) = (of("echo"), of("drop"));
    let (called, listed) = (r#""method":"tools/call""#, r#""method":"tools/list""#);
    let escaped = r#""m\u0065thod":"tools/list""#;
    let far = format!(r#"{called},"pad":"{}""#, padding());
    let methods = |both: &str| message(&format!(r#"{both},"id":1,{echo}"#));
    let ids = |both: &str| message(&format!("{both},{called},{echo}"));
    let params = |both: &str| message(&format!(r#""id":1,{called},{both}"#));
    let look_alike = (called, r#""Method":"tools/list""#);
    [
        ("method", (called, listed)),
        ("method, escaped", (called, escaped)),
        ("method, far away", (&far, listed)),
        ("method, in another case", look_alike),
    ]
    .into_iter()
    .map(|(what, both)| both_orders(what, INVALID_REQUEST, both, methods))
    .chain([
        both_orders("id", INVALID_REQUEST, (r#""id":1"#, r#""id":2"#), ids),
        both_orders("params", INVALID_REQUEST, (&echo, &drop), params),
    ])
    .flatten()
    .collect()
}

/// Members of the params, and of what the gateway reads within them.
fn params() -> Vec<TwoFaced> {
    let meta = format!(r#"{{"{VERSION}":"2026-07-28","{CAPABILITIES}":{{}}}}"#);
    let names = |both: &str| call(&format!(r#"{both},"_meta":{meta}"#));
    let metas = |both: &str| call(&format!(r#""name":"echo",{both}"#));
    let within = |meta: String| call(&format!(r#""name":"echo","_meta":{{{meta}}}"#));
    let versions = |both: &str| within(format!(r#"{both},"{CAPABILITIES}":{{}}"#));
    let abilities = |both: &str| {
        within(format!(
            r#""{VERSION}":"2026-07-28","{CAPABILITIES}":{{{both}}}"#
        ))
    };
    let (echo, drop) = (r#""name":"echo""#, r#""name":"drop""#);
    let far = format!(r#""pad":"{}",{echo}"#, padding());
    let blank = format!("{}{echo}", " ".repeat(1 << 20));
    let poor = format!(r#""_meta":{{"{VERSION}":"2026-07-28"}}"#);
    let meta = format!(r#""_meta":{meta}"#);
    let old = format!(r#""{VERSION}":"2025-11-25""#);
    let new = format!(r#""{VERSION}":"2026-07-28""#);
    let tasks = r#""extensions":{"io.modelcontextprotocol/tasks":{}}"#;
    [
        ("name", (echo, drop)),
        ("name, escaped", (echo, r#""na\u006de":"drop""#)),
        ("name, far away", (&far, drop)),
        ("name, behind blanks", (drop, &blank)),
        ("name, in another case", (echo, r#""NAME":"drop""#)),
    ]
    .into_iter()
    .map(|(what, both)| both_orders(what, INVALID_PARAMS, both, names))
    .chain([
        both_orders("_meta", INVALID_PARAMS, (&meta, &poor), metas),
        both_orders("revision", INVALID_PARAMS, (&old, &new), versions),
        both_orders(
            "capability",
            INVALID_PARAMS,
            (tasks, r#""extensions":{}"#),
            abilities,
        ),
    ])
    .flatten()
    .collect()
}

/// The tool `drop` is there, and denied.
async fn start_with_a_denied_tool() -> (Stack, Client) {
    let (stack, alice) = start().await;
    let mut listed = tools();
    listed.push(mk_tool("drop", "Deletes everything.", &json!({})));
    let region = json!({"at": {"type": "object", "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
    }}});
    listed.push(mk_tool("placed", "Runs somewhere.", &region));
    stack.upstream.set_tools(listed);
    stack.upstream.script("tools/call", |seen| {
        let text = format!("{}", seen.params()["name"]);
        Answer::result(
            &json!({"resultType": "complete", "content": [{"type": "text", "text": text}]}),
        )
    });
    stack
        .rewrite(|object| match object.value()["kind"].as_str() {
            Some("TenantPolicy") => object.set("/spec/upstreams/0/tools/deny", json!(["drop"])),
            _ => object,
        })
        .unwrap();
    let denied = "drop is denied";
    wait::eventually(denied, async || {
        let listed = names(&alice.list_tools().await?);
        anyhow::ensure!(!listed.contains("drop") && listed.contains("placed"));
        Ok(())
    })
    .await
    .unwrap();
    (stack, alice)
}

/// A filter in front of a server stopped at the first copy of a key and the server took the last, so
/// that policy judged another tool than the one that ran.
#[tokio::test]
async fn a_key_with_two_values_is_refused_before_anything_happens() {
    let (stack, alice) = start_with_a_denied_tool().await;
    let headers = Envelope::call("echo", json!({})).headers().to_vec();
    let post = async |body: String| alice.post(&headers, body.into()).await.unwrap();
    let before = stack.upstream.seen().len();
    for (what, code, body) in messages().into_iter().chain(params()) {
        let reply = post(body).await;
        assert_eq!(reply.outcome().unwrap(), (400, code), "{what}: {reply:?}");
    }
    assert_eq!(stack.upstream.seen().len(), before, "no upstream was asked");
    // Alone, each of the two is judged as it should be.
    let echo = alice.call("echo", json!({})).await.unwrap();
    echo.result().unwrap();
    let drop = alice.call("drop", json!({})).await.unwrap();
    assert_eq!(
        drop.outcome().unwrap(),
        (200, INVALID_PARAMS),
        "as one that is not there"
    );
    let calls = stack.upstream.seen_of("tools/call");
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0].params()["name"], "echo");
}

/// The same for the id of a task: its owner's own in one copy, a stranger's in the other.
#[tokio::test]
async fn a_task_id_with_two_values_reaches_neither_task() {
    let (stack, alice) = start().await;
    let own = alice.start_task("slow", json!({})).await.unwrap();
    let foreign = stack.client(CAROL).start_task("slow", json!({})).await;
    let foreign = foreign.unwrap();
    let before = stack.upstream.seen().len();
    let capabilities = r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;
    let meta = format!(r#"{{"{VERSION}":"2026-07-28","{CAPABILITIES}":{capabilities}}}"#);
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        for key in ["taskId", r"task\u0049d", "taskid"] {
            for (first, second) in [(&own, &foreign), (&foreign, &own)] {
                let ids = format!(r#""taskId":"{first}","{key}":"{second}","inputResponses":{{}}"#);
                let body = format!(
                    r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{{ids},"_meta":{meta}}}}}"#
                );
                let envelope = Envelope::new(method, json!({"taskId": first}));
                let reply = alice.post(envelope.headers(), body.into()).await.unwrap();
                let what = format!("{method} {key}: {reply:?}");
                assert_eq!(reply.outcome().unwrap(), (400, INVALID_PARAMS), "{what}");
            }
        }
    }
    assert_eq!(stack.upstream.seen().len(), before);
    for (client, task) in [(&alice, &own), (&stack.client(CAROL), &foreign)] {
        client.until(task, "working").await.unwrap();
    }
}

/// What the gateway reads of each other method: a request that holds it, and another text for it.
fn read_elsewhere() -> Vec<(Envelope, &'static str, &'static str)> {
    let listen = || {
        let kinds = json!({"resourceSubscriptions": ["x://a"], "taskIds": ["t-1"]});
        Envelope::new("subscriptions/listen", json!({"notifications": kinds}))
    };
    let complete = || {
        let reference = json!({"type": "ref/prompt", "name": "greet"});
        Envelope::new("completion/complete", json!({"ref": reference}))
    };
    let read = Envelope::new("resources/read", json!({"uri": "x://a"}));
    let told = Envelope::call("echo", json!({})).meta("progressToken", json!("p-1"));
    let logged = Envelope::call("echo", json!({}));
    let logged = logged.meta("io.modelcontextprotocol/logLevel", json!("info"));
    let answers = json!({"k1": {"action": "accept"}});
    vec![
        (read, r#""uri":"x://a""#, r#""uri":"x://b""#),
        (
            Envelope::new("prompts/get", json!({"name": "greet"})),
            r#""name":"greet""#,
            r#""name":"other""#,
        ),
        (
            Envelope::new("prompts/list", json!({"cursor": "a"})),
            r#""cursor":"a""#,
            r#""cursor":"b""#,
        ),
        (complete(), r#""name":"greet""#, r#""name":"other""#),
        (
            complete(),
            r#""type":"ref/prompt""#,
            r#""type":"ref/resource""#,
        ),
        (
            complete(),
            r#""ref":{"name":"greet","type":"ref/prompt"}"#,
            r#""ref":{"type":"ref/resource","uri":"x://b"}"#,
        ),
        (
            listen(),
            r#""resourceSubscriptions":["x://a"]"#,
            r#""resourceSubscriptions":["x://b"]"#,
        ),
        (listen(), r#""taskIds":["t-1"]"#, r#""taskIds":["t-2"]"#),
        (
            Envelope::update("t-1", &answers),
            r#""inputResponses":{"k1":{"action":"accept"}}"#,
            r#""inputResponses":{"k1":{"action":"decline"}}"#,
        ),
        (
            Envelope::update("t-1", &answers),
            r#""k1":{"action":"accept"}"#,
            r#""k1":{"action":"decline"}"#,
        ),
        (told, r#""progressToken":"p-1""#, r#""progressToken":"p-2""#),
        (
            logged,
            r#""io.modelcontextprotocol/logLevel":"info""#,
            r#""io.modelcontextprotocol/logLevel":"debug""#,
        ),
    ]
}

/// The same for every other member that a decision is taken on, at whichever depth.
#[tokio::test]
async fn whatever_a_decision_is_taken_on_is_there_once() {
    let (stack, alice) = start().await;
    let before = stack.upstream.seen().len();
    for (envelope, one, other) in read_elsewhere() {
        let body = String::from_utf8(envelope.body().to_vec()).unwrap();
        assert_eq!(body.matches(one).count(), 1, "{one} in {body}");
        let escaped = format!(r#""\u{:04x}{}"#, other.as_bytes()[1], &other[2..]);
        for both in [
            format!("{one},{other}"),
            format!("{other},{one}"),
            format!("{one},{escaped}"),
            format!("{escaped},{one}"),
        ] {
            let body = body.replace(one, &both);
            let reply = alice.post(envelope.headers(), body.clone().into()).await;
            let reply = reply.unwrap();
            assert_eq!(reply.outcome().unwrap(), (400, INVALID_PARAMS), "{body}");
        }
    }
    assert_eq!(stack.upstream.seen().len(), before);
}

/// Arguments are the tool's business as long as the gateway reads none: they pass as they came, so
/// that what runs is what was sent. Where the contract asks for one in a header, the gateway does.
#[tokio::test]
async fn an_argument_with_two_values_is_refused_where_it_is_read_and_passes_untouched_elsewhere() {
    let (stack, alice) = start_with_a_denied_tool().await;
    let whole = |name: &str, arguments: &str| {
        let body = Envelope::call(name, json!("HERE")).body();
        let text = String::from_utf8(body.to_vec()).unwrap();
        text.replace(r#""HERE""#, arguments)
    };
    let eu = r#""region":"eu""#;
    for arguments in [
        r#"{"at":{"region":"eu","region":"us"}}"#.to_owned(),
        r#"{"at":{"region":"us","region":"eu"}}"#.to_owned(),
        r#"{"at":{"region":"us","r\u0065gion":"eu"}}"#.to_owned(),
        format!(r#"{{"at":{{"region":"us"}},"at":{{{eu}}}}}"#),
        format!(r#"{{"at":{{{eu}}},"\u0061t":{{"region":"us"}}}}"#),
        format!(
            r#"{{"at":{{{eu},"x":"{}","region":"us"}}}}"#,
            "x".repeat(1 << 20)
        ),
    ] {
        let headers = Envelope::call("placed", json!({})).header("mcp-param-region", "eu");
        let reply = alice
            .post(headers.headers(), whole("placed", &arguments).into())
            .await
            .unwrap();
        assert_eq!(
            reply.outcome().unwrap(),
            (400, HEADER_MISMATCH),
            "{arguments:.80}"
        );
    }
    assert_eq!(stack.upstream.count("tools/call"), 0);
    let headers = Envelope::call("echo", json!({}));
    for arguments in [
        r#"{"text":"a","text":"b"}"#,
        r#"{"text":"b","t\u0065xt":"a","name":"drop","method":"x"}"#,
    ] {
        let body = whole("echo", arguments);
        let reply = alice.post(headers.headers(), body.clone().into()).await;
        reply.unwrap().result().unwrap();
        let seen = stack.upstream.seen_of("tools/call").pop().unwrap();
        assert_eq!(seen.body, body, "what was judged is what went on");
    }
}

// Rules.

/// What the rules of a grant say, and the tools that are left of `echo`, `slow` and `ask`.
type Cell = (&'static str, Value, &'static [&'static str]);

fn cells() -> Vec<Cell> {
    vec![
        ("neither", json!({}), &["ask", "echo", "slow"]),
        ("only deny", json!({"deny": ["slow"]}), &["ask", "echo"]),
        ("only allow", json!({"allow": ["slow"]}), &["slow"]),
        (
            "both on one tool",
            json!({"allow": ["echo", "slow"], "deny": ["slow"]}),
            &["echo"],
        ),
        ("an empty allow", json!({"allow": []}), &[]),
        (
            "an empty deny",
            json!({"deny": []}),
            &["ask", "echo", "slow"],
        ),
        ("both empty", json!({"allow": [], "deny": []}), &[]),
        (
            "a wide deny",
            json!({"allow": ["echo"], "deny": ["*"]}),
            &[],
        ),
        (
            "globs that overlap",
            json!({"allow": ["e*", "*o*"], "deny": ["*ch*"]}),
            &["slow"],
        ),
        (
            "a glob beside a name",
            json!({"allow": ["?sk", "echo"], "deny": ["a?k"]}),
            &["echo"],
        ),
        (
            "another case",
            json!({"allow": ["Echo"], "deny": ["SLOW"]}),
            &[],
        ),
    ]
}

fn key_of(index: usize) -> String {
    format!("cell-{index:02}-key-0123456789abcdef")
}

/// Calls each tool, and says which were let through; a refusal has reached no upstream.
async fn callable(stack: &Stack, client: &Client, prefix: &str) -> BTreeSet<String> {
    let mut through = BTreeSet::new();
    for tool in ["ask", "echo", "slow"] {
        let before = stack.upstream.count("tools/call");
        let name = format!("{prefix}{tool}");
        let reply = client.call(&name, json!({"text": "hi"})).await.unwrap();
        let reached = stack.upstream.count("tools/call") - before;
        if reply.result().is_ok() {
            assert_eq!(reached, 1, "{name}");
            through.insert(name);
        } else {
            assert_eq!(
                (reply.outcome().unwrap(), reached),
                ((200, INVALID_PARAMS), 0),
                "{name}"
            );
        }
    }
    through
}

/// A policy that only denied let nothing through, and one that looked right in a listing was another
/// when it came to the call.
#[tokio::test]
async fn a_policy_lists_what_may_be_called_and_nothing_else() {
    let (stack, _) = start().await;
    let strict = json!({"deny": ["ask"]});
    let mut more = vec![mk_upstream("strict", &stack.upstream.url()).set("/spec/tools", strict)];
    for (index, (_, rules, _)) in cells().into_iter().enumerate() {
        let tenant = format!("cell-{index:02}");
        more.push(
            mk_tenant(&tenant)
                .grants("reports")
                .set("/spec/upstreams/0/tools", rules.clone())
                .grants("strict")
                .set("/spec/upstreams/1/tools", rules),
        );
        more.push(mk_keys(&tenant, &[("one", &key_of(index))]));
    }
    manifests::write(&stack.manifests(), "more.yaml", &more).unwrap();
    for index in 0..cells().len() {
        let object = format!("TenantPolicy/default/cell-{index:02}");
        stack.operator.programmed(&object).await.unwrap();
    }
    for (index, (what, _, expected)) in cells().into_iter().enumerate() {
        let key = key_of(index);
        let all: BTreeSet<String> = expected.iter().map(|&tool| tool.to_owned()).collect();
        let mut left = all.clone();
        left.remove("ask");
        let united = ["reports", "strict"].map(|prefix| {
            let some = if prefix == "strict" { &left } else { &all };
            some.iter().map(move |tool| format!("{prefix}__{tool}"))
        });
        let united: BTreeSet<String> = united.into_iter().flatten().collect();
        let client = |upstream| stack.gateway.client_of("default", upstream).with_key(&key);
        let tenant = stack.gateway.client().with_key(&key);
        assert_eq!(names(&tenant.list_tools().await.unwrap()), united, "{what}");
        for (upstream, expected) in [("reports", all), ("strict", left)] {
            let at = client(upstream);
            assert_eq!(names(&at.list_tools().await.unwrap()), expected, "{what}");
            assert_eq!(callable(&stack, &at, "").await, expected, "{what}");
            let prefix = format!("{upstream}__");
            let prefixed = expected.iter().map(|tool| format!("{prefix}{tool}"));
            let found = callable(&stack, &tenant, &prefix).await;
            assert_eq!(found, prefixed.collect(), "{what}");
        }
    }
    // What one policy says is nothing to another.
    let bob = stack.client(BOB).list_tools().await.unwrap();
    assert_eq!(names(&bob).len(), 3);
}
