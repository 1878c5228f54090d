//! Command line.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clap::{Parser, Subcommand};

/// Compiles `McpUpstream` and `TenantPolicy` objects and pushes the configuration to Hangar gateways.
#[derive(Debug, Parser)]
#[command(name = "hangar-operator", version)]
pub struct Args {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve gateways until SIGTERM or ctrl-C.
    Run(Box<Run>),
    /// Say what a cluster with just these manifests would say of them.
    ///
    /// Prints one line per object. Exit code 0: all good, 1: some are not, 2: a path cannot be read
    /// or no object is there.
    Check(Check),
}

#[derive(Debug, clap::Args)]
pub struct Run {
    /// Take objects and Secrets from this folder (*.yaml, *.yml, *.json, recursively) instead of a
    /// Kubernetes cluster; changes are picked up at once.
    #[arg(long, env = "HANGAR_MANIFESTS", value_name = "DIR")]
    pub manifests: Option<PathBuf>,

    /// Watch objects of this namespace only; repeat for several. Default: all namespaces.
    #[arg(
        long = "namespace",
        env = "HANGAR_NAMESPACE",
        value_name = "NS",
        value_delimiter = ','
    )]
    pub namespaces: Vec<String>,

    /// Namespace whose `TenantPolicy` objects count; repeat for several. Default: the operator's own
    /// namespace, and with --manifests every namespace.
    #[arg(
        long = "policy-namespace",
        env = "HANGAR_POLICY_NAMESPACE",
        value_name = "NS",
        value_delimiter = ','
    )]
    pub policy_namespaces: Vec<String>,

    /// Objects of another `spec.className` are ignored.
    #[arg(
        long,
        env = "HANGAR_CLASS",
        value_name = "NAME",
        default_value = "hangar"
    )]
    pub class: String,

    /// Where gateways subscribe (HTTP/2 or 1.1 over TLS); port 0 takes a free one.
    #[arg(
        long,
        env = "HANGAR_PUSH_ADDRESS",
        value_name = "ADDRESS",
        default_value = "0.0.0.0:8443"
    )]
    pub push_address: SocketAddr,

    /// Where /metrics, /livez and /readyz are served (plain HTTP); port 0 takes a free one.
    #[arg(
        long,
        env = "HANGAR_METRICS_ADDRESS",
        value_name = "ADDRESS",
        default_value = "0.0.0.0:9090"
    )]
    pub metrics_address: SocketAddr,

    /// With --manifests: where ca.crt and pod.token for the gateways, the CA key, the epoch and
    /// status.json are kept. Not used in a cluster.
    #[arg(
        long,
        env = "HANGAR_STATE_DIR",
        value_name = "DIR",
        default_value = "/var/lib/hangar-operator"
    )]
    pub state_dir: PathBuf,

    /// Upstream addresses that may be dialled although they are loopback, link-local or cloud
    /// metadata, as CIDR (127.0.0.0/8); repeat for several.
    #[arg(
        long = "allow-address",
        env = "HANGAR_ALLOW_ADDRESS",
        value_name = "CIDR",
        value_delimiter = ',',
        value_parser = cidr
    )]
    pub allow_addresses: Vec<String>,

    /// Upstream addresses that are never dialled, as CIDR; wins over --allow-address; repeat for several.
    #[arg(
        long = "deny-address",
        env = "HANGAR_DENY_ADDRESS",
        value_name = "CIDR",
        value_delimiter = ',',
        value_parser = cidr
    )]
    pub deny_addresses: Vec<String>,
}

#[derive(Debug, clap::Args)]
pub struct Check {
    /// Manifest files, or folders that are read recursively.
    #[arg(required = true, value_name = "FILE|DIR")]
    pub paths: Vec<PathBuf>,
}

fn cidr(text: &str) -> Result<String, String> {
    let refuse = || format!("`{text}` is no CIDR; write it as 10.0.0.0/8 or fd00::/8");
    let (address, length) = text.split_once('/').ok_or_else(refuse)?;
    let address: IpAddr = address.parse().map_err(|_| refuse())?;
    let length: u8 = length.parse().map_err(|_| refuse())?;
    if address.to_canonical() != address {
        return Err(format!(
            "`{text}` is IPv4 in disguise; write the IPv4 range"
        ));
    }
    let longest = if address.is_ipv4() { 32 } else { 128 };
    if length > longest {
        return Err(refuse());
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests;
