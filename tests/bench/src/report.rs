//! How figures are shown.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::measure::Figures;

/// Makes lines of figures.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Report {
    Table,
    /// One JSON object a line.
    Json,
}

// === impl Report ===

impl Report {
    /// What stands above the figures.
    pub(crate) fn head(self, time: Duration) -> Result<String> {
        match self {
            Self::Json => Ok(String::new()),
            Self::Table => {
                let load = fs::read_to_string("/proc/loadavg").context("/proc/loadavg")?;
                let load: Vec<_> = load.split(' ').take(3).collect();
                Ok(format!(
                    "{} CPUs, load average {}; {time:?} through the gateway, {time:?} through a \
                     bare relay and {time:?} directly for each line\n\n\
                     {:<20} {:>4} {:>9} {:>9} {:>6} {:>7} {:>11} {:>8} {:>9} {:>9} {:>8}\n",
                    std::thread::available_parallelism()?,
                    load.join(" "),
                    "call",
                    "c",
                    "calls/s",
                    "direct/s",
                    "ratio",
                    "of bare",
                    "CPU us/call",
                    "bare CPU",
                    "p50 us",
                    "p99 us",
                    "RSS MiB",
                ))
            }
        }
    }

    pub(crate) fn row(self, figures: &Figures) -> Result<String> {
        match self {
            Self::Json => Ok(serde_json::to_string(figures)? + "\n"),
            Self::Table => {
                let Figures {
                    name,
                    concurrency,
                    rps,
                    direct_rps,
                    ratio,
                    bare_ratio,
                    cpu_us_per_call,
                    bare_cpu_us_per_call,
                    p50_us,
                    p99_us,
                    rss_bytes,
                } = figures;
                let mebibytes = rss_bytes >> 20;
                Ok(format!(
                    "{name:<20} {concurrency:>4} {rps:>9.0} {direct_rps:>9.0} {ratio:>6.3} \
                     {bare_ratio:>7.3} {cpu_us_per_call:>11.1} {bare_cpu_us_per_call:>8.1} \
                     {p50_us:>9} {p99_us:>9} {mebibytes:>8}\n"
                ))
            }
        }
    }
}
