//! The pins of a store, for whoever looks at them or forgets them beside a running gateway.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, TransactionBehavior};

use super::{pins, schema};
use crate::Error;
use crate::pins::{Known, PinScope};

/// The pins of an existing store.
///
/// Guarantees: the file is neither made nor migrated here.
#[derive(Debug)]
pub struct PinBook {
    path: PathBuf,
}

// === impl PinBook ===

impl PinBook {
    /// Refuses a file of another schema: a newer one may mean something else, and an older one is
    /// brought up to date by the gateway alone.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let book = Self {
            path: path.to_owned(),
        };
        schema::is_current(&schema::open_read_only(&book.path)?)?;
        Ok(book)
    }

    /// What is kept of a class, by upstream and tool.
    pub fn read(&self, class: &str) -> Result<BTreeMap<PinScope, BTreeMap<String, Known>>, Error> {
        let connection = schema::open_read_only(&self.path)?;
        // Both tables as of one moment.
        let read = connection.unchecked_transaction().map_err(Error::Sqlite)?;
        pins::all(&read, class).map_err(Error::Sqlite)
    }

    /// Forgets the pins of an upstream, or of one tool of it; false: none were kept, and nothing is
    /// changed. A running gateway sees it by the revision.
    pub fn forget(&self, scope: &PinScope, tool: Option<&str>) -> Result<bool, Error> {
        let mut connection = schema::open_existing(&self.path)?;
        let forget = |connection: &mut Connection| {
            let behavior = TransactionBehavior::Immediate;
            let transaction = connection.transaction_with_behavior(behavior)?;
            let forgotten = pins::forget(&transaction, scope, tool)?;
            transaction.commit()?;
            Ok(forgotten)
        };
        forget(&mut connection).map_err(Error::Sqlite)
    }
}
