//! Polls of tasks: what many ask at once is asked of the upstream once.
//!
//! Guarantees: [`Polls::ask`] answers from a request that was sent after it was called, so nobody is
//! told a state older than its own question. Only polls that declare the same capabilities share a
//! request. Who may ask is no matter of this module: each poll has been through its own check.
//! Caveats: nothing here outlives the process, and no decision about a task depends on it.

mod recent;

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hangar_ledger::{Millis, Owner, TaskId};
use hangar_wire::Sha256Hex;
use serde_json::value::RawValue;
use tokio::sync::watch;

use super::exchange::Failure;
use recent::Recent;

/// Polls of one upstream's tasks.
#[derive(Debug)]
pub struct Polls {
    flights: Mutex<Flights>,
    recent: Mutex<Recent>,
    /// A request that takes longer no longer keeps later polls waiting.
    stagger: Duration,
}

/// What the upstream answered.
#[derive(Debug)]
pub struct Told {
    pub message: Bytes,
    /// The id that the request bore.
    pub id: Box<RawValue>,
    /// When the request was sent, on the clock of the store.
    pub began: Millis,
    /// The same on the clock of this process.
    pub sent: Instant,
    /// When the answer had arrived.
    pub arrived: Instant,
}

/// Shared by all who waited for it.
pub type Outcome = Result<Arc<Told>, Arc<Failure>>;

type Flights = HashMap<Question, Flight>;

/// A task, and the hash of the capabilities that the client declares, as it writes them: their text is
/// as long as the client likes.
type Question = (TaskId, Sha256Hex);

#[derive(Clone, Debug)]
struct Flight {
    began: Instant,
    landed: watch::Receiver<Option<Outcome>>,
}

/// What a poll does next.
enum Turn<'a> {
    Lead(Lead<'a>),
    Join(Flight),
    /// The request on its way is older than the question: wait for its end, or this long.
    Wait(Flight, Duration),
}

/// A request on its way; off the list on drop.
struct Lead<'a> {
    polls: &'a Polls,
    question: Question,
    began: Instant,
    land: watch::Sender<Option<Outcome>>,
}

/// Between two requests about one task, where the earlier takes longer.
const STAGGER: Duration = Duration::from_millis(250);

// === impl Polls ===

impl Polls {
    /// What `send` brings, or what another poll's does that was sent after this was called.
    pub async fn ask<F>(
        &self,
        task: &TaskId,
        capabilities: &RawValue,
        send: impl FnOnce() -> F,
    ) -> Outcome
    where
        F: Future<Output = Result<Told, Failure>>,
    {
        let called = Instant::now();
        let declared = Sha256Hex::of(capabilities.get().as_bytes());
        let question = (task.clone(), declared);
        loop {
            match self.turn(&question, called) {
                Turn::Lead(lead) => return lead.land(send().await),
                Turn::Join(mut flight) => {
                    let landed = flight.landed.wait_for(Option::is_some).await;
                    // Its leader may have ended without an answer: then the next one leads.
                    if let Some(outcome) = landed.ok().and_then(|outcome| outcome.clone()) {
                        return outcome;
                    }
                }
                Turn::Wait(mut flight, most) => {
                    let landed = flight.landed.wait_for(Option::is_some);
                    // Whether it landed or takes too long, it is another's turn then.
                    let _ = tokio::time::timeout(most, landed).await;
                }
            }
        }
    }

    /// How long ago the task was found to go on, while that is less than the upstream's own poll
    /// interval.
    pub fn working_since(&self, owner: &Owner, task: &TaskId) -> Option<Duration> {
        self.recent().since(owner, task, Instant::now())
    }

    /// Takes note that a task went on, as a poll found that was sent then; one that was sent before
    /// the task was last forgotten is none.
    pub fn went_on(&self, owner: &Owner, task: &TaskId, sent: Instant, interval: Duration) {
        let now = Instant::now();
        self.recent().went_on(owner, task, sent, interval, now);
    }

    /// Something happened to the task: the next poll asks.
    pub fn forget(&self, owner: &Owner, task: &TaskId) {
        self.recent().forget(owner, task, Instant::now());
    }

    /// Drops what is no longer news.
    pub fn sweep(&self, now: Instant) {
        self.recent().sweep(now);
    }

    fn turn(&self, question: &Question, called: Instant) -> Turn<'_> {
        let mut flights = self.flights();
        let flight = flights.get(question).filter(|flight| {
            // Whose leader is gone lands nowhere.
            flight.landed.has_changed().is_ok()
        });
        match flight {
            Some(flight) if flight.began >= called => return Turn::Join(flight.clone()),
            Some(flight) if flight.began.elapsed() < self.stagger => {
                let most = self.stagger.saturating_sub(flight.began.elapsed());
                return Turn::Wait(flight.clone(), most);
            }
            Some(_) | None => {}
        }
        let began = Instant::now();
        let (land, landed) = watch::channel(None);
        let flight = Flight { began, landed };
        flights.insert(question.clone(), flight);
        Turn::Lead(Lead {
            polls: self,
            question: question.clone(),
            began,
            land,
        })
    }

    fn flights(&self) -> MutexGuard<'_, Flights> {
        self.flights.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn recent(&self) -> MutexGuard<'_, Recent> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Polls {
    fn default() -> Self {
        Self {
            flights: Mutex::default(),
            recent: Mutex::default(),
            stagger: STAGGER,
        }
    }
}

// === impl Lead ===

impl Lead<'_> {
    fn land(self, outcome: Result<Told, Failure>) -> Outcome {
        let outcome = outcome.map(Arc::new).map_err(Arc::new);
        self.land.send_replace(Some(outcome.clone()));
        outcome
    }
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        let mut flights = self.polls.flights();
        // A slow one may have been overtaken by a later one.
        if flights
            .get(&self.question)
            .is_some_and(|flight| flight.began == self.began)
        {
            flights.remove(&self.question);
        }
    }
}

#[cfg(test)]
mod tests;
