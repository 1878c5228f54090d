//! `tools/list`: what the caller may call, and nothing else.
//!
//! Listing and calling never disagree: the same rules and the same pins decide both.

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
    let candidates = catalogue
        .tools
        .values()
        .filter(|tool| call.allows(&tool.name) && usable(tool));
    // Judged together: first sights then share their commits.
    let judged = candidates.map(async |tool| {
        let gateway = call.gateway;
        let verdict = pins::judge(&*gateway.store, &gateway.class, call.upstream, tool).await?;
        Ok::<_, hangar_store::Error>((tool, verdict))
    });
    let judged = futures::future::try_join_all(judged)
        .await
        .map_err(|error| rescue::store(&error))?;
    let shown = judged
        .into_iter()
        .filter(|(_, verdict)| *verdict == Verdict::Approved)
        .map(|(tool, _)| Shown {
            tool,
            name: prefixed(call.prefix, &tool.name),
        });
    Ok(Answer::result(call.request.id, &list::tools(shown)))
}
