//! An upgrade that sets every value which a platform team sets, with calls going on.

use std::io::Write;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::Story;
use crate::objects::ALICE;
use crate::stage::{self, GATEWAY_POD, OPERATOR, PLATFORM, RELEASE, TOOLS, chart};

impl<W: Write> Story<'_, W> {
    pub(super) async fn upgrade_with_every_value(&mut self) -> Result<()> {
        self.teller
            .step("helm upgrade with every value set, rights in two namespaces only")?;
        let client = self.stage.client(ALICE)?;
        let task = self.crawl(&client, 0.2).await?;
        let values = self.stage.folder.join("values.json");
        stage::write(&values, &values_of_a_platform().to_string())?;
        let (chart, values) = (chart("hangar"), values.to_string_lossy());
        let upgrade = ["upgrade", RELEASE, &chart, "-n", PLATFORM];
        let more = ["--reset-then-reuse-values", "--values", &values, "--wait"];
        self.stage.helm(&[&upgrade[..], &more].concat())?;
        for object in [OPERATOR, "statefulset/hangar-gateway"] {
            let rollout = ["rollout", "status", object, "-n", PLATFORM];
            self.stage
                .kubectl(&[&rollout[..], &["--timeout=60s"]].concat(), "")?;
        }
        let pod = self.stage.get(&["pod", GATEWAY_POD, "-n", PLATFORM])?;
        let team = &pod["metadata"]["labels"]["example.com/team"];
        ensure!(team == "platform", "the label of the pod is {team}");
        let account = format!("--as=system:serviceaccount:{PLATFORM}:hangar-operator");
        for (namespace, wanted) in [("default", "no"), (TOOLS, "yes")] {
            let may = [
                "auth", "can-i", "list", "secrets", "-n", namespace, &account,
            ];
            let said = self.stage.try_kubectl(&may, "")?.stdout;
            ensure!(
                said.trim() == wanted,
                "the operator may read Secrets of {namespace}: {said}"
            );
        }
        let text = self.accept(&client, &task).await?;
        self.teller
            .say(format_args!("the task of before ends: {text}"))
    }
}

fn values_of_a_platform() -> Value {
    let pods = json!({
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"key": "example.com/infra", "operator": "Exists", "effect": "NoSchedule"}],
        "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{
            "weight": 1,
            "podAffinityTerm": {
                "topologyKey": "kubernetes.io/hostname",
                "labelSelector": {"matchLabels": {"app": "noisy"}},
            },
        }]}},
        "priorityClassName": "system-cluster-critical",
        "podAnnotations": {"example.com/owner": "platform team"},
        "podLabels": {"example.com/team": "platform"},
        "resources": {"requests": {"cpu": "5m", "memory": "32Mi"}, "limits": {"memory": "256Mi"}},
    });
    let mut gateway = pods.clone();
    gateway["maxBody"] = json!("512Ki");
    gateway["service"] = json!({"annotations": {"example.com/scheme": "internal"}});
    gateway["persistence"] = json!({"whenDeleted": "Retain"});
    json!({
        "imagePullSecrets": [{"name": "not-needed-for-images-on-the-node"}],
        "logLevel": "debug",
        "watch": {"namespaces": [PLATFORM, TOOLS]},
        "tenants": {"namespaces": [PLATFORM]},
        "upstreams": {
            "allowAddresses": ["127.0.0.0/8", "fd00::/8"],
            "denyAddresses": ["203.0.113.0/24"],
        },
        "operator": pods,
        "gateway": gateway,
    })
}
