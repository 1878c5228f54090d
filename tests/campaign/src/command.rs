//! From the command line to the exit code.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result};

use crate::{breaks, long};

/// Long forms of what `cargo verify` runs for a moment, and proof that its tests can fail.
#[derive(Debug, clap::Parser)]
#[command(name = "cargo campaign", bin_name = "cargo campaign", version)]
pub(crate) struct Args {
    #[command(subcommand)]
    campaign: Campaign,
}

#[derive(Debug, clap::Subcommand)]
enum Campaign {
    /// Applies each patch of tests/breaks to a copy of the tree and shows that the test of its promise fails
    Breaks {
        /// Only the patches of this name, without `.patch`
        #[arg(long)]
        only: Vec<String>,
    },
    /// Feeds mutated messages to everything that reads what came over a wire
    Fuzz {
        /// Number of random sequences
        #[arg(long, default_value_t = 20)]
        seeds: u64,
        /// Inputs of each sequence and target
        #[arg(long, default_value_t = 500_000)]
        inputs: u64,
    },
    /// Searches larger scopes of two replicas, and many more random lives of a task
    Model,
}

pub(crate) fn run(Args { campaign }: Args) -> ExitCode {
    let ended = match campaign {
        Campaign::Breaks { only } => breaks::run(&only),
        Campaign::Fuzz { seeds, inputs } => long::fuzz(seeds, inputs),
        Campaign::Model => long::model(),
    };
    match ended {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("campaign: FAILED: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Where what a campaign builds is kept from run to run.
pub(crate) fn cache() -> Result<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let folder = match set("XDG_CACHE_HOME") {
        Some(cache) => PathBuf::from(cache),
        None => PathBuf::from(set("HOME").context("HOME is not set")?).join(".cache"),
    };
    Ok(folder.join("hangar/campaign"))
}
