//! From the command line to the exit code.

use std::cell::Cell;
use std::io::stdout;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use hangar_tests::binaries;
use hangar_tests::teller::Teller;
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

use crate::quickstart;
use crate::stage::{Stage, Upstream};
use crate::story::Story;

/// Plays the story of one governed task on the shipped binaries: an MCP server, an operator that
/// reads manifests from a folder, a gateway, and two tenants.
#[derive(Debug, Parser)]
#[command(name = "cargo demo", bin_name = "cargo demo --", version)]
pub(crate) struct Args {
    /// Exit after the story, with 0 only if every step held; otherwise everything stays up
    #[arg(long)]
    pub(crate) once: bool,
}

const PACKAGES: [&str; 3] = ["hangar-operator", "hangar-gateway", "hangar-demo-upstream"];
/// As a shell would report an end by SIGINT.
const INTERRUPTED: u8 = 130;

/// Guarantees: whatever was started has ended when this returns.
pub(crate) fn play(once: bool) -> ExitCode {
    match binaries::build(&PACKAGES).and_then(|()| on_stage(once)) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("FAILED: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn on_stage(once: bool) -> Result<ExitCode> {
    let folder = tempfile::Builder::new().prefix("hangar-demo-").tempdir()?;
    let told = Cell::new(false);
    let runtime = Runtime::new().context("the runtime cannot be started")?;
    let outcome = runtime.block_on(async {
        tokio::select! {
            biased;
            outcome = interrupted() => outcome.map(|()| {
                if told.get() { ExitCode::SUCCESS } else { ExitCode::from(INTERRUPTED) }
            }),
            outcome = tell(folder.path(), once, &told) => outcome.map(|()| ExitCode::SUCCESS),
        }
    });
    if outcome.is_err() {
        // The logs are what a failed step is explained by.
        eprintln!("\nLogs and state are kept in {}", folder.keep().display());
    }
    outcome
}

async fn tell(folder: &Path, once: bool, told: &Cell<bool>) -> Result<()> {
    let mut teller = Teller::new(stdout());
    teller.step("Declared: an MCP server and two tenants that may use it")?;
    let upstream = Upstream::start(folder).await?;
    let from = hangar_tests::repository().join("examples/quickstart");
    let manifests = folder.join("manifests");
    let names = quickstart::copy(&from, &manifests, &upstream.url())?;
    teller.say(format_args!(
        "{} holds {}",
        manifests.display(),
        names.join(", ")
    ))?;
    teller.paste(format!("cat {}/*", manifests.display()));
    let mut stage = Stage::set(folder, upstream).await?;
    Story::new(&mut stage, &mut teller)?.play().await?;
    teller.end()?;
    if !once {
        told.set(true);
        teller.pastes()?;
        std::future::pending::<()>().await;
    }
    Ok(())
}

async fn interrupted() -> Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        outcome = tokio::signal::ctrl_c() => outcome?,
        _ = terminate.recv() => {}
    }
    Ok(())
}
