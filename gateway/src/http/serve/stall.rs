//! A socket whose peer must take what it is sent.
//!
//! Guarantees: a write that makes no progress for a time ends the connection, and so does one that
//! makes too little: a peer that keeps the socket full must take [`PACE`] bytes in each such time,
//! so that an answer which nobody reads, or which is read byte by byte, is not held for ever.
//! Caveats: over HTTP/2 a client that shuts its window, and reads on, is not seen here but by
//! [`streams`](super::streams).

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// A socket with a bound on writes that stand still.
pub(super) struct Moving<S> {
    socket: S,
    pace: Pace,
    /// Runs while a write waits, and since when it does.
    waiting: Option<(Instant, Pin<Box<Sleep>>)>,
    /// When the last write was taken.
    taken: Instant,
}

/// The time that a peer has kept its socket full, less what it has worked off.
struct Pace {
    patience: Duration,
    owed: Duration,
}

/// Bytes that work the whole patience off.
pub(super) const PACE: usize = 1 << 20;

// === impl Pace ===

impl Pace {
    /// How long a write may wait from now on.
    fn left(&self) -> Duration {
        self.patience.saturating_sub(self.owed)
    }

    fn waited(&mut self, time: Duration) {
        self.owed = self.owed.saturating_add(time);
    }

    /// Nothing was to be written, or it was taken at once.
    fn free(&mut self, time: Duration) {
        self.owed = self.owed.saturating_sub(time);
    }

    fn moved(&mut self, bytes: usize) {
        let parts = u32::try_from(bytes.min(PACE)).unwrap_or(u32::MAX);
        let whole = u32::try_from(PACE).unwrap_or(u32::MAX);
        self.free(self.patience.saturating_mul(parts) / whole);
    }
}

// === impl Moving ===

impl<S> Moving<S> {
    pub(super) fn new(socket: S, patience: Duration) -> Self {
        Self {
            socket,
            pace: Pace {
                patience,
                owed: Duration::ZERO,
            },
            waiting: None,
            taken: Instant::now(),
        }
    }

    fn judge<T>(
        &mut self,
        written: Poll<io::Result<T>>,
        bytes: impl FnOnce(&T) -> usize,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if let Poll::Ready(done) = written {
            if let Ok(written) = &done {
                self.moved(bytes(written));
            }
            return Poll::Ready(done);
        }
        let (_, waiting) = self.waiting.get_or_insert_with(|| {
            self.pace.free(self.taken.elapsed());
            let left = self.pace.left();
            (Instant::now(), Box::pin(tokio::time::sleep(left)))
        });
        match waiting.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }

    fn moved(&mut self, bytes: usize) {
        if let Some((since, _)) = self.waiting.take() {
            self.pace.waited(since.elapsed());
        } else if self.pace.owed.is_zero() {
            return;
        } else {
            self.pace.free(self.taken.elapsed());
        }
        self.pace.moved(bytes);
        self.taken = Instant::now();
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Moving<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Moving<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write(context, bytes);
        self.judge(written, |bytes| *bytes, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write_vectored(context, pieces);
        self.judge(written, |bytes| *bytes, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.socket).poll_flush(context);
        self.judge(flushed, |()| 0, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests;
