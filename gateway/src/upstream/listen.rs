//! One subscription at an upstream: a stream of messages that both sides may end.
//!
//! Guarantees: bounded in the time until its acknowledgement, in the bytes of one message
//! ([`MESSAGE_BYTES`]) and in the bytes that are no message; what is held of it counts; dropping it
//! closes the upstream's stream.
//! Caveats: the life of the stream and the pace of its messages are for the caller to bound.

use hangar_relay::json;
use hangar_relay::legacy::Era;
use hangar_relay::listen::{self, Filter, Told};
use hangar_relay::wire::Kind;
use serde_json::value::RawValue;

use super::era;
use super::events::Events;
use super::exchange::{self, Exchange, Failure};
use crate::limit::held::Share;

/// A subscription that the upstream acknowledged.
#[derive(Debug)]
pub struct Subscription {
    /// What the upstream said that it grants.
    pub granted: Filter,
    id: Box<RawValue>,
    events: Events,
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

/// Longest message of a stream, where one answer may not be smaller. An acknowledgement names up to
/// 64 URIs of 8 KiB, and news of a task may hold all of it; an upstream that says more is lost.
pub const MESSAGE_BYTES: u64 = 1 << 20;

/// Asks to listen, and waits for the acknowledgement.
pub async fn open(exchange: Exchange<'_>) -> Result<Opened, Failure> {
    let deadline = exchange.deadline;
    tokio::time::timeout_at(deadline, open_once(exchange))
        .await
        .unwrap_or(Err(Failure::Timeout))
}

async fn open_once(exchange: Exchange<'_>) -> Result<Opened, Failure> {
    if era::spoken(&exchange).await? == Era::Legacy {
        let code = Kind::UnknownMethod.code();
        let error = format!(r#"{{"code":{code},"message":"Method not found"}}"#);
        return Ok(Opened::Refused {
            code,
            error: json::raw(error),
        });
    }
    let Exchange {
        http,
        upstream,
        headers,
        body,
        id,
        room,
        ..
    } = exchange;
    let most = upstream.object.limits.max_response_bytes;
    let response = exchange::post(http, &upstream.uri, headers, body).await?;
    if !exchange::is_stream(&response) {
        let received = exchange::receive(response, id, most, room, None).await?;
        return first(&received.message, id);
    }
    let status = response.status();
    let mut events = Events::lasting(response.into_body(), most.min(MESSAGE_BYTES), room.share());
    let Some(message) = events.next().await? else {
        return Err(exchange::ended(status));
    };
    if let Ok(Told::Acknowledged(granted)) = listen::read(&message, id) {
        return Ok(Opened::Granted(Box::new(Subscription {
            granted,
            id: id.to_owned(),
            events,
        })));
    }
    first(message.as_bytes(), id)
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
        &self.id
    }

    /// The next message; none at the end of the stream. Nothing is lost if this is dropped.
    pub async fn next(&mut self) -> Result<Option<String>, Failure> {
        self.events.next().await
    }

    /// The share of the last message, which had so many bytes.
    pub fn part(&mut self, bytes: usize) -> Share {
        self.events.part(bytes)
    }

    /// Counts a message that is none: enough of them end the stream.
    pub fn reject(&mut self, bytes: usize) -> Result<(), Failure> {
        self.events.reject(bytes)
    }
}
