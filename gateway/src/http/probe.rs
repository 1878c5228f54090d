//! `/metrics`, `/livez`, `/readyz` and `/startupz`.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use hangar_store::Health;
use http::{StatusCode, header};
use tokio_util::sync::CancellationToken;

use crate::gateway::Gateway;

/// What the probes look at.
#[derive(Clone, Debug)]
pub struct Probed {
    pub gateway: Arc<Gateway>,
    pub stop: CancellationToken,
    /// The operator's CA certificate, which may be made after this pod.
    pub ca: Arc<Path>,
    pub started: Instant,
}

/// How long a start waits for the CA certificate.
const STARTUP_PATIENCE: Duration = Duration::from_secs(20);
const TEXT_FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

pub fn router(probed: Probed) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/livez", get(|| async { "ok\n" }))
        .route("/readyz", get(readyz))
        .route("/startupz", get(startupz))
        .with_state(probed)
}

async fn metrics(State(probed): State<Probed>) -> Response {
    probed.gateway.refresh_gauges().await;
    match probed.gateway.metrics.render() {
        Ok(text) => ([(header::CONTENT_TYPE, TEXT_FORMAT)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

/// Fails only without configuration, while draining, or with an unusable local volume: store
/// trouble closes calls but keeps the pod in its Service, since one bad minute of a database must
/// not take every pod out.
async fn readyz(State(probed): State<Probed>) -> Response {
    let Probed { gateway, stop, .. } = probed;
    let unavailable = |text: &'static str| (StatusCode::SERVICE_UNAVAILABLE, text).into_response();
    if stop.is_cancelled() {
        return unavailable("draining\n");
    }
    if gateway.config.load().is_none() {
        return unavailable(
            "no configuration: no operator has answered yet; a stored one is used 10 s after the start\n",
        );
    }
    if gateway.freshness.volume_broken.load(Ordering::Relaxed) {
        return unavailable("local volume: the configuration cannot be written\n");
    }
    match gateway.store.health() {
        Health::Ok => "ok\n".into_response(),
        Health::Degraded { reason, .. } => format!("degraded: store: {reason}\n").into_response(),
    }
}

/// Fails while the operator's CA certificate is missing, for 20 s at most.
///
/// The kubelet looks again for what a volume lacked when it syncs the pod: when a startup probe
/// first succeeds, and else about once a minute. A start that waits for the operator gets its
/// certificate with the first, and one that waits in vain with the second.
async fn startupz(State(probed): State<Probed>) -> Response {
    let has_configuration = probed.gateway.config.load().is_some();
    let has_ca = || tokio::fs::try_exists(&probed.ca);
    if has_configuration
        || probed.started.elapsed() >= STARTUP_PATIENCE
        || has_ca().await.unwrap_or(false)
    {
        return "ok\n".into_response();
    }
    let missing = format!(
        "{} is missing: no operator has made it yet\n",
        probed.ca.display()
    );
    (StatusCode::SERVICE_UNAVAILABLE, missing).into_response()
}
