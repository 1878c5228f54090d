//! What the kernel says of a process.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};

/// A clock tick of `/proc` is 10 ms, whatever the kernel's own (`USER_HZ`).
const TICK: Duration = Duration::from_millis(10);
/// Fields of `stat` between the program's name and its user time.
const BEFORE_TIMES: usize = 11;

/// User and system time of all threads so far.
pub(crate) fn cpu(pid: u32) -> Result<Duration> {
    let stat = read(pid, "stat")?;
    cpu_of(&stat).with_context(|| format!("times of process {pid} in {stat}"))
}

/// Resident memory.
pub(crate) fn resident_bytes(pid: u32) -> Result<u64> {
    let status = read(pid, "status")?;
    resident_of(&status).with_context(|| format!("process {pid} has no VmRSS: it has ended"))
}

pub(crate) fn cpu_of(stat: &str) -> Option<Duration> {
    // The name is in parentheses and may hold anything, parentheses too.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_whitespace().skip(BEFORE_TIMES);
    let user: u32 = times.next()?.parse().ok()?;
    let system: u32 = times.next()?.parse().ok()?;
    Some(TICK * user.checked_add(system)?)
}

pub(crate) fn resident_of(status: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    kibibytes.checked_mul(1024)
}

fn read(pid: u32, file: &str) -> Result<String> {
    let path = format!("/proc/{pid}/{file}");
    fs::read_to_string(&path).with_context(|| path)
}
