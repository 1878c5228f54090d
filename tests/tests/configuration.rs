//! Configurations that move while tasks are alive: which one decides, and what is left of a task
//! whose grant or upstream is taken away.

#![cfg(test)]

use hangar_tests::client::{Client, Reply};
use hangar_tests::manifests::{self, Manifest, mk_upstream};
use hangar_tests::scripted::{Answer, Gate, Upstream};
use hangar_tests::stack::{ALICE, BOB, CAROL, REPORTS, Stack, world};
use hangar_tests::wait;
use serde_json::{Value, json};

const UNAVAILABLE: i64 = -31001;
const WITHHELD: i64 = -31002;
const DENIED: i64 = -31004;
const ENDPOINT_NOT_FOUND: i64 = -31016;
const CORRELATION: &str = "hangar-correlation-id";
const FAILED: &str = "hangar_tasks_failed_total";
const REFUSALS: &str = "hangar_task_refusals_total";

async fn start() -> (Stack, Client) {
    let stack = Stack::start().await.unwrap();
    let alice = stack.client(ALICE);
    (stack, alice)
}

/// An edit of the policy of `acme`.
fn of_acme(edit: impl Fn(Manifest) -> Manifest) -> impl Fn(Manifest) -> Manifest {
    move |object| match object.value()["spec"]["tenant"].as_str() {
        Some("acme") => edit(object),
        _ => object,
    }
}

/// The usual world without what `drop` names.
fn write_without(stack: &Stack, drop: impl Fn(&Value) -> bool) {
    let mut objects = world(&stack.upstream.url());
    objects.retain(|object| !drop(object.value()));
    manifests::write(&stack.manifests(), "world.yaml", &objects).unwrap();
}

fn is_upstream(object: &Value) -> bool {
    object["kind"] == "McpUpstream"
}

/// Waits until an endpoint is none any more for this client.
async fn until_gone(client: &Client) {
    wait::eventually("the endpoint is gone", async || {
        let code = client.call("echo", json!({})).await?.error_code()?;
        wait::same(&code, &ENDPOINT_NOT_FOUND)
    })
    .await
    .unwrap();
}

async fn until_back(client: &Client) {
    wait::eventually("the endpoint is back", async || {
        client.call("echo", json!({})).await?.result().map(drop)
    })
    .await
    .unwrap();
}

/// The code of a refusal, and the status that it tells.
fn told(reply: &Reply) -> (i64, Value) {
    let mut message = reply.message().unwrap();
    let code = message["error"]["code"].as_i64().unwrap_or_default();
    (code, message["error"]["data"]["status"].take())
}

fn assert_ack(reply: &Reply) {
    assert_eq!(reply.status, 200);
    let mut result = reply.result().unwrap();
    result.as_object_mut().unwrap().remove("_meta");
    assert_eq!(result, json!({"resultType": "complete"}));
}

/// Served as failed for this reason, with the gateway's own code.
async fn assert_failed(client: &Client, task: &str, reason: &str) {
    let failed = client.get(task).await.unwrap().result().unwrap();
    assert_eq!(failed["status"], "failed", "{failed}");
    assert_eq!(failed["error"]["data"]["reason"], reason);
}

/// Waits until the upstream of this task counts as gone, which is some seconds after its endpoint.
async fn until_removed(client: &Client, task: &str) {
    client.until(task, "failed").await.unwrap();
    assert_failed(client, task, "upstream_removed").await;
}

async fn accept(client: &Client, task: &str) -> Reply {
    let answer = client.answer(task, "name", "accept", json!({"name": "Ann"}));
    answer.await.unwrap()
}

/// What `TaskCreated` says of the configuration: the term, and both objects.
async fn born_under(stack: &Stack, task: &str) -> (Value, Value, Value) {
    let export = stack.export().await.unwrap();
    let lines = export
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let mut created = lines.filter(|event: &Value| {
        event["key"]["task"] == task && event["detail"]["type"] == "TaskCreated"
    });
    let mut event = created.next().unwrap();
    let mut take = |member: &str| event[member].take();
    (take("term"), take("upstreamObject"), take("policyObject"))
}

