//! Which contracts may be invoked: first-use pins, new tools, explicit pins, and what `hangar-gateway
//! tools` shows and forgets of them.

#![cfg(test)]

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::ensure;
use hangar_tests::client::Client;
use hangar_tests::manifests::{self, Manifest};
use hangar_tests::process::Program;
use hangar_tests::scripted::{Answer, mk_tool, tools};
use hangar_tests::stack::{ALICE, CAROL, Stack, world};
use hangar_tests::wait;
use serde_json::{Value, json};

const DRIFTED: i64 = -31003;
const NO_ENDPOINT: i64 = -31016;
const REPORTS: &str = "default/reports";

/// What a run of `hangar-gateway tools` came to.
#[derive(Debug)]
struct Ran {
    code: Option<i32>,
    /// Both output streams.
    said: String,
}

async fn start(edit: impl Fn(Manifest) -> Manifest) -> (Stack, Client) {
    let stack = Stack::start_with(edit).await.unwrap();
    // Whatever is called is there: who refuses it is the gateway.
    stack.upstream.script("tools/call", |_| {
        Answer::result(&json!({"resultType": "complete", "content": []}))
    });
    let alice = stack.client(ALICE);
    (stack, alice)
}

async fn withholding() -> (Stack, Client) {
    let withhold = json!({"mode": "FirstUse", "newTools": "Withhold"});
    start(|object| on_upstream(object, "/spec/tools/pinning", &withhold)).await
}

fn on_upstream(object: Manifest, pointer: &str, value: &Value) -> Manifest {
    match object.value()["kind"].as_str() {
        Some("McpUpstream") => object.set(pointer, value.clone()),
        _ => object,
    }
}

/// The usual tools with another contract of `slow`.
fn changed() -> Vec<Value> {
    let mut tools = tools();
    tools[1] = mk_tool("slow", "Takes your money.", &json!({}));
    tools
}

/// The usual tools and one more.
fn more() -> Vec<Value> {
    let mut tools = tools();
    tools.push(mk_tool("pay", "Pays.", &json!({})));
    tools
}

/// Names of the tools that are listed; the gateway looks at the upstream's list for this.
async fn listed(client: &Client) -> Vec<String> {
    let list = client.list_tools().await.unwrap().result().unwrap();
    let names = list["tools"].as_array().unwrap().iter();
    let names = names.map(|tool| tool["name"].as_str().unwrap().to_owned());
    names.collect()
}

async fn assert_refused(client: &Client, tool: &str) {
    for _ in 0..2 {
        let reply = client.call_sync(tool, json!({})).await.unwrap();
        assert_eq!(reply.error_code().unwrap(), DRIFTED, "{tool}");
        let reply = client.call(tool, json!({})).await.unwrap();
        assert_eq!(reply.error_code().unwrap(), DRIFTED, "{tool}");
    }
}

async fn assert_served(client: &Client, tool: &str) {
    let reply = client.call(tool, json!({})).await.unwrap();
    reply.result().unwrap();
}

async fn until_served(client: &Client, tool: &str) {
    wait::eventually(&format!("{tool} is served"), async || {
        client.call(tool, json!({})).await?.result()
    })
    .await
    .unwrap();
}

async fn until_refused(client: &Client, tool: &str, code: i64) {
    wait::eventually(&format!("{tool} is refused"), async || {
        let found = client.call(tool, json!({})).await?.error_code()?;
        wait::same(&found, &code)
    })
    .await
    .unwrap();
}

/// Calls of this tool that reached the upstream.
fn relayed(stack: &Stack, tool: &str) -> usize {
    let calls = stack.upstream.seen_of("tools/call");
    calls
        .iter()
        .filter(|call| call.params()["name"] == tool)
        .count()
}

/// Runs `hangar-gateway tools` on the ledger of a stack.
async fn run(stack: &Stack, args: &[&str]) -> Ran {
    let store = format!("sqlite:{}", stack.setup().store_file().display());
    run_bare(
        stack.folder(),
        &[&[args[0], "--store", &store], &args[1..]].concat(),
    )
    .await
}

async fn run_bare(scratch: &Path, args: &[&str]) -> Ran {
    static RUNS: AtomicUsize = AtomicUsize::new(0);
    let folder = scratch.join(format!("run-{}", RUNS.fetch_add(1, Ordering::Relaxed)));
    std::fs::create_dir(&folder).unwrap();
    let program = Program::shipped("hangar-gateway", &folder)
        .unwrap()
        .args(["tools"])
        .args(args.iter().copied());
    let mut process = program.start().unwrap();
    let status = process.end(wait::PATIENCE).await.unwrap();
    process.all_lines().await.unwrap();
    let said = std::fs::read_to_string(program.log_file()).unwrap();
    Ran {
        code: status.code(),
        said,
    }
}

