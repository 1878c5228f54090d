//! Tasks of 2025-11-25 upstreams, governed like any other and served as those of 2026-07-28.

#![cfg(test)]

use std::time::{Duration, Instant};

use anyhow::ensure;
use hangar_tests::client::Client;
use hangar_tests::envelope::{Capabilities, Envelope, TASKS};
use hangar_tests::manifests::Manifest;
use hangar_tests::scripted::{Answer, Gate, Legacy, LegacyTasks, Seen, mk_payload};
use hangar_tests::stack::{ALICE, BOB, Stack};
use hangar_tests::wait;
use hyper::StatusCode;
use serde_json::{Value, json};

const MISSING_CAPABILITY: i64 = -32021;
const NOT_FOUND: i64 = -32602;
const UNAVAILABLE: i64 = -31001;
const DENIED: i64 = -31004;
const UPSTREAM_PROTOCOL: i64 = -31008;
const CANCELLED: &str = "hangar_tasks_cancelled_total";
const COMPLETED: &str = "hangar_tasks_completed_total";
const FAILED: &str = "hangar_tasks_failed_total";
const REFUSED_BIRTHS: &str = "hangar_task_registration_failures_total";
const SESSION: &str = "mcp-session-id";

struct World {
    stack: Stack,
    legacy: Legacy,
    tasks: LegacyTasks,
    alice: Client,
}

impl World {
    async fn start() -> Self {
        Self::start_with(|object| object).await
    }

    async fn start_with(edit: impl Fn(Manifest) -> Manifest) -> Self {
        let stack = Stack::start_with(edit).await.unwrap();
        let (legacy, tasks) = LegacyTasks::teach(&stack.upstream);
        let alice = stack.client(ALICE);
        Self {
            stack,
            legacy,
            tasks,
            alice,
        }
    }

    async fn begin(&self) -> String {
        self.alice.start_task("slow", json!({})).await.unwrap()
    }

    async fn events(&self, task: &str) -> Vec<String> {
        self.stack.events(task).await.unwrap()
    }

    /// Polls once, and expects this failure of the gateway's making and nothing of a payload.
    async fn assert_failed(&self, task: &str, reason: &str) {
        let reply = self.alice.get(task).await.unwrap();
        let body = String::from_utf8_lossy(&reply.body);
        assert!(!body.contains("the-payload"), "{body}");
        let result = reply.result().unwrap();
        assert_eq!(result["status"], "failed", "{result}");
        assert_eq!(result["error"]["data"]["reason"], reason, "{result}");
    }
}

fn upstream_with(pointer: &'static str, value: Value) -> impl Fn(Manifest) -> Manifest {
    move |object| match object.value()["kind"].as_str() {
        Some("McpUpstream") => object.set(pointer, value.clone()),
        _ => object,
    }
}

fn handle(id: &str) -> Value {
    json!({
        "taskId": id, "status": "working", "ttl": 1000, "createdAt": "2026-12-01T06:00:00Z",
        "lastUpdatedAt": "2026-12-01T06:00:00Z",
    })
}

fn typed(mut handle: Value) -> Value {
    handle["resultType"] = json!("task");
    handle
}

fn asked_for(seen: &Seen) -> Value {
    seen.params()["task"].take()
}

#[tokio::test]
async fn case_21_both_shapes_of_a_handle_are_governed_alike_and_served_flat() {
    let world = World::start().await;
    let reply = world.alice.call("slow", json!({})).await.unwrap();
    let served = reply.result().unwrap();
    let id = world.tasks.ids().remove(0);
    assert_eq!(
        served,
        json!({
            "resultType": "task", "taskId": id, "status": "working", "ttlMs": 86_400_000,
            "pollIntervalMs": 1, "statusMessage": "begun",
            "createdAt": "2026-12-01T06:12:36.127Z", "lastUpdatedAt": "2026-12-01T06:12:36.127Z",
        })
    );
    let called = world.stack.upstream.seen_of("tools/call").remove(0);
    assert_eq!(asked_for(&called), json!({"ttl": 86_400_000}));
    assert_eq!(world.events(&id).await, ["TaskCreated"]);
    // Somebody else's task is one that does not exist, and its upstream sees nothing.
    let before = world.stack.upstream.seen().len();
    let bob = world.stack.client(BOB);
    for reply in [bob.get(&id).await, bob.cancel(&id).await] {
        assert_eq!(reply.unwrap().error_code().unwrap(), NOT_FOUND);
    }
    assert_eq!(world.stack.upstream.seen().len(), before);

    // The same call at a modern upstream.
    let stack = Stack::start().await.unwrap();
    let served = stack.client(ALICE).call("slow", json!({})).await.unwrap();
    let served = served.result().unwrap();
    assert_eq!(served["resultType"], "task");
    let id = served["taskId"].as_str().unwrap();
    assert_eq!(stack.events(id).await.unwrap(), ["TaskCreated"]);
}

