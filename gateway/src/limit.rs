//! Request rate (GCRA, one atomic) and places at an upstream. Both refuse at once; nothing waits.

pub mod held;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
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

/// What is in flight at one upstream, against limits that a new configuration may change.
///
/// Guarantees: where several tenants share an upstream none of them takes more than half of it, so
/// that one alone starves nobody.
#[derive(Debug)]
pub struct Places {
    limit: AtomicUsize,
    tenants: AtomicUsize,
    taken: Mutex<Taken>,
}

/// One place taken; freed on drop.
#[derive(Debug)]
pub struct Place<'a> {
    places: &'a Places,
    tenant: &'a str,
}

#[derive(Debug, Default)]
struct Taken {
    total: usize,
    by_tenant: HashMap<String, usize>,
}

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

// === impl Places ===

impl Places {
    /// Requests in flight at once.
    pub fn set_limit(&self, limit: usize) {
        self.limit.store(limit, Ordering::Relaxed);
    }

    /// Tenants that may use the upstream.
    pub fn set_tenants(&self, tenants: usize) {
        self.tenants.store(tenants, Ordering::Relaxed);
    }

    pub fn take<'a>(&'a self, tenant: &'a str) -> Option<Place<'a>> {
        let limit = self.limit.load(Ordering::Relaxed);
        let share = match self.tenants.load(Ordering::Relaxed) {
            0 | 1 => limit,
            _ => (limit / 2).max(1),
        };
        let mut taken = self.lock();
        if taken.total >= limit {
            return None;
        }
        match taken.by_tenant.get_mut(tenant) {
            Some(own) if *own >= share => return None,
            Some(own) => *own += 1,
            None => {
                taken.by_tenant.insert(tenant.to_owned(), 1);
            }
        }
        taken.total += 1;
        Some(Place {
            places: self,
            tenant,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Places {
    fn default() -> Self {
        Self {
            limit: AtomicUsize::new(usize::MAX),
            tenants: AtomicUsize::new(1),
            taken: Mutex::default(),
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut taken = self.places.lock();
        taken.total -= 1;
        // The entry stays: a tenant that calls once calls again, and names are bounded by the
        // configuration.
        if let Some(own) = taken.by_tenant.get_mut(self.tenant) {
            *own -= 1;
        }
    }
}

#[cfg(test)]
mod tests;
