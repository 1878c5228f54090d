//! `tasks/cancel`: passed on and acknowledged. The acknowledgement is always empty and claims no
//! outcome; only a later `tasks/get` says how the task ended, or, in 2025-11-25, the upstream's answer.

use hangar_ledger::{Command, Millis, Snapshot, TaskId, TaskKey};
use hangar_relay::envelope::Reply;
use hangar_relay::legacy::Era;
use hangar_relay::method::Method;
use hangar_relay::task::{self, Status};
use hangar_relay::wire::{self, Kind, WireError};

use super::governor::Governor;
use super::observe::ledger_snapshot;
use super::section::Section;
use super::{Answer, Call};
use crate::config::Upstream;
use crate::upstream::era;

pub async fn run(call: &Call<'_>) -> Result<Answer, WireError> {
    let task = call.task_id()?;
    call.section()
        .detached(move |section| cancel(section, task))
        .await
}

async fn cancel(section: Section, task: TaskId) -> Result<Answer, WireError> {
    let (entry, role) = section.find(&task).await?.into_parts();
    if !role.reads() {
        section.count_refusal(Method::TasksCancel, Kind::Denied.reason());
        return Err(Kind::Denied.into());
    }
    let ack = Answer::result(&section.id, &wire::ack());
    if !entry.is_live() {
        return Ok(ack);
    }
    let (key, owner) = (entry.key.clone(), entry.birth.owner.clone());
    let decided = section
        .governor
        .decide(&key, Some(entry), vec![Command::CancelRequested])
        .await;
    if decided.is_err() {
        // A cancel makes nothing worse: it goes on even where it cannot be noted.
        tracing::warn!(correlation = section.correlation(), "cancel is not noted");
        section.governor.cancel(&section.upstream, task, &owner);
    }
    Ok(ack)
}

/// Takes the answer to a cancel that began at `began` for the end of its task, where the upstream's
/// revision makes it one: a task of 2025-11-25 is cancelled when the upstream says so.
pub async fn answered(
    governor: &Governor,
    upstream: &Upstream,
    task: &TaskId,
    began: Millis,
    snapshot: Snapshot,
) {
    if era::of(upstream) != Some(Era::Legacy) {
        return;
    }
    let key = TaskKey::new(upstream.uid.clone(), task.clone());
    let entry = match governor.gateway.store.get(&key).await {
        Ok(Some(entry)) => entry,
        // It was never given out.
        Ok(None) => return,
        Err(error) => return governor.store_failed(&error),
    };
    let command = Command::Sync { snapshot, began };
    let decided = governor.decide(&key, Some(entry), vec![command]).await;
    if decided.is_err() {
        tracing::warn!(
            correlation = governor.correlation,
            upstream = upstream.label,
            "end of a cancelled task is not noted: the next poll will see it"
        );
    }
}

/// What the answer to the cancel of this task says, if it is that the task is cancelled.
pub fn cancelled(reply: &Reply<'_>, task: &TaskId) -> Option<Snapshot> {
    let Reply::Result(result) = reply else {
        return None;
    };
    let polled = task::polled(result, task.as_str()).ok()?;
    let is_cancelled = polled.snapshot.status == Status::Cancelled;
    is_cancelled.then(|| ledger_snapshot(polled.snapshot))?
}
