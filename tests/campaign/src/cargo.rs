//! Cargo in some tree, with a target folder of its own.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};

/// Where cargo runs, and where it builds.
#[derive(Debug)]
pub(crate) struct Cargo {
    tree: PathBuf,
    target: PathBuf,
}

/// How one test ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Passed,
    Failed,
    /// It did not run, so it shows nothing.
    NotRun(String),
}

// === impl Cargo ===

impl Cargo {
    pub(crate) fn new(tree: &Path, target: &Path) -> Self {
        Self {
            tree: tree.to_owned(),
            target: target.to_owned(),
        }
    }

    /// A command with its output on the terminal; whether it succeeded.
    pub(crate) fn shown(&self, args: &[&str], environment: &[(&str, String)]) -> Result<bool> {
        let mut command = self.command(args);
        let status = command.envs(environment.iter().cloned()).status();
        Ok(status.context("cargo cannot be started")?.success())
    }

    /// Builds quietly; an error holds what the compiler said last.
    pub(crate) fn build(&self, args: &[&str]) -> Result<(), String> {
        let output = self.command(args).stdout(Stdio::null()).output();
        let output = output.map_err(|error| format!("cargo cannot be started: {error}"))?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let first = said.lines().find(|line| line.starts_with("error"));
        Err(format!("does not build: {}", first.unwrap_or_default()))
    }

    /// Runs one test of a suite of the harness by its full name.
    pub(crate) fn test(&self, suite: &str, test: &str) -> Verdict {
        let args = ["test", "--locked", "--quiet", "--package", "hangar-tests"];
        let named = ["--test", suite, "--", "--exact", test];
        match self.command(&[&args[..], &named].concat()).output() {
            Ok(output) => verdict(&String::from_utf8_lossy(&output.stdout)),
            Err(error) => Verdict::NotRun(format!("cargo cannot be started: {error}")),
        }
    }

    fn command(&self, args: &[&str]) -> Command {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command.args(args).current_dir(&self.tree);
        command.env("CARGO_TARGET_DIR", &self.target);
        // The binaries of this tree, not those of some other.
        command.env_remove("HANGAR_BIN_DIR").stdin(Stdio::null());
        command
    }
}

/// What the test harness says of a run of one test.
pub(crate) fn verdict(output: &str) -> Verdict {
    let ended = output
        .lines()
        .rfind(|line| line.starts_with("test result: "));
    match ended {
        Some(line) if line.contains(" 1 passed; 0 failed") => Verdict::Passed,
        Some(line) if line.contains(" 0 passed; 1 failed") => Verdict::Failed,
        Some(_) => Verdict::NotRun("no test of this name".to_owned()),
        None => Verdict::NotRun("did not build or was ended".to_owned()),
    }
}
