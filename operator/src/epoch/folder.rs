//! Epoch of folder mode: a number in the state folder.

use futures::future::BoxFuture;
use hangar_wire::Epoch;

use super::{EpochStore, Error, next};
use crate::state::{Access, StateDir};

#[derive(Clone, Debug)]
pub struct FolderEpoch {
    state: StateDir,
}

const FILE: &str = "epoch";

// === impl FolderEpoch ===

impl FolderEpoch {
    pub fn new(state: StateDir) -> Self {
        Self { state }
    }

    fn raise_now(&self, at_least: Epoch) -> Result<Epoch, Error> {
        let kept = match self.state.read_text(FILE)? {
            None => None,
            Some(text) => Some(Epoch(text.trim().parse().map_err(|_| {
                Error::NotANumber {
                    file: FILE,
                    found: text.trim().chars().take(32).collect(),
                }
            })?)),
        };
        let epoch = next(kept, at_least)?;
        let text = format!("{}\n", epoch.0);
        self.state.write(FILE, text.as_bytes(), Access::Public)?;
        Ok(epoch)
    }
}

impl EpochStore for FolderEpoch {
    fn raise(&self, at_least: Epoch) -> BoxFuture<'_, Result<Epoch, Error>> {
        Box::pin(async move { self.raise_now(at_least) })
    }
}
