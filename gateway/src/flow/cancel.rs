//! `tasks/cancel`: passed on and acknowledged. The acknowledgement is always empty and claims no
//! outcome; only a later `tasks/get` says how the task ended.

use hangar_ledger::{Command, TaskId};
use hangar_relay::method::Method;
use hangar_relay::wire::{self, Kind, WireError};

use super::section::Section;
use super::{Answer, Call};

pub async fn run(call: &Call<'_>) -> Result<Answer, WireError> {
    let task = call.task_id()?;
    call.section()
        .detached(move |section| cancel(section, task))
        .await
}

async fn cancel(section: Section, task: TaskId) -> Result<Answer, WireError> {
    let (entry, role) = section.find(Method::TasksCancel, &task).await?.into_parts();
    if !role.reads() {
        section.count_refusal(Method::TasksCancel, Kind::Denied.reason());
        return Err(Kind::Denied.into());
    }
    let entry = section.at_this_time(entry).await?;
    let ack = Answer::result(&section.id, &wire::ack());
    if !entry.is_live() {
        return Ok(ack);
    }
    section.upstream.runtime.polls.forget(&task);
    let key = entry.key.clone();
    let decided = section
        .governor
        .decide(&key, Some(entry), vec![Command::CancelRequested])
        .await;
    if decided.is_err() {
        // A cancel makes nothing worse: it goes on even where it cannot be noted.
        tracing::warn!(correlation = section.correlation(), "cancel is not noted");
        section.governor.cancel(&section.upstream, task);
    }
    Ok(ack)
}
