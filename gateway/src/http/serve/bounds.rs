//! How many connections there are, for how long they may say nothing, and how they ended.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::TokioTimer;
use hyper_util::server::conn::auto;

use super::streams::Streams;
use crate::args::Edge;
use crate::metrics::Metrics;

/// Bounds of one listener.
#[derive(Clone, Debug)]
pub struct Bounds {
    pub(super) connections: usize,
    /// Time for a client to say which protocol it speaks, again for request line and headers, and
    /// between two requests.
    pub(super) header_timeout: Duration,
    /// Time in which a client must take something of what it is sent.
    pub(super) send_timeout: Duration,
    /// None for the probes' listener.
    pub(super) metrics: Option<Arc<Metrics>>,
}

/// Counts a connection while it is there.
pub(super) struct Counted(Option<Arc<Metrics>>);

/// Why a connection was cut; label `reason`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    /// It did not say what it speaks.
    Silent,
    /// A request or its headers did not come in time, an answer was not taken, or a ping not
    /// answered.
    Timeout,
    /// What came was not HTTP, or more of it than the bounds allow.
    Malformed,
    /// The network, or a client that left in the middle.
    Broken,
}

const PROBE_CONNECTIONS: usize = 256;
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);
/// Room for a URI of 8 KiB in base64 with everything around it; what all connections may keep there
/// is no part of what bodies may take.
const HEADER_BYTES: usize = 32 << 10;
/// Fields of one head.
pub(crate) const HEADER_COUNT: usize = 100;
/// HTTP/2 streams that one connection may have open.
const STREAMS: u32 = 128;
/// Streams that a client may open and give up before they were looked at.
const RESETS: usize = 20;
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(20);
/// Linux: what this process may open, as text.
const LIMITS: &str = "/proc/self/limits";

/// Of the files that a process may open, the part that connections of clients may take: each
/// request may need one towards an upstream, and ledger, probes and operator need theirs.
fn of_files(wanted: usize, limits: &str) -> usize {
    match files(limits) {
        Some(files) => wanted.min((files / 2).max(1)),
        None => wanted,
    }
}

/// Files that this process may open; none where it cannot be told.
fn files(limits: &str) -> Option<usize> {
    let mut lines = limits.lines();
    let values = lines.find_map(|line| line.strip_prefix("Max open files"))?;
    values.split_whitespace().next()?.parse().ok()
}

/// Streams towards upstreams that last, for as many files as there are: an eighth of them.
pub fn streams() -> usize {
    let limits = std::fs::read_to_string(LIMITS).unwrap_or_default();
    files(&limits).map_or(usize::MAX, |files| (files / 8).max(1))
}

// === impl Bounds ===

impl Bounds {
    pub fn clients(edge: &Edge, metrics: &Arc<Metrics>) -> Self {
        let wanted = usize::try_from(edge.max_connections).unwrap_or(usize::MAX);
        let limits = std::fs::read_to_string(LIMITS).unwrap_or_default();
        let connections = of_files(wanted, &limits);
        if connections < wanted {
            tracing::warn!(
                wanted,
                connections,
                "fewer connections than wanted: this process may open too few files"
            );
        }
        for cut in [Cut::Silent, Cut::Timeout, Cut::Malformed, Cut::Broken] {
            metrics.connections_cut.with_label_values(&[cut.reason()]);
        }
        Self {
            connections,
            header_timeout: edge.header_timeout.0,
            send_timeout: edge.send_timeout.0,
            metrics: Some(Arc::clone(metrics)),
        }
    }

    pub fn probes() -> Self {
        Self {
            connections: PROBE_CONNECTIONS,
            header_timeout: PROBE_TIMEOUT,
            send_timeout: PROBE_TIMEOUT,
            metrics: None,
        }
    }

    pub(super) fn counted(&self) -> Counted {
        if let Some(metrics) = &self.metrics {
            metrics.connections.inc();
        }
        Counted(self.metrics.clone())
    }

    /// Without `is_kept` no connection of HTTP/1.1 stays after its answer.
    pub(super) fn builder(&self, streams: Streams, is_kept: bool) -> auto::Builder<Streams> {
        let mut builder = auto::Builder::new(streams);
        builder
            .http1()
            .keep_alive(is_kept)
            .timer(TokioTimer::new())
            .header_read_timeout(self.header_timeout)
            .max_buf_size(HEADER_BYTES)
            .max_headers(HEADER_COUNT);
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS)
            .max_pending_accept_reset_streams(Some(RESETS))
            .max_header_list_size(u32::try_from(HEADER_BYTES).unwrap_or(u32::MAX))
            .keep_alive_interval(Some(PING_INTERVAL))
            .keep_alive_timeout(PING_TIMEOUT);
        builder
    }
}

// === impl Counted ===

impl Counted {
    pub(super) fn cut(&self, cut: Cut) {
        if let Some(metrics) = &self.0 {
            let counter = &metrics.connections_cut;
            counter.with_label_values(&[cut.reason()]).inc();
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if let Some(metrics) = &self.0 {
            metrics.connections.dec();
        }
    }
}

// === impl Cut ===

impl Cut {
    /// Reads it from the error that ended a connection.
    pub(super) fn of(error: &(dyn std::error::Error + 'static)) -> Self {
        let mut cause = Some(error);
        while let Some(error) = cause {
            if let Some(error) = error.downcast_ref::<io::Error>() {
                return match error.kind() {
                    io::ErrorKind::TimedOut => Self::Timeout,
                    _ => Self::Broken,
                };
            }
            if let Some(http) = error.downcast_ref::<hyper::Error>() {
                if http.is_timeout() {
                    return Self::Timeout;
                }
                if http.is_incomplete_message() || http.is_closed() || http.is_canceled() {
                    return Self::Broken;
                }
            }
            cause = error.source();
        }
        Self::Malformed
    }

    fn reason(self) -> &'static str {
        match self {
            Self::Silent => "silent",
            Self::Timeout => "timeout",
            Self::Malformed => "malformed",
            Self::Broken => "broken",
        }
    }
}

#[cfg(test)]
mod tests;
