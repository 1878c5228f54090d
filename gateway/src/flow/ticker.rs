//! Brings forward what time decides anyway: terminal entries are purged and evicted tasks stopped at
//! their upstreams, also where nobody asks for them any more. Governance does not depend on it, since
//! time is decided at every access. First-use pins whose object left the configuration are forgotten
//! here and nowhere else, so they live longer without it, and never shorter.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hangar_store::{Present, Whose};
use tokio_util::sync::CancellationToken;

use super::governor::Governor;
use crate::gateway::Gateway;

const EVERY: Duration = Duration::from_secs(30);
/// How long first-use pins outlive their object, in milliseconds.
const KEEP_PINS_MS: u64 = 30 * 24 * 3_600_000;

/// Runs until stopped.
pub async fn run(gateway: Arc<Gateway>, stop: CancellationToken) {
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = ticks.tick() => {}
        }
        // Without configuration it is not known where to send a cancel.
        let Some(active) = gateway.config.load() else {
            continue;
        };
        for upstream in active.upstreams() {
            upstream.runtime.sessions.sweep(Instant::now());
            upstream.runtime.polls.sweep(Instant::now());
        }
        let present = Present {
            class: gateway.class.clone(),
            upstreams: active
                .upstreams()
                .map(|upstream| {
                    (
                        upstream.object.namespace.clone(),
                        upstream.object.name.clone(),
                    )
                })
                .collect(),
            keep_ms: KEEP_PINS_MS,
        };
        if gateway.store.retain_pins(present).await.is_err() {
            tracing::warn!("pins of absent upstreams wait for the next tick");
        }
        let governor = Governor {
            gateway: Arc::clone(&gateway),
            active,
            correlation: "ticker".to_owned(),
        };
        if governor.retire_due(&Whose::All).await.is_err() {
            tracing::warn!("due entries wait for the next tick");
        }
    }
}
