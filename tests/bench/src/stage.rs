//! The processes that are measured, set up for one case.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use hangar_tests::client::Client;
use hangar_tests::gateway::Gateway;
use hangar_tests::manifests::{self, mk_keys, mk_tenant, mk_upstream};
use hangar_tests::operator::Operator;
use hangar_tests::stack;
use serde_json::json;
use tempfile::TempDir;

use crate::case::Case;
use crate::load::Target;
use crate::upstream::Upstream;

/// An upstream, an operator, and a gateway with one tenant; all end when this is dropped.
#[derive(Debug)]
pub(crate) struct Stage {
    gateway: Gateway,
    _operator: Operator,
    upstream: Upstream,
    /// The id of the task that the case is about; empty when it is about none.
    task: String,
    _folder: TempDir,
}

const KEY: &str = "alice-key-0123456789abcdef";
const NAME: &str = "reports";
/// Of requests a second and at once: the most that a policy may say.
const UNLIMITED: u32 = 1_000_000;

// === impl Stage ===

impl Stage {
    /// Returns once the gateway serves; the case's task is born by then.
    pub(crate) async fn set(case: Case) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("hangar-bench-").tempdir()?;
        let upstream = Upstream::start(folder.path()).await?;
        let manifests = folder.path().join("manifests");
        std::fs::create_dir(&manifests)?;
        let objects = [
            mk_upstream(NAME, &format!("http://{}/mcp", upstream.address())),
            mk_tenant("acme")
                .grants(NAME)
                .set("/spec/limits/requestsPerSecond", json!(UNLIMITED))
                .set("/spec/limits/burst", json!(UNLIMITED)),
            mk_keys("acme", &[("alice", KEY)]),
        ];
        manifests::write(&manifests, "world.yaml", &objects)?;
        let operator = Operator::start(&manifests, &folder.path().join("operator"), &[]).await?;
        let setup = stack::setup(&operator, &folder.path().join("gateway"));
        let gateway = Gateway::start(&setup, &[]).await?;
        operator.programmed(stack::REPORTS).await?;
        gateway.ready().await?;
        let client = gateway.client_of("default", NAME).with_key(KEY);
        let task = birth(case, &client).await?;
        Ok(Self {
            gateway,
            _operator: operator,
            upstream,
            task,
            _folder: folder,
        })
    }

    /// The case's call to the gateway.
    pub(crate) fn through_gateway(&self, case: Case) -> Result<Target> {
        let address = self.gateway.mcp_address();
        let address: SocketAddr = address.parse().context("address of the gateway")?;
        let envelope = case
            .request(&self.task)
            .header("authorization", &format!("Bearer {KEY}"));
        Target::new(address, &format!("/mcp/default/{NAME}"), &envelope)
    }

    /// The same call to the upstream.
    pub(crate) fn direct(&self, case: Case) -> Result<Target> {
        Target::new(self.upstream.address(), "/mcp", &case.request(&self.task))
    }

    pub(crate) fn gateway_pid(&mut self) -> u32 {
        self.gateway.process().pid()
    }
}

async fn birth(case: Case, client: &Client) -> Result<String> {
    match case.task_tool() {
        Some(tool) => client.start_task(tool, json!({})).await,
        None => Ok(String::new()),
    }
}
