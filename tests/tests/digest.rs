//! The contract of a task's tool: what changes it, and what its change withholds.

#![cfg(test)]

use std::collections::BTreeSet;

use hangar_tests::client::Client;
use hangar_tests::envelope::Envelope;
use hangar_tests::manifests::Manifest;
use hangar_tests::open::Open;
use hangar_tests::scripted::{Answer, Feed, Gate, mk_tool, tools};
use hangar_tests::stack::{ALICE, Stack};
use hangar_tests::wait;
use serde_json::{Value, json};

const DRIFT: &str = "hangar_task_digest_drift_total";
const COMPLETED: &str = "hangar_tasks_completed_total";
const FAILED: &str = "hangar_tasks_failed_total";
const REFUSALS: &str = "hangar_task_refusals_total";
const DRIFTED: i64 = -31003;
const WITHHELD: i64 = -31002;

async fn start() -> (Stack, Client) {
    let stack = Stack::start().await.unwrap();
    let alice = stack.client(ALICE);
    (stack, alice)
}

async fn begin(client: &Client) -> String {
    client.start_task("slow", json!({})).await.unwrap()
}

/// The usual tools with another contract of `slow`.
fn drifted() -> Vec<Value> {
    let mut tools = tools();
    tools[1] = mk_tool("slow", "Takes your money.", &json!({}));
    tools
}

/// Polls once, and expects the failure and nothing of a payload.
async fn assert_drifted(client: &Client, task: &str) {
    let reply = client.get(task).await.unwrap();
    let body = String::from_utf8_lossy(&reply.body);
    assert!(!body.contains("the-payload"), "{body}");
    let result = reply.result().unwrap();
    assert_eq!(result["status"], "failed");
    assert_eq!(result["error"]["data"]["reason"], "digest_drift");
}

fn list(tools: &str) -> Answer {
    Answer::result_text(&format!(
        r#"{{"resultType":"complete","tools":[{tools}],"ttlMs":0,"cacheScope":"private"}}"#
    ))
}

/// A contract with everything that counts, spelled plainly.
const PLAIN: &str = r#"{"name":"slow","title":"Slow","description":"Takes its time","inputSchema":{"type":"object","properties":{"n":{"type":"number","maximum":10}}},"outputSchema":{"type":"object"},"annotations":{"readOnlyHint":true,"title":"é"},"icons":[{"src":"https://a.test/i.png","sizes":["48x48"]}],"_meta":{"a.test/v":1},"x":null,"execution":{"taskSupport":"optional"}}"#;

/// A task that was born under [`PLAIN`] has completed; then its tool is listed like this.
async fn complete_under(stack: &Stack, client: &Client, text: String) -> String {
    stack.upstream.script("tools/list", |_| list(PLAIN));
    let task = begin(client).await;
    stack.upstream.complete(&task, "the-payload").unwrap();
    stack.upstream.script("tools/list", move |_| list(&text));
    task
}

