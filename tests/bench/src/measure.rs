//! One figure: a case at one concurrency, through the gateway and directly, in turn.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;

use crate::case::Case;
use crate::load::{Round, Workers};
use crate::procfs;
use crate::stage::Stage;

/// What is reported of a case at one concurrency; the members are what `--json` prints.
#[derive(Debug, Serialize)]
pub(crate) struct Figures {
    pub(crate) name: &'static str,
    pub(crate) concurrency: usize,
    /// Calls a second through the gateway.
    pub(crate) rps: f64,
    pub(crate) direct_rps: f64,
    /// Of the two.
    pub(crate) ratio: f64,
    /// User and system time of the gateway.
    pub(crate) cpu_us_per_call: f64,
    /// Latencies through the gateway.
    pub(crate) p50_us: u128,
    pub(crate) p99_us: u128,
    /// Resident memory of the gateway after its last round.
    pub(crate) rss_bytes: u64,
}

/// Rounds of each kind. They alternate, so that a machine that drifts is the same for both.
const ROUNDS: u32 = 4;
/// Part of a round that is run before anything is counted.
const WARM_UP: u32 = 4;

/// Guarantees: every answer counted was the upstream's own, byte for byte.
pub(crate) async fn cell(
    stage: &mut Stage,
    case: Case,
    concurrency: usize,
    time: Duration,
) -> Result<Figures> {
    let (target, direct_target) = (stage.through_gateway(case)?, stage.direct(case)?);
    let expected = direct_target.answer().await.context("direct call")?;
    ensure_result(&expected).context("direct call")?;
    let relayed = target.answer().await.context("call through the gateway")?;
    ensure!(
        relayed == expected,
        "the gateway does not relay the answer as it came"
    );
    let mut gateway = Workers::connect(target, &expected, concurrency).await?;
    let mut direct = Workers::connect(direct_target, &expected, concurrency).await?;
    let round = time / ROUNDS;
    gateway.round(round / WARM_UP).await.context("gateway")?;
    direct.round(round / WARM_UP).await.context("direct")?;

    let pid = stage.gateway_pid();
    let before = procfs::cpu(pid)?;
    let (mut relayed, mut straight) = (Round::default(), Round::default());
    for number in 0..ROUNDS {
        // Each comes first as often as the other.
        if number % 2 == 0 {
            relayed.add(gateway.round(round).await.context("gateway")?);
            straight.add(direct.round(round).await.context("direct")?);
        } else {
            straight.add(direct.round(round).await.context("direct")?);
            relayed.add(gateway.round(round).await.context("gateway")?);
        }
    }
    // Idle while calls are direct, so one difference holds all of its work and little else.
    let cpu = procfs::cpu(pid)?.saturating_sub(before);
    let rss_bytes = procfs::resident_bytes(pid)?;
    figures(case.name(), concurrency, relayed, &straight, cpu, rss_bytes)
}

/// An answer that is an error would be measured as well as any other.
fn ensure_result(body: &Bytes) -> Result<()> {
    let message: Value = serde_json::from_slice(body)?;
    ensure!(message["result"].is_object(), "no result: {message}");
    Ok(())
}

pub(crate) fn figures(
    name: &'static str,
    concurrency: usize,
    mut relayed: Round,
    straight: &Round,
    cpu: Duration,
    rss_bytes: u64,
) -> Result<Figures> {
    relayed.latencies.sort_unstable();
    let (rps, direct_rps) = (per_second(&relayed)?, per_second(straight)?);
    let calls = u32::try_from(relayed.latencies.len()).context("too many calls")?;
    Ok(Figures {
        name,
        concurrency,
        rps: rounded(rps, 1),
        direct_rps: rounded(direct_rps, 1),
        ratio: rounded(rps / direct_rps, 3),
        cpu_us_per_call: rounded(cpu.as_secs_f64() * 1e6 / f64::from(calls), 1),
        p50_us: percentile(&relayed.latencies, 50).as_micros(),
        p99_us: percentile(&relayed.latencies, 99).as_micros(),
        rss_bytes,
    })
}

fn per_second(round: &Round) -> Result<f64> {
    let calls = u32::try_from(round.latencies.len()).context("too many calls")?;
    ensure!(calls > 0, "no call ended in time: give it more seconds");
    Ok(f64::from(calls) / round.elapsed.as_secs_f64())
}

/// The smallest that at least so many percent do not exceed; zero of nothing.
pub(crate) fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or_default()
}

fn rounded(value: f64, places: i32) -> f64 {
    let scale = 10_f64.powi(places);
    (value * scale).round() / scale
}
