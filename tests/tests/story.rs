//! The story against a real kube-apiserver with RBAC on: declared with `kubectl`, programmed,
//! enforced, and seen in the status.

#![cfg(test)]

use hangar_tests::cluster::Cluster;
use hangar_tests::process::Signal;
use hangar_tests::wait;
use serde_json::json;

const UPSTREAM: &str = "mcpupstream/reports";
const ACME: &str = "tenantpolicy/acme";
const GLOBEX: &str = "tenantpolicy/globex";
/// Keys of the quickstart.
const ALICE: &str = "acme-alice-demo-key-not-a-secret";
const MALLORY: &str = "globex-mallory-demo-key-not-a-secret";

async fn start(namespace: &str) -> Cluster {
    let cluster = Cluster::start(namespace).await.unwrap();
    cluster.apply(&cluster.quickstart().unwrap()).unwrap();
    for object in [UPSTREAM, ACME, GLOBEX] {
        cluster
            .condition(object, "Programmed", "True")
            .await
            .unwrap();
    }
    cluster
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_quickstart_is_programmed_and_a_task_is_governed() {
    let cluster = start("story-task").await;
    let table = cluster
        .api
        .kubectl(&["get", "mcp", "-n", &cluster.namespace], "")
        .unwrap();
    assert_eq!(table.matches("1/1").count(), 3, "{table}");
    let status = &cluster.object(UPSTREAM).unwrap()["status"];
    let gateways = &status["gateways"];
    assert_eq!(
        (
            &gateways["ready"],
            &gateways["programmed"],
            &gateways["rejected"]
        ),
        (&json!(1), &json!(1), &json!(0)),
        "{status}"
    );

    let alice = cluster.client(ALICE);
    let task = alice.start_task("ask", json!({})).await.unwrap();
    alice.until(&task, "input_required").await.unwrap();
    let foreign = cluster.client(MALLORY).get(&task).await.unwrap();
    assert_eq!(foreign.error_code().unwrap(), -32602);
    alice
        .answer(&task, "name", "accept", json!({"name": "Ann"}))
        .await
        .unwrap()
        .result()
        .unwrap();
    alice.until(&task, "completed").await.unwrap();
    let scrape = cluster.gateway.scrape().await.unwrap();
    let accepted = [("tenant", "acme"), ("decision", "accept")];
    let decisions = scrape
        .count("hangar_task_consent_decisions_total", &accepted)
        .unwrap();
    assert_eq!(decisions, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edit_is_enforced_and_a_stopped_gateway_keeps_it_from_being_programmed() {
    let mut cluster = start("story-edit").await;
    let alice = cluster.client(ALICE);
    alice
        .call("echo", json!({"text": "hi"}))
        .await
        .unwrap()
        .result()
        .unwrap();
    cluster
        .patch(UPSTREAM, &json!({"spec": {"tools": {"deny": ["echo"]}}}))
        .unwrap();
    cluster
        .condition(UPSTREAM, "Programmed", "True")
        .await
        .unwrap();
    let denied = alice.call("echo", json!({"text": "hi"})).await.unwrap();
    assert_eq!(denied.error_code().unwrap(), -32602);

    cluster.gateway.process().signal(Signal::Stop).unwrap();
    cluster
        .patch(UPSTREAM, &json!({"spec": {"tools": {"deny": []}}}))
        .unwrap();
    let pending = cluster
        .condition(UPSTREAM, "Programmed", "False")
        .await
        .unwrap();
    assert_eq!(pending["reason"], "Pending");
    assert_eq!(
        cluster.object(UPSTREAM).unwrap()["status"]["gateways"]["summary"],
        "0/1"
    );
    // What did not change stays programmed.
    cluster.condition(ACME, "Programmed", "True").await.unwrap();
    cluster.gateway.process().signal(Signal::Continue).unwrap();
    cluster
        .condition(UPSTREAM, "Programmed", "True")
        .await
        .unwrap();
    alice
        .call("echo", json!({"text": "hi"}))
        .await
        .unwrap()
        .result()
        .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_object_is_named_and_all_others_stay_programmed() {
    let cluster = start("story-bad").await;
    let bad = |name: &str, spec: serde_json::Value| {
        json!({
            "apiVersion": "hangar.dev/v1alpha1", "kind": "McpUpstream",
            "metadata": {"name": name}, "spec": spec,
        })
        .to_string()
    };
    let class = &cluster.namespace;
    let refused = cluster.apply(&bad("none", json!({"className": class, "endpoint": {}})));
    let words = refused.unwrap_err().to_string();
    assert!(
        words.contains("exactly one of url and service must be set"),
        "{words}"
    );

    let url = json!({"url": "https://a.example.com/mcp"});
    for (name, spec, reason, word) in [
        (
            "glob",
            json!({"className": class, "endpoint": url, "tools": {"allow": ["a[b"]}}),
            "InvalidGlob",
            "spec.tools.allow[0]",
        ),
        (
            "later",
            json!({"className": class, "endpoint": url, "forwardIdentity": {"audience": "x"}}),
            "NotYetSupported",
            "spec.forwardIdentity",
        ),
    ] {
        cluster.apply(&bad(name, spec)).unwrap();
        let object = format!("mcpupstream/{name}");
        let accepted = cluster
            .condition(&object, "Accepted", "False")
            .await
            .unwrap();
        assert_eq!(accepted["reason"], reason, "{accepted}");
        assert!(
            accepted["message"].as_str().unwrap().contains(word),
            "{accepted}"
        );
    }
    for object in [UPSTREAM, ACME, GLOBEX] {
        cluster
            .condition(object, "Programmed", "True")
            .await
            .unwrap();
    }
    let alice = cluster.client(ALICE);
    alice
        .call("echo", json!({"text": "hi"}))
        .await
        .unwrap()
        .result()
        .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_is_used_only_with_its_label() {
    let cluster = start("story-secret").await;
    let alice = cluster.client(ALICE);
    let unlabel = [
        "label",
        "secret",
        "acme-keys",
        "hangar.dev/use-",
        "-n",
        &cluster.namespace,
    ];
    cluster.api.kubectl(&unlabel, "").unwrap();
    let refs = cluster
        .condition(ACME, "ResolvedRefs", "False")
        .await
        .unwrap();
    let message = refs["message"].as_str().unwrap();
    assert!(message.contains("hangar.dev/use"), "{refs}");
    wait::eventually("alice's key is withdrawn", async || {
        wait::same(&alice.call("echo", json!({})).await?.status.as_u16(), &401)
    })
    .await
    .unwrap();
    let label = [
        "label",
        "secret",
        "acme-keys",
        "hangar.dev/use=api-keys",
        "-n",
        &cluster.namespace,
    ];
    cluster.api.kubectl(&label, "").unwrap();
    cluster
        .condition(ACME, "ResolvedRefs", "True")
        .await
        .unwrap();
    wait::eventually("alice's key is back", async || {
        alice
            .call("echo", json!({"text": "hi"}))
            .await?
            .result()
            .map(drop)
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_operator_may_die_and_writes_no_status_that_changes_nothing() {
    let mut cluster = start("story-operator").await;
    let alice = cluster.client(ALICE);
    let before = cluster.object(UPSTREAM).unwrap();
    cluster.operator.process().kill().unwrap();
    alice
        .call("echo", json!({"text": "hi"}))
        .await
        .unwrap()
        .result()
        .unwrap();
    cluster.operator.start_again().await.unwrap();
    // The next edit reaches the gateway, so the new process has gone through all objects.
    cluster
        .patch(ACME, &json!({"spec": {"admission": "Closed"}}))
        .unwrap();
    wait::eventually("acme is closed", async || {
        alice
            .call("echo", json!({"text": "hi"}))
            .await?
            .error_code()
            .map(drop)
    })
    .await
    .unwrap();
    cluster.condition(ACME, "Programmed", "True").await.unwrap();
    let after = cluster.object(UPSTREAM).unwrap();
    assert_eq!(before["status"], after["status"]);
    assert_eq!(
        before["metadata"]["resourceVersion"], after["metadata"]["resourceVersion"],
        "a status was written that changed nothing"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_that_is_none_of_ours_gets_nothing() {
    let cluster = start("story-stranger").await;
    let labels = json!({"app": "stranger"});
    let (api, namespace) = (cluster.api, cluster.namespace.as_str());
    let uid = api
        .make_pod(namespace, "stranger", "stranger", &labels)
        .unwrap();
    let audience = "hangar.dev/push";
    let token = api
        .pod_token(namespace, "stranger", &uid, "stranger", audience)
        .unwrap();
    let file = cluster.folder().join("stranger-token");
    std::fs::write(&file, token).unwrap();
    let setup = hangar_tests::gateway::Setup {
        operator: cluster.operator.url(),
        operator_ca: cluster.folder().join("ca.crt"),
        token_file: file,
        state: cluster.folder().join("stranger"),
    };
    let gateway = hangar_tests::gateway::Gateway::start(&setup, &[])
        .await
        .unwrap();
    gateway
        .metric("hangar_config_errors_total", &[("reason", "refused")], 1.0)
        .await
        .unwrap();
    assert_eq!(gateway.readyz().await.unwrap().status, 503);
}
