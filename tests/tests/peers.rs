//! The official Python SDK on both sides: first with nothing between them, which is what a
//! gateway in the middle is measured by.

#![cfg(test)]

use hangar_tests::gateway::Gateway;
use hangar_tests::manifests;
use hangar_tests::operator::Operator;
use hangar_tests::stack::{self, ALICE, REPORTS};
use hangar_tests::{python, scripted};
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
    let objects = folder.path().join("manifests");
    std::fs::create_dir(&objects).unwrap();
    manifests::write(&objects, "world.yaml", &stack::world(server.url())).unwrap();
    let state = folder.path().join("operator");
    let operator = Operator::start(&objects, &state, &[]).await.unwrap();
    let setup = stack::setup(&operator, &folder.path().join("gateway"));
    let gateway = Gateway::start(&setup, &[]).await.unwrap();
    operator.programmed(REPORTS).await.unwrap();
    gateway.ready().await.unwrap();
    let url = format!("http://{}/mcp/default/reports", gateway.mcp_address());
    let steps = python::run_client(&url, Some(ALICE), folder.path())
        .await
        .unwrap();
    assert_eq!(json!(steps), every_step());
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
