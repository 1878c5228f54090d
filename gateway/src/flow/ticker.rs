//! Brings forward what time decides anyway: terminal entries are purged and evicted tasks stopped at
//! their upstreams, also where nobody asks for them any more. Governance does not depend on it, since
//! time is decided at every access.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hangar_store::Whose;
use tokio_util::sync::CancellationToken;

use super::governor::Governor;
use crate::gateway::Gateway;

const EVERY: Duration = Duration::from_secs(30);

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
