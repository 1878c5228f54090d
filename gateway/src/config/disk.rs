//! The last-known-good configuration: one file, replaced as a whole.
//!
//! Guarantees: after [`LastKnownGood::save`] returns, the snapshot survives a power loss; a reader
//! sees the old file or the new one, never a mixture. It holds no secret: API keys are in it as
//! SHA-256 only.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use hangar_wire::Snapshot;

/// Where the configuration is kept.
#[derive(Clone, Debug)]
pub struct LastKnownGood {
    folder: PathBuf,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("last-known-good configuration cannot be written to {path}")]
    Write { path: PathBuf, source: io::Error },
    #[error("last-known-good configuration in {path} cannot be read")]
    Read { path: PathBuf, source: io::Error },
    #[error("last-known-good configuration in {path} is not usable")]
    Content {
        path: PathBuf,
        source: hangar_wire::Error,
    },
}

const FILE: &str = "last-known-good.json";
const PARTIAL: &str = "last-known-good.json.partial";

// === impl LastKnownGood ===

impl LastKnownGood {
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
        }
    }

    /// Blocks on the disk: call it off the request path.
    pub fn save(&self, snapshot: &Snapshot) -> Result<(), Error> {
        let path = self.folder.join(FILE);
        self.replace(&path, snapshot)
            .map_err(|source| Error::Write { path, source })
    }

    /// The stored configuration; none when nothing was ever stored.
    pub fn load(&self) -> Result<Option<Snapshot>, Error> {
        let path = self.folder.join(FILE);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(Error::Read { path, source }),
        };
        hangar_wire::decode::<Snapshot>(&bytes)
            .and_then(|snapshot| snapshot.verify().map(|()| Some(snapshot)))
            .map_err(|source| Error::Content { path, source })
    }

    fn replace(&self, path: &Path, snapshot: &Snapshot) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        let partial = self.folder.join(PARTIAL);
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&partial)?;
        file.write_all(&serde_json::to_vec(snapshot)?)?;
        file.sync_all()?;
        fs::rename(&partial, path)?;
        File::open(&self.folder)?.sync_all()
    }
}
