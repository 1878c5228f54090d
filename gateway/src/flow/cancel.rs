//! `tasks/cancel`: passed on and acknowledged. The acknowledgement is always empty and claims no
//! outcome; only a later `tasks/get` says how the task ended.

use bytes::Bytes;
use hangar_ledger::{Command, TaskId};
use hangar_relay::method::Method;
use hangar_relay::wire::{self, Kind, WireError};

use super::section::{Found, Section};
use super::{Answer, Call};

/// Longest time that a client waits for the upstream's acknowledgement.
const TIMEOUT: std::time::Duration = std::time::Duration::from_secs(5);

pub async fn run(call: &Call<'_>) -> Result<Answer, WireError> {
    let task = call.task_id()?;
    let body = Bytes::clone(call.body);
    call.section()
        .detached(move |section| cancel(section, task, body))
        .await
}

async fn cancel(section: Section, task: TaskId, body: Bytes) -> Result<Answer, WireError> {
    let Found { entry, role } = section.find(Method::TasksCancel, &task).await?;
    if !role.reads() {
        section.count_refusal(Method::TasksCancel, Kind::Denied.reason());
        return Err(Kind::Denied.into());
    }
    let entry = section
        .at_this_time(entry)
        .await?
        .ok_or(Kind::TaskNotFound)?;
    let ack = Answer::result(&section.id, &wire::ack());
    if !entry.is_live() {
        return Ok(ack);
    }
    let key = entry.key.clone();
    if let Err(undecided) = section
        .decide(&key, Some(entry), vec![Command::CancelRequested])
        .await
    {
        // A cancel makes nothing worse: it goes on even where it cannot be noted.
        let error = section.undecided(undecided);
        tracing::warn!(
            correlation = section.correlation,
            reason = error.reason,
            "cancel is not noted"
        );
    }
    let id = section.id.clone();
    let sent = section
        .exchange(Method::TasksCancel, &task, body, &id, TIMEOUT)
        .await;
    if let Err(failure) = sent {
        let (correlation, upstream) = (&section.correlation, &section.upstream.label);
        tracing::warn!(
            correlation,
            upstream,
            reason = failure.reason(),
            "upstream did not take the cancel"
        );
    }
    Ok(ack)
}
