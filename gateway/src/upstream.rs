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

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hangar_ledger::TaskId;

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

/// Cancels on their way, each task once, and only so many: a client that repeats itself makes no
/// connection more, and one tenant takes half of the places at most.
#[derive(Clone, Debug, Default)]
pub struct Cancels(Arc<Mutex<BTreeMap<TaskId, String>>>);

/// A cancel on its way; makes room on drop.
#[derive(Debug)]
pub struct Cancelling {
    cancels: Cancels,
    task: TaskId,
}

/// Why a cancel is not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoPlace {
    /// One is on its way.
    Begun,
    /// Too many are.
    Full,
}

/// Cancels of one upstream at once; each ends within ten seconds.
const MAX_CANCELS: usize = 256;

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
    /// Takes a place for this task, of those of its owner's tenant.
    pub fn begin(&self, tenant: &str, task: &TaskId) -> Result<Cancelling, NoPlace> {
        let mut tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if tasks.contains_key(task) {
            return Err(NoPlace::Begun);
        }
        let own = tasks.values().filter(|taken| *taken == tenant).count();
        if own >= MAX_CANCELS / 2 || tasks.len() >= MAX_CANCELS {
            return Err(NoPlace::Full);
        }
        tasks.insert(task.clone(), tenant.to_owned());
        Ok(Cancelling {
            cancels: self.clone(),
            task: task.clone(),
        })
    }
}

impl Drop for Cancelling {
    fn drop(&mut self) {
        let tasks = self.cancels.0.lock();
        tasks
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&self.task);
    }
}

#[cfg(test)]
mod tests;
