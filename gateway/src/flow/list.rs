//! `tools/list`: what the caller may call, and nothing else.
//!
//! Listing and calling never disagree: the same rules and the same pins decide both.

use std::borrow::Cow;
use std::time::Instant;

use hangar_relay::list::{self, Shown, prefixed};
use hangar_relay::wire::WireError;

use super::{Answer, Call, usable};
use crate::http::rescue;
use crate::upstream::pins::{self, Verdict};

pub async fn run(call: &Call<'_>) -> Result<Answer, WireError> {
    call.admit()?;
    if call.params.cursor.is_some() {
        return Err(WireError::invalid_params("cursor is none of this list's"));
    }
    let catalogue = call
        .upstream
        .runtime
        .contracts
        .since(call.upstream, &call.active.http, Instant::now())
        .await
        .map_err(|error| rescue::contract(&error))?;
    let mut shown = Vec::new();
    for tool in catalogue.tools.values() {
        if !call.allows(&tool.name) || !usable(tool) {
            continue;
        }
        let gateway = call.gateway;
        let verdict = pins::judge(&*gateway.store, &gateway.class, call.upstream, tool)
            .await
            .map_err(|error| rescue::store(&error))?;
        match verdict {
            Verdict::Approved => shown.push(Shown {
                tool,
                name: match prefixed(call.prefix, &tool.name) {
                    Cow::Borrowed(name) => Cow::Borrowed(name),
                    Cow::Owned(name) => Cow::Owned(name),
                },
            }),
            Verdict::Drifted | Verdict::NotPinned => {}
        }
    }
    Ok(Answer::result(call.request.id, &list::tools(shown)))
}
