//! A one-node cluster with real pods, in namespaces of its own.
//!
//! Several can run side by side, each with the same addresses: only a program that was started
//! inside of a cluster's network reaches them.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use hangar_tests::watchdog;

use crate::image::Image;
use crate::tools;

/// A running cluster; gone when dropped, and with this process however that ends.
#[derive(Debug)]
pub struct Cluster {
    state: PathBuf,
    kubeconfig: PathBuf,
    kubectl: PathBuf,
    helm: PathBuf,
    prometheus: PathBuf,
}

/// As much of a log as explains an end.
const TAIL: usize = 8;

// === impl Cluster ===

impl Cluster {
    /// Builds what the cache lacks, which takes minutes the first time, and starts a node
    /// (15 s); nothing is pulled from a registry.
    ///
    /// Assumptions: [`crate::preflight`] found that it is possible here.
    pub fn up() -> Result<Self> {
        let bin = tools::build("node")?;
        let helm = tools::build("helm")?;
        let prometheus = tools::build("prometheus")?;
        let folder = tempfile::Builder::new().prefix("hangar-node-").tempdir()?;
        let state = folder.keep();
        // From here on a failure is cleaned up by the drop.
        let cluster = Self {
            kubeconfig: state.join("kubeconfig/admin"),
            kubectl: bin.join("kubectl"),
            state,
            helm,
            prometheus,
        };
        watchdog::guard_cluster(&cluster.state)?;
        watchdog::guard_folder(&cluster.state)?;
        let up = tools::run(&["up".as_ref(), "node".as_ref(), cluster.state.as_os_str()]);
        up.with_context(|| cluster.logs())?;
        Ok(cluster)
    }

    /// The cluster administrator's; its address is inside of the cluster's network.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    pub fn kubectl(&self) -> &Path {
        &self.kubectl
    }

    pub fn helm(&self) -> &Path {
        &self.helm
    }

    /// The server; `promtool` stands beside it.
    pub fn prometheus(&self) -> &Path {
        &self.prometheus
    }

    /// Puts an image on the node, where pods find it by its name.
    pub fn load(&self, image: &Image) -> Result<()> {
        let args = [
            "load".as_ref(),
            self.state.as_os_str(),
            image.tar().as_os_str(),
        ];
        tools::run(&args).map(drop)
    }

    /// A command that runs in the cluster's network, with `KUBECONFIG` and `PATH` set; files and
    /// processes are the machine's.
    ///
    /// Caveats: the program does not end with the cluster; guard it like any other.
    pub fn inside(&self, program: &Path) -> Command {
        let mut command = tools::script();
        command.arg("run").arg(&self.state).arg(program);
        command
    }

    /// What a person wants to see of a cluster in which something failed.
    pub fn explain(&self) -> String {
        let mut text = String::new();
        for args in [
            &["get", "pods", "-A", "-o", "wide"][..],
            &["get", "events", "-A", "--field-selector", "type=Warning"],
        ] {
            self.quote(&mut text, args);
        }
        let pods = [
            "get",
            "pods",
            "-A",
            "--no-headers",
            "-o",
            "custom-columns=:.metadata.namespace,:.metadata.name",
        ];
        for line in self.ask(&pods).unwrap_or_default().lines() {
            if let [namespace, pod] = line.split_whitespace().collect::<Vec<_>>()[..] {
                self.quote(
                    &mut text,
                    &[
                        "logs",
                        "-n",
                        namespace,
                        pod,
                        "--all-containers",
                        "--tail=30",
                    ],
                );
            }
        }
        text + &self.logs()
    }

    fn quote(&self, text: &mut String, args: &[&str]) {
        let said = self.ask(args).unwrap_or_else(|error| format!("{error:#}"));
        // Writing to a String cannot fail.
        let _ = writeln!(text, "--- kubectl {}\n{}", args.join(" "), said.trim_end());
    }

    fn ask(&self, args: &[&str]) -> Result<String> {
        let output = self
            .inside(&self.kubectl)
            .arg("--request-timeout=5s")
            .args(args)
            .stderr(Stdio::piped())
            .output()?;
        if !output.status.success() {
            bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// The last lines of every component.
    fn logs(&self) -> String {
        let mut text = String::new();
        for entry in std::fs::read_dir(self.state.join("log"))
            .into_iter()
            .flatten()
            .flatten()
        {
            let bytes = std::fs::read(entry.path()).unwrap_or_default();
            let log = String::from_utf8_lossy(&bytes);
            let lines: Vec<_> = log.lines().collect();
            let tail = lines[lines.len().saturating_sub(TAIL)..].join("\n");
            let _ = writeln!(text, "--- {}\n{tail}", entry.file_name().display());
        }
        text
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // Nothing can be done about a failure here; the watchdog is the net under it.
        let _ = tools::run(&["down".as_ref(), self.state.as_os_str()]);
        let _ = std::fs::remove_dir_all(&self.state);
    }
}
