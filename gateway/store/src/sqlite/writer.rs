//! The writer thread: group commit, one savepoint a decision, one sync a batch.
//!
//! ```text
//!            a batch cannot be committed
//!   Ready ---------------------------------> Broken: every request fails closed
//!     ^                                        |
//!     +----------------------------------------+
//!       file reopened, verified once, and a probe committed, by a thread of its own
//! ```
//! A failed batch is never tried again: its callers were told that nothing of it is durable. While
//! the file is verified, which may take minutes, requests are refused at once.

use std::collections::BTreeMap;
use std::sync::mpsc::{
    Receiver, RecvTimeoutError, SyncSender, TryRecvError, TrySendError, sync_channel,
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hangar_ledger::{Millis, TaskKey};
use rusqlite::{Connection, ErrorCode, TransactionBehavior};
use tokio::sync::oneshot;

use super::{Options, pins, schema, write};
use crate::error::cause;
use crate::{Error, Health, Pins, Present, Sight, Transaction};

/// What the writer is asked.
pub(super) enum Request {
    Commit(Box<Transaction>, oneshot::Sender<Result<(), Error>>),
    Sight(Box<(Sight, Millis)>, oneshot::Sender<Result<Pins, Error>>),
    Retain(Box<(Present, Millis)>, oneshot::Sender<Result<(), Error>>),
    /// Something was left to be written behind.
    Nudge,
}

/// Handle of the thread.
pub(super) struct Writer {
    queue: Option<SyncSender<Request>>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    behind: Mutex<BTreeMap<TaskKey, Transaction>>,
    health: Mutex<Health>,
}

struct Thread {
    options: Options,
    shared: Arc<Shared>,
    queue: Receiver<Request>,
    state: State,
}

enum State {
    Ready(Connection),
    Broken(Outage),
}

struct Outage {
    reason: &'static str,
    /// The reopened file was verified since the failure.
    verified: bool,
    wait: Duration,
    next: Instant,
    /// The attempt that runs.
    attempt: Option<Receiver<Attempt>>,
}

/// How an attempt to recover ended.
struct Attempt {
    outcome: Result<Connection, Error>,
    verified: bool,
}

/// What a request came to within a batch.
enum Answer {
    Commit(Result<(), Error>),
    Sight(Result<Pins, Error>),
    Nothing,
}

/// Requests that may wait; beyond it a commit is refused.
const QUEUE: usize = 4096;
/// Most requests of one commit.
const BATCH: usize = 512;
/// Most entries that wait to be written behind.
const BEHIND: usize = 4096;
/// Longest time that a write behind waits for a commit to go along with.
const BEHIND_WAIT: Duration = Duration::from_millis(100);
const FIRST_WAIT: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// How often a running attempt is looked at.
const LOOK: Duration = Duration::from_millis(20);

// === impl Writer ===

impl Writer {
    pub(super) fn start(connection: Connection, options: Options) -> Result<Self, Error> {
        let (queue, requests) = sync_channel(QUEUE);
        let shared = Arc::new(Shared {
            behind: Mutex::default(),
            health: Mutex::new(Health::Ok),
        });
        let thread = Thread {
            options,
            shared: Arc::clone(&shared),
            queue: requests,
            state: State::Ready(connection),
        };
        let thread = std::thread::Builder::new()
            .name("ledger-writer".to_owned())
            .spawn(move || thread.run())
            .map_err(Error::Thread)?;
        Ok(Self {
            queue: Some(queue),
            shared,
            thread: Some(thread),
        })
    }

    /// Never waits: a full queue refuses.
    pub(super) fn send(&self, request: Request) -> Result<(), Error> {
        let queue = self.queue.as_ref().ok_or(Error::Closed)?;
        queue.try_send(request).map_err(|error| match error {
            TrySendError::Full(_) => Error::Overloaded,
            TrySendError::Disconnected(_) => Error::Closed,
        })
    }

    pub(super) fn write_behind(&self, transaction: Transaction) {
        let mut behind = lock(&self.shared.behind);
        let idle = behind.is_empty();
        if behind.len() < BEHIND || behind.contains_key(&transaction.key) {
            behind.insert(transaction.key.clone(), transaction);
        }
        drop(behind);
        // A queue too full for a nudge is one that the writer works on: it takes what waits along.
        if idle && self.send(Request::Nudge).is_err() {
            tracing::debug!("nothing nudged the ledger writer");
        }
    }

    pub(super) fn health(&self) -> Health {
        *lock(&self.shared.health)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("ledger writer ended with a panic");
        }
    }
}

