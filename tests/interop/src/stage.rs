//! Operator in folder mode and one gateway, both as they ship, in front of running servers.

use std::path::Path;

use anyhow::Result;
use hangar_tests::gateway::Gateway;
use hangar_tests::manifests::{self, mk_keys, mk_tenant, mk_upstream};
use hangar_tests::operator::Operator;
use hangar_tests::stack::{self, ALICE};
use serde_json::json;
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
        let folder = tempfile::tempdir()?;
        let manifests = folder.path().join("manifests");
        std::fs::create_dir(&manifests)?;
        write(&manifests, upstreams)?;
        let state = folder.path().join("operator");
        let operator = Operator::start(&manifests, &state, &[]).await?;
        let setup = stack::setup(&operator, &folder.path().join("gateway"));
        let gateway = Gateway::start(&setup, &[]).await?;
        for (name, _) in upstreams {
            operator
                .programmed(&format!("McpUpstream/default/{name}"))
                .await?;
        }
        gateway.ready().await?;
        Ok(Self {
            gateway,
            _operator: operator,
            _folder: folder,
        })
    }

    /// The endpoint of one upstream.
    pub fn url(&self, upstream: &str) -> String {
        let address = self.gateway.mcp_address();
        format!("http://{address}/mcp/default/{upstream}")
    }
}

/// The conformance suite sends no credential, so anybody is let in.
fn write(folder: &Path, upstreams: &[(&str, &str)]) -> Result<()> {
    let open = json!({"name": "open", "type": "Anonymous"});
    let tenant = mk_tenant("acme").set("/spec/subjects/1", open);
    let tenant = upstreams
        .iter()
        .fold(tenant, |tenant, (name, _)| tenant.grants_with_consent(name));
    let mut objects = vec![tenant, mk_keys("acme", &[("alice", KEY)])];
    objects.extend(upstreams.iter().map(|(name, url)| mk_upstream(name, url)));
    manifests::write(folder, "world.yaml", &objects)
}
