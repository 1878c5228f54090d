//! What one pod takes from its clients.

use std::str::FromStr;
use std::time::Duration;

use clap::Args;

use super::Size;

/// Bounds on what clients send, and how strictly it is taken.
#[derive(Clone, Copy, Debug, Args)]
pub struct Edge {
    /// Largest request body, in bytes or with Ki, Mi.
    #[arg(
        long,
        env = "HANGAR_MAX_BODY",
        value_name = "SIZE",
        default_value = "4Mi"
    )]
    pub max_body: Size,
    /// Bytes of request bodies and of answers of upstreams held at once; what does not fit is refused.
    /// Not below --max-body. Where there are several tenants, each may hold half of it (one body at
    /// least); an eighth more is for what the gateway asks upstreams for itself.
    #[arg(
        long,
        env = "HANGAR_MAX_HELD",
        value_name = "SIZE",
        default_value = "256Mi"
    )]
    pub max_held: Size,
    /// Connections of clients at once, fewer where the process may open fewer files; further ones
    /// wait to be accepted.
    #[arg(
        long,
        env = "HANGAR_MAX_CONNECTIONS",
        value_name = "NUMBER",
        default_value_t = 10_000,
        value_parser = clap::value_parser!(u32).range(1..=1_000_000)
    )]
    pub max_connections: u32,
    /// Longest time that a connection is without a request, and for the headers of one, in seconds.
    #[arg(
        long,
        env = "HANGAR_HEADER_TIMEOUT",
        value_name = "SECONDS",
        default_value = "10"
    )]
    pub header_timeout: Seconds,
    /// Longest time that a request body takes to arrive, in seconds.
    #[arg(
        long,
        env = "HANGAR_BODY_TIMEOUT",
        value_name = "SECONDS",
        default_value = "30"
    )]
    pub body_timeout: Seconds,
    /// Longest time in which a client takes nothing of an answer, in seconds; a large one may take so
    /// long for each 1Mi of it, and once more.
    #[arg(
        long,
        env = "HANGAR_SEND_TIMEOUT",
        value_name = "SECONDS",
        default_value = "30"
    )]
    pub send_timeout: Seconds,
    /// Longest time in which the client of a subscription takes no message of it, in seconds.
    #[arg(
        long,
        env = "HANGAR_STALL_TIMEOUT",
        value_name = "SECONDS",
        default_value = "60"
    )]
    pub stall_timeout: Seconds,
    /// Longest time that a subscription lasts before its client begins another, in seconds.
    #[arg(
        long,
        env = "HANGAR_LISTEN_TIMEOUT",
        value_name = "SECONDS",
        default_value = "3600"
    )]
    pub listen_timeout: Seconds,
    /// Longest time that requests in flight have to end after SIGTERM, in seconds; less than the
    /// time after which the process is killed.
    #[arg(
        long,
        env = "HANGAR_DRAIN_TIMEOUT",
        value_name = "SECONDS",
        default_value = "20"
    )]
    pub drain_timeout: Seconds,
    /// Refuse tasks/get, tasks/update and tasks/cancel without the header Mcp-Name. The protocol
    /// demands it, and clients in wide use leave it out.
    #[arg(long, env = "HANGAR_REQUIRE_TASK_NAME")]
    pub require_task_name: bool,
}

/// Bounds that contradict each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "--max-held of {held} bytes is below --max-body of {body} bytes, which could never come in; raise the one or lower the other"
)]
pub struct Contradiction {
    held: usize,
    body: usize,
}

/// A time of 1 to 3600 whole seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seconds(pub Duration);

// === impl Edge ===

impl Edge {
    pub fn check(&self) -> Result<(), Contradiction> {
        let (held, body) = (self.max_held.0, self.max_body.0);
        if held < body {
            return Err(Contradiction { held, body });
        }
        Ok(())
    }
}

// === impl Seconds ===

impl FromStr for Seconds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(seconds @ 1..=3600) => Ok(Self(Duration::from_secs(seconds))),
            _ => Err("use 1 to 3600 seconds, as 30".into()),
        }
    }
}
