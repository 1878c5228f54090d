//! The story: install, govern, lose pods, remove, install again. A step that does not hold ends it.

mod install;
mod remove;
mod survive;
mod upgrade;
mod watch;

use std::io::Write;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hangar_tests::client::Client;
use hangar_tests::teller::Teller;
use hangar_tests::wait;
use serde_json::{Value, json};

use crate::stage::{GATEWAY_POD, PLATFORM, Stage};

/// Everything a step needs.
#[derive(Debug)]
pub(crate) struct Story<'a, W> {
    stage: &'a Stage,
    teller: &'a mut Teller<W>,
}

/// How long a pod may take to be replaced on a busy machine.
const REPLACED: Duration = Duration::from_mins(2);

// === impl Story ===

impl<'a, W: Write> Story<'a, W> {
    pub(crate) fn new(stage: &'a Stage, teller: &'a mut Teller<W>) -> Self {
        Self { stage, teller }
    }

    pub(crate) async fn play(mut self) -> Result<()> {
        self.prepare()?;
        self.refused_values()?;
        self.without_crds()?;
        self.first_install().await?;
        self.secrets_in_words().await?;
        self.consent_and_drift_in_prometheus().await?;
        self.idle_memory()?;
        self.gateway_pod_lost().await?;
        self.operator_pod_lost().await?;
        self.upgrade_with_every_value().await?;
        self.uninstall_and_install_again().await?;
        self.teller.end()
    }

    /// A task of `crawl`, which asks its question at once or after this time.
    async fn crawl(&self, client: &Client, seconds: f64) -> Result<String> {
        let arguments = json!({"site": "intranet.example", "seconds": seconds});
        client.start_task("crawl", arguments).await
    }

    /// Says yes to the task's question and waits for its result.
    async fn accept(&self, client: &Client, task: &str) -> Result<String> {
        let asked = client.until(task, "input_required").await?;
        let questions = asked["inputRequests"].as_object().context("no questions")?;
        let (key, _) = questions.iter().next().context("no question")?;
        let reply = client.answer(task, key, "accept", json!({"publish": true}));
        reply.await?.result()?;
        let ended = client.until(task, "completed").await?;
        let text = ended["result"]["content"][0]["text"].as_str();
        Ok(text.context("no text in the result")?.to_owned())
    }

    /// Waits until the gateway's pod is another one than this, and Ready.
    async fn gateway_replaced(&self, uid: &Value) -> Result<()> {
        wait::within(REPLACED, "another gateway pod is Ready", async || {
            let pod = self.stage.get(&["pod", GATEWAY_POD, "-n", PLATFORM])?;
            ensure!(&pod["metadata"]["uid"] != uid, "still the old pod");
            is_ready(&pod)
        })
        .await
    }
}

fn is_ready(pod: &Value) -> Result<()> {
    let conditions = pod["status"]["conditions"].as_array();
    let ready = conditions
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Ready" && condition["status"] == "True");
    ensure!(ready, "the pod is not Ready");
    Ok(())
}
