//! The gateways: who is Ready, who is subscribed, and what each acknowledged.
//!
//! ```text
//! subscribe --> waiting --answered--> between requests --(10 s)--> gone
//!                  | connection lost                ^ subscribe: waiting again
//!                  v
//!                 gone      (a pod that the cluster calls Ready counts in each state)
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hangar_operator_core::{Fleet as FleetView, PodView};
use hangar_wire::{Held, Pod, Rejection};
use tokio::sync::watch;

use crate::metrics::GatewayCounts;
use crate::publish::ObjectDigests;

/// Shared record of all gateway pods.
#[derive(Debug, Default)]
pub struct Fleet {
    pods: Mutex<Pods>,
    /// Moves at each change that can matter to a condition.
    changes: watch::Sender<u64>,
}

/// What a pod says of itself as it subscribes.
#[derive(Clone, Debug, Default)]
pub struct Acknowledgement {
    pub held: Option<Held>,
    /// Of the configuration held; empty for one that this process does not know.
    pub digests: ObjectDigests,
    pub rejected: Vec<Rejection>,
}

/// A subscription that is being served. Dropped before [`Waiting::answered`]: the connection was
/// lost and the pod no longer counts as subscribed.
#[derive(Debug)]
pub struct Waiting {
    fleet: Arc<Fleet>,
    pod: Pod,
    number: u64,
}

/// What the cluster says of a gateway pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    Ready,
    NotReady,
}

#[derive(Debug, Default)]
struct Pods {
    subscribed: BTreeMap<Pod, Member>,
    /// Of the gateway label set; stays empty without a cluster.
    listed: BTreeMap<Pod, Readiness>,
    last_number: u64,
}

#[derive(Debug)]
struct Member {
    acknowledged: Acknowledgement,
    phase: Phase,
}

#[derive(Debug)]
enum Phase {
    /// The subscription with this number is held.
    Waiting(u64),
    /// Answered at this instant; the next request is due.
    Between(Instant),
}

/// How long after an answer a pod still counts as subscribed.
pub const GRACE: Duration = Duration::from_secs(10);

// === impl Fleet ===

impl Fleet {
    pub fn new() -> Arc<Self> {
        Arc::new(Self::default())
    }

    /// Reports changes; the number itself says nothing.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Records an acknowledgement and counts the pod as subscribed while the result lives.
    /// A later subscription of the same pod takes the place of this one.
    ///
    /// The flag says whether a pod that held a configuration now holds another one.
    pub fn subscribe(self: &Arc<Self>, pod: &Pod, said: Acknowledgement) -> (Waiting, bool) {
        let mut pods = self.lock();
        pods.last_number += 1;
        let number = pods.last_number;
        let digest = said.held.map(|held| held.digest);
        let member = Member {
            acknowledged: said,
            phase: Phase::Waiting(number),
        };
        let before = pods.subscribed.insert(pod.clone(), member);
        drop(pods);
        let before = before.and_then(|it| it.acknowledged.held);
        self.changed();
        let waiting = Waiting {
            fleet: Arc::clone(self),
            pod: pod.clone(),
            number,
        };
        let moved = before.is_some_and(|held| Some(held.digest) != digest);
        (waiting, moved)
    }

    /// Takes the pods of the gateway label set as the cluster lists them.
    pub fn list(&self, listed: BTreeMap<Pod, Readiness>) {
        self.edit_listed(|pods| *pods = listed);
    }

    /// Takes one pod of the gateway label set.
    pub fn set_listed(&self, pod: Pod, readiness: Readiness) {
        self.edit_listed(|pods| {
            pods.insert(pod, readiness);
        });
    }

    /// Forgets a pod that the cluster deleted, its subscription included.
    pub fn remove(&self, pod: &Pod) {
        self.lock().subscribed.remove(pod);
        self.edit_listed(|pods| {
            pods.remove(pod);
        });
    }

