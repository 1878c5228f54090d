//! `server/discover`: what the upstream announces, as far as it is served here.

use bytes::Bytes;
use hangar_relay::TasksExtension;
use hangar_relay::announce::{self, Announced, Said};
use hangar_relay::envelope::Reply;
use hangar_relay::wire::WireError;
use hangar_wire::Admission;

use super::relay::breach;
use super::{Answer, Call, Outcome, routing};
use crate::http::rescue;

pub async fn run(call: &Call<'_>) -> Result<Answer, WireError> {
    call.admit()?;
    let headers = routing(call.method, None, Vec::new());
    let message = call
        .exchange(headers, Bytes::clone(call.body))
        .await
        .map_err(|failure| rescue::exchange(&failure))?;
    let relayed = call.read(&message)?;
    let Reply::Result(result) = &relayed.reply else {
        let outcome = Outcome::RpcError;
        return Ok(Answer::relayed(call.request.id, &relayed, outcome));
    };
    let announced = Announced::read(result).map_err(|error| breach(call, result, error))?;
    let said = Said {
        heading: None,
        announced,
        tasks: tasks(call),
    };
    let answer = announce::discover(&[said], &[]);
    Ok(Answer::result(call.request.id, &answer))
}

/// Whether a task may be born at this upstream.
pub fn tasks(call: &Call<'_>) -> TasksExtension {
    let relays = call.upstream.object.tasks.relay && call.admission() == Admission::Open;
    if relays {
        TasksExtension::Forward
    } else {
        TasksExtension::Withhold
    }
}
