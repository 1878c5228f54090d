//! Peers made with the official Python SDK: a server and a client, each a program of its own.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::process::{Process, Program};

/// A running MCP server of the Python SDK with the tools `echo`, `slow` and `ask`.
#[derive(Debug)]
pub struct Server {
    url: String,
    process: Process,
}

const CLIENT_BOUND: Duration = Duration::from_mins(1);

// === impl Server ===

impl Server {
    pub async fn start(log_folder: &Path) -> Result<Self> {
        let mut process = program("server.py", log_folder)?.start()?;
        let up = process.message("listening").await?;
        let url = up["mcp"]
            .as_str()
            .context("the server does not say where it is")?;
        Ok(Self {
            url: url.to_owned(),
            process,
        })
    }

    /// The MCP endpoint.
    pub fn url(&self) -> &str {
        &self.url
    }

    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }
}

/// Runs the client against an endpoint; gives one JSON object per step that it took.
pub async fn run_client(url: &str, key: Option<&str>, log_folder: &Path) -> Result<Vec<Value>> {
    let key = key.into_iter().flat_map(|key| ["--key", key]);
    let mut process = program("client.py", log_folder)?
        .args([url])
        .args(key)
        .start()?;
    let status = process.end(CLIENT_BOUND).await?;
    let lines = process.all_lines().await?;
    ensure!(
        status.success(),
        "the Python client failed after {lines:?}; see {}",
        log_folder.join("client.py.log").display()
    );
    let steps = lines.iter().map(|line| serde_json::from_str(line));
    steps
        .collect::<Result<_, _>>()
        .context("a step is not JSON")
}

/// One governed task with one consent.
#[derive(Debug)]
pub struct Consent<'a> {
    pub url: &'a str,
    pub key: &'a str,
    pub tool: &'a str,
    /// JSON of the call's arguments.
    pub arguments: &'a str,
    /// JSON of what is accepted with.
    pub content: &'a str,
}

/// Runs a client through that task; gives the text of its result.
pub async fn run_consent(consent: &Consent<'_>, log_folder: &Path) -> Result<String> {
    let Consent {
        url,
        key,
        tool,
        arguments,
        content,
    } = consent;
    let script = "consent.py";
    let mut process = program(script, log_folder)?
        .args([*url])
        .args(["--key", key, "--tool", tool])
        .args(["--arguments", arguments, "--content", content])
        .start()?;
    let status = process.end(CLIENT_BOUND).await?;
    let lines = process.all_lines().await?;
    ensure!(
        status.success(),
        "the Python client failed; see {}",
        log_folder.join(format!("{script}.log")).display()
    );
    lines.into_iter().last().context("no result")
}

/// A script of `tests/peers`.
pub fn program(script: &str, log_folder: &Path) -> Result<Program> {
    let path = peers().join(script);
    Ok(Program::other(script, &interpreter()?, log_folder)
        .args([path.to_string_lossy()])
        .env("PYTHONUNBUFFERED", "1")
        .env("PYTHONDONTWRITEBYTECODE", "1"))
}

/// The interpreter of the environment that `cargo verify` makes.
fn interpreter() -> Result<PathBuf> {
    let output = Command::new("python3")
        .arg(peers().join("environment.py"))
        .arg("find")
        .output()
        .context("python3 cannot be started: install Python 3.10 or newer")?;
    ensure!(
        output.status.success(),
        "no Python environment for the tests; `cargo verify` makes it: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(PathBuf::from(String::from_utf8(output.stdout)?.trim()))
}

fn peers() -> PathBuf {
    crate::repository().join("tests/peers")
}
