//! The current configuration: numbered, serialized once, shared by every subscription.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use hangar_operator_core::Verdict;
use hangar_wire::{
    AddressRules, ConfigDigest, Epoch, FORMAT, Generation, Held, ObjectDigest, ObjectKey, Snapshot,
    Tenant, Term, Update, Upstream,
};
use tokio::sync::watch;

use crate::epoch::{self, EpochStore};
use crate::graves::Graves;

/// Digest of each object of one configuration.
pub type ObjectDigests = Arc<BTreeMap<ObjectKey, ObjectDigest>>;

/// One configuration, ready to be sent.
#[derive(Debug)]
pub struct Published {
    pub held: Held,
    /// The whole answer to a subscription.
    pub body: Bytes,
    pub digests: ObjectDigests,
    /// When it came into being.
    pub since: Instant,
}

/// Numbers configurations and keeps the current one.
///
/// Guarantees: terms only go up; the generation moves only when the digest does; a gateway that
/// holds a higher term than ours makes us take a higher epoch before it is answered.
#[derive(Debug)]
pub struct Publisher {
    epochs: Box<dyn EpochStore>,
    /// The numbering; held while an epoch is made durable.
    numbering: tokio::sync::Mutex<Numbering>,
    current: watch::Sender<Option<Arc<Published>>>,
    recent: Mutex<VecDeque<(ConfigDigest, ObjectDigests)>>,
}

#[derive(Debug)]
struct Numbering {
    term: Term,
    graves: Graves,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot raise the epoch")]
    Epoch(#[from] epoch::Error),
    #[error("cannot make the configuration's wire form")]
    Wire(#[from] hangar_wire::Error),
    #[error("cannot serialize the configuration")]
    Serialize(#[from] serde_json::Error),
    #[error("the current configuration cannot be read back")]
    ReadBack,
    #[error("a gateway says that it holds configuration {held}, which no operator can have made")]
    Implausible { held: Term },
}

/// Configurations whose object digests are remembered, so that a gateway that is a few behind
/// still counts for the objects that did not change.
const RECENT: usize = 8;
/// Beyond any count of starts.
const MAX_EPOCH: Epoch = Epoch(1 << 48);

// === impl Error ===

impl Error {
    /// Closed word for metrics and logs.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Epoch(_) => "epoch",
            Self::Wire(_) => "wire",
            Self::Serialize(_) => "serialize",
            Self::ReadBack => "read_back",
            Self::Implausible { .. } => "implausible",
        }
    }
}

// === impl Publisher ===

impl Publisher {
    /// Takes the epoch of this process.
    pub async fn start(epochs: Box<dyn EpochStore>, graves: Graves) -> Result<Self, Error> {
        let epoch = epochs.raise(Epoch(1)).await?;
        let term = Term {
            epoch,
            generation: Generation(0),
        };
        Ok(Self {
            epochs,
            numbering: tokio::sync::Mutex::new(Numbering { term, graves }),
            current: watch::Sender::new(None),
            recent: Mutex::new(VecDeque::new()),
        })
    }

    /// Where subscriptions wait for what is newer; `None` before the first complete load.
    pub fn subscribe(&self) -> watch::Receiver<Option<Arc<Published>>> {
        self.current.subscribe()
    }

    pub fn current(&self) -> Option<Arc<Published>> {
        self.current.borrow().clone()
    }

    /// Finds upstreams that are gone or other servers by now; the next configuration says so. Answers
    /// when to look again, where one is missing that may come back.
    pub async fn look(
        &self,
        upstreams: &[Upstream],
        verdicts: &BTreeMap<ObjectKey, Verdict>,
        now: tokio::time::Instant,
    ) -> Option<tokio::time::Instant> {
        let mut numbering = self.numbering.lock().await;
        let next = numbering.next();
        numbering.graves.look(upstreams, verdicts, next, now)
    }

    /// Makes this the current configuration. `None`: it is so already.
    pub async fn publish(
        &self,
        addresses: AddressRules,
        upstreams: Vec<Upstream>,
        tenants: Vec<Tenant>,
    ) -> Result<Option<Arc<Published>>, Error> {
        let mut numbering = self.numbering.lock().await;
        let next = numbering.next();
        let snapshot = Snapshot::new(next, addresses, upstreams, tenants)?
            .with_tombstones(numbering.graves.tombstones())?;
        let current = self.current();
        if current.is_some_and(|it| it.held.digest == snapshot.digest) {
            return Ok(None);
        }
        let published = self.replace(snapshot)?;
        numbering.term = next;
        Ok(Some(published))
    }

    /// Takes a higher epoch when a gateway holds something that ours does not supersede: a higher
    /// term, or other content under the same one. This happens after the kept epoch was lost.
    pub async fn outrank(&self, held: Held) -> Result<(), Error> {
        let mut numbering = self.numbering.lock().await;
        let Some(current) = self.current() else {
            return Ok(());
        };
        if supersedes(&current.held, &held) {
            return Ok(());
        }
        // A number that no count of starts reaches: raising to it would use epochs up for good.
        if held.term.epoch > MAX_EPOCH {
            return Err(Error::Implausible { held: held.term });
        }
        let at_least = Epoch(held.term.epoch.0 + 1);
        let next = Term {
            epoch: self.epochs.raise(at_least).await?,
            generation: numbering.term.generation,
        };
        let update: Update = hangar_wire::decode(&current.body).map_err(|_| Error::ReadBack)?;
        let mut snapshot = update.snapshot.ok_or(Error::ReadBack)?;
        snapshot.term = next;
        let last = numbering.term;
        numbering.graves.lift(last, next);
        let tombstones = numbering.graves.tombstones();
        self.replace(snapshot.with_tombstones(tombstones)?)?;
        numbering.term = next;
        tracing::warn!(held = %held.term, term = %next, "a gateway held a higher term; ours is raised above it");
        Ok(())
    }

    /// Object digests of a recent configuration; `None` for one that this process does not know.
    pub fn digests_of(&self, digest: ConfigDigest) -> Option<ObjectDigests> {
        let recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent
            .iter()
            .find(|(known, _)| *known == digest)
            .map(|(_, digests)| Arc::clone(digests))
    }

    fn replace(&self, snapshot: Snapshot) -> Result<Arc<Published>, Error> {
        let held = snapshot.held();
        let digests = Arc::new(snapshot.object_digests()?);
        let update = Update {
            format: FORMAT,
            snapshot: Some(snapshot),
        };
        let published = Arc::new(Published {
            held,
            body: serde_json::to_vec(&update)?.into(),
            digests: Arc::clone(&digests),
            since: Instant::now(),
        });
        {
            let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
            recent.retain(|(known, _)| *known != held.digest);
            recent.push_front((held.digest, digests));
            recent.truncate(RECENT);
        }
        self.current.send_replace(Some(Arc::clone(&published)));
        Ok(published)
    }
}

// === impl Numbering ===

impl Numbering {
    fn next(&self) -> Term {
        Term {
            epoch: self.term.epoch,
            generation: Generation(self.term.generation.0 + 1),
        }
    }
}

/// Whether a gateway that holds `held` would take `current`, or holds exactly it.
fn supersedes(current: &Held, held: &Held) -> bool {
    current.term > held.term || current == held
}

#[cfg(test)]
mod tests;
