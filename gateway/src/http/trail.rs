//! What is known of a request while it is answered, and what is told of it: metrics and the access log.
//!
//! Guarantees: each request is told of once, also when its client left before it was answered.

use std::sync::Arc;
use std::time::Instant;

use http::StatusCode;
use serde_json::value::RawValue;

use crate::flow::{Answer, Outcome};
use crate::gateway::Gateway;

/// A request that is being answered; counted as in flight until it is told of.
#[derive(Debug)]
pub(super) struct Trail {
    gateway: Arc<Gateway>,
    started: Instant,
    is_told: bool,
    pub correlation: String,
    pub tenant: String,
    pub upstream: String,
    pub method: &'static str,
    /// Text of the request's id, once it could be read.
    pub id: Option<Box<RawValue>>,
}

/// What became of a request.
struct Told {
    outcome: Outcome,
    reason: &'static str,
    /// None: nothing was answered.
    status: Option<StatusCode>,
}

// === impl Trail ===

impl Trail {
    pub(super) fn begin(gateway: &Arc<Gateway>) -> Self {
        gateway.metrics.inflight.inc();
        Self {
            gateway: Arc::clone(gateway),
            started: Instant::now(),
            is_told: false,
            correlation: uuid::Uuid::now_v7().to_string(),
            tenant: String::new(),
            upstream: String::new(),
            method: "none",
            id: None,
        }
    }

    /// Counts and logs the answer; only the first one counts.
    pub(super) fn tell(&mut self, answer: &Answer) {
        self.told(&Told {
            outcome: answer.outcome,
            reason: answer.reason,
            status: Some(answer.status),
        });
    }

    fn told(&mut self, told: &Told) {
        if std::mem::replace(&mut self.is_told, true) {
            return;
        }
        self.count(told);
        self.log(told);
    }

    fn count(&self, told: &Told) {
        let Self {
            tenant,
            upstream,
            method,
            ..
        } = self;
        let metrics = &self.gateway.metrics;
        metrics.inflight.dec();
        metrics
            .requests
            .with_label_values(&[tenant, upstream, *method, told.outcome.as_str()])
            .inc();
        let is_answered = told.status.is_some();
        if is_answered && told.status != Some(StatusCode::OK) && told.reason != Answer::NO_REASON {
            let refused = &metrics.refused_requests;
            refused.with_label_values(&[told.reason]).inc();
        }
        metrics
            .request_seconds
            .with_label_values(&[tenant])
            .observe(self.started.elapsed().as_secs_f64());
    }

    fn log(&self, told: &Told) {
        let Self {
            correlation,
            tenant,
            upstream,
            method,
            ..
        } = self;
        let (outcome, reason) = (told.outcome.as_str(), told.reason);
        let status = told.status.map(|status| status.as_u16());
        let micros = u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX);
        match told.outcome {
            Outcome::Ok
            | Outcome::Task
            | Outcome::ToolError
            | Outcome::RpcError
            | Outcome::Gone => {
                tracing::info!(
                    correlation,
                    tenant,
                    upstream,
                    method,
                    outcome,
                    reason,
                    status,
                    micros,
                    "request"
                );
            }
            Outcome::Denied | Outcome::Drift | Outcome::Upstream | Outcome::Limited => {
                tracing::warn!(
                    correlation,
                    tenant,
                    upstream,
                    method,
                    outcome,
                    reason,
                    status,
                    micros,
                    "request"
                );
            }
        }
    }
}

impl Drop for Trail {
    fn drop(&mut self) {
        let (outcome, reason) = if std::thread::panicking() {
            (Outcome::RpcError, "internal")
        } else {
            (Outcome::Gone, "client_left")
        };
        self.told(&Told {
            outcome,
            reason,
            status: None,
        });
    }
}
