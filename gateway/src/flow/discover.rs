//! `server/discover`: the upstream's instructions, our capabilities.

use bytes::Bytes;
use hangar_relay::envelope::Reply;
use hangar_relay::json::Members;
use hangar_relay::method::Method;
use hangar_relay::wire::{Kind, WireError};
use hangar_relay::{TASKS_EXTENSION, TasksExtension, list};
use hangar_wire::Admission;

use super::{Answer, Call, Outcome, Relayed, routing};
use crate::http::rescue;

pub async fn run(call: &Call<'_>) -> Result<Answer, WireError> {
    call.admit()?;
    let headers = routing(Method::Discover, None, Vec::new());
    let message = call
        .exchange(headers, Bytes::clone(call.body))
        .await
        .map_err(|failure| rescue::exchange(&failure))?;
    let relayed = Relayed::read(&message, call.request.id)?;
    let result = match &relayed.reply {
        Reply::Result(result) => *result,
        Reply::Error(_) => {
            return Ok(Answer::relayed(
                call.request.id,
                &relayed,
                Outcome::RpcError,
            ));
        }
    };
    let members = Members::of(result).map_err(|_| Kind::UpstreamProtocol)?;
    members
        .guard(&["capabilities", "instructions"])
        .map_err(|_| Kind::UpstreamProtocol)?;
    let relays = call.upstream.object.tasks.relay && call.admission() == Admission::Open;
    let tasks = if relays && has_tasks(&members) {
        TasksExtension::Forward
    } else {
        TasksExtension::Withhold
    };
    let instructions = members.string("instructions");
    let answer = list::discover(tasks, instructions.as_deref());
    Ok(Answer::result(call.request.id, &answer))
}

fn has_tasks(discovered: &Members<'_>) -> bool {
    let inner =
        |members: &Members<'_>, name: &str| members.get(name).map(|raw| raw.get().to_owned());
    inner(discovered, "capabilities")
        .and_then(|text| inner(&Members::parse(&text).ok()?, "extensions"))
        .is_some_and(|text| {
            Members::parse(&text).is_ok_and(|members| members.get(TASKS_EXTENSION).is_some())
        })
}
