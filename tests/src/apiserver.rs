//! A real etcd and kube-apiserver, RBAC on, and `kubectl`.
//!
//! One per test process, started at first use (a few seconds) and taken down by the watchdog.
//! Suites keep apart by namespace.
//!
//! Caveats: there is no scheduler and no controller: a Pod stays Pending until a test says
//! otherwise, a `ServiceAccount` must be made before use, an owner's end removes nothing.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use anyhow::{Context, Result, anyhow, bail, ensure};
use serde_json::{Value, json};

use crate::watchdog;

/// A running API server.
#[derive(Debug)]
pub struct ApiServer {
    state: PathBuf,
    kubeconfig: PathBuf,
    bin: PathBuf,
}

/// What a `kubectl` said.
#[derive(Debug)]
pub struct Said {
    pub success: bool,
    pub stdout: String,
    pub stderr: String,
}

static SHARED: OnceLock<Result<ApiServer, String>> = OnceLock::new();

/// The API server of this test process.
pub fn shared() -> Result<&'static ApiServer> {
    let server = SHARED.get_or_init(|| ApiServer::start().map_err(|error| format!("{error:#}")));
    server.as_ref().map_err(|error| anyhow!("{error}"))
}

// === impl ApiServer ===

impl ApiServer {
    fn start() -> Result<Self> {
        let state = tempfile::Builder::new()
            .prefix("hangar-api-")
            .tempdir()?
            .keep();
        watchdog::guard_cluster(&state)?;
        watchdog::guard_folder(&state)?;
        cluster(&["up", "api", &state.to_string_lossy()])
            .context("no kube-apiserver for the tests; `cargo verify` makes what they need")?;
        let env = std::fs::read_to_string(state.join("env"))?;
        let bin = env.lines().find_map(|line| line.strip_prefix("BIN="));
        Ok(Self {
            kubeconfig: state.join("kubeconfig/admin"),
            bin: PathBuf::from(bin.context("the cluster does not say where its programs are")?),
            state,
        })
    }

    /// The cluster administrator's.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// `stop`, `kill`, `start` or `restart` for `etcd` or `kube-apiserver`.
    pub fn component(&self, verb: &str, component: &str) -> Result<()> {
        cluster(&[verb, &self.state.to_string_lossy(), component])
    }

    /// Every watch and list token so far is answered 410 afterwards.
    pub fn expire(&self) -> Result<()> {
        cluster(&["expire", &self.state.to_string_lossy()])
    }

    /// `kubectl` as the cluster administrator, whatever it answers.
    pub fn try_kubectl(&self, args: &[&str], stdin: &str) -> Result<Said> {
        self.try_kubectl_as(&self.kubeconfig, args, stdin)
    }

