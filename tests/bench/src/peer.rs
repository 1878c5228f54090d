//! This program again as a process of its own, so that its work is nobody else's.

use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context, Result};
use hangar_tests::process::{Process, Program};
use serde_json::json;
use tokio::net::TcpListener;

/// One that serves; gone when dropped.
#[derive(Debug)]
pub(crate) struct Peer {
    address: SocketAddr,
    process: Process,
}

const LISTENING: &str = "listening";

/// Where a peer serves; says so in its first line.
pub(crate) async fn listen() -> Result<TcpListener> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let up = json!({"message": LISTENING, "address": listener.local_addr()?});
    writeln!(std::io::stdout(), "{up}")?;
    Ok(listener)
}

// === impl Peer ===

impl Peer {
    /// `name` is that of its log file.
    pub(crate) async fn start(name: &str, args: &[&str], log_folder: &Path) -> Result<Self> {
        let program = std::env::current_exe().context("this program has no path")?;
        let mut process = Program::other(name, &program, log_folder)
            .args(args.iter().copied())
            .start()?;
        let up = process.message(LISTENING).await?;
        let address = up["address"].as_str().and_then(|text| text.parse().ok());
        Ok(Self {
            address: address.with_context(|| format!("the {name} does not say where it is"))?,
            process,
        })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn pid(&mut self) -> u32 {
        self.process.pid()
    }
}
