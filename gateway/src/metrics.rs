//! Every metric of the gateway, registered once.
//!
//! Labels come only from configuration objects and closed enums, so that the number of series has a
//! bound that no caller and no upstream can move.

use std::collections::HashMap;

use prometheus::core::{Collector, MetricVec, MetricVecBuilder};
use prometheus::{
    Gauge, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge,
    IntGaugeVec, Opts, Registry, TextEncoder,
};

use crate::config::Labels;

/// Handles to the metrics; the names are documented in the README.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    pub requests: IntCounterVec,
    pub request_seconds: HistogramVec,
    pub upstream_seconds: HistogramVec,
    pub upstream_failures: IntCounterVec,
    pub inflight: IntGauge,
    pub listeners: IntGauge,
    pub refused_requests: IntCounterVec,
    pub held_bytes: IntGauge,
    pub connections: IntGauge,
    pub connections_cut: IntCounterVec,
    pub answers_dropped: IntCounter,
    pub tasks_relayed: IntCounterVec,
    pub tasks_live: IntGaugeVec,
    pub tasks_completed: IntCounterVec,
    pub tasks_failed: IntCounterVec,
    pub tasks_cancelled: IntCounterVec,
    pub input_required: IntCounterVec,
    pub consent_decisions: IntCounterVec,
    pub digest_drift: IntCounterVec,
    pub registration_failures: IntCounterVec,
    pub refusals: IntCounterVec,
    pub task_age: HistogramVec,
    pub commit_seconds: Histogram,
    pub ledger_errors: IntCounterVec,
    pub ledger_degraded: IntGauge,
    pub events: IntCounterVec,
    pub config_generation: IntGauge,
    pub config_age: Gauge,
    pub config_rejections: IntCounter,
    pub config_errors: IntCounterVec,
}

struct Builder(Registry);

const REQUEST_BUCKETS: &[f64] = &[
    0.000_25, 0.001, 0.002_5, 0.01, 0.025, 0.1, 0.25, 1.0, 2.5, 10.0, 30.0,
];
const COMMIT_BUCKETS: &[f64] = &[
    0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.05, 0.25, 1.0,
];
const AGE_BUCKETS: &[f64] = &[
    1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0, 86_400.0,
];
const PAIR: &[&str] = &["tenant", "upstream"];

// === impl Metrics ===

impl Metrics {
    pub fn new() -> prometheus::Result<Self> {
        let build = Builder(Registry::new());
        Ok(Self {
            requests: build.counters("hangar_requests_total", "MCP requests by outcome.", &["tenant", "upstream", "method", "outcome"])?,
            request_seconds: build.histograms("hangar_request_duration_seconds", "Time from request to answer.", &["tenant"], REQUEST_BUCKETS)?,
            upstream_seconds: build.histograms("hangar_upstream_duration_seconds", "Time of one exchange with an upstream.", &["tenant"], REQUEST_BUCKETS)?,
            upstream_failures: build.counters("hangar_upstream_failures_total", "Exchanges that brought no reply which can be read, by reason.", &["tenant", "upstream", "reason"])?,
            inflight: build.gauge("hangar_inflight_requests", "MCP requests being answered.")?,
            listeners: build.gauge("hangar_listen_streams", "Streams of subscriptions/listen that are open.")?,
            refused_requests: build.counters("hangar_refused_requests_total", "MCP requests refused under an HTTP status other than 200, by reason.", &["reason"])?,
            held_bytes: build.gauge("hangar_held_bytes", "Bytes of request bodies and of answers of upstreams held.")?,
            connections: build.gauge("hangar_connections", "Connections of MCP clients.")?,
            connections_cut: build.counters("hangar_connections_cut_total", "Connections of MCP clients that did not end well, by reason.", &["reason"])?,
            answers_dropped: build.counter("hangar_answers_dropped_total", "Answers over HTTP/2 that their client did not take in time.")?,
            tasks_relayed: build.counters("hangar_tasks_relayed_total", "Tasks whose handles clients were given.", PAIR)?,
            tasks_live: build.gauges("hangar_tasks_live", "Tasks without a terminal state, by status last seen.", &["status"])?,
            tasks_completed: build.counters("hangar_tasks_completed_total", "Tasks that completed.", PAIR)?,
            tasks_failed: build.counters("hangar_tasks_failed_total", "Tasks that failed, by reason.", &["tenant", "upstream", "reason"])?,
            tasks_cancelled: build.counters("hangar_tasks_cancelled_total", "Tasks whose cancellation the upstream confirmed.", PAIR)?,
            input_required: build.counters("hangar_task_input_required_total", "Tasks that came to ask for input.", PAIR)?,
            consent_decisions: build.counters("hangar_task_consent_decisions_total", "Recorded answers to questions.", &["tenant", "upstream", "decision", "reason"])?,
            digest_drift: build.counters("hangar_task_digest_drift_total", "Tasks whose tool contract was no longer the one bound at birth, or unverifiable.", PAIR)?,
            registration_failures: build.counters("hangar_task_registration_failures_total", "Tasks that an upstream made and that were not given out.", &["tenant", "upstream", "reason"])?,
            refusals: build.counters("hangar_task_refusals_total", "Follow-up requests on tasks that were refused.", &["tenant", "upstream", "method", "reason"])?,
            task_age: build.histograms("hangar_task_age_seconds", "Age of a task when its terminal state was first seen.", &["tenant"], AGE_BUCKETS)?,
            commit_seconds: build.histogram("hangar_ledger_commit_seconds", "Time of one durable ledger decision.", COMMIT_BUCKETS)?,
            ledger_errors: build.counters("hangar_ledger_errors_total", "Ledger operations that failed.", &["reason"])?,
            ledger_degraded: build.gauge("hangar_ledger_degraded", "1 while the store cannot commit.")?,
            events: build.counters("hangar_provenance_events_total", "Events appended to the chain.", &["type"])?,
            config_generation: build.gauge("hangar_config_generation", "Generation of the configuration in force.")?,
            config_age: build.float("hangar_config_age_seconds", "Seconds since an operator last confirmed the configuration; -1 before the first time.")?,
            config_rejections: build.counter("hangar_config_rejections_total", "Objects that this pod could not use.")?,
            config_errors: build.counters("hangar_config_errors_total", "Failed subscriptions and refused configurations.", &["reason"])?,
            registry: build.0,
        })
    }

