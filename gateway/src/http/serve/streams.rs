//! The streams of one HTTP/2 connection: how long an answer may wait for its client, and how long
//! the connection may be without any.
//!
//! Guarantees: a piece of an answer that its client does not take within [`allowed`] resets its
//! stream, and what was held for it is given back, whether the client shut its window from the start
//! or in the middle; other streams of the connection go on.
//! Caveats: a piece of at most [`SMALL`] bytes may wait in the connection until that ends. Over
//! HTTP/1.1 there is one answer at a time, and the socket alone is watched.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep};

use super::stall::PACE;
use crate::metrics::Metrics;

/// Runs the streams of one connection; cheap to clone.
#[derive(Clone)]
pub(super) struct Streams(Arc<Inner>);

/// The body of an answer, which tells its stream what it waits for.
pub(super) struct Delivered<B> {
    body: B,
    /// The end of a piece, kept back until its client has room for all before.
    last: Option<Bytes>,
}

struct Inner {
    patience: Duration,
    begun: Instant,
    open: AtomicUsize,
    /// When the last stream ended, in milliseconds since the beginning.
    ended: AtomicU64,
    metrics: Option<Arc<Metrics>>,
}

/// What this stream's client was handed last.
#[derive(Clone, Copy, Default)]
struct Handed {
    pieces: usize,
    /// Bytes of the last piece while it waits; 0: none waits.
    waiting: usize,
}

/// A stream that is there; counted until it is dropped.
struct Open(Streams);

/// A piece up to so large is sent in one.
const SMALL: usize = 1 << 10;

tokio::task_local! {
    static HANDED: Cell<Handed>;
}

/// Longest time in which a client takes a piece of so many bytes: the patience once, and once more
/// for each [`PACE`] of it.
fn allowed(patience: Duration, bytes: usize) -> Duration {
    let times = u32::try_from(1 + bytes / PACE).unwrap_or(u32::MAX);
    patience.saturating_mul(times)
}

// === impl Streams ===

impl Streams {
    pub(super) fn new(patience: Duration, metrics: Option<Arc<Metrics>>) -> Self {
        Self(Arc::new(Inner {
            patience,
            begun: Instant::now(),
            open: AtomicUsize::new(0),
            ended: AtomicU64::new(0),
            metrics,
        }))
    }

    /// Returns once there was no stream for so long, counted from `from` on.
    pub(super) async fn idle(&self, from: Instant, time: Duration) {
        let mut due = from + time;
        loop {
            tokio::time::sleep_until(due).await;
            let now = Instant::now();
            due = if self.0.open.load(Ordering::Acquire) > 0 {
                now + time
            } else {
                let ended = Duration::from_millis(self.0.ended.load(Ordering::Acquire));
                (self.0.begun + ended).max(from) + time
            };
            if due <= now {
                return;
            }
        }
    }

    /// Runs a stream to its end, or until its client takes nothing any more.
    async fn run(self, stream: impl Future<Output = ()>) {
        let open = Open::new(self);
        let patience = open.0.0.patience;
        let mut stream = pin!(stream);
        let mut timer = pin!(None::<Sleep>);
        let mut limited = 0;
        let is_over = poll_fn(|context| {
            if stream.as_mut().poll(context).is_ready() {
                return Poll::Ready(true);
            }
            let Handed { pieces, waiting } = HANDED.with(Cell::get);
            if waiting == 0 {
                timer.set(None);
            } else if limited != pieces {
                limited = pieces;
                let allowed = allowed(patience, waiting);
                timer.set(Some(tokio::time::sleep(allowed)));
            }
            match timer.as_mut().as_pin_mut() {
                Some(timer) => timer.poll(context).map(|()| false),
                None => Poll::Pending,
            }
        });
        let is_over = is_over.await;
        if !is_over && let Some(metrics) = &open.0.0.metrics {
            metrics.answers_dropped.inc();
        }
    }
}

impl<F> hyper::rt::Executor<F> for Streams
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, stream: F) {
        let running = self.clone().run(stream);
        tokio::spawn(HANDED.scope(Cell::default(), running));
    }
}

// === impl Open ===

impl Open {
    fn new(streams: Streams) -> Self {
        streams.0.open.fetch_add(1, Ordering::AcqRel);
        Self(streams)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let inner = &*self.0.0;
        let ended = u64::try_from(inner.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        inner.ended.store(ended, Ordering::Release);
        inner.open.fetch_sub(1, Ordering::AcqRel);
    }
}

// === impl Delivered ===

impl<B> Delivered<B> {
    pub(super) fn new(body: B) -> Self {
        Self { body, last: None }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Delivered<B> {
    type Data = Bytes;
    type Error = B::Error;

    /// That a piece is asked for means that the one before has left, or all of it that its client
    /// has room for. What is left of a large one is kept back, so that its stream ends only when
    /// the client had room for all of it.
    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        // Without: no stream of HTTP/2.
        let Ok(handed) = HANDED.try_with(Cell::get) else {
            return Pin::new(&mut self.body).poll_frame(context);
        };
        let frame = match self.last.take() {
            Some(last) => Poll::Ready(Some(Ok(Frame::data(last)))),
            None => Pin::new(&mut self.body).poll_frame(context),
        };
        let mut now = Handed {
            waiting: 0,
            ..handed
        };
        let frame = frame.map_ok(|frame| match frame.into_data() {
            Ok(mut data) => {
                if data.len() > SMALL {
                    self.last = Some(data.split_off(data.len() - 1));
                }
                now.pieces = now.pieces.wrapping_add(1);
                now.waiting = data.len();
                Frame::data(data)
            }
            Err(frame) => frame,
        });
        HANDED.with(|handed| handed.set(now));
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.last.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let rest = self.last.as_ref().map_or(0, |last| last.len() as u64);
        let mut hint = self.body.size_hint();
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper + rest);
        }
        hint.set_lower(hint.lower() + rest);
        hint
    }
}

#[cfg(test)]
mod tests;
