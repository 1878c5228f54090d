//! Status: verdicts and acknowledgements, joined and written where they differ from what is there.
//!
//! Guarantees: nothing is written that differs in time only; changed conditions go before mere
//! counts, and counts go at a limited rate; what could not be written is found by the next pass.

pub mod cluster;
pub mod folder;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use hangar_operator_core::{Difference, Fleet as FleetView, Status, difference, status};
use hangar_wire::ObjectKey;
use k8s_openapi::jiff::Timestamp;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::control::Verdicts;
use crate::fleet::Fleet;
use crate::metrics::Metrics;
use crate::publish::Publisher;

/// The status of each object as far as it is known to be written.
#[derive(Debug, Default)]
pub struct Book(Mutex<BTreeMap<ObjectKey, Status>>);

/// One status to be written.
#[derive(Clone, Debug, PartialEq)]
pub struct Update {
    pub key: ObjectKey,
    /// Of the object that was judged; empty where there was none.
    pub uid: String,
    pub status: Status,
    pub difference: Difference,
}

/// Puts statuses where people look.
pub trait Writer: Send + Sync {
    /// Writes what it can and records it in the book.
    fn write<'a>(&'a self, updates: Vec<Update>, book: &'a Book) -> BoxFuture<'a, Outcome>;

    /// Told which objects there are, before each write.
    fn retain(&self, verdicts: &Verdicts, book: &Book);
}

/// How a round of writes went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done,
    /// Some are to be tried again, after a pause.
    Failed,
}

/// Joins and compares.
pub struct Reporter {
    pub verdicts: watch::Receiver<Verdicts>,
    pub fleet: Arc<Fleet>,
    pub publisher: Arc<Publisher>,
    pub book: Arc<Book>,
    pub writer: Box<dyn Writer>,
    pub metrics: Metrics,
    /// When this process had its first configuration.
    pub since: OnceLock<Instant>,
}

const DEBOUNCE: Duration = Duration::from_millis(50);
/// Also finds gateways that did not come back.
const PASS_EVERY: Duration = Duration::from_secs(1);
/// After failed writes, so that an API server in trouble is not asked every second.
const RETRY_PAUSE: Duration = Duration::from_secs(5);
/// How long a process that just started waits for the gateways to come back before it says of an
/// unchanged object that it is no longer programmed.
const SETTLE: Duration = Duration::from_secs(15);
/// Counts written by one pass; with one pass a second no more than this a second.
const COUNTS_AT_ONCE: usize = 10;

// === impl Book ===

impl Book {
    pub fn get(&self, key: &ObjectKey) -> Option<Status> {
        self.lock().get(key).cloned()
    }

    pub fn set(&self, key: ObjectKey, status: Status) {
        self.lock().insert(key, status);
    }

    pub fn remove(&self, key: &ObjectKey) {
        self.lock().remove(key);
    }

    pub fn snapshot(&self) -> BTreeMap<ObjectKey, Status> {
        self.lock().clone()
    }

    /// Forgets objects that are not judged any more; says whether there were any.
    pub fn retain(&self, verdicts: &Verdicts) -> bool {
        let mut known = self.lock();
        let before = known.len();
        known.retain(|key, _| verdicts.contains_key(key));
        before != known.len()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, Status>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Reporter ===

impl Reporter {
    /// Runs until stopped.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut fleet = self.fleet.changes();
        let mut timed = tokio::time::interval(PASS_EVERY);
        timed.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                changed = self.verdicts.changed() => if changed.is_err() { return },
                changed = fleet.changed() => if changed.is_err() { return },
                _ = timed.tick() => {}
            }
            tokio::time::sleep(DEBOUNCE).await;
            fleet.mark_unchanged();
            let verdicts = Arc::clone(&self.verdicts.borrow_and_update());
            let pass = self.pass(&verdicts);
            if stop.run_until_cancelled(pass).await.is_none() {
                return;
            }
        }
    }

    async fn pass(&self, verdicts: &Verdicts) {
        self.fleet.expire(Instant::now());
        let current = self.publisher.current().map(|it| it.held);
        self.metrics.gateways(self.fleet.counts(current));
        if current.is_none() {
            return;
        }
        self.writer.retain(verdicts, &self.book);
        let updates = self.updates(verdicts, &self.fleet.view(), this_second());
        if updates.is_empty() {
            return;
        }
        if self.writer.write(updates, &self.book).await == Outcome::Failed {
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }

    /// What differs, conditions first, with as many counts as one pass may write.
    fn updates(&self, verdicts: &Verdicts, fleet: &FleetView, now: Timestamp) -> Vec<Update> {
        let mut updates = Vec::new();
        let since = self.since.get_or_init(Instant::now);
        let settling = since.elapsed() < SETTLE && self.fleet.awaits();
        for (key, verdict) in verdicts.iter() {
            let known = self.book.get(key);
            let previous = known.as_ref().map_or(&[][..], Status::conditions);
            let status = status(key, verdict, fleet, previous, now);
            let difference = match &known {
                Some(known) => difference(known, &status),
                None => Difference::Conditions,
            };
            if settling
                && known
                    .as_ref()
                    .is_some_and(|known| unsettled(known, &status))
            {
                continue;
            }
            if difference != Difference::Nothing {
                updates.push(Update {
                    key: key.clone(),
                    uid: verdict.uid.clone(),
                    status,
                    difference,
                });
            }
        }
        // Stable: objects keep their order within each sort of difference.
        updates.sort_by_key(|it| Reverse(it.difference));
        let conditions = updates.partition_point(|it| it.difference == Difference::Conditions);
        updates.truncate(conditions + COUNTS_AT_ONCE);
        updates
    }
}

/// The time to the second, which is all that a condition keeps (metav1.Time).
fn this_second() -> Timestamp {
    let now = Timestamp::now();
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}

/// Whether a status differs from the known one in nothing but that the gateways are not back yet.
fn unsettled(known: &Status, status: &Status) -> bool {
    let judged = |status: &Status| -> Vec<(String, String, Option<i64>)> {
        let conditions = status.conditions().iter();
        conditions
            .filter(|it| it.type_ != "Programmed" && it.type_ != "Ready")
            .map(|it| (it.type_.clone(), it.reason.clone(), it.observed_generation))
            .collect()
    };
    let programmed = |status: &Status| {
        let mut conditions = status.conditions().iter();
        conditions.any(|it| it.type_ == "Programmed" && it.status == "True")
    };
    programmed(known) && !programmed(status) && judged(known) == judged(status)
}

impl std::fmt::Debug for Reporter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reporter").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