    /// `kubectl` with another kubeconfig, whatever it answers.
    pub fn try_kubectl_as(&self, kubeconfig: &Path, args: &[&str], stdin: &str) -> Result<Said> {
        let mut child = Command::new(self.bin.join("kubectl"))
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .arg("--cache-dir")
            .arg(self.state.join("kubectl-cache"))
            .arg("--request-timeout=20s")
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("kubectl cannot be started")?;
        // Dropped at the end of the statement, which closes the pipe.
        let mut pipe = child
            .stdin
            .take()
            .context("kubectl has no standard input")?;
        let text = stdin.to_owned();
        let writer = std::thread::spawn(move || pipe.write_all(text.as_bytes()));
        let output = child.wait_with_output()?;
        // A kubectl that does not read its input closes the pipe: no failure of ours.
        let _ = writer.join();
        Ok(Said {
            success: output.status.success(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }

    /// `kubectl` that must succeed; gives its output.
    pub fn kubectl(&self, args: &[&str], stdin: &str) -> Result<String> {
        let said = self.try_kubectl(args, stdin)?;
        if !said.success {
            bail!("kubectl {}: {}", args.join(" "), said.stderr.trim());
        }
        Ok(said.stdout)
    }

    /// One object, or a list.
    pub fn get(&self, args: &[&str]) -> Result<Value> {
        let text = self.kubectl(&[&["get", "-o", "json"], args].concat(), "")?;
        Ok(serde_json::from_str(&text)?)
    }

    /// Applies manifests, YAML or JSON, into their own or this namespace.
    pub fn apply(&self, namespace: &str, manifests: &str) -> Result<String> {
        self.kubectl(&["apply", "-n", namespace, "-f", "-"], manifests)
    }

    /// Applies the checked-in CRDs the way that turns any warning into a failure, and waits until
    /// they are served.
    pub fn install_crds(&self) -> Result<()> {
        let chart = crate::repository().join("charts/hangar-crds/templates");
        let files = std::fs::read_dir(&chart).with_context(|| chart.display().to_string())?;
        let mut crds = 0;
        for file in files {
            let text = std::fs::read_to_string(file?.path())?;
            let apply = ["apply", "--warnings-as-errors", "--server-side", "-f", "-"];
            self.kubectl(&apply, &text)?;
            crds += 1;
        }
        ensure!(
            crds == 2,
            "{} has {crds} files, one per CRD expected",
            chart.display()
        );
        let names = [
            "crd/mcpupstreams.hangar.dev",
            "crd/tenantpolicies.hangar.dev",
        ];
        let wait = ["wait", "--for=condition=Established", "--timeout=30s"];
        self.kubectl(&[&wait[..], &names].concat(), "")?;
        Ok(())
    }

    pub fn make_namespace(&self, name: &str) -> Result<()> {
        self.kubectl(&["create", "namespace", name], "").map(drop)
    }

    /// Makes a `ServiceAccount` and a Ready Pod that uses it, and gives the Pod's uid.
    pub fn make_pod(
        &self,
        namespace: &str,
        name: &str,
        account: &str,
        labels: &Value,
    ) -> Result<String> {
        let objects = json!({"apiVersion": "v1", "kind": "List", "items": [
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account}},
            {
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": name, "labels": labels},
                "spec": {
                    "serviceAccountName": account,
                    "containers": [{"name": "main", "image": "none"}],
                },
            },
        ]});
        self.apply(namespace, &objects.to_string())?;
        let ready =
            r#"{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}"#;
        let patch = [
            "patch",
            "pod",
            name,
            "-n",
            namespace,
            "--subresource=status",
            "-p",
            ready,
        ];
        self.kubectl(&patch, "")?;
        let pod = self.get(&["pod", name, "-n", namespace])?;
        let uid = pod["metadata"]["uid"].as_str();
        Ok(uid.context("a Pod without uid")?.to_owned())
    }

    /// A token of the Pod's `ServiceAccount`, bound to the Pod, as the kubelet would project it.
    pub fn pod_token(
        &self,
        namespace: &str,
        pod: &str,
        uid: &str,
        account: &str,
        audience: &str,
    ) -> Result<String> {
        let token = self.kubectl(
            &[
                "create",
                "token",
                account,
                "-n",
                namespace,
                "--audience",
                audience,
                "--bound-object-kind",
                "Pod",
                "--bound-object-name",
                pod,
                "--bound-object-uid",
                uid,
            ],
            "",
        )?;
        Ok(token.trim().to_owned())
    }

    /// A kubeconfig of a `ServiceAccount`, which must exist; for programs that run under RBAC.
    pub fn kubeconfig_of(&self, namespace: &str, account: &str) -> Result<PathBuf> {
        let token = self.kubectl(&["create", "token", account, "-n", namespace], "")?;
        let view = self.kubectl(&["config", "view", "--raw", "--flatten", "-o", "json"], "")?;
        let mut config: Value = serde_json::from_str(&view)?;
        config["users"][0]["user"] = json!({"token": token.trim()});
        config["contexts"][0]["context"]["namespace"] = json!(namespace);
        let path = self.state.join(format!("kubeconfig/{namespace}-{account}"));
        std::fs::write(&path, config.to_string())?;
        Ok(path)
    }
}

/// Runs `cluster.sh`; nothing is ever built from a test.
fn cluster(args: &[&str]) -> Result<()> {
    let child = Command::new(crate::repository().join("tests/rig/cluster.sh"))
        .args(args)
        .env("CLUSTER_NO_BUILD", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("cluster.sh cannot be started")?;
    let pid = child.id();
    watchdog::guard(pid)?;
    let output = child.wait_with_output()?;
    watchdog::forget(pid)?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}
