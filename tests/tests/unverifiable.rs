//! Contracts that cannot be seen: what counts as drift, and what is concluded from nothing.

#![cfg(test)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hangar_tests::client::Client;
use hangar_tests::manifests::Manifest;
use hangar_tests::scripted::{Answer, Gate, Seen, mk_tool, tools};
use hangar_tests::stack::{ALICE, Stack};
use hangar_tests::wait;
use hyper::StatusCode;
use serde_json::{Value, json};

const DRIFT: &str = "hangar_task_digest_drift_total";
const UNAVAILABLE: i64 = -31001;
const LOOKS: usize = 3;

type Script = Box<dyn Fn(&Seen) -> Answer + Send + Sync>;

/// A task that has completed, and whose payload nobody has asked for yet.
async fn done(stack: &Stack, client: &Client) -> String {
    stack.upstream.unscript("tools/list");
    let task = client.start_task("slow", json!({})).await.unwrap();
    stack.upstream.complete(&task, "the-payload").unwrap();
    task
}

/// Polls once; the body has nothing of the payload.
async fn poll(client: &Client, task: &str) -> Value {
    let reply = client.get(task).await.unwrap();
    let body = String::from_utf8_lossy(&reply.body);
    assert!(!body.contains("the-payload"), "{body}");
    reply.message().unwrap()
}

fn assert_drifted(message: &Value, what: &str) {
    let task = &message["result"];
    assert_eq!(task["status"], "failed", "{what}: {message}");
    assert_eq!(task["error"]["data"]["reason"], "digest_drift", "{what}");
}

fn listed(tools: &[Value], next: Option<&str>) -> Answer {
    let mut page = json!({
        "resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "private",
    });
    if let Some(next) = next {
        page["nextCursor"] = json!(next);
    }
    Answer::result(&page)
}

fn cursor(seen: &Seen) -> Option<String> {
    seen.params()["cursor"].as_str().map(str::to_owned)
}

/// Each is looked at three times within one request, and is drift then, for good.
async fn assert_unseen(scripts: Vec<(&str, Script)>) {
    let stack = Stack::start().await.unwrap();
    let alice = stack.client(ALICE);
    for (count, (what, script)) in (1..).zip(scripts) {
        let task = done(&stack, &alice).await;
        stack.upstream.script("tools/list", script);
        let looks = stack.upstream.count("tools/list");
        assert_drifted(&poll(&alice, &task).await, what);
        let looks = stack.upstream.seen_of("tools/list").split_off(looks);
        let begun = looks.iter().filter(|seen| cursor(seen).is_none());
        assert_eq!(begun.count(), LOOKS, "{what}");
        assert_eq!(stack.count(DRIFT, &[]).await.unwrap(), count, "{what}");
        assert_eq!(
            stack.events(&task).await.unwrap(),
            [
                "TaskCreated",
                "DigestMismatchInTask",
                "TaskFailed(digest_drift)"
            ],
            "{what}"
        );
        stack.upstream.unscript("tools/list");
        assert_drifted(&poll(&alice, &task).await, what);
    }
}

fn always(answer: Answer) -> Script {
    Box::new(move |_| answer.clone())
}

#[tokio::test]
async fn case_58_a_list_that_fails_at_its_upstream_three_times_is_drift() {
    assert_unseen(vec![
        ("error", always(Answer::error(-32603, "no"))),
        (
            "status",
            always(Answer::raw("").status(StatusCode::BAD_GATEWAY)),
        ),
        ("no JSON", always(Answer::raw("<html>"))),
        ("closed", always(Answer::hang_up())),
        ("cut", always(Answer::built_in().cut_at(30))),
    ])
    .await;
}

#[tokio::test]
async fn case_58_a_list_that_lacks_the_tool_or_is_malformed_three_times_is_drift() {
    let others: Vec<_> = tools()
        .into_iter()
        .filter(|tool| tool["name"] != "slow")
        .collect();
    let mut nameless = tools();
    nameless.push(mk_tool("", "Nobody.", &json!({})));
    // A parser that takes this for its own would see something else than a client.
    let mut private = mk_tool("slow", "Takes its time.", &json!({}));
    private["x"] = json!({"$serde_json::private::Number": "1"});
    let doubled = r#"{"resultType":"complete","tools":[{"name":"slow","name":"slow"}]}"#;
    assert_unseen(vec![
        ("lacks it", always(listed(&others, None))),
        ("empty", always(listed(&[], None))),
        ("no name", always(listed(&nameless, None))),
        ("a key twice", always(Answer::result_text(doubled))),
        ("another reader's key", always(listed(&[private], None))),
        (
            "no list",
            always(Answer::result(
                &json!({"resultType": "complete", "tools": {}}),
            )),
        ),
    ])
    .await;
}

