//! `cluster.sh`: every part of a cluster that is not Rust is its work.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use hangar_tests::watchdog;

/// A command of `cluster.sh`.
///
/// `KUBEBUILDER_ASSETS` is for clusters without a node: it lacks a kubelet.
pub(crate) fn script() -> Command {
    let mut command = Command::new(hangar_tests::repository().join("tests/rig/cluster.sh"));
    command
        .env_remove("KUBEBUILDER_ASSETS")
        .stdin(Stdio::null());
    command
}

/// Runs one, and gives its last line of output; what it has to say meanwhile is seen.
///
/// Guarantees: it does not outlive this process.
pub(crate) fn run<S: AsRef<OsStr>>(args: &[S]) -> Result<String> {
    let child = script()
        .args(args)
        .stdout(Stdio::piped())
        .spawn()
        .context("cluster.sh cannot be started: it needs bash")?;
    let pid = child.id();
    watchdog::guard(pid)?;
    let output = child.wait_with_output()?;
    watchdog::forget(pid)?;
    if !output.status.success() {
        let words: Vec<_> = args
            .iter()
            .map(|arg| arg.as_ref().to_string_lossy())
            .collect();
        bail!(
            "cluster.sh {}: {}, see above",
            words.join(" "),
            output.status
        );
    }
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text
        .trim()
        .lines()
        .next_back()
        .unwrap_or_default()
        .to_owned())
}

/// Builds `node`, `helm` or `prometheus` where the cache lacks it; gives the path that
/// `cluster.sh build` prints.
pub(crate) fn build(what: &str) -> Result<PathBuf> {
    run(&["build", what]).map(PathBuf::from)
}
