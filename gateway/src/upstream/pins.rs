//! Which contract of a tool may be invoked.
//!
//! `spec.tools.pins` wins; else, by mode, the first contract ever seen (kept in the store), nothing
//! (Explicit), or anything (Disabled). A task's own binding is another matter: it is checked on
//! every payload, whatever the mode.
//!
//! The first whole list of an upstream that has tools pins all that `spec.tools.pins` does not name,
//! whoever asked for it and whatever that client may call. A tool that appears later is pinned when it
//! is first seen, or, under `newTools: Withhold`, not at all: it is neither listed nor called until a
//! pin approves it, or a reset makes its next sight a first one.
//!
//! Guarantees: a pinned tool with its contract is judged from memory, also while the store is down;
//! a reset by another process is noticed within a second, and nothing read before it counts after.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hangar_ledger::ToolDigest;
use hangar_relay::contract::{self, Tool, Tools};
use hangar_store::{Contract, MAX_PIN_BYTES, MAX_PINS, PinScope, Pins, Sight, Store};
use hangar_wire::PinningMode;
use tokio_util::sync::CancellationToken;

use crate::config::Upstream;
use crate::gateway::Gateway;

/// What was read of the store.
#[derive(Debug, Default)]
pub struct Known {
    state: Mutex<State>,
    /// One look at a time: whoever waits finds what the one before it brought.
    looks: tokio::sync::Mutex<()>,
}

/// The latest revision of pins that is known to stand in the store.
#[derive(Debug, Default)]
pub struct Revision(AtomicU64);

/// Whether a contract may be invoked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Approved,
    /// Another contract is pinned.
    Drifted,
    /// There has to be a pin, and there is none.
    NotPinned,
}

#[derive(Debug, Default)]
struct State {
    /// None: not read yet.
    pins: Option<Pins>,
    /// When contracts were last noted that nobody waits for.
    noted: Option<Instant>,
}

/// How often the store is asked whether pins were reset.
const WATCH: Duration = Duration::from_secs(1);
/// What is seen and not pinned is noted so often at most: an upstream that changes with every list
/// must not make a commit of each.
const NOTE: Duration = Duration::from_secs(1);
/// How often one list is shown to the store while pins are being forgotten.
const SIGHTS: usize = 3;

/// Judges contracts of one whole list, and pins those that are seen for the first time.
pub async fn judge(
    gateway: &Gateway,
    upstream: &Upstream,
    list: &Tools,
    of: &[&Tool],
) -> Result<Vec<Verdict>, hangar_store::Error> {
    let known = &upstream.runtime.pins;
    let revision = gateway.pins.current();
    let is_first_use = upstream.object.pinning.mode == PinningMode::FirstUse;
    let mut looked = Ok(());
    if is_first_use && !known.settles(upstream, revision, of) {
        looked = known.look(gateway, upstream, revision, list).await;
    }
    let state = known.lock();
    let verdicts = of
        .iter()
        .map(|tool| state.verdict(upstream, revision, tool));
    let verdicts: Vec<_> = verdicts.collect();
    // What is known holds while the store is down.
    if verdicts.contains(&Verdict::NotPinned) {
        looked?;
    }
    Ok(verdicts)
}

/// Notices that pins were reset, until it is stopped.
pub async fn watch(gateway: Arc<Gateway>, stop: CancellationToken) {
    let mut ticks = tokio::time::interval(WATCH);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = ticks.tick() => {}
        }
        match gateway.store.pin_revision().await {
            Ok(revision) => gateway.pins.reached(revision),
            Err(error) => tracing::debug!(reason = error.reason(), "pins cannot be looked at"),
        }
    }
}

// === impl Known ===

impl Known {
    /// Whether all of these are known to stand as they are, so that there is nothing to look at.
    fn settles(&self, upstream: &Upstream, revision: u64, of: &[&Tool]) -> bool {
        let state = self.lock();
        let Some(pins) = state.current(revision) else {
            return false;
        };
        let explicit = &upstream.object.pinning.pins;
        let stands = |tool: &&Tool| {
            explicit.contains_key(&tool.name)
                || (pins.pinned.get(&tool.name) == Some(&ToolDigest(tool.digest))
                    && !pins.others.contains_key(&tool.name))
        };
        pins.complete && of.iter().all(stands)
    }

