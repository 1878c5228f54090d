//! `hangar-gateway tools`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Subcommand};

use super::StoreUrl;

#[derive(Debug, Subcommand)]
pub enum Tools {
    /// Show what changed between the contract that was seen first and the one seen last, member by
    /// member. Works beside a running gateway. Exit code 1 when a tool differs from its pin.
    Diff {
        #[command(flatten)]
        pins: PinsOf,
        /// One upstream, as NAMESPACE/NAME; all when absent.
        #[arg(value_name = "NAMESPACE/NAME")]
        upstream: Option<UpstreamName>,
        /// One tool of it, by its own name.
        #[arg(long, value_name = "NAME", requires = "upstream")]
        tool: Option<String>,
        /// Compare with this result of tools/list (JSON) instead of what was seen last.
        #[arg(long, value_name = "FILE", requires = "upstream")]
        list: Option<PathBuf>,
    },
    /// Forget the pins of an upstream, or of one tool: what is seen next is pinned anew. A running
    /// gateway notices within a second. Exit code 1 when there was nothing to forget.
    Reset {
        #[command(flatten)]
        pins: PinsOf,
        /// The upstream, as NAMESPACE/NAME.
        #[arg(value_name = "NAMESPACE/NAME")]
        upstream: UpstreamName,
        /// One tool of it, by its own name; all when absent.
        #[arg(long, value_name = "NAME")]
        tool: Option<String>,
    },
}

/// Where pins are, and whose.
#[derive(Debug, Args)]
pub struct PinsOf {
    /// The ledger: sqlite:PATH.
    #[arg(long, env = "HANGAR_STORE", value_name = "URL")]
    pub store: StoreUrl,
    /// Class of the objects, as the gateway's.
    #[arg(
        long,
        env = "HANGAR_CLASS",
        value_name = "NAME",
        default_value = "hangar"
    )]
    pub class: String,
}

/// `NAMESPACE/NAME` of an `McpUpstream`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamName {
    pub namespace: String,
    pub name: String,
}

// === impl UpstreamName ===

impl FromStr for UpstreamName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('/') {
            Some((namespace, name))
                if !namespace.is_empty() && !name.is_empty() && !name.contains('/') =>
            {
                Ok(Self {
                    namespace: namespace.to_owned(),
                    name: name.to_owned(),
                })
            }
            _ => Err("use NAMESPACE/NAME of an McpUpstream, for example default/reports".into()),
        }
    }
}
