//! The cluster as the story sees it, from inside its network: kubectl, Helm and addresses.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use hangar_tests::client::Client;
use hangar_tests::operator::condition;
use hangar_tests::{repository, wait};
use serde_json::Value;

/// Programs and folders; made by the part of this program that runs outside of the cluster.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Stage {
    /// Folder for logs and files of the story
    #[arg(long)]
    pub(crate) folder: PathBuf,
    #[arg(long)]
    pub(crate) kubectl: PathBuf,
    #[arg(long)]
    pub(crate) kubeconfig: PathBuf,
    #[arg(long)]
    pub(crate) helm: PathBuf,
    #[arg(long)]
    pub(crate) prometheus: PathBuf,
    /// Registry part of the images' names
    #[arg(long)]
    pub(crate) registry: String,
    /// Tag of the images
    #[arg(long)]
    pub(crate) tag: String,
}

/// What a program said.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) success: bool,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Where the release is installed; policies count there.
pub(crate) const PLATFORM: &str = "hangar";
/// Where the upstream runs and is declared.
pub(crate) const TOOLS: &str = "tools";
pub(crate) const RELEASE: &str = "hangar";
/// Of the chart.
pub(crate) const GATEWAY_POD: &str = "hangar-gateway-0";
pub(crate) const OPERATOR: &str = "deployment/hangar-operator";

// === impl Stage ===

impl Stage {
    /// `kubectl`, whatever it answers.
    pub(crate) fn try_kubectl(&self, args: &[&str], stdin: &str) -> Result<Said> {
        let mut command = Command::new(&self.kubectl);
        command.arg("--kubeconfig").arg(&self.kubeconfig);
        command.arg("--cache-dir").arg(self.folder.join("kubectl"));
        // No step takes so long; a server that went away must not hold the story for ever.
        command.arg("--request-timeout=2m");
        run(command.args(args), stdin)
    }

    /// `kubectl` that must succeed; gives its output.
    pub(crate) fn kubectl(&self, args: &[&str], stdin: &str) -> Result<String> {
        let said = self.try_kubectl(args, stdin)?;
        ensure!(
            said.success,
            "kubectl {}: {}",
            args.join(" "),
            said.stderr.trim()
        );
        Ok(said.stdout)
    }

    pub(crate) fn apply(&self, namespace: &str, manifests: &str) -> Result<()> {
        self.kubectl(&["apply", "-n", namespace, "-f", "-"], manifests)
            .map(drop)
    }

    pub(crate) fn get(&self, args: &[&str]) -> Result<Value> {
        let text = self.kubectl(&[&["get", "-o", "json"], args].concat(), "")?;
        Ok(serde_json::from_str(&text)?)
    }

    /// `helm`, whatever it answers; everything that it keeps lies in the story's folder.
    pub(crate) fn try_helm(&self, args: &[&str]) -> Result<Said> {
        let mut command = Command::new(&self.helm);
        for (name, folder) in [
            ("HELM_CACHE_HOME", "helm/cache"),
            ("HELM_CONFIG_HOME", "helm/config"),
            ("HELM_DATA_HOME", "helm/data"),
        ] {
            command.env(name, self.folder.join(folder));
        }
        command.env("KUBECONFIG", &self.kubeconfig);
        run(command.args(args), "")
    }

    /// `helm` that must succeed.
    pub(crate) fn helm(&self, args: &[&str]) -> Result<String> {
        let said = self.try_helm(args)?;
        ensure!(
            said.success,
            "helm {}: {}",
            args.join(" "),
            said.stderr.trim()
        );
        Ok(said.stdout)
    }