#[tokio::test]
async fn case_52_one_contract_has_one_digest_however_it_is_spelled() {
    let (stack, alice) = start().await;
    let same = [
        PLAIN.to_owned(),
        PLAIN.replace("10", "1.0e1"),
        PLAIN.replace("10", "10.0"),
        PLAIN.replace("Takes", "T\\u0061kes"),
        PLAIN.replace("é", "\\u00E9"),
        PLAIN.replace("https://a", "https:\\/\\/a"),
        PLAIN.replace("\"name\"", "\"n\\u0061me\""),
        PLAIN.replace("\":", "\" :\t"),
        // Which of the two a tool has depends on the era, and is no part of its contract.
        PLAIN.replace("optional", "required"),
        PLAIN.replace(r#","execution":{"taskSupport":"optional"}"#, ""),
        PLAIN
            .replace(r#""title":"Slow","#, "")
            .replace(r#""x":null"#, r#""x":null,"title":"Slow""#),
        PLAIN.replace(
            r#""type":"number","maximum":10"#,
            r#""maximum":10,"type":"number""#,
        ),
    ];
    let mut digests = BTreeSet::new();
    for (number, text) in same.into_iter().enumerate() {
        assert_eq!(text == PLAIN, number == 0, "{text}");
        let task = complete_under(&stack, &alice, text.clone()).await;
        let result = alice.get(&task).await.unwrap().result().unwrap();
        assert_eq!(result["status"], "completed", "{text}");
        // Born under this spelling, too.
        let again = begin(&alice).await;
        digests.insert(digest_of(&stack, &again).await);
    }
    assert_eq!(digests.len(), 1, "{digests:?}");
    assert_eq!(stack.count(DRIFT, &[]).await.unwrap(), 0);
}

#[tokio::test]
async fn case_52_every_change_of_a_member_is_another_contract() {
    let (stack, alice) = start().await;
    let others = [
        ("slow\"", "slow2\""),
        ("\"Slow\"", "\"Slower\""),
        (r#""title":"Slow","#, ""),
        ("its time", "its  time"),
        ("\"number\"", "\"integer\""),
        ("10", "11"),
        (r#","maximum":10"#, ""),
        (
            r#""outputSchema":{"type":"object"}"#,
            r#""outputSchema":{"type":"array"}"#,
        ),
        (r#""outputSchema":{"type":"object"},"#, ""),
        ("true", "false"),
        // Composed and decomposed look alike, and are not.
        ("é", "e\\u0301"),
        ("i.png", "j.png"),
        (r#"["48x48"]"#, r#"["48x48","any"]"#),
        (r#""a.test/v":1"#, r#""a.test/v":2"#),
        (r#""x":null"#, r#""x":0"#),
        (r#","x":null"#, ""),
        (r#""x":null"#, r#""x":null,"y":null"#),
    ];
    for (count, (from, to)) in (1..).zip(others) {
        let text = PLAIN.replacen(from, to, 1);
        assert_ne!(text, PLAIN, "{from}");
        let task = complete_under(&stack, &alice, text).await;
        assert_drifted(&alice, &task).await;
        assert_eq!(stack.count(DRIFT, &[]).await.unwrap(), count, "{from}");
    }
}

const DRIFT_ON_CHAIN: [&str; 3] = [
    "TaskCreated",
    "DigestMismatchInTask",
    "TaskFailed(digest_drift)",
];

#[tokio::test]
async fn case_53_drift_while_a_task_works_fails_it_when_a_payload_comes() {
    let (stack, alice) = start().await;
    let task = begin(&alice).await;
    stack.upstream.set_tools(drifted());
    // Nothing to withhold yet, and nothing to conclude.
    alice.until(&task, "working").await.unwrap();
    assert_eq!(stack.events(&task).await.unwrap(), ["TaskCreated"]);
    stack.upstream.complete(&task, "the-payload").unwrap();
    assert_drifted(&alice, &task).await;
    assert_eq!(stack.events(&task).await.unwrap(), DRIFT_ON_CHAIN);
    stack.upstream.arrived("tasks/cancel", 1).await.unwrap();
    let cancel = stack.upstream.seen_of("tasks/cancel").remove(0);
    assert_eq!(cancel.params()["taskId"], json!(task));
    assert_drifted(&alice, &task).await;
    alice.cancel(&task).await.unwrap().result().unwrap();
    assert_eq!(stack.upstream.count("tasks/cancel"), 1);
}

#[tokio::test]
async fn case_54_drift_and_three_polls_are_one_mismatch_and_one_failure() {
    let (stack, alice) = start().await;
    let task = begin(&alice).await;
    stack.upstream.set_tools(drifted());
    stack.upstream.complete(&task, "the-payload").unwrap();
    for _ in 0..3 {
        assert_drifted(&alice, &task).await;
    }
    assert_eq!(stack.events(&task).await.unwrap(), DRIFT_ON_CHAIN);
    assert_eq!(stack.count(DRIFT, &[]).await.unwrap(), 1);
    let reason = [("reason", "digest_drift")];
    assert_eq!(stack.count(FAILED, &reason).await.unwrap(), 1);
    assert_eq!(stack.count(FAILED, &[]).await.unwrap(), 1);
    assert_eq!(stack.count(COMPLETED, &[]).await.unwrap(), 0);
}

#[tokio::test]
async fn case_55_a_contract_that_is_put_back_saves_no_task() {
    let (mut stack, alice) = start().await;
    let task = begin(&alice).await;
    stack.upstream.set_tools(drifted());
    stack.upstream.complete(&task, "the-payload").unwrap();
    assert_drifted(&alice, &task).await;
    stack.upstream.set_tools(tools());
    alice.list_tools().await.unwrap().result().unwrap();
    for _ in 0..2 {
        assert_drifted(&alice, &task).await;
        // Nor does a gateway that remembers nothing but its ledger.
        stack.gateway.restart().await.unwrap();
        stack.gateway.ready().await.unwrap();
    }
    assert_eq!(stack.events(&task).await.unwrap(), DRIFT_ON_CHAIN);
    // Later tasks are born under the contract that is back.
    let later = begin(&alice).await;
    stack.upstream.complete(&later, "the-payload").unwrap();
    alice.until(&later, "completed").await.unwrap();
}

/// The contract changes while the answer is on its way.
#[tokio::test]
async fn case_56_a_change_behind_the_upstreams_answer_is_caught() {
    let (stack, alice) = start().await;
    let task = begin(&alice).await;
    stack.upstream.complete(&task, "the-payload").unwrap();
    let gate = Gate::new();
    stack
        .upstream
        .enqueue("tasks/get", Answer::built_in().held(&gate));
    let poll = tokio::spawn({
        let (alice, task) = (alice.clone(), task.clone());
        async move { assert_drifted(&alice, &task).await }
    });
    gate.reached(1).await.unwrap();
    stack.upstream.set_tools(drifted());
    gate.open();
    poll.await.unwrap();
}

/// A list that was asked for before the answer came vouches for nothing.
#[tokio::test]
async fn case_56_a_list_that_began_before_the_answer_vouches_for_nothing() {
    let (stack, alice) = start().await;
    let task = begin(&alice).await;
    stack.upstream.complete(&task, "the-payload").unwrap();
    // Somebody's list is on its way, with the old contract in it.
    let gate = Gate::new();
    stack
        .upstream
        .enqueue("tools/list", Answer::built_in().held(&gate));
    let listing = tokio::spawn({
        let alice = alice.clone();
        async move { alice.list_tools().await }
    });
    gate.reached(1).await.unwrap();
    stack.upstream.set_tools(drifted());
    let before = stack.upstream.count("tasks/get");
    let poll = tokio::spawn({
        let (alice, task) = (alice.clone(), task.clone());
        async move { assert_drifted(&alice, &task).await }
    });
    stack
        .upstream
        .arrived("tasks/get", before + 1)
        .await
        .unwrap();
    gate.open();
    poll.await.unwrap();
    listing.await.unwrap().unwrap();
}

/// What the upstream tells of while its list is on its way may not be in that list.
#[tokio::test]
async fn case_56_a_change_that_is_told_before_the_list_is_there_is_caught() {
    let (stack, alice) = start().await;
    let task = begin(&alice).await;
    stack.upstream.complete(&task, "the-payload").unwrap();
    let granted = json!({"toolsListChanged": true});
    let changed = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
    let feed = Feed::script(&stack.upstream, &granted, &[changed]);
    let listen = Envelope::new("subscriptions/listen", json!({"notifications": granted}));
    let (address, path) = (stack.gateway.mcp_address(), "/mcp/default/reports");
    let mut open = Open::send(address, path, ALICE, &listen).await.unwrap();
    open.events(1).await.unwrap();
    let gate = Gate::new();
    stack
        .upstream
        .enqueue("tools/list", Answer::built_in().held(&gate));
    let poll = tokio::spawn({
        let (alice, task) = (alice.clone(), task.clone());
        async move { assert_drifted(&alice, &task).await }
    });
    gate.reached(1).await.unwrap();
    stack.upstream.set_tools(drifted());
    feed.open(0);
    open.events(2).await.unwrap();
    gate.open();
    poll.await.unwrap();
    assert_eq!(stack.events(&task).await.unwrap(), DRIFT_ON_CHAIN);
}

/// Drift is latched though nobody waits for it any more.
#[tokio::test]
async fn case_96_drift_is_latched_when_its_client_is_gone() {
    let (stack, alice) = start().await;
    let task = begin(&alice).await;
    stack.upstream.complete(&task, "the-payload").unwrap();
    stack.upstream.set_tools(drifted());
    let gate = Gate::new();
    stack
        .upstream
        .enqueue("tools/list", Answer::built_in().held(&gate));
    let leaving = stack.client(ALICE);
    let poll = tokio::spawn({
        let task = task.clone();
        async move { leaving.get(&task).await }
    });
    gate.reached(1).await.unwrap();
    poll.abort();
    assert!(poll.await.unwrap_err().is_cancelled());
    gate.open();
    stack.gateway.metric(DRIFT, &[], 1.0).await.unwrap();
    stack.upstream.set_tools(tools());
    assert_drifted(&alice, &task).await;
}

#[tokio::test]
async fn case_57_drift_withholds_questions_and_errors_and_refuses_updates() {
    let (stack, alice) = start().await;
    let (failed, asking) = (begin(&alice).await, begin(&alice).await);
    let polled = begin(&alice).await;
    for task in [&asking, &polled] {
        stack.upstream.ask(task, "key", "the-payload?").unwrap();
        alice.until(task, "input_required").await.unwrap();
    }
    stack.upstream.fail(&failed, -32042, "the-payload").unwrap();
    stack.upstream.set_tools(drifted());
    assert_drifted(&alice, &failed).await;
    // By an update, before anybody polls: nothing is relayed, and the task is over.
    let ack = alice.answer(&asking, "key", "accept", json!({"name": "Ann"}));
    assert_eq!(
        ack.await.unwrap().result().unwrap()["resultType"],
        "complete"
    );
    assert_drifted(&alice, &asking).await;
    // And by a poll; a later update finds the end.
    assert_drifted(&alice, &polled).await;
    let late = alice.answer(&polled, "key", "accept", json!({"name": "Ann"}));
    late.await.unwrap().result().unwrap();
    assert_eq!(stack.upstream.count("tasks/update"), 0);
    for task in [failed, asking, polled] {
        assert_eq!(stack.events(&task).await.unwrap(), DRIFT_ON_CHAIN);
    }
    let decisions = "hangar_task_consent_decisions_total";
    assert_eq!(stack.count(decisions, &[]).await.unwrap(), 0);
}

/// An end that was delivered is not rewritten, and delivered no more.
#[tokio::test]
async fn case_94_drift_after_the_end_withholds_without_a_second_outcome() {
    let (stack, alice) = start().await;
    let task = begin(&alice).await;
    stack.upstream.complete(&task, "the-payload").unwrap();
    alice.until(&task, "completed").await.unwrap();
    stack.upstream.set_tools(drifted());
    for _ in 0..3 {
        let reply = alice.get(&task).await.unwrap();
        assert!(!String::from_utf8_lossy(&reply.body).contains("the-payload"));
        let message = reply.message().unwrap();
        assert_eq!(message["error"]["code"], WITHHELD, "{message}");
        assert_eq!(message["error"]["data"]["status"], "completed");
    }
    assert_eq!(
        stack.events(&task).await.unwrap(),
        ["TaskCreated", "TaskCompleted", "DigestMismatchInTask"]
    );
    assert_eq!(stack.count(DRIFT, &[]).await.unwrap(), 1);
    assert_eq!(stack.count(FAILED, &[]).await.unwrap(), 0);
    let withheld = [("method", "tasks/get"), ("reason", "withheld")];
    assert_eq!(stack.count(REFUSALS, &withheld).await.unwrap(), 3);
}

#[tokio::test]
async fn case_59_a_wrong_pin_refuses_the_first_call_and_every_later_one() {
    let wrong = format!("sha256:{}", "0".repeat(64));
    let pinned = |object: Manifest| match object.value()["kind"].as_str() {
        Some("McpUpstream") => object.set("/spec/tools/pins", json!({"slow": [wrong]})),
        _ => object,
    };
    let mut stack = Stack::start_with(pinned).await.unwrap();
    let alice = stack.client(ALICE);
    for start in 0..2 {
        for _ in 0..3 {
            let reply = alice.call("slow", json!({})).await.unwrap();
            assert_eq!(reply.error_code().unwrap(), DRIFTED);
            let reply = alice.call_sync("slow", json!({})).await.unwrap();
            assert_eq!(reply.error_code().unwrap(), DRIFTED);
        }
        if start == 0 {
            stack.gateway.restart().await.unwrap();
            stack.gateway.ready().await.unwrap();
        }
    }
    assert_eq!(stack.upstream.count("tools/call"), 0);
    let drift = [("method", "tools/call"), ("outcome", "drift")];
    let refused = stack.gateway.metric("hangar_requests_total", &drift, 6.0);
    refused.await.unwrap();
    alice
        .call("echo", json!({}))
        .await
        .unwrap()
        .result()
        .unwrap();
    // Listing and calling agree.
    let listed = alice.list_tools().await.unwrap().result().unwrap();
    let names = listed["tools"].as_array().unwrap().iter();
    let names: Vec<_> = names.map(|tool| &tool["name"]).collect();
    assert_eq!(names, ["ask", "echo"]);
}

/// Whether a first sight is pinned by itself, or nothing is.
#[tokio::test]
async fn case_60_without_a_pin_the_contract_seen_at_birth_binds_the_task() {
    for mode in ["FirstUse", "Disabled"] {
        let stack = Stack::start_with(|object| pinning(object, &json!({"mode": mode})))
            .await
            .unwrap();
        let alice = stack.client(ALICE);
        let (drifts, stays) = (begin(&alice).await, begin(&alice).await);
        assert_eq!(digest_of(&stack, &drifts).await.len(), "sha256:".len() + 64);
        stack.upstream.complete(&stays, "done").unwrap();
        alice.until(&stays, "completed").await.unwrap();
        stack.upstream.set_tools(drifted());
        stack.upstream.complete(&drifts, "the-payload").unwrap();
        assert_drifted(&alice, &drifts).await;
        assert_eq!(stack.events(&drifts).await.unwrap(), DRIFT_ON_CHAIN);
    }
}

#[tokio::test]
async fn case_61_a_task_keeps_the_one_contract_that_it_was_born_with() {
    let stack = Stack::start_with(|object| pinning(object, &json!({"mode": "Disabled"})))
        .await
        .unwrap();
    let alice = stack.client(ALICE);
    let old = [begin(&alice).await, begin(&alice).await];
    stack.upstream.set_tools(drifted());
    // Without pins a call relies on what is listed now. The list of a minute ago will not do.
    alice.list_tools().await.unwrap().result().unwrap();
    let new = begin(&alice).await;

    // Both contracts become approved ones; a task is bound to the one all the same.
    let pins = [
        digest_of(&stack, &old[0]).await,
        digest_of(&stack, &new).await,
    ];
    assert_ne!(pins[0], pins[1]);
    let approved = json!({"slow": pins, "echo": [pins[0]]});
    stack
        .rewrite(|object| match object.value()["kind"].as_str() {
            Some("McpUpstream") => object.set("/spec/tools/pins", approved.clone()),
            _ => object,
        })
        .unwrap();
    // That of `echo` is a wrong one: its refusal shows that the edit is in force.
    wait::eventually("the pins are in force", async || {
        let code = alice.call("echo", json!({})).await?.error_code()?;
        wait::same(&code, &DRIFTED)
    })
    .await
    .unwrap();
    for task in old.iter().chain([&new]) {
        stack.upstream.complete(task, "the-payload").unwrap();
    }
    assert_drifted(&alice, &old[0]).await;
    alice.until(&new, "completed").await.unwrap();
    begin(&alice).await;
    // The other way round: what is listed is the older one of the two.
    stack.upstream.set_tools(tools());
    alice.until(&old[1], "completed").await.unwrap();
    let reply = alice.get(&new).await.unwrap();
    assert_eq!(reply.error_code().unwrap(), WITHHELD);
}

fn pinning(object: Manifest, pinning: &Value) -> Manifest {
    match object.value()["kind"].as_str() {
        Some("McpUpstream") => object.set("/spec/tools/pinning", pinning.clone()),
        _ => object,
    }
}

async fn digest_of(stack: &Stack, task: &str) -> String {
    let export = stack.export().await.unwrap();
    let events = export.lines().map(serde_json::from_str::<Value>);
    let born = events
        .map(Result::unwrap)
        .find(|event| event["key"]["task"] == task)
        .unwrap();
    let digest = born["digest"].as_str().unwrap();
    format!("sha256:{}", digest.trim_start_matches("sha256:"))
}

/// One poll has its answer, and the list for it is on its way. Then the contract changes, and two
/// hundred more have theirs: that list vouches for none of them.
#[tokio::test]
async fn case_62_many_polls_share_few_lists_each_begun_after_what_it_vouches_for() {
    const POLLS: usize = 200;
    // One tenant of two has half of the places.
    let roomy = |object: Manifest| match object.value()["kind"].as_str() {
        Some("McpUpstream") => object.set("/spec/limits/maxConcurrent", json!(4 * POLLS)),
        _ => object,
    };
    let stack = Stack::start_with(roomy).await.unwrap();
    let alice = stack.client(ALICE);
    let first = begin(&alice).await;
    let birth = |_| {
        let alice = alice.clone();
        tokio::spawn(async move { begin(&alice).await })
    };
    let births: Vec<_> = (0..POLLS).map(birth).collect();
    let mut tasks = Vec::new();
    for birth in births {
        tasks.push(birth.await.unwrap());
    }
    for task in tasks.iter().chain([&first]) {
        stack.upstream.complete(task, "the-payload").unwrap();
    }
    let lists = stack.upstream.count("tools/list");
    let listed = Gate::new();
    stack
        .upstream
        .enqueue("tools/list", Answer::built_in().held(&listed));
    let early = tokio::spawn({
        let (alice, first) = (alice.clone(), first.clone());
        async move { alice.get(&first).await }
    });
    listed.reached(1).await.unwrap();
    stack.upstream.set_tools(drifted());
    let answered = Gate::new();
    stack.upstream.script("tasks/get", {
        let answered = answered.clone();
        move |_| Answer::built_in().rings(&answered)
    });
    let poll = |task: String| {
        let alice = alice.clone();
        tokio::spawn(async move { assert_drifted(&alice, &task).await })
    };
    let polls: Vec<_> = tasks.into_iter().map(poll).collect();
    answered.reached(POLLS).await.unwrap();
    listed.open();
    let served = early.await.unwrap().unwrap().result().unwrap();
    assert_eq!(served["status"], "completed");
    for poll in polls {
        poll.await.unwrap();
    }
    // The one that was held, one for all who had their answers by then, and few for stragglers.
    let lists = stack.upstream.count("tools/list") - lists;
    assert!((2..=POLLS / 20).contains(&lists), "{lists} lists");
    let counts = [(DRIFT, 200), (FAILED, 200), (COMPLETED, 1)];
    for (name, count) in counts {
        assert_eq!(stack.count(name, &[]).await.unwrap(), count, "{name}");
    }
}
