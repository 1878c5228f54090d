//! Answers as an event stream: what the client asked to be told of, then the reply.
//!
//! An answer stays JSON unless a notification comes before it. Guarantees: the request's work ends
//! with its client, before the first event as well as between two; governance sections, which are
//! detached from it, do not. The status is 200 once the stream began, so that an error travels as
//! the last event.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use hangar_relay::method::Method;
use hangar_relay::notify::Wanted;
use hangar_relay::params::Meta;
use hangar_relay::sse;
use hangar_relay::wire::{Kind, WireError};
use http::{HeaderMap, HeaderName, HeaderValue, header};
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use super::mcp::{CORRELATION, respond};
use super::pass::Ride;
use crate::flow::Answer;

/// A stream on its way to its client.
struct Streaming {
    id: Option<Box<RawValue>>,
    notes: mpsc::Receiver<Bytes>,
    work: AbortOnDropHandle<Answer>,
    ready: VecDeque<Bytes>,
    is_over: bool,
}

/// Notifications that wait for their client.
const DEPTH: usize = 16;
/// Silence after which a comment shows that the stream lives.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
const ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// Whether the client takes an event stream and asked for something that one is needed for, as
/// listening is.
pub(super) fn may(headers: &HeaderMap, method: Method, meta: &Meta<'_>) -> bool {
    if method != Method::Listen && Wanted::of(meta).is_nothing() {
        return false;
    }
    let lists = |value: &HeaderValue| {
        let text = value.to_str().unwrap_or_default();
        text.split(',')
            .filter_map(|one| one.split(';').next())
            .any(|one| one.trim().eq_ignore_ascii_case("text/event-stream"))
    };
    headers.get_all(header::ACCEPT).iter().any(lists)
}

/// Answers as JSON, or as a stream from the first notification on.
pub(super) async fn answer(ride: Ride) -> Response {
    let (to, mut notes) = mpsc::channel(DEPTH);
    let correlation = ride.trail.correlation.clone();
    let id = ride.trail.id.clone();
    let work = AbortOnDropHandle::new(tokio::spawn(ride.answer(to)));
    let Some(first) = notes.recv().await else {
        return respond(ended(work.await, id.as_deref()), &correlation);
    };
    let streaming = Streaming {
        id,
        notes,
        work,
        ready: event(first),
        is_over: false,
    };
    let body = futures::stream::unfold(streaming, async |mut streaming| {
        let piece = streaming.next().await?;
        Some((Ok::<_, Infallible>(piece), streaming))
    });
    let mut response = Response::new(Body::from_stream(body));
    let headers = response.headers_mut();
    let content_type = HeaderValue::from_static("text/event-stream");
    headers.insert(header::CONTENT_TYPE, content_type);
    headers.insert(ACCEL_BUFFERING, HeaderValue::from_static("no"));
    if let Ok(value) = HeaderValue::from_str(&correlation) {
        headers.insert(CORRELATION, value);
    }
    response
}

// === impl Streaming ===

impl Streaming {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(piece) = self.ready.pop_front() {
                return Some(piece);
            }
            if self.is_over {
                return None;
            }
            match tokio::time::timeout(KEEP_ALIVE, self.notes.recv()).await {
                Ok(Some(note)) => self.ready = event(note),
                Ok(None) => {
                    let answer = ended((&mut self.work).await, self.id.as_deref());
                    self.ready = event(answer.body);
                    self.is_over = true;
                }
                Err(_) => return Some(Bytes::from_static(b": still here\n\n")),
            }
        }
    }
}

/// The answer of work that came to an end, whichever it was.
fn ended(work: Result<Answer, tokio::task::JoinError>, id: Option<&RawValue>) -> Answer {
    work.unwrap_or_else(|error| {
        tracing::error!(%error, "a request ended early");
        Answer::refused(id, &WireError::from(Kind::Internal))
    })
}

/// The pieces of an event. A message on one line, the usual case, is not copied.
fn event(message: Bytes) -> VecDeque<Bytes> {
    if message.iter().any(|byte| matches!(byte, b'\n' | b'\r')) {
        // What an envelope was read from is UTF-8.
        let text = std::str::from_utf8(&message).unwrap_or_default();
        return VecDeque::from([sse::encode(text).into()]);
    }
    let (head, end) = (b"event: message\ndata: ", b"\n\n");
    VecDeque::from([Bytes::from_static(head), message, Bytes::from_static(end)])
}

#[cfg(test)]
mod tests;
