//! From an empty cluster to the first governed call, and what is refused on the way.

use std::io::Write;
use std::time::Instant;

use anyhow::{Result, ensure};
use hangar_tests::python;
use serde_json::json;

use super::Story;
use crate::objects::{self, ALICE};
use crate::stage::{GATEWAY_POD, PLATFORM, TOOLS, chart};

/// The ledger in the pod.
const STORE: &str = "sqlite:/var/lib/hangar/ledger.db";

impl<W: Write> Story<'_, W> {
    /// What a cluster has before anybody thinks of Hangar: room for a claim, and an MCP server.
    pub(super) fn prepare(&mut self) -> Result<()> {
        self.teller
            .step("Before: an empty cluster with a volume, and an MCP server in a pod")?;
        let volume = self.stage.folder.join("ledger");
        std::fs::create_dir(&volume)?;
        self.stage.apply(
            "default",
            &objects::list(&[
                objects::volume(&volume.to_string_lossy()),
                objects::namespace(PLATFORM),
                objects::namespace(TOOLS),
            ]),
        )?;
        let image = format!(
            "{}/hangar-demo-upstream:{}",
            self.stage.registry, self.stage.tag
        );
        self.stage
            .apply(TOOLS, &objects::server(&image).to_string())?;
        let rollout = ["rollout", "status", "deployment/reports", "-n", TOOLS];
        self.stage
            .kubectl(&[&rollout[..], &["--timeout=60s"]].concat(), "")?;
        self.teller
            .say("namespaces with enforced `restricted` Pod Security")
    }

    pub(super) fn refused_values(&mut self) -> Result<()> {
        self.teller.step("A typing error in the values")?;
        let said = self.stage.install(&["--set", "gatway.replicas=1"])?;
        ensure!(!said.success, "a typing error was taken");
        ensure!(
            said.stderr.contains("gatway"),
            "the error does not name `gatway`: {}",
            said.stderr
        );
        self.quote(&said.stderr)?;
        let said = self.stage.install(&["--set", "gateway.replicas=2"])?;
        ensure!(
            !said.success && said.stderr.contains("replicas"),
            "two replicas on an embedded ledger: {}",
            said.stderr
        );
        Ok(())
    }

    pub(super) fn without_crds(&mut self) -> Result<()> {
        self.teller.step("The chart before the CRDs")?;
        let said = self.stage.install(&[])?;
        ensure!(!said.success, "it was installed without CRDs");
        ensure!(
            said.stderr.contains("hangar-crds"),
            "the error does not name the chart to install: {}",
            said.stderr
        );
        self.quote(&said.stderr)
    }

    pub(super) async fn first_install(&mut self) -> Result<()> {
        self.teller
            .step("helm install, two manifests, one governed task by an SDK client")?;
        let started = Instant::now();
        let crds = chart("hangar-crds");
        self.stage.helm(&["install", "hangar-crds", &crds])?;
        let said = self.stage.install(&["--wait", "--timeout", "2m"])?;
        ensure!(said.success, "helm install --wait: {}", said.stderr);
        let installed = started.elapsed();
        self.stage
            .apply(PLATFORM, &objects::keys("acme", "alice", ALICE).to_string())?;
        let manifests = objects::list(&[objects::upstream(), objects::tenant("acme")]);
        self.stage.kubectl(&["apply", "-f", "-"], &manifests)?;
        let yes = ("True", None);
        for (namespace, object) in [
            (TOOLS, "mcpupstream/reports"),
            (PLATFORM, "tenantpolicy/acme"),
        ] {
            self.stage
                .condition(namespace, object, "Programmed", yes)
                .await?;
        }
        let arguments = json!({"site": "intranet.example", "seconds": 0.2}).to_string();
        let content = json!({"publish": true}).to_string();
        let text = python::run_consent(
            &python::Consent {
                url: &self.stage.endpoint()?,
                key: ALICE,
                tool: "crawl",
                arguments: &arguments,
                content: &content,
            },
            &self.stage.folder,
        )
        .await?;
        let governed = started.elapsed();
        ensure!(text.contains("is published"), "the client got {text:?}");
        self.teller
            .say(format_args!("the Python SDK's client: {text}"))?;
        self.teller.say(format_args!(
            "installed and Ready after {:.1} s, first governed task after {:.1} s",
            installed.as_secs_f64(),
            governed.as_secs_f64()
        ))?;
        self.chain_verifies(1)
    }

    /// The store of the running gateway, exported and verified by the gateway's own image, holds
    /// this many consents.
    pub(super) fn chain_verifies(&mut self, consents: usize) -> Result<()> {
        let exec = ["exec", "-i", "-n", PLATFORM, GATEWAY_POD, "--"];
        let export = ["/hangar-gateway", "provenance", "export", "--store", STORE];
        let export = self.stage.kubectl(&[&exec[..], &export].concat(), "")?;
        let found = export.matches("\"TaskConsentDecided\"").count();
        ensure!(
            found == consents,
            "{found} consents on the chain, expected {consents}"
        );
        let verify = ["/hangar-gateway", "provenance", "verify", "/dev/stdin"];
        let verdict = self
            .stage
            .kubectl(&[&exec[..], &verify].concat(), &export)?;
        self.teller.say(verdict.trim())?;
        self.teller
            .held("P11", "exported and verified by the image that ships")
    }

    pub(super) async fn secrets_in_words(&mut self) -> Result<()> {
        self.teller
            .step("A tenant whose Secret is missing, then has no label")?;
        self.stage
            .apply(PLATFORM, &objects::tenant("globex").to_string())?;
        let policy = "tenantpolicy/globex";
        let missing = ("False", Some("SecretNotFound"));
        let condition = self
            .stage
            .condition(PLATFORM, policy, "ResolvedRefs", missing)
            .await?;
        self.named(&condition["message"], "globex-keys")?;
        let key = "globex-carol-key-of-the-end-to-end-story";
        let labelled = objects::keys("globex", "carol", key);
        let mut bare = labelled.clone();
        bare["metadata"]["labels"] = json!({});
        self.stage.apply(PLATFORM, &bare.to_string())?;
        // The operator cannot see a Secret without the label, so it cannot tell the two apart. The
        // edit makes it judge again.
        let mut edited = objects::tenant("globex");
        edited["spec"]["upstreams"][0]["tools"] = json!({"deny": ["nothing"]});
        self.stage.apply(PLATFORM, &edited.to_string())?;
        let condition = self
            .stage
            .condition(PLATFORM, policy, "ResolvedRefs", missing)
            .await?;
        self.named(&condition["message"], "hangar.dev/use")?;
        let refused = self.stage.client(key)?.list_tools().await?;
        ensure!(
            refused.status == 401,
            "a key without a label was taken: {}",
            refused.status
        );
        self.stage.apply(PLATFORM, &labelled.to_string())?;
        let yes = ("True", None);
        self.stage
            .condition(PLATFORM, policy, "ResolvedRefs", yes)
            .await?;
        self.stage
            .condition(PLATFORM, policy, "Programmed", yes)
            .await?;
        let listed = self.stage.client(key)?.list_tools().await?.result()?;
        ensure!(
            listed["tools"]
                .as_array()
                .is_some_and(|tools| tools.len() == 2),
            "{listed}"
        );
        self.teller.say("with the label its client lists the tools")
    }

    fn named(&mut self, message: &serde_json::Value, word: &str) -> Result<()> {
        let message = message.as_str().unwrap_or_default().to_owned();
        ensure!(
            message.contains(word),
            "it does not name `{word}`: {message}"
        );
        self.quote(&message)
    }

    /// The last lines of an error, as a person sees them.
    fn quote(&mut self, text: &str) -> Result<()> {
        let lines: Vec<_> = text
            .lines()
            .filter(|line| !line.trim().is_empty())
            .collect();
        for line in lines.iter().rev().take(3).rev() {
            self.teller.say(line.trim())?;
        }
        Ok(())
    }
}
