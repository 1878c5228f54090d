//! The contract of a task's tool: what changes it, and what its change withholds.

#![cfg(test)]

use hangar_tests::client::Client;
use hangar_tests::manifests::Manifest;
use hangar_tests::scripted::{Answer, Gate, mk_tool, tools};
use hangar_tests::stack::{ALICE, Stack};
use hangar_tests::wait;
use hyper::StatusCode;
use serde_json::{Value, json};

const DRIFT: &str = "hangar_task_digest_drift_total";
const COMPLETED: &str = "hangar_tasks_completed_total";
const FAILED: &str = "hangar_tasks_failed_total";
const DRIFTED: i64 = -31003;

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
const PLAIN: &str = r#"{"name":"slow","title":"Slow","description":"Takes its time","inputSchema":{"type":"object","properties":{"n":{"type":"number","maximum":10}}},"outputSchema":{"type":"object"},"annotations":{"readOnlyHint":true},"icons":[{"src":"https://a.test/i.png"}],"x":null,"execution":{"taskSupport":"optional"}}"#;

#[tokio::test]
async fn a_contract_is_its_meaning_and_not_its_spelling() {
    let (stack, alice) = start().await;
    stack.upstream.script("tools/list", |_| list(PLAIN));
    let same = [
        PLAIN.to_owned(),
        PLAIN.replace("10", "1.0e1"),
        PLAIN.replace("Takes", "T\\u0061kes"),
        PLAIN.replace("\"name\"", "\"n\\u0061me\""),
        PLAIN.replace("\":", "\" :\t"),
        PLAIN.replace("optional", "required"),
        PLAIN.replace(r#","execution":{"taskSupport":"optional"}"#, ""),
        PLAIN
            .replace(r#""title":"Slow","#, "")
            .replace(r#""x":null"#, r#""x":null,"title":"Slow""#),
    ];
    for text in same {
        let task = begin(&alice).await;
        stack.upstream.complete(&task, "the-payload").unwrap();
        let text_of = text.clone();
        stack.upstream.script("tools/list", move |_| list(&text_of));
        let result = alice.get(&task).await.unwrap().result().unwrap();
        assert_eq!(result["status"], "completed", "{text}");
        stack.upstream.script("tools/list", |_| list(PLAIN));
    }
    let others = [
        ("slow\"", "slow2\""),
        ("\"Slow\"", "\"Slower\""),
        ("its time", "its  time"),
        ("\"number\"", "\"integer\""),
        ("10", "11"),
        (
            r#""outputSchema":{"type":"object"}"#,
            r#""outputSchema":{"type":"array"}"#,
        ),
        ("true", "false"),
        ("i.png", "j.png"),
        (r#""x":null"#, r#""x":0"#),
        (r#","x":null"#, ""),
        (r#""title":"Slow","#, ""),
    ];
    for (from, to) in others {
        let task = begin(&alice).await;
        stack.upstream.complete(&task, "the-payload").unwrap();
        let text = PLAIN.replacen(from, to, 1);
        assert_ne!(text, PLAIN, "{from}");
        stack.upstream.script("tools/list", move |_| list(&text));
        assert_drifted(&alice, &task).await;
        stack.upstream.script("tools/list", |_| list(PLAIN));
    }
}

#[tokio::test]
async fn drift_is_recorded_once_and_for_good() {
    let (stack, alice) = start().await;
    let task = begin(&alice).await;
    stack.upstream.set_tools(drifted());
    // Nothing to withhold yet, and nothing to conclude.
    alice.until(&task, "working").await.unwrap();
    stack.upstream.complete(&task, "the-payload").unwrap();
    for _ in 0..3 {
        assert_drifted(&alice, &task).await;
    }
    stack.upstream.set_tools(tools());
    assert_drifted(&alice, &task).await;
    stack.upstream.arrived("tasks/cancel", 1).await.unwrap();
    assert_eq!(stack.upstream.count("tasks/cancel"), 1);
    assert_eq!(
        stack.events(&task).await.unwrap(),
        [
            "TaskCreated",
            "DigestMismatchInTask",
            "TaskFailed(digest_drift)"
        ]
    );
    assert_eq!(stack.count(DRIFT, &[]).await.unwrap(), 1);
    assert_eq!(stack.count(FAILED, &[]).await.unwrap(), 1);
    assert_eq!(stack.count(COMPLETED, &[]).await.unwrap(), 0);
}

/// The contract changes while the answer is on its way.
#[tokio::test]
async fn a_change_behind_the_upstreams_answer_is_caught() {
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
async fn a_list_that_began_before_the_answer_vouches_for_nothing() {
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

/// Drift is latched though nobody waits for it any more.
#[tokio::test]
async fn drift_is_latched_when_its_client_is_gone() {
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
async fn drift_withholds_questions_and_errors_too() {
    let (stack, alice) = start().await;
    let (failed, asking) = (begin(&alice).await, begin(&alice).await);
    stack.upstream.ask(&asking, "key", "the-payload?").unwrap();
    alice.until(&asking, "input_required").await.unwrap();
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
    assert_eq!(stack.upstream.count("tasks/update"), 0);
    for task in [failed, asking] {
        assert_eq!(
            stack.events(&task).await.unwrap(),
            [
                "TaskCreated",
                "DigestMismatchInTask",
                "TaskFailed(digest_drift)"
            ]
        );
    }
}

/// An end that was delivered is not rewritten, and delivered no more.
#[tokio::test]
async fn drift_after_the_end_withholds_without_a_second_outcome() {
    let (stack, alice) = start().await;
    let task = begin(&alice).await;
    stack.upstream.complete(&task, "the-payload").unwrap();
    alice.until(&task, "completed").await.unwrap();
    stack.upstream.set_tools(drifted());
    for _ in 0..3 {
        let reply = alice.get(&task).await.unwrap();
        assert!(!String::from_utf8_lossy(&reply.body).contains("the-payload"));
        let message = reply.message().unwrap();
        assert_eq!(message["error"]["code"], -31002, "{message}");
        assert_eq!(message["error"]["data"]["status"], "completed");
    }
    assert_eq!(
        stack.events(&task).await.unwrap(),
        ["TaskCreated", "TaskCompleted", "DigestMismatchInTask"]
    );
    assert_eq!(stack.count(DRIFT, &[]).await.unwrap(), 1);
    assert_eq!(stack.count(FAILED, &[]).await.unwrap(), 0);
}

/// The upstream fails its list, or answers something else.
#[tokio::test]
async fn a_list_that_fails_three_times_counts_as_drift() {
    assert_unseen(vec![
        Answer::error(-32603, "no"),
        Answer::raw("").status(StatusCode::BAD_GATEWAY),
        Answer::raw("<html>"),
        Answer::hang_up(),
        Answer::built_in().cut_at(30),
    ])
    .await;
}

/// The list lacks the tool, is malformed, or its pages never end.
#[tokio::test]
async fn a_list_that_shows_no_contract_three_times_counts_as_drift() {
    let tool = mk_tool("paged", "On a page.", &json!({}));
    let pages = json!({"resultType": "complete", "tools": [tool], "nextCursor": "again"});
    assert_unseen(vec![
        list(r#"{"name":"another","inputSchema":{"type":"object"}}"#),
        list(""),
        list(&format!("{PLAIN},{PLAIN}")),
        Answer::result(&json!({"resultType": "complete", "tools": {}})),
        Answer::result(&pages),
    ])
    .await;
}

async fn assert_unseen(answers: Vec<Answer>) {
    let (stack, alice) = start().await;
    for (count, answer) in (1..).zip(answers) {
        stack.upstream.unscript("tools/list");
        let task = begin(&alice).await;
        stack.upstream.complete(&task, "the-payload").unwrap();
        let what = format!("{answer:?}");
        stack.upstream.script("tools/list", move |_| answer.clone());
        let looks = stack.upstream.count("tools/list");
        assert_drifted(&alice, &task).await;
        assert!(stack.upstream.count("tools/list") >= looks + 3, "{what}");
        assert_eq!(stack.count(DRIFT, &[]).await.unwrap(), count, "{what}");
        // For good.
        stack.upstream.unscript("tools/list");
        assert_drifted(&alice, &task).await;
    }
}

/// It is looked at again before anything is concluded.
#[tokio::test]
async fn a_list_that_fails_twice_is_looked_at_a_third_time() {
    let (stack, alice) = start().await;
    let task = begin(&alice).await;
    stack.upstream.complete(&task, "done").unwrap();
    stack.upstream.enqueue("tools/list", Answer::hang_up());
    stack.upstream.enqueue("tools/list", list(""));
    let done = alice.get(&task).await.unwrap().result().unwrap();
    assert_eq!(done["status"], "completed");
    assert_eq!(stack.count(DRIFT, &[]).await.unwrap(), 0);
}

/// An upstream that asks for patience does not fail anybody's task.
#[tokio::test]
async fn a_list_that_is_throttled_withholds_and_concludes_nothing() {
    let (stack, alice) = start().await;
    let task = begin(&alice).await;
    stack.upstream.complete(&task, "the-payload").unwrap();
    stack.upstream.script("tools/list", |_| {
        Answer::raw("").status(StatusCode::TOO_MANY_REQUESTS)
    });
    let reply = alice.get(&task).await.unwrap();
    assert!(!String::from_utf8_lossy(&reply.body).contains("the-payload"));
    assert_eq!(reply.error_code().unwrap(), -31001);
    assert_eq!(stack.count(DRIFT, &[]).await.unwrap(), 0);
    stack.upstream.unscript("tools/list");
    alice.until(&task, "completed").await.unwrap();
}

#[tokio::test]
async fn a_wrong_pin_refuses_the_first_call_and_every_later_one() {
    let wrong = format!("sha256:{}", "0".repeat(64));
    let pinned = |object: Manifest| match object.value()["kind"].as_str() {
        Some("McpUpstream") => object.set("/spec/tools/pins", json!({"slow": [wrong]})),
        _ => object,
    };
    let stack = Stack::start_with(pinned).await.unwrap();
    let alice = stack.client(ALICE);
    for _ in 0..3 {
        let reply = alice.call("slow", json!({})).await.unwrap();
        assert_eq!(reply.error_code().unwrap(), DRIFTED);
        let reply = alice.call_sync("slow", json!({})).await.unwrap();
        assert_eq!(reply.error_code().unwrap(), DRIFTED);
    }
    assert_eq!(stack.upstream.count("tools/call"), 0);
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

#[tokio::test]
async fn a_task_keeps_the_contract_that_it_was_born_with() {
    let stack = Stack::start_with(|object| pinning(object, &json!({"mode": "Disabled"})))
        .await
        .unwrap();
    let alice = stack.client(ALICE);
    let (unpinned, old) = (begin(&alice).await, begin(&alice).await);
    stack.upstream.set_tools(drifted());
    // Without pins a call relies on what is listed now. The list of a minute ago will not do.
    alice.list_tools().await.unwrap().result().unwrap();
    let new = begin(&alice).await;
    stack.upstream.complete(&unpinned, "the-payload").unwrap();
    assert_drifted(&alice, &unpinned).await;

    // Both contracts become approved ones; a task is bound to the one all the same.
    let pins = [digest_of(&stack, &old).await, digest_of(&stack, &new).await];
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
    for task in [&old, &new] {
        stack.upstream.complete(task, "the-payload").unwrap();
    }
    assert_drifted(&alice, &old).await;
    alice.until(&new, "completed").await.unwrap();
    begin(&alice).await;
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

#[tokio::test]
async fn many_polls_at_once_share_their_lists() {
    const POLLS: usize = 200;
    // One tenant of two has half of the places.
    let roomy = |object: Manifest| match object.value()["kind"].as_str() {
        Some("McpUpstream") => object.set("/spec/limits/maxConcurrent", json!(2 * POLLS)),
        _ => object,
    };
    let stack = Stack::start_with(roomy).await.unwrap();
    let alice = stack.client(ALICE);
    // A task for each: polls of one task would be asked for together.
    let mut tasks = Vec::new();
    for _ in 0..POLLS {
        let task = begin(&alice).await;
        stack.upstream.complete(&task, "done").unwrap();
        tasks.push(task);
    }
    let gate = Gate::new();
    stack.upstream.script("tasks/get", {
        let gate = gate.clone();
        move |_| Answer::built_in().held(&gate)
    });
    let lists = stack.upstream.count("tools/list");
    let polls: Vec<_> = tasks
        .into_iter()
        .map(|task| {
            let alice = alice.clone();
            tokio::spawn(async move { alice.get(&task).await })
        })
        .collect();
    gate.reached(POLLS).await.unwrap();
    gate.open();
    for poll in polls {
        let done = poll.await.unwrap().unwrap().result().unwrap();
        assert_eq!(done["status"], "completed");
    }
    let lists = stack.upstream.count("tools/list") - lists;
    assert!((1..=POLLS / 4).contains(&lists), "{lists} lists");
    assert_eq!(stack.count(COMPLETED, &[]).await.unwrap(), POLLS as u64);
}