#[tokio::test]
async fn case_21_a_handle_in_the_shape_of_the_other_era_is_a_breach() {
    let world = World::start().await;
    let modern = Stack::start().await.unwrap();
    for (stack, shapes) in [
        (&world.stack, [typed(handle("typed")), handle("bare")]),
        (&modern, [json!({"task": handle("nested")}), handle("bare")]),
    ] {
        let alice = stack.client(ALICE);
        for (index, shape) in shapes.into_iter().enumerate() {
            stack.upstream.enqueue("tools/call", Answer::result(&shape));
            let reply = alice.call("slow", json!({})).await.unwrap();
            assert_eq!(reply.error_code().unwrap(), UPSTREAM_PROTOCOL, "{shape}");
            stack
                .upstream
                .arrived("tasks/cancel", index + 1)
                .await
                .unwrap();
            let id = shape["task"]["taskId"].as_str();
            let id = id.or(shape["taskId"].as_str()).unwrap();
            let cancel = stack.upstream.seen_of("tasks/cancel").remove(index);
            assert_eq!(cancel.params()["taskId"], id);
            let got = alice.get(id).await.unwrap();
            assert_eq!(got.error_code().unwrap(), NOT_FOUND);
            assert_eq!(stack.events(id).await.unwrap(), Vec::<String>::new());
        }
        assert_eq!(stack.count(REFUSED_BIRTHS, &[]).await.unwrap(), 2);
    }
}

#[tokio::test]
async fn a_task_is_asked_for_where_client_upstream_and_tool_are_for_it() {
    let world = World::start().await;
    let upstream = &world.stack.upstream;
    for (tool, capabilities, is_asked_for) in [
        ("slow", Capabilities::Tasks, true),
        ("strict", Capabilities::Tasks, true),
        ("echo", Capabilities::Tasks, false),
        ("never", Capabilities::Tasks, false),
        ("slow", Capabilities::None, false),
    ] {
        let call = Envelope::call(tool, json!({"text": "x"})).capabilities(capabilities);
        let result = world.alice.send(&call).await.unwrap().result().unwrap();
        let kind = if is_asked_for { "task" } else { "complete" };
        assert_eq!(result["resultType"], kind, "{tool} {capabilities:?}");
        let seen = upstream.seen_of("tools/call").pop().unwrap();
        let wish = asked_for(&seen);
        assert_eq!(wish.is_object(), is_asked_for, "{tool} {capabilities:?}");
    }
    // A client's own wish is not passed on, and one of the older revision is given nothing.
    let call = json!({"name": "slow", "arguments": {"text": "x"}, "task": {"ttl": 5}});
    let reply = world.alice.send_legacy("tools/call", call).await.unwrap();
    assert_eq!(reply.result().unwrap()["content"][0]["text"], "x");
    let seen = upstream.seen_of("tools/call").pop().unwrap();
    assert_eq!(asked_for(&seen), Value::Null);
    let calls = upstream.count("tools/call");
    let reply = world.alice.call_sync("strict", json!({})).await.unwrap();
    assert_eq!(reply.outcome().unwrap(), (400, MISSING_CAPABILITY));
    assert_eq!(upstream.count("tools/call"), calls);
}

