//! What survives the end of a process: handles, configuration, the chain.

#![cfg(test)]

use std::time::Duration;

use hangar_tests::gateway::{Gateway, Setup};
use hangar_tests::process::{Program, Signal};
use hangar_tests::scripted::{Answer, Gate};
use hangar_tests::stack::{ALICE, REPORTS, Stack};
use hangar_tests::wait;
use serde_json::json;

const RUNS: usize = 50;

/// Each run kills the gateway at the birth of a task: in every second one as soon as the upstream
/// has given its whole answer out, otherwise when the client has the handle.
#[tokio::test]
async fn case_26_handles_that_were_given_out_survive_kill_9() {
    let mut stack = Stack::start().await.unwrap();
    let alice = stack.client(ALICE);
    let mut given = Vec::new();
    let mut in_between = 0;
    for run in 0..RUNS {
        let answered = Gate::new();
        stack
            .upstream
            .enqueue("tools/call", Answer::built_in().rings(&answered));
        let call = tokio::spawn({
            let alice = alice.clone();
            async move { alice.start_task("slow", json!({})).await }
        });
        answered.reached(1).await.unwrap();
        if run % 2 == 0 {
            stack.gateway.process().kill().unwrap();
            match call.await.unwrap() {
                Ok(task) => given.push(task),
                Err(_) => in_between += 1,
            }
        } else {
            given.push(call.await.unwrap().unwrap());
            stack.gateway.process().kill().unwrap();
        }
        stack.gateway.start_again().await.unwrap();
        stack.gateway.ready().await.unwrap();
    }
    assert_eq!(stack.upstream.tasks().len(), RUNS);
    assert!(
        in_between >= 10,
        "only {in_between} kills hit between answer and client"
    );
    for task in &given {
        alice.until(task, "working").await.unwrap();
    }
    assert_chain(&mut stack, &given).await;
}

/// Exports the chain of the stopped gateway, verifies it, and finds each handle born once.
async fn assert_chain(stack: &mut Stack, given: &[String]) {
    stack.gateway.process().kill().unwrap();
    let file = stack.folder().join("chain.jsonl");
    let store = format!("sqlite:{}", stack.setup().store_file().display());
    let export = ["provenance", "export", "--store", &store];
    let tool = Program::shipped("hangar-gateway", stack.folder()).unwrap();
    let mut process = tool.clone().args(export).start().unwrap();
    let status = process.end(Duration::from_secs(30)).await.unwrap();
    assert!(status.success());
    let lines = process.all_lines().await.unwrap();
    std::fs::write(&file, lines.join("\n") + "\n").unwrap();
    let verify = [
        "provenance".to_owned(),
        "verify".to_owned(),
        file.display().to_string(),
    ];
    let mut process = tool.args(verify).start().unwrap();
    assert!(
        process
            .end(Duration::from_secs(30))
            .await
            .unwrap()
            .success()
    );
    for task in given {
        let born = |line: &&String| line.contains("TaskCreated") && line.contains(task.as_str());
        assert_eq!(lines.iter().filter(born).count(), 1, "{task}");
    }
}

#[tokio::test]
async fn the_gateway_serves_without_an_operator() {
    let mut stack = Stack::start().await.unwrap();
    let alice = stack.client(ALICE);
    stack.operator.process().kill().unwrap();
    alice
        .call("echo", json!({"text": "hi"}))
        .await
        .unwrap()
        .result()
        .unwrap();
    stack.gateway.restart().await.unwrap();
    stack.gateway.ready().await.unwrap();
    alice
        .call("echo", json!({"text": "hi"}))
        .await
        .unwrap()
        .result()
        .unwrap();

    // With its state folder gone as well the next edit is still enforced.
    std::fs::remove_dir_all(stack.operator.state()).unwrap();
    stack.operator.start_again().await.unwrap();
    stack.operator.programmed(REPORTS).await.unwrap();
    let deny = |object: hangar_tests::manifests::Manifest| match object.value()["kind"].as_str() {
        Some("McpUpstream") => object.set("/spec/tools/deny", json!(["echo"])),
        _ => object,
    };
    stack.rewrite(deny).unwrap();
    wait::eventually("echo denied", async || {
        alice.call("echo", json!({})).await?.error_code().map(drop)
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_gateway_that_never_had_configuration_refuses() {
    let folder = tempfile::tempdir().unwrap();
    // Nobody listens there, and the files may come later.
    let setup = Setup {
        operator: "https://127.0.0.1:1".to_owned(),
        operator_ca: folder.path().join("ca.crt"),
        token_file: folder.path().join("pod.token"),
        state: folder.path().join("gateway"),
    };
    let mut gateway = Gateway::start(&setup, &[]).await.unwrap();
    assert_eq!(gateway.readyz().await.unwrap().status, 503);
    let client = gateway.client_of("default", "reports").with_key(ALICE);
    assert_eq!(client.call("echo", json!({})).await.unwrap().status, 503);
    assert!(gateway.scrape().await.unwrap().families().count() > 0);
    let probe = async |path: &str| {
        let url = format!("http://{}/{path}", gateway.metrics_address());
        hangar_tests::client::get(&url).await.unwrap()
    };
    assert_eq!(probe("livez").await.status, 200);
    // The kubelet looks for a late certificate once more when the start succeeds.
    let waiting = probe("startupz").await;
    assert_eq!(waiting.status, 503);
    assert!(String::from_utf8_lossy(&waiting.body).contains("ca.crt is missing"));
    std::fs::write(&setup.operator_ca, "any").unwrap();
    assert_eq!(probe("startupz").await.status, 200);
    let ended = gateway
        .process()
        .terminate(Duration::from_secs(20))
        .await
        .unwrap();
    assert_eq!(ended.code(), Some(0));
}

#[tokio::test]
async fn an_edit_is_programmed_only_when_the_gateway_has_it() {
    let mut stack = Stack::start().await.unwrap();
    stack.gateway.process().signal(Signal::Stop).unwrap();
    let retention =
        |object: hangar_tests::manifests::Manifest| match object.value()["kind"].as_str() {
            Some("McpUpstream") => object.set("/spec/tasks/retention", json!("12h")),
            _ => object,
        };
    stack.rewrite(retention).unwrap();
    let condition = stack
        .operator
        .condition(REPORTS, "Programmed", "False")
        .await
        .unwrap();
    // Not because the gateway is given up, which comes later: because it has not acknowledged.
    assert_eq!(condition["reason"], "Pending", "{condition}");
    stack.gateway.process().signal(Signal::Continue).unwrap();
    stack.operator.programmed(REPORTS).await.unwrap();
}