/// The configuration that a request began with decides all of it, the next one the next.
#[tokio::test]
async fn case_87_each_request_is_decided_by_one_configuration() {
    let (stack, alice) = start().await;
    let bob = stack.client(BOB);
    let task = alice.start_task("ask", json!({})).await.unwrap();
    let later = alice.start_task("ask", json!({})).await.unwrap();
    for task in [&task, &later] {
        alice.until(task, "input_required").await.unwrap();
    }
    let gate = Gate::new();
    stack
        .upstream
        .enqueue("tasks/get", Answer::built_in().held(&gate));
    let update = tokio::spawn({
        let (alice, task) = (alice.clone(), task.clone());
        async move { accept(&alice, &task).await }
    });
    gate.reached(1).await.unwrap();
    // From now on bob answers, and nobody else; the task is not shared for anything but that.
    let only_bob = json!({"type": "Principals", "principals": ["key:bob"]});
    let edit = of_acme(|object| {
        object.set(
            "/spec/upstreams/0/tasks/consent/answeredBy",
            only_bob.clone(),
        )
    });
    stack.rewrite(edit).unwrap();
    bob.until(&later, "input_required").await.unwrap();
    gate.open();
    assert_ack(&update.await.unwrap());
    assert_eq!(stack.upstream.count("tasks/update"), 1);
    alice.until(&task, "completed").await.unwrap();
    // Asked under the former, answered under this one: nothing of the former is left.
    let reply = accept(&alice, &later).await;
    assert_eq!(reply.error_code().unwrap(), DENIED);
    assert_eq!(stack.upstream.count("tasks/update"), 1);
    assert_ack(&accept(&bob, &later).await);
    assert_eq!(stack.upstream.count("tasks/update"), 2);
    alice.until(&later, "completed").await.unwrap();
}

/// What a task was born under stays on its chain; one that is born later has what is in force then.
#[tokio::test]
async fn case_87_a_task_keeps_the_configuration_that_it_was_born_under() {
    let (stack, alice) = start().await;
    let task = alice.start_task("ask", json!({})).await.unwrap();
    let born = born_under(&stack, &task).await;
    stack
        .rewrite(of_acme(|object| {
            object.set("/spec/upstreams/0/tools/deny", json!(["echo"]))
        }))
        .unwrap();
    wait::eventually("echo denied", async || {
        alice.call("echo", json!({})).await?.error_code().map(drop)
    })
    .await
    .unwrap();
    alice.until(&task, "input_required").await.unwrap();
    assert_ack(&accept(&alice, &task).await);
    alice.until(&task, "completed").await.unwrap();
    let later = alice.start_task("ask", json!({})).await.unwrap();
    let (term, upstream, policy) = born_under(&stack, &later).await;
    assert!(term["generation"].as_u64() > born.0["generation"].as_u64());
    assert_eq!(upstream, born.1);
    assert_ne!(policy, born.2);
    let export = stack.export().await.unwrap();
    let of_task = export.lines().filter(|line| line.contains(&task));
    let events: Vec<Value> = of_task
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(events.len(), 3);
    for event in events {
        assert_eq!(event["term"], born.0, "{event}");
        assert_eq!(event["policyObject"], born.2, "{event}");
    }
}

/// A working task, one that asks, and one that was delivered.
async fn three(stack: &Stack, alice: &Client) -> [String; 3] {
    let start = async |tool: &str| alice.start_task(tool, json!({})).await.unwrap();
    let tasks = [start("slow").await, start("ask").await, start("slow").await];
    stack.upstream.complete(&tasks[2], "SECRET").unwrap();
    for (task, status) in tasks.iter().zip(["working", "input_required", "completed"]) {
        alice.until(task, status).await.unwrap();
    }
    tasks
}

fn asked_about_tasks(stack: &Stack) -> usize {
    let methods = ["tasks/get", "tasks/update"];
    methods.iter().map(|it| stack.upstream.count(it)).sum()
}

#[tokio::test]
async fn case_88_of_a_revoked_grant_tasks_can_be_cancelled_and_nothing_comes_out() {
    let (stack, alice) = start().await;
    let tasks = three(&stack, &alice).await;
    let ended = alice.start_task("slow", json!({})).await.unwrap();
    alice.cancel(&ended).await.unwrap().result().unwrap();
    alice.until(&ended, "cancelled").await.unwrap();
    stack
        .rewrite(of_acme(|object| object.set("/spec/upstreams", json!([]))))
        .unwrap();
    until_gone(&alice).await;
    let listed = alice.list_tools().await.unwrap();
    assert_eq!(listed.error_code().unwrap(), ENDPOINT_NOT_FOUND);
    let asked = asked_about_tasks(&stack);
    let merged = stack.gateway.client().with_key(ALICE);
    let statuses = ["working", "input_required", "completed"];
    for client in [&alice, &merged] {
        for (task, status) in tasks.iter().zip(statuses) {
            let reply = client.get(task).await.unwrap();
            assert_eq!(told(&reply), (WITHHELD, json!(status)));
            let body = String::from_utf8_lossy(&reply.body);
            assert!(!body.contains("SECRET") && !body.contains("your name"));
            assert_eq!(accept(client, task).await.error_code().unwrap(), DENIED);
        }
        client.until(&ended, "cancelled").await.unwrap();
    }
    assert_eq!(asked_about_tasks(&stack), asked);
    let before = stack.upstream.count("tasks/cancel");
    assert_ack(&alice.cancel(&tasks[0]).await.unwrap());
    assert_ack(&merged.cancel(&tasks[1]).await.unwrap());
    assert_ack(&alice.cancel(&tasks[2]).await.unwrap());
    stack
        .upstream
        .arrived("tasks/cancel", before + 2)
        .await
        .unwrap();
    assert_eq!(stack.upstream.count("tasks/cancel"), before + 2);
    stack.rewrite(|object| object).unwrap();
    until_back(&alice).await;
    for (task, status) in tasks.iter().zip(["cancelled", "cancelled", "completed"]) {
        alice.until(task, status).await.unwrap();
    }
}