// === impl Thread ===

impl Thread {
    fn run(mut self) {
        while let Some(first) = self.next() {
            let mut batch = vec![first];
            batch.extend(self.queue.try_iter().take(BATCH - 1));
            self.handle(batch);
        }
        // A broken store has nothing to write with, and no time left to recover.
        if matches!(self.state, State::Ready(_)) {
            self.handle(Vec::new());
        }
    }

    /// The next request; tries to recover while it waits. None: the store is closed.
    fn next(&mut self) -> Option<Request> {
        loop {
            match &self.state {
                State::Ready(_) => {
                    return match self.queue.recv().ok()? {
                        // A hint waits a little: of several the last wins, and a commit takes it along.
                        Request::Nudge => {
                            let next = self.queue.recv_timeout(BEHIND_WAIT);
                            Some(next.unwrap_or(Request::Nudge))
                        }
                        request => Some(request),
                    };
                }
                State::Broken(outage) => {
                    let wait = match outage.attempt {
                        Some(_) => LOOK,
                        None => outage.next.saturating_duration_since(Instant::now()),
                    };
                    match self.queue.recv_timeout(wait) {
                        Ok(request) => return Some(request),
                        Err(RecvTimeoutError::Disconnected) => return None,
                        Err(RecvTimeoutError::Timeout) => self.recover(),
                    }
                }
            }
        }
    }

    fn handle(&mut self, batch: Vec<Request>) {
        self.recover();
        match &mut self.state {
            State::Broken(outage) => refuse(batch, outage.reason),
            State::Ready(connection) => {
                let behind = std::mem::take(&mut *lock(&self.shared.behind));
                match commit(connection, &batch, &behind) {
                    Ok(answers) => answer(batch, answers),
                    Err(error) => {
                        let reason = cause(&error);
                        tracing::error!(%error, reason, "ledger commit failed");
                        self.fail(reason);
                        refuse(batch, reason);
                    }
                }
            }
        }
    }

    /// Drops the connection: after a failed sync its view of the file cannot be trusted.
    fn fail(&mut self, reason: &'static str) {
        *lock(&self.shared.health) = Health::Degraded {
            since: (self.options.clock)(),
            reason,
        };
        self.state = State::Broken(Outage {
            reason,
            verified: false,
            wait: FIRST_WAIT,
            next: Instant::now() + FIRST_WAIT,
            attempt: None,
        });
    }

    /// Starts an attempt that is due, or takes the outcome of the one that runs. Never waits.
    fn recover(&mut self) {
        let State::Broken(outage) = &mut self.state else {
            return;
        };
        let Some(attempt) = &outage.attempt else {
            if outage.next <= Instant::now() {
                outage.try_again(&self.options);
            }
            return;
        };
        let ended = match attempt.try_recv() {
            Ok(ended) => ended,
            Err(TryRecvError::Empty) => return,
            Err(TryRecvError::Disconnected) => Attempt {
                outcome: Err(Error::Closed),
                verified: false,
            },
        };
        outage.attempt = None;
        outage.verified = ended.verified;
        match ended.outcome {
            Ok(connection) => {
                tracing::info!("ledger store recovered");
                self.state = State::Ready(connection);
                *lock(&self.shared.health) = Health::Ok;
            }
            Err(error) => {
                outage.postpone(&error);
                if let Health::Degraded { reason, .. } = &mut *lock(&self.shared.health) {
                    *reason = outage.reason;
                }
            }
        }
    }
}

// === impl Outage ===

impl Outage {
    /// An attempt that is still running when the store closes ends by itself: it only verifies.
    fn try_again(&mut self, options: &Options) {
        let (done, attempt) = sync_channel(1);
        let (options, mut verified) = (options.clone(), self.verified);
        let started = std::thread::Builder::new()
            .name("ledger-recovery".to_owned())
            .spawn(move || {
                let outcome = reopen(&options, &mut verified);
                if done.send(Attempt { outcome, verified }).is_err() {
                    tracing::debug!("the store was closed before it recovered");
                }
            });
        match started {
            Ok(_) => self.attempt = Some(attempt),
            Err(error) => self.postpone(&Error::Thread(error)),
        }
    }

    fn postpone(&mut self, error: &Error) {
        self.reason = error.reason();
        self.wait = (self.wait * 2).min(LONGEST_WAIT);
        self.next = Instant::now() + self.wait;
        tracing::warn!(reason = self.reason, "ledger store is not back");
    }
}