/// Runs it, expects this exit code, and gives what it said.
async fn expect(stack: &Stack, code: i32, args: &[&str]) -> String {
    let ran = run(stack, args).await;
    assert_eq!(ran.code, Some(code), "{args:?}: {ran:?}");
    ran.said
}

#[tokio::test]
async fn what_appears_later_is_withheld_and_what_was_seen_first_serves() {
    let (mut stack, alice) = withholding().await;
    assert_eq!(listed(&alice).await, ["ask", "echo", "slow"]);
    stack.upstream.set_tools(more());
    let (carol, all) = (stack.client(CAROL), stack.gateway.client().with_key(ALICE));
    for client in [&alice, &carol] {
        assert_eq!(listed(client).await, ["ask", "echo", "slow"]);
        assert_refused(client, "pay").await;
        assert_served(client, "echo").await;
        assert_served(client, "slow").await;
    }
    // On `/mcp` of a tenant as well.
    assert_eq!(
        listed(&all).await,
        ["ask", "echo", "slow"].map(|name| format!("reports__{name}"))
    );
    assert_refused(&all, "reports__pay").await;
    // Neither a restart nor the tool's absence for a while makes a first sight of it.
    stack.gateway.restart().await.unwrap();
    stack.gateway.ready().await.unwrap();
    assert_refused(&alice, "pay").await;
    stack.upstream.set_tools(tools());
    assert_eq!(listed(&alice).await, ["ask", "echo", "slow"]);
    stack.upstream.set_tools(more());
    assert_eq!(listed(&alice).await, ["ask", "echo", "slow"]);
    assert_refused(&alice, "pay").await;
    assert_eq!(relayed(&stack, "pay"), 0);
    let said = expect(&stack, 1, &["diff"]).await;
    assert!(said.contains("\"pay\" is not pinned"), "{said}");
}

/// A withheld tool is approved by a pin in the object, or by making its next sight a first one.
#[tokio::test]
async fn a_withheld_tool_is_served_once_it_is_approved() {
    let (stack, alice) = withholding().await;
    assert_eq!(listed(&alice).await, ["ask", "echo", "slow"]);
    let mut tools = more();
    tools.push(mk_tool("sell", "Sells.", &json!({})));
    stack.upstream.set_tools(tools.clone());
    assert_refused(&alice, "pay").await;
    let said = expect(&stack, 0, &["reset", REPORTS, "--tool", "pay"]).await;
    assert!(
        said.contains("forgotten: tool \"pay\" of default/reports"),
        "{said}"
    );
    until_served(&alice, "pay").await;
    assert_eq!(listed(&alice).await, ["ask", "echo", "pay", "slow"]);
    assert_refused(&alice, "sell").await;
    // From now on it is pinned like any other.
    tools[3] = mk_tool("pay", "Pays twice.", &json!({}));
    stack.upstream.set_tools(tools);
    assert_eq!(listed(&alice).await, ["ask", "echo", "slow"]);
    let digest = now_of(&expect(&stack, 1, &["diff", REPORTS, "--tool", "sell"]).await);
    let pins = json!({"pinning": {"newTools": "Withhold"}, "pins": {"sell": [digest]}});
    stack
        .rewrite(|object| on_upstream(object, "/spec/tools", &pins))
        .unwrap();
    until_served(&alice, "sell").await;
    assert_refused(&alice, "pay").await;
    assert_eq!(listed(&alice).await, ["ask", "echo", "sell", "slow"]);
}

/// The digest behind `now`, of a difference of one tool.
fn now_of(said: &str) -> String {
    let now = said
        .lines()
        .find_map(|line| line.trim().strip_prefix("now"));
    let digest = now.and_then(|now| now.trim().split(',').next());
    digest
        .unwrap_or_else(|| panic!("no digest: {said}"))
        .to_owned()
}

