//! Which contract of a tool may be invoked.
//!
//! `spec.tools.pins` wins; else, by mode, the first contract ever seen (kept in the store), nothing
//! (Explicit), or anything (Disabled). A task's own binding is another matter: it is checked on
//! every payload, whatever the mode.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use hangar_ledger::ToolDigest;
use hangar_relay::contract::Tool;
use hangar_store::{PinKey, Store};
use hangar_wire::PinningMode;

use crate::config::Upstream;

/// First-use pins read from the store. They are never replaced there, so a copy stays true.
#[derive(Debug, Default)]
pub struct Known {
    pins: Mutex<HashMap<String, ToolDigest>>,
}

/// Whether a contract may be invoked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Approved,
    /// Another contract is pinned.
    Drifted,
    /// The mode asks for a pin and there is none.
    NotPinned,
}

/// Names pinned of one upstream by one process: an upstream that renames its tools with every list
/// must not fill the disk of all tenants.
const MAX_PINS: usize = 8192;

/// Judges a contract, and pins it where it is the first one seen.
pub async fn judge(
    store: &dyn Store,
    class: &str,
    upstream: &Upstream,
    tool: &Tool,
) -> Result<Verdict, hangar_store::Error> {
    let pinning = &upstream.object.pinning;
    if let Some(approved) = pinning.pins.get(&tool.name) {
        return Ok(verdict(approved.contains(&tool.digest)));
    }
    match pinning.mode {
        PinningMode::Disabled => Ok(Verdict::Approved),
        PinningMode::Explicit => Ok(Verdict::NotPinned),
        PinningMode::FirstUse => Ok(match first_use(store, class, upstream, tool).await? {
            Some(pinned) => verdict(pinned == ToolDigest(tool.digest)),
            None => Verdict::NotPinned,
        }),
    }
}

fn verdict(equal: bool) -> Verdict {
    if equal {
        Verdict::Approved
    } else {
        Verdict::Drifted
    }
}

/// The first contract ever seen of this tool, pinned now where this is it; none for a new name
/// beyond the bound.
async fn first_use(
    store: &dyn Store,
    class: &str,
    upstream: &Upstream,
    tool: &Tool,
) -> Result<Option<ToolDigest>, hangar_store::Error> {
    let known = &upstream.runtime.pins;
    let is_full = {
        let known = known.lock();
        if let Some(pinned) = known.get(&tool.name) {
            return Ok(Some(*pinned));
        }
        known.len() >= MAX_PINS
    };
    let key = PinKey {
        class: class.to_owned(),
        namespace: upstream.object.namespace.clone(),
        name: upstream.object.name.clone(),
        tool: tool.name.clone(),
    };
    let pinned = if let Some(pinned) = store.pin(&key).await? {
        pinned
    } else if is_full {
        tracing::warn!(
            upstream = upstream.label,
            "too many names of tools: no further one is pinned"
        );
        return Ok(None);
    } else {
        let contract = tool.raw.get().as_bytes().to_vec();
        store
            .pin_first(key, ToolDigest(tool.digest), contract)
            .await?
    };
    known.lock().insert(tool.name.clone(), pinned.digest);
    Ok(Some(pinned.digest))
}

// === impl Known ===

impl Known {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, ToolDigest>> {
        self.pins.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
