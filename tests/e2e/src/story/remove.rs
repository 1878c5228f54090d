//! Uninstall leaves what people declared and what the ledger holds; a second install finds it.

use std::collections::BTreeSet;
use std::io::Write;

use anyhow::{Result, ensure};
use hangar_tests::wait;
use serde_json::Value;

use super::{REPLACED, Story};
use crate::objects::ALICE;
use crate::stage::{PLATFORM, RELEASE};

/// What may be left in the platform's namespace: what people made there, the claim, and what
/// every namespace has.
const LEFT: [&str; 7] = [
    "ConfigMap/kube-root-ca.crt",
    "PersistentVolumeClaim/state-hangar-gateway-0",
    "Secret/acme-keys",
    "Secret/globex-keys",
    "ServiceAccount/default",
    "TenantPolicy/acme",
    "TenantPolicy/globex",
];

/// Records about other objects, which go by themselves.
const RECORDS: [&str; 2] = ["events", "events.events.k8s.io"];

impl<W: Write> Story<'_, W> {
    pub(super) async fn uninstall_and_install_again(&mut self) -> Result<()> {
        self.teller
            .step("helm uninstall with a task in the middle, and helm install again")?;
        let client = self.stage.client(ALICE)?;
        let task = self.crawl(&client, 0.2).await?;
        client.until(&task, "input_required").await?;
        let uninstall = ["uninstall", RELEASE, "-n", PLATFORM, "--wait"];
        self.stage.helm(&uninstall)?;
        let expected: BTreeSet<String> = LEFT.map(str::to_owned).into();
        wait::within(REPLACED, "only what people made is left", async || {
            wait::same(&self.namespaced()?, &expected)
        })
        .await?;
        let cluster_wide = self.cluster_wide()?;
        ensure!(cluster_wide.is_empty(), "left behind: {cluster_wide:?}");
        self.teller.say(format_args!("left: {}", LEFT.join(", ")))?;
        let said = self.stage.install(&["--wait", "--timeout", "2m"])?;
        ensure!(said.success, "the second helm install: {}", said.stderr);
        // The Service has another address now.
        let client = self.stage.client(ALICE)?;
        let text = self.accept(&client, &task).await?;
        self.teller
            .say(format_args!("the task of before ends: {text}"))?;
        self.chain_verifies(4)
    }

    /// `Kind/name` of everything in the platform's namespace.
    fn namespaced(&self) -> Result<BTreeSet<String>> {
        let list = [
            "api-resources",
            "--namespaced",
            "--verbs=list",
            "-o",
            "name",
        ];
        let kinds = self.stage.kubectl(&list, "")?;
        let kinds: Vec<_> = kinds
            .lines()
            .filter(|kind| !RECORDS.contains(kind))
            .collect();
        let found = self
            .stage
            .get(&[&kinds.join(","), "-n", PLATFORM, "--ignore-not-found"])?;
        Ok(names(&found, |_| true))
    }

    /// Of the kinds that a chart can make for a whole cluster, what is named after this one.
    fn cluster_wide(&self) -> Result<BTreeSet<String>> {
        let kinds = "clusterroles,clusterrolebindings,validatingwebhookconfigurations,\
                     mutatingwebhookconfigurations,priorityclasses,storageclasses";
        let found = self.stage.get(&[kinds])?;
        Ok(names(&found, |name| name.contains("hangar")))
    }
}

fn names(list: &Value, wanted: impl Fn(&str) -> bool) -> BTreeSet<String> {
    let items = list["items"].as_array().into_iter().flatten();
    items
        .filter_map(|item| {
            let name = item["metadata"]["name"].as_str()?;
            wanted(name).then(|| format!("{}/{name}", item["kind"].as_str().unwrap_or("?")))
        })
        .collect()
}
