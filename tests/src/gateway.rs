//! The gateway, as it ships.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::client::{self, Client, Reply};
use crate::metrics::Scrape;
use crate::process::{Process, Program};
use crate::wait;

/// A running gateway.
#[derive(Debug)]
pub struct Gateway {
    program: Program,
    process: Process,
    state: PathBuf,
    mcp: String,
    metrics: String,
}

/// Where a gateway finds its operator, and where it keeps its own things.
#[derive(Clone, Debug)]
pub struct Setup {
    pub operator: String,
    pub operator_ca: PathBuf,
    pub token_file: PathBuf,
    /// Ledger and last-known-good; made when absent.
    pub state: PathBuf,
}

// === impl Setup ===

impl Setup {
    pub fn store_file(&self) -> PathBuf {
        self.state.join("ledger.sqlite")
    }
}

// === impl Gateway ===

impl Gateway {
    /// Returns once it listens, ready or not; `more` are further flags.
    pub async fn start(setup: &Setup, more: &[&str]) -> Result<Self> {
        Self::start_with_store(setup, &setup.store_file(), more).await
    }

    /// As [`Gateway::start`], with the ledger in this file.
    pub async fn start_with_store(setup: &Setup, store: &Path, more: &[&str]) -> Result<Self> {
        std::fs::create_dir_all(&setup.state)?;
        let Setup {
            operator,
            operator_ca,
            token_file,
            state,
        } = setup;
        let program = Program::shipped("hangar-gateway", state.parent().unwrap_or(state))?
            .args(["run", "--operator", operator])
            .args(["--operator-ca", &operator_ca.to_string_lossy()])
            .args(["--token-file", &token_file.to_string_lossy()])
            .args(["--store", &format!("sqlite:{}", store.display())])
            .args(["--state-dir", &state.to_string_lossy()])
            .args(more.iter().copied());
        let (process, mcp, metrics) = launch(&program, "127.0.0.1:0", "127.0.0.1:0").await?;
        Ok(Self {
            program,
            process,
            state: state.clone(),
            mcp,
            metrics,
        })
    }

    /// A client of `POST /mcp`, without credential.
    pub fn client(&self) -> Client {
        Client::new(&format!("http://{}/mcp", self.mcp))
    }

    /// A client of `POST /mcp/{namespace}/{upstream}`, without credential.
    pub fn client_of(&self, namespace: &str, upstream: &str) -> Client {
        Client::new(&format!("http://{}/mcp/{namespace}/{upstream}", self.mcp))
    }

    /// The address that clients call.
    pub fn mcp_address(&self) -> &str {
        &self.mcp
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
        (self.process, self.mcp, self.metrics) =
            launch(&self.program, &self.mcp, &self.metrics).await?;
        Ok(())
    }

    pub async fn scrape(&self) -> Result<Scrape> {
        Scrape::fetch(&self.metrics).await
    }

    /// Waits until the sum over the series of this name with these labels is at least `least`.
    pub async fn metric(&self, name: &str, labels: &[(&str, &str)], least: f64) -> Result<f64> {
        wait::eventually(&format!("{name} {labels:?} >= {least}"), async || {
            let sum = self.scrape().await?.sum(name, labels);
            ensure!(sum >= least, "it is {sum}");
            Ok(sum)
        })
        .await
    }

    /// What `/readyz` says.
    pub async fn readyz(&self) -> Result<Reply> {
        client::get(&format!("http://{}/readyz", self.metrics)).await
    }

    pub async fn ready(&self) -> Result<()> {
        wait::eventually("gateway ready", async || {
            wait::same(&self.readyz().await?.status.as_u16(), &200)
        })
        .await
    }
}

async fn launch(program: &Program, mcp: &str, metrics: &str) -> Result<(Process, String, String)> {
    let program = program
        .clone()
        .args(["--mcp-address", mcp, "--metrics-address", metrics]);
    let mut process = program.start()?;
    let up = process.message("listening").await?;
    let field = |name: &str| {
        let value = up[name].as_str().map(str::to_owned);
        value.with_context(|| format!("the gateway does not say where `{name}` is: {up}"))
    };
    let (mcp, metrics) = (field("mcp")?, field("metrics")?);
    Ok((process, mcp, metrics))
}
