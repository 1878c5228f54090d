//! Operator, gateway and a scripted upstream in folder mode: what most suites start from.

use std::path::{Path, PathBuf};

use anyhow::Result;
use tempfile::TempDir;

use crate::chain;
use crate::client::Client;
use crate::gateway::{Gateway, Setup};
use crate::manifests::{self, Manifest, mk_keys, mk_tenant, mk_upstream};
use crate::operator::Operator;
use crate::scripted::Upstream;

/// Two tenants, `acme` (alice, bob) and `globex` (carol), that may use the upstream `reports`.
#[derive(Debug)]
pub struct Stack {
    // Dropped in this order: the processes before the folder they write to.
    pub gateway: Gateway,
    pub operator: Operator,
    pub upstream: Upstream,
    folder: TempDir,
}

/// API keys by principal.
pub const ALICE: &str = "alice-key-0123456789abcdef";
pub const BOB: &str = "bob-key-0123456789abcdef";
pub const CAROL: &str = "carol-key-0123456789abcdef";

/// The object's name in `status.json`.
pub const REPORTS: &str = "McpUpstream/default/reports";

// === impl Stack ===

impl Stack {
    /// The usual world.
    pub async fn start() -> Result<Self> {
        Self::start_with(|object| object).await
    }

    /// The usual world after `edit` has seen each of its objects; returns once it is in force.
    pub async fn start_with(edit: impl Fn(Manifest) -> Manifest) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let upstream = Upstream::start().await?;
        let objects: Vec<_> = world(&upstream.url()).into_iter().map(edit).collect();
        let manifests = folder.path().join("manifests");
        std::fs::create_dir(&manifests)?;
        manifests::write(&manifests, "world.yaml", &objects)?;
        let operator = Operator::start(&manifests, &folder.path().join("operator"), &[]).await?;
        let gateway =
            Gateway::start(&setup(&operator, &folder.path().join("gateway")), &[]).await?;
        operator.programmed(REPORTS).await?;
        gateway.ready().await?;
        Ok(Self {
            gateway,
            operator,
            upstream,
            folder,
        })
    }

    /// A client of the upstream `reports`.
    pub fn client(&self, key: &str) -> Client {
        self.gateway.client_of("default", "reports").with_key(key)
    }

    /// A further gateway of this world, with a ledger and flags of its own.
    pub async fn another(&self, more: &[&str]) -> Result<Gateway> {
        let setup = Setup {
            state: self.folder().join("another"),
            ..self.setup()
        };
        let gateway = Gateway::start(&setup, more).await?;
        gateway.ready().await?;
        Ok(gateway)
    }

    /// The watched folder; its file `world.yaml` holds everything.
    pub fn manifests(&self) -> PathBuf {
        self.folder.path().join("manifests")
    }

    /// Writes the usual world again, edited.
    pub fn rewrite(&self, edit: impl Fn(Manifest) -> Manifest) -> Result<()> {
        let objects: Vec<_> = world(&self.upstream.url()).into_iter().map(edit).collect();
        manifests::write(&self.manifests(), "world.yaml", &objects)
    }

    /// How the gateway was set up.
    pub fn setup(&self) -> Setup {
        setup(&self.operator, self.gateway.state())
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The whole chain, verified.
    pub async fn export(&self) -> Result<String> {
        chain::export(&self.setup().store_file(), self.folder()).await
    }

    /// The events of one task, of a chain that verifies; see [`chain::of_task`].
    pub async fn events(&self, task: &str) -> Result<Vec<String>> {
        chain::of_task(&self.export().await?, task)
    }

    /// The sum over the gateway's series of this name with these labels, now.
    pub async fn count(&self, name: &str, labels: &[(&str, &str)]) -> Result<u64> {
        self.gateway.scrape().await?.count(name, labels)
    }
}

/// The objects of the usual world.
pub fn world(url: &str) -> Vec<Manifest> {
    vec![
        mk_upstream("reports", url),
        mk_tenant("acme").grants_with_consent("reports"),
        mk_keys("acme", &[("alice", ALICE), ("bob", BOB)]),
        mk_tenant("globex").grants_with_consent("reports"),
        mk_keys("globex", &[("carol", CAROL)]),
    ]
}

/// How a gateway reaches an operator in folder mode.
pub fn setup(operator: &Operator, state: &Path) -> Setup {
    Setup {
        operator: operator.url(),
        operator_ca: operator.state().join("ca.crt"),
        token_file: operator.state().join("pod.token"),
        state: state.to_owned(),
    }
}
