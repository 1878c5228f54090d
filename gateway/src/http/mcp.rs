//! The way of a request: each rung checks one thing, and the first that fails answers.
//!
//! ```text
//! header bounds (by the server) ─ origin ─ configuration ─ authenticate ─ rate ─ body ─ envelope ─
//! header agreement ─ era and method ─ capability ─ admission ─ flow (ownership, policy, relay, response)
//! ```
//! Every decision is taken on the body, never on a header that mirrors it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use axum::routing::any;
use bytes::Bytes;
use hangar_relay::wire::{Kind, WireError};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use http_body_util::BodyExt as _;
use hyper::body::Body as _;

use super::legacy::{self, Taken};
use super::pass::{Entered, Pass, Ride, Route, check};
use super::serve::bounds::HEADER_COUNT;
use super::stream;
use super::trail::Trail;
use crate::config::Active;
use crate::config::active::Caller;
use crate::flow::Answer;
use crate::gateway::Gateway;
use crate::limit::held::{Refused, Room};

enum Climbed {
    Answered(Answer),
    /// Its client takes notifications before the reply.
    MayStream(Entered),
}

/// Header with the id that the access log and the events carry too.
pub const CORRELATION: &str = "hangar-correlation-id";

/// What is read of a body after its request was refused.
const LINGER_BYTES: usize = 16 << 20;
const LINGER: Duration = Duration::from_secs(2);
const LOOPBACK_HOSTS: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

pub fn router(gateway: Arc<Gateway>) -> Router {
    let tenant = async |State(gateway): State<Arc<Gateway>>, request: Request| {
        answer(gateway, Route::Tenant, request).await
    };
    let upstream = async |State(gateway): State<Arc<Gateway>>,
                          Path((namespace, name)): Path<(String, String)>,
                          request: Request| {
        answer(gateway, Route::Upstream { namespace, name }, request).await
    };
    Router::new()
        .route("/mcp", any(tenant))
        .route("/mcp/{namespace}/{upstream}", any(upstream))
        .fallback(async || {
            let error = WireError::from(Kind::EndpointNotFound);
            let correlation = uuid::Uuid::now_v7().to_string();
            respond(Answer::refused(None, &error), &correlation)
        })
        .with_state(gateway)
}

async fn answer(gateway: Arc<Gateway>, route: Route, request: Request) -> Response {
    let mut trail = Trail::begin(&gateway);
    let (head, mut body) = request.into_parts();
    let answer = match climb(&gateway, &route, &head, &mut body, &mut trail).await {
        Ok(Climbed::Answered(answer)) => answer,
        Ok(Climbed::MayStream(entered)) => {
            let ride = Ride {
                gateway,
                route,
                headers: head.headers,
                entered,
                trail,
            };
            return stream::answer(ride).await;
        }
        Err(error) => Answer::refused(trail.id.as_deref(), &error),
    };
    trail.tell(&answer);
    // Nothing of the request is held while what follows is waited for; over HTTP/2 its stream ends
    // without that.
    let lingers = head.version < http::Version::HTTP_2;
    drop(head);
    if lingers {
        discard(body).await;
    }
    respond(answer, &trail.correlation)
}

async fn climb(
    gateway: &Arc<Gateway>,
    route: &Route,
    head: &Parts,
    body: &mut Body,
    trail: &mut Trail,
) -> Result<Climbed, WireError> {
    if head.method != http::Method::POST {
        return Ok(Climbed::Answered(Answer::method_not_allowed()));
    }
    // Small ones are many in a head of little size, and each takes memory.
    if head.headers.len() > HEADER_COUNT {
        return Err(Kind::HeadersTooLarge.into());
    }
    check_host(head)?;
    check_origin(&head.headers)?;
    if gateway.listeners.is_closed() {
        return Err(WireError::from(Kind::NotReady).because("it is about to end"));
    }
    let mut active = gateway.config.load().ok_or(Kind::NotReady)?;
    let mut caller = authenticate(&active, &head.headers)?;
    trail.tenant.clone_from(&caller.tenant.object.tenant);
    if let Err(wait) = caller.tenant.bucket.take(Instant::now()) {
        let seconds = Some(wait.as_secs() + 1);
        return Err(WireError::from(Kind::RateLimited).retry_after(seconds));
    }
    let body = read_body(gateway, &caller.tenant.room, &head.headers, body).await?;
    // A body takes its time: what was allowed when it began may be forbidden by now.
    let in_force = gateway.config.load().ok_or(Kind::NotReady)?;
    if !Arc::ptr_eq(&in_force, &active) {
        caller = authenticate(&in_force, &head.headers)?;
        trail.tenant.clone_from(&caller.tenant.object.tenant);
        active = in_force;
    }
    let (client, body) = match legacy::take(body, &head.headers, trail)? {
        Taken::On(client, body) => (client, body),
        Taken::Answered(answer) => return Ok(Climbed::Answered(answer)),
    };
    let entered = Entered {
        active,
        caller,
        body,
        client,
    };
    let checked = match check(gateway, &entered, &head.headers, trail) {
        Ok(Some(checked)) => checked,
        Ok(None) => return Ok(Climbed::Answered(Answer::accepted())),
        Err(error) => return Ok(Climbed::Answered(entered.finished(Err(error), trail))),
    };
    if stream::may(&head.headers, checked.method, &checked.params.meta) {
        return Ok(Climbed::MayStream(entered));
    }
    let pass = Pass {
        gateway,
        entered: &entered,
        route,
        headers: &head.headers,
        notes: None,
    };
    let answer = pass.answer(&checked, trail).await;
    Ok(Climbed::Answered(entered.finished(answer, trail)))
}

