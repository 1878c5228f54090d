//! The subscription: keeps the configuration in force equal to what the operator serves.
//!
//! ```text
//! start ── no leader within 10 s ──► last-known-good in force, goes on subscribing
//!   └── first snapshot ──► applied ──► written to disk ──► acknowledged by the next request
//! ```
//! Guarantees: the acknowledgement names only what is on disk; a snapshot is in force even when the
//! disk refuses it (a revocation must not wait for a disk), but is then not acknowledged and the
//! pod is not Ready.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use hangar_wire::{FORMAT, Held, Pod, Rejection, Snapshot, Subscribe};
use rand::RngExt;
use tokio::task::JoinError;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::disk::{self, LastKnownGood};
use super::link::{self, Link};
use super::{Active, Applied, Config, Runtimes};
use crate::metrics::Metrics;

/// What probes and metrics read of the subscription.
#[derive(Debug, Default)]
pub struct Freshness {
    /// False while the local volume refuses the last-known-good.
    pub volume_broken: AtomicBool,
    /// Unix milliseconds of the last answer of an operator; 0 before the first.
    pub confirmed_at: AtomicU64,
}

/// Everything that the subscription needs.
#[derive(Debug)]
pub struct Subscription {
    pub link: Link,
    pub disk: LastKnownGood,
    pub config: Arc<Config>,
    pub freshness: Arc<Freshness>,
    pub metrics: Arc<Metrics>,
    pub stop: CancellationToken,
}

/// What this process knows between two requests.
struct State {
    /// Our uid where the token names no pod.
    local: String,
    runtimes: Runtimes,
    rejected: Vec<Rejection>,
    /// Last-known-good that waits for its moment.
    stored: Option<Snapshot>,
    /// What the operator is told that we hold.
    held: Option<Held>,
    /// In force, not yet on disk.
    unsaved: Option<Arc<Snapshot>>,
    /// Subscriptions that failed in a row.
    failures: u32,
    /// Writes that failed in a row. Counted apart: an operator that answers at once must not be
    /// asked in a loop for what cannot be written.
    unwritten: u32,
    started: Instant,
}

/// How long a starting pod waits for a leader before it uses what it has.
const PATIENCE: Duration = Duration::from_secs(10);
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

// === impl Subscription ===

impl Subscription {
    pub async fn run(mut self) {
        let mut state = State::new(self.load());
        let stop = self.stop.clone();
        tokio::select! {
            () = stop.cancelled() => {}
            () = self.follow(&mut state) => {}
        }
    }

    async fn follow(&mut self, state: &mut State) {
        loop {
            self.save(state).await;
            let message = self.message(state);
            let patience = self.patience(state);
            let outcome = tokio::select! {
                outcome = self.link.subscribe(&message) => outcome,
                () = wait(patience) => {
                    self.fall_back(state);
                    continue;
                }
            };
            match outcome {
                Ok(update) => {
                    if let Some(snapshot) = update.snapshot {
                        self.receive(state, snapshot);
                    } else {
                        self.confirmed();
                        state.failures = 0;
                    }
                }
                Err(error) => {
                    state.failures += 1;
                    self.metrics
                        .config_errors
                        .with_label_values(&[error.reason()])
                        .inc();
                    report(&error, state.failures);
                }
            }
            if let Some(pause) = state.pause() {
                tokio::time::sleep(pause).await;
            }
        }
    }

    /// What is in force is what an operator serves, as of now.
    fn confirmed(&self) {
        let now = crate::unix_millis();
        self.freshness.confirmed_at.store(now, Ordering::Relaxed);
    }

    fn message(&self, state: &State) -> Subscribe {
        Subscribe {
            format: FORMAT,
            pod: self.pod(&state.local),
            held: state.held,
            rejected: state.rejected.clone(),
        }
    }

    /// The time until the last-known-good is used; none when something is in force or nothing is stored.
    fn patience(&self, state: &State) -> Option<Instant> {
        let waiting = state.stored.is_some() && self.config.load().is_none();
        waiting.then(|| state.started + PATIENCE)
    }

    fn fall_back(&mut self, state: &mut State) {
        let Some(snapshot) = state.stored.take() else {
            return;
        };
        let held = snapshot.held();
        match self.config.apply(snapshot, &mut state.runtimes) {
            Ok(Applied::New(rejected)) => {
                tracing::warn!(term = %held.term, "no operator answers: last-known-good configuration is in force");
                state.rejected = rejected;
                state.held = Some(held);
                self.count(held);
            }
            Ok(Applied::Same) => {}
            Err(error) => tracing::error!(
                error = crate::chain(&error),
                "last-known-good configuration cannot be used"
            ),
        }
    }

    fn receive(&mut self, state: &mut State, snapshot: Snapshot) {
        let held = snapshot.held();
        if let Some(stored) = state
            .stored
            .as_ref()
            .filter(|stored| stored.term > snapshot.term)
        {
            // An operator that lost its number: told what we know, it starts above it.
            tracing::warn!(offered = %snapshot.term, known = %stored.term, "configuration is older than the stored one");
            state.held = Some(stored.held());
            state.failures += 1;
            return;
        }
        let kept = snapshot.clone();
        let before = self.config.load();
        match self.config.apply(snapshot, &mut state.runtimes) {
            Ok(Applied::New(rejected)) => {
                self.confirmed();
                for Rejection {
                    object,
                    reason,
                    message,
                    ..
                } in &rejected
                {
                    tracing::warn!(%object, reason, message, "object is rejected");
                    self.metrics.config_rejections.inc();
                }
                tracing::info!(term = %held.term, digest = %held.digest, "configuration is in force");
                state.rejected = rejected;
                state.stored = None;
                state.failures = 0;
                state.unsaved = Some(Arc::new(kept));
                self.count(held);
                self.forget(before.as_deref());
            }
            Ok(Applied::Same) => {
                self.confirmed();
                state.failures = 0;
            }
            Err(error) => {
                self.metrics
                    .config_errors
                    .with_label_values(&[error.reason()])
                    .inc();
                tracing::error!(error = crate::chain(&error), "configuration is refused");
                state.held = self.config.held();
                state.failures += 1;
            }
        }
    }

