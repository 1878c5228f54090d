//! The file: how it is opened, its schema, its migrations.

use std::path::Path;
use std::time::Duration;

use hangar_ledger::{Owner, TenantRef};
use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use crate::Error;

/// One text a schema version, never edited once released.
///
/// `entry`: owner columns lead the unique index by which callers read, so that a foreign task and an
/// absent one are the same miss. `tally` counts entries, so that a quota is exact and a gauge costs
/// nothing. `event` is the append-only log. `pin` holds the contract of each tool that was seen first,
/// `pin_other` the one seen last where it is another, `pinning` the upstreams whose first whole list was
/// seen, `pin_awaited` the tools whose pin was reset; `pin_revision` moves when pins are forgotten.
pub(super) const MIGRATIONS: &[&str] = &["
create table entry (
    upstream text not null, task text not null,
    namespace text not null, tenant text not null, principal text not null,
    status text not null, live integer not null, due_at integer not null,
    version integer not null, body blob not null,
    primary key (upstream, task)
) strict, without rowid;
create unique index entry_owner on entry (namespace, tenant, task, upstream, principal);
create index entry_due on entry (due_at);
create index entry_live on entry (namespace, tenant, due_at) where live = 1;
create table tally (
    namespace text not null, tenant text not null, status text not null, live integer not null,
    entries integer not null,
    primary key (namespace, tenant, status, live)
) strict, without rowid;
create table event (seq integer primary key, body blob not null) strict;
create table pin (
    class text not null, namespace text not null, name text not null, tool text not null,
    digest text not null, contract blob not null, at integer not null,
    primary key (class, namespace, name, tool)
) strict, without rowid;
create table probe (id integer primary key check (id = 1), at integer not null, room blob not null) strict;
", "
create table pinning (
    class text not null, namespace text not null, name text not null,
    complete integer not null, absent_since integer,
    primary key (class, namespace, name)
) strict, without rowid;
create table pin_other (
    class text not null, namespace text not null, name text not null, tool text not null,
    digest text not null, contract blob not null, at integer not null,
    primary key (class, namespace, name, tool)
) strict, without rowid;
create table pin_awaited (
    class text not null, namespace text not null, name text not null, tool text not null,
    primary key (class, namespace, name, tool)
) strict, without rowid;
create table pin_revision (id integer primary key check (id = 1), revision integer not null) strict;
insert into pin_revision (id, revision) values (1, 0);
insert into pinning (class, namespace, name, complete, absent_since)
    select distinct class, namespace, name, 0, null from pin;
"];

/// Bytes of log kept after a checkpoint.
const JOURNAL_BYTES: i64 = 64 << 20;
const BUSY: Duration = Duration::from_secs(5);
const STATEMENTS: usize = 32;

/// The owner columns of a tenant: a present value is marked, so that none equals no text.
pub(super) fn tenant_columns(tenant: Option<&TenantRef>) -> (String, String) {
    tenant.map_or_else(Default::default, |TenantRef { namespace, tenant }| {
        (format!("={namespace}"), format!("={tenant}"))
    })
}

/// The principal column of an owner.
pub(super) fn principal_column(owner: &Owner) -> String {
    let principal = owner.principal.as_ref();
    principal.map_or_else(String::new, |principal| format!("={}", principal.as_str()))
}

/// Opens the file for writing, makes it where it is absent, and migrates it.
pub(super) fn open(path: &Path) -> Result<Connection, Error> {
    let mut connection = Connection::open(path).map_err(Error::Sqlite)?;
    configure(&mut connection).map_err(Error::Sqlite)?;
    migrate(&mut connection)?;
    Ok(connection)
}

/// Opens an existing file for reading.
pub(super) fn open_read_only(path: &Path) -> Result<Connection, Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(Error::Sqlite)?;
    connection.busy_timeout(BUSY).map_err(Error::Sqlite)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    Ok(connection)
}

/// Opens an existing file for writing, beside the process that it belongs to.
pub(super) fn open_existing(path: &Path) -> Result<Connection, Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(Error::Sqlite)?;
    connection.busy_timeout(BUSY).map_err(Error::Sqlite)?;
    connection
        .pragma_update(None, "synchronous", "FULL")
        .map_err(Error::Sqlite)?;
    is_current(&connection)?;
    Ok(connection)
}

/// Refuses a file of any schema but this binary's.
pub(super) fn is_current(connection: &Connection) -> Result<(), Error> {
    let found = version(connection)?;
    if found == MIGRATIONS.len() {
        return Ok(());
    }
    Err(Error::Older {
        found: i64::try_from(found).unwrap_or(i64::MAX),
        known: known(),
    })
}

/// Schema version of a file, refused where it is newer than this binary.
pub(super) fn version(connection: &Connection) -> Result<usize, Error> {
    let found: i64 = connection
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .map_err(Error::Sqlite)?;
    match usize::try_from(found) {
        Ok(found) if found <= MIGRATIONS.len() => Ok(found),
        _ => Err(Error::Newer {
            found,
            known: known(),
        }),
    }
}

/// Quick verification after a failed commit: structure, not content.
pub(super) fn check(connection: &Connection) -> Result<(), Error> {
    let verdict: String = connection
        .query_row("pragma quick_check(1)", [], |row| row.get(0))
        .map_err(Error::Sqlite)?;
    if verdict == "ok" {
        Ok(())
    } else {
        Err(Error::Damaged)
    }
}

fn known() -> i64 {
    i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX)
}

fn configure(connection: &mut Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(BUSY)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "journal_size_limit", JOURNAL_BYTES)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    Ok(())
}

fn migrate(connection: &mut Connection) -> Result<(), Error> {
    if version(connection)? == MIGRATIONS.len() {
        return Ok(());
    }
    let transaction = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(Error::Sqlite)?;
    // Read again under the lock: another process may have migrated meanwhile.
    let found = version(&transaction)?;
    for text in &MIGRATIONS[found..] {
        transaction.execute_batch(text).map_err(Error::Sqlite)?;
    }
    transaction
        .pragma_update(None, "user_version", known())
        .map_err(Error::Sqlite)?;
    transaction.commit().map_err(Error::Sqlite)
}