    /// Drops the series of tenants and upstreams that were configured and no longer are, so that the
    /// bound on series holds over the life of a process.
    ///
    /// Caveats: a request that began under the older configuration may bring one back, until the
    /// next change.
    pub fn forget(&self, before: &Labels, now: &Labels) {
        let has = |labels: &Labels, tenant: &str, upstream: &str| {
            let of_tenant = labels.get(tenant);
            of_tenant.is_some_and(|upstreams| upstreams.contains(upstream))
        };
        let gone = |tenant: &str, upstream: &str| {
            has(before, tenant, upstream) && !has(now, tenant, upstream)
        };
        let pairs = || {
            before
                .iter()
                .flat_map(|(t, all)| all.iter().map(move |u| (t, u)))
        };
        if !pairs().any(|(tenant, upstream)| gone(tenant, upstream)) {
            return;
        }
        let pair_is_gone = |labels: &HashMap<&str, &str>| {
            let pair = (labels.get("tenant"), labels.get("upstream"));
            matches!(pair, (Some(tenant), Some(upstream)) if gone(tenant, upstream))
        };
        for counters in [
            &self.requests,
            &self.upstream_failures,
            &self.tasks_relayed,
            &self.tasks_completed,
            &self.tasks_failed,
            &self.tasks_cancelled,
            &self.input_required,
            &self.consent_decisions,
            &self.digest_drift,
            &self.registration_failures,
            &self.refusals,
        ] {
            remove(counters, pair_is_gone);
        }
        let tenant_is_gone = |labels: &HashMap<&str, &str>| {
            let tenant = labels.get("tenant");
            tenant.is_some_and(|tenant| before.contains_key(*tenant) && !now.contains_key(*tenant))
        };
        for histograms in [
            &self.request_seconds,
            &self.upstream_seconds,
            &self.task_age,
        ] {
            remove(histograms, tenant_is_gone);
        }
    }

    /// An upstream was asked for a tenant and gave no reply that can be read.
    pub fn upstream_failed(&self, tenant: &str, upstream: &str, reason: &str) {
        let failures = &self.upstream_failures;
        failures
            .with_label_values(&[tenant, upstream, reason])
            .inc();
    }

    /// Prometheus text format, version 0.0.4.
    pub fn render(&self) -> prometheus::Result<String> {
        TextEncoder::new().encode_to_string(&self.registry.gather())
    }
}

/// Removes the series of one vector whose labels say so.
fn remove<T: MetricVecBuilder>(
    vector: &MetricVec<T>,
    is_gone: impl Fn(&HashMap<&str, &str>) -> bool,
) {
    for family in vector.collect() {
        for metric in family.get_metric() {
            let pairs = metric.get_label().iter();
            let labels: HashMap<&str, &str> =
                pairs.map(|pair| (pair.name(), pair.value())).collect();
            if is_gone(&labels) && vector.remove(&labels).is_err() {
                tracing::debug!(name = family.name(), "a series went by itself");
            }
        }
    }
}

// === impl Builder ===

impl Builder {
    fn register<C: prometheus::core::Collector + Clone + 'static>(
        &self,
        metric: C,
    ) -> prometheus::Result<C> {
        self.0.register(Box::new(metric.clone()))?;
        Ok(metric)
    }

    fn counter(&self, name: &str, help: &str) -> prometheus::Result<IntCounter> {
        self.register(IntCounter::new(name, help)?)
    }

    fn counters(
        &self,
        name: &str,
        help: &str,
        labels: &[&str],
    ) -> prometheus::Result<IntCounterVec> {
        self.register(IntCounterVec::new(Opts::new(name, help), labels)?)
    }

    fn gauge(&self, name: &str, help: &str) -> prometheus::Result<IntGauge> {
        self.register(IntGauge::new(name, help)?)
    }

    fn float(&self, name: &str, help: &str) -> prometheus::Result<Gauge> {
        self.register(Gauge::new(name, help)?)
    }

    fn gauges(&self, name: &str, help: &str, labels: &[&str]) -> prometheus::Result<IntGaugeVec> {
        self.register(IntGaugeVec::new(Opts::new(name, help), labels)?)
    }

    fn histogram(&self, name: &str, help: &str, buckets: &[f64]) -> prometheus::Result<Histogram> {
        let options = HistogramOpts::new(name, help).buckets(buckets.to_vec());
        self.register(Histogram::with_opts(options)?)
    }

    fn histograms(
        &self,
        name: &str,
        help: &str,
        labels: &[&str],
        buckets: &[f64],
    ) -> prometheus::Result<HistogramVec> {
        let options = HistogramOpts::new(name, help).buckets(buckets.to_vec());
        self.register(HistogramVec::new(options, labels)?)
    }
}

#[cfg(test)]
mod tests;
