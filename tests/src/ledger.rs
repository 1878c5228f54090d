//! The embedded ledger's file, beside the gateway that it belongs to: looked at, locked, edited.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rusqlite::{Connection, OptionalExtension as _};
use serde_json::Value;

/// A connection of its own to the file.
#[derive(Debug)]
pub struct Ledger(Connection);

/// Keeps every commit of others waiting until it is dropped.
#[derive(Debug)]
pub struct Lock<'a>(&'a Connection);

/// The gateway's own writer holds the lock for moments only.
const BUSY: Duration = Duration::from_secs(5);

// === impl Ledger ===

impl Ledger {
    pub fn open(file: &Path) -> Result<Self> {
        let connection = Connection::open(file).with_context(|| format!("{}", file.display()))?;
        connection.busy_timeout(BUSY)?;
        Ok(Self(connection))
    }

    /// What is stored of the only entry with this id, byte for byte; none without an entry.
    pub fn entry(&self, task: &str) -> Result<Option<Vec<u8>>> {
        let text = "select body from entry where task = ?1";
        let body = self.0.query_row(text, [task], |row| row.get(0));
        Ok(body.optional()?)
    }

    /// From now on the entry says that its owner's credential named no principal.
    pub fn forget_principal(&self, task: &str) -> Result<()> {
        let body = self.entry(task)?.context("no such entry")?;
        let mut entry: Value = serde_json::from_slice(&body)?;
        let owner = entry.pointer_mut("/entry/birth/owner");
        owner.context("an entry without owner")?["principal"] = Value::Null;
        let text = "update entry set principal = '', body = ?2 where task = ?1";
        let changed = self.0.execute(text, (task, entry.to_string().into_bytes()));
        ensure!(changed? == 1, "not exactly one entry of this id");
        Ok(())
    }

    /// Takes the lock that every commit needs.
    pub fn lock(&self) -> Result<Lock<'_>> {
        self.0.execute_batch("begin immediate")?;
        Ok(Lock(&self.0))
    }
}

// === impl Lock ===

impl Drop for Lock<'_> {
    fn drop(&mut self) {
        // A connection that cannot take it back loses the lock when it is closed.
        let _ = self.0.execute_batch("rollback");
    }
}
