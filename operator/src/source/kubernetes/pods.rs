//! Gateway pods of the operator's namespace: which exist, and which are Ready.

use std::collections::BTreeMap;
use std::pin::pin;

use futures::StreamExt as _;
use hangar_wire::Pod;
use k8s_openapi::api::core::v1::Pod as ClusterPod;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, ResourceExt as _};
use tokio_util::sync::CancellationToken;

use crate::fleet::{Fleet, Readiness};
use crate::metrics::Metrics;

const LABELS: [(&str, &str); 2] = [
    ("app.kubernetes.io/name", "hangar"),
    ("app.kubernetes.io/component", "gateway"),
];

/// Tells the fleet of pods until stopped.
pub(super) async fn watch(
    api: Api<ClusterPod>,
    config: watcher::Config,
    fleet: &Fleet,
    metrics: &Metrics,
    stop: &CancellationToken,
) {
    let mut events = pin!(watcher(api, config).default_backoff());
    let mut listed = BTreeMap::new();
    while let Some(Some(event)) = stop.run_until_cancelled(events.next()).await {
        match event {
            Ok(watcher::Event::Init) => listed.clear(),
            Ok(watcher::Event::InitApply(pod)) => {
                listed.insert(identity(&pod), readiness(&pod));
            }
            Ok(watcher::Event::InitDone) => fleet.list(std::mem::take(&mut listed)),
            Ok(watcher::Event::Apply(pod)) => fleet.set_listed(identity(&pod), readiness(&pod)),
            Ok(watcher::Event::Delete(pod)) => fleet.remove(&identity(&pod)),
            Err(error) => {
                metrics.source_error("Pod");
                tracing::warn!(kind = "Pod", %error, "watch failed; it is tried again");
            }
        }
    }
}

/// Whether a pod carries the gateway labels.
pub fn is_gateway(pod: &ClusterPod) -> bool {
    let labels = pod.labels();
    LABELS
        .iter()
        .all(|(key, value)| labels.get(*key).is_some_and(|it| it == value))
}

fn identity(pod: &ClusterPod) -> Pod {
    Pod {
        namespace: pod.namespace().unwrap_or_default(),
        name: pod.name_any(),
        uid: pod.uid().unwrap_or_default(),
    }
}

/// A pod that is being deleted does not count: it drains.
fn readiness(pod: &ClusterPod) -> Readiness {
    let conditions = pod.status.as_ref().and_then(|it| it.conditions.as_ref());
    let ready = conditions
        .into_iter()
        .flatten()
        .any(|it| it.type_ == "Ready" && it.status == "True");
    if ready && pod.metadata.deletion_timestamp.is_none() {
        Readiness::Ready
    } else {
        Readiness::NotReady
    }
}

#[cfg(test)]
mod tests;