    /// The arguments that install the chart `hangar` into the platform's namespace.
    pub(crate) fn install_arguments(&self, more: &[&str]) -> Vec<String> {
        let chart = chart("hangar");
        let mut args: Vec<String> = ["install", RELEASE, &chart, "--namespace", PLATFORM]
            .map(str::to_owned)
            .to_vec();
        for value in [
            format!("image.registry={}", self.registry),
            format!("image.tag={}", self.tag),
            // They are on the node already, and no registry is there to ask.
            "image.pullPolicy=Never".to_owned(),
            "gateway.persistence.size=1Gi".to_owned(),
        ] {
            args.extend(["--set".to_owned(), value]);
        }
        args.extend(more.iter().copied().map(str::to_owned));
        args
    }

    pub(crate) fn install(&self, more: &[&str]) -> Result<Said> {
        let args = self.install_arguments(more);
        self.try_helm(&args.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// Waits until a condition of the object's current generation has this status and reason.
    pub(crate) async fn condition(
        &self,
        namespace: &str,
        object: &str,
        kind: &str,
        wanted: (&str, Option<&str>),
    ) -> Result<Value> {
        let (status, reason) = wanted;
        let what = format!("{object}: {kind}={status} {}", reason.unwrap_or_default());
        wait::eventually(&what, async || {
            let found = self.get(&[object, "-n", namespace])?;
            let condition = condition(&found["status"], kind)?;
            wait::same(&condition["status"].as_str(), &Some(status))?;
            wait::same(
                &condition["observedGeneration"],
                &found["metadata"]["generation"],
            )?;
            if reason.is_some() {
                wait::same(&condition["reason"].as_str(), &reason)?;
            }
            Ok(condition)
        })
        .await
    }

    /// `ADDRESS:PORT` of a Service.
    pub(crate) fn service(&self, namespace: &str, name: &str, port: u16) -> Result<String> {
        let service = self.get(&["service", name, "-n", namespace])?;
        let address = service["spec"]["clusterIP"].as_str();
        Ok(format!("{}:{port}", address.context("no cluster address")?))
    }

    pub(crate) fn pod_address(&self, pod: &str) -> Result<String> {
        let pod = self.get(&["pod", pod, "-n", PLATFORM])?;
        let address = pod["status"]["podIP"].as_str();
        Ok(address.context("the pod has no address")?.to_owned())
    }

    /// The pods of the operator, those on their way out too.
    pub(crate) fn operator_pods(&self) -> Result<Vec<Value>> {
        let selector = "app.kubernetes.io/name=hangar,app.kubernetes.io/component=operator";
        let mut pods = self.get(&["pods", "-n", PLATFORM, "-l", selector])?;
        serde_json::from_value(pods["items"].take()).context("no list of pods")
    }

    /// The one pod of the operator that is not on its way out.
    pub(crate) fn operator_pod(&self) -> Result<Value> {
        let pods = self.operator_pods()?;
        let mut live = pods
            .iter()
            .filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        let pod = live.next().context("no operator pod")?;
        ensure!(live.next().is_none(), "several operator pods");
        Ok(pod.clone())
    }

    /// The upstream's endpoint at the gateway, through its Service, with this key.
    pub(crate) fn client(&self, key: &str) -> Result<Client> {
        Ok(Client::new(&self.endpoint()?).with_key(key))
    }

    pub(crate) fn endpoint(&self) -> Result<String> {
        let gateway = self.service(PLATFORM, "hangar-gateway", 8080)?;
        Ok(format!("http://{gateway}/mcp/{TOOLS}/reports"))
    }
}

/// A chart of the repository.
pub(crate) fn chart(name: &str) -> String {
    let path: PathBuf = repository().join("charts").join(name);
    path.to_string_lossy().into_owned()
}

pub(crate) fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).with_context(|| path.display().to_string())
}

fn run(command: &mut Command, stdin: &str) -> Result<Said> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("{} cannot be started", command.get_program().display()))?;
    let mut pipe = child.stdin.take().context("no standard input")?;
    let text = stdin.to_owned();
    // A program that does not read its input closes the pipe: no failure of ours.
    let writer = std::thread::spawn(move || pipe.write_all(text.as_bytes()));
    let output = child.wait_with_output()?;
    let _ = writer.join();
    Ok(Said {
        success: output.status.success(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}
