//! Whose a URI was found to be, for a while: to look costs requests to every upstream.
//!
//! Guarantees: what was found for one principal under one form of its policy is taken for true there
//! alone; memory is bounded, whatever clients ask for.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hangar_ledger::UpstreamUid;
use hangar_wire::Sha256Hex;

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
        let owners = self.lock();
        let found = owners.get(&key(caller, uri))?;
        (found.at.elapsed() < REMEMBERED).then(|| found.upstream.clone())
    }

    pub(super) fn set(&self, caller: &Caller, uri: &str, upstream: &UpstreamUid) {
        let mut owners = self.lock();
        if owners.len() >= MOST {
            owners.retain(|_, found| found.at.elapsed() < REMEMBERED);
        }
        // Full of what is fresh: it begins anew, which costs look-ups and nothing else.
        if owners.len() >= MOST {
            owners.clear();
        }
        let found = Found {
            upstream: upstream.clone(),
            at: Instant::now(),
        };
        owners.insert(key(caller, uri), found);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Sha256Hex, Found>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(caller: &Caller, uri: &str) -> Sha256Hex {
    let policy = &caller.tenant.digest;
    let principal = caller.owner.principal.as_ref();
    // Debug quotes what a name may hold, so that no two callers make one text.
    let text = format!("{policy:?} {:?} {principal:?} {uri}", caller.owner.tenant);
    Sha256Hex::of(text.as_bytes())
}
