//! `/metrics`, `/livez` and `/readyz`.

use std::sync::Arc;
use std::sync::atomic::Ordering;

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
}

const TEXT_FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

pub fn router(probed: Probed) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/livez", get(|| async { "ok\n" }))
        .route("/readyz", get(readyz))
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
    let Probed { gateway, stop } = probed;
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
