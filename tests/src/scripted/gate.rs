//! A door in an answer that the test opens.

use std::sync::Arc;

use anyhow::{Context, Result};
use tokio::sync::watch;

use crate::wait;

/// Holds answers until opened; clones are the same gate.
#[derive(Clone, Debug)]
pub struct Gate(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    open: watch::Sender<bool>,
    waiting: watch::Sender<usize>,
}

// === impl Gate ===

impl Gate {
    /// A closed gate.
    #[allow(clippy::new_without_default)] // a default gate would not say that it is closed
    pub fn new() -> Self {
        Self(Arc::new(Inner {
            open: watch::Sender::new(false),
            waiting: watch::Sender::new(0),
        }))
    }

    /// Lets through whoever waits and whoever comes.
    pub fn open(&self) {
        self.0.open.send_replace(true);
    }

    /// Returns once that many answers have come to this gate, or rung it.
    pub async fn reached(&self, count: usize) -> Result<()> {
        let mut waiting = self.0.waiting.subscribe();
        let reached = waiting.wait_for(|now| *now >= count);
        tokio::time::timeout(wait::PATIENCE, reached)
            .await
            .with_context(|| format!("{count} answers at the gate: not reached"))??;
        Ok(())
    }

    /// How many have come so far.
    pub fn count(&self) -> usize {
        *self.0.waiting.borrow()
    }

    /// Counts, and does not wait.
    pub(super) fn ring(&self) {
        self.0.waiting.send_modify(|now| *now += 1);
    }

    pub(super) async fn pass(&self) {
        self.ring();
        let mut open = self.0.open.subscribe();
        // The sender lives as long as this gate, so the wait cannot fail.
        let _ = open.wait_for(|open| *open).await;
    }
}
