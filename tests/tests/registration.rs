//! The birth of a task: what is given out, what is refused, and what is cancelled again.

#![cfg(test)]

use hangar_tests::client::Client;
use hangar_tests::envelope::{Capabilities, Envelope, TASKS};
use hangar_tests::ledger::Ledger;
use hangar_tests::manifests::{Manifest, mk_upstream, write};
use hangar_tests::scripted::{Answer, Gate, Seen, Upstream};
use hangar_tests::stack::{ALICE, BOB, CAROL, REPORTS, Stack, world};
use hangar_tests::wait;
use serde_json::{Value, json};

const FAILURES: &str = "hangar_task_registration_failures_total";
const REFUSALS: &str = "hangar_task_refusals_total";

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

/// The ids that the upstream was told to stop, in order.
fn cancelled(stack: &Stack) -> Vec<String> {
    let cancels = stack.upstream.seen_of("tasks/cancel");
    let id = |seen: &Seen| seen.params()["taskId"].as_str().unwrap().to_owned();
    cancels.iter().map(id).collect()
}

fn with(mut value: Value, member: &str, to: Value) -> Value {
    value[member] = to;
    value
}

fn without(mut value: Value, member: &str) -> Value {
    value.as_object_mut().unwrap().remove(member);
    value
}

#[tokio::test]
async fn case_20_a_handle_without_a_time_to_live_is_unlimited() {
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
async fn case_22_only_a_tool_call_makes_a_task() {
    let (stack, alice) = start().await;
    let task = alice.start_task("ask", json!({})).await.unwrap();
    alice.until(&task, "input_required").await.unwrap();
    // Its own id in a handle is no answer about it.
    stack
        .upstream
        .enqueue("tasks/get", Answer::result(&handle(&task)));
    let reply = alice.get(&task).await.unwrap();
    assert_eq!(reply.outcome().unwrap(), (200, -31008));
    for result in [handle(&task), handle("rogue")] {
        stack
            .upstream
            .enqueue("tasks/update", Answer::result(&result));
        let answer = alice.answer(&task, "name", "accept", json!({"name": "Ann"}));
        let reply = answer.await.unwrap();
        assert_eq!(reply.outcome().unwrap(), (200, -31008), "{result}");
        assert!(!String::from_utf8_lossy(&reply.body).contains("rogue"));
    }
    for method in ["server/discover", "tools/list"] {
        stack
            .upstream
            .script(method, |_| Answer::result(&handle("rogue")));
        let reply = alice.send(&Envelope::new(method, json!({}))).await.unwrap();
        assert_eq!(reply.outcome().unwrap(), (200, -31008), "{method}");
        let text = String::from_utf8_lossy(&reply.body);
        assert!(!text.contains("rogue"), "{method}: {text}");
        stack.upstream.unscript(method);
    }
    assert_eq!(
        alice.get("rogue").await.unwrap().error_code().unwrap(),
        -32602
    );
    let relayed = stack.count("hangar_tasks_relayed_total", &[]).await;
    assert_eq!(relayed.unwrap(), 1);
    assert!(stack.events("rogue").await.unwrap().is_empty());
}

#[tokio::test]
async fn case_28_without_relay_no_task_is_born_and_old_ones_go_on() {
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

    let refused = [("tenant", "acme"), ("reason", "denied")];
    assert_eq!(stack.count(FAILURES, &refused).await.unwrap(), 1);
    assert!(stack.events("rogue").await.unwrap().is_empty());

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
async fn case_29_a_quota_refuses_and_evicts_nobody() {
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
    let reason = &reply.message().unwrap()["error"]["data"]["reason"];
    assert_eq!(*reason, "quota_exceeded");
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
    let refused = [("tenant", "acme"), ("reason", "quota_exceeded")];
    assert_eq!(stack.count(FAILURES, &refused).await.unwrap(), 1);
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
async fn case_29_a_quota_holds_against_calls_at_the_same_time() {
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
async fn case_30_what_a_caller_declares_is_of_that_request_alone() {
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

/// Two upstreams that mint the same ids, `reports` and `papers`, for both tenants.
async fn start_two() -> (Stack, Upstream, Client) {
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
        upstream.set_task_ids(&["twin"]);
    }
    (stack, second, papers)
}

/// Each with its own state, its own end, and its own chain.
#[tokio::test]
async fn case_07_one_id_of_two_upstreams_for_two_owners_is_two_entries() {
    let (stack, second, papers) = start_two().await;
    let (alice, carol) = (stack.client(ALICE), papers.with_key(CAROL));
    for owner in [&alice, &carol] {
        assert_eq!(owner.start_task("slow", json!({})).await.unwrap(), "twin");
    }
    assert_eq!(stack.count("hangar_tasks_live", &[]).await.unwrap(), 2);
    second.complete("twin", "of papers").unwrap();
    let done = carol.until("twin", "completed").await.unwrap();
    assert_eq!(done["result"]["content"][0]["text"], "of papers");
    alice.until("twin", "working").await.unwrap();
    // Neither finds the other's behind the same id.
    for stranger in [&papers, &stack.client(CAROL)] {
        let foreign = stranger.get("twin").await.unwrap();
        assert_eq!(foreign.error_code().unwrap(), -32602);
    }
    alice.cancel("twin").await.unwrap().result().unwrap();
    alice.until("twin", "cancelled").await.unwrap();
    carol.until("twin", "completed").await.unwrap();
    assert_eq!(second.count("tasks/cancel"), 0);
    let events = stack.events("twin").await.unwrap();
    let two = [
        "TaskCreated",
        "TaskCreated",
        "TaskCompleted",
        "TaskCancelled",
    ];
    assert_eq!(events, two);
}

/// On `/mcp` it is another matter: see the suite `merged`.
#[tokio::test]
async fn case_09_one_id_of_two_upstreams_for_one_owner_is_reached_at_each_endpoint() {
    let (stack, second, papers) = start_two().await;
    let reports = stack.client(ALICE);
    for client in [&reports, &papers] {
        assert_eq!(client.start_task("slow", json!({})).await.unwrap(), "twin");
    }
    stack.upstream.complete("twin", "of reports").unwrap();
    let done = reports.until("twin", "completed").await.unwrap();
    assert_eq!(done["result"]["content"][0]["text"], "of reports");
    papers.until("twin", "working").await.unwrap();
    papers.cancel("twin").await.unwrap().result().unwrap();
    papers.until("twin", "cancelled").await.unwrap();
    reports.until("twin", "completed").await.unwrap();
    assert_eq!(stack.upstream.count("tasks/cancel"), 0);
    assert_eq!(second.count("tasks/cancel"), 1);
}

/// What no entry can have is no question to the ledger: nothing was looked for, nothing is not found.
#[tokio::test]
async fn case_08_an_empty_or_overlong_task_id_is_refused_before_the_ledger() {
    let (stack, alice) = start().await;
    let seen = stack.upstream.seen().len();
    let send = async |id: &str, outcome: (u16, i64)| {
        let update = Envelope::update(id, &json!({"name": {"action": "accept"}}));
        for envelope in [Envelope::get(id), Envelope::cancel(id), update] {
            let envelope = envelope.without_header("mcp-name");
            let reply = alice.send(&envelope).await.unwrap();
            assert_eq!(reply.outcome().unwrap(), outcome, "{} bytes", id.len());
        }
    };
    // The bound is in bytes.
    for id in ["", &"x".repeat(257), &"\u{e9}".repeat(129)] {
        send(id, (400, -32602)).await;
    }
    assert_eq!(stack.count(REFUSALS, &[]).await.unwrap(), 0);
    for id in [&"x".repeat(256), &"\u{e9}".repeat(128)] {
        send(id, (200, -32602)).await;
    }
    let looked = [("reason", "task_not_found")];
    assert_eq!(stack.count(REFUSALS, &looked).await.unwrap(), 6);
    assert_eq!(stack.upstream.seen().len(), seen);
}

#[tokio::test]
async fn case_10_an_id_that_another_owner_holds_changes_nothing_and_is_never_cancelled() {
    let (stack, alice) = start().await;
    let task = alice.start_task("slow", json!({})).await.unwrap();
    let ledger = Ledger::open(&stack.setup().store_file()).unwrap();
    let before = ledger.entry(&task).unwrap().unwrap();
    let colliding = || Answer::result(&handle(&task));
    for (index, stranger) in [BOB, CAROL].into_iter().enumerate() {
        let stranger = stack.client(stranger);
        stack.upstream.enqueue("tools/call", colliding());
        let reply = stranger.call("slow", json!({})).await.unwrap();
        assert_eq!(reply.outcome().unwrap(), (200, -31008));
        // It reads like any other breach of the protocol.
        let no_handle = without(handle(&format!("any-{index}")), "status");
        stack
            .upstream
            .enqueue("tools/call", Answer::result(&no_handle));
        let breach = stranger.call("slow", json!({})).await.unwrap();
        let id = "hangar-correlation-id";
        assert_eq!(reply.fingerprint(id), breach.fingerprint(id));
        // That one has no entry, so it is told to end; an earlier cancel would have come before.
        let cancels = stack.upstream.arrived("tasks/cancel", index + 1);
        cancels.await.unwrap();
    }
    let collisions = [("reason", "collision")];
    assert_eq!(stack.count(FAILURES, &collisions).await.unwrap(), 2);
    // A caller without tasks touches it as little.
    stack.upstream.enqueue("tools/call", colliding());
    let carol = stack.client(CAROL);
    let reply = carol.call_sync("slow", json!({})).await.unwrap();
    assert_eq!(reply.error_code().unwrap(), -32021);
    assert_eq!(ledger.entry(&task).unwrap().unwrap(), before);
    stack.upstream.complete(&task, "done").unwrap();
    alice.until(&task, "completed").await.unwrap();
    // Nor is its id free once it has ended.
    stack.upstream.enqueue("tools/call", colliding());
    let reply = carol.call("slow", json!({})).await.unwrap();
    assert_eq!(reply.error_code().unwrap(), -31008);
    alice.until(&task, "completed").await.unwrap();
    stack
        .upstream
        .enqueue("tools/call", Answer::result(&handle("rogue")));
    carol.call_sync("slow", json!({})).await.unwrap();
    stack.upstream.arrived("tasks/cancel", 3).await.unwrap();
    assert_eq!(cancelled(&stack), ["any-0", "any-1", "rogue"]);
    assert_eq!(
        stack.events(&task).await.unwrap(),
        ["TaskCreated", "TaskCompleted"]
    );
}

#[tokio::test]
async fn case_11_after_its_retention_a_task_is_not_found_and_its_id_is_free() {
    let brief = |object: Manifest| match object.value()["kind"].as_str() {
        Some("McpUpstream") => object.set("/spec/tasks/retention", json!("1s")),
        _ => object,
    };
    let stack = Stack::start_with(brief).await.unwrap();
    let (alice, carol) = (stack.client(ALICE), stack.client(CAROL));
    let task = alice.start_task("slow", json!({})).await.unwrap();
    stack.upstream.complete(&task, "the first").unwrap();
    alice.until(&task, "completed").await.unwrap();
    wait::eventually("its retention has ended", async || {
        let reply = alice.get(&task).await?;
        wait::same(&reply.outcome()?, &(200, -32602))
    })
    .await
    .unwrap();
    let gets = stack.upstream.count("tasks/get");
    let gone = alice.get(&task).await.unwrap();
    let never = alice.get("never-there").await.unwrap();
    let id = "hangar-correlation-id";
    assert_eq!(gone.fingerprint(id), never.fingerprint(id));
    assert_eq!(stack.upstream.count("tasks/get"), gets);
    // Another owner may be given the same id.
    stack.upstream.lose(&task).unwrap();
    stack.upstream.set_task_ids(&[&task]);
    assert_eq!(carol.start_task("slow", json!({})).await.unwrap(), task);
    carol.until(&task, "working").await.unwrap();
    let foreign = alice.get(&task).await.unwrap();
    assert_eq!(foreign.fingerprint(id), never.fingerprint(id));
    let events = stack.events(&task).await.unwrap();
    assert_eq!(events, ["TaskCreated", "TaskCompleted", "TaskCreated"]);
}

/// Its words are the upstream's own, and may be anything.
#[tokio::test]
async fn case_19_a_malformed_handle_is_refused_counted_and_not_logged() {
    let (stack, alice) = start().await;
    let canary = "canary-of-the-handle";
    let full = || {
        let told = with(handle(canary), "statusMessage", json!(canary));
        with(told, canary, json!({canary: canary}))
    };
    let long = canary.repeat(13);
    let cases = [
        ("task_id", without(full(), "taskId")),
        ("task_id", with(full(), "taskId", json!(7))),
        ("task_id", with(full(), "taskId", json!([canary]))),
        ("task_id", with(full(), "taskId", Value::Null)),
        ("task_id", with(full(), "taskId", json!(""))),
        ("task_id", with(full(), "taskId", json!(long))),
        ("status", without(full(), "status")),
        ("status", with(full(), "status", json!(1))),
        ("status", with(full(), "status", json!(canary))),
        ("time", without(full(), "createdAt")),
        ("out_of_bounds", with(full(), "createdAt", json!(canary))),
        ("duration", with(full(), "ttlMs", json!(canary))),
        ("duration", with(full(), "ttlMs", json!(-1))),
        ("duration", with(full(), "pollIntervalMs", json!("5"))),
        ("stray_payload", with(full(), "result", json!({canary: 1}))),
    ];
    for (reason, handle) in &cases {
        stack.upstream.enqueue("tools/call", Answer::result(handle));
        let labels = [("tenant", "acme"), ("reason", *reason)];
        let before = stack.count(FAILURES, &labels).await.unwrap();
        let reply = alice.call("slow", json!({})).await.unwrap();
        assert_eq!(reply.outcome().unwrap(), (200, -31008), "{handle}");
        let told = String::from_utf8_lossy(&reply.body);
        assert!(!told.contains(canary), "{told}");
        let after = stack.count(FAILURES, &labels).await.unwrap();
        assert_eq!(after, before + 1, "{reason}: {handle}");
    }
    let all = stack.count(FAILURES, &[]).await.unwrap();
    assert_eq!(usize::try_from(all).unwrap(), cases.len());
    let upstream = [("outcome", "upstream")];
    let refused = stack.count("hangar_requests_total", &upstream).await;
    assert_eq!(refused.unwrap(), all);
    for id in [canary, &long[..256], "7"] {
        assert_eq!(alice.get(id).await.unwrap().error_code().unwrap(), -32602);
    }
    let export = stack.export().await.unwrap();
    assert!(!export.contains("TaskCreated"), "{export}");
    assert!(!export.contains(canary), "{export}");
    let file = stack.folder().join("hangar-gateway.log");
    let written = wait::eventually("every refusal is in the log", async || {
        let written = std::fs::read_to_string(&file)?;
        let refused = written.matches("\"upstream_protocol\"").count();
        wait::same(&refused, &cases.len())?;
        Ok(written)
    })
    .await
    .unwrap();
    assert!(!written.contains(canary));
}

/// It ignores what was declared.
#[tokio::test]
async fn case_23_a_caller_without_tasks_is_told_so_and_does_not_wait_for_the_cancel() {
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
    assert_eq!(reply.outcome().unwrap(), (400, -32021));
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
    assert_eq!(cancelled(&stack), ["rogue"]);
    let refused = [("tenant", "acme"), ("reason", "missing_capability")];
    assert_eq!(stack.count(FAILURES, &refused).await.unwrap(), 1);
    assert!(stack.events("rogue").await.unwrap().is_empty());
}

/// Whatever is wrong with the second handle, the task is the first one's, and is not told to stop.
#[tokio::test]
async fn case_24_a_failed_registration_of_the_same_id_leaves_the_entry_as_it_was() {
    let one = |object: Manifest| match object.value()["spec"]["tenant"].as_str() {
        Some("acme") => object.set("/spec/limits/liveTasks", json!(1)),
        _ => object,
    };
    let stack = Stack::start().await.unwrap();
    let alice = stack.client(ALICE);
    let task = alice.start_task("slow", json!({})).await.unwrap();
    let ledger = Ledger::open(&stack.setup().store_file()).unwrap();
    let before = ledger.entry(&task).unwrap().unwrap();
    let again = async |tool: &str, handle: Value, code: i64| {
        stack
            .upstream
            .enqueue("tools/call", Answer::result(&handle));
        let reply = alice.call(tool, json!({})).await.unwrap();
        assert_eq!(reply.error_code().unwrap(), code, "{handle}");
        assert_eq!(ledger.entry(&task).unwrap().as_ref(), Some(&before));
    };
    // As it was born: the same task, told once more and counted once.
    stack
        .upstream
        .enqueue("tools/call", Answer::result(&handle(&task)));
    let reply = alice.call("slow", json!({})).await.unwrap();
    assert_eq!(reply.result().unwrap()["taskId"], json!(task));
    let relayed = stack.count("hangar_tasks_relayed_total", &[]).await;
    assert_eq!(relayed.unwrap(), 1);
    again("ask", handle(&task), -31008).await;
    again("slow", without(handle(&task), "status"), -31008).await;
    again("slow", without(handle(&task), "resultType"), -31008).await;
    stack.rewrite(one).unwrap();
    let full = async || {
        let reply = alice.call("ask", json!({})).await?;
        wait::same(&reply.error_code()?, &-31006)
    };
    wait::eventually("the quota is full", full).await.unwrap();
    again("slow", handle(&task), -31006).await;
    stack.rewrite(no_relay).unwrap();
    let none = async || {
        let reply = alice.call("ask", json!({})).await?;
        wait::same(&reply.error_code()?, &-31004)
    };
    wait::eventually("no tasks any more", none).await.unwrap();
    again("slow", handle(&task), -31004).await;
    // A stray one is told to stop, so an earlier cancel would have come before it.
    again("slow", handle("rogue"), -31004).await;
    stack.upstream.arrived("tasks/cancel", 1).await.unwrap();
    assert_eq!(cancelled(&stack), ["rogue"]);
    stack.upstream.complete(&task, "done").unwrap();
    alice.until(&task, "completed").await.unwrap();
    assert_eq!(
        stack.events(&task).await.unwrap(),
        ["TaskCreated", "TaskCompleted"]
    );
}

/// The same owner and tool: one entry, one event, and the handle once more.
#[tokio::test]
async fn a_handle_that_comes_twice_is_one_task() {
    let (stack, alice) = start().await;
    let task = alice.start_task("slow", json!({})).await.unwrap();
    stack
        .upstream
        .enqueue("tools/call", Answer::result(&handle(&task)));
    assert_eq!(alice.start_task("slow", json!({})).await.unwrap(), task);
    assert_eq!(stack.events(&task).await.unwrap(), ["TaskCreated"]);
    assert_eq!(stack.count("hangar_tasks_live", &[]).await.unwrap(), 1);
}

/// Nothing is known yet of how the work ends, so it speaks neither for its upstream nor against it.
#[tokio::test]
async fn case_27_the_birth_of_a_task_has_an_outcome_of_its_own() {
    let (stack, alice) = start().await;
    let calls = async |outcome: &'static str| {
        let labels = [
            ("tenant", "acme"),
            ("upstream", "default/reports"),
            ("method", "tools/call"),
            ("outcome", outcome),
        ];
        stack.count("hangar_requests_total", &labels).await.unwrap()
    };
    for tool in ["slow", "ask"] {
        alice.start_task(tool, json!({})).await.unwrap();
    }
    assert_eq!(calls("task").await, 2);
    assert_eq!(
        stack
            .count("hangar_tasks_relayed_total", &[])
            .await
            .unwrap(),
        2
    );
    for outcome in ["ok", "tool_error", "rpc_error", "upstream"] {
        assert_eq!(calls(outcome).await, 0, "{outcome}");
    }
    alice
        .call("echo", json!({}))
        .await
        .unwrap()
        .result()
        .unwrap();
    assert_eq!((calls("task").await, calls("ok").await), (2, 1));
    // One that was not given out is no birth.
    let no_handle = without(handle("rogue"), "status");
    stack
        .upstream
        .enqueue("tools/call", Answer::result(&no_handle));
    alice.call("slow", json!({})).await.unwrap();
    assert_eq!((calls("task").await, calls("upstream").await), (2, 1));
}
