//! From the command line to the exit code.

use std::io::{Write, stdout};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::{Parser, ValueEnum};
use hangar_tests::binaries;
use tokio::runtime::Runtime;

use crate::case::Case;
use crate::report::Report;
use crate::stage::Stage;
use crate::{ledger, measure, relay, upstream};

/// Measures the shipped gateway beside direct calls to the same upstream, and beside a bare relay of
/// the same HTTP stack that copies what it is sent.
///
/// The load is closed: each worker has one connection and sends its next call when it has the
/// answer to the last, so latencies are those at the throughput reached, not at a rate asked for.
/// Gateway, relay, upstream and load share this machine: compare ratios and CPU a call, not calls a second.
#[derive(Debug, Parser)]
#[command(name = "cargo bench-relay", bin_name = "cargo bench-relay --", version)]
pub(crate) struct Args {
    /// One JSON object a line instead of a table
    #[arg(long)]
    json: bool,
    /// Seconds of load through the gateway for each figure, as many through the bare relay, and as many
    /// directly
    #[arg(long, value_name = "N", default_value = "3", value_parser = seconds)]
    seconds: Duration,
    /// Measure only this; may be repeated
    #[arg(long, value_name = "NAME", value_enum)]
    only: Vec<Case>,
    /// Workers at once; several with commas
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [1, 16, 64])]
    concurrency: Vec<u16>,
    /// Measure looks at a ledger of so many live entries instead
    #[arg(long, value_name = "ENTRIES", value_parser = clap::value_parser!(u64).range(1..))]
    ledger: Option<u64>,
    /// Fill a ledger with so many entries instead
    #[arg(long, hide = true, value_name = "ENTRIES", requires = "at")]
    fill: Option<u64>,
    /// Where that ledger is
    #[arg(long, hide = true, value_name = "FILE")]
    at: Option<PathBuf>,
    /// Serve as the upstream instead
    #[arg(long, hide = true)]
    upstream: bool,
    /// Serve as the bare relay of this upstream instead
    #[arg(long, hide = true, value_name = "ADDRESS")]
    relay: Option<SocketAddr>,
}

/// Guarantees: whatever was started has ended when this returns.
pub(crate) fn run(args: Args) -> ExitCode {
    let outcome = Runtime::new()
        .context("the runtime cannot be started")
        .and_then(|runtime| {
            if args.upstream {
                runtime.block_on(upstream::serve())
            } else if let Some(upstream) = args.relay {
                runtime.block_on(relay::serve(upstream))
            } else if let (Some(entries), Some(at)) = (args.fill, &args.at) {
                runtime.block_on(ledger::fill(entries, at))
            } else if let Some(entries) = args.ledger {
                write!(stdout(), "{}", runtime.block_on(ledger::measure(entries))?)?;
                Ok(())
            } else {
                binaries::build(&["hangar-operator", "hangar-gateway"])?;
                runtime.block_on(measure_all(args))
            }
        });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("FAILED: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn measure_all(args: Args) -> Result<()> {
    let Args {
        json,
        seconds,
        only,
        concurrency,
        ledger: _,
        fill: _,
        at: _,
        upstream: _,
        relay: _,
    } = args;
    let report = if json { Report::Json } else { Report::Table };
    let mut out = stdout();
    write!(out, "{}", report.head(seconds)?)?;
    let wanted = |case: &Case| only.is_empty() || only.contains(case);
    for case in Case::value_variants().iter().copied().filter(wanted) {
        // Each case has a gateway of its own, so that its memory is not what an earlier one left.
        let mut stage = Stage::set().await.context(case.name())?;
        for &workers in &concurrency {
            let figures = measure::cell(&mut stage, case, workers.into(), seconds)
                .await
                .with_context(|| format!("{} with {workers} workers", case.name()))?;
            write!(out, "{}", report.row(&figures)?)?;
            out.flush()?;
        }
    }
    Ok(())
}

fn seconds(text: &str) -> Result<Duration> {
    let seconds = Duration::try_from_secs_f64(text.parse()?)?;
    ensure!(!seconds.is_zero(), "at least some time is needed");
    Ok(seconds)
}
