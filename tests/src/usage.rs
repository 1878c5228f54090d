//! What a process uses, as Linux counts it.

use std::time::Duration;

use anyhow::{Context, Result};

/// Ticks of `/proc/PID/stat` in a second: 100 wherever Linux runs.
const TICKS: u64 = 100;

/// Peak of the resident memory in bytes, since [`forget_peak`] or the start.
pub fn peak(pid: u32) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.context("no VmHWM")?.trim().trim_end_matches(" kB");
    Ok(kilobytes.parse::<u64>()? * 1024)
}

/// Lets the peak begin anew; where this is not permitted the peak since the start is as good.
pub fn forget_peak(pid: u32) {
    let _ = std::fs::write(format!("/proc/{pid}/clear_refs"), "5");
}

/// Time of processors, which says nothing of how long somebody waited.
pub fn processor(pid: u32) -> Result<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let (_, fields) = stat.rsplit_once(") ").context("no name")?;
    let mut fields = fields.split(' ').skip(11);
    let mut ticks = || anyhow::Ok(fields.next().context("too short")?.parse::<u64>()?);
    let (user, system) = (ticks()?, ticks()?);
    Ok(Duration::from_millis((user + system) * 1000 / TICKS))
}