/// What the upstream or its object does not offer is not asked for.
#[tokio::test]
async fn without_an_offer_no_task_is_asked_for() {
    let world = World::start_with(upstream_with("/spec/tasks/relay", json!(false))).await;
    let result = world.alice.call("slow", json!({})).await.unwrap().result();
    assert_eq!(result.unwrap()["resultType"], "complete");
    let reply = world.alice.call("strict", json!({})).await.unwrap();
    assert_eq!(reply.error_code().unwrap(), DENIED);
    let listed = world.alice.list_tools().await.unwrap();
    assert!(!String::from_utf8_lossy(&listed.body).contains("strict"));
    assert_eq!(extensions(&world.alice).await, Value::Null);

    for (offered, is_asked_for) in [(json!({"list": {}}), false), (Value::Null, false)] {
        let world = World::start().await;
        let result = json!({
            "protocolVersion": "2025-11-25", "capabilities": {"tools": {}, "tasks": offered},
            "serverInfo": {"name": "old", "version": "0"},
        });
        let upstream = &world.stack.upstream;
        upstream.script("initialize", move |_| Answer::result(&result));
        upstream.script("tools/call", |_| Answer::result(&json!({"content": []})));
        let list = Answer::result(&json!({"tools": [
            {"name": "slow", "inputSchema": {}, "execution": {"taskSupport": "required"}},
        ]}));
        upstream.script("tools/list", move |_| list.clone());
        let initialized = || Answer::raw("").status(StatusCode::ACCEPTED);
        upstream.script("notifications/initialized", move |_| initialized());
        let result = world.alice.call("slow", json!({})).await.unwrap().result();
        assert_eq!(result.unwrap()["resultType"], "complete");
        let seen = upstream.seen_of("tools/call").pop().unwrap();
        assert_eq!(asked_for(&seen).is_object(), is_asked_for);
        assert_eq!(extensions(&world.alice).await, Value::Null);
    }
    let world = World::start().await;
    assert_eq!(extensions(&world.alice).await, json!({TASKS: {}}));
}

async fn extensions(client: &Client) -> Value {
    let discovered = client.discover().await.unwrap().result().unwrap();
    discovered["capabilities"]["extensions"].clone()
}

/// Case 23 of an upstream of this era, and what is its own: a task that this call asked nobody for.
#[tokio::test]
async fn a_task_that_was_not_asked_for_is_not_given_out() {
    let world = World::start().await;
    let upstream = &world.stack.upstream;
    for (index, (id, capabilities, code)) in [
        ("undeclared", Capabilities::None, MISSING_CAPABILITY),
        ("unasked", Capabilities::Tasks, UPSTREAM_PROTOCOL),
    ]
    .into_iter()
    .enumerate()
    {
        let nested = json!({"task": handle(id)});
        upstream.enqueue("tools/call", Answer::result(&nested));
        let call = Envelope::call("echo", json!({})).capabilities(capabilities);
        let reply = world.alice.send(&call).await.unwrap();
        assert_eq!(reply.error_code().unwrap(), code, "{id}");
        upstream.arrived("tasks/cancel", index + 1).await.unwrap();
        let cancel = upstream.seen_of("tasks/cancel").remove(index);
        assert_eq!(cancel.params()["taskId"], id);
        assert_eq!(world.events(id).await, Vec::<String>::new());
    }
}

