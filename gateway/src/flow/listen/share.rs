//! Which upstream has which part in a subscription.
//!
//! Guarantees: a task id that is unknown and one that is somebody else's are left out alike, and no
//! upstream hears of either.

use hangar_ledger::TaskId;
use hangar_relay::listen::Filter;
use hangar_relay::method::Method;
use hangar_relay::wire::{Kind, WireError};

use crate::flow::access;
use crate::flow::get::withheld;
use crate::flow::merged::Merged;

/// What is asked of each upstream, in the order of the calls.
pub(super) async fn of(merged: &Merged<'_>) -> Result<Vec<Filter>, WireError> {
    let asked = merged
        .calls
        .first()
        .and_then(|call| call.params.filter.as_ref());
    let asked = asked.cloned().unwrap_or_default();
    let lists = Filter {
        lists: asked.lists,
        ..Filter::default()
    };
    let mut shares = vec![lists; merged.calls.len()];
    let uris: Vec<&str> = asked.uris.iter().map(String::as_str).collect();
    for (uri, owner) in uris.iter().zip(merged.owners(&uris).await) {
        if let Some(index) = owner {
            shares[index].uris.insert((*uri).to_owned());
        }
    }
    for id in &asked.tasks {
        if let Some(index) = place(merged, id).await? {
            shares[index].tasks.insert(id.clone());
        }
    }
    Ok(shares)
}

/// The upstream of a task that the client may be told of, as `tasks/get` would find it.
async fn place(merged: &Merged<'_>, id: &str) -> Result<Option<usize>, WireError> {
    let Ok(task) = TaskId::try_from(id.to_owned()) else {
        return Ok(None);
    };
    let index = match merged.calls.as_slice() {
        [_] => Some(0),
        several => {
            let grants: Vec<_> = several
                .iter()
                .map(|call| (&**call.grant, &call.upstream.uid))
                .collect();
            let call = &several[0];
            access::place(call.gateway, call.caller, &grants, &task)
                .await
                .map_err(|error| call.section().store_failed(&error))?
        }
    };
    let Some(index) = index else {
        return Ok(None);
    };
    let section = merged.calls[index].section();
    match section.find(&task).await {
        Ok(found) => {
            let (entry, _) = found.into_parts();
            Ok(withheld(&section, &entry).is_none().then_some(index))
        }
        // The store failed: what is whose is not known.
        Err(error) if error.kind == Kind::Internal => Err(error),
        Err(error) => {
            section.count_refusal(Method::Listen, error.reason);
            Ok(None)
        }
    }
}
