//! What must hold when things go wrong: drift, a killed gateway; and what is left to audit.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::process::Output;

use anyhow::{Context, Result, ensure};
use hangar_tests::envelope::Envelope;
use hangar_tests::metrics::Scrape;
use hangar_tests::wait;
use serde_json::{Value, json};

use super::{SITE, Story, expect, short};
use crate::curl::quote;
use crate::stage::said;

/// Of the gateway: what the story counts.
#[derive(Debug)]
pub(super) struct Counters {
    accepted: f64,
    drifted: f64,
    lines: Vec<String>,
}

const CONSENTS: &str = "hangar_task_consent_decisions_total";
const DRIFTS: &str = "hangar_task_digest_drift_total";

/// What the chain of the whole story must hold.
const EVENTS: [(&str, u64); 5] = [
    ("DigestMismatchInTask", 1),
    ("TaskCompleted", 2),
    ("TaskConsentDecided", 2),
    ("TaskCreated", 3),
    ("TaskFailed", 1),
];

/// Events of an export by type.
pub(super) fn events(export: &str) -> Result<BTreeMap<String, u64>> {
    let mut counts = BTreeMap::new();
    for line in export.lines() {
        let line: Value = serde_json::from_str(line).context("a line of the export")?;
        // The last line counts and hashes the others; it is no event.
        let Some(detail) = line.get("detail") else {
            continue;
        };
        let kind = detail["type"].as_str().context("an event without type")?;
        *counts.entry(kind.to_owned()).or_default() += 1;
    }
    Ok(counts)
}

// === impl Story ===

