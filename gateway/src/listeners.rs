//! Who listens: places for streams that last, and their end when the process drains.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prometheus::IntGauge;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// The streams of `subscriptions/listen` of this process.
///
/// Guarantees: no tenant has more than [`PER_TENANT`] of them and all together no more than
/// [`PER_POD`], so that one tenant cannot take every place.
#[derive(Debug)]
pub struct Listeners {
    taken: Mutex<Taken>,
    open: IntGauge,
    stop: CancellationToken,
    times: Times,
}

/// How long streams last.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// A stream ends by itself after that, and its client begins another.
    pub life: Duration,
    /// How long a client may take nothing while there is something for it.
    pub stall: Duration,
}

/// One place taken; freed on drop.
#[derive(Debug)]
pub struct Seat<'a> {
    listeners: &'a Listeners,
    tenant: &'a str,
}

#[derive(Debug, Default)]
struct Taken {
    total: usize,
    by_tenant: HashMap<String, usize>,
}

pub const PER_TENANT: usize = 256;
pub const PER_POD: usize = 1024;

// === impl Listeners ===

impl Listeners {
    /// `open` shows how many there are.
    pub fn new(open: IntGauge, times: Times) -> Self {
        Self {
            taken: Mutex::default(),
            open,
            stop: CancellationToken::new(),
            times,
        }
    }

    pub fn take<'a>(&'a self, tenant: &'a str) -> Option<Seat<'a>> {
        let mut taken = self.lock();
        if taken.total >= PER_POD {
            return None;
        }
        match taken.by_tenant.get_mut(tenant) {
            Some(own) if *own >= PER_TENANT => return None,
            Some(own) => *own += 1,
            None => {
                taken.by_tenant.insert(tenant.to_owned(), 1);
            }
        }
        taken.total += 1;
        self.open.inc();
        Some(Seat {
            listeners: self,
            tenant,
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
    pub async fn tell(&self, to: &mpsc::Sender<String>, message: String) -> bool {
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
        taken.total -= 1;
        self.listeners.open.dec();
        if let Some(own) = taken.by_tenant.get_mut(self.tenant) {
            *own -= 1;
            if *own == 0 {
                taken.by_tenant.remove(self.tenant);
            }
        }
    }
}

#[cfg(test)]
mod tests;
