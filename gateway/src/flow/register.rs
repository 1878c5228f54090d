//! A task is born: entry and `TaskCreated` are durable before its handle leaves.
//!
//! Where it may not be born after all, the client gets an error and the upstream a cancel, unless
//! the id belongs to an entry: then it is somebody's live task and must not be touched.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use bytes::Bytes;
use hangar_ledger::{Ability, Command, Entry, Refusal, TaskId, TaskKey, ToolDigest, UpstreamUid};
use hangar_relay::wire::{Kind, WireError};
use hangar_store::{Error as StoreError, Reach};
use tokio::sync::{Mutex, MutexGuard};

use super::governor::{Decided, Undecided};
use super::observe::ledger_snapshot;
use super::section::Section;
use super::{Answer, Call, Outcome, Relayed};

/// What the upstream was told about tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    Made,
    /// The client cannot handle one.
    NotDeclared,
    /// One would be refused, for this reason.
    Withheld(Kind),
}

/// A handle as the upstream gave it.
#[derive(Debug)]
pub struct Birth {
    pub tool: String,
    pub digest: ToolDigest,
    pub snapshot: hangar_relay::task::Snapshot,
    pub offer: Offer,
    /// What the client declared beside tasks.
    pub declared: BTreeSet<Ability>,
    /// All upstreams of the endpoint where there are several: one id must lead to one task there.
    pub beside: Vec<UpstreamUid>,
    /// The upstream's message, handed over as it came.
    pub message: Bytes,
}

/// Births at endpoints of several upstreams, one at a time for each id: two upstreams that mint the
/// same id at once must see each other.
#[derive(Debug)]
pub struct Births(Vec<Mutex<()>>);

/// Ids share a lock by their hash, few enough that a birth seldom waits for another's commit.
const SHARDS: usize = 64;

// === impl Births ===

impl Births {
    async fn alone(&self, task: &TaskId) -> MutexGuard<'_, ()> {
        let mut hasher = DefaultHasher::new();
        task.as_str().hash(&mut hasher);
        let shards = self.0.len() as u64;
        let shard = usize::try_from(hasher.finish() % shards).unwrap_or(0);
        self.0[shard].lock().await
    }
}

impl Default for Births {
    fn default() -> Self {
        Self((0..SHARDS).map(|_| Mutex::default()).collect())
    }
}

pub async fn run(section: Section, birth: Birth) -> Result<Answer, WireError> {
    section
        .detached(move |section| register(section, birth))
        .await
}

/// Cancels a task that was not given out, unless an entry has its id.
pub fn abandon(section: Section, task: &str) {
    let Ok(task) = TaskId::try_from(task.to_owned()) else {
        return;
    };
    let gateway = Arc::clone(&section.governor.gateway);
    gateway.sections.spawn(async move {
        let store = &section.governor.gateway.store;
        let now = store.now();
        match store.get(&section.key(&task)).await {
            Ok(entry) if entry.as_ref().is_none_or(|entry| entry.gone_at() <= now) => {
                let owner = &section.caller.owner;
                section.governor.cancel(&section.upstream, task, owner);
            }
            Ok(_) => {}
            Err(error) => {
                // Not known whose task it is: leaving it to its TTL harms nobody.
                section.store_failed(&error);
            }
        }
    });
}

/// Counts a handle that was no handle.
pub fn count_failure(call: &Call<'_>, reason: &str) {
    call.gateway
        .metrics
        .registration_failures
        .with_label_values(&[&call.caller.tenant.object.tenant, &call.grant.label, reason])
        .inc();
}

