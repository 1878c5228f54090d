//! Upstream MCP servers: addresses, the pooled client, one exchange in either era, and their tool
//! contracts.

pub mod address;
mod bridge;
pub mod client;
pub mod contracts;
pub mod era;
mod events;
pub mod exchange;
pub mod listen;
pub mod patience;
pub mod pins;
pub mod polls;
pub mod session;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hangar_ledger::TaskId;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::limit::Places;

/// What a gateway keeps of an upstream over a change of configuration.
#[derive(Debug, Default)]
pub struct Runtime {
    /// Exchanges in flight for callers. Contract fetches are not counted: a caller that uses up
    /// this limit must not make anybody's task unverifiable.
    pub places: Places,
    /// Tasks that are being told to stop right now.
    pub cancels: Cancels,
    pub contracts: contracts::Contracts,
    pub patience: patience::Patience,
    pub pins: pins::Known,
    pub polls: polls::Polls,
    pub resources: Remembered,
    pub eras: era::Eras,
    pub sessions: session::Sessions,
}

/// Whether an upstream announced resources, and when it was asked.
#[derive(Debug, Default)]
pub struct Remembered(Mutex<Option<(Instant, bool)>>);

/// Cancels on their way, each task once: a client that repeats itself makes no connection more. Those of
/// one tenant wait for each other, and for nobody else.
#[derive(Clone, Debug, Default)]
pub struct Cancels(Arc<Mutex<BTreeMap<String, OfTenant>>>);

/// Of the tenants that had any; as many as the configuration has.
#[derive(Debug)]
struct OfTenant {
    tasks: BTreeSet<TaskId>,
    places: Arc<Semaphore>,
}

/// A cancel on its way; makes room on drop.
#[derive(Debug)]
pub struct Cancelling {
    cancels: Cancels,
    tenant: String,
    task: TaskId,
    places: Arc<Semaphore>,
}

/// Why a cancel is not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoPlace {
    /// One is on its way.
    Begun,
    /// Too many wait.
    Full,
}

/// Cancels of one tenant at one upstream at once; each ends within ten seconds.
const MAX_CANCELS: usize = 64;
/// Cancels of one tenant that wait for these.
const MAX_WAITING: usize = 16 << 10;

// === impl Remembered ===

impl Remembered {
    /// What was announced at most `max_age` ago.
    pub fn within(&self, max_age: Duration) -> Option<bool> {
        let remembered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (asked, announced) = (*remembered)?;
        (asked.elapsed() < max_age).then_some(announced)
    }

    pub fn set(&self, asked: Instant, announced: bool) {
        let mut remembered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *remembered = Some((asked, announced));
    }
}

// === impl Cancels ===

impl Cancels {
    /// Takes up the cancel of this task, which is of its owner's tenant.
    pub fn begin(&self, tenant: &str, task: &TaskId) -> Result<Cancelling, NoPlace> {
        let mut tenants = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of = tenants
            .entry(tenant.to_owned())
            .or_insert_with(|| OfTenant {
                tasks: BTreeSet::new(),
                places: Arc::new(Semaphore::new(MAX_CANCELS)),
            });
        if of.tasks.contains(task) {
            return Err(NoPlace::Begun);
        }
        if of.tasks.len() >= MAX_WAITING {
            return Err(NoPlace::Full);
        }
        of.tasks.insert(task.clone());
        Ok(Cancelling {
            cancels: self.clone(),
            tenant: tenant.to_owned(),
            task: task.clone(),
            places: Arc::clone(&of.places),
        })
    }
}

// === impl Cancelling ===

impl Cancelling {
    /// Waits until it may be sent; the place is kept until what this returns is dropped.
    pub async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        self.places.acquire().await.ok()
    }
}

impl Drop for Cancelling {
    fn drop(&mut self) {
        let mut tenants = self
            .cancels
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(of) = tenants.get_mut(&self.tenant) {
            of.tasks.remove(&self.task);
        }
    }
}

#[cfg(test)]
mod tests;