    /// Whether the cluster lists this pod in the gateway label set.
    pub fn lists(&self, pod: &Pod) -> bool {
        self.lock().listed.contains_key(pod)
    }

    /// Forgets pods that were answered and did not come back in time.
    pub fn expire(&self, now: Instant) {
        let mut pods = self.lock();
        let before = pods.subscribed.len();
        pods.subscribed.retain(|_, member| match member.phase {
            Phase::Waiting(_) => true,
            Phase::Between(since) => now.saturating_duration_since(since) <= GRACE,
        });
        let expired = before != pods.subscribed.len();
        drop(pods);
        if expired {
            self.changed();
        }
    }

    /// Every pod that counts, as the core wants it.
    pub fn view(&self) -> FleetView {
        let pods = self.lock();
        let counted = pods
            .counted()
            .into_iter()
            .map(|pod| (pod.clone(), pods.pod_view(pod)))
            .collect();
        FleetView { pods: counted }
    }

    /// Whether a pod that counts has not been heard of yet, or no pod is known at all.
    pub fn awaits(&self) -> bool {
        let pods = self.lock();
        let counted = pods.counted();
        counted.is_empty()
            || counted
                .iter()
                .any(|pod| !pods.subscribed.contains_key(*pod))
    }

    /// Counts for the metrics; `current` is the configuration in force.
    pub fn counts(&self, current: Option<Held>) -> GatewayCounts {
        let pods = self.lock();
        let members = pods.subscribed.values();
        let programmed = members
            .filter_map(|member| member.acknowledged.held)
            .filter(|held| current.is_some_and(|it| it.digest == held.digest));
        GatewayCounts {
            ready: pods.counted().len(),
            subscribed: pods.subscribed.len(),
            programmed: programmed.count(),
        }
    }

    fn edit_listed(&self, edit: impl FnOnce(&mut BTreeMap<Pod, Readiness>)) {
        edit(&mut self.lock().listed);
        self.changed();
    }

    fn lock(&self) -> MutexGuard<'_, Pods> {
        self.pods.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changed(&self) {
        self.changes
            .send_modify(|number| *number = number.wrapping_add(1));
    }

    fn leave(&self, pod: &Pod, number: u64, answered: Option<Instant>) {
        let mut pods = self.lock();
        let Some(member) = pods.subscribed.get_mut(pod) else {
            return;
        };
        match (&member.phase, answered) {
            (Phase::Waiting(current), Some(now)) if *current == number => {
                member.phase = Phase::Between(now);
            }
            (Phase::Waiting(current), None) if *current == number => {
                pods.subscribed.remove(pod);
                drop(pods);
                self.changed();
            }
            // A newer subscription of this pod took the place.
            (Phase::Waiting(_) | Phase::Between(_), _) => {}
        }
    }
}

// === impl Pods ===

impl Pods {
    fn counted(&self) -> BTreeSet<&Pod> {
        let ready = self
            .listed
            .iter()
            .filter(|(_, readiness)| **readiness == Readiness::Ready)
            .map(|(pod, _)| pod);
        ready.chain(self.subscribed.keys()).collect()
    }

    fn pod_view(&self, pod: &Pod) -> PodView {
        let Some(member) = self.subscribed.get(pod) else {
            return PodView::default();
        };
        let rejected = member.acknowledged.rejected.iter();
        PodView {
            acknowledged: Arc::clone(&member.acknowledged.digests),
            rejected: rejected.map(|it| (it.object.clone(), it.clone())).collect(),
        }
    }
}

// === impl Waiting ===

impl Waiting {
    /// The answer is on its way: the pod stays subscribed for [`GRACE`] until its next request.
    pub fn answered(self) {
        self.fleet
            .leave(&self.pod, self.number, Some(Instant::now()));
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.fleet.leave(&self.pod, self.number, None);
    }
}

#[cfg(test)]
mod tests;
