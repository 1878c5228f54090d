//! The official Python SDK on both sides: first with nothing between them, which is what a
//! gateway in the middle is measured by. And the TypeScript SDK as an upstream of 2025-11-25.

#![cfg(test)]

use std::path::{Path, PathBuf};

use hangar_tests::gateway::Gateway;
use hangar_tests::manifests;
use hangar_tests::operator::Operator;
use hangar_tests::stack::{self, ALICE, REPORTS};
use hangar_tests::{chain, node, python, scripted};
use serde_json::json;

#[tokio::test]
async fn python_client_and_server_agree() {
    let logs = tempfile::tempdir().unwrap();
    let server = python::Server::start(logs.path()).await.unwrap();
    let steps = python::run_client(server.url(), None, logs.path())
        .await
        .unwrap();
    assert_eq!(json!(steps), every_step());
}

#[tokio::test]
async fn python_client_is_understood_by_the_scripted_upstream() {
    let logs = tempfile::tempdir().unwrap();
    let upstream = scripted::Upstream::start().await.unwrap();
    // The client's first slow task ends as soon as it is polled, its second one never.
    let url = upstream.url();
    let client = python::run_client(&url, Some("a-key"), logs.path());
    let finish = async {
        upstream.arrived("tasks/get", 1).await.unwrap();
        upstream.complete(&upstream.tasks()[0], "done").unwrap();
    };
    let (steps, ()) = tokio::join!(client, finish);
    assert_eq!(json!(steps.unwrap()), every_step());
    let bearer = Some("Bearer a-key");
    assert!(
        upstream
            .seen()
            .iter()
            .all(|seen| seen.header("authorization") == bearer)
    );
}

#[tokio::test]
async fn python_client_and_server_agree_through_the_gateway() {
    let folder = tempfile::tempdir().unwrap();
    let server = python::Server::start(folder.path()).await.unwrap();
    let (_operator, gateway, _) = before(server.url(), folder.path()).await;
    let url = format!("http://{}/mcp/default/reports", gateway.mcp_address());
    let steps = python::run_client(&url, Some(ALICE), folder.path())
        .await
        .unwrap();
    assert_eq!(json!(steps), every_step());
}

/// This SDK's store ties a task to the session that it was born in, and keeps it for the `ttl` that
/// was asked for.
#[tokio::test]
async fn tasks_of_the_typescript_sdk_of_2025_11_25_are_served_as_those_of_2026_07_28() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = node::program("legacy_tasks.mjs", folder.path())
        .unwrap()
        .start()
        .unwrap();
    let up = server.message("listening").await.unwrap();
    let url = up["mcp"].as_str().unwrap();
    let (_operator, gateway, store) = before(url, folder.path()).await;
    let alice = gateway.client_of("default", "reports").with_key(ALICE);
    let said = alice.call("echo", json!({"text": "hi"})).await.unwrap();
    assert_eq!(said.result().unwrap()["content"][0]["text"], "hi");
    let start = async |kind: &str| alice.start_task("slow", json!({"kind": kind})).await;

    let task = start("done").await.unwrap();
    let done = alice.until(&task, "completed").await.unwrap();
    assert_eq!(done["result"]["content"][0]["text"], "slept well");
    assert_eq!(
        (&done["ttlMs"], &done["pollIntervalMs"]),
        (&json!(86_400_000), &json!(50))
    );
    let broken = start("broken").await.unwrap();
    let told = alice.until(&broken, "completed").await.unwrap();
    assert_eq!(told["result"]["isError"], true);
    let asking = start("asking").await.unwrap();
    let failed = alice.until(&asking, "failed").await.unwrap();
    assert_eq!(failed["error"]["data"]["reason"], "consent_unavailable");
    let endless = start("endless").await.unwrap();
    alice.until(&endless, "working").await.unwrap();
    alice.cancel(&endless).await.unwrap().result().unwrap();
    let cancelled = gateway.metric("hangar_tasks_cancelled_total", &[], 1.0);
    cancelled.await.unwrap();

    let export = chain::export(&store, folder.path()).await.unwrap();
    for (task, end) in [
        (task, "TaskCompleted"),
        (broken, "TaskCompleted"),
        (asking, "TaskFailed(consent_unavailable)"),
        (endless, "TaskCancelled"),
    ] {
        assert_eq!(
            chain::of_task(&export, &task).unwrap(),
            ["TaskCreated", end]
        );
    }
}

/// The usual world with this upstream; operator, gateway, and the file of its ledger.
async fn before(url: &str, folder: &Path) -> (Operator, Gateway, PathBuf) {
    let objects = folder.join("manifests");
    std::fs::create_dir(&objects).unwrap();
    manifests::write(&objects, "world.yaml", &stack::world(url)).unwrap();
    let state = folder.join("operator");
    let operator = Operator::start(&objects, &state, &[]).await.unwrap();
    let setup = stack::setup(&operator, &folder.join("gateway"));
    let gateway = Gateway::start(&setup, &[]).await.unwrap();
    operator.programmed(REPORTS).await.unwrap();
    gateway.ready().await.unwrap();
    (operator, gateway, setup.store_file())
}

fn every_step() -> serde_json::Value {
    json!([
        {"step": "listed", "tools": ["ask", "echo", "slow"]},
        {"step": "called", "text": "hello"},
        {"step": "slow started", "status": "working"},
        {"step": "completed", "text": "done"},
        {"step": "ask started", "status": "working"},
        {"step": "asked", "keys": ["name"]},
        {"step": "answered", "text": "Hello Ann"},
        {"step": "slow started", "status": "working"},
        {"step": "cancelled", "status": "cancelled"},
    ])
}
