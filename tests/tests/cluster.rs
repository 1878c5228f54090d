//! The API server of the harness: what the operator's suites rely on.

use hangar_tests::apiserver;
use serde_json::json;

#[test]
fn rbac_is_on_and_pod_tokens_are_reviewed() {
    let api = apiserver::shared().unwrap();
    api.make_namespace("tokens").unwrap();
    let labels = json!({"app": "x"});
    let uid = api.make_pod("tokens", "pod-1", "sa-1", &labels).unwrap();
    let token = api
        .pod_token("tokens", "pod-1", &uid, "sa-1", "hangar")
        .unwrap();
    let review = |audience: &str| {
        let review = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
            "spec": {"token": token, "audiences": [audience]},
        });
        let create = ["create", "-o", "json", "-f", "-"];
        let said = api.kubectl(&create, &review.to_string()).unwrap();
        serde_json::from_str::<serde_json::Value>(&said).unwrap()["status"].take()
    };
    let good = review("hangar");
    assert_eq!(good["authenticated"], true, "{good}");
    let extra = &good["user"]["extra"];
    assert_eq!(
        extra["authentication.kubernetes.io/pod-name"],
        json!(["pod-1"])
    );
    assert_eq!(extra["authentication.kubernetes.io/pod-uid"], json!([uid]));
    assert_ne!(review("other")["authenticated"], true);

    let kubeconfig = api.kubeconfig_of("tokens", "sa-1").unwrap();
    let said = api
        .try_kubectl_as(&kubeconfig, &["get", "pods"], "")
        .unwrap();
    assert!(
        !said.success && said.stderr.contains("forbidden"),
        "{}",
        said.stderr
    );
}
