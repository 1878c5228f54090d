//! The processes of the story, and the hands on them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Output;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use hangar_tests::client::{self, Client, Reply};
use hangar_tests::gateway::{Gateway, Setup};
use hangar_tests::operator::Operator;
use hangar_tests::process::{Process, Program};
use serde_json::Value;
use tokio::process::Command;

use crate::quickstart::{self, Caller};

/// An upstream, an operator and a gateway; all end when this is dropped.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) gateway: Gateway,
    pub(crate) operator: Operator,
    pub(crate) upstream: Upstream,
    /// By principal.
    callers: BTreeMap<String, Caller>,
    store: PathBuf,
    pub(crate) folder: PathBuf,
}

/// The MCP server behind the gateway.
#[derive(Debug)]
pub(crate) struct Upstream {
    origin: String,
    _process: Process,
}

/// What the upstream says has arrived.
#[derive(Debug)]
pub(crate) struct Log {
    received: BTreeMap<String, u64>,
    pub(crate) with_credential: u64,
}

/// All that a program has printed.
pub(crate) fn said(output: &Output) -> String {
    let all = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
    String::from_utf8_lossy(&all).trim_end().to_owned()
}

fn expect_ok(reply: &Reply) -> Result<()> {
    ensure!(reply.status == 200, "status {}", reply.status);
    Ok(())
}

// === impl Stage ===

impl Stage {
    /// Starts operator and gateway on the manifests of `FOLDER/manifests`.
    pub(crate) async fn set(folder: &Path, upstream: Upstream) -> Result<Self> {
        let manifests = folder.join("manifests");
        let callers = quickstart::callers(&manifests)?;
        let operator = Operator::start(&manifests, &folder.join("operator"), &[]).await?;
        let setup = Setup {
            operator: operator.url(),
            operator_ca: operator.state().join("ca.crt"),
            token_file: operator.state().join("pod.token"),
            state: folder.join("gateway"),
        };
        let gateway = Gateway::start(&setup, &[]).await?;
        Ok(Self {
            gateway,
            operator,
            upstream,
            callers,
            store: setup.store_file(),
            folder: folder.to_owned(),
        })
    }

    pub(crate) fn caller(&self, principal: &str) -> Result<&Caller> {
        let caller = self.callers.get(principal);
        caller.with_context(|| format!("the quickstart has no API key of `{principal}`"))
    }

    /// Anybody of another tenant.
    pub(crate) fn stranger_to(&self, tenant: &str) -> Result<&Caller> {
        let stranger = self.callers.values().find(|caller| caller.tenant != tenant);
        stranger.with_context(|| format!("the quickstart has no tenant but `{tenant}`"))
    }

    /// Where the gateway's binary is.
    pub(crate) fn gateway_program(&self) -> Result<PathBuf> {
        Ok(Program::shipped("hangar-gateway", &self.folder)?.path)
    }

    /// Runs `hangar-gateway provenance ...` to its end.
    pub(crate) async fn provenance(&self, args: &[&str]) -> Result<Output> {
        let mut command = Command::new(self.gateway_program()?);
        command.arg("provenance").args(args).kill_on_drop(true);
        command
            .output()
            .await
            .context("hangar-gateway cannot be started")
    }

    /// Every event of the store, a line each.
    pub(crate) async fn export(&self) -> Result<String> {
        let output = self
            .provenance(&["export", "--store", &self.store_url()])
            .await?;
        ensure!(output.status.success(), "export: {}", said(&output));
        String::from_utf8(output.stdout).context("the export is not UTF-8")
    }

    pub(crate) fn store_url(&self) -> String {
        format!("sqlite:{}", self.store.display())
    }

    /// What the gateway's `/metrics` says now.
    pub(crate) async fn metrics(&self) -> Result<String> {
        let url = format!("http://{}/metrics", self.gateway.metrics_address());
        let reply = client::get(&url).await?;
        expect_ok(&reply)?;
        String::from_utf8(reply.body.to_vec()).context("metrics are not UTF-8")
    }
}

// === impl Upstream ===

impl Upstream {
    pub(crate) async fn start(log_folder: &Path) -> Result<Self> {
        let mut process = Program::shipped("hangar-demo-upstream", log_folder)?
            .args(["--address", "127.0.0.1:0"])
            .start()?;
        let up = process.message("listening").await?;
        let url = up["mcp"]
            .as_str()
            .context("the upstream does not say where it is")?;
        let origin = url
            .strip_suffix("/mcp")
            .context("the upstream is not at /mcp")?;
        Ok(Self {
            origin: origin.to_owned(),
            _process: process,
        })
    }

    /// Where it speaks MCP.
    pub(crate) fn url(&self) -> String {
        format!("{}/mcp", self.origin)
    }

    /// Where its contract is changed, with `v1` or `v2`.
    pub(crate) fn schema_url(&self) -> String {
        format!("{}/control/schema", self.origin)
    }

    /// Where it says what arrived.
    pub(crate) fn log_url(&self) -> String {
        format!("{}/control/log", self.origin)
    }

    pub(crate) async fn show_schema(&self, version: &'static str) -> Result<()> {
        let control = Client::new(&self.schema_url());
        let reply = control
            .post(&[], Bytes::from_static(version.as_bytes()))
            .await?;
        expect_ok(&reply).with_context(|| format!("schema {version} of the upstream"))
    }

    pub(crate) async fn log(&self) -> Result<Log> {
        let reply = client::get(&self.log_url()).await?;
        let log: Value = serde_json::from_slice(&reply.body).context("the upstream's log")?;
        let received = log["received"]
            .as_object()
            .context("the log has no counts")?;
        let received = received
            .iter()
            .map(|(method, count)| Some((method.clone(), count.as_u64()?)))
            .collect::<Option<_>>();
        Ok(Log {
            received: received.context("a count is no number")?,
            with_credential: log["withCredential"]
                .as_u64()
                .context("no `withCredential`")?,
        })
    }
}

// === impl Log ===

impl Log {
    pub(crate) fn count(&self, method: &str) -> u64 {
        self.received.get(method).copied().unwrap_or_default()
    }

    /// Requests about tasks, whichever.
    pub(crate) fn about_tasks(&self) -> u64 {
        let about = self
            .received
            .iter()
            .filter(|(method, _)| method.starts_with("tasks/"));
        about.map(|(_, count)| count).sum()
    }
}