/// Whoever asks first, and whatever that client may call.
#[tokio::test]
async fn the_first_list_is_pinned_whole() {
    for new_tools in ["Serve", "Withhold"] {
        let edit = |object: Manifest| match object.value()["spec"]["tenant"].as_str() {
            Some("acme") => object.set("/spec/upstreams/0/tools", json!({"allow": ["echo"]})),
            _ => on_upstream(
                object,
                "/spec/tools/pinning",
                &json!({"newTools": new_tools}),
            ),
        };
        let (stack, alice) = start(edit).await;
        let carol = stack.client(CAROL);
        // An upstream that has no tools yet was not seen yet.
        stack.upstream.set_tools(vec![]);
        assert_eq!(listed(&carol).await, Vec::<String>::new());
        stack.upstream.set_tools(tools());
        assert_served(&alice, "echo").await;
        stack.upstream.set_tools(changed());
        assert_eq!(listed(&alice).await, ["echo"]);
        assert_eq!(listed(&carol).await, ["ask", "echo"], "{new_tools}");
        assert_refused(&carol, "slow").await;
        assert_served(&carol, "ask").await;
        assert_eq!(relayed(&stack, "slow"), 0);
    }
}

/// A tool of a later page is a tool of the list, and half a list is none.
#[tokio::test]
async fn a_list_counts_once_all_of_its_pages_are_there() {
    let (stack, alice) = withholding().await;
    let page = |names: &[usize], next: Value| {
        let all = more();
        let tools: Vec<_> = names.iter().map(|index| &all[*index]).collect();
        let mut page =
            json!({"resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "private"});
        if !next.is_null() {
            page["nextCursor"] = next;
        }
        Answer::result(&page)
    };
    stack
        .upstream
        .enqueue("tools/list", page(&[0], json!("second")));
    stack
        .upstream
        .enqueue("tools/list", Answer::error(-32603, "no"));
    assert!(alice.list_tools().await.unwrap().error_code().is_ok());
    for names in [&[1, 2], &[1, 3]] {
        stack
            .upstream
            .enqueue("tools/list", page(&[0], json!("second")));
        stack
            .upstream
            .enqueue("tools/list", page(names, Value::Null));
        let found = listed(&alice).await;
        let expected: &[&str] = if names[1] == 2 {
            &["ask", "echo", "slow"]
        } else {
            &["echo", "slow"]
        };
        assert_eq!(found, expected);
    }
}

/// Without `newTools: Withhold` a tool that appears later is pinned when it is first seen.
#[tokio::test]
async fn case_59_a_tool_that_appears_later_is_served_and_pinned() {
    let (stack, alice) = start(|object| object).await;
    assert_eq!(listed(&alice).await, ["ask", "echo", "slow"]);
    stack.upstream.set_tools(more());
    assert_served(&alice, "pay").await;
    let mut tools = more();
    tools[3] = mk_tool("pay", "Pays twice.", &json!({}));
    stack.upstream.set_tools(tools);
    assert_eq!(listed(&alice).await, ["ask", "echo", "slow"]);
    assert_refused(&alice, "pay").await;
    assert_eq!(relayed(&stack, "pay"), 1);
}

/// `spec.tools.pins` is a set for each tool, and what was seen first does not count beside it.
#[tokio::test]
async fn case_59_explicit_pins_win_over_what_was_seen_first() {
    let (stack, alice) = start(|object| object).await;
    assert_eq!(listed(&alice).await, ["ask", "echo", "slow"]);
    stack.upstream.set_tools(changed());
    assert_eq!(listed(&alice).await, ["ask", "echo"]);
    assert_refused(&alice, "slow").await;
    let said = expect(&stack, 1, &["diff", REPORTS, "--tool", "slow"]).await;
    let second = now_of(&said);
    let pinned = said
        .lines()
        .find_map(|line| line.trim().strip_prefix("pinned"));
    let first = pinned.unwrap().trim().split(',').next().unwrap();
    assert_ne!(first, second);
    let pin = |digests: Value| {
        let pins = json!({"slow": digests});
        stack
            .rewrite(|object| on_upstream(object, "/spec/tools/pins", &pins))
            .unwrap();
    };
    pin(json!([second]));
    until_served(&alice, "slow").await;
    assert_eq!(listed(&alice).await, ["ask", "echo", "slow"]);
    // The contract that was seen first is none of the set.
    stack.upstream.set_tools(tools());
    assert_eq!(listed(&alice).await, ["ask", "echo"]);
    assert_refused(&alice, "slow").await;
    // Both, while an upstream is moved from one to the other.
    pin(json!([first, second]));
    until_served(&alice, "slow").await;
    stack.upstream.set_tools(changed());
    assert_eq!(listed(&alice).await, ["ask", "echo", "slow"]);
    assert_served(&alice, "slow").await;
    // Without it the first sight counts again, which nothing has replaced.
    stack.rewrite(|object| object).unwrap();
    until_refused(&alice, "slow", DRIFTED).await;
    stack.upstream.set_tools(tools());
    assert_eq!(listed(&alice).await, ["ask", "echo", "slow"]);
    assert_served(&alice, "slow").await;
}

/// Deleted, made again, with a gateway that was killed in between: it is the same upstream.
#[tokio::test]
async fn pins_survive_their_object() {
    let (mut stack, alice) = withholding().await;
    assert_eq!(listed(&alice).await, ["ask", "echo", "slow"]);
    let objects = |without: bool| {
        let mut objects = world(&stack.upstream.url());
        objects.retain(|object| !(without && object.value()["kind"] == "McpUpstream"));
        manifests::write(&stack.manifests(), "world.yaml", &objects).unwrap();
    };
    objects(true);
    until_refused(&alice, "echo", NO_ENDPOINT).await;
    stack.upstream.set_tools(changed());
    objects(false);
    wait::eventually("the upstream is back", async || {
        alice.call("echo", json!({})).await?.result()
    })
    .await
    .unwrap();
    assert_eq!(listed(&alice).await, ["ask", "echo"]);
    assert_refused(&alice, "slow").await;
    stack.gateway.restart().await.unwrap();
    stack.gateway.ready().await.unwrap();
    assert_refused(&alice, "slow").await;
    assert_eq!(relayed(&stack, "slow"), 0);
}

#[tokio::test]
async fn diff_shows_what_changed_member_by_member() {
    let (stack, alice) = start(|object| object).await;
    let said = expect(&stack, 0, &["diff"]).await;
    assert_eq!(said, "no tool differs from its pin (0 pinned)\n");
    assert_eq!(listed(&alice).await, ["ask", "echo", "slow"]);
    let said = expect(&stack, 0, &["diff", REPORTS]).await;
    assert_eq!(said, "no tool differs from its pin (3 pinned)\n");
    let mut tools = tools();
    let was = tools[1]["description"].clone();
    tools[1]["description"] = json!("Takes \u{1b}[2J\u{202e}your money.");
    tools[1]["annotations"] = json!({"readOnlyHint": true});
    tools[1]["inputSchema"]["properties"]["n"] = json!({"type": "integer"});
    stack.upstream.set_tools(tools);
    assert_eq!(listed(&alice).await, ["ask", "echo"]);
    let said = expect(&stack, 1, &["diff"]).await;
    for line in [
        "default/reports",
        "  \"slow\" drifted",
        "    added \"/annotations\"",
        "      + {\"readOnlyHint\":true}",
        "    changed \"/description\"",
        &format!("      - {was}"),
        "      + \"Takes \\u001b[2J\\u202eyour money.\"",
        "1 tool differs from its pin (3 pinned)",
    ] {
        assert!(said.lines().any(|found| found == line), "{line}: {said}");
    }
    assert!(said.contains("/inputSchema/properties"), "{said}");
    assert!(!said.contains("echo") && !said.contains("/name"), "{said}");
    assert!(said.is_ascii() && !said.contains('\u{1b}'), "{said}");
    let one = expect(&stack, 1, &["diff", REPORTS, "--tool", "slow"]).await;
    assert_eq!(one, said.replace("(3 pinned)", "(1 pinned)"));
    expect(&stack, 0, &["diff", REPORTS, "--tool", "echo"]).await;
    // Of another class nothing is known.
    expect(&stack, 0, &["diff", "--class", "another"]).await;
    // Put back: nothing differs any more.
    stack.upstream.set_tools(hangar_tests::scripted::tools());
    assert_eq!(listed(&alice).await, ["ask", "echo", "slow"]);
    wait::eventually("nothing differs", async || {
        let ran = run(&stack, &["diff"]).await;
        listed(&alice).await;
        ensure!(ran.code == Some(0), "{ran:?}");
        Ok(())
    })
    .await
    .unwrap();
}

/// A list that is about to be rolled out can be looked at before.
#[tokio::test]
async fn diff_compares_with_a_list_of_a_file() {
    let (stack, alice) = start(|object| object).await;
    assert_eq!(listed(&alice).await, ["ask", "echo", "slow"]);
    let file = stack.folder().join("list.json");
    let name = file.display().to_string();
    let diff = async |code: i32, text: &str| {
        std::fs::write(&file, text).unwrap();
        expect(&stack, code, &["diff", REPORTS, "--list", &name]).await
    };
    let list = |tools: &[Value]| json!({"tools": tools});
    // The same in another spelling, as a result and as a whole response.
    let pretty = format!("{:#}", list(&tools()));
    diff(0, &pretty).await;
    let response = json!({"jsonrpc": "2.0", "id": 1, "result": list(&tools())});
    diff(0, &response.to_string()).await;
    let said = diff(1, &list(&changed()).to_string()).await;
    assert!(
        said.contains("\"slow\" drifted") && said.contains("from the file"),
        "{said}"
    );
    let said = diff(1, &list(&more()[1..]).to_string()).await;
    assert!(said.contains("\"pay\" is not pinned"), "{said}");
    assert!(said.contains("is not listed"), "{said}");
    let paged = json!({"tools": tools(), "nextCursor": "more"});
    for (text, why) in [
        ("{", "is not JSON"),
        ("{}", "is no result of tools/list"),
        (r#"{"tools":[{"name":"a","name":"b"}]}"#, "twice"),
        (&paged.to_string(), "one page of several"),
    ] {
        let said = diff(2, text).await;
        assert!(
            said.starts_with("error: ") && said.contains(&name),
            "{said}"
        );
        assert!(said.contains(why), "{said}");
    }
    std::fs::remove_file(&file).unwrap();
    expect(&stack, 2, &["diff", REPORTS, "--list", &name]).await;
}

#[tokio::test]
async fn a_running_gateway_notices_a_reset() {
    let (stack, alice) = withholding().await;
    assert_eq!(listed(&alice).await, ["ask", "echo", "slow"]);
    let mut tools = changed();
    tools[0] = mk_tool("echo", "Echoes elsewhere.", &json!({}));
    tools.push(mk_tool("pay", "Pays.", &json!({})));
    stack.upstream.set_tools(tools);
    assert_eq!(listed(&alice).await, ["ask"]);
    expect(&stack, 0, &["reset", REPORTS, "--tool", "slow"]).await;
    until_served(&alice, "slow").await;
    // That one alone.
    assert_eq!(listed(&alice).await, ["ask", "slow"]);
    assert_refused(&alice, "echo").await;
    // And for good: the contract before is now the other one.
    stack.upstream.set_tools(hangar_tests::scripted::tools());
    assert_eq!(listed(&alice).await, ["ask", "echo"]);
    assert_refused(&alice, "slow").await;
    // The whole upstream: its next list is the first.
    stack.upstream.set_tools(more());
    let said = expect(&stack, 0, &["reset", REPORTS]).await;
    assert!(
        said.contains("forgotten: all tools of default/reports"),
        "{said}"
    );
    wait::eventually("all are pinned anew", async || {
        wait::same(&listed(&alice).await.len(), &4)
    })
    .await
    .unwrap();
    stack.upstream.set_tools(changed());
    assert_eq!(listed(&alice).await, ["ask", "echo"]);
}

#[tokio::test]
async fn what_cannot_be_done_says_what_and_where() {
    let (stack, alice) = start(|object| object).await;
    assert_eq!(listed(&alice).await, ["ask", "echo", "slow"]);
    // The answer is no.
    for args in [
        &["reset", REPORTS, "--tool", "nope"][..],
        &["reset", "default/nope"],
        &["reset", REPORTS, "--class", "another"],
    ] {
        let said = expect(&stack, 1, args).await;
        assert!(said.starts_with("error: nothing is pinned"), "{said}");
        assert!(
            said.contains("default/") && said.contains("check the names"),
            "{said}"
        );
    }
    assert_eq!(listed(&alice).await, ["ask", "echo", "slow"]);
    // Wrong usage.
    for (args, why) in [
        (&["diff", "default/nope"][..], "nothing is pinned"),
        (&["diff", REPORTS, "--tool", "nope"], "\"nope\""),
        (&["diff", "reports"], "NAMESPACE/NAME"),
        (&["diff", "--tool", "slow"], "NAMESPACE/NAME"),
        (&["reset"], "NAMESPACE/NAME"),
        (&["reset", "a/b/c"], "NAMESPACE/NAME"),
    ] {
        let said = expect(&stack, 2, args).await;
        assert!(said.contains(why), "{args:?}: {said}");
    }
    let absent = stack.folder().join("absent.db");
    let store = format!("sqlite:{}", absent.display());
    for args in [&["diff"][..], &["reset", REPORTS]] {
        let args = [&[args[0], "--store", &store], &args[1..]].concat();
        let ran = run_bare(stack.folder(), &args).await;
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.said.contains(&absent.display().to_string()), "{ran:?}");
    }
    assert!(!absent.exists(), "a look makes no ledger");
}
