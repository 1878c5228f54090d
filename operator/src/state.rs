//! The state folder of folder mode: small files, each written whole or not at all.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// A folder that this process writes to.
#[derive(Clone, Debug)]
pub struct StateDir {
    path: PathBuf,
}

/// Who may read a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Everybody (mode 0644): nothing secret in it.
    Public,
    /// The owner only (mode 0600).
    Private,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read state file {path}")]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot write state file {path}")]
    Write {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("--state-dir {path} is in use by another operator")]
    InUse { path: PathBuf },
}

// === impl Error ===

impl Error {
    /// Closed word for metrics and logs.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Read { .. } => "read",
            Self::Write { .. } => "write",
            Self::InUse { .. } => "in_use",
        }
    }
}

// === impl StateDir ===

impl StateDir {
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Content of a file; `None` where there is no such file.
    pub fn read(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        let path = self.path.join(name);
        match fs::read(&path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(Error::Read { path, source }),
        }
    }

    /// As [`Self::read`]; also `None` where the file is no text.
    pub fn read_text(&self, name: &str) -> Result<Option<String>, Error> {
        Ok(self.read(name)?.and_then(|b| String::from_utf8(b).ok()))
    }

    /// Removes a file; one that is not there is fine.
    pub fn remove(&self, name: &str) -> Result<(), Error> {
        let path = self.path.join(name);
        match fs::remove_file(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(Error::Write { path, source })
            }
            _ => Ok(()),
        }
    }

    /// Takes the folder for this process, as long as the result lives.
    pub fn lock(&self) -> Result<File, Error> {
        let path = self.path.join("lock");
        let open = || {
            fs::create_dir_all(&self.path)?;
            OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(false)
                .open(&path)
        };
        let file = open().map_err(|source| Error::Write {
            path: path.clone(),
            source,
        })?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => Err(Error::InUse {
                path: self.path.clone(),
            }),
            Err(TryLockError::Error(source)) => Err(Error::Write { path, source }),
        }
    }

    /// Replaces a file.
    ///
    /// Guarantees: after success the new content survives a power cut; before it, readers and a
    /// crash see the old content whole. The folder is made when it is missing.
    pub fn write(&self, name: &str, bytes: &[u8], access: Access) -> Result<(), Error> {
        let path = self.path.join(name);
        self.replace(name, &path, bytes, access)
            .map_err(|source| Error::Write { path, source })
    }

    fn replace(&self, name: &str, path: &Path, bytes: &[u8], access: Access) -> io::Result<()> {
        fs::create_dir_all(&self.path)?;
        let temporary = self.path.join(format!(".{name}.new"));
        let mode = match access {
            Access::Public => 0o644,
            Access::Private => 0o600,
        };
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(mode)
            .open(&temporary)?;
        // A file left by a crash keeps its old mode: set it before the content is in.
        file.set_permissions(fs::Permissions::from_mode(mode))?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&temporary, path)?;
        File::open(&self.path)?.sync_all()
    }
}

#[cfg(test)]
mod tests;
