//! What keeps kinds of objects from being loaded, in words for the log and the `/readyz` body.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

use hangar_operator_core::ObjectKind;
use kube::core::Status;
use kube::runtime::watcher;

/// The latest failure of each kind that has not been read since.
#[derive(Clone, Debug, Default)]
pub struct Troubles(Arc<Mutex<BTreeMap<&'static str, String>>>);

// === impl Troubles ===

impl Troubles {
    pub fn set(&self, kind: ObjectKind, words: String) {
        self.lock().insert(kind.as_str(), words);
    }

    /// The kind was read.
    pub fn clear(&self, kind: ObjectKind) {
        self.lock().remove(kind.as_str());
    }

    /// One line a kind; empty when there is nothing to say.
    pub fn lines(&self) -> String {
        let mut text = String::new();
        for (kind, words) in self.lock().iter() {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{kind}: {words}");
        }
        text
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<&'static str, String>> {
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
        None => chain(error),
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

fn chain(error: &watcher::Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        // Some of these errors print their cause themselves.
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests;
