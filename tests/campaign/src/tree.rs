//! A copy of the tree that may be broken.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// The copy, kept from run to run so that little is built anew.
#[derive(Debug)]
pub(crate) struct Copy {
    from: PathBuf,
    to: PathBuf,
}

/// Folders that hold nothing of the tree.
const SKIPPED: [&str; 3] = ["target", ".git", "__pycache__"];

// === impl Copy ===

impl Copy {
    pub(crate) fn new(from: &Path, to: &Path) -> Self {
        Self {
            from: from.to_owned(),
            to: to.to_owned(),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.to
    }

    /// Makes the copy what the tree is. What is equal is not touched, since cargo looks at times.
    pub(crate) fn renew(&self) -> Result<()> {
        let (mut wanted, mut have) = (BTreeSet::new(), BTreeSet::new());
        list(&self.from, Path::new(""), &mut wanted)?;
        fs::create_dir_all(&self.to)?;
        list(&self.to, Path::new(""), &mut have)?;
        for gone in have.difference(&wanted) {
            fs::remove_file(self.to.join(gone))?;
        }
        for file in &wanted {
            let (from, to) = (self.from.join(file), self.to.join(file));
            let content = fs::read(&from).with_context(|| from.display().to_string())?;
            if fs::read(&to).is_ok_and(|old| old == content) {
                continue;
            }
            if let Some(folder) = to.parent() {
                fs::create_dir_all(folder)?;
            }
            // By a copy, so that programs stay executable.
            fs::remove_file(&to).ok();
            fs::copy(&from, &to).with_context(|| to.display().to_string())?;
        }
        Ok(())
    }
}

fn list(root: &Path, folder: &Path, into: &mut BTreeSet<PathBuf>) -> Result<()> {
    let path = root.join(folder);
    for entry in fs::read_dir(&path).with_context(|| path.display().to_string())? {
        let entry = entry?;
        let (name, kind) = (entry.file_name(), entry.file_type()?);
        let inner = folder.join(&name);
        if kind.is_dir() && !SKIPPED.iter().any(|skipped| name == *skipped) {
            list(root, &inner, into)?;
        } else if kind.is_file() {
            into.insert(inner);
        }
    }
    Ok(())
}
