//! The official conformance suite, as a command that leaves its verdicts in files.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hangar_tests::process::Program;
use hangar_tests::{node, python};
use serde::Deserialize;

use crate::differences::Difference;
use crate::peer::Server;
use crate::stage::Stage;

/// Verdicts by scenario and check. A check that is made several times has several.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Verdicts(BTreeMap<String, BTreeMap<String, Vec<Status>>>);

/// The suite against one server, and against the same server behind the gateway.
#[derive(Debug)]
pub struct Runs {
    pub direct: Verdicts,
    pub through: Verdicts,
}

/// What the suite says of one check.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "UPPERCASE")]
pub enum Status {
    Success,
    Failure,
    Warning,
    Skipped,
    Info,
}

#[derive(Debug, Deserialize)]
struct Check {
    id: String,
    status: Status,
}

/// The revision whose required scenarios are run; the suite adds those of extensions.
const REVISION: &str = "2026-07-28";
/// Scenarios of the Tasks extension.
const TASKS: &str = "tasks-";
/// What a scenario may take, in milliseconds.
const SCENARIO_BOUND: &str = "60000";
const BOUND: Duration = Duration::from_mins(5);
/// `-2026-12-02T15-06-22-227Z`, with which the suite ends the names of its folders.
const TIMESTAMP: usize = 25;

/// Runs both.
pub async fn run() -> Result<Runs> {
    let folder = tempfile::tempdir()?;
    let program = server(folder.path())?;
    let server = Server::start(&program).await?;
    let direct = judge(server.url(), "direct", folder.path()).await?;
    // A server of its own: nothing of the first run is left in it.
    let server = Server::start(&program).await?;
    let stage = Stage::start(&[("conformance", server.url())]).await?;
    let through = judge(&stage.url("conformance"), "through", folder.path()).await?;
    Ok(Runs { direct, through })
}

/// The server that it judges.
pub(crate) fn server(folder: &Path) -> Result<Program> {
    python::program("conformance.py", folder)
}

/// The suite fails as a command when one check does; only the verdicts count here.
pub(crate) async fn judge(url: &str, name: &str, folder: &Path) -> Result<Verdicts> {
    let verdicts = folder.join(name);
    let output = verdicts.to_string_lossy().into_owned();
    let mut process = node::conformance(&format!("conformance-{name}"), folder)?
        .args(["server", "--url", url])
        .args(["--requirements", REVISION, "--timeout", SCENARIO_BOUND])
        .args(["--output-dir", &output])
        .start()?;
    process.end(BOUND).await?;
    let said = process.all_lines().await?;
    ensure!(
        said.iter().any(|line| line.contains("SUMMARY")),
        "the suite did not come to its end; it said last: {:?}",
        said.last()
    );
    Verdicts::read(&verdicts)
}

// === impl Verdicts ===

impl Verdicts {
    fn read(folder: &Path) -> Result<Self> {
        let mut all = Self::default();
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let scenario = name
                .strip_prefix("server-")
                .and_then(|name| name.get(..name.len().checked_sub(TIMESTAMP)?))
                .with_context(|| format!("{name} is no folder of a scenario"))?;
            let text = std::fs::read_to_string(entry.path().join("checks.json"))?;
            all.add(scenario, &text)
                .with_context(|| format!("checks of {scenario}"))?;
        }
        Ok(all)
    }

    fn add(&mut self, scenario: &str, checks: &str) -> Result<()> {
        let of_scenario = self.0.entry(scenario.to_owned()).or_default();
        for Check { id, status } in serde_json::from_str::<Vec<Check>>(checks)? {
            of_scenario.entry(id).or_default().push(status);
        }
        Ok(())
    }

    /// Every check that failed, as `scenario check`.
    pub fn failures(&self) -> Vec<String> {
        let checks = self.0.iter().flat_map(|(scenario, checks)| {
            let named = move |(id, verdicts)| (format!("{scenario} {id}"), verdicts);
            checks.iter().map(named)
        });
        checks
            .filter(|(_, verdicts): &(_, &Vec<_>)| verdicts.contains(&Status::Failure))
            .map(|(name, _)| name)
            .collect()
    }

    fn of(&self, scenario: &str, check: &str) -> String {
        let verdicts = self.0.get(scenario).and_then(|checks| checks.get(check));
        let words = verdicts.into_iter().flatten().map(ToString::to_string);
        let words: Vec<_> = words.collect();
        if words.is_empty() {
            "absent".to_owned()
        } else {
            words.join(" ")
        }
    }

    /// `12 passed, 1 skipped` of one scenario.
    fn summary(&self, scenario: &str) -> String {
        let Some(checks) = self.0.get(scenario) else {
            return "not run".to_owned();
        };
        let mut counts: BTreeMap<Status, usize> = BTreeMap::new();
        for status in checks.values().flatten() {
            *counts.entry(*status).or_default() += 1;
        }
        let parts = counts
            .iter()
            .map(|(status, count)| format!("{count} {status}"));
        parts.collect::<Vec<_>>().join(", ")
    }
}

// === impl Runs ===

impl Runs {
    /// Where the gateway makes a difference, in the order of scenarios.
    pub fn differences(&self) -> Vec<Difference> {
        let mut found = Vec::new();
        for (scenario, check) in self.checks() {
            let direct = self.direct.of(&scenario, &check);
            let through = self.through.of(&scenario, &check);
            if direct != through {
                let subject = format!("{scenario} {check}");
                found.push(Difference {
                    subject,
                    direct,
                    through,
                });
            }
        }
        found
    }

    /// Rows of a table: scenario, direct, through; those of the core protocol first.
    pub fn table(&self) -> String {
        let mut scenarios: Vec<_> = self.checks().into_iter().map(|(name, _)| name).collect();
        scenarios.dedup();
        scenarios.sort_by_key(|name| name.starts_with(TASKS));
        let mut table = "| scenario | direct | through |\n| --- | --- | --- |\n".to_owned();
        for scenario in scenarios {
            let direct = self.direct.summary(&scenario);
            let through = self.through.summary(&scenario);
            let _ = writeln!(table, "| `{scenario}` | {direct} | {through} |");
        }
        table
    }

    /// Every scenario and check of both runs.
    fn checks(&self) -> BTreeSet<(String, String)> {
        let both = [&self.direct, &self.through];
        let checks = both.into_iter().flat_map(|run| &run.0);
        let pairs = checks.flat_map(|(scenario, checks)| {
            let pair = |check: &String| (scenario.clone(), check.clone());
            checks.keys().map(pair)
        });
        pairs.collect()
    }
}

// === impl Status ===

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Success => "passed",
            Self::Failure => "failed",
            Self::Warning => "warned",
            Self::Skipped => "skipped",
            Self::Info => "noted",
        })
    }
}

#[cfg(test)]
mod tests;
