//! `tools/list`: what the caller may call, and nothing else.
//!
//! Listing and calling never disagree: the same rules and the same pins decide both.

use std::sync::Arc;
use std::time::Instant;

use hangar_relay::list::{self, Shown, prefixed};
use hangar_relay::wire::WireError;

use super::{Answer, Call, is_task_only};
use crate::http::rescue;
use crate::upstream::contracts::Catalogue;
use crate::upstream::pins::{self, Verdict};

pub async fn run(call: &Call<'_>) -> Result<Answer, WireError> {
    call.admit()?;
    if call.params.cursor.is_some() {
        return Err(no_cursor());
    }
    let (catalogue, names) = approved(call).await?;
    let shown = shown(call, &catalogue, &names);
    Ok(Answer::result(call.request.id, &list::tools(shown, &[])))
}

/// This list is one page.
pub fn no_cursor() -> WireError {
    WireError::invalid_params("cursor is none of this list's")
}

/// The upstream's tools, and the names of those that this client may call.
pub async fn approved(call: &Call<'_>) -> Result<(Arc<Catalogue>, Vec<String>), WireError> {
    let catalogue = call
        .upstream
        .runtime
        .contracts
        .since(call.upstream, &call.active.http, Instant::now())
        .await
        .map_err(|error| call.unseen(&error))?;
    // No client of 2025-11-25 is given a task, and nobody where they are not relayed.
    let has_tasks = call.client.is_modern() && call.upstream.object.tasks.relay;
    let candidates = catalogue
        .tools
        .iter()
        .filter(|tool| call.allows(&tool.name) && tool.mirrors.is_ok())
        .filter(|tool| has_tasks || !is_task_only(call.upstream, tool));
    let candidates: Vec<_> = candidates.collect();
    let judged = pins::judge(call.gateway, call.upstream, &catalogue.tools, &candidates).await;
    let judged = judged.map_err(|error| rescue::store(&error))?;
    let names = candidates.iter().zip(judged);
    let names = names
        .filter(|(_, verdict)| *verdict == Verdict::Approved)
        .map(|(tool, _)| tool.name.clone())
        .collect();
    Ok((catalogue, names))
}

/// These tools as the client sees them.
pub fn shown<'t>(
    call: &Call<'_>,
    catalogue: &'t Catalogue,
    names: &'t [String],
) -> impl Iterator<Item = Shown<'t>> {
    let tools = names.iter().filter_map(|name| catalogue.tools.get(name));
    tools.map(|tool| Shown {
        tool,
        name: prefixed(call.prefix, &tool.name),
    })
}
