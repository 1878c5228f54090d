//! Pods that go away in the middle.

use std::io::Write;

use anyhow::{Context, Result, ensure};
use hangar_tests::wait;
use serde_json::{Value, json};

use super::{REPLACED, Story, is_ready};
use crate::objects::ALICE;
use crate::stage::{GATEWAY_POD, OPERATOR, PLATFORM};

/// The policy's answer to a tool that it does not allow.
const UNKNOWN_TOOL: i64 = -32602;

impl<W: Write> Story<'_, W> {
    pub(super) async fn gateway_pod_lost(&mut self) -> Result<()> {
        self.teller
            .step("The gateway's pod is deleted in the middle of a task")?;
        let client = self.stage.client(ALICE)?;
        let task = self.crawl(&client, 1.0).await?;
        let pod = self.stage.get(&["pod", GATEWAY_POD, "-n", PLATFORM])?;
        self.stage
            .kubectl(&["delete", "pod", GATEWAY_POD, "-n", PLATFORM], "")?;
        self.gateway_replaced(&pod["metadata"]["uid"]).await?;
        let text = self.accept(&client, &task).await?;
        self.teller
            .say(format_args!("the owner still gets: {text}"))?;
        self.chain_verifies(2)?;
        self.teller.held(
            "P7",
            "the task is where the claim is, not where the pod was",
        )
    }

    pub(super) async fn operator_pod_lost(&mut self) -> Result<()> {
        self.teller
            .step("The operator's pod is deleted; an edit waits for the next one")?;
        let client = self.stage.client(ALICE)?;
        self.scale(0)?;
        wait::within(REPLACED, "no operator pod", async || {
            let pods = self.stage.operator_pods()?.len();
            ensure!(pods == 0, "{pods} are still there");
            Ok(())
        })
        .await?;
        self.deny(&["greet"])?;
        for _ in 0..20 {
            self.greet(&client).await?;
        }
        self.teller.say("20 calls answered without an operator")?;
        self.scale(1)?;
        self.refused(&client).await?;
        self.teller.say("the edit is enforced once it is back")?;
        // And a pod that is only deleted, with calls going on until the next one is Ready.
        let old = self.stage.operator_pod()?["metadata"]["uid"].clone();
        self.deny(&[])?;
        wait::eventually("the edit is taken back", async || self.greet(&client).await).await?;
        let name = self.stage.operator_pod()?["metadata"]["name"].clone();
        let name = name.as_str().context("a pod without name")?;
        let delete = ["delete", "pod", name, "-n", PLATFORM, "--wait=false"];
        self.stage.kubectl(&delete, "")?;
        let mut calls = 0;
        wait::within(REPLACED, "another operator pod is Ready", async || {
            // A call that fails ends the story: it is not what is waited for.
            if let Err(error) = self.greet(&client).await {
                return Ok(Err(error));
            }
            calls += 1;
            let pod = self.stage.operator_pod()?;
            ensure!(pod["metadata"]["uid"] != old, "still the old pod");
            is_ready(&pod).map(Ok)
        })
        .await??;
        self.deny(&["greet"])?;
        self.refused(&client).await?;
        self.deny(&[])?;
        wait::eventually("the edit is taken back", async || self.greet(&client).await).await?;
        self.teller.held(
            "P9",
            &format!("{calls} calls answered while the pod was replaced, the next edit enforced"),
        )
    }

    fn scale(&self, replicas: u32) -> Result<()> {
        let replicas = format!("--replicas={replicas}");
        self.stage
            .kubectl(&["scale", OPERATOR, "-n", PLATFORM, &replicas], "")
            .map(drop)
    }

    /// Sets the tools that the tenant may not use.
    fn deny(&self, tools: &[&str]) -> Result<()> {
        let tools = json!({"deny": tools});
        let edit = json!([{"op": "add", "path": "/spec/upstreams/0/tools", "value": tools}]);
        let edit = edit.to_string();
        let args = [
            "patch",
            "tenantpolicy",
            "acme",
            "-n",
            PLATFORM,
            "--type=json",
            "-p",
            &edit,
        ];
        self.stage.kubectl(&args, "").map(drop)
    }

    async fn greet(&self, client: &hangar_tests::client::Client) -> Result<()> {
        let reply = client.call("greet", json!({"name": "Ann"})).await?;
        let text: Value = reply.result()?["content"][0]["text"].clone();
        ensure!(
            text.as_str().is_some_and(|text| text.contains("Ann")),
            "greet answered {text}"
        );
        Ok(())
    }

    async fn refused(&self, client: &hangar_tests::client::Client) -> Result<()> {
        wait::within(REPLACED, "greet is refused", async || {
            let reply = client.call("greet", json!({"name": "Ann"})).await?;
            wait::same(&reply.error_code()?, &UNKNOWN_TOOL)
        })
        .await
    }
}
