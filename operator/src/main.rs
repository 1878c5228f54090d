//! `hangar-operator`: compiles `McpUpstream` and `TenantPolicy` and pushes the result to gateways.

use std::process::ExitCode;

use clap::Parser as _;
use hangar_operator::args::{Args, Command};

fn main() -> ExitCode {
    match Args::parse().command {
        Command::Run(args) => hangar_operator::run::main(*args),
        Command::Check(args) => hangar_operator::check::main(&args),
    }
}
