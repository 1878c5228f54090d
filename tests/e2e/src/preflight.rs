//! Whether a node can run on this machine.

use std::process::Stdio;

use anyhow::{Context, Result, ensure};

use crate::tools;

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Possible,
    /// Why not, in one sentence without its full stop.
    Impossible(String),
}

/// Asks for what a node cannot do without: root, namespaces, cgroups, and a way to its programs.
///
/// Guarantees: nothing is built and nothing stays behind. An error means that the question could
/// not be asked.
pub fn look() -> Result<Verdict> {
    let output = tools::script()
        .arg("obstacle")
        .stderr(Stdio::piped())
        .output()
        .context("cluster.sh cannot be started: it needs bash")?;
    ensure!(
        output.status.success(),
        "cluster.sh obstacle: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    let why = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    Ok(if why.is_empty() {
        Verdict::Possible
    } else {
        Verdict::Impossible(why)
    })
}
