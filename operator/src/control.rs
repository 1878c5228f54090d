//! The control loop: one task owns the world, compiles it, and publishes what came out.
//!
//! Guarantees: changes are taken together, never one compile for each; the timed pass runs the
//! same code; nothing is published before every kind was loaded once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use hangar_operator_core::{Change, Compiled, ObjectKind, Settings, Verdict, World};
use hangar_wire::{Kind, ObjectKey};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::metrics::{Metrics, ObjectCounts};
use crate::publish::Publisher;

/// The verdict on each object.
pub type Verdicts = Arc<BTreeMap<ObjectKey, Verdict>>;

/// Owns the world.
#[derive(Debug)]
pub struct Control {
    world: World,
    loaded: BTreeSet<ObjectKind>,
    publisher: Arc<Publisher>,
    verdicts: watch::Sender<Verdicts>,
    metrics: Metrics,
}

/// When the next compile is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Due {
    first: Instant,
    at: Instant,
}

/// A change waits this long for company.
const DEBOUNCE: Duration = Duration::from_millis(50);
/// But no longer than this in all.
const DEBOUNCE_AT_MOST: Duration = Duration::from_millis(500);
const FULL_PASS_EVERY: Duration = Duration::from_mins(1);
const EVERY_KIND: usize = 3;

// === impl Control ===

impl Control {
    pub fn new(
        settings: Settings,
        publisher: Arc<Publisher>,
        verdicts: watch::Sender<Verdicts>,
        metrics: Metrics,
    ) -> Self {
        Self {
            world: World::new(settings),
            loaded: BTreeSet::new(),
            publisher,
            verdicts,
            metrics,
        }
    }

    /// Runs until stopped, or until the source ends.
    pub async fn run(mut self, mut changes: mpsc::Receiver<Change>, stop: CancellationToken) {
        let mut full = tokio::time::interval(FULL_PASS_EVERY);
        full.tick().await;
        let mut due: Option<Due> = None;
        // What a pass found missing is looked for again, also where nothing changes.
        let mut again: Option<Instant> = None;
        loop {
            let at = due.map(|due| due.at).into_iter().chain(again).min();
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = tokio::time::sleep_until(at.unwrap_or_else(Instant::now)), if at.is_some() => {
                    due = None;
                    again = self.pass().await;
                }
                change = changes.recv() => match change {
                    Some(change) => {
                        self.take(change);
                        due = Some(Due::extend(due, Instant::now()));
                    }
                    None => return,
                },
                _ = full.tick() => again = self.pass().await,
            }
        }
    }

    fn take(&mut self, change: Change) {
        if let Change::Reset { kind, .. } = &change {
            self.loaded.insert(*kind);
        }
        self.world.apply(change);
    }

    /// Answers when the next pass is due though nothing changes.
    async fn pass(&mut self) -> Option<Instant> {
        if self.loaded.len() < EVERY_KIND {
            return None;
        }
        let started = std::time::Instant::now();
        let Compiled {
            addresses,
            upstreams,
            tenants,
            verdicts,
        } = self.world.compile();
        self.metrics.compiled(started.elapsed().as_secs_f64());
        for kind in [Kind::McpUpstream, Kind::TenantPolicy] {
            self.metrics.objects(kind.as_str(), count(kind, &verdicts));
        }
        let now = Instant::now();
        let again = self.publisher.look(&upstreams, &verdicts, now).await;
        match self.publisher.publish(addresses, upstreams, tenants).await {
            Ok(None) => {}
            Ok(Some(published)) => {
                self.metrics.published(published.held.term.generation);
                tracing::info!(
                    term = %published.held.term,
                    digest = %published.held.digest,
                    objects = published.digests.len(),
                    bytes = published.body.len(),
                    "new configuration"
                );
            }
            Err(error) => {
                tracing::error!(%error, reason = error.reason(), "configuration not published");
                return again;
            }
        }
        // Also when nothing changed: whoever writes status then looks at everything again.
        self.verdicts.send_replace(Arc::new(verdicts));
        again
    }
}

fn count(kind: Kind, verdicts: &BTreeMap<ObjectKey, Verdict>) -> ObjectCounts {
    let mut counts = ObjectCounts::default();
    for (_, verdict) in verdicts.iter().filter(|(key, _)| key.kind == kind) {
        if verdict.accepted.is_true() {
            counts.accepted += 1;
        } else {
            counts.refused += 1;
        }
    }
    counts
}

// === impl Due ===

impl Due {
    fn extend(due: Option<Self>, now: Instant) -> Self {
        let first = due.map_or(now, |due| due.first);
        Self {
            first,
            at: (now + DEBOUNCE).min(first + DEBOUNCE_AT_MOST),
        }
    }
}

#[cfg(test)]
mod tests;
