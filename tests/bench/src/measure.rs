//! One figure: a case at one concurrency, through the gateway, through the bare relay and directly, in
//! turn.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;

use crate::case::Case;
use crate::load::{Round, Target, Workers};
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
    /// Calls a second through the gateway to those through the bare relay.
    pub(crate) bare_ratio: f64,
    /// User and system time of the gateway.
    pub(crate) cpu_us_per_call: f64,
    /// The same of the bare relay.
    pub(crate) bare_cpu_us_per_call: f64,
    /// Latencies through the gateway.
    pub(crate) p50_us: u128,
    pub(crate) p99_us: u128,
    /// Resident memory of the gateway after its last round.
    pub(crate) rss_bytes: u64,
}

/// The calls of all rounds, and the time of the CPUs that the process between spent on them.
#[derive(Debug)]
pub(crate) struct Spent(pub(crate) Round, pub(crate) Duration);

/// One way of a call to the upstream.
struct Way {
    name: &'static str,
    workers: Workers,
    measured: Round,
}

/// Rounds of each kind, a multiple of the three ways. They alternate, so that a machine that drifts is the same for all.
const ROUNDS: u32 = 6;
/// Part of a round that is run before anything is counted.
const WARM_UP: u32 = 4;

/// Guarantees: every answer counted was the upstream's own, byte for byte.
pub(crate) async fn cell(
    stage: &mut Stage,
    case: Case,
    concurrency: usize,
    time: Duration,
) -> Result<Figures> {
    let tasks = stage.tasks(case, concurrency).await?;
    let (mut gateway, mut bare, mut direct) = (Vec::new(), Vec::new(), Vec::new());
    for task in &tasks {
        let straight = stage.direct(case, task)?;
        let expected = straight.answer().await.context("direct call")?;
        ensure_result(&expected).context("direct call")?;
        let through = stage.through_gateway(case, task)?;
        let relayed = through.answer().await.context("call through the gateway")?;
        ensure!(
            relayed == expected,
            "the gateway does not relay the answer as it came"
        );
        gateway.push((through, expected.clone()));
        bare.push((stage.through_bare(case, task)?, expected.clone()));
        direct.push((straight, expected));
    }
    let mut ways = [
        Way::connect("gateway", gateway).await?,
        Way::connect("bare relay", bare).await?,
        Way::connect("direct", direct).await?,
    ];
    let round = time / ROUNDS;
    for way in &mut ways {
        way.round(round / WARM_UP).await?;
        way.measured = Round::default();
    }
    // Each is idle while calls go another way, so one difference holds all of its work and little else.
    let (gateway, bare) = (stage.gateway_pid(), stage.bare_pid());
    let before = (procfs::cpu(gateway)?, procfs::cpu(bare)?);
    for _ in 0..ROUNDS {
        for way in &mut ways {
            way.round(round).await?;
        }
        // Each comes first as often as the others.
        ways.rotate_left(1);
    }
    let gateway_cpu = procfs::cpu(gateway)?.saturating_sub(before.0);
    let bare_cpu = procfs::cpu(bare)?.saturating_sub(before.1);
    let rss_bytes = procfs::resident_bytes(gateway)?;
    let [relayed, copied, straight] = ways.map(|way| way.measured);
    let (relayed, copied) = (Spent(relayed, gateway_cpu), Spent(copied, bare_cpu));
    figures(
        case.name(),
        concurrency,
        relayed,
        &copied,
        &straight,
        rss_bytes,
    )
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
    mut relayed: Spent,
    copied: &Spent,
    straight: &Round,
    rss_bytes: u64,
) -> Result<Figures> {
    relayed.0.latencies.sort_unstable();
    let (rps, direct_rps) = (per_second(&relayed.0)?, per_second(straight)?);
    Ok(Figures {
        name,
        concurrency,
        rps: rounded(rps, 1),
        direct_rps: rounded(direct_rps, 1),
        ratio: rounded(rps / direct_rps, 3),
        bare_ratio: rounded(rps / per_second(&copied.0)?, 3),
        cpu_us_per_call: rounded(relayed.cpu_us_per_call()?, 1),
        bare_cpu_us_per_call: rounded(copied.cpu_us_per_call()?, 1),
        p50_us: percentile(&relayed.0.latencies, 50).as_micros(),
        p99_us: percentile(&relayed.0.latencies, 99).as_micros(),
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

// === impl Spent ===

impl Spent {
    fn cpu_us_per_call(&self) -> Result<f64> {
        let calls = u32::try_from(self.0.latencies.len()).context("too many calls")?;
        Ok(self.1.as_secs_f64() * 1e6 / f64::from(calls))
    }
}

// === impl Way ===

impl Way {
    /// What each worker calls, and the answer that it must get.
    async fn connect(name: &'static str, calls: Vec<(Target, Bytes)>) -> Result<Self> {
        let workers = Workers::connect(calls).await;
        Ok(Self {
            name,
            workers: workers.context(name)?,
            measured: Round::default(),
        })
    }

    async fn round(&mut self, time: Duration) -> Result<()> {
        let round = self.workers.round(time).await.context(self.name)?;
        self.measured.add(round);
        Ok(())
    }
}
