//! Labels and readiness of pods.

use serde_json::json;

use super::super::GATEWAY_LABELS;
use super::*;

fn mk_pod(component: &str, ready: &str) -> ClusterPod {
    serde_json::from_value(json!({
        "metadata": {
            "namespace": "hangar-system", "name": "gateway-0", "uid": "uid-0",
            "labels": {"app.kubernetes.io/name": "hangar", "app.kubernetes.io/component": component},
        },
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    }))
    .unwrap()
}

#[test]
fn the_selector_is_made_of_the_labels() {
    let selector: Vec<String> = LABELS.iter().map(|(k, v)| format!("{k}={v}")).collect();
    assert_eq!(selector.join(","), GATEWAY_LABELS);
    assert!(is_gateway(&mk_pod("gateway", "True")));
    assert!(!is_gateway(&mk_pod("operator", "True")));
}

#[test]
fn ready_means_ready_and_staying() {
    assert_eq!(readiness(&mk_pod("gateway", "True")), Readiness::Ready);
    assert_eq!(readiness(&mk_pod("gateway", "False")), Readiness::NotReady);
    let mut leaving = mk_pod("gateway", "True");
    leaving.metadata.deletion_timestamp =
        Some(serde_json::from_value(json!("2026-01-02T03:04:05Z")).unwrap());
    assert_eq!(readiness(&leaving), Readiness::NotReady);
    assert_eq!(readiness(&ClusterPod::default()), Readiness::NotReady);
}
