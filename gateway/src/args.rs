//! Command line. Every flag is also an environment variable with prefix `HANGAR_`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Parser, Subcommand};

mod edge;
mod tools;

pub use edge::{Edge, Seconds};
pub use tools::{PinsOf, Tools, UpstreamName};

/// Relays MCP between tenants and upstream servers, and governs their tasks.
#[derive(Debug, Parser)]
#[command(name = "hangar-gateway", version, about)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve MCP with the configuration that the operator pushes.
    Run(Box<Run>),
    /// Export and verify the chain of events.
    #[command(subcommand)]
    Provenance(Provenance),
    /// Look at first-use pins of tool contracts, and forget them.
    #[command(subcommand)]
    Tools(Tools),
}

#[derive(Debug, Args)]
pub struct Run {
    /// Where the operator listens, as https://HOST:PORT.
    #[arg(long, env = "HANGAR_OPERATOR", value_name = "URL")]
    pub operator: http::Uri,
    /// CA certificate of the operator (PEM); read again on change, waited for while it is missing.
    #[arg(long, env = "HANGAR_OPERATOR_CA", value_name = "FILE")]
    pub operator_ca: PathBuf,
    /// Token that proves this pod to the operator; read again for each subscription.
    #[arg(long, env = "HANGAR_TOKEN_FILE", value_name = "FILE")]
    pub token_file: PathBuf,
    /// The ledger, as sqlite:PATH. Default: ledger.db in the state folder.
    #[arg(long, env = "HANGAR_STORE", value_name = "URL")]
    pub store: Option<StoreUrl>,
    /// Folder for the last-known-good configuration.
    #[arg(
        long,
        env = "HANGAR_STATE_DIR",
        value_name = "DIR",
        default_value = "/var/lib/hangar"
    )]
    pub state_dir: PathBuf,
    /// Where MCP is served.
    #[arg(
        long,
        env = "HANGAR_MCP_ADDRESS",
        value_name = "ADDRESS",
        default_value = "0.0.0.0:8080"
    )]
    pub mcp_address: SocketAddr,
    /// Where /metrics, /livez, /readyz and /startupz are served.
    #[arg(
        long,
        env = "HANGAR_METRICS_ADDRESS",
        value_name = "ADDRESS",
        default_value = "0.0.0.0:9090"
    )]
    pub metrics_address: SocketAddr,
    #[command(flatten)]
    pub edge: Edge,
    /// Class of the objects that this fleet serves; part of the key of first-use pins.
    #[arg(
        long,
        env = "HANGAR_CLASS",
        value_name = "NAME",
        default_value = "hangar"
    )]
    pub class: String,
}

#[derive(Debug, Subcommand)]
pub enum Provenance {
    /// Write every event as one line, in order, to standard output or FILE. Works beside a running gateway.
    Export {
        /// The ledger: sqlite:PATH.
        #[arg(long, env = "HANGAR_STORE", value_name = "URL")]
        store: StoreUrl,
        /// Where to write; standard output when absent.
        #[arg(long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Verify an export, offline. Exit code 1 when the chain is broken.
    Verify {
        /// A file that `export` wrote.
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
}

/// `sqlite:PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreUrl(pub PathBuf);

/// Bytes; written plain or with Ki, Mi.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub usize);

// === impl StoreUrl ===

impl FromStr for StoreUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("sqlite:") {
            Some(path) if !path.is_empty() => Ok(Self(path.into())),
            _ => Err("use sqlite:PATH, for example sqlite:/var/lib/hangar/ledger.db".into()),
        }
    }
}

// === impl Size ===

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (digits, unit) = if let Some(digits) = text.strip_suffix("Mi") {
            (digits, 1 << 20)
        } else if let Some(digits) = text.strip_suffix("Ki") {
            (digits, 1 << 10)
        } else {
            (text, 1)
        };
        digits
            .parse::<usize>()
            .ok()
            .and_then(|number| number.checked_mul(unit))
            .filter(|bytes| *bytes >= 1024)
            .map(Self)
            .ok_or_else(|| "use a number of bytes, at least 1Ki, as 4Mi".into())
    }
}

#[cfg(test)]
mod tests;
