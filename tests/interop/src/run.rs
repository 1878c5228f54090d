//! The command: each part is run, then written.

use anyhow::Result;
use hangar_tests::binaries;

use crate::differences::Allowed;
use crate::{conformance, cross, readme, record};

/// Runs the conformance suite and the peers of every SDK, directly and through the gateway, and
/// writes the tables of tests/README.md. Whether what they show may be is for the tests to say.
#[derive(Debug, clap::Parser)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Records the exchanges of every SDK and of the conformance suite anew, into tests/interop/corpus.
    Record,
}

/// Names of the parts of `tests/README.md`.
pub const CONFORMANCE: &str = "conformance";
pub const ALLOWED: &str = "differences";
pub const CROSS: &str = "cross runs";
pub const UNSUPPORTED_TABLE: &str = "unsupported";

/// What the conformance suite may see differently.
pub const DIFFERENCES: &str = include_str!("../differences.txt");
/// What SDKs do not support of each other.
pub const UNSUPPORTED: &str = include_str!("../cross.txt");

const PACKAGES: [&str; 3] = ["hangar-gateway", "hangar-operator", "hangar-rust-peer"];

pub async fn run(Args { command }: Args) -> Result<()> {
    binaries::build(&PACKAGES)?;
    if let Some(Command::Record) = command {
        return record::run().await;
    }
    let runs = conformance::run().await?;
    readme::write(CONFORMANCE, &runs.table())?;
    readme::write(ALLOWED, &Allowed::parse(DIFFERENCES)?.table())?;
    let runs = cross::run().await?;
    readme::write(CROSS, &runs.table())?;
    readme::write(UNSUPPORTED_TABLE, &Allowed::parse(UNSUPPORTED)?.table())?;
    Ok(())
}
