//! Reads: prepared statements on pooled read-only connections.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use hangar_ledger::{Entry, Millis, Owner, Status, TaskId, TaskKey, TenantRef, UpstreamUid};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{pins, schema};
use crate::{Error, PinScope, Pins, Reach, Scope, Whose};

/// Connections that only read. A connection that failed is dropped, not used again.
#[derive(Debug)]
pub(super) struct Readers {
    path: PathBuf,
    idle: Mutex<Vec<Connection>>,
}

/// By owner: its own tasks, and those recorded without a principal.
///
/// The index is named because the planner prefers the primary key, and would then read a foreign
/// task's row before it refuses it: slower than an absent one. And these are two selects because an
/// `in` gives up after its first value where nothing begins with the rest of the key, which makes an
/// absent task faster than one of somebody else of the tenant.
pub(super) const BY_OWNER: &str = "select body from entry indexed by entry_owner
    where namespace = ?1 and tenant = ?2 and task = ?3 and upstream = ?4 and principal = ?5
    union all select body from entry indexed by entry_owner
    where namespace = ?1 and tenant = ?2 and task = ?3 and upstream = ?4 and principal = ''";
pub(super) const BY_TENANT: &str = "select body from entry indexed by entry_owner
    where namespace = ?1 and tenant = ?2 and task = ?3 and upstream = ?4";
/// Over the index alone: a row that is not the caller's is never read.
pub(super) const BY_TASK: &str = "select upstream, principal from entry indexed by entry_owner
    where namespace = ?1 and tenant = ?2 and task = ?3";
pub(super) const BY_OWNER_ANYWHERE: &str = "select body from entry indexed by entry_owner
    where namespace = ?1 and tenant = ?2 and task = ?3 and principal in (?4, '')";
const BY_KEY: &str = "select body from entry where upstream = ?1 and task = ?2";
const VERSION: &str = "select version from entry where upstream = ?1 and task = ?2";
pub(super) const DUE: &str =
    "select upstream, task from entry where due_at <= ?1 order by due_at limit ?2";
pub(super) const DUE_OF: &str = "select upstream, task from entry
    where live = 1 and namespace = ?1 and tenant = ?2 and due_at <= ?3 order by due_at limit ?4";
const LIVE: &str = "select status, sum(entries) from tally where live = 1 group by status";
pub(super) const LIVE_OF: &str = "select coalesce(sum(entries), 0) from tally
    where namespace = ?1 and tenant = ?2 and live = 1";
const EVENTS: &str = "select seq, body from event where seq > ?1 order by seq limit ?2";
/// Entries that [`Readers::locate`] answers at most.
const AMBIGUOUS: usize = 2;
/// Connections kept for the next read.
const MAX_IDLE: usize = 16;

// === impl Readers ===

