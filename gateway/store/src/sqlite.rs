//! The embedded store: SQLite, WAL, synchronous FULL, one writer thread, readers inline.
//!
//! A read takes some tens of microseconds and never waits for the writer, so it runs where it is
//! called: a hop to a blocking thread would cost more than the read.

mod book;
mod pins;
mod read;
mod schema;
mod write;
mod writer;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::future::ready;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hangar_ledger::{Entry, Millis, Owner, Status, TaskId, TaskKey, TenantRef, UpstreamUid};
use tokio::sync::oneshot;

use crate::{
    Error, Fut, Health, PinScope, Pins, Present, Reach, Scope, Sight, Store, Transaction, Whose,
};
use read::Readers;
use writer::{Request, Writer};

pub use book::PinBook;

/// Where the time comes from: Unix time in milliseconds.
pub type Clock = Arc<dyn Fn() -> Millis + Send + Sync>;

/// How the store is opened.
#[derive(Clone)]
pub struct Options {
    /// The database file; its folder must exist.
    pub path: PathBuf,
    pub clock: Clock,
}

/// The ledger in one SQLite file.
///
/// Guarantees: dropping it writes what waits and ends the writer thread.
/// Assumptions: one gateway replica; other processes only read, and forget pins ([`PinBook`]).
pub struct SqliteStore {
    options: Options,
    /// Latest time told, so that time never goes back.
    latest: AtomicU64,
    readers: Readers,
    writer: Writer,
}

/// Reads the events of a store beside the process that writes it.
#[derive(Debug)]
pub struct Reader {
    readers: Readers,
}

// === impl Options ===

impl Options {
    /// A store at this path on the system's clock.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            clock: Arc::new(system_time),
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, clock: _ } = self;
        f.debug_struct("Options")
            .field("path", path)
            .finish_non_exhaustive()
    }
}

fn system_time() -> Millis {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    Millis(since.map_or(0, |age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX)))
}

// === impl SqliteStore ===

impl SqliteStore {
    /// Opens or makes the file, brings its schema up to date and starts the writer.
    pub fn open(options: Options) -> Result<Self, Error> {
        let connection = schema::open(&options.path)?;
        let readers = Readers::new(&options.path);
        let writer = Writer::start(connection, options.clone())?;
        Ok(Self {
            options,
            latest: AtomicU64::new(0),
            readers,
            writer,
        })
    }

    fn send<T: Send + 'static>(
        &self,
        make: impl FnOnce(oneshot::Sender<Result<T, Error>>) -> Request,
    ) -> Fut<'_, T> {
        let (done, answer) = oneshot::channel();
        let sent = self.writer.send(make(done));
        Box::pin(async move {
            sent?;
            answer.await.unwrap_or(Err(Error::Closed))
        })
    }
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore")
            .field("path", &self.options.path)
            .finish_non_exhaustive()
    }
}

impl Store for SqliteStore {
    fn now(&self) -> Millis {
        let now = (self.options.clock)().0;
        Millis(self.latest.fetch_max(now, Ordering::Relaxed).max(now))
    }

    fn lookup<'a>(
        &'a self,
        scope: &'a Scope,
        upstream: &'a UpstreamUid,
        task: &'a TaskId,
    ) -> Fut<'a, Option<Entry>> {
        Box::pin(ready(self.readers.lookup(scope, upstream, task)))
    }

    fn locate<'a>(&'a self, reach: &'a Reach, task: &'a TaskId) -> Fut<'a, Vec<Entry>> {
        Box::pin(ready(self.readers.locate(reach, task, self.now())))
    }

    fn own<'a>(&'a self, caller: &'a Owner, task: &'a TaskId) -> Fut<'a, Vec<Entry>> {
        Box::pin(ready(self.readers.own(caller, task, self.now())))
    }

    fn get<'a>(&'a self, key: &'a TaskKey) -> Fut<'a, Option<Entry>> {
        Box::pin(ready(self.readers.get(key)))
    }

    fn version<'a>(&'a self, key: &'a TaskKey) -> Fut<'a, Option<u64>> {
        Box::pin(ready(self.readers.version(key)))
    }

    fn commit(&self, transaction: Transaction) -> Fut<'_, ()> {
        self.send(|done| Request::Commit(Box::new(transaction), done))
    }

    fn write_behind(&self, transaction: Transaction) {
        self.writer.write_behind(transaction);
    }

    fn due<'a>(&'a self, whose: &'a Whose, now: Millis, limit: usize) -> Fut<'a, Vec<TaskKey>> {
        Box::pin(ready(self.readers.due(whose, now, limit)))
    }

    fn live(&self) -> Fut<'_, BTreeMap<Status, u64>> {
        Box::pin(ready(self.readers.live()))
    }

    fn live_of<'a>(&'a self, tenant: Option<&'a TenantRef>) -> Fut<'a, u64> {
        Box::pin(ready(self.readers.live_of(tenant)))
    }

    fn pins<'a>(&'a self, scope: &'a PinScope) -> Fut<'a, Pins> {
        Box::pin(ready(self.readers.pins(scope)))
    }

    fn pin_revision(&self) -> Fut<'_, u64> {
        Box::pin(ready(self.readers.pin_revision()))
    }

    fn sight(&self, sight: Sight) -> Fut<'_, Pins> {
        let what = Box::new((sight, self.now()));
        self.send(|done| Request::Sight(what, done))
    }

    fn retain_pins(&self, present: Present) -> Fut<'_, ()> {
        let what = Box::new((present, self.now()));
        self.send(|done| Request::Retain(what, done))
    }

    fn events(&self, after: u64, limit: usize) -> Fut<'_, Vec<(u64, Vec<u8>)>> {
        Box::pin(ready(self.readers.events(after, limit)))
    }

    fn health(&self) -> Health {
        self.writer.health()
    }
}

// === impl Reader ===

impl Reader {
    /// Opens an existing store read-only; a running gateway is not disturbed.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let readers = Readers::new(path);
        readers.check()?;
        Ok(Self { readers })
    }

    /// Events after `after` in the order of their commit, with their numbers.
    pub fn events(&self, after: u64, limit: usize) -> Result<Vec<(u64, Vec<u8>)>, Error> {
        self.readers.events(after, limit)
    }
}
