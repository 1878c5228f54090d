//! The story, step by step; a step that does not hold ends it.

mod after;
mod task;

use std::fmt::Debug;
use std::io::Write;

use anyhow::{Result, ensure};
use hangar_tests::client::{Client, Reply};
use hangar_tests::envelope::Envelope;
use hangar_tests::teller::Teller;
use serde_json::{Value, json};

use crate::curl;
use crate::quickstart::Caller;
use crate::stage::Stage;

/// Everything a step needs.
#[derive(Debug)]
pub(crate) struct Story<'a, W> {
    stage: &'a mut Stage,
    teller: &'a mut Teller<W>,
    owner: Voice,
    stranger: Voice,
}

/// One caller of the gateway.
#[derive(Debug)]
struct Voice {
    caller: Caller,
    client: Client,
    url: String,
}

/// The upstream of the quickstart.
const NAMESPACE: &str = "default";
const UPSTREAM: &str = "reports";

/// The principal that owns every task of the story.
const OWNER: &str = "alice";

/// An argument that must not be found in what the gateway keeps.
const SITE: &str = "intranet.example";

fn expect<T: PartialEq + Debug>(what: &str, got: &T, expected: &T) -> Result<()> {
    ensure!(
        got == expected,
        "{what}: expected {expected:?}, got {got:?}"
    );
    Ok(())
}

/// The first characters of an id, enough to tell two apart.
fn short(id: &str) -> String {
    let start: String = id.chars().take(8).collect();
    if start.len() == id.len() {
        start
    } else {
        start + "..."
    }
}

fn text(reply: &Reply) -> String {
    String::from_utf8_lossy(&reply.body).trim_end().to_owned()
}

/// The text of a tool's result.
fn content(result: &Value) -> &Value {
    &result["content"][0]["text"]
}

// === impl Voice ===

impl Voice {
    fn new(stage: &Stage, caller: &Caller) -> Self {
        let gateway = stage.gateway.mcp_address();
        let url = format!("http://{gateway}/mcp/{NAMESPACE}/{UPSTREAM}");
        Self {
            caller: caller.clone(),
            client: Client::new(&url).with_key(&caller.key),
            url,
        }
    }

    fn name(&self) -> String {
        let Caller {
            tenant, principal, ..
        } = &self.caller;
        format!("{principal} of {tenant}")
    }

    fn curl(&self, envelope: &Envelope) -> String {
        curl::mcp(&self.url, &self.caller.key, envelope)
    }
}

// === impl Story ===

impl<'a, W: Write> Story<'a, W> {
    pub(crate) fn new(stage: &'a mut Stage, teller: &'a mut Teller<W>) -> Result<Self> {
        let owner = stage.caller(OWNER)?;
        let stranger = stage.stranger_to(&owner.tenant)?;
        Ok(Self {
            owner: Voice::new(stage, owner),
            stranger: Voice::new(stage, stranger),
            stage,
            teller,
        })
    }

    /// All steps after the declaration.
    pub(crate) async fn play(&mut self) -> Result<()> {
        self.programmed().await?;
        self.called().await?;
        let task = self.handle().await?;
        self.foreign(&task).await?;
        let key = self.question(&task).await?;
        self.consent(&task, &key).await?;
        self.result(&task).await?;
        self.drift().await?;
        let before = self.counters().await?;
        self.restart().await?;
        self.metrics(&before).await?;
        self.chain().await
    }

    async fn programmed(&mut self) -> Result<()> {
        self.teller
            .step("Programmed: the operator compiled them and the gateway acknowledged")?;
        let tenants = [&self.owner.caller.tenant, &self.stranger.caller.tenant];
        let mut objects = vec![format!("McpUpstream/{NAMESPACE}/{UPSTREAM}")];
        objects.extend(tenants.map(|tenant| format!("TenantPolicy/{NAMESPACE}/{tenant}")));
        for object in &objects {
            let condition = self
                .stage
                .operator
                .condition(object, "Programmed", "True")
                .await?;
            let message = condition["message"].as_str().unwrap_or_default();
            self.teller
                .say(format_args!("{object}: Programmed=True {message}"))?;
        }
        self.stage.gateway.ready().await?;
        let status = self.stage.operator.state().join("status.json");
        self.teller.paste(format!("cat {}", status.display()));
        self.teller.held(
            "P10",
            "True means that every ready gateway holds exactly this object",
        )
    }

    async fn called(&mut self) -> Result<()> {
        self.teller
            .step("Called: each tenant calls a tool that answers at once")?;
        let greet = Envelope::call("greet", json!({"name": "Ada"}));
        for voice in [&self.owner, &self.stranger] {
            let result = voice.client.send(&greet).await?.result()?;
            let greeting = content(&result);
            expect("the greeting", greeting, &json!("Hello, Ada!"))?;
            let name = voice.name();
            self.teller.say(format_args!(
                "{name}: tools/call greet {{\"name\":\"Ada\"}} -> {greeting}"
            ))?;
        }
        let log = self.stage.upstream.log().await?;
        expect("tools/call at the upstream", &log.count("tools/call"), &2)?;
        expect(
            "requests at the upstream that carry a credential",
            &log.with_credential,
            &0,
        )?;
        self.teller.paste(self.owner.curl(&greet));
        self.teller
            .paste(format!("curl -s {}", self.stage.upstream.log_url()));
        self.teller.held(
            "P12",
            "the API keys ended at the gateway, the upstream got 0 credentials",
        )
    }
}