    /// Writes what is in force; only then may it be acknowledged.
    async fn save(&mut self, state: &mut State) {
        let Some(snapshot) = state.unsaved.take() else {
            return;
        };
        let (disk, writing) = (self.disk.clone(), Arc::clone(&snapshot));
        let saved = tokio::task::spawn_blocking(move || disk.save(&writing)).await;
        self.saved(state, snapshot, saved);
    }

    /// What became of the write. What is not on disk waits for the next attempt, whatever the cause.
    fn saved(
        &self,
        state: &mut State,
        snapshot: Arc<Snapshot>,
        saved: Result<Result<(), disk::Error>, JoinError>,
    ) {
        let error = match saved {
            Ok(Ok(())) => {
                self.freshness.volume_broken.store(false, Ordering::Relaxed);
                state.held = Some(snapshot.held());
                state.unwritten = 0;
                return;
            }
            Ok(Err(error)) => crate::chain(&error),
            Err(error) => crate::chain(&error),
        };
        self.freshness.volume_broken.store(true, Ordering::Relaxed);
        state.unsaved = Some(snapshot);
        state.unwritten += 1;
        if is_loud(state.unwritten) {
            tracing::error!(error, "configuration is in force but not acknowledged");
        }
    }

    fn load(&self) -> Option<Snapshot> {
        match self.disk.load() {
            Ok(stored) => stored,
            Err(error) => {
                tracing::error!(
                    error = crate::chain(&error),
                    "starting without last-known-good configuration"
                );
                None
            }
        }
    }

    /// The identity in the token where it has one; a name of our own in folder mode, where the
    /// token stands for the identity.
    ///
    /// Asked for each subscription: a projected token may appear after the process has started.
    fn pod(&self, local: &str) -> Pod {
        self.link
            .token()
            .ok()
            .and_then(|token| pod_of_token(&token))
            .unwrap_or_else(|| Pod {
                namespace: "local".into(),
                name: "gateway".into(),
                uid: local.to_owned(),
            })
    }

    fn count(&self, held: Held) {
        let generation = i64::try_from(held.term.generation.0).unwrap_or(i64::MAX);
        self.metrics.config_generation.set(generation);
    }

    /// Drops the series of what is configured no more.
    fn forget(&self, before: Option<&Active>) {
        if let (Some(before), Some(now)) = (before, self.config.load()) {
            self.metrics.forget(before.labels(), now.labels());
        }
    }
}

// === impl State ===

impl State {
    fn new(stored: Option<Snapshot>) -> Self {
        Self {
            local: uuid::Uuid::new_v4().to_string(),
            runtimes: Runtimes::default(),
            rejected: Vec::new(),
            stored,
            held: None,
            unsaved: None,
            failures: 0,
            unwritten: 0,
            started: Instant::now(),
        }
    }

    /// Time to wait before the next subscription; none where all is well.
    fn pause(&self) -> Option<Duration> {
        let failures = self.failures.max(self.unwritten);
        (failures > 0).then(|| pause(failures))
    }
}

/// The claims that Kubernetes puts into a projected service-account token. Read without
/// verification: it only says who we are, and the operator verifies the token itself.
fn pod_of_token(token: &str) -> Option<Pod> {
    use base64::Engine as _;
    let payload = token.split('.').nth(1)?;
    let bytes = base64::engine::general_purpose::URL_SAFE_NO_PAD
        .decode(payload)
        .ok()?;
    let claims: serde_json::Value = serde_json::from_slice(&bytes).ok()?;
    let claims = claims.get("kubernetes.io")?;
    let text = |value: &serde_json::Value| value.as_str().map(str::to_owned);
    Some(Pod {
        namespace: text(claims.get("namespace")?)?,
        name: text(claims.get("pod")?.get("name")?)?,
        uid: text(claims.get("pod")?.get("uid")?)?,
    })
}

async fn wait(until: Option<Instant>) {
    match until {
        Some(until) => tokio::time::sleep_until(until).await,
        None => std::future::pending().await,
    }
}

/// Doubles from 100 ms to 5 s, then takes a random part of it, so that a fleet does not return as one.
fn pause(failures: u32) -> Duration {
    let longest = FIRST_PAUSE
        .saturating_mul(1 << failures.min(8))
        .min(LONGEST_PAUSE);
    longest.mul_f64(rand::rng().random_range(0.5..1.0))
}

fn report(error: &link::Error, failures: u32) {
    if is_loud(failures) {
        tracing::warn!(
            error = crate::chain(error),
            failures,
            "subscription failed, trying again"
        );
    } else {
        tracing::debug!(error = crate::chain(error), failures, "subscription failed");
    }
}

/// The first failure of a row is told, then every twentieth.
fn is_loud(failures: u32) -> bool {
    failures == 1 || failures.is_multiple_of(20)
}

#[cfg(test)]
mod tests;
