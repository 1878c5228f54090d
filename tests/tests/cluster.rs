//! The API server of the harness: what the operator's suites rely on; and the operator on one
//! that nobody prepared.

#![cfg(test)]

use std::time::Duration;

use hangar_tests::apiserver::{self, ApiServer};
use hangar_tests::cluster::{OPERATOR, make_operator_account};
use hangar_tests::operator::Operator;
use hangar_tests::wait;
use serde_json::{Value, json};

/// What the operator makes in its namespace.
const MADE: [&str; 3] = [
    "secret/hangar-operator-tls",
    "configmap/hangar-operator-ca",
    "configmap/hangar-operator-state",
];

/// The operator looks every 15 s.
const REPUBLISHED: Duration = Duration::from_mins(1);

/// The one owner of an object.
fn owner(api: &ApiServer, namespace: &str, object: &str) -> Value {
    let object = api.get(&[object, "-n", namespace]).unwrap();
    let owners = object["metadata"]["ownerReferences"].as_array().unwrap();
    assert_eq!(owners.len(), 1, "{owners:?}");
    owners[0].clone()
}

fn account_uid(api: &ApiServer, namespace: &str) -> Value {
    let account = api.get(&["serviceaccount", OPERATOR, "-n", namespace]);
    account.unwrap()["metadata"]["uid"].clone()
}

async fn readiness(operator: &Operator) -> anyhow::Result<(u16, String)> {
    let reply = operator.readyz().await?;
    let body = String::from_utf8(reply.body.to_vec())?;
    Ok((reply.status.as_u16(), body))
}

/// An installation order that people try: the CRDs come last.
#[tokio::test]
async fn without_crds_the_operator_says_what_to_install_and_waits() {
    let namespace = "unprepared";
    let api = apiserver::shared().unwrap();
    api.make_namespace(namespace).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = make_operator_account(api, namespace).unwrap();
    let state = folder.path().join("operator");
    let operator = Operator::start_in_cluster(&kubeconfig, &state, &[]).await;
    let mut operator = operator.unwrap();
    wait::eventually("the missing CRDs are named", async || {
        let (status, body) = readiness(&operator).await?;
        wait::same(&status, &503)?;
        let named = ["McpUpstream", "TenantPolicy"]
            .iter()
            .all(|kind| body.contains(&format!("{kind}: the cluster does not serve")));
        anyhow::ensure!(named && body.contains("hangar-crds"), "{body}");
        Ok(())
    })
    .await
    .unwrap();

    api.install_crds().unwrap();
    wait::eventually("the operator is ready", async || {
        let (status, body) = readiness(&operator).await?;
        anyhow::ensure!(status == 200 && body.lines().count() == 1, "{body}");
        Ok(())
    })
    .await
    .unwrap();

    // What gateways trust is put back where somebody takes it away.
    let certificate = api.get(&[MADE[1], "-n", namespace]).unwrap()["data"].clone();
    api.kubectl(&["delete", MADE[1], "-n", namespace], "")
        .unwrap();
    wait::within(REPUBLISHED, "it is published again", async || {
        let found = api.get(&[MADE[1], "-n", namespace])?;
        wait::same(&found["data"], &certificate)
    })
    .await
    .unwrap();

    // What it made goes when its installation goes, and a later one takes it over.
    let first = account_uid(api, namespace);
    for object in MADE {
        assert_eq!(owner(api, namespace, object)["uid"], first, "{object}");
    }
    let authority = api.get(&[MADE[0], "-n", namespace]).unwrap()["data"].clone();
    let delete = ["delete", "serviceaccount", OPERATOR, "-n", namespace];
    api.kubectl(&delete, "").unwrap();
    make_operator_account(api, namespace).unwrap();
    operator.restart().await.unwrap();
    let second = account_uid(api, namespace);
    assert_ne!(first, second);
    for object in MADE {
        assert_eq!(owner(api, namespace, object)["uid"], second, "{object}");
    }
    let kept = api.get(&[MADE[0], "-n", namespace]).unwrap()["data"].clone();
    assert_eq!(authority, kept, "a new installation keeps the authority");
}

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