/// For whom it never was a task, an endpoint that was taken away is one that never existed.
#[tokio::test]
async fn case_88_a_revoked_grant_tells_nobody_else_of_a_task() {
    let (stack, alice) = start().await;
    let task = alice.start_task("slow", json!({})).await.unwrap();
    let shared =
        of_acme(|object| object.set("/spec/upstreams/0/tasks/visibility", json!("Tenant")));
    stack.rewrite(shared).unwrap();
    let bob = stack.client(BOB);
    bob.until(&task, "working").await.unwrap();
    // What was shared by the grant is not shared without it.
    let none = |object: Manifest| match object.value()["kind"].as_str() {
        Some("TenantPolicy") => object.set("/spec/upstreams", json!([])),
        _ => object,
    };
    stack.rewrite(none).unwrap();
    until_gone(&bob).await;
    let carol = stack.client(CAROL);
    until_gone(&carol).await;
    let seen = stack.upstream.seen().len();
    for (client, key) in [(&bob, BOB), (&carol, CAROL)] {
        let nowhere = stack.gateway.client_of("default", "nowhere").with_key(key);
        let wanted = nowhere.get("unknown").await.unwrap();
        assert_eq!(wanted.error_code().unwrap(), ENDPOINT_NOT_FOUND);
        let wanted = wanted.fingerprint(CORRELATION);
        for reply in [
            client.get(&task).await.unwrap(),
            client.get("unknown").await.unwrap(),
            client.cancel(&task).await.unwrap(),
            accept(client, &task).await,
            nowhere.get(&task).await.unwrap(),
        ] {
            assert_eq!(reply.fingerprint(CORRELATION), wanted);
        }
    }
    assert_eq!(stack.upstream.seen().len(), seen);
    assert_eq!(told(&alice.get(&task).await.unwrap()).0, WITHHELD);
}

#[tokio::test]
async fn case_93_tasks_of_a_deleted_upstream_end_at_the_next_access() {
    let (mut stack, alice) = start().await;
    let [working, asking, done] = three(&stack, &alice).await;
    let cancelled = alice.start_task("slow", json!({})).await.unwrap();
    write_without(&stack, is_upstream);
    until_gone(&alice).await;
    let seen = stack.upstream.seen().len();
    until_removed(&alice, &working).await;
    assert_eq!(accept(&alice, &asking).await.error_code().unwrap(), DENIED);
    assert_failed(&alice, &asking, "upstream_removed").await;
    assert_ack(&alice.cancel(&cancelled).await.unwrap());
    // Over already: no second outcome, and its payload is where nobody can fetch it.
    let reply = alice.get(&done).await.unwrap();
    assert_eq!(told(&reply), (WITHHELD, json!("completed")));
    let stranger = stack.client(BOB).get(&working).await.unwrap();
    assert_eq!(stranger.error_code().unwrap(), ENDPOINT_NOT_FOUND);
    for task in [&working, &asking, &cancelled] {
        let events = stack.events(task).await.unwrap();
        assert_eq!(events, ["TaskCreated", "TaskFailed(upstream_removed)"]);
    }
    let events = stack.events(&done).await.unwrap();
    assert_eq!(events, ["TaskCreated", "TaskCompleted"]);
    let removed = [("reason", "upstream_removed")];
    assert_eq!(stack.count(FAILED, &removed).await.unwrap(), 3);
    assert_eq!(stack.upstream.seen().len(), seen);
    // Remembered by both, and by the task when the upstream is made again.
    stack.operator.restart().await.unwrap();
    stack.gateway.restart().await.unwrap();
    stack.gateway.ready().await.unwrap();
    assert_failed(&alice, &working, "upstream_removed").await;
    stack.rewrite(|object| object).unwrap();
    until_back(&alice).await;
    assert_failed(&alice, &working, "upstream_removed").await;
    let fresh = alice.start_task("slow", json!({})).await.unwrap();
    alice.until(&fresh, "working").await.unwrap();
}