/// A request names one host (RFC 9112, 3.2; RFC 9113, 8.3.1). Which one is not judged: a gateway has
/// as many names as the Services and proxies in front of it.
fn check_host(head: &Parts) -> Result<(), WireError> {
    let hosts = head.headers.get_all(header::HOST).iter().count();
    let is_named = hosts == 1 || head.uri.authority().is_some();
    if hosts > 1 || (!is_named && head.version > http::Version::HTTP_10) {
        return Err(WireError::from(Kind::InvalidRequest).because("it must have one Host header"));
    }
    Ok(())
}

/// Browsers name the page's origin; only pages of this machine may call, so that no page of the
/// internet reaches a gateway through a rebound name.
fn check_origin(headers: &HeaderMap) -> Result<(), WireError> {
    let is_ours = |origin: &HeaderValue| {
        let origin = origin.to_str().ok();
        let parts = origin.and_then(|origin| origin.split_once("://"));
        parts.is_some_and(|(scheme, authority)| {
            let host = match authority.rsplit_once(':') {
                Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
                _ => authority,
            };
            ["http", "https"].contains(&scheme) && LOOPBACK_HOSTS.contains(&host)
        })
    };
    if headers.get_all(header::ORIGIN).iter().all(is_ours) {
        Ok(())
    } else {
        Err(Kind::OriginForbidden.into())
    }
}

/// A credential decides or refuses; only where there is none may the caller be anonymous.
pub(crate) fn authenticate(active: &Active, headers: &HeaderMap) -> Result<Caller, WireError> {
    let mut credentials = headers.get_all(header::AUTHORIZATION).iter();
    let caller = match (credentials.next(), credentials.next()) {
        (None, _) => active.anonymous(),
        (Some(credential), None) => bearer(credential).and_then(|key| active.caller_of_key(key)),
        (Some(_), Some(_)) => None,
    };
    caller.ok_or_else(|| Kind::Unauthenticated.into())
}

fn bearer(credential: &HeaderValue) -> Option<&[u8]> {
    let (scheme, key) = credential.as_bytes().split_at_checked(7)?;
    let key = key.trim_ascii();
    (scheme.eq_ignore_ascii_case(b"bearer ") && !key.is_empty()).then_some(key)
}

async fn read_body(
    gateway: &Gateway,
    room: &Arc<Room>,
    headers: &HeaderMap,
    body: &mut Body,
) -> Result<Bytes, WireError> {
    let is_json = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split(';').next())
        .is_some_and(|value| value.trim().eq_ignore_ascii_case("application/json"));
    if !is_json {
        return Err(Kind::UnsupportedMediaType.into());
    }
    tokio::time::timeout(gateway.body_timeout, collect(gateway, room, body))
        .await
        .unwrap_or_else(|_| Err(Kind::InvalidRequest.into()))
}

async fn collect(gateway: &Gateway, room: &Arc<Room>, body: &mut Body) -> Result<Bytes, WireError> {
    let refused = |refused| match refused {
        Refused::TooLarge => Kind::BodyTooLarge,
        Refused::Spent => Kind::Overloaded,
    };
    let declared = body.size_hint().exact();
    let gathered = room.gather(declared, gateway.max_body);
    let mut gathered = gathered.map_err(refused)?;
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame.map_err(|_| Kind::InvalidRequest)?.into_data() {
            gathered.push(data).map_err(refused)?;
        }
    }
    Ok(gathered.finish())
}

/// Reads on what a refused client still sends, within bounds: one that is cut off in the middle of
/// its body may never see the answer.
async fn discard(mut body: Body) {
    let mut left = LINGER_BYTES;
    let reading = async {
        while let Some(Ok(frame)) = body.frame().await {
            let size = frame.data_ref().map_or(0, Bytes::len);
            match left.checked_sub(size) {
                Some(rest) => left = rest,
                None => break,
            }
        }
    };
    let _ = tokio::time::timeout(LINGER, reading).await;
}

pub(super) fn respond(answer: Answer, correlation: &str) -> Response {
    let Answer {
        status,
        body,
        retry_after,
        is_held: _,
        outcome: _,
        reason: _,
    } = answer;
    let is_empty = body.is_empty();
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    if !is_empty {
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/json"),
        );
    }
    if let Ok(value) = HeaderValue::from_str(correlation) {
        headers.insert(CORRELATION, value);
    }
    if let Some(seconds) = retry_after {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    match status {
        StatusCode::METHOD_NOT_ALLOWED => {
            headers.insert(header::ALLOW, HeaderValue::from_static("POST"));
        }
        StatusCode::UNAUTHORIZED => {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        _ => {}
    }
    response
}

#[cfg(test)]
mod tests;
