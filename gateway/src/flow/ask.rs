//! `tasks/get` at the upstream, for whoever asks about one task at one time.

use std::time::{Duration, Instant};

use hangar_ledger::{Entry, Status};
use hangar_relay::envelope::{self, Reply};
use hangar_relay::method::Method;
use hangar_relay::rewrite::{MetaOf, Own};
use hangar_relay::wire::WireError;
use serde_json::value::RawValue;

use super::Call;
use super::section::Section;
use crate::limit::held::Share;
use crate::upstream::exchange::Failure;
use crate::upstream::polls::{self, Told};

/// What the upstream is told about the client that asks.
#[derive(Debug)]
pub struct Asker {
    /// `_meta` of the client's request.
    pub meta: Box<RawValue>,
    pub capabilities: Box<RawValue>,
    _share: Share,
}

/// What the upstream's answer may take.
const TIMEOUT: Duration = Duration::from_secs(5);

// === impl Asker ===

impl Asker {
    /// Copies what is told, which counts as held; refused where there is no room for it.
    pub fn of(call: &Call<'_>) -> Result<Self, WireError> {
        let meta = &call.params.meta;
        let (meta, capabilities) = (meta.raw, meta.capabilities.raw);
        let share = call.share(meta.get().len() + capabilities.get().len())?;
        Ok(Self {
            meta: meta.to_owned(),
            capabilities: capabilities.to_owned(),
            _share: share,
        })
    }
}

/// Asks the upstream, together with whoever asks the same at the same time.
pub async fn ask(section: &Section, entry: &Entry, asker: &Asker) -> polls::Outcome {
    let task = &entry.key.task;
    let (patience, tenant) = (&section.upstream.runtime.patience, section.tenant_label());
    let send = || async {
        if let Some(left) = patience.left(tenant, Instant::now()) {
            let retry_after = Some(left);
            return Err(Failure::Throttled { retry_after });
        }
        let own = Own {
            id: &section.id,
            meta: MetaOf::Client(&asker.meta),
        };
        let body = own.tasks_get(task.as_str()).into();
        let (began, sent) = (section.governor.gateway.store.now(), Instant::now());
        let exchange = section.exchange(Method::TasksGet, entry, body, TIMEOUT);
        let message = exchange.await.inspect_err(|failure| {
            heed(section, failure.retry_after());
            tracing::warn!(
                correlation = section.correlation(),
                upstream = section.upstream.label,
                reason = failure.reason(),
                "upstream cannot be asked about a task"
            );
        })?;
        Ok(Told {
            message,
            id: section.id.clone(),
            began,
            sent,
            arrived: Instant::now(),
        })
    };
    let polls = &section.upstream.runtime.polls;
    polls.ask(task, &asker.capabilities, send).await
}

/// Leaves the upstream alone for so many seconds, where it asked for them.
pub fn heed(section: &Section, retry_after: Option<u64>) {
    if let Some(seconds) = retry_after {
        let patience = &section.upstream.runtime.patience;
        patience.ask_for(section.tenant_label(), seconds, Instant::now());
    }
}

/// What the upstream answered, if it is a reply at all.
pub fn reply(told: &Told) -> Result<Reply<'_>, envelope::Error> {
    let (reply, _) = envelope::parse_reply(&told.message, &told.id)?;
    Ok(reply)
}

/// Takes note of a task that goes on, so that a poll before its time is not passed on. What is told
/// from memory is no contact with the upstream: it lasts half a retention at most, so that a task which
/// is polled is never evicted. Assumes that the entry is as it was decided on what was told.
pub fn note(section: &Section, entry: &Entry, told: &Told) {
    if entry.status() == Status::Working
        && let Some(interval) = entry.snapshot.poll_interval_ms
    {
        let polls = &section.upstream.runtime.polls;
        let interval = Duration::from_millis(interval.min(entry.birth.retention_ms / 2));
        let owner = &entry.birth.owner;
        polls.went_on(owner, &entry.key.task, told.sent, interval);
    }
}
