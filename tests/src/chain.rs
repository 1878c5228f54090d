//! The chain of events, exported and verified by the binary that ships.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::process::Program;
use crate::wait;

/// The exported text, after `provenance verify` agreed with it. Works beside a running gateway.
pub async fn export(store: &Path, scratch: &Path) -> Result<String> {
    let file = scratch.join("export.jsonl");
    let file_text = file.display().to_string();
    let store = format!("sqlite:{}", store.display());
    run(
        scratch,
        &["export", "--store", &store, "--output", &file_text],
    )
    .await?;
    run(scratch, &["verify", &file_text]).await?;
    std::fs::read_to_string(&file).context("no export")
}

/// The events of one task in their order: `TaskCreated`, `TaskFailed(digest_drift)`,
/// `TaskConsentDecided(accept)`.
pub fn of_task(export: &str, task: &str) -> Result<Vec<String>> {
    let mut events = Vec::new();
    for line in export.lines() {
        let event: Value = serde_json::from_str(line).context("line of an export")?;
        if event["key"]["task"] == task {
            events.push(named(&event["detail"]));
        }
    }
    Ok(events)
}

async fn run(scratch: &Path, args: &[&str]) -> Result<()> {
    let mut process = Program::shipped("hangar-gateway", scratch)?
        .args(["provenance"])
        .args(args.iter().copied())
        .start()?;
    let status = process.end(wait::PATIENCE).await?;
    ensure!(
        status.success(),
        "provenance {args:?}: {status}, {:?}",
        process.lines()
    );
    Ok(())
}

fn named(detail: &Value) -> String {
    let kind = detail["type"].as_str().unwrap_or("?");
    let more = detail["reason"].as_str();
    match more.or_else(|| detail["verdict"]["decision"].as_str()) {
        Some(more) => format!("{kind}({more})"),
        None => kind.to_owned(),
    }
}
