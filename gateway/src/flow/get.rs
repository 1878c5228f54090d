//! `tasks/get`: status, and the payload once the contract is verified.

use hangar_ledger::{Entry, Sight, TaskId};
use hangar_relay::method::Method;
use hangar_relay::wire::WireError;
use hangar_wire::Admission;

use super::access::Role;
use super::ask::Asker;
use super::observe::{Observed, from_ledger, observe, settled, still_working};
use super::section::Section;
use super::{Answer, Call, Outcome, Relayed, wire_status};
use crate::upstream::polls::Told;

pub async fn run(call: &Call<'_>) -> Result<Answer, WireError> {
    let task = call.task_id()?;
    let (asker, admission) = (Asker::of(call)?, call.admission());
    call.section()
        .detached(move |section| get(section, task, asker, Why::Poll(admission)))
        .await
}

/// Why the state of a task is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The client asks. It may ask sooner than the upstream wants to be asked.
    Poll(Admission),
    /// The upstream says that there is news.
    News,
}

/// The state of a task as this client may see it.
pub async fn get(
    section: Section,
    task: TaskId,
    asker: Asker,
    why: Why,
) -> Result<Answer, WireError> {
    let (entry, role) = section.find(&task).await?.into_parts();
    if let Some(answer) = settled(&section.id, &entry) {
        return Ok(answer);
    }
    if let Some(error) = withheld(&section, &entry) {
        return Err(refused(&section, error));
    }
    match why {
        Why::Poll(Admission::Closed) => return Ok(from_ledger(&section, &entry, None)),
        Why::Poll(Admission::Open | Admission::NoNewTasks) => {
            let polls = &section.upstream.runtime.polls;
            if let Some(answer) = polls
                .working_since(&entry.birth.owner, &task)
                .and_then(|age| still_working(&section, &entry, age))
            {
                return Ok(answer);
            }
        }
        Why::News => {}
    }
    let sight = if role.answers() {
        Sight::Shown
    } else {
        Sight::Compared
    };
    match observe(&section, entry, &asker, sight).await? {
        Observed::Current { entry, told } => deliver(&section, &entry, role, &told),
        Observed::Settled { entry } => {
            if let Some(answer) = settled(&section.id, &entry) {
                return Ok(answer);
            }
            let status = Some(wire_status(entry.status()));
            let error = match entry.mismatch_at {
                Some(_) => refused(&section, WireError::withheld(status)),
                None => WireError::unavailable(status),
            };
            Ok(Answer::refused(Some(&section.id), &error))
        }
        Observed::Unavailable { entry, retry_after } => {
            Ok(from_ledger(&section, &entry, retry_after))
        }
    }
}

/// Who may only answer sees status and questions, not the outcome.
fn deliver(section: &Section, entry: &Entry, role: Role, told: &Told) -> Result<Answer, WireError> {
    if entry.latch.is_some() && !role.reads() {
        let error = WireError::withheld(Some(wire_status(entry.status())));
        return Err(refused(section, error));
    }
    let relayed = Relayed::told(told, &section.id)?;
    Ok(Answer::relayed(&section.id, &relayed, Outcome::Ok))
}

fn refused(section: &Section, error: WireError) -> WireError {
    section.count_refusal(Method::TasksGet, error.reason);
    error
}

/// A tool that the policy no longer allows keeps its output to itself; its task can be cancelled.
pub fn withheld(section: &Section, entry: &Entry) -> Option<WireError> {
    let tool = &entry.birth.tool;
    let allowed = section.upstream.rules.allows(tool) && section.grant.rules.allows(tool);
    (!allowed).then(|| WireError::withheld(Some(wire_status(entry.status()))))
}
