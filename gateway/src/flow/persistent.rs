//! Work that ends whether or not somebody waits for it.
//!
//! ```text
//! polled by whoever waits ─┬─ done
//!                          └─ nobody waits any more ─ goes on as a task of its own ─ done
//! ```
//! Most work is waited for to its end, and is spared a task and the way between two threads.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;

/// Work that is being waited for. Guarantees: once it is made it runs to its end, as long as the runtime
/// does; the tracker knows of it until then.
pub(super) struct Persistent<T: Send + 'static> {
    /// None: it ended.
    work: Option<Work<T>>,
}

/// The work panicked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("panicked")]
pub(super) struct Panicked;

type Work<T> = Pin<Box<dyn Future<Output = T> + Send>>;

// === impl Persistent ===

impl<T: Send + 'static> Persistent<T> {
    pub(super) fn new(
        tracker: &TaskTracker,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Self {
        Self {
            work: Some(Box::pin(tracker.track_future(work))),
        }
    }
}

impl<T: Send + 'static> Future for Persistent<T> {
    type Output = Result<T, Panicked>;

    /// Assumes that it is not polled again once it is done.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(work) = &mut self.work else {
            return Poll::Ready(Err(Panicked));
        };
        // Whoever waits is not to end with it: neither would it, were this a task.
        let polled = catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context)));
        let done = match polled {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(done)) => Ok(done),
            Err(_) => Err(Panicked),
        };
        self.work = None;
        Poll::Ready(done)
    }
}

impl<T: Send + 'static> Drop for Persistent<T> {
    fn drop(&mut self) {
        let Some(work) = self.work.take() else {
            return;
        };
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(work)),
            Err(error) => tracing::error!(%error, "work that nobody waits for is not ended"),
        }
    }
}

#[cfg(test)]
mod tests;
