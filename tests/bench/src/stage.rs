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
use crate::peer::Peer;

/// An upstream, a bare relay, an operator, and a gateway with one tenant; all end when this is dropped.
#[derive(Debug)]
pub(crate) struct Stage {
    gateway: Gateway,
    _operator: Operator,
    bare: Peer,
    upstream: Peer,
    /// The caller, for tasks to be born.
    client: Client,
    /// Ids of the tasks that the case is about.
    tasks: Vec<String>,
    _folder: TempDir,
}

const KEY: &str = "alice-key-0123456789abcdef";
const NAME: &str = "reports";
/// Of requests a second and at once: the most that a policy may say.
const UNLIMITED: u32 = 1_000_000;

// === impl Stage ===

impl Stage {
    /// Returns once the gateway serves.
    pub(crate) async fn set() -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("hangar-bench-").tempdir()?;
        let upstream = Peer::start("upstream", &["--upstream"], folder.path()).await?;
        let address = upstream.address().to_string();
        let bare = Peer::start("relay", &["--relay", &address], folder.path()).await?;
        let manifests = folder.path().join("manifests");
        std::fs::create_dir(&manifests)?;
        let objects = [
            mk_upstream(NAME, &format!("http://{address}/mcp")),
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
        Ok(Self {
            gateway,
            _operator: operator,
            bare,
            upstream,
            client,
            tasks: Vec::new(),
            _folder: folder,
        })
    }

    /// Each worker asks about a task of its own: polls of one task share what they ask.
    ///
    /// Guarantees: there are as many ids as workers, empty where the case is about no task.
    pub(crate) async fn tasks(&mut self, case: Case, workers: usize) -> Result<Vec<String>> {
        let Some(tool) = case.task_tool() else {
            return Ok(vec![String::new(); workers]);
        };
        for number in self.tasks.len()..workers {
            let arguments = json!({"task": number.to_string()});
            let task = self.client.start_task(tool, arguments).await?;
            self.tasks.push(task);
        }
        Ok(self.tasks[..workers].to_vec())
    }

    /// The case's call to the gateway.
    pub(crate) fn through_gateway(&self, case: Case, task: &str) -> Result<Target> {
        let address = self.gateway.mcp_address();
        let address: SocketAddr = address.parse().context("address of the gateway")?;
        let envelope = case
            .request(task)
            .header("authorization", &format!("Bearer {KEY}"));
        Target::new(address, &format!("/mcp/default/{NAME}"), &envelope)
    }

    /// The same call to the upstream.
    pub(crate) fn direct(&self, case: Case, task: &str) -> Result<Target> {
        Target::new(self.upstream.address(), "/mcp", &case.request(task))
    }

    /// The same call to the bare relay.
    pub(crate) fn through_bare(&self, case: Case, task: &str) -> Result<Target> {
        Target::new(self.bare.address(), "/mcp", &case.request(task))
    }

    pub(crate) fn bare_pid(&mut self) -> u32 {
        self.bare.pid()
    }

    pub(crate) fn gateway_pid(&mut self) -> u32 {
        self.gateway.process().pid()
    }
}