async fn register(section: Section, birth: Birth) -> Result<Answer, WireError> {
    let Birth {
        tool,
        digest,
        snapshot,
        offer,
        declared,
        beside,
        message,
    } = birth;
    let task_id = snapshot.task_id.clone();
    let refused = match offer {
        Offer::Made => None,
        Offer::NotDeclared => Some(WireError::missing_tasks()),
        Offer::Withheld(kind) => Some(kind.into()),
    };
    if let Some(error) = refused {
        return Err(refuse(section, &task_id, error));
    }
    let Some(snapshot) = ledger_snapshot(snapshot) else {
        return Err(out_of_bounds(section, &task_id));
    };
    let task = snapshot.task_id.clone();
    let key = section.key(&task);
    let gateway = Arc::clone(&section.governor.gateway);
    let _alone = match beside.as_slice() {
        [] => None,
        _ => Some(gateway.births.alone(&task).await),
    };
    let existing = match before(&section, &beside, &key).await {
        Ok(existing) => existing,
        Err(error) => return Err(refuse(section, &task_id, error)),
    };
    let command = Command::Register {
        birth: Box::new(ledger_birth(&section, tool, digest, declared)),
        snapshot,
    };
    let quota = u64::from(section.caller.tenant.object.limits.live_tasks);
    match section
        .governor
        .decide_within(&key, existing, vec![command], Some(quota))
        .await
    {
        Ok(Decided { entry: Some(_), .. }) => {
            let relayed = Relayed::read(&message, &section.id)?;
            Ok(Answer::relayed(&section.id, &relayed, Outcome::Task))
        }
        Err(Undecided::Refused(Refusal::Collision)) => {
            count(&section, Refusal::Collision.reason());
            Err(Kind::UpstreamProtocol.into())
        }
        Err(Undecided::Refused(refusal)) => {
            let error = Undecided::Refused(refusal).into_answer();
            Err(refuse_for(refusal.reason(), section, &task_id, error))
        }
        Err(Undecided::Store(StoreError::Quota { .. })) => {
            Err(refuse(section, &task_id, Kind::QuotaExceeded.into()))
        }
        // Nor does a decision that leaves no entry give out a handle.
        Ok(Decided { entry: None, .. }) | Err(Undecided::Store(_)) => {
            Err(refuse(section, &task_id, Kind::Internal.into()))
        }
    }
}

/// What holds the key now, where the id may be given out at this endpoint.
async fn before(
    section: &Section,
    beside: &[UpstreamUid],
    key: &TaskKey,
) -> Result<Option<Entry>, WireError> {
    section.retire_due().await?;
    if is_taken(section, beside, &key.task).await? {
        return Err(Kind::UpstreamProtocol.into());
    }
    let existing = section.governor.gateway.store.get(key).await;
    match existing.map_err(|error| section.store_failed(&error))? {
        // Whoever had the id makes room when its time is over, not when somebody came by to see it.
        Some(entry) => section.at_this_time(entry).await,
        None => Ok(None),
    }
}

/// Whether another upstream of this endpoint has a task of this id within the tenant: the id would
/// lead nowhere then.
async fn is_taken(
    section: &Section,
    beside: &[UpstreamUid],
    task: &TaskId,
) -> Result<bool, WireError> {
    let own = &section.upstream.uid;
    let others: Vec<_> = beside.iter().filter(|uid| *uid != own).cloned().collect();
    if others.is_empty() {
        return Ok(false);
    }
    let caller = section.caller.owner.clone();
    // Unattributed callers own as nobody, all together.
    let reach = match caller.tenant {
        Some(_) => Reach {
            caller,
            own: Vec::new(),
            all: others,
        },
        None => Reach {
            caller,
            own: others,
            all: Vec::new(),
        },
    };
    let store = &section.governor.gateway.store;
    let found = store.locate(&reach, task).await;
    let found = found.map_err(|error| section.store_failed(&error))?;
    Ok(!found.is_empty())
}

fn refuse(section: Section, task: &str, error: WireError) -> WireError {
    refuse_for(error.reason, section, task, error)
}

/// The same, counted under a reason that says more than the answer.
fn refuse_for(reason: &str, section: Section, task: &str, error: WireError) -> WireError {
    count(&section, reason);
    abandon(section, task);
    error
}

fn out_of_bounds(section: Section, task: &str) -> WireError {
    let error = Kind::UpstreamProtocol.into();
    refuse_for("out_of_bounds", section, task, error)
}

fn count(section: &Section, reason: &str) {
    section
        .governor
        .gateway
        .metrics
        .registration_failures
        .with_label_values(&[section.tenant_label(), &section.grant.label, reason])
        .inc();
}

fn ledger_birth(
    section: &Section,
    tool: String,
    digest: ToolDigest,
    declared: BTreeSet<Ability>,
) -> hangar_ledger::Birth {
    hangar_ledger::Birth {
        owner: section.caller.owner.clone(),
        upstream: section.upstream.label.clone(),
        tool,
        digest,
        upstream_object: section.upstream.digest,
        policy_object: section.caller.tenant.digest,
        term: section.governor.active.term(),
        correlation: section.correlation().to_owned(),
        retention_ms: section.upstream.object.tasks.retention_ms,
        declared,
    }
}