/// Nobody looked at the task while it was away, and in a folder it comes back under its uid: what was born before
/// is over all the same.
#[tokio::test]
async fn case_93_an_upstream_that_is_made_again_does_not_inherit_tasks() {
    let (mut stack, alice) = start().await;
    let task = alice.start_task("slow", json!({})).await.unwrap();
    let other = alice.start_task("slow", json!({})).await.unwrap();
    for task in [&task, &other] {
        alice.until(task, "working").await.unwrap();
    }
    // Deleted while no operator runs.
    stack.operator.process().kill().unwrap();
    write_without(&stack, is_upstream);
    stack.operator.start_again().await.unwrap();
    until_removed(&alice, &other).await;
    stack.rewrite(|object| object).unwrap();
    until_back(&alice).await;
    let asked = asked_about_tasks(&stack);
    assert_failed(&alice, &task, "upstream_removed").await;
    assert_eq!(asked_about_tasks(&stack), asked);
    assert_eq!(stack.upstream.count("tasks/cancel"), 0);
}

#[tokio::test]
async fn case_93_another_origin_ends_tasks_and_another_path_does_not() {
    let (stack, alice) = start().await;
    let at = |url: String| {
        move |object: Manifest| match object.value()["kind"].as_str() {
            Some("McpUpstream") => object.set("/spec/endpoint/url", json!(url)),
            _ => object,
        }
    };
    let task = alice.start_task("slow", json!({})).await.unwrap();
    alice.until(&task, "working").await.unwrap();
    stack
        .rewrite(at(format!("{}/elsewhere", stack.upstream.url())))
        .unwrap();
    wait::eventually("another path", async || {
        alice.until(&task, "working").await?;
        let seen = stack.upstream.seen_of("tasks/get");
        let path = seen.last().map(|seen| seen.path.clone());
        wait::same(&path.as_deref(), &Some("/mcp/elsewhere"))
    })
    .await
    .unwrap();
    let other = Upstream::start().await.unwrap();
    other.set_task_ids(&["of-the-other"]);
    stack.rewrite(at(other.url())).unwrap();
    wait::eventually("another server", async || {
        alice.call("echo", json!({})).await?;
        wait::same(&(other.count("tools/call") > 0), &true)
    })
    .await
    .unwrap();
    assert_failed(&alice, &task, "upstream_changed").await;
    assert_ack(&alice.cancel(&task).await.unwrap());
    let events = stack.events(&task).await.unwrap();
    assert_eq!(events, ["TaskCreated", "TaskFailed(upstream_changed)"]);
    // Neither of the two is told of the other's task.
    assert!(
        other
            .seen()
            .iter()
            .all(|seen| !seen.method.starts_with("tasks/"))
    );
    assert_eq!(stack.upstream.count("tasks/cancel"), 0);
    let fresh = alice.start_task("slow", json!({})).await.unwrap();
    alice.until(&fresh, "working").await.unwrap();
}

/// On the endpoint of a tenant, with two upstreams left and with one.
#[tokio::test]
async fn case_93_a_deleted_upstream_ends_its_own_tasks_on_the_tenants_endpoint() {
    let (stack, alice) = start().await;
    let (second, third) = (
        Upstream::start().await.unwrap(),
        Upstream::start().await.unwrap(),
    );
    let write = |more: &[(&str, &Upstream)]| {
        let mut objects = world(&stack.upstream.url());
        for (name, upstream) in more {
            objects.push(mk_upstream(name, &upstream.url()));
            objects[1] = objects[1].clone().grants_with_consent(name);
        }
        manifests::write(&stack.manifests(), "world.yaml", &objects).unwrap();
    };
    write(&[("second", &second), ("third", &third)]);
    let of = |name: &str| stack.gateway.client_of("default", name).with_key(ALICE);
    let merged = stack.gateway.client().with_key(ALICE);
    let mut tasks = Vec::new();
    for (client, upstream, id) in [
        (alice.clone(), &stack.upstream, "of-the-first"),
        (of("second"), &second, "of-the-second"),
        (of("third"), &third, "of-the-third"),
    ] {
        until_back(&client).await;
        upstream.set_task_ids(&[id]);
        tasks.push(client.start_task("slow", json!({})).await.unwrap());
        merged.until(id, "working").await.unwrap();
    }
    write(&[("second", &second)]);
    until_gone(&of("third")).await;
    until_removed(&merged, &tasks[2]).await;
    merged.until(&tasks[1], "working").await.unwrap();
    write(&[]);
    until_gone(&of("second")).await;
    for client in [&merged, &of("second")] {
        until_removed(client, &tasks[1]).await;
    }
    merged.until(&tasks[0], "working").await.unwrap();
    // What was found in the end is no miss.
    let missed = [("reason", "task_not_found")];
    assert_eq!(stack.count(REFUSALS, &missed).await.unwrap(), 0);
    // Each endpoint speaks of its own upstream.
    let elsewhere = of("third").get(&tasks[1]).await.unwrap();
    assert_eq!(elsewhere.error_code().unwrap(), ENDPOINT_NOT_FOUND);
    let stranger = stack.gateway.client().with_key(BOB);
    let (foreign, unknown) = (stranger.get(&tasks[1]).await, stranger.get("x").await);
    assert_eq!(
        foreign.unwrap().fingerprint(CORRELATION),
        unknown.unwrap().fingerprint(CORRELATION)
    );
    assert_eq!(stack.count(REFUSALS, &missed).await.unwrap(), 2);
}

