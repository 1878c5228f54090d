//! Methods that are relayed without a ledger: prompts, resources, completions, and their lists.
//!
//! Only names and cache hints are the gateway's; rounds of questions (`input_required`,
//! `requestState`) are opaque and pass both ways.

use std::borrow::Cow;

use bytes::Bytes;
use hangar_relay::envelope::Reply;
use hangar_relay::list::unprefixed;
use hangar_relay::params::Reference;
use hangar_relay::wire::{Kind, WireError};
use hangar_relay::{rewrite, surface, task};
use serde_json::value::RawValue;

use super::register::{self, abandon};
use super::{Answer, Call, Outcome, routing};
use crate::http::rescue;

pub async fn run(call: &Call<'_>) -> Result<Answer, WireError> {
    call.admit()?;
    let (name, body) = for_upstream(call)?;
    let headers = routing(call.method, name, Vec::new());
    let message = call
        .exchange(headers, body)
        .await
        .map_err(|failure| rescue::exchange(&failure))?;
    let relayed = call.read(&message)?;
    let Reply::Result(result) = &relayed.reply else {
        let outcome = Outcome::RpcError;
        return Ok(Answer::relayed(call.request.id, &relayed, outcome));
    };
    let governed = surface::govern(call.method, result, call.prefix)
        .map_err(|error| breach(call, result, error))?;
    Ok(match governed {
        Cow::Borrowed(_) => Answer::relayed(call.request.id, &relayed, Outcome::Ok),
        Cow::Owned(text) => Answer::result_text(call.request.id, &text),
    })
}

/// The answer to a result that its method cannot have. A task is told to stop: nobody governs it.
pub fn breach(call: &Call<'_>, result: &RawValue, error: surface::Error) -> WireError {
    if let Some(suspected) = task::suspected_id(result) {
        register::count_failure(call, error.reason());
        abandon(call.section(), &suspected);
    }
    WireError::from(Kind::UpstreamProtocol).because(error)
}

/// What `Mcp-Name` mirrors on the upstream's side, and the body with the upstream's own name.
fn for_upstream<'c>(call: &'c Call<'_>) -> Result<(Option<&'c str>, Bytes), WireError> {
    let params = call.params;
    let unchanged = || Bytes::clone(call.body);
    if let Some(Reference::Prompt { name, raw }) = &params.reference {
        let own = unprefixed(call.prefix, name).ok_or(Kind::UnknownPrompt)?;
        return Ok((None, renamed(call, raw, own)));
    }
    match (params.name.as_deref(), params.members.get("name")) {
        (Some(shown), Some(raw)) => {
            let own = unprefixed(call.prefix, shown).ok_or(Kind::UnknownPrompt)?;
            Ok((Some(own), renamed(call, raw, own)))
        }
        _ => Ok((params.mirrored_name(), unchanged())),
    }
}

fn renamed(call: &Call<'_>, member: &RawValue, name: &str) -> Bytes {
    match rewrite::with_text(call.request.body, member, name) {
        Cow::Borrowed(_) => Bytes::clone(call.body),
        Cow::Owned(text) => text.into(),
    }
}
