//! The operator, as it ships.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::client::{self, Reply};
use crate::metrics::Scrape;
use crate::process::{Process, Program};
use crate::wait;

/// A running operator.
#[derive(Debug)]
pub struct Operator {
    program: Program,
    process: Process,
    state: PathBuf,
    push: String,
    metrics: String,
}

const PUSH_FLAG: &str = "--push-address";
const METRICS_FLAG: &str = "--metrics-address";

// === impl Operator ===

impl Operator {
    /// Folder mode; `more` are further flags. Returns once it listens.
    pub async fn start(manifests: &Path, state: &Path, more: &[&str]) -> Result<Self> {
        let folder = manifests.to_string_lossy();
        let program = Program::shipped("hangar-operator", state.parent().unwrap_or(state))?
            .args(["run", "--manifests", &folder])
            .args(more.iter().copied());
        Self::start_program(program, state).await
    }

    /// Against an API server.
    pub async fn start_in_cluster(kubeconfig: &Path, state: &Path, more: &[&str]) -> Result<Self> {
        let program = Program::shipped("hangar-operator", state.parent().unwrap_or(state))?
            .args(["run"])
            .args(more.iter().copied())
            .env("KUBECONFIG", &kubeconfig.to_string_lossy());
        Self::start_program(program, state).await
    }

    async fn start_program(program: Program, state: &Path) -> Result<Self> {
        let program = program.args(["--allow-address", "127.0.0.0/8"]).args([
            "--state-dir".to_owned(),
            state.to_string_lossy().into_owned(),
        ]);
        let (process, push, metrics) = launch(&program, "127.0.0.1:0", "127.0.0.1:0").await?;
        Ok(Self {
            program,
            process,
            state: state.to_owned(),
            push,
            metrics,
        })
    }

    /// The URL that gateways subscribe at.
    pub fn url(&self) -> String {
        format!("https://{}", self.push)
    }

    /// The address of `/metrics`, `/livez` and `/readyz`.
    pub fn metrics_address(&self) -> &str {
        &self.metrics
    }

    pub fn state(&self) -> &Path {
        &self.state
    }

    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// `kill -9`, and up again at the same addresses.
    pub async fn restart(&mut self) -> Result<()> {
        self.process.kill()?;
        self.start_again().await
    }

    /// Up again at the same addresses after the process has ended.
    pub async fn start_again(&mut self) -> Result<()> {
        (self.process, self.push, self.metrics) =
            launch(&self.program, &self.push, &self.metrics).await?;
        Ok(())
    }

    /// What `/readyz` says.
    pub async fn readyz(&self) -> Result<Reply> {
        client::get(&format!("http://{}/readyz", self.metrics)).await
    }

    pub async fn scrape(&self) -> Result<Scrape> {
        Scrape::fetch(&self.metrics).await
    }

    /// The status of `Kind/namespace/name` as the folder mode shows it.
    pub fn status(&self, object: &str) -> Result<Value> {
        let text = fs::read_to_string(self.state.join("status.json")).context("no status.json")?;
        let mut all: Value = serde_json::from_str(&text)?;
        let status = all
            .get_mut(object)
            .with_context(|| format!("no status of {object}"))?;
        Ok(status.take())
    }

    /// Waits until a condition of an object has this status, and gives the condition.
    pub async fn condition(&self, object: &str, kind: &str, status: &str) -> Result<Value> {
        let what = format!("{object}: {kind}={status}");
        wait::eventually(&what, async || {
            let condition = condition(&self.status(object)?, kind)?;
            wait::same(&condition["status"].as_str(), &Some(status))?;
            Ok(condition)
        })
        .await
    }

    /// Waits for Programmed=True.
    pub async fn programmed(&self, object: &str) -> Result<()> {
        self.condition(object, "Programmed", "True").await.map(drop)
    }
}

/// One condition of a status, by type.
pub fn condition(status: &Value, kind: &str) -> Result<Value> {
    let conditions = status["conditions"].as_array().context("no conditions")?;
    let found = conditions
        .iter()
        .find(|condition| condition["type"] == kind);
    found
        .cloned()
        .with_context(|| format!("no condition {kind} in {status}"))
}

async fn launch(program: &Program, push: &str, metrics: &str) -> Result<(Process, String, String)> {
    let program = program
        .clone()
        .args([PUSH_FLAG, push, METRICS_FLAG, metrics]);
    let mut process = program.start()?;
    let up = process.message("listening").await?;
    let field = |name: &str| {
        let value = up[name].as_str().map(str::to_owned);
        value.with_context(|| format!("the operator does not say where `{name}` is: {up}"))
    };
    let (push, metrics) = (field("push")?, field("metrics")?);
    Ok((process, push, metrics))
}
