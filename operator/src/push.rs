//! The push endpoint: a subscription is answered when there is something newer, or after a while.
//!
//! Guarantees: nothing is answered before the first complete load; what is answered supersedes
//! what the gateway holds; a gateway whose connection is lost no longer counts as subscribed.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use bytes::Bytes;
use hangar_wire::{
    FORMAT, HOLD_SECONDS, Held, MAX_REQUEST_BYTES, Refused, SUBSCRIBE_PATH, Subscribe, Update,
};
use http::header::{AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use rand::RngExt as _;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::auth::{self, Authenticator, Authorized, Identity};
use crate::fleet::{Acknowledgement, Fleet};
use crate::metrics::Metrics;
use crate::publish::{self, Published, Publisher};

/// What the endpoint works with.
#[derive(Debug)]
pub struct Push {
    pub authenticator: Authenticator,
    pub publisher: Arc<Publisher>,
    pub fleet: Arc<Fleet>,
    pub metrics: Metrics,
    pub stop: CancellationToken,
}

/// Why a subscription is refused.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Auth(#[from] auth::Error),
    #[error("the request is larger than {MAX_REQUEST_BYTES} bytes")]
    TooLarge,
    #[error("the request did not arrive within {BODY_TIMEOUT:?}")]
    Slow,
    #[error("the request ended early")]
    Interrupted,
    #[error("{0}; upgrade the older of operator and gateway")]
    UnknownFormat(hangar_wire::Error),
    #[error("the request is no subscription: {0}")]
    Malformed(String),
    #[error("the operator has not loaded every object yet; subscribe again soon")]
    NotReady,
    #[error("the operator cannot take a term above the one that this gateway holds; see its log")]
    Term(#[source] publish::Error),
}

const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// A hold is shortened by up to a fifth, so that gateways that started together drift apart.
const HOLD_JITTER: f64 = 0.2;
const JSON: &str = "application/json";

/// The one route.
pub fn router(push: Push) -> Router {
    Router::new()
        .route(SUBSCRIBE_PATH, post(subscribe))
        .with_state(Arc::new(push))
}

async fn subscribe(State(push): State<Arc<Push>>, request: Request<Body>) -> Response {
    match push.answer(request).await {
        Ok(body) => {
            push.metrics.subscription("answered");
            (StatusCode::OK, [(CONTENT_TYPE, JSON)], body).into_response()
        }
        Err(error) => {
            push.metrics.subscription(error.reason());
            tracing::warn!(
                reason = error.reason(),
                error = crate::chain(&error),
                "subscription refused"
            );
            refuse(&error)
        }
    }
}

fn refuse(error: &Error) -> Response {
    let refused = Refused {
        reason: error.reason().to_owned(),
        message: error.to_string(),
    };
    let body = serde_json::to_vec(&refused).unwrap_or_default();
    let mut response = (error.status(), [(CONTENT_TYPE, JSON)], body).into_response();
    if error.status() == StatusCode::SERVICE_UNAVAILABLE {
        let seconds = http::HeaderValue::from_static("1");
        response.headers_mut().insert(RETRY_AFTER, seconds);
    }
    response
}

async fn read(body: Body) -> Result<Bytes, Error> {
    let limited = Limited::new(body, MAX_REQUEST_BYTES).collect();
    match tokio::time::timeout(BODY_TIMEOUT, limited).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => Err(Error::TooLarge),
        Ok(Err(_)) => Err(Error::Interrupted),
        Err(_) => Err(Error::Slow),
    }
}

fn bearer(headers: &HeaderMap) -> Result<&str, auth::Error> {
    let value = headers.get(AUTHORIZATION).ok_or(auth::Error::Missing)?;
    let text = value.to_str().map_err(|_| auth::Error::Missing)?;
    let (scheme, token) = text.split_once(' ').ok_or(auth::Error::Missing)?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(auth::Error::Missing);
    }
    Ok(token.trim())
}

fn hold() -> Duration {
    let longest = Duration::from_secs(HOLD_SECONDS).as_secs_f64();
    let shorter = rand::rng().random_range(0.0..HOLD_JITTER);
    Duration::from_secs_f64(longest * (1.0 - shorter))
}

