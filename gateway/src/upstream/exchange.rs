//! One request to an upstream and the reply to it, as JSON or from an event stream.
//!
//! Guarantees: bounded in time and bytes; nothing of the client's headers crosses; a JSON-RPC reply
//! is read under any HTTP status; a redirect is an error, and so is a body that is compressed.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hangar_ledger::Owner;
use hangar_relay::envelope::{self, Incoming};
use hangar_relay::legacy;
use hangar_relay::notify::Wanted;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body as _, Incoming as Body};
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::client::{self, Http};
use super::contracts::Contracts;
use super::era;
use super::events::Events;
use crate::config::Upstream;
use crate::limit::held::{Refused, Room, Share};

/// One request on its way.
#[derive(Debug)]
pub struct Exchange<'a> {
    pub http: &'a Http,
    pub upstream: &'a Upstream,
    /// Routing headers of the protocol.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    pub body: Bytes,
    /// The id in `body`: the reply must carry it.
    pub id: &'a RawValue,
    /// For whom; none: for the gateway itself. Each has a session of its own where there are any.
    pub owner: Option<&'a Owner>,
    /// Where the answer is held.
    pub room: &'a Arc<Room>,
    pub deadline: Instant,
}

/// What a client is told before the reply. The channel is bounded: a client that reads slowly slows
/// its upstream down, until the exchange's time is over.
#[derive(Debug)]
pub struct Notes<'a> {
    pub wanted: Wanted<'a>,
    /// Each message counts as held until it is on its way to the client.
    pub to: mpsc::Sender<Bytes>,
}

/// Who hears what comes before a reply.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ears<'a> {
    pub contracts: &'a Contracts,
    pub notes: Option<&'a Notes<'a>>,
}

/// A reply, and the HTTP status that it came under.
#[derive(Debug)]
pub struct Received {
    pub status: StatusCode,
    /// Text of the JSON-RPC message.
    pub message: Bytes,
}

