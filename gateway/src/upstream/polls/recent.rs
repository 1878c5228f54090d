//! Tasks that were found to go on, so that a poll before its time need not be passed on.
//!
//! Guarantees: the tasks of one tenant take no room from those of another.
//! Caveats: where a tenant has no room left its polls are passed on.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use hangar_ledger::{Owner, TaskId, TenantRef};

/// By the tenant that owns the tasks.
#[derive(Debug, Default)]
pub(super) struct Recent(HashMap<Option<TenantRef>, Tasks>);

/// What is known of one tenant's tasks.
#[derive(Debug, Default)]
struct Tasks {
    last: HashMap<TaskId, WentOn>,
    swept: Option<Instant>,
}

/// When a task was asked about that went on, and for how long that is news.
#[derive(Clone, Copy, Debug)]
struct WentOn {
    asked: Instant,
    interval: Duration,
}

/// The longest that an upstream's poll interval is kept to.
const MAX_INTERVAL: Duration = Duration::from_mins(1);
/// Tasks of one tenant.
const MAX_TASKS: usize = 1024;
/// Between two looks for what is over, where a tenant has no room left.
const SWEEP: Duration = Duration::from_secs(1);

// === impl Recent ===

impl Recent {
    /// How long ago the task was found to go on, while that is news.
    pub(super) fn since(&self, owner: &Owner, task: &TaskId, now: Instant) -> Option<Duration> {
        let went_on = self.0.get(&owner.tenant)?.last.get(task)?;
        (!went_on.is_over(now)).then(|| now.saturating_duration_since(went_on.asked))
    }

    /// Takes note that a task went on when it was asked about. An interval of over a minute is cut
    /// to that: an upstream's slip of the pen must not hide the end of a task.
    pub(super) fn went_on(
        &mut self,
        owner: &Owner,
        task: &TaskId,
        asked: Instant,
        interval: Duration,
        now: Instant,
    ) {
        let interval = interval.min(MAX_INTERVAL);
        let went_on = WentOn { asked, interval };
        self.with(owner, |tasks| tasks.note(task, went_on, now));
    }

    pub(super) fn forget(&mut self, owner: &Owner, task: &TaskId) {
        if let Some(tasks) = self.0.get_mut(&owner.tenant) {
            tasks.last.remove(task);
        }
    }

    /// Drops what is over, so that a tenant that is gone leaves nothing behind.
    pub(super) fn sweep(&mut self, now: Instant) {
        self.0.retain(|_, tasks| {
            tasks.sweep(now);
            !tasks.last.is_empty()
        });
    }

    /// The name of a tenant is copied for its first task only.
    fn with(&mut self, owner: &Owner, work: impl FnOnce(&mut Tasks)) {
        if let Some(tasks) = self.0.get_mut(&owner.tenant) {
            work(tasks);
        } else {
            work(self.0.entry(owner.tenant.clone()).or_default());
        }
    }
}

// === impl Tasks ===

impl Tasks {
    fn note(&mut self, task: &TaskId, went_on: WentOn, now: Instant) {
        if let Some(last) = self.last.get_mut(task) {
            *last = went_on;
        } else if !went_on.is_over(now) && self.has_room(now) {
            self.last.insert(task.clone(), went_on);
        }
    }

    /// Whether another task may be known.
    fn has_room(&mut self, now: Instant) -> bool {
        if self.last.len() < MAX_TASKS {
            return true;
        }
        let is_due = |swept| now.saturating_duration_since(swept) >= SWEEP;
        if self.swept.is_none_or(is_due) {
            self.sweep(now);
        }
        self.last.len() < MAX_TASKS
    }

    fn sweep(&mut self, now: Instant) {
        self.swept = Some(now);
        self.last.retain(|_, went_on| !went_on.is_over(now));
    }
}

// === impl WentOn ===

impl WentOn {
    fn is_over(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.asked) >= self.interval
    }
}

#[cfg(test)]
mod tests;