#[tokio::test]
async fn case_40_a_completed_payload_is_fetched_and_inlined() {
    let world = World::start().await;
    let upstream = &world.stack.upstream;
    let task = world.begin().await;
    let working = world.alice.until(&task, "working").await.unwrap();
    assert_eq!(working["resultType"], "complete");
    assert_eq!(
        (&working["ttlMs"], &working["pollIntervalMs"]),
        (&json!(86_400_000), &json!(1))
    );
    assert!(working["ttl"].is_null() && working["pollInterval"].is_null());
    assert_eq!(upstream.count("tasks/result"), 0, "it would wait");
    let payload = r#"{"content":[{"n": 1.50e1}],"é":"\u0041"}"#;
    world
        .tasks
        .end(&task, "completed", &Answer::result_text(payload));
    for polls in 1..4 {
        let reply = world.alice.get(&task).await.unwrap();
        let body = String::from_utf8_lossy(&reply.body);
        assert!(
            body.contains(r#""content":[{"n": 1.50e1}],"é":"\u0041""#),
            "{body}"
        );
        let result = reply.result().unwrap();
        assert_eq!(result["status"], "completed");
        assert_eq!(result["result"]["resultType"], "complete");
        assert_eq!(upstream.count("tasks/result"), polls);
    }
    let fetched = upstream.seen_of("tasks/result").remove(0);
    assert_eq!(fetched.params(), json!({"taskId": task}));
    // Each list that vouches for a payload began after the payload had come.
    let seen: Vec<_> = upstream
        .seen()
        .into_iter()
        .map(|seen| seen.method)
        .collect();
    let poll = ["tasks/get", "tasks/result", "tools/list"];
    let polls: Vec<_> = seen[seen.len() - 9..].chunks(3).collect();
    assert_eq!(polls, [poll, poll, poll], "{seen:?}");
    assert_eq!(world.stack.count(COMPLETED, &[]).await.unwrap(), 1);
    assert_eq!(world.events(&task).await, ["TaskCreated", "TaskCompleted"]);
}

#[tokio::test]
async fn case_40_a_tool_that_failed_is_a_completed_task_and_an_error_a_failed_one() {
    let world = World::start().await;
    let task = world.begin().await;
    let failure = Answer::result(&mk_payload(&task, "it broke", true));
    world.tasks.end(&task, "failed", &failure);
    let served = world.alice.until(&task, "completed").await.unwrap();
    assert_eq!(served["result"]["isError"], true);
    assert_eq!(served["result"]["content"][0]["text"], "it broke");
    assert!(served["error"].is_null());
    assert_eq!(world.events(&task).await, ["TaskCreated", "TaskCompleted"]);

    let task = world.begin().await;
    let error = Answer::error(-32050, "out of paper");
    world.tasks.end(&task, "failed", &error);
    let served = world.alice.until(&task, "failed").await.unwrap();
    let wanted = json!({"code": -32050, "message": "out of paper"});
    assert_eq!(served["error"], wanted);
    assert!(served["result"].is_null());
    assert_eq!(
        world.events(&task).await,
        ["TaskCreated", "TaskFailed(upstream_failed)"]
    );
    let reason = [("reason", "upstream_failed")];
    assert_eq!(world.stack.count(FAILED, &reason).await.unwrap(), 1);
}

/// Nobody waits for a payload longer than for an answer, and nothing is concluded from it.
#[tokio::test]
async fn case_40_a_payload_that_does_not_come_changes_nothing() {
    let world = World::start().await;
    let task = world.begin().await;
    let gate = Gate::new();
    let late = Answer::result(&mk_payload(&task, "the-payload", false)).held(&gate);
    world.tasks.end(&task, "completed", &late);
    let asked = Instant::now();
    let served = world.alice.get(&task).await.unwrap().result().unwrap();
    assert!(asked.elapsed() < Duration::from_secs(10));
    assert_eq!(served["status"], "working");
    assert_eq!(world.events(&task).await, ["TaskCreated"]);
    gate.open();
    let done = world.alice.until(&task, "completed").await.unwrap();
    assert_eq!(done["result"]["content"][0]["text"], "the-payload");
    assert_eq!(world.events(&task).await, ["TaskCreated", "TaskCompleted"]);
    // Now it has ended, and its end alone is worth an answer.
    for refusal in [Answer::error(-32603, "no"), Answer::hang_up()] {
        world.tasks.end(&task, "completed", &refusal);
        let reply = world.alice.get(&task).await.unwrap();
        assert_eq!(reply.error_code().unwrap(), UNAVAILABLE);
    }
    assert_eq!(world.events(&task).await, ["TaskCreated", "TaskCompleted"]);
}

#[tokio::test]
async fn drift_withholds_a_fetched_payload() {
    for is_behind in [false, true] {
        let world = World::start().await;
        let task = world.begin().await;
        world.tasks.complete(&task, "the-payload");
        let change = |world: &World| {
            LegacyTasks::describe(&world.legacy, &world.stack.upstream, "Takes your money.");
        };
        if is_behind {
            // The contract changes after the payload was sent and before the next list is.
            let gate = Gate::new();
            let payload = mk_payload(&task, "the-payload", false);
            let held = Answer::result(&payload).held(&gate);
            world.tasks.end(&task, "completed", &held);
            let (alice, id) = (world.alice.clone(), task.clone());
            let poll = tokio::spawn(async move { alice.get(&id).await });
            gate.reached(1).await.unwrap();
            change(&world);
            gate.open();
            let reply = poll.await.unwrap().unwrap();
            assert!(!String::from_utf8_lossy(&reply.body).contains("the-payload"));
        } else {
            change(&world);
        }
        world.assert_failed(&task, "digest_drift").await;
        world
            .stack
            .upstream
            .arrived("tasks/cancel", 1)
            .await
            .unwrap();
        LegacyTasks::describe(&world.legacy, &world.stack.upstream, "Takes its time.");
        world.assert_failed(&task, "digest_drift").await;
        let events = world.events(&task).await;
        let wanted = [
            "TaskCreated",
            "DigestMismatchInTask",
            "TaskFailed(digest_drift)",
        ];
        assert_eq!(events, wanted, "behind: {is_behind}");
    }
}

/// Where an answer could not be given, none is taken for a yes: the slot of a question of this era is
/// in one session of one replica, which is none.
#[tokio::test]
async fn case_71_a_question_that_nobody_can_be_asked_ends_the_task() {
    let world = World::start().await;
    let yes = json!({"name": {"action": "accept", "content": {"name": "Ann"}}});
    for is_answered in [false, true] {
        let task = world.begin().await;
        world.tasks.set(&task, &json!({"status": "input_required"}));
        if is_answered {
            let update = Envelope::update(&task, &yes);
            let ack = world.alice.send(&update).await.unwrap().result().unwrap();
            assert_eq!(ack["resultType"], "complete");
        }
        for _ in 0..2 {
            world.assert_failed(&task, "consent_unavailable").await;
        }
        let cancelled = wait::eventually("cancel", async || {
            let of_task = |seen: &Seen| seen.params()["taskId"] == *task;
            let cancels = world.stack.upstream.seen_of("tasks/cancel");
            wait::same(&cancels.iter().filter(|seen| of_task(seen)).count(), &1)
        });
        cancelled.await.unwrap();
        let wanted = ["TaskCreated", "TaskFailed(consent_unavailable)"];
        assert_eq!(world.events(&task).await, wanted);
    }
    assert_eq!(world.stack.upstream.count("tasks/update"), 0);
    assert_eq!(world.stack.upstream.count("tasks/result"), 0);
    let reason = [("reason", "consent_unavailable")];
    assert_eq!(world.stack.count(FAILED, &reason).await.unwrap(), 2);
    assert_eq!(world.stack.count(CANCELLED, &[]).await.unwrap(), 0);
}

#[tokio::test]
async fn case_79_a_cancel_that_the_upstream_confirms_is_the_end_at_once() {
    let world = World::start().await;
    let task = world.begin().await;
    let mut ack = world.alice.cancel(&task).await.unwrap().result().unwrap();
    ack.as_object_mut().unwrap().remove("_meta");
    assert_eq!(ack, json!({"resultType": "complete"}));
    // Without any poll.
    let gateway = &world.stack.gateway;
    gateway.metric(CANCELLED, &[], 1.0).await.unwrap();
    assert_eq!(world.stack.upstream.count("tasks/get"), 0);
    assert_eq!(world.events(&task).await, ["TaskCreated", "TaskCancelled"]);
    // It was the owner's to cancel: some upstreams know a task in its own session only.
    let (called, cancelled) = (
        world.stack.upstream.seen_of("tools/call").remove(0),
        world.stack.upstream.seen_of("tasks/cancel").remove(0),
    );
    assert!(called.header(SESSION).is_some());
    assert_eq!(called.header(SESSION), cancelled.header(SESSION));
    assert_eq!(cancelled.params(), json!({"taskId": task, "_meta": {}}));
    // Again, and when the upstream has forgotten it.
    world.tasks.forget();
    world.alice.cancel(&task).await.unwrap().result().unwrap();
    let served = world.alice.get(&task).await.unwrap().result().unwrap();
    assert_eq!(served["status"], "cancelled");
    assert_eq!(world.stack.upstream.count("tasks/cancel"), 1);
    assert_eq!(world.events(&task).await, ["TaskCreated", "TaskCancelled"]);
    assert_eq!(world.stack.count(CANCELLED, &[]).await.unwrap(), 1);
}

/// Only that the upstream says so ends it.
#[tokio::test]
async fn a_cancel_that_is_not_confirmed_ends_nothing() {
    let world = World::start().await;
    let task = world.begin().await;
    let mut other = handle("other");
    other["status"] = json!("cancelled");
    let upstream = &world.stack.upstream;
    let answers = [
        json!({}),
        json!({"status": "cancelled"}),
        handle(&task),
        other,
    ];
    let mut answers: Vec<_> = answers.iter().map(Answer::result).collect();
    // An upstream that refuses to cancel what has ended is no news to the client.
    answers.push(Answer::error(
        NOT_FOUND,
        "Cannot cancel task in terminal status",
    ));
    for answer in answers {
        let before = upstream.count("tasks/cancel");
        world
            .legacy
            .within(upstream, "tasks/cancel", move |_| answer.clone());
        // One that is asked for while another is on its way is that one.
        let sent = wait::eventually("a cancel", async || {
            world.alice.cancel(&task).await?.result()?;
            ensure!(upstream.count("tasks/cancel") > before);
            Ok(())
        });
        sent.await.unwrap();
    }
    world.tasks.complete(&task, "faster");
    let done = world.alice.until(&task, "completed").await.unwrap();
    assert_eq!(done["result"]["content"][0]["text"], "faster");
    assert_eq!(world.events(&task).await, ["TaskCreated", "TaskCompleted"]);
}

#[tokio::test]
async fn a_task_outlives_its_session_and_the_gateways_process() {
    let mut world = World::start().await;
    let task = world.begin().await;
    let begun = world.legacy.begun();
    world.legacy.forget();
    world.alice.until(&task, "working").await.unwrap();
    assert_eq!(world.legacy.begun(), begun + 1);
    // Between the two requests of one poll; the gateway's own session, for contracts, was lost too.
    world.tasks.complete(&task, "done");
    let gone = Answer::raw("{}").status(StatusCode::NOT_FOUND);
    world.stack.upstream.enqueue("tasks/result", gone);
    let done = world.alice.get(&task).await.unwrap().result().unwrap();
    assert_eq!(done["result"]["content"][0]["text"], "done");
    assert_eq!(world.legacy.begun(), begun + 3);

    world.stack.gateway.process().kill().unwrap();
    world.stack.gateway.start_again().await.unwrap();
    world.stack.gateway.ready().await.unwrap();
    world.alice.until(&task, "completed").await.unwrap();
    assert_eq!(world.events(&task).await, ["TaskCreated", "TaskCompleted"]);
}

/// Where names have a prefix, it is the upstream's own tool that says whether it runs as a task.
#[tokio::test]
async fn a_task_is_reached_at_the_tenants_endpoint_too() {
    let world = World::start().await;
    let alice = world.stack.gateway.client().with_key(ALICE);
    let listed = alice.list_tools().await.unwrap();
    assert!(String::from_utf8_lossy(&listed.body).contains("reports__strict"));
    for (tool, end) in [
        ("reports__slow", "TaskCompleted"),
        ("reports__strict", "TaskCancelled"),
    ] {
        let task = alice.start_task(tool, json!({})).await.unwrap();
        alice.until(&task, "working").await.unwrap();
        if end == "TaskCompleted" {
            world.tasks.complete(&task, "done");
            let done = alice.until(&task, "completed").await.unwrap();
            assert_eq!(done["result"]["content"][0]["text"], "done");
        } else {
            alice.cancel(&task).await.unwrap().result().unwrap();
            alice.until(&task, "cancelled").await.unwrap();
        }
        assert_eq!(world.events(&task).await, ["TaskCreated", end]);
    }
    let said = alice.call("reports__echo", json!({"text": "hi"})).await;
    assert_eq!(said.unwrap().result().unwrap()["content"][0]["text"], "hi");
}

/// Who may read another's task asks in the session that it was born in.
#[tokio::test]
async fn a_shared_task_is_asked_about_in_its_owners_session() {
    let shared = |object: Manifest| match object.value()["spec"]["tenant"].as_str() {
        Some("acme") => object.set("/spec/upstreams/0/tasks/visibility", json!("Tenant")),
        _ => object,
    };
    let world = World::start_with(shared).await;
    let task = world.begin().await;
    let bob = world.stack.client(BOB);
    bob.until(&task, "working").await.unwrap();
    bob.cancel(&task).await.unwrap().result().unwrap();
    bob.until(&task, "cancelled").await.unwrap();
    let upstream = &world.stack.upstream;
    upstream.arrived("tasks/cancel", 1).await.unwrap();
    let called = upstream.seen_of("tools/call").remove(0);
    for seen in ["tasks/get", "tasks/cancel"].map(|method| upstream.seen_of(method).remove(0)) {
        assert_eq!(
            seen.header(SESSION),
            called.header(SESSION),
            "{}",
            seen.method
        );
    }
}

/// Under any status that the upstream says it with.
#[tokio::test]
async fn a_task_that_the_upstream_does_not_know_is_lost_once() {
    for status in [
        StatusCode::OK,
        StatusCode::BAD_REQUEST,
        StatusCode::NOT_FOUND,
    ] {
        let world = World::start().await;
        let task = world.begin().await;
        let unknown = Answer::error(NOT_FOUND, "Task not found").status(status);
        let upstream = &world.stack.upstream;
        world
            .legacy
            .within(upstream, "tasks/get", move |_| unknown.clone());
        let lost = wait::eventually("upstream_lost", async || {
            let result = world.alice.get(&task).await?.result()?;
            wait::same(&result["error"]["data"]["reason"], &json!("upstream_lost"))
        });
        lost.await.unwrap();
        let wanted = ["TaskCreated", "TaskFailed(upstream_lost)"];
        assert_eq!(world.events(&task).await, wanted, "{status}");
        assert_eq!(upstream.count("tasks/cancel"), 0, "{status}");
    }
}

#[tokio::test]
async fn an_answer_about_another_task_ends_this_one() {
    let world = World::start().await;
    let payload = Answer::result(&mk_payload("another", "the-payload", false));
    for is_payload in [true, false] {
        let task = world.begin().await;
        if is_payload {
            world.tasks.end(&task, "completed", &payload.clone());
        } else {
            world.tasks.set(&task, &json!({"taskId": "another"}));
        }
        world.assert_failed(&task, "upstream_protocol").await;
        let wanted = ["TaskCreated", "TaskFailed(upstream_protocol)"];
        assert_eq!(world.events(&task).await, wanted);
    }
}

/// Nothing is concluded from what cannot be read.
#[tokio::test]
async fn an_answer_that_breaks_the_protocol_is_refused() {
    let world = World::start().await;
    let task = world.begin().await;
    let old = handle(&task);
    let with = |name: &str, value: Value| {
        let mut task = old.clone();
        task[name] = value;
        task
    };
    for answer in [
        with("status", json!("done")),
        with("createdAt", Value::Null),
        with("ttl", json!(-1)),
        with("result", json!({"content": []})),
        json!({"task": old}),
        json!({}),
    ] {
        world
            .stack
            .upstream
            .enqueue("tasks/get", Answer::result(&answer));
        let reply = world.alice.get(&task).await.unwrap();
        assert_eq!(reply.error_code().unwrap(), UPSTREAM_PROTOCOL, "{answer}");
    }
    let lookalike = json!({"content": [], "IsError": true});
    world
        .tasks
        .end(&task, "completed", &Answer::result(&lookalike));
    let reply = world.alice.get(&task).await.unwrap();
    assert_eq!(reply.error_code().unwrap(), UPSTREAM_PROTOCOL);
    assert_eq!(world.events(&task).await, ["TaskCreated"]);
}