/// Why there is no reply.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// Too many exchanges with this upstream are in flight.
    #[error("too many requests to this upstream are in flight")]
    Busy,
    #[error(transparent)]
    Http(#[from] client::Error),
    #[error("upstream did not answer in time")]
    Timeout,
    /// Nothing was sent: there was no time left for it.
    #[error("no time is left to ask the upstream")]
    Late,
    #[error("answer of the upstream broke off")]
    Broken(#[source] hyper::Error),
    #[error("answer of the upstream is larger than {most} bytes")]
    TooLarge { most: u64 },
    /// Bodies of other requests and answers take all there is.
    #[error("no room is left for the answer of the upstream")]
    NoRoom,
    #[error("upstream answered with a redirect, which is never followed")]
    Redirect,
    /// What a client gets are the bytes that were read, and their length: nothing is unpacked, and
    /// nothing is passed on that a header of the upstream's own would have to explain.
    #[error("upstream compressed its answer, which it was asked not to do")]
    Compressed,
    #[error("upstream asks for patience")]
    Throttled { retry_after: Option<u64> },
    #[error("upstream answered HTTP {0} without a JSON-RPC reply")]
    Status(StatusCode),
    #[error("answer of the upstream is no reply to this request: {0}")]
    NoReply(&'static str),
    /// The request cannot be put, or its answer not be given, in the revision that the upstream
    /// speaks.
    #[error(transparent)]
    Untranslated(#[from] legacy::Error),
    #[error("upstream speaks 2025-11-25, whose tasks take no answers")]
    NoAnswers,
    /// The upstream refused to begin a session, with this code.
    #[error("upstream refused `initialize` with code {0}")]
    Refused(i64),
    /// The request itself was not sent: what had to come before it failed.
    #[error(transparent)]
    Before(Arc<Failure>),
}

/// Linux error numbers (errno.h).
const EMFILE: i32 = 24;
const ENFILE: i32 = 23;
const EADDRNOTAVAIL: i32 = 99;

// === impl Failure ===

impl Failure {
    /// Whether a task of a 2025-11-25 upstream asks for input.
    pub fn is_question(&self) -> bool {
        matches!(self, Self::Untranslated(legacy::Error::TaskAsks))
    }

    pub fn reason(&self) -> &'static str {
        match self {
            Self::Busy => "busy",
            Self::Http(client::Error::Connect(_)) => "connect",
            Self::Http(client::Error::Denied(_)) => "address_denied",
            Self::Http(client::Error::Broken(_)) | Self::Broken(_) => "broken",
            Self::Timeout => "timeout",
            Self::Late => "late",
            Self::TooLarge { .. } => "too_large",
            Self::NoRoom => "no_room",
            Self::Redirect => "redirect",
            Self::Compressed => "compressed",
            Self::Throttled { .. } => "throttled",
            Self::Status(_) => "http_status",
            Self::NoReply(reason) => reason,
            Self::Untranslated(error) => error.reason(),
            Self::NoAnswers => "legacy_answers",
            Self::Refused(_) => "initialize_refused",
            Self::Before(failure) => failure.reason(),
        }
    }

    /// A limit, a credential or a want of ours, or a wish of the upstream to be asked later: it
    /// says nothing of what the upstream would have answered.
    pub fn is_ours(&self) -> bool {
        match self {
            Self::Busy
            | Self::Late
            | Self::Http(client::Error::Denied(_))
            | Self::TooLarge { .. }
            | Self::NoRoom
            | Self::Throttled { .. }
            | Self::NoAnswers => true,
            Self::Status(status) => is_credential(*status),
            Self::Before(failure) => failure.is_ours(),
            Self::Http(client::Error::Connect(error)) => is_local(error),
            Self::Http(_)
            | Self::Timeout
            | Self::Broken(_)
            | Self::Redirect
            | Self::Compressed
            | Self::NoReply(_)
            | Self::Untranslated(_)
            | Self::Refused(_) => false,
        }
    }

    /// Whether the upstream can have acted on the request.
    pub fn may_have_acted(&self) -> bool {
        match self {
            // Never sent, or refused before it acted.
            Self::Busy
            | Self::Late
            | Self::Http(client::Error::Connect(_) | client::Error::Denied(_))
            | Self::Throttled { .. }
            | Self::NoAnswers
            | Self::Refused(_)
            | Self::Before(_) => false,
            Self::Status(status) => !is_refusal(*status),
            Self::Http(_)
            | Self::Broken(_)
            | Self::Timeout
            | Self::TooLarge { .. }
            | Self::NoRoom
            | Self::Redirect
            | Self::Compressed
            | Self::NoReply(_)
            | Self::Untranslated(_) => true,
        }
    }

    /// Seconds that the upstream asked to wait.
    pub fn retry_after(&self) -> Option<u64> {
        match self {
            Self::Throttled { retry_after } => *retry_after,
            Self::Before(failure) => failure.retry_after(),
            _ => None,
        }
    }

    /// The same, where it came before the request could be sent.
    pub(super) fn before(self) -> Self {
        Self::Before(Arc::new(self))
    }
}

/// Statuses of a server that did not act (RFC 9110, RFC 6585); others, as 408 or 409, may come from one that did.
fn is_refusal(status: StatusCode) -> bool {
    matches!(
        status.as_u16(),
        400 | 401 | 403..=406 | 411 | 413..=415 | 417 | 421 | 422 | 426 | 428 | 429 | 431
    )
}

/// Statuses about what the gateway presents, not about what was asked.
pub fn is_credential(status: StatusCode) -> bool {
    matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
}

/// No connection could be tried: this machine is out of descriptors or ports, or the address rules
/// refuse every address.
fn is_local(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(io) = error.downcast_ref::<std::io::Error>() {
            let numbers = [EMFILE, ENFILE, EADDRNOTAVAIL];
            let is_short = io
                .raw_os_error()
                .is_some_and(|number| numbers.contains(&number));
            if is_short || io.kind() == std::io::ErrorKind::PermissionDenied {
                return true;
            }
        }
        cause = error.source();
    }
    false
}

/// Sends a request and returns the reply to it; notifications before it are passed over.
pub async fn send(exchange: Exchange<'_>) -> Result<Received, Failure> {
    send_noting(exchange, None).await
}

/// The same, with the client's notifications handed on as they come.
pub async fn send_noting(
    exchange: Exchange<'_>,
    notes: Option<&Notes<'_>>,
) -> Result<Received, Failure> {
    let deadline = exchange.deadline;
    tokio::time::timeout_at(deadline, era::send(&exchange, notes))
        .await
        .unwrap_or(Err(Failure::Timeout))
}

/// The instant at which an exchange of this upstream ends, at most `most` from now.
pub fn deadline(upstream: &Upstream, most: Duration) -> Instant {
    let configured = Duration::from_millis(upstream.object.limits.request_timeout_ms);
    let now = Instant::now();
    now.checked_add(configured.min(most)).unwrap_or(now)
}

/// One exchange in the revision that the request is in.
pub(super) async fn once(
    exchange: &Exchange<'_>,
    notes: Option<&Notes<'_>>,
) -> Result<Received, Failure> {
    let (headers, body) = (exchange.headers.clone(), Bytes::clone(&exchange.body));
    let response = post(exchange.http, &exchange.upstream.uri, headers, body).await?;
    let most = exchange.upstream.object.limits.max_response_bytes;
    let contracts = &exchange.upstream.runtime.contracts;
    let ears = Ears { contracts, notes };
    receive(response, exchange.id, most, exchange.room, Some(ears)).await
}

/// Posts a message; what comes back is no redirect, no wish to be asked later, and not compressed.
pub(super) async fn post(
    http: &Http,
    uri: &Uri,
    headers: Vec<(HeaderName, HeaderValue)>,
    body: Bytes,
) -> Result<Response<Body>, Failure> {
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = http::Method::POST;
    *request.uri_mut() = uri.clone();
    let outgoing = request.headers_mut();
    // With three of ours below and two of the client's: more would be made room for step by step.
    outgoing.reserve(headers.len() + 5);
    outgoing.extend(headers);
    outgoing.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    outgoing.insert(
        header::ACCEPT,
        HeaderValue::from_static("application/json, text/event-stream"),
    );
    // Without a word any coding would be as good (RFC 9110, 12.5.3).
    outgoing.insert(
        header::ACCEPT_ENCODING,
        HeaderValue::from_static("identity"),
    );
    let response = http.send(request).await?;
    let status = response.status();
    if status.is_redirection() {
        return Err(Failure::Redirect);
    }
    if status == StatusCode::TOO_MANY_REQUESTS {
        let retry_after = response
            .headers()
            .get(header::RETRY_AFTER)
            .and_then(|value| value.to_str().ok()?.parse().ok());
        return Err(Failure::Throttled { retry_after });
    }
    if is_compressed(response.headers()) {
        return Err(Failure::Compressed);
    }
    Ok(response)
}

fn is_compressed(headers: &HeaderMap) -> bool {
    let is_identity = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"identity");
    !headers
        .get_all(header::CONTENT_ENCODING)
        .iter()
        .all(is_identity)
}

