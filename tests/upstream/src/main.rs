//! `hangar-demo-upstream`: the MCP server that the demo governs.

use std::net::SocketAddr;

use anyhow::Context as _;
use clap::Parser;
use tracing_subscriber::EnvFilter;

/// An MCP server with one sync tool and one task that asks a question.
#[derive(Debug, Parser)]
#[command(name = "hangar-demo-upstream", version)]
struct Args {
    /// Where to listen; port 0 takes a free one, which the first log line names
    #[arg(long, env = "HANGAR_ADDRESS", default_value = "127.0.0.1:7411")]
    address: SocketAddr,
    /// A name that the server is called by beside localhost, with or without a port; repeat for several
    #[arg(long = "allow-host", env = "HANGAR_ALLOW_HOST", value_delimiter = ',')]
    allow_hosts: Vec<String>,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let Args {
        address,
        allow_hosts,
    } = Args::parse();
    let filter =
        EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info,rmcp=warn"));
    tracing_subscriber::fmt()
        .json()
        .flatten_event(true)
        .with_env_filter(filter)
        .init();
    let listener = tokio::net::TcpListener::bind(address)
        .await
        .with_context(|| format!("--address {address} cannot be listened on"))?;
    hangar_demo_upstream::run(listener, allow_hosts).await
}
