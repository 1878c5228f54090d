//! The birth of a task: what is given out, what is refused, and what is cancelled again.

#![cfg(test)]

use hangar_tests::client::Client;
use hangar_tests::envelope::{Capabilities, Envelope, TASKS};
use hangar_tests::manifests::{Manifest, mk_upstream, write};
use hangar_tests::scripted::{Answer, Gate, Upstream};
use hangar_tests::stack::{ALICE, BOB, CAROL, REPORTS, Stack, world};
use hangar_tests::wait;
use serde_json::{Value, json};

const FAILURES: &str = "hangar_task_registration_failures_total";

async fn start() -> (Stack, Client) {
    let stack = Stack::start().await.unwrap();
    let alice = stack.client(ALICE);
    (stack, alice)
}

fn handle(id: &str) -> Value {
    json!({
        "resultType": "task", "taskId": id, "status": "working", "ttlMs": 900_000,
        "createdAt": "2026-12-01T06:00:00Z", "lastUpdatedAt": "2026-12-01T06:00:00Z",
    })
}

fn with(mut value: Value, member: &str, to: Value) -> Value {
    value[member] = to;
    value
}

fn without(mut value: Value, member: &str) -> Value {
    value.as_object_mut().unwrap().remove(member);
    value
}

/// The chain has the birth before the client has the handle.
#[tokio::test]
async fn a_handle_that_was_given_is_on_the_chain_once() {
    let (stack, alice) = start().await;
    let reply = alice.call("slow", json!({})).await.unwrap();
    let task = reply.result().unwrap()["taskId"]
        .as_str()
        .unwrap()
        .to_owned();
    // The gateway writes nothing any more: what is found now was durable before the answer.
    let mut stack = stack;
    stack.gateway.process().kill().unwrap();
    assert_eq!(stack.events(&task).await.unwrap(), ["TaskCreated"]);
}

#[tokio::test]
async fn a_malformed_handle_is_refused_counted_and_not_logged() {
    let (stack, alice) = start().await;
    let canary = "canary-of-the-handle";
    let long = "x".repeat(257);
    let cases = [
        ("task_id", without(handle("a"), "taskId")),
        ("task_id", with(handle("a"), "taskId", json!(7))),
        ("task_id", with(handle("a"), "taskId", json!(""))),
        ("task_id", with(handle("a"), "taskId", json!(long))),
        ("status", without(handle("a"), "status")),
        ("status", with(handle("a"), "status", json!(canary))),
        ("time", without(handle("a"), "createdAt")),
        ("duration", with(handle("a"), "ttlMs", json!(canary))),
        ("duration", with(handle("a"), "ttlMs", json!(-1))),
        ("duration", with(handle("a"), "pollIntervalMs", json!("5"))),
        ("stray_payload", with(handle("a"), "result", json!({}))),
    ];
    for (reason, handle) in &cases {
        stack.upstream.enqueue("tools/call", Answer::result(handle));
        let labels = [("tenant", "acme"), ("reason", *reason)];
        let before = stack.count(FAILURES, &labels).await.unwrap();
        let reply = alice.call("slow", json!({})).await.unwrap();
        assert_eq!(reply.error_code().unwrap(), -31008, "{handle}");
        let after = stack.count(FAILURES, &labels).await.unwrap();
        assert_eq!(after, before + 1, "{reason}: {handle}");
    }
    let all = stack.count(FAILURES, &[]).await.unwrap();
    assert_eq!(usize::try_from(all).unwrap(), cases.len());
    assert_eq!(alice.get("a").await.unwrap().error_code().unwrap(), -32602);
    let written = std::fs::read_to_string(stack.folder().join("hangar-gateway.log")).unwrap();
    assert!(
        written.contains("\"request\""),
        "the log is where it is looked for"
    );
    assert!(!written.contains(canary));
}

#[tokio::test]
async fn a_handle_without_a_time_to_live_is_unlimited() {
    let (stack, alice) = start().await;
    for handle in [
        without(handle("none"), "ttlMs"),
        with(handle("null"), "ttlMs", Value::Null),
    ] {
        stack
            .upstream
            .enqueue("tools/call", Answer::result(&handle));
        let given = alice.call("slow", json!({})).await.unwrap();
        let given = given.result().unwrap();
        assert_eq!(given, handle);
        // From the ledger, while the upstream cannot be asked.
        stack.upstream.enqueue("tasks/get", Answer::hang_up());
        stack.upstream.enqueue("tasks/get", Answer::hang_up());
        let id = handle["taskId"].as_str().unwrap();
        let polled = alice.get(id).await.unwrap().result().unwrap();
        assert_eq!(
            (&polled["status"], &polled["ttlMs"]),
            (&json!("working"), &Value::Null)
        );
        stack.upstream.unscript("tasks/get");
    }
}