impl Readers {
    pub(super) fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            idle: Mutex::default(),
        }
    }

    /// Refuses a file that this binary cannot read.
    pub(super) fn check(&self) -> Result<(), Error> {
        let connection = schema::open_read_only(&self.path)?;
        schema::version(&connection).map(|_| ())
    }

    pub(super) fn lookup(
        &self,
        scope: &Scope,
        upstream: &UpstreamUid,
        task: &TaskId,
    ) -> Result<Option<Entry>, Error> {
        let body = match scope {
            Scope::Owner(owner) => {
                let (namespace, tenant) = schema::tenant_columns(owner.tenant.as_ref());
                let principal = schema::principal_column(owner);
                let values = (namespace, tenant, task.as_str(), &upstream.0, principal);
                self.with(|c| one(c, BY_OWNER, values, |row| row.get(0)))?
            }
            Scope::Tenant(of) => {
                let (namespace, tenant) = schema::tenant_columns(Some(of));
                let values = (namespace, tenant, task.as_str(), &upstream.0);
                self.with(|c| one(c, BY_TENANT, values, |row| row.get(0)))?
            }
        };
        let entry = decode(body)?;
        // Paired with the index: what is decoded must say the same as what was searched.
        Ok(entry.filter(|entry| admits(scope, &entry.birth.owner)))
    }

    pub(super) fn locate(
        &self,
        reach: &Reach,
        task: &TaskId,
        now: Millis,
    ) -> Result<Vec<Entry>, Error> {
        let Reach { caller, own, all } = reach;
        let (namespace, tenant) = schema::tenant_columns(caller.tenant.as_ref());
        let principal = schema::principal_column(caller);
        let covers = |(upstream, of): &(String, String)| {
            let names = |uid: &UpstreamUid| uid.0 == *upstream;
            let is_own = of.is_empty() || *of == principal;
            all.iter().any(names) || (is_own && own.iter().any(names))
        };
        let values = (namespace, tenant, task.as_str());
        let bodies = self.with(|c| {
            let mut statement = c.prepare_cached(BY_TASK)?;
            let found = statement.query_map(values, pair)?;
            let found = found.filter(|row| row.as_ref().map_or(true, covers));
            found
                .map(|row| one(c, BY_KEY, (row?.0, task.as_str()), |row| row.get(0)))
                .collect::<rusqlite::Result<Vec<_>>>()
        })?;
        // Paired with the index, as in a lookup.
        let entries = bodies
            .into_iter()
            .filter_map(|body| decode(body).transpose());
        entries
            .filter(|entry| {
                // What waits to be purged is no second meaning of the id.
                let of = |entry: &Entry| admits_within(reach, entry) && now < entry.gone_at();
                entry.as_ref().map_or(true, of)
            })
            .take(AMBIGUOUS)
            .collect()
    }

    pub(super) fn own(
        &self,
        caller: &Owner,
        task: &TaskId,
        now: Millis,
    ) -> Result<Vec<Entry>, Error> {
        let (namespace, tenant) = schema::tenant_columns(caller.tenant.as_ref());
        let principal = schema::principal_column(caller);
        let values = (namespace, tenant, task.as_str(), principal);
        let bodies = self.with(|c| all(c, BY_OWNER_ANYWHERE, values, |row| row.get(0)))?;
        // Paired with the index, as in a lookup.
        let scope = Scope::Owner(caller.clone());
        let entries = bodies.into_iter().map(|body| decode(Some(body)));
        let entries = entries.filter_map(Result::transpose);
        entries
            .filter(|entry| {
                let of =
                    |entry: &Entry| admits(&scope, &entry.birth.owner) && now < entry.gone_at();
                entry.as_ref().map_or(true, of)
            })
            .collect()
    }

    pub(super) fn get(&self, key: &TaskKey) -> Result<Option<Entry>, Error> {
        let values = (&key.upstream.0, key.task.as_str());
        decode(self.with(|c| one(c, BY_KEY, values, |row| row.get(0)))?)
    }

    pub(super) fn version(&self, key: &TaskKey) -> Result<Option<u64>, Error> {
        let values = (&key.upstream.0, key.task.as_str());
        let version = self.with(|c| one(c, VERSION, values, |row| row.get(0)))?;
        Ok(version.map(unsigned))
    }

    pub(super) fn due(
        &self,
        whose: &Whose,
        now: Millis,
        limit: usize,
    ) -> Result<Vec<TaskKey>, Error> {
        let (now, limit) = (signed(now.0), signed(limit as u64));
        let rows: Vec<(String, String)> = self.with(|c| match whose {
            Whose::All => all(c, DUE, params![now, limit], pair),
            Whose::Live(tenant) => {
                let (namespace, tenant) = schema::tenant_columns(tenant.as_ref());
                all(c, DUE_OF, params![namespace, tenant, now, limit], pair)
            }
        })?;
        let key = |(upstream, task): (String, String)| {
            let task = task.try_into().map_err(Error::Record)?;
            Ok(TaskKey::new(UpstreamUid(upstream), task))
        };
        rows.into_iter().map(key).collect()
    }

    pub(super) fn live(&self) -> Result<BTreeMap<Status, u64>, Error> {
        let count = |row: &Row<'_>| {
            let text: String = row.get(0)?;
            Ok((Status::parse(&text), unsigned(row.get(1)?)))
        };
        let rows = self.with(|c| all(c, LIVE, [], count))?;
        let known = rows
            .into_iter()
            .filter_map(|(status, n)| Some((status?, n)));
        Ok(known.collect())
    }

    pub(super) fn live_of(&self, tenant: Option<&TenantRef>) -> Result<u64, Error> {
        let values = schema::tenant_columns(tenant);
        let count = self.with(|c| one(c, LIVE_OF, values, |row| row.get(0)))?;
        Ok(count.map_or(0, unsigned))
    }

    pub(super) fn pins(&self, scope: &PinScope) -> Result<Pins, Error> {
        // As of one moment: a reset must not fall between the revision and the pins.
        self.with(|c| pins::read(&*c.unchecked_transaction()?, scope))
    }

    pub(super) fn pin_revision(&self) -> Result<u64, Error> {
        self.with(pins::revision)
    }

    pub(super) fn events(&self, after: u64, limit: usize) -> Result<Vec<(u64, Vec<u8>)>, Error> {
        let numbered = |row: &Row<'_>| Ok((unsigned(row.get(0)?), row.get(1)?));
        let values = (signed(after), signed(limit as u64));
        self.with(|c| all(c, EVENTS, values, numbered))
    }

    /// Runs a read on an idle connection, or on a new one.
    fn with<T>(&self, read: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, Error> {
        let idle = self
            .idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        let connection = match idle {
            Some(connection) => connection,
            None => schema::open_read_only(&self.path)?,
        };
        let answer = read(&connection).map_err(Error::Sqlite)?;
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < MAX_IDLE {
            idle.push(connection);
        }
        Ok(answer)
    }
}

/// Who may see whose task, as `BY_OWNER` and `BY_TENANT` say it.
fn admits(scope: &Scope, owner: &Owner) -> bool {
    match scope {
        Scope::Tenant(tenant) => owner.tenant.as_ref() == Some(tenant),
        Scope::Owner(caller) => {
            let Owner { tenant, principal } = owner;
            *tenant == caller.tenant && (principal.is_none() || *principal == caller.principal)
        }
    }
}

fn admits_within(reach: &Reach, entry: &Entry) -> bool {
    let Reach { caller, own, all } = reach;
    let (upstream, owner) = (&entry.key.upstream, &entry.birth.owner);
    if all.contains(upstream) {
        return owner.tenant == caller.tenant;
    }
    own.contains(upstream) && admits(&Scope::Owner(caller.clone()), owner)
}

/// SQLite has signed numbers only; the end of time stays the end of time.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(super) fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

fn one<T>(
    connection: &Connection,
    text: &str,
    values: impl rusqlite::Params,
    read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Option<T>> {
    let mut statement = connection.prepare_cached(text)?;
    statement.query_row(values, read).optional()
}

fn all<T>(
    connection: &Connection,
    text: &str,
    values: impl rusqlite::Params,
    read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Vec<T>> {
    let mut statement = connection.prepare_cached(text)?;
    let rows = statement.query_map(values, read)?;
    rows.collect()
}

fn pair(row: &Row<'_>) -> rusqlite::Result<(String, String)> {
    Ok((row.get(0)?, row.get(1)?))
}

fn decode(body: Option<Vec<u8>>) -> Result<Option<Entry>, Error> {
    body.map(|bytes| Entry::decode(&bytes).map_err(Error::Record))
        .transpose()
}