/// Waits for what supersedes `held`; `None` when there was nothing for as long as may be held.
async fn newer(
    held: Option<Held>,
    current: &mut watch::Receiver<Option<Arc<Published>>>,
    stop: &CancellationToken,
) -> Option<Bytes> {
    let waited = current.wait_for(|published| {
        published
            .as_ref()
            .is_some_and(|it| held.is_none_or(|held| it.held.term > held.term))
    });
    tokio::select! {
        found = waited => Some(found.ok()?.as_ref()?.body.clone()),
        () = tokio::time::sleep(hold()) => None,
        () = stop.cancelled() => None,
    }
}

// === impl Error ===

impl Error {
    /// Closed CamelCase word for answers, metrics and logs.
    fn reason(&self) -> &'static str {
        match self {
            Self::Auth(error) => error.reason(),
            Self::TooLarge => "TooLarge",
            Self::Slow => "Slow",
            Self::Interrupted => "Interrupted",
            Self::UnknownFormat(_) => "UnknownFormat",
            Self::Malformed(_) => "Malformed",
            Self::NotReady => "NotReady",
            Self::Term(_) => "Term",
        }
    }

    fn status(&self) -> StatusCode {
        match self {
            Self::Auth(auth::Error::Missing | auth::Error::Invalid) => StatusCode::UNAUTHORIZED,
            Self::Auth(auth::Error::PodMismatch { .. } | auth::Error::NotAGateway { .. }) => {
                StatusCode::FORBIDDEN
            }
            Self::Auth(auth::Error::Unavailable(_)) | Self::NotReady | Self::Term(_) => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Slow => StatusCode::REQUEST_TIMEOUT,
            Self::Interrupted | Self::UnknownFormat(_) | Self::Malformed(_) => {
                StatusCode::BAD_REQUEST
            }
        }
    }
}

// === impl Push ===

impl Push {
    async fn answer(&self, request: Request<Body>) -> Result<Bytes, Error> {
        let (parts, body) = request.into_parts();
        // Before the body is read: a stranger costs no memory.
        let identity = self.authenticator.identify(bearer(&parts.headers)?).await?;
        let (pod, held, said) = self.acknowledgement(identity, &read(body).await?)?;
        let mut current = self.publisher.subscribe();
        if current.borrow().is_none() {
            return Err(Error::NotReady);
        }
        if let Some(held) = held {
            self.publisher.outrank(held).await.map_err(Error::Term)?;
        }
        let (waiting, moved) = self.fleet.subscribe(pod.pod(), said);
        if moved {
            self.observe_propagation(held);
        }
        let body = match newer(held, &mut current, &self.stop).await {
            Some(body) => body,
            None => nothing_newer()?,
        };
        waiting.answered();
        Ok(body)
    }

    fn acknowledgement(
        &self,
        identity: Identity,
        body: &[u8],
    ) -> Result<(Authorized, Option<Held>, Acknowledgement), Error> {
        let Subscribe {
            format: _,
            pod,
            held,
            rejected,
        } = hangar_wire::decode(body).map_err(|error| match error {
            hangar_wire::Error::Format { .. } => Error::UnknownFormat(error),
            other => Error::Malformed(crate::chain(&other)),
        })?;
        let digests = held.and_then(|held| self.publisher.digests_of(held.digest));
        let said = Acknowledgement {
            held,
            digests: digests.unwrap_or_default(),
            rejected,
        };
        Ok((identity.authorize(&pod)?, held, said))
    }

    fn observe_propagation(&self, held: Option<Held>) {
        let current = self.publisher.current();
        let arrived = current.filter(|it| held.is_some_and(|held| held.digest == it.held.digest));
        if let Some(published) = arrived {
            let seconds = published.since.elapsed().as_secs_f64();
            self.metrics.propagated(seconds);
        }
    }
}

fn nothing_newer() -> Result<Bytes, Error> {
    let update = Update {
        format: FORMAT,
        snapshot: None,
    };
    let body = serde_json::to_vec(&update);
    body.map(Bytes::from)
        .map_err(|error| Error::Term(publish::Error::Serialize(error)))
}

#[cfg(test)]
mod tests;
