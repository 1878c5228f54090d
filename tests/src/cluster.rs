//! Operator and gateway against a real kube-apiserver, under the RBAC that ships.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::apiserver::{self, ApiServer};
use crate::client::Client;
use crate::gateway::{Gateway, Setup};
use crate::operator::{Operator, condition};
use crate::scripted::Upstream;
use crate::wait;

/// One operator and one gateway pod of a namespace of their own; the objects live there too.
#[derive(Debug)]
pub struct Cluster {
    // Dropped in this order: the processes before the folder they write to.
    pub gateway: Gateway,
    pub operator: Operator,
    pub upstream: Upstream,
    pub api: &'static ApiServer,
    pub namespace: String,
    folder: TempDir,
}

/// `ServiceAccount` of the operator.
pub const OPERATOR: &str = "hangar-operator";
/// Audience of a gateway's token.
const AUDIENCE: &str = "hangar.dev/push";
const GATEWAY: &str = "hangar-gateway";
const POD: &str = "hangar-gateway-0";

// === impl Cluster ===

impl Cluster {
    /// Returns once the gateway has a configuration, without any object yet.
    pub async fn start(namespace: &str) -> Result<Self> {
        let api = apiserver::shared()?;
        api.install_crds()?;
        api.make_namespace(namespace)?;
        let folder = tempfile::tempdir()?;
        let upstream = Upstream::start().await?;
        let kubeconfig = make_operator_account(api, namespace)?;
        // A class of its own, so that several of these share one API server.
        let class = ["--class", namespace];
        let operator =
            Operator::start_in_cluster(&kubeconfig, &folder.path().join("operator"), &class)
                .await?;
        let setup = setup(api, namespace, folder.path(), &operator).await?;
        let gateway = Gateway::start(&setup, &class).await?;
        gateway.ready().await?;
        Ok(Self {
            gateway,
            operator,
            upstream,
            api,
            namespace: namespace.to_owned(),
            folder,
        })
    }

    /// The quickstart's manifests with this upstream's URL and class, as a person applies them.
    pub fn quickstart(&self) -> Result<String> {
        let folder = crate::repository().join("examples/quickstart");
        let mut all = String::new();
        for file in ["upstream.yaml", "acme.yaml", "globex.yaml"] {
            let text = std::fs::read_to_string(folder.join(file))?;
            ensure!(!text.contains("className"), "{file} names a class");
            let text = text.replace(
                "\nspec:\n",
                &format!("\nspec:\n  className: {}\n", self.namespace),
            );
            all.push_str(&text);
            all.push_str("\n---\n");
        }
        Ok(all.replace("http://127.0.0.1:7411/mcp", &self.upstream.url()))
    }

    /// `kubectl apply` into the namespace.
    pub fn apply(&self, manifests: &str) -> Result<String> {
        self.api.apply(&self.namespace, manifests)
    }

    /// A merge patch of an object, given as `mcpupstream/reports`.
    pub fn patch(&self, object: &str, patch: &Value) -> Result<()> {
        let patch = patch.to_string();
        let args = [
            "patch",
            object,
            "-n",
            &self.namespace,
            "--type=merge",
            "-p",
            &patch,
        ];
        self.api.kubectl(&args, "").map(drop)
    }

    pub fn object(&self, object: &str) -> Result<Value> {
        self.api.get(&[object, "-n", &self.namespace])
    }

    /// Waits until a condition of the object's current generation has this status.
    pub async fn condition(&self, object: &str, kind: &str, status: &str) -> Result<Value> {
        let what = format!("{object}: {kind}={status}");
        wait::eventually(&what, async || {
            let found = self.object(object)?;
            let condition = condition(&found["status"], kind)?;
            wait::same(&condition["status"].as_str(), &Some(status))?;
            wait::same(
                &condition["observedGeneration"],
                &found["metadata"]["generation"],
            )?;
            Ok(condition)
        })
        .await
    }

    /// A client of the upstream `reports`.
    pub fn client(&self, key: &str) -> Client {
        self.gateway
            .client_of(&self.namespace, "reports")
            .with_key(key)
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

/// Makes the operator's `ServiceAccount` with the rules that ship; gives its kubeconfig, which is
/// written anew, at the same path, each time.
pub fn make_operator_account(api: &ApiServer, namespace: &str) -> Result<PathBuf> {
    api.apply(namespace, &rbac(namespace)?)?;
    api.kubeconfig_of(namespace, OPERATOR)
}

/// The rules that ship, with their namespace filled in.
fn rbac(namespace: &str) -> Result<String> {
    let path = crate::repository().join("operator/rbac.yaml");
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    Ok(text
        .replace("namespace: hangar\n", &format!("namespace: {namespace}\n"))
        .replace(
            "name: hangar-operator-cluster\n",
            &format!("name: hangar-operator-{namespace}\n"),
        ))
}

/// What a gateway pod mounts: the CA from the operator's ConfigMap, and a projected token.
async fn setup(
    api: &ApiServer,
    namespace: &str,
    folder: &Path,
    operator: &Operator,
) -> Result<Setup> {
    let labels = json!({
        "app.kubernetes.io/name": "hangar",
        "app.kubernetes.io/component": "gateway",
    });
    let uid = api.make_pod(namespace, POD, GATEWAY, &labels)?;
    let token = api.pod_token(namespace, POD, &uid, GATEWAY, AUDIENCE)?;
    let token_file = write(folder, "token", &token)?;
    let ca = wait::eventually("the CA is published", async || {
        let map = api.get(&["configmap", "hangar-operator-ca", "-n", namespace])?;
        let ca = map["data"]["ca.crt"].as_str();
        Ok(ca.context("no ca.crt")?.to_owned())
    })
    .await?;
    Ok(Setup {
        operator: operator.url(),
        operator_ca: write(folder, "ca.crt", &ca)?,
        token_file,
        state: folder.join("gateway"),
    })
}

fn write(folder: &Path, name: &str, text: &str) -> Result<PathBuf> {
    let path = folder.join(name);
    std::fs::write(&path, text)?;
    Ok(path)
}
