//! `/metrics`, `/livez` and `/readyz`.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::StatusCode;
use http::header::CONTENT_TYPE;

use crate::metrics::Metrics;
use crate::publish::Publisher;
use crate::source::trouble::Troubles;

#[derive(Clone, Debug)]
struct Probes {
    metrics: Metrics,
    publisher: Arc<Publisher>,
    troubles: Troubles,
}

const EXPOSITION: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The three routes. Ready means: every kind was loaded and a configuration can be served.
pub fn router(metrics: Metrics, publisher: Arc<Publisher>, troubles: Troubles) -> Router {
    Router::new()
        .route("/livez", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(scrape))
        .with_state(Probes {
            metrics,
            publisher,
            troubles,
        })
}

async fn ready(State(probes): State<Probes>) -> Response {
    if let Some(published) = probes.publisher.current() {
        return format!("ok: configuration {}\n", published.held.term).into_response();
    }
    // Only here: a watch that goes on quietly after a failure has nothing to clear it with.
    let troubles = probes.troubles.lines();
    (
        StatusCode::SERVICE_UNAVAILABLE,
        format!("not ready: not every kind of object is loaded yet\n{troubles}"),
    )
        .into_response()
}

async fn scrape(State(probes): State<Probes>) -> Response {
    match probes.metrics.render() {
        Ok(text) => ([(CONTENT_TYPE, EXPOSITION)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}
