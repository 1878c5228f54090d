//! Endpoints and callers: `/mcp` of a tenant, prefixes, callers without a credential.

#![cfg(test)]

use hangar_tests::envelope::Envelope;
use hangar_tests::manifests::Manifest;
use hangar_tests::stack::{ALICE, BOB, CAROL, Stack};
use hangar_tests::wait;
use serde_json::{Value, json};

const NOT_FOUND: i64 = -32602;
const NO_ENDPOINT: i64 = -31016;

fn names(listed: &Value) -> Vec<&str> {
    let tools = listed["tools"].as_array().unwrap();
    tools
        .iter()
        .map(|it| it["name"].as_str().unwrap())
        .collect()
}

/// Edits the policy of one tenant.
fn tenant(
    name: &'static str,
    pointer: &'static str,
    value: Value,
) -> impl Fn(Manifest) -> Manifest {
    move |object| match object.value()["spec"]["tenant"].as_str() {
        Some(tenant) if tenant == name => object.set(pointer, value.clone()),
        _ => object,
    }
}

#[tokio::test]
async fn the_tenant_endpoint_shows_prefixed_names_and_calls_the_tool_s_own() {
    let stack = Stack::start().await.unwrap();
    let alice = stack.gateway.client().with_key(ALICE);
    let listed = alice.list_tools().await.unwrap().result().unwrap();
    assert_eq!(
        names(&listed),
        ["reports__ask", "reports__echo", "reports__slow"]
    );
    assert_eq!(listed["cacheScope"], "private");
    let called = alice
        .call("reports__echo", json!({"text": "hi"}))
        .await
        .unwrap();
    called.result().unwrap();
    let seen = stack.upstream.seen_of("tools/call").remove(0);
    assert_eq!(seen.params()["name"], "echo");
    assert_eq!(seen.header("mcp-name"), Some("echo"));
    // The tool's own name is none of this endpoint's.
    let unknown = alice.call("echo", json!({"text": "hi"})).await.unwrap();
    assert_eq!(unknown.error_code().unwrap(), NOT_FOUND);
    assert_eq!(stack.upstream.count("tools/call"), 1);
}

#[tokio::test]
async fn a_task_is_one_and_the_same_at_both_endpoints() {
    let stack = Stack::start().await.unwrap();
    let at_tenant = stack.gateway.client().with_key(ALICE);
    let at_upstream = stack.client(ALICE);
    let task = at_tenant
        .start_task("reports__slow", json!({}))
        .await
        .unwrap();
    at_upstream.until(&task, "working").await.unwrap();
    stack.upstream.complete(&task, "done").unwrap();
    at_tenant.until(&task, "completed").await.unwrap();
    let bob = stack.gateway.client().with_key(BOB);
    assert_eq!(
        bob.get(&task).await.unwrap().error_code().unwrap(),
        NOT_FOUND
    );
}

#[tokio::test]
async fn an_empty_prefix_shows_the_tools_own_names() {
    let bare = tenant("acme", "/spec/upstreams/0/prefix", json!(""));
    let stack = Stack::start_with(bare).await.unwrap();
    let alice = stack.gateway.client().with_key(ALICE);
    let listed = alice.list_tools().await.unwrap().result().unwrap();
    assert_eq!(names(&listed), ["ask", "echo", "slow"]);
    alice
        .call("echo", json!({"text": "hi"}))
        .await
        .unwrap()
        .result()
        .unwrap();
}

#[tokio::test]
async fn an_upstream_that_is_not_granted_is_one_that_does_not_exist() {
    let none = tenant("globex", "/spec/upstreams", json!([]));
    let stack = Stack::start_with(none).await.unwrap();
    let carol = stack.client(CAROL);
    let not_granted = carol.list_tools().await.unwrap();
    let nowhere = stack
        .gateway
        .client_of("default", "nowhere")
        .with_key(CAROL);
    let unknown = nowhere.list_tools().await.unwrap();
    assert_eq!(not_granted.error_code().unwrap(), NO_ENDPOINT);
    let id = "hangar-correlation-id";
    assert_eq!(not_granted.fingerprint(id), unknown.fingerprint(id));
    let tenant = stack.gateway.client().with_key(CAROL);
    assert_eq!(
        tenant.list_tools().await.unwrap().error_code().unwrap(),
        NO_ENDPOINT
    );
}

fn open_to_all() -> impl Fn(Manifest) -> Manifest {
    let subjects = json!([{"name": "open", "type": "Anonymous"}]);
    tenant("globex", "/spec/subjects", subjects)
}

#[tokio::test]
async fn case_06_who_is_nobody_reaches_what_is_nobody_s_and_no_more() {
    let stack = Stack::start_with(open_to_all()).await.unwrap();
    let anyone = stack.gateway.client_of("default", "reports");
    let alice = stack.client(ALICE);
    let open = anyone.start_task("slow", json!({})).await.unwrap();
    let hers = alice.start_task("slow", json!({})).await.unwrap();
    anyone.until(&open, "working").await.unwrap();
    alice.until(&hers, "working").await.unwrap();
    let seen = stack.upstream.seen().len();
    let requests: [fn(&str) -> Envelope; 3] = [Envelope::get, Envelope::cancel, |task| {
        Envelope::update(task, &json!({"name": {"action": "decline"}}))
    }];
    for (stranger, task) in [(&anyone, &hers), (&alice, &open)] {
        for make in requests {
            let foreign = stranger.send(&make(task)).await.unwrap();
            let unknown = stranger.send(&make("never-there")).await.unwrap();
            assert_eq!(foreign.outcome().unwrap(), (200, NOT_FOUND));
            let id = "hangar-correlation-id";
            assert_eq!(foreign.fingerprint(id), unknown.fingerprint(id));
        }
    }
    assert_eq!(stack.upstream.seen().len(), seen);
    // A wrong credential is never taken for none.
    let wrong = anyone.with_key("wrong-key-0123456789abcdef");
    let refused = wrong.get(&open).await.unwrap();
    assert_eq!(refused.outcome().unwrap(), (401, -31009));
}

#[tokio::test]
async fn case_16_callers_without_a_credential_share_only_where_a_policy_says_so() {
    let stack = Stack::start().await.unwrap();
    let one = stack.gateway.client_of("default", "reports");
    let seen = stack.upstream.seen().len();
    let refused = one.call("slow", json!({})).await.unwrap();
    assert_eq!(refused.outcome().unwrap(), (401, -31009));
    assert_eq!(stack.upstream.seen().len(), seen);
    stack.rewrite(open_to_all()).unwrap();
    let task = wait::eventually("callers without a credential are served", async || {
        one.start_task("slow", json!({})).await
    })
    .await
    .unwrap();
    // Two connections, and nothing that tells them apart.
    let two = stack.gateway.client_of("default", "reports");
    two.until(&task, "working").await.unwrap();
    two.cancel(&task).await.unwrap().result().unwrap();
    one.until(&task, "cancelled").await.unwrap();
    stack.rewrite(|object| object).unwrap();
    wait::eventually("nobody is served without a credential", async || {
        let reply = one.get(&task).await?;
        wait::same(&reply.outcome()?, &(401, -31009))
    })
    .await
    .unwrap();
    let gets = stack.upstream.count("tasks/get");
    assert_eq!(two.get(&task).await.unwrap().status, 401);
    assert_eq!(stack.upstream.count("tasks/get"), gets);
}
