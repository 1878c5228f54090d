//! Who listens: places for streams that last, and their end when the process drains.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use prometheus::IntGauge;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// The streams of `subscriptions/listen` of this process.
///
/// Guarantees: no tenant has more than a quarter of the places, so that one tenant cannot take every
/// one. A stream takes a place for each upstream that it is put together of, since each takes a file
/// of the process.
#[derive(Debug)]
pub struct Listeners {
    taken: Mutex<Taken>,
    open: IntGauge,
    stop: CancellationToken,
    times: Times,
    places: usize,
}

/// How long streams last.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// A stream ends by itself after that, and its client begins another.
    pub life: Duration,
    /// How long a client may take nothing while there is something for it.
    pub stall: Duration,
}

/// Places taken; freed on drop.
#[derive(Debug)]
pub struct Seat<'a> {
    listeners: &'a Listeners,
    tenant: &'a str,
    places: usize,
}

#[derive(Debug, Default)]
struct Taken {
    total: usize,
    by_tenant: HashMap<String, usize>,
}

/// Places of a process that may open files enough.
pub const MOST: usize = 1024;
/// The part of the places that one tenant may take.
const PART: usize = 4;

// === impl Listeners ===

impl Listeners {
    /// `open` shows how many there are; of `places` there are at most so many.
    pub fn new(open: IntGauge, times: Times, places: usize) -> Self {
        Self {
            taken: Mutex::default(),
            open,
            stop: CancellationToken::new(),
            times,
            places: places.min(MOST),
        }
    }

    /// Takes a place for each of so many upstreams, one at least.
    pub fn take<'a>(&'a self, tenant: &'a str, upstreams: usize) -> Option<Seat<'a>> {
        let places = upstreams.max(1);
        let mut taken = self.lock();
        let own = taken.by_tenant.get(tenant).copied().unwrap_or(0);
        let most = (self.places / PART).max(1);
        // The first stream of a tenant with many upstreams is let in where all are.
        let is_first = own == 0 && taken.total + places <= self.places;
        if !is_first && (own + places > most || taken.total + places > self.places) {
            return None;
        }
        taken.by_tenant.insert(tenant.to_owned(), own + places);
        taken.total += places;
        self.open.inc();
        Some(Seat {
            listeners: self,
            tenant,
            places,
        })
    }

    /// Ends all streams, and every one that begins later.
    pub fn close(&self) {
        self.stop.cancel();
    }

    /// Whether the process is about to end.
    pub fn is_closed(&self) -> bool {
        self.stop.is_cancelled()
    }

    /// Returns once they are closed.
    pub async fn closed(&self) {
        self.stop.cancelled().await;
    }

    /// Returns once a stream that begins now is old.
    pub async fn grown_old(&self) {
        tokio::time::sleep(self.times.life).await;
    }

    /// Hands a message to a client; false where it is gone or takes nothing.
    pub async fn tell(&self, to: &mpsc::Sender<Bytes>, message: Bytes) -> bool {
        matches!(
            tokio::time::timeout(self.times.stall, to.send(message)).await,
            Ok(Ok(()))
        )
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        let mut taken = self.listeners.lock();
        taken.total -= self.places;
        self.listeners.open.dec();
        if let Some(own) = taken.by_tenant.get_mut(self.tenant) {
            *own -= self.places;
            if *own == 0 {
                taken.by_tenant.remove(self.tenant);
            }
        }
    }
}

#[cfg(test)]
mod tests;