/// Opens the file afresh; it counts once its structure holds and something can be committed.
fn reopen(options: &Options, verified: &mut bool) -> Result<Connection, Error> {
    let connection = schema::open(&options.path)?;
    if !*verified {
        schema::check(&connection)?;
        *verified = true;
    }
    write::probe(&connection, (options.clock)()).map_err(Error::Sqlite)?;
    Ok(connection)
}

/// One transaction for the batch. An error means that nothing of it is durable.
fn commit(
    connection: &mut Connection,
    batch: &[Request],
    behind: &BTreeMap<TaskKey, Transaction>,
) -> rusqlite::Result<Vec<Answer>> {
    let mut transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Behind first: what waited longer must not undo the commits of this batch.
    for write in behind.values() {
        one_behind(&mut transaction, write)?;
    }
    let mut answers = Vec::with_capacity(batch.len());
    for request in batch {
        let mut savepoint = transaction.savepoint()?;
        let answer = match one(&savepoint, request) {
            Err(error) if is_of_the_request(&error) => failed(request, error),
            other => other?,
        };
        if answer.is_refused() {
            savepoint.rollback()?;
        }
        savepoint.commit()?;
        answers.push(answer);
    }
    transaction.commit()?;
    Ok(answers)
}

/// A hint that cannot be written is dropped: nobody waits for it, and others must not sink with it.
fn one_behind(
    transaction: &mut rusqlite::Transaction<'_>,
    write: &Transaction,
) -> rusqlite::Result<()> {
    let mut savepoint = transaction.savepoint()?;
    match write::apply_behind(&savepoint, write) {
        Err(error) if is_of_the_request(&error) => {
            tracing::warn!(%error, "a write behind is dropped");
            savepoint.rollback()?;
        }
        other => other?,
    }
    savepoint.commit()
}

fn one(connection: &Connection, request: &Request) -> rusqlite::Result<Answer> {
    Ok(match request {
        Request::Commit(what, _) => Answer::Commit(write::apply(connection, what)?),
        Request::Sight(what, _) => Answer::Sight(Ok(pins::sight(connection, &what.0, what.1)?)),
        Request::Retain(what, _) => Answer::Commit(Ok(pins::retain(connection, &what.0, what.1)?)),
        Request::Nudge => Answer::Nothing,
    })
}

/// Errors that speak of one request and not of the store: they must not sink the others.
fn is_of_the_request(error: &rusqlite::Error) -> bool {
    match error.sqlite_error_code() {
        Some(code) => matches!(
            code,
            ErrorCode::ConstraintViolation | ErrorCode::TooBig | ErrorCode::TypeMismatch
        ),
        None => true,
    }
}

fn failed(request: &Request, error: rusqlite::Error) -> Answer {
    match request {
        Request::Commit(..) | Request::Retain(..) => Answer::Commit(Err(Error::Sqlite(error))),
        Request::Sight(..) => Answer::Sight(Err(Error::Sqlite(error))),
        Request::Nudge => Answer::Nothing,
    }
}

fn answer(batch: Vec<Request>, answers: Vec<Answer>) {
    for (request, answer) in batch.into_iter().zip(answers) {
        let heard = match (request, answer) {
            (Request::Commit(_, done) | Request::Retain(_, done), Answer::Commit(result)) => {
                done.send(result).is_ok()
            }
            (Request::Sight(_, done), Answer::Sight(result)) => done.send(result).is_ok(),
            (
                Request::Commit(..) | Request::Retain(..) | Request::Sight(..) | Request::Nudge,
                _,
            ) => true,
        };
        if !heard {
            tracing::debug!("nobody waits for a commit any more");
        }
    }
}

fn refuse(batch: Vec<Request>, reason: &'static str) {
    let answers = batch.iter().map(|request| match request {
        Request::Commit(..) | Request::Retain(..) => {
            Answer::Commit(Err(Error::Unavailable { reason }))
        }
        Request::Sight(..) => Answer::Sight(Err(Error::Unavailable { reason })),
        Request::Nudge => Answer::Nothing,
    });
    let answers = answers.collect();
    answer(batch, answers);
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

// === impl Answer ===

impl Answer {
    fn is_refused(&self) -> bool {
        match self {
            Self::Commit(result) => result.is_err(),
            Self::Sight(result) => result.is_err(),
            Self::Nothing => false,
        }
    }
}
