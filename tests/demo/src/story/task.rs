//! The life of one task: handle, stranger, question, consent, result.

use std::collections::BTreeMap;
use std::io::Write;

use anyhow::{Context, Result, ensure};
use hangar_tests::client::Reply;
use hangar_tests::envelope::Envelope;
use serde_json::json;

use super::after::events;
use super::{SITE, Story, content, expect, short, text};

/// Of the same form as the upstream's ids, and never given out.
const NEVER: &str = "00000000-0000-4000-8000-000000000000";

/// Differs in any two answers by design, so that one request can be found in the logs.
const CORRELATION: &str = "hangar-correlation-id";

const NOT_FOUND: i64 = -32602;

// === impl Story ===

impl<W: Write> Story<'_, W> {
    pub(super) async fn handle(&mut self) -> Result<String> {
        self.teller
            .step("Task: a tool that takes its time answers with a handle")?;
        let (task, call) = self.start(3.0).await?;
        let name = self.owner.name();
        self.teller.say(format_args!(
            "{name}: tools/call crawl -> task {task}, working"
        ))?;
        let export = self.stage.export().await?;
        ensure!(export.contains(&task), "the store does not hold the task");
        expect(
            "events",
            &events(&export)?,
            &BTreeMap::from([("TaskCreated".to_owned(), 1)]),
        )?;
        self.teller
            .say("the store holds its owner and TaskCreated already")?;
        self.teller.paste(self.owner.curl(&call));
        self.teller
            .held("P1", "no handle leaves before both are durable")?;
        Ok(task)
    }

    pub(super) async fn foreign(&mut self, task: &str) -> Result<()> {
        self.teller
            .step("Foreign tenant: somebody else asks for that task")?;
        let before = self.stage.upstream.log().await?.about_tasks();
        let (foreign, unknown) = self.both(task, Envelope::get).await?;
        let (stranger, task_short, never) = (self.stranger.name(), short(task), short(NEVER));
        self.teller.say(format_args!(
            "{stranger}: tasks/get, update and cancel of {task_short} and of {never}, which never existed"
        ))?;
        self.teller.say(format_args!(
            "foreign: {} {}",
            foreign.status,
            text(&foreign)
        ))?;
        self.teller.say(format_args!(
            "unknown: {} {}",
            unknown.status,
            text(&unknown)
        ))?;
        let answer = json!({"publish": {"action": "accept", "content": {"publish": true}}});
        self.both(task, |id| Envelope::update(id, &answer)).await?;
        self.both(task, Envelope::cancel).await?;
        let after = self.stage.upstream.log().await?.about_tasks();
        expect("requests about tasks at the upstream", &after, &before)?;
        self.teller.paste(self.stranger.curl(&Envelope::get(task)));
        self.teller.paste(self.stranger.curl(&Envelope::get(NEVER)));
        self.teller.held(
            "P2",
            "the same bytes for both, and nothing of it reached the upstream",
        )
    }

    pub(super) async fn question(&mut self, task: &str) -> Result<String> {
        self.teller
            .step("Question: in the middle of its work the task asks its owner")?;
        let before = self.contracts_fetched().await?;
        let (key, message) = self.asked(task).await?;
        let fetched = self.contracts_fetched().await? - before;
        ensure!(
            fetched > 0,
            "the contract was not fetched before the question was shown"
        );
        self.teller.say(format_args!(
            "tasks/get -> input_required, `{key}`: {message}"
        ))?;
        self.teller.paste(self.owner.curl(&Envelope::get(task)));
        self.teller.held(
            "P3",
            "shown only after the tool's contract was fetched and compared again",
        )?;
        Ok(key)
    }

    pub(super) async fn consent(&mut self, task: &str, key: &str) -> Result<()> {
        self.teller.step("Consent: the owner says yes")?;
        let before = self.stage.upstream.log().await?.count("tasks/update");
        let accept = self.accept(task, key).await?;
        let after = self.stage.upstream.log().await?.count("tasks/update");
        expect("tasks/update at the upstream", &(after - before), &1)?;
        self.teller.say(format_args!(
            "tasks/update {{\"{key}\": accept}} -> acknowledged"
        ))?;
        let decided = events(&self.stage.export().await?)?
            .get("TaskConsentDecided")
            .copied();
        expect("TaskConsentDecided in the store", &decided, &Some(1))?;
        self.teller.say("the store holds TaskConsentDecided")?;
        self.teller.paste(self.owner.curl(&accept));
        self.teller.held(
            "P4",
            "recorded for this key and question, then relayed once",
        )
    }

    pub(super) async fn result(&mut self, task: &str) -> Result<()> {
        self.teller.step("Result: the task completes")?;
        let before = self.contracts_fetched().await?;
        let published = self.published(task).await?;
        let fetched = self.contracts_fetched().await? - before;
        ensure!(
            fetched > 0,
            "the contract was not fetched before the result was handed over"
        );
        self.teller
            .say(format_args!("tasks/get -> completed: {published}"))?;
        self.teller.paste(self.owner.curl(&Envelope::get(task)));
        self.teller.held(
            "P3",
            "handed over only after the contract was verified once more",
        )
    }

    /// Starts a crawl of so many seconds.
    pub(super) async fn start(&self, seconds: f64) -> Result<(String, Envelope)> {
        let call = Envelope::call("crawl", json!({"site": SITE, "seconds": seconds}));
        let result = self.owner.client.send(&call).await?.result()?;
        expect("resultType", &result["resultType"], &json!("task"))?;
        expect("status", &result["status"], &json!("working"))?;
        let task = result["taskId"]
            .as_str()
            .context("a handle without taskId")?;
        Ok((task.to_owned(), call))
    }

    /// Waits for the question of a crawl, and gives its key and its text.
    pub(super) async fn asked(&self, task: &str) -> Result<(String, String)> {
        let result = self.owner.client.until(task, "input_required").await?;
        let requests = result["inputRequests"]
            .as_object()
            .context("no inputRequests")?;
        expect("questions", &requests.len(), &1)?;
        let (key, request) = requests.iter().next().context("no question")?;
        let message = request["params"]["message"]
            .as_str()
            .context("a question without text")?;
        Ok((key.clone(), message.to_owned()))
    }

    pub(super) async fn accept(&self, task: &str, key: &str) -> Result<Envelope> {
        let answer = json!({key: {"action": "accept", "content": {"publish": true}}});
        let update = Envelope::update(task, &answer);
        let result = self.owner.client.send(&update).await?.result()?;
        expect(
            "the acknowledgement",
            &result["resultType"],
            &json!("complete"),
        )?;
        Ok(update)
    }

    pub(super) async fn published(&self, task: &str) -> Result<String> {
        let result = self.owner.client.until(task, "completed").await?;
        let text = content(&result["result"]).as_str().unwrap_or_default();
        expect(
            "the result",
            &text,
            &format!("the report of {SITE} is published").as_str(),
        )?;
        Ok(text.to_owned())
    }

    /// How often the upstream was asked for its tools.
    async fn contracts_fetched(&self) -> Result<u64> {
        Ok(self.stage.upstream.log().await?.count("tools/list"))
    }

    /// The stranger's request about this task and about one that never existed.
    async fn both(&self, task: &str, mk: impl Fn(&str) -> Envelope) -> Result<(Reply, Reply)> {
        let foreign = self.stranger.client.send(&mk(task)).await?;
        let unknown = self.stranger.client.send(&mk(NEVER)).await?;
        expect(
            "error code of the foreign task",
            &foreign.error_code()?,
            &NOT_FOUND,
        )?;
        ensure!(
            foreign.fingerprint(CORRELATION) == unknown.fingerprint(CORRELATION),
            "a foreign task can be told from an unknown one: {foreign:?} and {unknown:?}"
        );
        Ok((foreign, unknown))
    }
}
