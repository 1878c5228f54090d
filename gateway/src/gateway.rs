//! What every request shares.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hangar_ledger::Status;
use hangar_relay::headers::TaskName;
use hangar_store::{Health, Store};
use tokio_util::task::TaskTracker;

use crate::args::Edge;
use crate::config::Config;
use crate::config::subscribe::Freshness;
use crate::flow::merged::Owners;
use crate::flow::register::Births;
use crate::http::serve::bounds::streams;
use crate::limit::held::Budget;
use crate::listeners::{Listeners, Times};
use crate::metrics::Metrics;
use crate::upstream::pins::Revision;

/// The parts behind the request path.
#[derive(Debug)]
pub struct Gateway {
    pub config: Arc<Config>,
    pub store: Arc<dyn Store>,
    pub metrics: Arc<Metrics>,
    pub freshness: Arc<Freshness>,
    /// Class of the objects of this fleet.
    pub class: String,
    /// Largest request body in bytes.
    pub max_body: usize,
    /// Longest time that a request body takes to arrive.
    pub body_timeout: Duration,
    /// Whether `tasks/*` may come without `Mcp-Name`.
    pub task_name: TaskName,
    /// Bytes of bodies that are held at once.
    pub held: Arc<Budget>,
    /// Governance sections, which end even when their client is gone.
    pub sections: TaskTracker,
    pub births: Births,
    pub pins: Revision,
    pub owners: Owners,
    pub listeners: Listeners,
}

// === impl Gateway ===

impl Gateway {
    pub fn new(
        config: Arc<Config>,
        store: Arc<dyn Store>,
        metrics: Arc<Metrics>,
        freshness: Arc<Freshness>,
        class: String,
        edge: &Edge,
    ) -> Self {
        // The others are of the connections, and of the configuration.
        let Edge {
            max_body,
            max_held: _,
            max_connections: _,
            header_timeout: _,
            body_timeout,
            send_timeout: _,
            stall_timeout,
            listen_timeout,
            drain_timeout: _,
            require_task_name,
        } = edge;
        let times = Times {
            life: listen_timeout.0,
            stall: stall_timeout.0,
        };
        let listeners = Listeners::new(metrics.listeners.clone(), times, streams());
        Self {
            held: Arc::clone(config.budget()),
            config,
            store,
            metrics,
            freshness,
            class,
            max_body: max_body.0,
            body_timeout: body_timeout.0,
            task_name: if *require_task_name {
                TaskName::Required
            } else {
                TaskName::MayBeAbsent
            },
            sections: TaskTracker::new(),
            births: Births::default(),
            pins: Revision::default(),
            owners: Owners::default(),
            listeners,
        }
    }

    /// Brings the gauges up to date that nothing counts by itself; called for a scrape.
    pub async fn refresh_gauges(&self) {
        let confirmed = self.freshness.confirmed_at.load(Ordering::Relaxed);
        #[allow(clippy::cast_precision_loss)] // milliseconds of an age are far below 2^52
        let age = match confirmed {
            0 => -1.0,
            at => crate::unix_millis().saturating_sub(at) as f64 / 1000.0,
        };
        self.metrics.config_age.set(age);
        let degraded = matches!(self.store.health(), Health::Degraded { .. });
        self.metrics.ledger_degraded.set(i64::from(degraded));
        let held = i64::try_from(self.held.taken()).unwrap_or(i64::MAX);
        self.metrics.held_bytes.set(held);
        match self.store.live().await {
            Ok(live) => {
                for status in [Status::Working, Status::InputRequired] {
                    let count = live.get(&status).copied().unwrap_or(0);
                    self.metrics
                        .tasks_live
                        .with_label_values(&[status.as_str()])
                        .set(i64::try_from(count).unwrap_or(i64::MAX));
                }
            }
            Err(error) => {
                let reason = error.reason();
                self.metrics
                    .ledger_errors
                    .with_label_values(&[reason])
                    .inc();
            }
        }
    }
}
