//! Finds manifest files below some roots.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Files by path with the time of their last change.
    pub(super) files: BTreeMap<PathBuf, Option<SystemTime>>,
    /// Files and folders that cannot be looked at.
    pub(super) failed: BTreeMap<PathBuf, String>,
}

/// Deep enough for any layout; a link that leads upwards ends here.
const MAX_DEPTH: usize = 16;
const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];

pub(super) fn walk(roots: &[PathBuf]) -> Found {
    let mut found = Found::default();
    for root in roots {
        match fs::metadata(root) {
            Ok(metadata) if metadata.is_file() => {
                found.files.insert(root.clone(), metadata.modified().ok());
            }
            Ok(_) => found.folder(root, MAX_DEPTH),
            Err(error) => found.fail(root, &error),
        }
    }
    found
}

// === impl Found ===

impl Found {
    fn folder(&mut self, path: &Path, depth: usize) {
        let entries = match fs::read_dir(path) {
            Ok(entries) => entries,
            Err(error) => return self.fail(path, &error),
        };
        for entry in entries {
            match entry {
                Ok(entry) => self.entry(&entry.path(), depth),
                Err(error) => self.fail(path, &error),
            }
        }
    }

    fn entry(&mut self, path: &Path, depth: usize) {
        // Hidden names are editors' files, and the two folders behind a ConfigMap volume's links.
        let name = path.file_name().unwrap_or_default();
        if name.as_encoded_bytes().starts_with(b".") {
            return;
        }
        // Follows links.
        match fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() && depth > 0 => self.folder(path, depth - 1),
            Ok(metadata) if metadata.is_file() && is_manifest(path) => {
                self.files.insert(path.to_owned(), metadata.modified().ok());
            }
            Ok(_) => {}
            // Deleted in between, or a link that leads nowhere.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => self.fail(path, &error),
        }
    }

    fn fail(&mut self, path: &Path, error: &io::Error) {
        self.failed.insert(path.to_owned(), error.to_string());
    }
}

fn is_manifest(path: &Path) -> bool {
    let extension = path.extension().unwrap_or_default();
    EXTENSIONS.iter().any(|it| extension == *it)
}
