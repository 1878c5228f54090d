//! The operator's metrics, all under prefix `hangar_`.
//!
//! Labels are closed words only: kinds, reasons of error enums, outcomes.

use hangar_wire::Generation;
use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
    TextEncoder,
};

/// Handles to every series of this process.
#[derive(Clone, Debug)]
pub struct Metrics {
    registry: Registry,
    gateways: IntGaugeVec,
    compile_seconds: Histogram,
    propagation_seconds: Histogram,
    status_writes: IntCounterVec,
    is_leader: IntGauge,
    config_generation: IntGauge,
    objects: IntGaugeVec,
    manifest_errors: IntGaugeVec,
    subscriptions: IntCounterVec,
    source_errors: IntCounterVec,
}

/// What happened to one status write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusWrite {
    Written,
    /// The object is gone.
    Gone,
    /// To be tried again by the next pass.
    Failed,
}

/// Number of gateway pods by how far they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GatewayCounts {
    /// Ready or subscribed.
    pub ready: usize,
    /// With a subscription.
    pub subscribed: usize,
    /// Holding the current configuration.
    pub programmed: usize,
}

/// Number of objects of one kind by verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectCounts {
    pub accepted: usize,
    pub refused: usize,
}

// === impl StatusWrite ===

impl StatusWrite {
    fn as_str(self) -> &'static str {
        match self {
            Self::Written => "written",
            Self::Gone => "gone",
            Self::Failed => "failed",
        }
    }
}

// === impl Metrics ===

impl Metrics {
    pub fn new() -> Result<Self, prometheus::Error> {
        let registry = Registry::new_custom(Some("hangar".to_owned()), None)?;
        let metrics = Self {
            gateways: gauges(
                &registry,
                "operator_gateways",
                "Gateway pods by state.",
                &["state"],
            )?,
            compile_seconds: histogram(
                &registry,
                "operator_compile_seconds",
                "Time to compile all objects.",
            )?,
            propagation_seconds: histogram(
                &registry,
                "operator_propagation_seconds",
                "From a new configuration to its acknowledgement by one gateway.",
            )?,
            status_writes: counters(
                &registry,
                "operator_status_writes_total",
                "Status writes by outcome.",
                &["outcome"],
            )?,
            is_leader: gauge(
                &registry,
                "operator_is_leader",
                "1 while this process serves gateways.",
            )?,
            config_generation: gauge(
                &registry,
                "config_generation",
                "Generation of the current configuration.",
            )?,
            objects: gauges(
                &registry,
                "operator_objects",
                "Objects by kind and verdict.",
                &["kind", "accepted"],
            )?,
            manifest_errors: gauges(
                &registry,
                "operator_manifest_errors",
                "Problems in the manifests as they are now.",
                &["reason"],
            )?,
            subscriptions: counters(
                &registry,
                "operator_subscriptions_total",
                "Subscription requests by outcome.",
                &["outcome"],
            )?,
            source_errors: counters(
                &registry,
                "operator_source_errors_total",
                "Failed watches by kind.",
                &["kind"],
            )?,
            registry,
        };
        metrics.gateways(GatewayCounts::default());
        metrics.is_leader.set(0);
        Ok(metrics)
    }

    /// The text that `/metrics` answers.
    pub fn render(&self) -> Result<String, prometheus::Error> {
        TextEncoder::new().encode_to_string(&self.registry.gather())
    }

    pub fn gateways(&self, counts: GatewayCounts) {
        let GatewayCounts {
            ready,
            subscribed,
            programmed,
        } = counts;
        for (state, count) in [
            ("ready", ready),
            ("subscribed", subscribed),
            ("programmed", programmed),
        ] {
            set(&self.gateways.with_label_values(&[state]), count);
        }
    }

    pub fn compiled(&self, seconds: f64) {
        self.compile_seconds.observe(seconds);
    }

    pub fn propagated(&self, seconds: f64) {
        self.propagation_seconds.observe(seconds);
    }

    pub fn status_write(&self, outcome: StatusWrite) {
        self.status_writes
            .with_label_values(&[outcome.as_str()])
            .inc();
    }

    pub fn published(&self, generation: Generation) {
        self.is_leader.set(1);
        let number = i64::try_from(generation.0).unwrap_or(i64::MAX);
        self.config_generation.set(number);
    }

    pub fn objects(&self, kind: &'static str, counts: ObjectCounts) {
        let ObjectCounts { accepted, refused } = counts;
        set(&self.objects.with_label_values(&[kind, "true"]), accepted);
        set(&self.objects.with_label_values(&[kind, "false"]), refused);
    }

    /// Replaces the counts of manifest problems.
    pub fn manifest_errors(&self, counts: &std::collections::BTreeMap<&'static str, usize>) {
        self.manifest_errors.reset();
        for (reason, count) in counts {
            set(&self.manifest_errors.with_label_values(&[reason]), *count);
        }
    }

    pub fn subscription(&self, outcome: &'static str) {
        self.subscriptions.with_label_values(&[outcome]).inc();
    }

    pub fn source_error(&self, kind: &'static str) {
        self.source_errors.with_label_values(&[kind]).inc();
    }
}

fn set(gauge: &IntGauge, count: usize) {
    gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
}

fn gauge(registry: &Registry, name: &str, help: &str) -> Result<IntGauge, prometheus::Error> {
    let gauge = IntGauge::new(name, help)?;
    registry.register(Box::new(gauge.clone()))?;
    Ok(gauge)
}

fn gauges(
    registry: &Registry,
    name: &str,
    help: &str,
    labels: &[&str],
) -> Result<IntGaugeVec, prometheus::Error> {
    let gauges = IntGaugeVec::new(Opts::new(name, help), labels)?;
    registry.register(Box::new(gauges.clone()))?;
    Ok(gauges)
}

fn counters(
    registry: &Registry,
    name: &str,
    help: &str,
    labels: &[&str],
) -> Result<IntCounterVec, prometheus::Error> {
    let counters = IntCounterVec::new(Opts::new(name, help), labels)?;
    registry.register(Box::new(counters.clone()))?;
    Ok(counters)
}

fn histogram(registry: &Registry, name: &str, help: &str) -> Result<Histogram, prometheus::Error> {
    let buckets = prometheus::exponential_buckets(0.001, 2.5, 12)?;
    let options = HistogramOpts::new(name, help).buckets(buckets);
    let histograms = HistogramVec::new(options, &[])?;
    registry.register(Box::new(histograms.clone()))?;
    histograms.get_metric_with_label_values::<&str>(&[])
}

#[cfg(test)]
mod tests;
