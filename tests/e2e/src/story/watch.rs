//! Consent and drift as a real Prometheus shows them, and what the pods weigh.

use std::io::Write;

use anyhow::{Context, Result, ensure};
use hangar_tests::client;

use super::Story;
use crate::metrics::Prometheus;
use crate::objects::{ALICE, UPSTREAM};
use crate::stage::{GATEWAY_POD, TOOLS};

impl<W: Write> Story<'_, W> {
    pub(super) async fn consent_and_drift_in_prometheus(&mut self) -> Result<()> {
        self.teller
            .step("Prometheus scrapes both; a tool changes under a running task")?;
        let operator = self.stage.operator_pod()?["status"]["podIP"].clone();
        let operator = operator.as_str().context("the operator has no address")?;
        let jobs = [
            ("gateway", self.stage.pod_address(GATEWAY_POD)?),
            ("operator", operator.to_owned()),
        ];
        let prometheus = Prometheus::start(self.stage, &jobs).await?;
        let acme = "tenant=\"acme\",upstream=\"tools/reports\"";
        prometheus
            .reaches(
                &format!("hangar_task_consent_decisions_total{{{acme},decision=\"accept\"}}"),
                1.0,
            )
            .await?;
        prometheus
            .reaches(r#"hangar_operator_gateways{state="programmed"}"#, 1.0)
            .await?;
        let client = self.stage.client(ALICE)?;
        let task = self.crawl(&client, 0.2).await?;
        self.contract("v2").await?;
        let failed = client.until(&task, "failed").await?;
        self.contract("v1").await?;
        self.teller.say(format_args!(
            "the task's owner: {}",
            failed["error"]["message"].as_str().unwrap_or("no message")
        ))?;
        prometheus
            .reaches(&format!("hangar_task_digest_drift_total{{{acme}}}"), 1.0)
            .await?;
        self.teller
            .held("P3", "one consent and one drift, both seen in Prometheus")
    }

    /// Which contract of `crawl` the upstream shows.
    async fn contract(&self, version: &str) -> Result<()> {
        let (name, port) = UPSTREAM;
        let server = self.stage.service(TOOLS, name, port)?;
        let reply = client::Client::new(&format!("http://{server}/control/schema"))
            .post(&[], version.to_owned().into())
            .await?;
        ensure!(
            reply.status == 200,
            "the upstream answered {}",
            reply.status
        );
        Ok(())
    }

    /// Resident memory of both binaries in their pods, without traffic, within what the chart
    /// promises by its requests.
    pub(super) fn idle_memory(&mut self) -> Result<()> {
        self.teller.step("What the pods weigh")?;
        for (name, most) in [("hangar-gateway", 20_000), ("hangar-operator", 30_000)] {
            let kilobytes = resident_kilobytes(name)?;
            ensure!(
                kilobytes < most,
                "{name}: {kilobytes} kB resident, {most} at most"
            );
            self.teller.say(format_args!(
                "{name}: {:.1} MB resident",
                f64::from(kilobytes) * 1024.0 / 1e6
            ))?;
        }
        Ok(())
    }
}

/// `VmRSS` of the one process of this name that runs as the image's user.
fn resident_kilobytes(name: &str) -> Result<u32> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        let folder = entry?.path();
        let exe = std::fs::read_link(folder.join("exe")).unwrap_or_default();
        if exe.file_name().is_some_and(|file| file == name)
            && let Ok(status) = std::fs::read_to_string(folder.join("status"))
            && let Some(kilobytes) = of_the_image(&status)
        {
            found.push(kilobytes);
        }
    }
    ensure!(found.len() == 1, "{} processes of {name}", found.len());
    Ok(found[0])
}

fn of_the_image(status: &str) -> Option<u32> {
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u32>().ok()
    };
    (field("Uid:")? == 65532).then(|| field("VmRSS:")).flatten()
}
