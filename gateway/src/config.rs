//! The configuration in force: received, checked, written to disk, then exchanged as one pointer.

pub mod active;
pub mod disk;
mod graves;
mod labels;
pub mod link;
mod runtimes;
mod subjects;
pub mod subscribe;

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use hangar_wire::{Held, Rejection, Snapshot, Term};
use tokio::sync::watch;

use crate::limit::held::{Budget, Room};

pub use active::{Active, Grant, Tenant, Upstream};
pub use graves::Graves;
pub use labels::{Labels, OTHER};
pub use runtimes::Runtimes;

/// Holds the configuration in force; readers take one `Arc` per request and use nothing else.
#[derive(Debug, Default)]
pub struct Config {
    active: ArcSwapOption<Active>,
    changed: watch::Sender<()>,
    /// What bodies of all requests and answers may take together.
    budget: Arc<Budget>,
    /// What the gateway itself takes of it.
    own: Arc<Room>,
}

/// What became of a snapshot.
#[derive(Debug)]
pub enum Applied {
    /// In force now; these objects could not be used, with their last good form in force.
    New(Vec<Rejection>),
    /// The same term as the one in force.
    Same,
}

/// Why a snapshot was refused whole.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("snapshot is damaged")]
    Damaged(#[source] hangar_wire::Error),
    #[error("configuration {offered} is older than {held}, which is in force")]
    Older { offered: Term, held: Term },
    /// Two operators numbered alike: which of them is right cannot be known here.
    #[error("configuration {term} is in force with another content")]
    Forked { term: Term },
    #[error("address rules cannot be used")]
    Addresses(#[source] crate::upstream::address::Error),
    #[error("no TLS client can be made")]
    Tls(#[source] rustls::Error),
}

// === impl Config ===

impl Config {
    /// No configuration yet, and at most so much of bodies at once under any.
    pub fn holding(budget: Budget) -> Self {
        let budget = Arc::new(budget);
        Self {
            active: ArcSwapOption::empty(),
            changed: watch::Sender::default(),
            own: Arc::new(Room::own(Arc::clone(&budget))),
            budget,
        }
    }

    pub fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// The configuration in force; none before the first.
    pub fn load(&self) -> Option<Arc<Active>> {
        self.active.load_full()
    }

    pub fn held(&self) -> Option<Held> {
        self.active.load().as_ref().map(|active| active.held())
    }

    /// Tells of every configuration that comes into force from now on.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Checks and prepares a snapshot, then exchanges the pointer.
    ///
    /// Guarantees: never goes back in (epoch, generation); a refused snapshot changes nothing.
    /// Assumes one writer: the subscription.
    pub fn apply(&self, snapshot: Snapshot, runtimes: &mut Runtimes) -> Result<Applied, Error> {
        snapshot.verify().map_err(Error::Damaged)?;
        let previous = self.load();
        if let Some(previous) = &previous {
            let (offered, held) = (snapshot.term, previous.term());
            let same = snapshot.digest == previous.held().digest;
            if offered < held {
                return Err(Error::Older { offered, held });
            }
            if offered == held && same {
                return Ok(Applied::Same);
            }
            if offered == held {
                return Err(Error::Forked { term: held });
            }
        }
        let budget = &self.budget;
        let (mut active, rejected) =
            Active::prepare(snapshot, previous.as_deref(), budget, runtimes)?;
        active.http.hold_within(Arc::clone(&self.own));
        self.active.store(Some(Arc::new(active)));
        self.changed.send_replace(());
        Ok(Applied::New(rejected))
    }
}

// === impl Error ===

impl Error {
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Damaged(_) => "damaged",
            Self::Older { .. } => "older",
            Self::Forked { .. } => "forked",
            Self::Addresses(_) => "addresses",
            Self::Tls(_) => "tls",
        }
    }
}

#[cfg(test)]
mod tests;
