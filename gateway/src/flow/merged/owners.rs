//! Whose a URI was found to be, for a while: to look costs requests to every upstream.
//!
//! Guarantees: what was found for one principal under one form of its policy is taken for true there
//! alone; memory is bounded, whatever clients ask for.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hangar_ledger::{Owner, UpstreamUid};
use hangar_wire::{ObjectDigest, Sha256Hex};

use crate::config::active::Caller;

/// The upstreams that were found.
#[derive(Debug, Default)]
pub struct Owners(Mutex<HashMap<Sha256Hex, Found>>);

#[derive(Debug)]
struct Found {
    upstream: UpstreamUid,
    at: Instant,
}

/// How long what was found is taken for true.
const REMEMBERED: Duration = Duration::from_secs(10);
/// URIs that are remembered.
const MOST: usize = 4096;

// === impl Owners ===

impl Owners {
    pub(super) fn of(&self, caller: &Caller, uri: &str) -> Option<UpstreamUid> {
        self.of_key(
            &key(&caller.tenant.digest, &caller.owner, uri),
            Instant::now(),
        )
    }

    pub(super) fn set(&self, caller: &Caller, uri: &str, upstream: &UpstreamUid) {
        let key = key(&caller.tenant.digest, &caller.owner, uri);
        self.set_key(key, upstream.clone(), Instant::now());
    }

    fn of_key(&self, key: &Sha256Hex, now: Instant) -> Option<UpstreamUid> {
        let owners = self.lock();
        let found = owners.get(key).filter(|found| found.is_fresh(now))?;
        Some(found.upstream.clone())
    }

    fn set_key(&self, key: Sha256Hex, upstream: UpstreamUid, now: Instant) {
        let mut owners = self.lock();
        if owners.len() >= MOST {
            owners.retain(|_, found| found.is_fresh(now));
        }
        // Full of what is fresh: it begins anew, which costs look-ups and nothing else.
        if owners.len() >= MOST {
            owners.clear();
        }
        owners.insert(key, Found { upstream, at: now });
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Sha256Hex, Found>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Found ===

impl Found {
    fn is_fresh(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.at) < REMEMBERED
    }
}

fn key(policy: &ObjectDigest, owner: &Owner, uri: &str) -> Sha256Hex {
    let Owner { tenant, principal } = owner;
    // Debug quotes what a name may hold, so that no two callers make one text.
    let text = format!("{policy:?} {tenant:?} {principal:?} {uri}");
    Sha256Hex::of(text.as_bytes())
}

#[cfg(test)]
mod tests;
