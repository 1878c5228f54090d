//! `hangar-operator check`: what a cluster with just these manifests would say of them.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use hangar_operator_core::{Compiled, Finding, Settings, Verdict, World};
use hangar_wire::{AddressRules, ObjectKey};

use crate::args::Check;
use crate::source::folder::{Index, Scan};
use crate::source::manifest::{Problem, Reason};

/// What was found.
#[derive(Debug)]
pub struct Report {
    pub compiled: Compiled,
    pub problems: BTreeSet<Problem>,
}

/// What the exit code says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Good,
    Faulty,
    Unreadable,
}

const CLASS: &str = "hangar";
/// What a wrong path would otherwise pass with.
const NOTHING: &str = "no McpUpstream and no TenantPolicy of class hangar is there; \
    give files or folders of *.yaml, *.yml or *.json";

/// Prints the report; see [`Answer`] for the exit code.
pub fn main(args: &Check) -> ExitCode {
    let Check { paths } = args;
    let report = check(paths.clone());
    // Nobody reads on: that is no fault of the manifests.
    let _ = print(&report, &mut io::stdout().lock());
    ExitCode::from(match report.answer() {
        Answer::Good => 0,
        Answer::Faulty => 1,
        Answer::Unreadable => 2,
    })
}

/// Compiles files and folders as one world.
pub fn check(paths: Vec<PathBuf>) -> Report {
    // As if some time had passed: files that were just written are read as they are.
    let now = SystemTime::now() + Duration::from_hours(1);
    let Scan {
        changes, problems, ..
    } = Index::new(paths).scan(now);
    let mut world = World::new(Settings {
        class: CLASS.to_owned(),
        policy_namespaces: None,
        addresses: AddressRules::default(),
    });
    for change in changes {
        world.apply(change);
    }
    Report {
        compiled: world.compile(),
        problems,
    }
}

fn print(report: &Report, out: &mut impl Write) -> io::Result<()> {
    for problem in &report.problems {
        writeln!(out, "{problem} ({})", problem.reason.as_str())?;
    }
    for (key, verdict) in &report.compiled.verdicts {
        writeln!(out, "{}", line(key, verdict))?;
    }
    if report.is_empty() {
        writeln!(out, "{NOTHING}")?;
    }
    Ok(())
}

fn line(key: &ObjectKey, verdict: &Verdict) -> String {
    let ObjectKey {
        kind,
        namespace,
        name,
    } = key;
    let shown = |type_: &str, finding: &Finding| {
        let (status, reason) = (finding.status.as_str(), finding.reason.as_str());
        if status == "True" {
            return format!("{type_}=True");
        }
        format!("{type_}={status} {reason}")
    };
    let accepted = shown("Accepted", &verdict.accepted);
    let resolved = shown("ResolvedRefs", &verdict.resolved_refs);
    let findings = [&verdict.accepted, &verdict.resolved_refs];
    let bad = findings.into_iter().find(|it| !it.is_true());
    let message = bad.map_or_else(String::new, |it| format!(": {}", it.message));
    format!("{kind} {namespace}/{name} {accepted} {resolved}{message}")
}

// === impl Report ===

impl Report {
    pub fn answer(&self) -> Answer {
        let unreadable = |it: &Problem| it.reason == Reason::Unreadable;
        if self.problems.iter().any(unreadable) || self.is_empty() {
            return Answer::Unreadable;
        }
        let good = |it: &Verdict| it.accepted.is_true() && it.resolved_refs.is_true();
        if self.problems.iter().any(Problem::is_fault) || !self.compiled.verdicts.values().all(good)
        {
            return Answer::Faulty;
        }
        Answer::Good
    }

    fn is_empty(&self) -> bool {
        self.problems.is_empty() && self.compiled.verdicts.is_empty()
    }
}

#[cfg(test)]
mod tests;
