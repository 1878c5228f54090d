//! Tasks that were found to go on, so that a poll before its time need not be passed on.
//!
//! Guarantees: what was asked before a task was forgotten is not known afterwards, however late the
//! answer came; the tasks of one tenant take no room from those of another.
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
    last: HashMap<TaskId, Last>,
    swept: Option<Instant>,
    /// When a task was last forgotten that there was no room to remember that of: it may be any.
    forgotten: Option<Instant>,
}

/// The last that is known of a task.
#[derive(Clone, Copy, Debug)]
enum Last {
    /// It was asked about then and went on, which is news for so long.
    WentOn { sent: Instant, interval: Duration },
    /// Something happened to it then. No poll that was sent before is news for longer than this is
    /// kept.
    Forgotten { at: Instant },
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
        let last = self.0.get(&owner.tenant)?.last.get(task)?;
        match last {
            Last::WentOn { sent, .. } if !last.is_over(now) => {
                Some(now.saturating_duration_since(*sent))
            }
            Last::WentOn { .. } | Last::Forgotten { .. } => None,
        }
    }

    /// Takes note that a task went on, as a poll found that was sent then. An interval of over a
    /// minute is cut to that: an upstream's slip of the pen must not hide the end of a task.
    pub(super) fn went_on(
        &mut self,
        owner: &Owner,
        task: &TaskId,
        sent: Instant,
        interval: Duration,
        now: Instant,
    ) {
        let interval = interval.min(MAX_INTERVAL);
        let went_on = Last::WentOn { sent, interval };
        self.with(owner, |tasks| {
            if tasks.forgotten.is_none_or(|at| at < sent) {
                tasks.note(task, went_on, now);
            }
        });
    }

    /// Forgets a task, and with it what polls will find that were sent before.
    pub(super) fn forget(&mut self, owner: &Owner, task: &TaskId, now: Instant) {
        self.with(owner, |tasks| {
            if !tasks.note(task, Last::Forgotten { at: now }, now) {
                tasks.forgotten = Some(now);
            }
        });
    }

    /// Drops what is over, so that a tenant that is gone leaves nothing behind.
    pub(super) fn sweep(&mut self, now: Instant) {
        self.0.retain(|_, tasks| {
            tasks.sweep(now);
            !tasks.last.is_empty() || tasks.forgotten.is_some()
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
    /// Keeps this of a task, unless it is older than what is known; false where there is no room.
    fn note(&mut self, task: &TaskId, news: Last, now: Instant) -> bool {
        if let Some(last) = self.last.get_mut(task) {
            let is_news = match news {
                Last::WentOn { sent, .. } => last.at() < sent,
                Last::Forgotten { .. } => true,
            };
            if is_news {
                *last = news;
            }
            return true;
        }
        let is_kept = !news.is_over(now) && self.has_room(now);
        if is_kept {
            self.last.insert(task.clone(), news);
        }
        is_kept
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
        self.last.retain(|_, last| !last.is_over(now));
        let is_over = |at: &mut Instant| Last::Forgotten { at: *at }.is_over(now);
        self.forgotten.take_if(is_over);
    }
}

// === impl Last ===

impl Last {
    fn at(&self) -> Instant {
        match self {
            Self::WentOn { sent: at, .. } | Self::Forgotten { at } => *at,
        }
    }

    fn is_over(&self, now: Instant) -> bool {
        let lasts = match self {
            Self::WentOn { interval, .. } => *interval,
            Self::Forgotten { .. } => MAX_INTERVAL,
        };
        now.saturating_duration_since(self.at()) >= lasts
    }
}

#[cfg(test)]
mod tests;
