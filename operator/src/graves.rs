//! Which upstreams were deleted, or became other servers: what gateways end tasks by.
//!
//! Guarantees: an upstream is buried only when its object is seen to be gone, or its endpoint to
//! have another origin, by a process that knew it; one that is refused or cannot be read is still
//! there. In folder mode what was known is kept, so that a deletion is found after a restart too; an
//! upstream whose file was put back in time was never gone, and one of a namespace that is not looked
//! at is as it was.
//! Caveats: against a cluster nothing is kept yet: what is deleted while no operator runs is not
//! buried, and its tasks end by their retention.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use hangar_operator_core::Verdict;
use hangar_wire::{Fate, Kind, ObjectKey, Outranked, Term, Tombstone, Upstream};
use http::Uri;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::state::{Access, StateDir};

/// Known upstreams and tombstones.
#[derive(Debug, Default)]
pub struct Graves {
    kept: Kept,
    /// By uid: known, not found by the last look, and since which one.
    missing: BTreeMap<String, Instant>,
    /// How long an upstream is missing before it counts as gone. None in a cluster, which says what
    /// was deleted; a folder only shows what is there.
    patience: Duration,
    /// Whose upstreams are looked at; empty: all.
    namespaces: BTreeSet<String>,
    state: Option<StateDir>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Kept {
    /// By uid.
    known: BTreeMap<String, Known>,
    /// By uid; a later one of the same uid takes its place.
    tombstones: BTreeMap<String, Tombstone>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Known {
    namespace: String,
    name: String,
    /// Scheme, host and port of the endpoint.
    origin: String,
}

const FILE: &str = "upstreams.json";
/// Longer than it takes to replace a manifest by removing and writing it: tasks that ended by a file
/// that was away for a moment would not come back with it.
const GONE_AFTER: Duration = Duration::from_secs(5);
/// Most tombstones; the oldest go first.
const MOST: usize = 1024;
/// Most ranges of outranked configurations of one tombstone; the oldest go first.
const MOST_OUTRANKED: usize = 16;

// === impl Graves ===

impl Graves {
    /// What the state folder remembers, for a folder of which these namespaces are looked at, or all.
    /// A file that cannot be read is begun anew: no task ends by what is not known.
    pub fn load(state: StateDir, namespaces: &[String]) -> Self {
        let kept = match state.read(FILE) {
            Ok(Some(bytes)) => serde_json::from_slice(&bytes).unwrap_or_else(|error| {
                tracing::warn!(%error, "state file `{FILE}` cannot be read: deletions before now are not known");
                Kept::default()
            }),
            Ok(None) => Kept::default(),
            Err(error) => {
                let error = crate::chain(&error);
                tracing::warn!(error, "deletions before now are not known");
                Kept::default()
            }
        };
        Self {
            kept,
            missing: BTreeMap::new(),
            patience: GONE_AFTER,
            namespaces: namespaces.iter().cloned().collect(),
            state: Some(state),
        }
    }

    /// Buries what is gone or changed since the last look, for tasks born before `next`. Answers when
    /// to look again, where something is missing that may come back.
    pub fn look(
        &mut self,
        upstreams: &[Upstream],
        verdicts: &BTreeMap<ObjectKey, Verdict>,
        next: Term,
        now: Instant,
    ) -> Option<Instant> {
        let before = self.kept.clone();
        let Self {
            kept: Kept { known, tombstones },
            missing,
            patience,
            namespaces,
            state: _,
        } = self;
        let mut bury = |uid: &str, known: &Known, fate: Fate| {
            let tombstone = Tombstone {
                namespace: known.namespace.clone(),
                name: known.name.clone(),
                uid: uid.to_owned(),
                fate,
                before: next,
                outranked: Vec::new(),
            };
            tombstones.insert(uid.to_owned(), tombstone);
        };
        known.retain(|uid, known| {
            let is_looked_at = namespaces.is_empty() || namespaces.contains(&known.namespace);
            if !is_looked_at || known.stands(uid, verdicts) {
                missing.remove(uid);
                return true;
            }
            let since = *missing.entry(uid.clone()).or_insert(now);
            if now < since + *patience {
                return true;
            }
            missing.remove(uid);
            bury(uid, known, Fate::Removed);
            false
        });
        let again = missing.values().min().map(|since| *since + *patience);
        for upstream in upstreams {
            let Some(found) = Known::of(upstream) else {
                continue;
            };
            let earlier = known.insert(upstream.uid.clone(), found.clone());
            if let Some(earlier) = earlier.filter(|earlier| earlier.origin != found.origin) {
                bury(&upstream.uid, &earlier, Fate::Changed);
            }
        }
        self.forget_the_oldest();
        if self.kept != before {
            self.keep();
        }
        again
    }

    pub fn tombstones(&self) -> Vec<Tombstone> {
        self.kept.tombstones.values().cloned().collect()
    }

    /// A gateway held something that ours did not supersede, and ours is raised above it: what was
    /// buried in this epoch was buried later than all that was born under what lies between. What
    /// was made again since under the same uid was born under `last` at the latest, and stays.
    pub fn lift(&mut self, last: Term, to: Term) {
        for Tombstone {
            before, outranked, ..
        } in self.kept.tombstones.values_mut()
        {
            // Raised with us the last time, if there was one.
            let at = outranked.last().map_or(*before, |raised| raised.before);
            if at.epoch != last.epoch {
                continue;
            }
            outranked.push(Outranked {
                after: last,
                before: to,
            });
            if outranked.len() > MOST_OUTRANKED {
                outranked.remove(0);
            }
        }
        self.keep();
    }

    fn forget_the_oldest(&mut self) {
        let tombstones = &mut self.kept.tombstones;
        while tombstones.len() > MOST {
            let oldest = tombstones.values().min_by_key(|it| it.before);
            let Some(uid) = oldest.map(|oldest| oldest.uid.clone()) else {
                return;
            };
            tombstones.remove(&uid);
        }
    }

    /// A deletion is published whether or not it can be kept: it must not wait for a disk.
    fn keep(&self) {
        let Some(state) = &self.state else {
            return;
        };
        let written = serde_json::to_vec(&self.kept)
            .map_err(|error| error.to_string())
            .and_then(|bytes| {
                let written = state.write(FILE, &bytes, Access::Public);
                written.map_err(|error| crate::chain(&error))
            });
        if let Err(error) = written {
            tracing::warn!(error, "what is known of upstreams cannot be kept");
        }
    }
}

// === impl Known ===

impl Known {
    fn of(upstream: &Upstream) -> Option<Self> {
        Some(Self {
            namespace: upstream.namespace.clone(),
            name: upstream.name.clone(),
            origin: origin(&upstream.url)?,
        })
    }

    /// Whether the object is still there, in whatever form.
    fn stands(&self, uid: &str, verdicts: &BTreeMap<ObjectKey, Verdict>) -> bool {
        let key = ObjectKey::new(Kind::McpUpstream, &*self.namespace, &*self.name);
        // One that cannot be decoded may not say which it is.
        verdicts
            .get(&key)
            .is_some_and(|verdict| verdict.uid == uid || verdict.uid.is_empty())
    }
}

fn origin(url: &str) -> Option<String> {
    let uri: Uri = url.parse().ok()?;
    let scheme = uri.scheme_str()?;
    let host = uri.host()?.to_ascii_lowercase();
    let port = uri.port_u16().or(match scheme {
        "http" => Some(80),
        "https" => Some(443),
        _ => None,
    })?;
    Some(format!("{scheme}://{host}:{port}"))
}

#[cfg(test)]
mod tests;
