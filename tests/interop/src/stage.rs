//! Operator in folder mode and one gateway, both as they ship, in front of running servers.

use anyhow::Result;
use hangar_tests::gateway::Gateway;
use hangar_tests::manifests::{self, Manifest, mk_keys, mk_tenant, mk_upstream};
use hangar_tests::operator::Operator;
use hangar_tests::stack::{self, ALICE};
use serde_json::{Value, json};
use tempfile::TempDir;

/// One tenant that may use every upstream, with a key or without one.
#[derive(Debug)]
pub struct Stage {
    gateway: Gateway,
    _operator: Operator,
    _folder: TempDir,
}

/// A caller's API key.
pub const KEY: &str = ALICE;

// === impl Stage ===

impl Stage {
    /// Upstreams by name and URL. Returns once the gateway serves them.
    pub async fn start(upstreams: &[(&str, &str)]) -> Result<Self> {
        Self::start_with(&world(upstreams)).await
    }

    /// These objects, whatever they are. Returns once the gateway serves all of them.
    pub async fn start_with(objects: &[Manifest]) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let manifests = folder.path().join("manifests");
        std::fs::create_dir(&manifests)?;
        manifests::write(&manifests, "world.yaml", objects)?;
        let state = folder.path().join("operator");
        let operator = Operator::start(&manifests, &state, &[]).await?;
        let setup = stack::setup(&operator, &folder.path().join("gateway"));
        let gateway = Gateway::start(&setup, &[]).await?;
        for object in objects.iter().map(Manifest::value) {
            let word = |pointer| object.pointer(pointer).and_then(Value::as_str);
            if let (Some(kind @ ("McpUpstream" | "TenantPolicy")), Some(name)) =
                (word("/kind"), word("/metadata/name"))
            {
                operator
                    .programmed(&format!("{kind}/default/{name}"))
                    .await?;
            }
        }
        gateway.ready().await?;
        Ok(Self {
            gateway,
            _operator: operator,
            _folder: folder,
        })
    }

    /// The endpoint of a tenant.
    pub fn tenant_url(&self) -> String {
        format!("http://{}/mcp", self.gateway.mcp_address())
    }

    /// The endpoint of one upstream.
    pub fn url(&self, upstream: &str) -> String {
        let address = self.gateway.mcp_address();
        format!("http://{address}/mcp/default/{upstream}")
    }
}

/// The Secret of the tenant's keys.
fn keys() -> Manifest {
    mk_keys("acme", &[("alice", KEY)])
}

/// The conformance suite sends no credential, so anybody is let in.
fn world(upstreams: &[(&str, &str)]) -> Vec<Manifest> {
    let open = json!({"name": "open", "type": "Anonymous"});
    let tenant = mk_tenant("acme").set("/spec/subjects/1", open);
    let tenant = upstreams
        .iter()
        .fold(tenant, |tenant, (name, _)| tenant.grants_with_consent(name));
    let mut objects = vec![tenant, keys()];
    objects.extend(upstreams.iter().map(|(name, url)| mk_upstream(name, url)));
    objects
}