/// A configuration that says nothing of an upstream is no word that it is gone.
#[tokio::test]
async fn case_93_an_upstream_that_is_not_known_ends_nothing() {
    let (mut stack, alice) = start().await;
    let [working, asking, done] = three(&stack, &alice).await;
    stack.operator.process().kill().unwrap();
    std::fs::remove_file(stack.operator.state().join("upstreams.json")).unwrap();
    write_without(&stack, is_upstream);
    stack.operator.start_again().await.unwrap();
    until_gone(&alice).await;
    for (task, status) in [(&working, "working"), (&asking, "input_required")] {
        for reply in [
            alice.get(task).await.unwrap(),
            accept(&alice, task).await,
            alice.cancel(task).await.unwrap(),
        ] {
            assert_eq!(told(&reply), (UNAVAILABLE, json!(status)));
        }
        assert_eq!(stack.events(task).await.unwrap(), ["TaskCreated"]);
    }
    let reply = alice.get(&done).await.unwrap();
    assert_eq!(told(&reply), (WITHHELD, json!("completed")));
    stack.rewrite(|object| object).unwrap();
    until_back(&alice).await;
    alice.until(&working, "working").await.unwrap();
    assert_ack(&accept(&alice, &asking).await);
    for task in [&asking, &done] {
        alice.until(task, "completed").await.unwrap();
    }
}

/// A replica that holds less than what a task was born under decides nothing about it.
#[tokio::test]
async fn case_93_a_task_born_under_a_newer_configuration_waits_for_it() {
    let (mut stack, alice) = start().await;
    stack.operator.restart().await.unwrap();
    let task = wait::eventually("a task of the second epoch", async || {
        let task = alice.start_task("slow", json!({})).await?;
        let (term, ..) = born_under(&stack, &task).await;
        wait::same(&term["epoch"], &json!(2))?;
        Ok(task)
    })
    .await
    .unwrap();
    alice.until(&task, "working").await.unwrap();
    // As after a restore of the operator's state: the fleet begins at the first epoch once more.
    stack.gateway.process().kill().unwrap();
    stack.operator.process().kill().unwrap();
    std::fs::remove_file(stack.operator.state().join("epoch")).unwrap();
    std::fs::remove_file(stack.gateway.state().join("last-known-good.json")).unwrap();
    stack.operator.start_again().await.unwrap();
    stack.gateway.start_again().await.unwrap();
    stack.gateway.ready().await.unwrap();
    until_back(&alice).await;
    let asked = asked_about_tasks(&stack);
    for reply in [
        alice.get(&task).await.unwrap(),
        accept(&alice, &task).await,
        alice.cancel(&task).await.unwrap(),
    ] {
        assert_eq!(told(&reply), (UNAVAILABLE, json!("working")));
    }
    assert_eq!(asked_about_tasks(&stack), asked);
    assert_eq!(stack.upstream.count("tasks/cancel"), 0);
    // Nor where nobody leads to it any more.
    write_without(&stack, is_upstream);
    until_gone(&alice).await;
    let reply = alice.get(&task).await.unwrap();
    assert_eq!(told(&reply), (UNAVAILABLE, json!("working")));
    assert_eq!(stack.events(&task).await.unwrap(), ["TaskCreated"]);
    stack.rewrite(|object| object).unwrap();
    stack.operator.programmed(REPORTS).await.unwrap();
}
