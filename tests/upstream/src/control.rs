//! The hand on the server: which contract it shows, and what arrived.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use axum::{
    Json, Router,
    body::{Body, to_bytes},
    extract::{Request, State},
    http::{StatusCode, header::AUTHORIZATION},
    middleware::Next,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde::{Deserialize, Serialize};

use crate::tools::Contract;

/// State of the control routes.
#[derive(Debug, Default)]
pub(crate) struct Control {
    inner: Mutex<Inner>,
}

#[derive(Clone, Debug, Default)]
struct Inner {
    contract: Contract,
    received: BTreeMap<String, u64>,
    with_credential: u64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Log {
    total: u64,
    /// By method.
    received: BTreeMap<String, u64>,
    /// How many of them carried an `Authorization` header.
    with_credential: u64,
}

#[derive(Debug, Deserialize)]
struct Envelope {
    method: String,
}

/// What the SDK takes too: a longer request is refused here instead of there.
const MAX_BODY_BYTES: usize = 4 << 20;

/// `POST /control/schema` with `v1` or `v2`, and `GET /control/log`.
pub(crate) fn routes(control: Arc<Control>) -> Router {
    Router::new()
        .route("/control/schema", post(set_schema))
        .route("/control/log", get(log))
        .with_state(control)
}

/// Counts a request by the method in its body, before anything looks at it.
pub(crate) async fn count(
    State(control): State<Arc<Control>>,
    request: Request,
    next: Next,
) -> Response {
    let (parts, body) = request.into_parts();
    let Ok(bytes) = to_bytes(body, MAX_BODY_BYTES).await else {
        return StatusCode::PAYLOAD_TOO_LARGE.into_response();
    };
    let method = match serde_json::from_slice::<Envelope>(&bytes) {
        Ok(Envelope { method }) => method,
        Err(_) => "unreadable".to_owned(),
    };
    control.with(|inner| {
        inner.with_credential += u64::from(parts.headers.contains_key(AUTHORIZATION));
        *inner.received.entry(method).or_default() += 1;
    });
    next.run(Request::from_parts(parts, Body::from(bytes)))
        .await
}

async fn set_schema(
    State(control): State<Arc<Control>>,
    body: String,
) -> Result<String, (StatusCode, String)> {
    let contract = body
        .parse::<Contract>()
        .map_err(|why| (StatusCode::BAD_REQUEST, why))?;
    control.set_contract(contract);
    tracing::info!(%contract, "contract of crawl changed");
    Ok(format!("{contract}\n"))
}

async fn log(State(control): State<Arc<Control>>) -> Json<Log> {
    let Inner {
        contract: _,
        received,
        with_credential,
    } = control.with(|inner| inner.clone());
    Json(Log {
        total: received.values().sum(),
        received,
        with_credential,
    })
}

// === impl Control ===

impl Control {
    pub(crate) fn contract(&self) -> Contract {
        self.with(|inner| inner.contract)
    }

    fn set_contract(&self, contract: Contract) {
        self.with(|inner| inner.contract = contract);
    }

    fn with<T>(&self, act: impl FnOnce(&mut Inner) -> T) -> T {
        // Each change is one assignment, so a panic elsewhere cannot have left half of one.
        act(&mut self.inner.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