impl<W: Write> Story<'_, W> {
    pub(super) async fn drift(&mut self) -> Result<()> {
        self.teller
            .step("Drift: the tool's contract changes under a second running task")?;
        let (task, _) = self.start(1.0).await?;
        let cancelled = self.stage.upstream.log().await?.count("tasks/cancel");
        self.stage.upstream.show_schema("v2").await?;
        self.teller.say(format_args!(
            "task {} works; the upstream now shows another schema of crawl, with `copyTo`",
            short(&task)
        ))?;
        let refused = self.refused(&task).await?;
        wait::eventually("tasks/cancel at the upstream", async || {
            let now = self.stage.upstream.log().await?.count("tasks/cancel");
            wait::same(&now, &(cancelled + 1))
        })
        .await?;
        self.teller.say(format_args!(
            "tasks/get -> failed: {}; question withheld, task cancelled at the upstream",
            refused["error"]
        ))?;
        self.stage.upstream.show_schema("v1").await?;
        expect(
            "the failure after the schema was put back",
            &self.refused(&task).await?,
            &refused,
        )?;
        self.teller
            .say("the schema is put back: the task stays failed")?;
        self.teller.paste(format!(
            "curl -s {} -d v2",
            self.stage.upstream.schema_url()
        ));
        self.teller.paste(self.owner.curl(&Envelope::get(&task)));
        self.teller.paste(format!(
            "curl -s {} -d v1",
            self.stage.upstream.schema_url()
        ));
        self.teller.held(
            "P3",
            "nothing is handed over under a contract that differs; failed for good",
        )
    }

    pub(super) async fn restart(&mut self) -> Result<()> {
        self.teller
            .step("Kill -9: the gateway dies in the middle of a third task")?;
        let (task, _) = self.start(4.0).await?;
        let old = self.stage.gateway.process().pid();
        self.stage.gateway.restart().await?;
        let new = self.stage.gateway.process().pid();
        self.teller.say(format_args!(
            "task {} works; gateway {old} killed, {new} started in its place",
            short(&task)
        ))?;
        let (key, message) = self.asked(&task).await?;
        self.accept(&task, &key).await?;
        let published = self.published(&task).await?;
        self.teller
            .say(format_args!("tasks/get -> input_required: {message}"))?;
        self.teller
            .say(format_args!("accepted -> completed: {published}"))?;
        self.teller.paste(self.owner.curl(&Envelope::get(&task)));
        self.teller
            .held("P7", "tasks survive a restart of the gateway")
    }

    /// The counters of the story so far.
    pub(super) async fn counters(&self) -> Result<Counters> {
        let text = self.stage.metrics().await?;
        let scrape = Scrape::parse(&text)?;
        let told = |line: &&str| line.starts_with(CONSENTS) || line.starts_with(DRIFTS);
        Ok(Counters {
            accepted: scrape.sum(CONSENTS, &[("decision", "accept")]),
            drifted: scrape.sum(DRIFTS, &[]),
            lines: text.lines().filter(told).map(str::to_owned).collect(),
        })
    }

    pub(super) async fn metrics(&mut self, before: &Counters) -> Result<()> {
        self.teller
            .step("Metrics: what an operator would be alerted by")?;
        let after = self.counters().await?;
        for (when, counters) in [("before the kill", before), ("after it", &after)] {
            for line in &counters.lines {
                self.teller.say(format_args!("{line}   ({when})"))?;
            }
        }
        expect("consents counted before the kill", &before.accepted, &1.0)?;
        expect("drifts counted before the kill", &before.drifted, &1.0)?;
        expect("consents counted after it", &after.accepted, &1.0)?;
        let metrics = self.stage.gateway.metrics_address();
        self.teller
            .paste(format!("curl -s http://{metrics}/metrics"));
        Ok(())
    }

    pub(super) async fn chain(&mut self) -> Result<()> {
        self.teller
            .step("Chain: what happened is exported and verified offline")?;
        let text = self.stage.export().await?;
        let expected = EVENTS.map(|(kind, count)| (kind.to_owned(), count));
        let events = events(&text)?;
        expect("events", &events, &BTreeMap::from(expected))?;
        let counts: Vec<_> = events
            .iter()
            .map(|(kind, count)| format!("{count} {kind}"))
            .collect();
        self.teller
            .say(format_args!("export -> {}", counts.join(", ")))?;
        for private in [SITE, "is published", "Publish the report"] {
            ensure!(!text.contains(private), "the export tells `{private}`");
        }
        self.teller.held(
            "P6",
            "no argument, question, answer or result in it, hashes only",
        )?;
        let whole = self.verified(&text).await?;
        let damaged = self.damaged(&text).await?;
        let gateway = quote(&self.stage.gateway_program()?.to_string_lossy());
        let store = self.stage.store_url();
        for (verb, value) in [
            ("export --store", &store),
            ("verify", &whole),
            ("verify", &damaged),
        ] {
            self.teller
                .paste(format!("{gateway} provenance {verb} {}", quote(value)));
        }
        self.teller.held(
            "P5, P11",
            "each transition once and in order, and any change is found",
        )
    }

    /// Verifies the export, and gives the path of the file that holds it.
    async fn verified(&mut self, export: &str) -> Result<String> {
        let (path, output) = self.verify("export.jsonl", export).await?;
        expect("verify", &output.status.code(), &Some(0)).with_context(|| said(&output))?;
        self.teller
            .say(format_args!("verify -> {}", said(&output)))?;
        Ok(path)
    }

    /// The same with one letter changed: a verifier that takes everything shows nothing.
    async fn damaged(&mut self, export: &str) -> Result<String> {
        let damaged = export.replacen("\"crawl\"", "\"crawk\"", 1);
        ensure!(damaged != export, "the export does not name the tool");
        let (path, output) = self.verify("damaged.jsonl", &damaged).await?;
        expect(
            "verify of a damaged export",
            &output.status.code(),
            &Some(1),
        )
        .with_context(|| said(&output))?;
        let answer = said(&output);
        self.teller
            .say(format_args!("verify with one letter changed -> {answer}"))?;
        Ok(path)
    }

    async fn verify(&self, name: &str, export: &str) -> Result<(String, Output)> {
        let file = self.stage.folder.join(name);
        fs::write(&file, export)?;
        let path = file.display().to_string();
        let output = self.stage.provenance(&["verify", &path]).await?;
        Ok((path, output))
    }

    /// Waits until the task has failed, and checks that nothing else is told.
    async fn refused(&self, task: &str) -> Result<Value> {
        let result = self.owner.client.until(task, "failed").await?;
        expect(
            "the reason",
            &result["error"]["data"]["reason"],
            &json!("digest_drift"),
        )?;
        for payload in ["inputRequests", "result"] {
            expect(payload, &result[payload], &Value::Null)?;
        }
        Ok(result)
    }
}
