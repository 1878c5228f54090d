//! Upstreams that asked to be polled later.
//!
//! Guarantees: until then the upstream is not polled for the tenant whose poll it refused, and no
//! other tenant is worse off for that.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Until when an upstream is left alone, by tenant; as many as the configuration has.
#[derive(Debug, Default)]
pub struct Patience(Mutex<HashMap<String, Instant>>);

/// However long an upstream asks for, it is asked again after so long; its clients are told what it said.
const MOST: Duration = Duration::from_mins(1);

// === impl Patience ===

impl Patience {
    /// Seconds that are left, rounded up; none: it may be asked.
    pub fn left(&self, tenant: &str, now: Instant) -> Option<u64> {
        let mut until = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let left = until.get(tenant)?.saturating_duration_since(now);
        if left.is_zero() {
            until.remove(tenant);
            return None;
        }
        Some(left.as_secs() + u64::from(left.subsec_nanos() > 0))
    }

    /// The upstream refused a poll and asked for so many seconds.
    pub fn ask_for(&self, tenant: &str, seconds: u64, now: Instant) {
        let Some(until) = now.checked_add(Duration::from_secs(seconds).min(MOST)) else {
            return;
        };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(tenant.to_owned(), until);
    }
}

#[cfg(test)]
mod tests;
