//! The durable ledger: one transaction a decision, events in the same transaction.
//!
//! Guarantees: what [`Store::commit`] answered is on disk; a decision taken on an entry that moved
//! meanwhile is refused whole; reads never go around the owner check.
//! Caveats: a store that cannot commit fails the call closed and says [`Health::Degraded`] until it
//! recovers by itself.

mod error;
mod pins;
mod sqlite;

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;

use hangar_ledger::{
    Change, Decision, Entry, Event, Millis, Owner, Status, TaskId, TaskKey, TenantRef, UpstreamUid,
};

pub use error::Error;
pub use pins::{Contract, Kept, Known, MAX_PIN_BYTES, MAX_PINS, PinScope, Pins, Present, Sight};
pub use sqlite::{Clock, Options, PinBook, Reader, SqliteStore};

/// An answer of the store.
pub type Fut<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// What keeps the ledger. Object safe: the shell holds an `Arc<dyn Store>`.
pub trait Store: Send + Sync + std::fmt::Debug {
    /// Time of the store; never goes back within a process.
    fn now(&self) -> Millis;

    /// The entry that this scope may see. A foreign task and an absent one are the same miss.
    fn lookup<'a>(
        &'a self,
        scope: &'a Scope,
        upstream: &'a UpstreamUid,
        task: &'a TaskId,
    ) -> Fut<'a, Option<Entry>>;

    /// The entries of this task id that the reach covers and that time has not removed, two at most:
    /// more than one is already no answer to which is meant.
    fn locate<'a>(&'a self, reach: &'a Reach, task: &'a TaskId) -> Fut<'a, Vec<Entry>>;

    /// The caller's own entries of this task id that time has not removed, at whatever upstream: for
    /// tasks whose upstream or grant is no longer there to look under.
    fn own<'a>(&'a self, caller: &'a Owner, task: &'a TaskId) -> Fut<'a, Vec<Entry>>;

    /// The entry under a key, whoever owns it: for the collision rules of a registration and for
    /// the ticker only.
    fn get<'a>(&'a self, key: &'a TaskKey) -> Fut<'a, Option<Entry>>;

    /// The version of that entry, which moves with every governed change; none: there is no entry.
    fn version<'a>(&'a self, key: &'a TaskKey) -> Fut<'a, Option<u64>>;

    /// Durable when it answers; see [`Error`] for what did not happen.
    fn commit(&self, transaction: Transaction) -> Fut<'_, ()>;

    /// Written later, without being awaited: dropped when the queue is full or the entry moved
    /// meanwhile; of several the last wins.
    fn write_behind(&self, transaction: Transaction);

    /// Keys that [`hangar_ledger::Command::Due`] has something to decide for, the oldest first.
    fn due<'a>(&'a self, whose: &'a Whose, now: Millis, limit: usize) -> Fut<'a, Vec<TaskKey>>;

    /// Live tasks of the whole store by status.
    fn live(&self) -> Fut<'_, BTreeMap<Status, u64>>;

    /// Live tasks of one tenant; none: of unattributed callers.
    fn live_of<'a>(&'a self, tenant: Option<&'a TenantRef>) -> Fut<'a, u64>;

    /// What is pinned of an upstream, as of one moment.
    fn pins<'a>(&'a self, scope: &'a PinScope) -> Fut<'a, Pins>;

    /// Moves when pins are forgotten: what was read of an earlier revision no longer counts.
    fn pin_revision(&self) -> Fut<'_, u64>;

    /// Takes in a list of tools; answers what stands then, durable.
    fn sight(&self, sight: Sight) -> Fut<'_, Pins>;

    /// Forgets the pins of upstreams that were absent for long enough, told once in a while.
    fn retain_pins(&self, present: Present) -> Fut<'_, ()>;

    /// Events after `after` in the order of their commit, with their numbers.
    fn events(&self, after: u64, limit: usize) -> Fut<'_, Vec<(u64, Vec<u8>)>>;

    fn health(&self) -> Health;
}

/// Whose tasks a caller may see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Its own, and those of its tenant that were recorded without a principal.
    Owner(Owner),
    /// Every task of its tenant.
    Tenant(TenantRef),
}

/// Whose tasks a caller may see where several upstreams are served together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reach {
    pub caller: Owner,
    /// Where it sees its own, and those of its tenant that were recorded without a principal.
    pub own: Vec<UpstreamUid>,
    /// Where it sees every task of its tenant.
    pub all: Vec<UpstreamUid>,
}

/// Whose due entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whose {
    /// Of the whole store.
    All,
    /// The live ones of one tenant, which count for its quota; none: of unattributed callers.
    Live(Option<TenantRef>),
}

/// One decision of the ledger, to be kept whole or not at all.
#[derive(Clone, Debug)]
pub struct Transaction {
    pub key: TaskKey,
    pub expected: Expected,
    pub write: Write,
    pub events: Vec<Event>,
    /// For a registration: most live tasks of the entry's tenant.
    pub quota: Option<u64>,
}

/// What the decision was taken on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    Absent,
    Version(u64),
}

#[derive(Clone, Debug)]
pub enum Write {
    Put(Box<Entry>),
    Delete,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    Ok,
    /// Commits fail closed since then; `reason` is a closed word.
    Degraded {
        since: Millis,
        reason: &'static str,
    },
}

// === impl Transaction ===

impl Transaction {
    /// What keeps a decision taken on `before`; none when it changed nothing. A write-behind
    /// change makes one too: the caller gives it to [`Store::write_behind`].
    pub fn of(key: &TaskKey, before: Option<&Entry>, decision: &Decision) -> Option<Self> {
        let write = match &decision.change {
            Change::Unchanged => return None,
            Change::WriteBehind(entry) | Change::Commit(entry) => Write::Put(entry.clone()),
            Change::Purge => Write::Delete,
        };
        Some(Self {
            key: key.clone(),
            expected: before.map_or(Expected::Absent, |entry| Expected::Version(entry.version)),
            write,
            events: decision.events.clone(),
            quota: None,
        })
    }

    /// The same, refused with [`Error::Quota`] where the tenant has this many live tasks.
    #[must_use]
    pub fn with_quota(mut self, live_tasks: u64) -> Self {
        self.quota = Some(live_tasks);
        self
    }
}
