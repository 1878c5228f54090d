//! The program from its command line to its output. Nothing here is about how fast anything is.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_hangar-bench");
const MEMBERS: [&str; 11] = [
    "bare_cpu_us_per_call",
    "bare_ratio",
    "concurrency",
    "cpu_us_per_call",
    "direct_rps",
    "name",
    "p50_us",
    "p99_us",
    "ratio",
    "rps",
    "rss_bytes",
];

/// Runs with the binaries that stand beside the program: a test builds nothing.
fn run(args: &[&str]) -> Result<Output> {
    let folder = Path::new(PROGRAM).parent().context("no folder")?;
    let output = Command::new(PROGRAM)
        .args(["--seconds", "0.2", "--concurrency", "1"])
        .args(args)
        .env("HANGAR_BIN_DIR", folder)
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{args:?}: {said}");
    Ok(output)
}

#[test]
fn every_case_runs_and_prints_every_member() {
    let output = run(&["--json"]).unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let mut names = BTreeSet::new();
    for line in text.lines() {
        let figures: Value = serde_json::from_str(line).unwrap();
        let members: Vec<_> = figures.as_object().unwrap().keys().collect();
        assert_eq!(members, MEMBERS, "{line}");
        assert_eq!(figures["concurrency"], 1, "{line}");
        for member in MEMBERS.iter().filter(|member| **member != "name") {
            let value = figures[*member].as_f64();
            assert!(value.is_some_and(f64::is_finite), "{member} in {line}");
        }
        assert!(figures["rss_bytes"].as_u64() > Some(0), "{line}");
        names.insert(figures["name"].as_str().unwrap().to_owned());
    }
    let expected = [
        "call-1mb",
        "call-small",
        "call-small-declared",
        "get-completed-1mb",
        "get-completed-small",
        "get-working",
    ];
    assert_eq!(names, expected.map(str::to_owned).into());
}

#[test]
fn one_case_alone_is_a_table_of_one_row() {
    let output = run(&["--only", "call-small"]).unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let rows: Vec<_> = text
        .lines()
        .filter(|line| line.starts_with("call-") || line.starts_with("get-"))
        .collect();
    assert_eq!(rows.len(), 1, "{text}");
    assert!(rows[0].starts_with("call-small "), "{text}");
}

#[test]
fn binaries_that_are_not_there_fail_the_run() {
    let nowhere = std::env::temp_dir().join("hangar-bench-has-no-binaries-here");
    let output = Command::new(PROGRAM)
        .env("HANGAR_BIN_DIR", nowhere)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("hangar-operator is not built"), "{said}");
}