/// What hides a task is no answer of a tool.
#[tokio::test]
async fn a_task_without_result_type_or_in_disguise_is_refused_and_cancelled() {
    let (stack, alice) = start().await;
    let inner = without(handle("nested"), "resultType");
    let shapes = [
        ("flat", without(handle("flat"), "resultType")),
        ("nested", json!({"task": inner})),
        (
            "beside",
            json!({"resultType": "complete", "task": without(handle("beside"), "resultType")}),
        ),
        (
            "other",
            with(handle("other"), "resultType", json!("future")),
        ),
    ];
    for (index, (id, shape)) in shapes.iter().enumerate() {
        stack.upstream.enqueue("tools/call", Answer::result(shape));
        let reply = alice.call("slow", json!({})).await.unwrap();
        assert_eq!(reply.error_code().unwrap(), -31008, "{shape}");
        stack
            .upstream
            .arrived("tasks/cancel", index + 1)
            .await
            .unwrap();
        let cancel = stack.upstream.seen_of("tasks/cancel").remove(index);
        assert_eq!(cancel.params()["taskId"], *id);
        assert_eq!(alice.get(id).await.unwrap().error_code().unwrap(), -32602);
    }
}

#[tokio::test]
async fn only_a_tool_call_makes_a_task() {
    let (stack, alice) = start().await;
    let task = alice.start_task("slow", json!({})).await.unwrap();
    stack
        .upstream
        .enqueue("tasks/get", Answer::result(&handle(&task)));
    let reply = alice.get(&task).await.unwrap();
    assert_eq!(reply.error_code().unwrap(), -31008);
    for method in ["server/discover", "tools/list"] {
        stack
            .upstream
            .script(method, |_| Answer::result(&handle("rogue")));
        let reply = alice.send(&Envelope::new(method, json!({}))).await.unwrap();
        let text = String::from_utf8_lossy(&reply.body);
        assert!(!text.contains("rogue"), "{method}: {text}");
        stack.upstream.unscript(method);
    }
    assert_eq!(
        alice.get("rogue").await.unwrap().error_code().unwrap(),
        -32602
    );
    assert_eq!(
        stack
            .count("hangar_tasks_relayed_total", &[])
            .await
            .unwrap(),
        1
    );
}

#[tokio::test]
async fn a_caller_without_tasks_is_told_so_and_does_not_wait_for_the_cancel() {
    let (stack, alice) = start().await;
    let gate = Gate::new();
    stack.upstream.script("tasks/cancel", {
        let gate = gate.clone();
        move |_| Answer::built_in().held(&gate)
    });
    stack
        .upstream
        .enqueue("tools/call", Answer::result(&handle("rogue")));
    let reply = alice.call_sync("slow", json!({})).await.unwrap();
    assert_eq!(reply.error_code().unwrap(), -32021);
    let message = reply.message().unwrap();
    let required = &message["error"]["data"]["requiredCapabilities"];
    assert!(required["extensions"][TASKS].is_object(), "{message}");
    // The cancel is still held here, and it is one.
    gate.reached(1).await.unwrap();
    gate.open();
    assert_eq!(
        alice.get("rogue").await.unwrap().error_code().unwrap(),
        -32602
    );
    assert_eq!(stack.upstream.count("tasks/cancel"), 1);
}

#[tokio::test]
async fn a_colliding_id_changes_nothing_and_is_never_cancelled() {
    let (stack, alice) = start().await;
    let task = alice.start_task("slow", json!({})).await.unwrap();
    let colliding = Answer::result(&handle(&task));
    for stranger in [BOB, CAROL] {
        stack.upstream.enqueue("tools/call", colliding.clone());
        let reply = stack
            .client(stranger)
            .call("slow", json!({}))
            .await
            .unwrap();
        assert_eq!(reply.error_code().unwrap(), -31008);
        let text = String::from_utf8_lossy(&reply.body);
        assert!(!text.contains(&task) && !text.contains("alice"), "{text}");
    }
    // Another tool of the same owner, and a caller without tasks, touch it as little.
    stack.upstream.enqueue("tools/call", colliding.clone());
    let reply = alice.call("ask", json!({})).await.unwrap();
    assert_eq!(reply.error_code().unwrap(), -31008);
    stack.upstream.enqueue("tools/call", colliding.clone());
    let reply = stack
        .client(CAROL)
        .call_sync("slow", json!({}))
        .await
        .unwrap();
    assert_eq!(reply.error_code().unwrap(), -32021);
    // The same owner and tool: the same entry.
    stack.upstream.enqueue("tools/call", colliding);
    assert_eq!(alice.start_task("slow", json!({})).await.unwrap(), task);
    stack.upstream.complete(&task, "done").unwrap();
    alice.until(&task, "completed").await.unwrap();

    // A cancel of an id that no entry has does come, so this one would have been seen before it.
    stack
        .upstream
        .enqueue("tools/call", Answer::result(&handle("rogue")));
    stack
        .client(CAROL)
        .call_sync("slow", json!({}))
        .await
        .unwrap();
    stack.upstream.arrived("tasks/cancel", 1).await.unwrap();
    let cancels = stack.upstream.seen_of("tasks/cancel");
    assert_eq!(cancels.len(), 1);
    assert_eq!(cancels[0].params()["taskId"], "rogue");
    assert_eq!(
        stack.events(&task).await.unwrap(),
        ["TaskCreated", "TaskCompleted"]
    );
}

