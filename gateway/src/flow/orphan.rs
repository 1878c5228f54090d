//! A task whose way in is gone: its grant was taken away, or its upstream.
//!
//! ```text
//! grant gone    -> cancelled as ever; status, and no output
//! upstream gone -> buried: failed for good    not buried: not now, nothing is concluded
//! ```
//! Guarantees: only the owner's own tasks are found, whatever was shared before; a foreign task and
//! an absent one are the same miss.

use std::sync::Arc;

use hangar_ledger::{Entry, TaskId};
use hangar_relay::method::Method;
use hangar_relay::policy::Rules;
use hangar_relay::wire::{self, Kind, WireError};
use hangar_store::Error as StoreError;
use hangar_wire::{ToolRules, Visibility};
use serde_json::value::RawValue;

use super::governor::{Governor, Undecided};
use super::observe::settled;
use super::persistent::Persistent;
use super::{Answer, wire_status};
use crate::config::active::Caller;
use crate::config::{Active, Grant, OTHER, Upstream};
use crate::gateway::Gateway;

/// An own task that no grant leads to.
#[derive(Debug)]
pub enum Orphan {
    /// Its upstream is there; the grant lets nothing of it out.
    Revoked(Arc<Grant>, Arc<Upstream>),
    /// Its upstream is not.
    Stranded(Box<Entry>),
}

/// Where it is looked for.
#[derive(Clone, Copy, Debug)]
pub enum At<'a> {
    /// The endpoint of one upstream.
    Upstream { namespace: &'a str, name: &'a str },
    /// The endpoint of a tenant.
    Tenant,
}

/// The only such task of this id. Assumes that no grant led to it.
pub async fn find(
    gateway: &Gateway,
    active: &Active,
    caller: &Caller,
    at: At<'_>,
    task: &TaskId,
) -> Result<Option<Orphan>, StoreError> {
    let own = gateway.store.own(&caller.owner, task).await?;
    let mut orphans = own.into_iter().filter(|entry| {
        let is_here = match at {
            At::Upstream { namespace, name } => {
                entry.birth.upstream.split_once('/') == Some((namespace, name))
            }
            At::Tenant => true,
        };
        is_here && !is_granted(active, caller, entry)
    });
    let (Some(entry), None) = (orphans.next(), orphans.next()) else {
        return Ok(None);
    };
    let upstream = active.upstream_by_uid(&entry.key.upstream);
    Ok(match upstream.and_then(|it| Some((revoked(it)?, it))) {
        Some((grant, upstream)) => Some(Orphan::Revoked(grant, Arc::clone(upstream))),
        None => Some(Orphan::Stranded(Box::new(entry))),
    })
}

/// What is said of a task whose upstream is not in force.
pub async fn answer(
    governor: Governor,
    caller: Caller,
    entry: Entry,
    method: Method,
    id: Box<RawValue>,
) -> Result<Answer, WireError> {
    let gateway = Arc::clone(&governor.gateway);
    let section = Persistent::new(&gateway.sections, async move {
        stranded(&governor, &caller, entry, method, &id).await
    });
    section.await.unwrap_or_else(|error| {
        tracing::error!(%error, "a governance section ended early");
        Err(Kind::Internal.into())
    })
}

async fn stranded(
    governor: &Governor,
    caller: &Caller,
    entry: Entry,
    method: Method,
    id: &RawValue,
) -> Result<Answer, WireError> {
    let unavailable = |entry: &Entry| WireError::unavailable(Some(wire_status(entry.status())));
    // Born under a configuration that this replica does not hold yet: it decides nothing.
    if entry.birth.term > governor.active.term() {
        return Err(unavailable(&entry));
    }
    let decided = governor.at_this_time(entry).await;
    let entry = decided.map_err(Undecided::into_answer)?;
    let entry = entry.ok_or(Kind::TaskNotFound)?;
    if entry.is_live() {
        return Err(unavailable(&entry));
    }
    let refused = match method {
        Method::TasksCancel => return Ok(Answer::result(id, &wire::ack())),
        Method::TasksUpdate => Kind::Denied.into(),
        _ => match settled(id, &entry) {
            Some(answer) => return Ok(answer),
            None => WireError::withheld(Some(wire_status(entry.status()))),
        },
    };
    let tenant = caller.tenant.object.tenant.as_str();
    let labels = [tenant, OTHER, method.as_str(), refused.reason];
    let refusals = &governor.gateway.metrics.refusals;
    refusals.with_label_values(&labels).inc();
    Err(refused)
}

fn is_granted(active: &Active, caller: &Caller, entry: &Entry) -> bool {
    let mut granted = caller
        .tenant
        .grants
        .iter()
        .filter_map(|grant| active.upstream(grant));
    granted.any(|upstream| upstream.uid == entry.key.upstream)
}

/// A grant that allows no tool, shares nothing and lets no question be answered.
fn revoked(upstream: &Upstream) -> Option<Arc<Grant>> {
    let tools = ToolRules {
        allow: Vec::new(),
        deny: Vec::new(),
    };
    let rules = Rules::compile(&tools).ok()?;
    Some(Arc::new(Grant {
        object: hangar_wire::Grant {
            name: String::new(),
            upstream_namespace: upstream.object.namespace.clone(),
            upstream_name: upstream.object.name.clone(),
            prefix: String::new(),
            tools,
            visibility: Visibility::Owner,
            consent: None,
        },
        rules,
        label: OTHER.to_owned(),
    }))
}
