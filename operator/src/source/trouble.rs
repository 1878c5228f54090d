//! What keeps kinds of objects from being loaded, in words for the log and the `/readyz` body.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hangar_operator_core::ObjectKind;
use kube::core::Status;
use kube::runtime::watcher;

/// The latest failure of each watch that has read nothing since. Watches of a kind are numbered:
/// one for each namespace, where only some are watched.
#[derive(Clone, Debug, Default)]
pub struct Troubles(Arc<Mutex<Latest>>);

type Latest = BTreeMap<(&'static str, usize), String>;

// === impl Troubles ===

impl Troubles {
    pub fn set(&self, kind: ObjectKind, scope: usize, words: String) {
        self.lock().insert((kind.as_str(), scope), words);
    }

    /// This watch read something.
    pub fn clear(&self, kind: ObjectKind, scope: usize) {
        self.lock().remove(&(kind.as_str(), scope));
    }

    /// One line a watch; empty when there is nothing to say.
    pub fn lines(&self) -> String {
        let mut text = String::new();
        for ((kind, _), words) in self.lock().iter() {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{kind}: {words}");
        }
        text
    }

    fn lock(&self) -> MutexGuard<'_, Latest> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What failed, and what to do about it where that is known.
pub fn words(kind: ObjectKind, error: &watcher::Error) -> String {
    match status(error) {
        Some(status) if status.code == 404 && kind != ObjectKind::Secret => format!(
            "the cluster does not serve {}.hangar.dev; install the CRDs, from the chart \
             hangar-crds",
            kind.as_str()
        ),
        Some(status) if status.code == 403 => format!(
            "the operator may not read them: {}; give its ServiceAccount the rules of the chart \
             hangar",
            status.message
        ),
        Some(status) => format!("the cluster answered {}: {}", status.code, status.message),
        None => crate::chain(error),
    }
}

fn status(error: &watcher::Error) -> Option<&Status> {
    match error {
        watcher::Error::WatchError(status)
        | watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status)) => Some(status),
        watcher::Error::InitialListFailed(_)
        | watcher::Error::WatchStartFailed(_)
        | watcher::Error::WatchFailed(_)
        | watcher::Error::NoResourceVersion => None,
    }
}

#[cfg(test)]
mod tests;
