//! hangar-gateway: the data plane. Sockets, disk, clock and TLS; decisions live in
//! `hangar-relay` (MCP) and `hangar-ledger` (tasks).
//!
//! The way of a request: [`http::mcp`] climbs the ladder of checks and ends with an authorised
//! request; [`flow`] has one module per method; [`upstream`] speaks to servers; `hangar-store`
//! keeps what was decided. What the gateway never does: talk to the API server of a cluster, hold
//! a task's result, start work on its own.

pub mod args;
pub mod config;
pub mod flow;
pub mod gateway;
pub mod http;
pub mod limit;
pub mod listeners;
pub mod log;
pub mod metrics;
mod provenance;
mod run;
mod tools;
pub mod upstream;

use std::process::ExitCode;

use clap::Parser;

/// Parses the command line and runs it. Exit codes: 0 done, 1 the answer is no, 2 wrong usage or
/// configuration.
pub fn main() -> ExitCode {
    let args::Cli { command } = args::Cli::parse();
    match command {
        args::Command::Run(args) => run::run(*args),
        args::Command::Provenance(command) => provenance::run(command),
        args::Command::Tools(command) => tools::run(command),
    }
}

/// An error and what caused it, on one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

/// Wall clock, for ages in metrics only; the ledger has the store's clock.
fn unix_millis() -> u64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| {
            u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
        })
}
