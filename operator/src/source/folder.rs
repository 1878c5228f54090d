//! A folder of manifests as the source.
//!
//! Guarantees: a pass looks at every file, whatever woke it; a file that cannot be read or parsed
//! leaves what it defined before in force, also before a restart, and never touches the objects of
//! other files.
//! Caveats: file notifications are only a hint, since they get lost and ConfigMap volumes swap
//! symbolic links; the rescan finds everything.

mod index;
mod memory;
mod walk;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures::future::BoxFuture;
use hangar_operator_core::Change;
use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub use self::index::{Index, Scan, Stability};
use super::Source;
use super::manifest::Problem;
use crate::metrics::Metrics;
use crate::state::StateDir;

/// Watches a folder.
#[derive(Debug)]
pub struct Folder {
    root: PathBuf,
    /// Whose objects count; empty: all.
    namespaces: Vec<String>,
    state: StateDir,
    metrics: Metrics,
}

/// What was logged already.
#[derive(Debug, Default)]
struct Reported(BTreeSet<Problem>);

const RESCAN_EVERY: Duration = Duration::from_secs(2);
/// Files that are being written are looked at again after this.
const RESCAN_UNSETTLED: Duration = Duration::from_millis(60);
/// After a hint, so that a burst of writes makes one pass.
const QUIET: Duration = Duration::from_millis(20);

// === impl Folder ===

impl Folder {
    pub fn new(root: PathBuf, namespaces: Vec<String>, state: StateDir, metrics: Metrics) -> Self {
        Self {
            root,
            namespaces,
            state,
            metrics,
        }
    }

    async fn watch(self, changes: mpsc::Sender<Change>, stop: CancellationToken) {
        let hint = Arc::new(Notify::new());
        let _watcher = watcher(&self.root, Arc::clone(&hint));
        let mut reported = Reported::default();
        let mut index = Index::new(vec![self.root.clone()])
            .only(&self.namespaces)
            .remembering(self.state.clone());
        loop {
            let started = Instant::now();
            let passed = tokio::task::spawn_blocking(move || {
                let scan = index.scan(SystemTime::now());
                (index, scan)
            });
            // The pass has no panic in it; if one slips in, the process must not go on half blind.
            let Ok((same, scan)) = passed.await else {
                tracing::error!("the scan of the manifests folder crashed");
                stop.cancel();
                return;
            };
            index = same;
            reported.report(&scan.problems, &self.metrics);
            for change in scan.changes {
                let sent = stop.run_until_cancelled(changes.send(change)).await;
                if !matches!(sent, Some(Ok(()))) {
                    return;
                }
            }
            let pause = match scan.stability {
                Stability::Settled => RESCAN_EVERY,
                Stability::BeingWritten => RESCAN_UNSETTLED,
            };
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep_until(started + pause) => {}
                () = quiet(&hint) => {}
            }
        }
    }
}

impl Source for Folder {
    fn run(
        self: Box<Self>,
        changes: mpsc::Sender<Change>,
        stop: CancellationToken,
    ) -> BoxFuture<'static, ()> {
        Box::pin(self.watch(changes, stop))
    }
}

/// Ends shortly after a hint.
async fn quiet(hint: &Notify) {
    hint.notified().await;
    tokio::time::sleep(QUIET).await;
}

fn watcher(root: &Path, hint: Arc<Notify>) -> Option<RecommendedWatcher> {
    let made = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        // Our own reading must not wake us.
        if !event.is_ok_and(|event| event.kind.is_access()) {
            hint.notify_one();
        }
    });
    let watching = made.and_then(|mut watcher| {
        watcher.watch(root, RecursiveMode::Recursive)?;
        Ok(watcher)
    });
    match watching {
        Ok(watcher) => Some(watcher),
        Err(error) => {
            tracing::warn!(folder = %root.display(), %error, "no file notifications; changes are found by the rescan every {RESCAN_EVERY:?}");
            None
        }
    }
}

// === impl Reported ===

impl Reported {
    /// Logs what is new and counts what there is.
    fn report(&mut self, problems: &BTreeSet<Problem>, metrics: &Metrics) {
        let mut counts = BTreeMap::new();
        for problem in problems {
            if problem.is_fault() {
                *counts.entry(problem.reason.as_str()).or_default() += 1;
            }
            if !self.0.contains(problem) {
                log(problem);
            }
        }
        for mended in self.0.difference(problems) {
            tracing::info!(file = %mended.file.display(), reason = mended.reason.as_str(), "problem in the manifests is gone");
        }
        metrics.manifest_errors(&counts);
        self.0.clone_from(problems);
    }
}

fn log(problem: &Problem) {
    let Problem {
        file,
        line,
        field,
        reason,
        message,
    } = problem;
    let reason = reason.as_str();
    let file = file.display();
    tracing::warn!(%file, line, field, reason, detail = message, "problem in the manifests");
}

#[cfg(test)]
mod tests;