#[tokio::test]
async fn one_id_of_two_upstreams_is_two_tasks() {
    let stack = Stack::start().await.unwrap();
    let second = Upstream::start().await.unwrap();
    let mut objects: Vec<_> = world(&stack.upstream.url())
        .into_iter()
        .map(|object| match object.value()["kind"].as_str() {
            Some("TenantPolicy") => object.grants_with_consent("papers"),
            _ => object,
        })
        .collect();
    objects.push(mk_upstream("papers", &second.url()));
    write(&stack.manifests(), "world.yaml", &objects).unwrap();
    let papers = stack.gateway.client_of("default", "papers").with_key(ALICE);
    wait::eventually("papers served", async || {
        papers.list_tools().await?.result()
    })
    .await
    .unwrap();
    for upstream in [&stack.upstream, &second] {
        upstream.set_task_ids(&["twin", "twin-of-two"]);
    }
    let reports = stack.client(ALICE);
    // One owner.
    for client in [&reports, &papers] {
        assert_eq!(client.start_task("slow", json!({})).await.unwrap(), "twin");
    }
    stack.upstream.complete("twin", "of reports").unwrap();
    let done = reports.until("twin", "completed").await.unwrap();
    assert_eq!(done["result"]["content"][0]["text"], "of reports");
    papers.until("twin", "working").await.unwrap();
    papers.cancel("twin").await.unwrap().result().unwrap();
    papers.until("twin", "cancelled").await.unwrap();
    assert_eq!(stack.upstream.count("tasks/cancel"), 0);
    // Two owners.
    assert_eq!(
        reports.start_task("slow", json!({})).await.unwrap(),
        "twin-of-two"
    );
    let carol = papers.with_key(CAROL);
    assert_eq!(
        carol.start_task("slow", json!({})).await.unwrap(),
        "twin-of-two"
    );
    reports.until("twin-of-two", "working").await.unwrap();
    carol.until("twin-of-two", "working").await.unwrap();
    let foreign = papers.get("twin-of-two").await.unwrap();
    assert_eq!(foreign.error_code().unwrap(), -32602);
}

/// What no entry can have is refused before the ledger is asked.
#[tokio::test]
async fn an_empty_or_overlong_task_id_is_invalid() {
    let (stack, alice) = start().await;
    let seen = stack.upstream.seen().len();
    for id in [String::new(), "x".repeat(257)] {
        for envelope in [Envelope::get(&id), Envelope::cancel(&id)] {
            let reply = alice
                .send(&envelope.without_header("mcp-name"))
                .await
                .unwrap();
            assert_eq!(
                (reply.status.as_u16(), reply.error_code().unwrap()),
                (400, -32602)
            );
        }
    }
    assert_eq!(stack.upstream.seen().len(), seen);
}

#[tokio::test]
async fn without_relay_no_task_is_born_and_old_ones_go_on() {
    let (stack, alice) = start().await;
    let [read, cancelled] = [
        alice.start_task("slow", json!({})).await.unwrap(),
        alice.start_task("slow", json!({})).await.unwrap(),
    ];
    let advertised = async |client: &Client| {
        let result = client.discover().await?.result()?;
        anyhow::Ok(result["capabilities"]["extensions"][TASKS].is_object())
    };
    assert!(advertised(&alice).await.unwrap());
    stack.rewrite(no_relay).unwrap();
    wait::eventually("not advertised", async || {
        wait::same(&advertised(&alice).await?, &false)
    })
    .await
    .unwrap();

    // Left out of what goes upstream, so that the work is not begun.
    let reply = alice.call("ask", json!({})).await.unwrap();
    assert_eq!(reply.error_code().unwrap(), -31004);
    let call = stack.upstream.seen_of("tools/call").pop().unwrap();
    assert!(!call.contains(TASKS));
    assert_eq!(stack.upstream.tasks().len(), 2);
    // The net under it.
    stack
        .upstream
        .enqueue("tools/call", Answer::result(&handle("rogue")));
    let reply = alice.call("slow", json!({})).await.unwrap();
    assert_eq!(reply.error_code().unwrap(), -31004);
    stack.upstream.arrived("tasks/cancel", 1).await.unwrap();
    assert_eq!(
        stack.upstream.seen_of("tasks/cancel")[0].params()["taskId"],
        "rogue"
    );

    stack.upstream.complete(&read, "done").unwrap();
    alice.until(&read, "completed").await.unwrap();
    alice.cancel(&cancelled).await.unwrap().result().unwrap();
    alice.until(&cancelled, "cancelled").await.unwrap();
}

