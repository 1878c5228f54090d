//! Status of folder mode: `status.json` in the state folder, and the log.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::BoxFuture;
use hangar_operator_core::{Difference, Status};
use hangar_wire::{Kind, ObjectKey};
use serde_json::Value;

use super::{Book, Outcome, Update, Writer};
use crate::control::Verdicts;
use crate::metrics::{Metrics, StatusWrite};
use crate::state::{Access, StateDir};

/// Writes the file.
#[derive(Debug)]
pub struct FolderWriter {
    state: StateDir,
    metrics: Metrics,
    /// The file is behind the book.
    stale: AtomicBool,
}

/// By `Kind/namespace/name`.
pub const FILE: &str = "status.json";

const GOOD: &str = "True";

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("cannot serialize the statuses")]
    Serialize(#[from] serde_json::Error),
    #[error(transparent)]
    State(#[from] crate::state::Error),
}

/// What an earlier process left, so that transition times go on. A damaged file counts as none.
pub fn load(state: &StateDir) -> Book {
    let book = Book::default();
    let text = state
        .read_text(FILE)
        .unwrap_or_default()
        .unwrap_or_default();
    let found: BTreeMap<String, Value> = serde_json::from_str(&text).unwrap_or_default();
    for (key, value) in found {
        let Ok(key) = key.parse::<ObjectKey>() else {
            continue;
        };
        let status = match key.kind {
            Kind::McpUpstream => serde_json::from_value(value).map(Status::Upstream),
            Kind::TenantPolicy => serde_json::from_value(value).map(Status::Policy),
        };
        if let Ok(status) = status {
            book.set(key, status);
        }
    }
    book
}

fn to_json(status: &Status) -> Result<Value, serde_json::Error> {
    match status {
        Status::Upstream(status) => serde_json::to_value(status),
        Status::Policy(status) => serde_json::to_value(status),
    }
}

fn log(update: &Update) {
    let conditions = update.status.conditions();
    let object = &update.key;
    let generation = update.status.observed_generation();
    match conditions.iter().find(|it| it.status != GOOD) {
        None => tracing::info!(%object, generation, "object is ready"),
        Some(bad) => tracing::warn!(
            %object,
            generation,
            condition = bad.type_,
            status = bad.status,
            reason = bad.reason,
            detail = bad.message,
            "object is not ready"
        ),
    }
}

// === impl FolderWriter ===

impl FolderWriter {
    pub fn new(state: StateDir, metrics: Metrics) -> Self {
        Self {
            state,
            metrics,
            stale: AtomicBool::new(false),
        }
    }

    fn save(&self, book: &Book) {
        match self.try_save(book) {
            Ok(()) => {
                self.stale.store(false, Ordering::Relaxed);
                self.metrics.status_write(StatusWrite::Written);
            }
            Err(error) => {
                self.stale.store(true, Ordering::Relaxed);
                self.metrics.status_write(StatusWrite::Failed);
                tracing::warn!(%error, "status.json not written");
            }
        }
    }

    fn try_save(&self, book: &Book) -> Result<(), Error> {
        let mut statuses = BTreeMap::new();
        for (key, status) in book.snapshot() {
            statuses.insert(key.to_string(), to_json(&status)?);
        }
        let mut bytes = serde_json::to_vec_pretty(&statuses)?;
        bytes.push(b'\n');
        self.state.write(FILE, &bytes, Access::Public)?;
        Ok(())
    }
}

impl Writer for FolderWriter {
    fn write<'a>(&'a self, updates: Vec<Update>, book: &'a Book) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            for update in updates {
                if update.difference == Difference::Conditions {
                    log(&update);
                }
                book.set(update.key, update.status);
            }
            self.save(book);
            // The file is tried again by the next pass, from the book.
            Outcome::Done
        })
    }

    fn retain(&self, verdicts: &Verdicts, book: &Book) {
        if book.retain(verdicts) || self.stale.load(Ordering::Relaxed) {
            self.save(book);
        }
    }
}