/// Reads the reply to the request `id`.
pub(super) async fn receive(
    response: Response<Body>,
    id: &RawValue,
    most: u64,
    room: &Arc<Room>,
    ears: Option<Ears<'_>>,
) -> Result<Received, Failure> {
    let status = response.status();
    if is_stream(&response) {
        let message = read_stream(response, id, most, room.share(), ears).await?;
        return Ok(Received { status, message });
    }
    let text = read_whole(response, most, room).await?;
    // Under a good status the caller reads the reply, once. Under another it may be none at all.
    if status.is_success() || matches!(envelope::parse_incoming(&text, id), Ok(Incoming::Reply(..)))
    {
        Ok(Received {
            status,
            message: text,
        })
    } else {
        Err(Failure::Status(status))
    }
}

pub(super) fn is_stream(response: &Response<Body>) -> bool {
    response
        .headers()
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split(';').next())
        .is_some_and(|value| value.trim().eq_ignore_ascii_case("text/event-stream"))
}

/// Reads a whole body.
pub(super) async fn read_whole(
    response: Response<Body>,
    most: u64,
    room: &Arc<Room>,
) -> Result<Bytes, Failure> {
    let refused = |refused| match refused {
        Refused::TooLarge => Failure::TooLarge { most },
        Refused::Spent => Failure::NoRoom,
    };
    let mut body = response.into_body();
    let most_bytes = usize::try_from(most).unwrap_or(usize::MAX);
    let gathered = room.gather(body.size_hint().exact(), most_bytes);
    let mut gathered = gathered.map_err(refused)?;
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame.map_err(Failure::Broken)?.into_data() {
            gathered.push(data).map_err(refused)?;
        }
    }
    Ok(gathered.finish())
}

/// Reads events until the reply to this request.
async fn read_stream(
    response: Response<Body>,
    id: &RawValue,
    most: u64,
    share: Share,
    ears: Option<Ears<'_>>,
) -> Result<Bytes, Failure> {
    let status = response.status();
    let mut events = Events::new(response.into_body(), most, share);
    while let Some(event) = events.next().await? {
        match envelope::parse_incoming(event.as_bytes(), id) {
            Ok(Incoming::Reply(..)) => return Ok(events.keep(event)),
            Ok(Incoming::Notification(notification)) => {
                if let Some(ears) = ears {
                    ears.contracts.hear(&notification);
                }
                let notes = ears.and_then(|ears| ears.notes);
                let wanted = notes.filter(|notes| notes.wanted.admits(&notification));
                if let Some(notes) = wanted {
                    // A client that left has ended this exchange, or is about to.
                    let share = events.part(event.len());
                    let _ = notes.to.send(share.keep(event.into())).await;
                }
            }
            // Not JSON at all: passed over, but only so much of it.
            Err(envelope::Error::Json(_)) => events.reject(event.len())?,
            Err(error) => return Err(Failure::NoReply(error.reason())),
        }
    }
    Err(ended(status))
}

/// What a stream without a reply comes to.
pub(super) fn ended(status: StatusCode) -> Failure {
    if status.is_success() {
        Failure::NoReply("stream_ended")
    } else {
        Failure::Status(status)
    }
}