fn no_relay(object: Manifest) -> Manifest {
    match object.value()["kind"].as_str() {
        Some("McpUpstream") => object.set("/spec/tasks/relay", json!(false)),
        _ => object,
    }
}

#[tokio::test]
async fn a_quota_refuses_and_evicts_nobody() {
    let two = |object: Manifest| match object.value()["spec"]["tenant"].as_str() {
        Some("acme") => object.set("/spec/limits/liveTasks", json!(2)),
        _ => object,
    };
    let stack = Stack::start_with(two).await.unwrap();
    let (alice, bob) = (stack.client(ALICE), stack.client(BOB));
    let first = alice.start_task("slow", json!({})).await.unwrap();
    let second = bob.start_task("slow", json!({})).await.unwrap();
    // Refused before the work starts.
    let reply = alice.call("ask", json!({})).await.unwrap();
    assert_eq!(reply.error_code().unwrap(), -31006);
    assert_eq!(stack.upstream.tasks().len(), 2);
    // And after it, where the upstream makes a task all the same.
    stack
        .upstream
        .enqueue("tools/call", Answer::result(&handle("rogue")));
    let reply = alice.call("slow", json!({})).await.unwrap();
    assert_eq!(reply.error_code().unwrap(), -31006);
    stack.upstream.arrived("tasks/cancel", 1).await.unwrap();
    assert_eq!(
        stack.upstream.seen_of("tasks/cancel")[0].params()["taskId"],
        "rogue"
    );
    // Another tenant has its own quota, and nobody's entry is gone.
    stack
        .client(CAROL)
        .start_task("slow", json!({}))
        .await
        .unwrap();
    alice.until(&first, "working").await.unwrap();
    bob.until(&second, "working").await.unwrap();
    // A task that ended counts no more.
    stack.upstream.complete(&first, "done").unwrap();
    alice.until(&first, "completed").await.unwrap();
    alice.start_task("slow", json!({})).await.unwrap();
    stack.operator.programmed(REPORTS).await.unwrap();
}

/// Many at once do not pass the quota between them.
#[tokio::test]
async fn a_quota_holds_against_calls_at_the_same_time() {
    let three = |object: Manifest| match object.value()["spec"]["tenant"].as_str() {
        Some("acme") => object.set("/spec/limits/liveTasks", json!(3)),
        _ => object,
    };
    let stack = Stack::start_with(three).await.unwrap();
    let alice = stack.client(ALICE);
    alice.list_tools().await.unwrap().result().unwrap();
    // All pass the first look, and are held until all have.
    let gate = Gate::new();
    stack.upstream.script("tools/call", {
        let gate = gate.clone();
        move |_| Answer::built_in().held(&gate)
    });
    let calls: Vec<_> = (0..8)
        .map(|_| {
            let alice = alice.clone();
            tokio::spawn(async move { alice.call("slow", json!({})).await })
        })
        .collect();
    gate.reached(8).await.unwrap();
    gate.open();
    let mut given = 0;
    for call in calls {
        let reply = call.await.unwrap().unwrap();
        match reply.error_code() {
            Ok(code) => assert_eq!(code, -31006),
            Err(_) => given += 1,
        }
    }
    assert_eq!(given, 3);
    stack.upstream.arrived("tasks/cancel", 5).await.unwrap();
    assert_eq!(stack.count("hangar_tasks_live", &[]).await.unwrap(), 3);
}

#[tokio::test]
async fn what_a_caller_declares_is_of_that_request_alone() {
    let (stack, alice) = start().await;
    let declared = |index: usize| {
        let call = stack.upstream.seen_of("tools/call").remove(index);
        call.params()["_meta"]["io.modelcontextprotocol/clientCapabilities"].take()
    };
    let sent = [
        Capabilities::TasksAndElicitation,
        Capabilities::None,
        Capabilities::Tasks,
    ];
    for (index, capabilities) in sent.into_iter().enumerate() {
        let call = Envelope::call("echo", json!({})).capabilities(capabilities);
        alice.send(&call).await.unwrap().result().unwrap();
        assert_eq!(declared(index), capabilities.value());
    }
    // Declared a moment ago and not now: no task.
    let reply = alice.call_sync("slow", json!({})).await.unwrap();
    assert_eq!(reply.result().unwrap()["resultType"], "complete");
    assert!(stack.upstream.tasks().is_empty());
}
