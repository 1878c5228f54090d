//! `tests/breaks/`: patches that break a promise each, and the test that must notice.
//!
//! A patch begins with three lines, `Promise: P1`, `Test: SUITE NAME` (a suite of `tests/tests/`) and
//! `Breaks: WHAT`; the rest is for `git apply`.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// One patch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Break {
    /// The file's name without its ending.
    pub name: String,
    pub promise: String,
    pub suite: String,
    /// The test's name, with or without the number of its case.
    pub test: String,
    /// What it does to the gateway.
    pub breaks: String,
}

/// Where the patches are, from the root.
pub const FOLDER: &str = "tests/breaks";
const ENDING: &str = "patch";

/// Every patch of a tree by name, or why one cannot be read.
pub fn all(root: &Path) -> Result<Vec<Break>, String> {
    let folder = root.join(FOLDER);
    let entries = fs::read_dir(&folder).map_err(|error| format!("{FOLDER}: {error}"))?;
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|ending| ending == ENDING));
    paths.sort();
    let breaks = paths.iter().map(|path| {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let text = fs::read_to_string(path).map_err(|error| format!("{name}: {error}"))?;
        Break::parse(&name, &text)
    });
    breaks.collect()
}

// === impl Break ===

impl Break {
    pub fn parse(name: &str, patch: &str) -> Result<Self, String> {
        let mut lines = patch.lines();
        let mut field = |wanted: &str| {
            let line = lines.next().unwrap_or_default();
            let value = line.strip_prefix(wanted).map(str::trim);
            let value = value.filter(|value| !value.is_empty());
            value
                .map(str::to_owned)
                .ok_or_else(|| format!("{name}: the line `{wanted} ...` is missing at its place"))
        };
        let promise = field("Promise:")?;
        let test = field("Test:")?;
        let breaks = field("Breaks:")?;
        let Some((suite, test)) = test.split_once(' ') else {
            return Err(format!("{name}: `Test:` names a suite and a test of it"));
        };
        Ok(Self {
            name: name.to_owned(),
            promise,
            suite: suite.to_owned(),
            test: test.to_owned(),
            breaks,
        })
    }

    /// The full name of its test in this tree: a case's number may stand before the name given here.
    pub fn test_in(&self, root: &Path) -> Result<String, String> {
        let path = format!("tests/tests/{}.rs", self.suite);
        let text = fs::read_to_string(root.join(&path))
            .map_err(|error| format!("{}: {path}: {error}", self.name))?;
        let found: Vec<_> = functions(&text)
            .filter(|function| without_case(function) == without_case(&self.test))
            .collect();
        match found.as_slice() {
            [only] => Ok((*only).to_owned()),
            [] => Err(format!("{}: {path} has no test `{}`", self.name, self.test)),
            _ => Err(format!("{}: {path} has several `{}`", self.name, self.test)),
        }
    }

    /// Whether the patch fits this tree; nothing is changed.
    pub fn check(&self, root: &Path) -> Result<(), String> {
        self.git(root, &["--check"])
    }

    /// Changes the tree.
    pub fn apply(&self, root: &Path) -> Result<(), String> {
        self.git(root, &[])
    }

    fn git(&self, root: &Path, options: &[&str]) -> Result<(), String> {
        let path = format!("{FOLDER}/{}.{ENDING}", self.name);
        let mut git = Command::new("git");
        git.arg("apply").args(options).arg(&path);
        // A tree that lies within another repository is none of its files.
        git.current_dir(root).stdin(Stdio::null());
        if let Some(above) = root.parent().filter(|_| !root.join(".git").exists()) {
            git.env("GIT_CEILING_DIRECTORIES", above);
        }
        let output = git
            .output()
            .map_err(|error| format!("git cannot be started, install it: {error}"))?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        Err(format!(
            "{path} does not apply, make it anew: {}",
            said.trim()
        ))
    }
}

/// Names of the functions at the outermost level.
fn functions(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let line = line.strip_prefix("async ").unwrap_or(line);
        let (name, _) = line.strip_prefix("fn ")?.split_once('(')?;
        Some(name)
    })
}

fn without_case(name: &str) -> &str {
    let Some(rest) = name.strip_prefix("case_") else {
        return name;
    };
    let digits = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    digits.strip_prefix('_').unwrap_or(name)
}

#[cfg(test)]
mod tests;
