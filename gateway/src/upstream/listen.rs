//! One subscription at an upstream: a stream of messages that both sides may end.
//!
//! Guarantees: bounded in the time until its acknowledgement, in the bytes of one message and in the
//! bytes that are no message; dropping it closes the upstream's stream.
//! Caveats: the life of the stream and the pace of its messages are for the caller to bound.

use bytes::{Buf as _, Bytes};
use hangar_relay::listen::{self, Filter, Told};
use hangar_relay::sse;
use http_body_util::BodyExt as _;
use hyper::body::Incoming as Body;
use serde_json::value::RawValue;

use super::exchange::{self, Exchange, Failure, MAX_JUNK_BYTES, is_stream, unreadable};

/// A subscription that the upstream acknowledged.
#[derive(Debug)]
pub struct Subscription {
    /// What the upstream said that it grants.
    pub granted: Filter,
    messages: Messages,
}

/// What became of a request to listen.
#[derive(Debug)]
pub enum Opened {
    Granted(Box<Subscription>),
    /// The upstream answered with this error object.
    Refused {
        code: i64,
        error: Box<RawValue>,
    },
}

#[derive(Debug)]
struct Messages {
    id: Box<RawValue>,
    body: Body,
    parser: sse::Parser,
    chunk: Bytes,
}

/// Asks to listen, and waits for the acknowledgement.
pub async fn open(exchange: Exchange<'_>) -> Result<Opened, Failure> {
    let deadline = exchange.deadline;
    tokio::time::timeout_at(deadline, open_once(exchange))
        .await
        .unwrap_or(Err(Failure::Timeout))
}

async fn open_once(exchange: Exchange<'_>) -> Result<Opened, Failure> {
    let (id, most) = (
        exchange.id.to_owned(),
        exchange.upstream.object.limits.max_response_bytes,
    );
    let response = exchange::open(exchange).await?;
    let status = response.status();
    if !is_stream(&response) {
        let message = exchange::read_reply(response, &id, most).await?;
        return first(&message, &id);
    }
    let mut messages = Messages {
        id,
        body: response.into_body(),
        parser: sse::Parser::new(sse::Limits {
            event_bytes: usize::try_from(most).unwrap_or(usize::MAX),
            junk_bytes: MAX_JUNK_BYTES,
        }),
        chunk: Bytes::new(),
    };
    let Some(message) = messages.next().await? else {
        return Err(if status.is_success() {
            Failure::NoReply("stream_ended")
        } else {
            Failure::Status(status)
        });
    };
    if let Ok(Told::Acknowledged(granted)) = listen::read(&message, &messages.id) {
        let subscription = Subscription { granted, messages };
        return Ok(Opened::Granted(Box::new(subscription)));
    }
    first(message.as_bytes(), &messages.id)
}

/// A first message that is no acknowledgement: only an error may come instead.
fn first(message: &[u8], id: &RawValue) -> Result<Opened, Failure> {
    let text = std::str::from_utf8(message).map_err(|_| Failure::NoReply("not_utf8"))?;
    match listen::read(text, id) {
        Ok(Told::Refused { code, error }) => Ok(Opened::Refused {
            code,
            error: error.to_owned(),
        }),
        Ok(_) => Err(Failure::NoReply("no_acknowledgement")),
        Err(error) => Err(Failure::NoReply(error.reason())),
    }
}

// === impl Subscription ===

impl Subscription {
    /// The id of the subscription at the upstream.
    pub fn id(&self) -> &RawValue {
        &self.messages.id
    }

    /// The next message; none at the end of the stream. Nothing is lost if this is dropped.
    pub async fn next(&mut self) -> Result<Option<String>, Failure> {
        self.messages.next().await
    }

    /// Counts a message that is none: enough of them end the stream.
    pub fn reject(&mut self, bytes: usize) -> Result<(), Failure> {
        self.messages.parser.reject(bytes).map_err(unreadable)
    }
}

// === impl Messages ===

impl Messages {
    async fn next(&mut self) -> Result<Option<String>, Failure> {
        loop {
            let mut rest = self.chunk.as_ref();
            let before = rest.len();
            let message = self.parser.next(&mut rest).map_err(unreadable)?;
            let used = before - rest.len();
            self.chunk.advance(used);
            if message.is_some() {
                return Ok(message);
            }
            let Some(frame) = self.body.frame().await else {
                return Ok(None);
            };
            if let Ok(data) = frame.map_err(Failure::Broken)?.into_data() {
                self.chunk = data;
            }
        }
    }
}