    /// Reads what is pinned, and takes in this list.
    async fn look(
        &self,
        gateway: &Gateway,
        upstream: &Upstream,
        revision: u64,
        list: &Tools,
    ) -> Result<(), hangar_store::Error> {
        let _one = self.looks.lock().await;
        let store: &dyn Store = &*gateway.store;
        let scope = PinScope {
            class: gateway.class.clone(),
            namespace: upstream.object.namespace.clone(),
            name: upstream.object.name.clone(),
        };
        if self.lock().current(revision).is_none() {
            let pins = store.pins(&scope).await?;
            self.lock().take(pins);
        }
        // Again only where pins were forgotten meanwhile.
        for _ in 0..SIGHTS {
            let Some(sight) = self.lock().due(&scope, upstream, list) else {
                return Ok(());
            };
            let of = sight.revision;
            let pins = store.sight(sight).await?;
            let is_taken_in = pins.revision == of;
            if pins.is_full() {
                tracing::warn!(
                    upstream = upstream.label,
                    most = MAX_PINS,
                    most_bytes = MAX_PIN_BYTES,
                    "too many contracts of tools: no further one is pinned until pins are reset"
                );
            }
            self.lock().take(pins);
            if is_taken_in {
                return Ok(());
            }
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl State ===

impl State {
    /// What is known, unless pins were forgotten since it was read.
    fn current(&self, revision: u64) -> Option<&Pins> {
        self.pins.as_ref().filter(|pins| pins.revision >= revision)
    }

    /// Takes in what the store said. Answers of one revision may come in another order than they
    /// were given: no pin is lost by that, since none is removed within a revision.
    fn take(&mut self, mut read: Pins) {
        if let Some(known) = &mut self.pins {
            if known.revision > read.revision {
                return;
            }
            if known.revision == read.revision {
                read.complete |= known.complete;
                read.pinned.append(&mut known.pinned);
                read.pinned_bytes = read.pinned_bytes.max(known.pinned_bytes);
            }
        }
        self.pins = Some(read);
    }

    /// What the store has to take in of this list, if anything.
    fn due(&mut self, scope: &PinScope, upstream: &Upstream, list: &Tools) -> Option<Sight> {
        let pins = self.pins.as_ref()?;
        let pinning = &upstream.object.pinning;
        let new_tools = pinning.new_tools;
        let (mut contracts, mut is_awaited, mut has_tools) = (Vec::new(), false, false);
        // A tool that must not be offered as it is was never seen.
        for tool in list.iter().filter(|tool| tool.mirrors.is_ok()) {
            has_tools = true;
            if pinning.pins.contains_key(&tool.name) {
                continue;
            }
            let digest = ToolDigest(tool.digest);
            let pinned = pins.pinned.get(&tool.name);
            let is_first = pinned.is_none() && pins.takes(&tool.name, new_tools);
            let is_due = if pinned == Some(&digest) {
                pins.others.contains_key(&tool.name)
            } else {
                is_first || pins.notes(&tool.name, digest)
            };
            is_awaited |= is_first;
            if is_due && let Ok(canonical) = contract::canonical(&tool.raw) {
                contracts.push(Contract {
                    tool: tool.name.clone(),
                    digest,
                    canonical,
                });
            }
        }
        // An upstream that has no tools yet was not seen yet.
        let is_first = !pins.complete && has_tools;
        if !is_first && !is_awaited {
            let now = Instant::now();
            let is_early = self.noted.is_some_and(|at| now - at < NOTE);
            if contracts.is_empty() || is_early {
                return None;
            }
            self.noted = Some(now);
        }
        Some(Sight {
            scope: scope.clone(),
            revision: pins.revision,
            contracts,
            new_tools,
        })
    }

    fn verdict(&self, upstream: &Upstream, revision: u64, tool: &Tool) -> Verdict {
        let pinning = &upstream.object.pinning;
        if let Some(approved) = pinning.pins.get(&tool.name) {
            return verdict(approved.contains(&tool.digest));
        }
        let pinned = match pinning.mode {
            PinningMode::Disabled => return Verdict::Approved,
            PinningMode::Explicit => None,
            PinningMode::FirstUse => self
                .current(revision)
                .and_then(|pins| pins.pinned.get(&tool.name)),
        };
        pinned.map_or(Verdict::NotPinned, |pinned| {
            verdict(*pinned == ToolDigest(tool.digest))
        })
    }
}

fn verdict(equal: bool) -> Verdict {
    if equal {
        Verdict::Approved
    } else {
        Verdict::Drifted
    }
}

// === impl Revision ===

impl Revision {
    fn current(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    fn reached(&self, revision: u64) {
        self.0.fetch_max(revision, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests;
