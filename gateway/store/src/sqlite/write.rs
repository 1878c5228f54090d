//! What one request does inside the writer's transaction.

use hangar_ledger::{Entry, Millis, TaskKey};
use rusqlite::{Connection, OptionalExtension, params};

use super::read::{signed, unsigned};
use super::schema::{principal_column, tenant_columns};
use crate::{Error, Expected, Transaction, Write};

/// Columns of an entry that its counters depend on.
struct Row {
    version: u64,
    counted: Counted,
}

/// Where an entry is counted.
#[derive(PartialEq, Eq)]
struct Counted {
    namespace: String,
    tenant: String,
    status: String,
    live: i64,
}

const OLD: &str = "select version, namespace, tenant, status, live from entry
    where upstream = ?1 and task = ?2";
const PUT: &str = "insert into entry
    (upstream, task, namespace, tenant, principal, status, live, due_at, version, body)
    values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
    on conflict (upstream, task) do update set
        namespace = excluded.namespace, tenant = excluded.tenant, principal = excluded.principal,
        status = excluded.status, live = excluded.live, due_at = excluded.due_at,
        version = excluded.version, body = excluded.body";
const PUT_BEHIND: &str = "update entry set due_at = ?3, body = ?4
    where upstream = ?1 and task = ?2 and version = ?5";
const DELETE: &str = "delete from entry where upstream = ?1 and task = ?2";
const TALLY: &str = "insert into tally (namespace, tenant, status, live, entries)
    values (?1, ?2, ?3, ?4, ?5)
    on conflict (namespace, tenant, status, live) do update set entries = entries + excluded.entries";
const APPEND: &str = "insert into event (body) values (?1)";
const PROBE: &str = "insert or replace into probe (id, at, room) values (1, ?1, zeroblob(?2))";
/// A store is not called recovered before it takes this much.
const PROBE_BYTES: i64 = 64 << 10;

/// Applies a decision. The outer error sinks the batch, the inner one refuses this decision alone.
///
/// Guarantees: entry, counters and events are written together, by the caller's savepoint.
pub(super) fn apply(c: &Connection, what: &Transaction) -> rusqlite::Result<Result<(), Error>> {
    let Transaction {
        key,
        expected,
        write,
        events,
        quota,
    } = what;
    let old = old_row(c, key)?;
    let stands = match (&old, expected) {
        (None, Expected::Absent) => true,
        (Some(row), Expected::Version(version)) => row.version == *version,
        (None, Expected::Version(_)) | (Some(_), Expected::Absent) => false,
    };
    if !stands {
        return Ok(Err(Error::Conflict));
    }
    let old = old.map(|row| row.counted);
    match write {
        Write::Put(entry) => {
            let new = counted(entry);
            if let Some(most) = quota {
                let live = live_beside(c, &new, old.as_ref())?;
                if live >= *most {
                    return Ok(Err(Error::Quota { live }));
                }
            }
            put(c, key, entry, &new)?;
            recount(c, old.as_ref(), Some(&new))?;
        }
        Write::Delete => {
            c.prepare_cached(DELETE)?.execute(key_columns(key))?;
            recount(c, old.as_ref(), None)?;
        }
    }
    let mut append = c.prepare_cached(APPEND)?;
    for event in events {
        append.execute((event.line(),))?;
    }
    Ok(Ok(()))
}

/// Applies a write that nobody waits for; it does nothing where the entry moved meanwhile.
pub(super) fn apply_behind(c: &Connection, what: &Transaction) -> rusqlite::Result<()> {
    let (Write::Put(entry), Expected::Version(version)) = (&what.write, what.expected) else {
        return Ok(());
    };
    let (upstream, task) = key_columns(&what.key);
    let due_at = signed(entry.due_at().0);
    c.prepare_cached(PUT_BEHIND)?.execute((
        upstream,
        task,
        due_at,
        entry.encode(),
        signed(version),
    ))?;
    Ok(())
}

/// Writes something of a size that shows that commits are possible again.
pub(super) fn probe(c: &Connection, now: Millis) -> rusqlite::Result<()> {
    c.execute(PROBE, (signed(now.0), PROBE_BYTES)).map(|_| ())
}

fn key_columns(key: &TaskKey) -> (&str, &str) {
    (&key.upstream.0, key.task.as_str())
}

fn old_row(c: &Connection, key: &TaskKey) -> rusqlite::Result<Option<Row>> {
    let row = |row: &rusqlite::Row<'_>| {
        Ok(Row {
            version: unsigned(row.get(0)?),
            counted: Counted {
                namespace: row.get(1)?,
                tenant: row.get(2)?,
                status: row.get(3)?,
                live: row.get(4)?,
            },
        })
    };
    c.prepare_cached(OLD)?
        .query_row(key_columns(key), row)
        .optional()
}

fn counted(entry: &Entry) -> Counted {
    let (namespace, tenant) = tenant_columns(entry.tenant());
    Counted {
        namespace,
        tenant,
        status: entry.status().as_str().to_owned(),
        live: i64::from(entry.is_live()),
    }
}

/// Live tasks of the tenant, the entry that is written over not counted.
fn live_beside(c: &Connection, new: &Counted, old: Option<&Counted>) -> rusqlite::Result<u64> {
    let Counted {
        namespace, tenant, ..
    } = new;
    let live: i64 = c
        .prepare_cached(super::read::LIVE_OF)?
        .query_row((namespace, tenant), |row| row.get(0))?;
    let own = old
        .is_some_and(|old| old.live == 1 && old.namespace == *namespace && old.tenant == *tenant);
    Ok(unsigned(live - i64::from(own)))
}

fn put(c: &Connection, key: &TaskKey, entry: &Entry, new: &Counted) -> rusqlite::Result<()> {
    let (upstream, task) = key_columns(key);
    let Counted {
        namespace,
        tenant,
        status,
        live,
    } = new;
    c.prepare_cached(PUT)?.execute(params![
        upstream,
        task,
        namespace,
        tenant,
        principal_column(&entry.birth.owner),
        status,
        live,
        signed(entry.due_at().0),
        signed(entry.version),
        entry.encode(),
    ])?;
    Ok(())
}

fn recount(c: &Connection, old: Option<&Counted>, new: Option<&Counted>) -> rusqlite::Result<()> {
    if old == new {
        return Ok(());
    }
    let mut tally = c.prepare_cached(TALLY)?;
    for (counted, step) in [(old, -1_i64), (new, 1)] {
        if let Some(Counted {
            namespace,
            tenant,
            status,
            live,
        }) = counted
        {
            tally.execute((namespace, tenant, status, live, step))?;
        }
    }
    Ok(())
}
