//! The threads that connections are served on, one a core, each with a runtime of its own.
//!
//! ```text
//! accept (main runtime) ── the thread with the fewest connections ── request ── upstream, from a pool of
//!                                                                               the same thread
//! ```
//! Guarantees: what a connection starts stays on its thread, so that no step of a request wakes another one.
//! Caveats: a connection never moves, so that all streams of one HTTP/2 connection share a core.

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

use tokio::runtime::{Builder, Handle};
use tokio_util::sync::CancellationToken;

/// The threads. They end when this is dropped, and with them what runs there.
#[derive(Debug)]
pub struct Workers {
    each: Vec<Worker>,
    stop: CancellationToken,
}

#[derive(Debug)]
struct Worker {
    runtime: Handle,
    /// Futures that run there.
    load: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

/// Counts a future while it is there.
struct Loaded(Arc<AtomicUsize>);

/// Threads at most.
const MOST: usize = 64;

thread_local! {
    /// Place of this thread; 0: none of these.
    static PLACE: Cell<usize> = const { Cell::new(0) };
}

/// The number of a place that this thread has for its own: 0 for all threads but the workers'.
pub fn place() -> usize {
    PLACE.with(Cell::get)
}

/// Places that there can be in this process.
pub fn places() -> usize {
    count() + 1
}

/// Threads of this machine, or of the part of it that this process may use.
fn count() -> usize {
    std::thread::available_parallelism().map_or(1, |count| count.get().min(MOST))
}

// === impl Workers ===

impl Workers {
    /// A thread for each core.
    pub fn start() -> io::Result<Self> {
        let stop = CancellationToken::new();
        let each = (1..places()).map(|place| Worker::start(place, &stop));
        Ok(Self {
            each: each.collect::<io::Result<_>>()?,
            stop,
        })
    }

    /// None: everything runs where it is started.
    pub fn none() -> Self {
        Self {
            each: Vec::new(),
            stop: CancellationToken::new(),
        }
    }

    /// Runs a future on the thread that has the fewest.
    pub fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        let idlest = self.each.iter();
        let idlest = idlest.min_by_key(|worker| worker.load.load(Ordering::Relaxed));
        let Some(worker) = idlest else {
            tokio::spawn(future);
            return;
        };
        worker.load.fetch_add(1, Ordering::Relaxed);
        let loaded = Loaded(Arc::clone(&worker.load));
        worker.runtime.spawn(async move {
            let _loaded = loaded;
            future.await;
        });
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.stop.cancel();
        for worker in &mut self.each {
            if let Some(thread) = worker.thread.take()
                && thread.join().is_err()
            {
                tracing::error!("a worker thread failed");
            }
        }
    }
}

// === impl Worker ===

impl Worker {
    fn start(place: usize, stop: &CancellationToken) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (handle, stop) = (runtime.handle().clone(), stop.clone());
        let thread = std::thread::Builder::new()
            .name(format!("worker-{place}"))
            .spawn(move || {
                PLACE.with(|own| own.set(place));
                runtime.block_on(stop.cancelled());
                runtime.shutdown_background();
            })?;
        Ok(Self {
            runtime: handle,
            load: Arc::default(),
            thread: Some(thread),
        })
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