#[tokio::test]
async fn case_58_a_list_that_pages_inconsistently_three_times_is_drift() {
    let other = mk_tool("slow", "Takes your money.", &json!({}));
    let pages = AtomicUsize::new(0);
    assert_unseen(vec![
        ("one cursor for ever", always(listed(&[], Some("again")))),
        (
            "new cursors for ever",
            Box::new(move |_| {
                let page = pages.fetch_add(1, Ordering::Relaxed);
                listed(&[], Some(&page.to_string()))
            }),
        ),
        (
            "a cursor that is no text",
            always(Answer::result(
                &json!({"resultType": "complete", "tools": tools(), "nextCursor": 7}),
            )),
        ),
        (
            "one tool on two pages",
            Box::new(move |seen| match cursor(seen) {
                None => listed(&tools(), Some("2")),
                Some(_) => listed(std::slice::from_ref(&other), None),
            }),
        ),
        (
            // As when it is moved while the list is being read.
            "a tool on no page",
            Box::new(|seen| match cursor(seen) {
                None => listed(&tools()[..1], Some("2")),
                Some(_) => listed(&tools()[2..], None),
            }),
        ),
        (
            "a second page that fails",
            Box::new(|seen| match cursor(seen) {
                None => listed(&tools(), Some("2")),
                Some(_) => Answer::error(-32602, "unknown cursor"),
            }),
        ),
    ])
    .await;
}

/// How a list is cut into pages is no part of a contract.
#[tokio::test]
async fn a_list_in_pages_shows_the_same_contracts() {
    let stack = Stack::start().await.unwrap();
    let alice = stack.client(ALICE);
    let task = done(&stack, &alice).await;
    stack
        .upstream
        .script("tools/list", |seen| match cursor(seen).as_deref() {
            None => listed(&tools()[..1], Some("")),
            Some("") => listed(&[], Some("x")),
            Some(_) => listed(&tools()[1..], None),
        });
    alice.until(&task, "completed").await.unwrap();
    assert_eq!(stack.count(DRIFT, &[]).await.unwrap(), 0);
}

/// A look ends after two seconds; three of them fit into one poll on a machine that is not busy.
#[tokio::test]
async fn case_58_a_list_that_never_comes_is_drift() {
    let stack = Stack::start().await.unwrap();
    let alice = stack.client(ALICE);
    let task = done(&stack, &alice).await;
    let never = Gate::new();
    stack.upstream.script("tools/list", {
        let never = never.clone();
        move |_| Answer::built_in().held(&never)
    });
    wait::eventually("drift", async || {
        let message = poll(&alice, &task).await;
        if message["error"]["code"] == UNAVAILABLE {
            anyhow::bail!("no time was left: {message}");
        }
        assert_drifted(&message, "silent");
        Ok(())
    })
    .await
    .unwrap();
    assert!(never.count() >= LOOKS);
    never.open();
    assert_drifted(&poll(&alice, &task).await, "latched");
}

/// It is looked at again before anything is concluded, for each task on its own.
#[tokio::test]
async fn case_58_a_list_that_fails_twice_is_looked_at_a_third_time() {
    let stack = Stack::start().await.unwrap();
    let alice = stack.client(ALICE);
    for _ in 0..2 {
        let task = done(&stack, &alice).await;
        let looks = Arc::new(AtomicUsize::new(0));
        stack.upstream.script("tools/list", {
            let looks = Arc::clone(&looks);
            move |_| match looks.fetch_add(1, Ordering::Relaxed) {
                0 => Answer::hang_up(),
                1 => listed(&[], None),
                _ => Answer::built_in(),
            }
        });
        let served = alice.get(&task).await.unwrap().result().unwrap();
        assert_eq!(served["status"], "completed");
        assert_eq!(looks.load(Ordering::Relaxed), LOOKS);
    }
    assert_eq!(stack.count(DRIFT, &[]).await.unwrap(), 0);
}

/// A wish to be asked later, a credential that is refused, a bound: nothing of it is about the tool.
#[tokio::test]
async fn case_58_a_list_that_fails_for_a_cause_of_ours_withholds_and_concludes_nothing() {
    let bounded = |object: Manifest| match object.value()["kind"].as_str() {
        Some("McpUpstream") => object.set("/spec/limits/maxResponseBytes", json!("64Ki")),
        _ => object,
    };
    let stack = Stack::start_with(bounded).await.unwrap();
    let alice = stack.client(ALICE);
    let task = done(&stack, &alice).await;
    let large = mk_tool("large", &"x".repeat(65 << 10), &json!({}));
    let pages = ["half", "rest"].map(|name| mk_tool(name, &"x".repeat(40 << 10), &json!({})));
    let causes: Vec<(&str, Script)> = vec![
        (
            "throttled",
            always(Answer::raw("").status(StatusCode::TOO_MANY_REQUESTS)),
        ),
        (
            "credential",
            always(Answer::raw("").status(StatusCode::UNAUTHORIZED)),
        ),
        (
            "credential, in JSON",
            always(Answer::error(-32600, "no").status(StatusCode::FORBIDDEN)),
        ),
        ("too large", always(listed(&[large], None))),
        (
            "too large together",
            Box::new(move |seen| match cursor(seen) {
                None => listed(&pages[..1], Some("2")),
                Some(_) => listed(&pages[1..], None),
            }),
        ),
    ];
    for (what, script) in causes {
        stack.upstream.script("tools/list", script);
        let message = poll(&alice, &task).await;
        assert_eq!(message["error"]["code"], UNAVAILABLE, "{what}: {message}");
        assert_eq!(message["error"]["data"]["status"], "completed", "{what}");
        assert_eq!(stack.count(DRIFT, &[]).await.unwrap(), 0, "{what}");
    }
    assert_eq!(stack.events(&task).await.unwrap(), ["TaskCreated"]);
    stack.upstream.unscript("tools/list");
    alice.until(&task, "completed").await.unwrap();
}
