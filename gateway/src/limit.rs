//! Request rate (GCRA, one atomic) and concurrency. Both refuse at once; nothing waits.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Requests per second with a burst, after the generic cell rate algorithm (ITU-T I.371).
#[derive(Debug)]
pub struct Bucket {
    /// Nanoseconds that one request costs.
    interval: u64,
    /// Nanoseconds that may be used ahead of time.
    tolerance: u64,
    start: Instant,
    /// Theoretical arrival time of the next request, in nanoseconds since `start`.
    next: AtomicU64,
}

/// Counts what is in flight against a limit that a new configuration may change.
#[derive(Debug)]
pub struct Permits {
    limit: AtomicUsize,
    used: AtomicUsize,
}

/// One place taken; freed on drop.
#[derive(Debug)]
pub struct Permit<'a>(&'a Permits);

const SECOND: u64 = 1_000_000_000;

// === impl Bucket ===

impl Bucket {
    /// Zero requests per second is read as one: a policy closes a tenant with `admission`.
    pub fn new(requests_per_second: u32, burst: u32) -> Self {
        let interval = SECOND / u64::from(requests_per_second.max(1));
        Self {
            interval,
            tolerance: interval * u64::from(burst.max(1) - 1),
            start: Instant::now(),
            next: AtomicU64::new(0),
        }
    }

    /// Takes one request at `now`, or says how long to wait.
    pub fn take(&self, now: Instant) -> Result<(), Duration> {
        let now =
            u64::try_from(now.saturating_duration_since(self.start).as_nanos()).unwrap_or(u64::MAX);
        let mut next = self.next.load(Ordering::Relaxed);
        loop {
            let arrival = next.max(now);
            let ahead = arrival - now;
            if ahead > self.tolerance {
                return Err(Duration::from_nanos(ahead - self.tolerance));
            }
            let after = arrival.saturating_add(self.interval);
            match self
                .next
                .compare_exchange_weak(next, after, Ordering::Relaxed, Ordering::Relaxed)
            {
                Ok(_) => return Ok(()),
                Err(seen) => next = seen,
            }
        }
    }

    pub fn same_limits(&self, other: &Self) -> bool {
        self.interval == other.interval && self.tolerance == other.tolerance
    }
}

impl Default for Bucket {
    fn default() -> Self {
        Self::new(1, 1)
    }
}

// === impl Permits ===

impl Permits {
    pub fn set_limit(&self, limit: usize) {
        self.limit.store(limit, Ordering::Relaxed);
    }

    pub fn take(&self) -> Option<Permit<'_>> {
        let before = self.used.fetch_add(1, Ordering::Relaxed);
        let permit = Permit(self);
        (before < self.limit.load(Ordering::Relaxed)).then_some(permit)
    }
}

impl Default for Permits {
    fn default() -> Self {
        Self {
            limit: AtomicUsize::new(usize::MAX),
            used: AtomicUsize::new(0),
        }
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.0.used.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
