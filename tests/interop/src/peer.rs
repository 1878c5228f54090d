//! A server that an SDK made.

use anyhow::{Context, Result};
use hangar_tests::process::{Process, Program};

/// Running; ends when dropped.
#[derive(Debug)]
pub struct Server {
    url: String,
    _process: Process,
}

// === impl Server ===

impl Server {
    /// Every server says in its first line where it listens.
    pub async fn start(program: &Program) -> Result<Self> {
        let mut process = program.start()?;
        let up = process.message("listening").await?;
        let url = up["mcp"]
            .as_str()
            .with_context(|| format!("{} does not say where it is", program.name))?;
        Ok(Self {
            url: url.to_owned(),
            _process: process,
        })
    }

    /// The MCP endpoint.
    pub fn url(&self) -> &str {
        &self.url
    }
}
