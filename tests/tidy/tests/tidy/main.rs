//! Rules of this repository that no compiler checks.

mod breaks;
mod cases;
mod chart;
mod conditions;
mod features;
mod files;
mod generated;
mod imports;
mod metrics;
mod ports;
mod words;

use anyhow::Result;
use cargo_metadata::{Metadata, MetadataCommand};

/// What cargo knows of the workspace; offline, so that a rule never waits for a network, and for this
/// platform only: a new machine has downloaded nothing else.
fn metadata() -> Result<Metadata> {
    let manifest = hangar_tidy::root().join("Cargo.toml");
    let mut command = MetadataCommand::new();
    command.manifest_path(manifest);
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let options = ["--offline", "--locked", "--filter-platform", &platform];
    command.other_options(options.map(str::to_owned));
    Ok(command.exec()?)
}

/// Fails with all findings at once.
fn assert_none(rule: &str, findings: &[String]) {
    assert!(findings.is_empty(), "{rule}:\n  {}", findings.join("\n  "));
}
