//! The log: a line of JSON for each event on standard output, many with one write.
//!
//! Guarantees: lines keep their order and are never torn; an error is written when it is said, with all that
//! came before it. Caveats: any other line may wait for 20 ms, and is lost where the process is killed
//! meanwhile. What was decided is on the chain and not here.

use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, fmt};

/// Where lines go.
#[derive(Debug)]
pub struct Log<W>(Arc<Shared<W>>);

/// One event's way into the log.
#[derive(Debug)]
pub struct Line<'a, W: Write> {
    log: &'a Log<W>,
    is_urgent: bool,
}

#[derive(Debug)]
struct Shared<W> {
    /// What waits.
    lines: Mutex<Vec<u8>>,
    /// Told when something waits that nobody has waited with.
    some: Condvar,
    /// Held while it is written to, so that what is taken first is written first.
    out: Mutex<Out<W>>,
}

#[derive(Debug)]
struct Out<W> {
    to: W,
    /// Empty between writes; changes places with what waits.
    spare: Vec<u8>,
}

/// Longest time that a line waits.
const LINGER: Duration = Duration::from_millis(20);
/// So many bytes wait for nobody. Where the reader is slow, whoever says more waits for it.
const MOST: usize = 64 << 10;

/// Sets the log of this process up: JSON on standard output, filtered by `RUST_LOG` or at `info`.
pub fn start() -> io::Result<Log<io::Stdout>> {
    let log = Log::new(io::stdout());
    let writer = log.clone();
    std::thread::Builder::new()
        .name("log-writer".to_owned())
        .spawn(move || writer.run())?;
    tracing_subscriber::registry()
        .with(EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info")))
        .with(
            fmt::layer()
                .json()
                .flatten_event(true)
                .with_current_span(false)
                .with_span_list(false)
                .with_writer(log.clone()),
        )
        .init();
    Ok(log)
}

// === impl Log ===

impl<W: Write> Log<W> {
    fn new(to: W) -> Self {
        let out = Out {
            to,
            spare: Vec::new(),
        };
        Self(Arc::new(Shared {
            lines: Mutex::default(),
            some: Condvar::new(),
            out: Mutex::new(out),
        }))
    }

    /// Writes all that waits.
    pub fn flush(&self) {
        let mut out = lock(&self.0.out);
        let Out { to, spare } = &mut *out;
        std::mem::swap(spare, &mut *lock(&self.0.lines));
        // Nobody is left to be told of a log that cannot be written.
        let _ = to.write_all(spare).and_then(|()| to.flush());
        spare.clear();
    }

    fn say(&self, line: &[u8], is_urgent: bool) {
        let mut lines = lock(&self.0.lines);
        let is_first = lines.is_empty();
        lines.extend_from_slice(line);
        let is_due = is_urgent || lines.len() >= MOST;
        drop(lines);
        if is_due {
            self.flush();
        } else if is_first {
            self.0.some.notify_one();
        }
    }

    /// Writes what has waited, for as long as the process lives.
    fn run(&self) {
        loop {
            let lines = lock(&self.0.lines);
            let some = self.0.some.wait_while(lines, |lines| lines.is_empty());
            drop(some.unwrap_or_else(PoisonError::into_inner));
            std::thread::sleep(LINGER);
            self.flush();
        }
    }
}

impl<W> Clone for Log<W> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<'a, W: Write + 'a> MakeWriter<'a> for Log<W> {
    type Writer = Line<'a, W>;

    fn make_writer(&'a self) -> Self::Writer {
        Line {
            log: self,
            is_urgent: false,
        }
    }

    fn make_writer_for(&'a self, of: &Metadata<'_>) -> Self::Writer {
        Line {
            log: self,
            is_urgent: *of.level() == Level::ERROR,
        }
    }
}

// === impl Line ===

impl<W: Write> Write for Line<'_, W> {
    /// Assumes whole lines, which is what an event is.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.log.say(line, self.is_urgent);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
