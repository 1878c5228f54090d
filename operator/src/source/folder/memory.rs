//! The last whole form of each manifest file, kept in the state folder: a file that is damaged while
//! the operator restarts loses nothing of what it said before.
//!
//! Caveats: Secrets in manifests are kept with them, readable by the owner only. What the file said
//! last counts, also where the operator did not accept it for another reason than its form.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use hangar_wire::Sha256Hex;

use crate::state::{Access, StateDir};

/// Copies of manifest files.
#[derive(Debug)]
pub(super) struct Memory {
    state: StateDir,
    /// Files that have a copy, as far as this process knows.
    copied: BTreeSet<PathBuf>,
}

// === impl Memory ===

impl Memory {
    pub(super) fn new(state: StateDir) -> Self {
        Self {
            state,
            copied: BTreeSet::new(),
        }
    }

    /// Keeps what a whole file says.
    pub(super) fn keep(&mut self, path: &Path, text: &str) {
        let kept = self
            .state
            .write(&name(path), text.as_bytes(), Access::Private);
        match kept {
            Ok(()) => {
                self.copied.insert(path.to_owned());
            }
            Err(error) => {
                let file = path.display();
                tracing::warn!(%file, %error, "a copy of the manifest cannot be kept");
            }
        }
    }

    /// What the file said when it was last whole.
    pub(super) fn recall(&mut self, path: &Path) -> Option<String> {
        let text = self.state.read_text(&name(path)).ok().flatten()?;
        self.copied.insert(path.to_owned());
        Some(text)
    }

    /// Forgets files that are gone: what was deleted does not come back with a damaged namesake.
    pub(super) fn retain(&mut self, exists: impl Fn(&Path) -> bool) {
        let state = &self.state;
        self.copied.retain(|path| {
            let stays = exists(path);
            if !stays && let Err(error) = state.remove(&name(path)) {
                let file = path.display();
                tracing::warn!(%file, %error, "the copy of a deleted manifest cannot be removed");
            }
            stays
        });
    }
}

fn name(path: &Path) -> String {
    let digest = Sha256Hex::of(path.as_os_str().as_encoded_bytes());
    let hex = hangar_wire::hex(&digest.as_bytes()[..16]);
    format!("manifest-{hex}.yaml")
}
