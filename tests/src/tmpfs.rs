//! A file system so small that a test can fill it.

use std::fs::{File, remove_file};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// A tmpfs, mounted until dropped.
#[derive(Debug)]
pub struct Tmpfs {
    path: PathBuf,
}

// === impl Tmpfs ===

impl Tmpfs {
    /// Mounts one of this size in KiB on a new folder.
    ///
    /// Assumptions: the test runs with the right to mount; without it this is an error, since a
    /// disk that is not full would prove nothing.
    pub fn mount(path: &Path, kib: u32) -> Result<Self> {
        std::fs::create_dir_all(path)?;
        let output = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={kib}k"), "tmpfs"])
            .arg(path)
            .output()
            .context("mount cannot be started")?;
        ensure!(
            output.status.success(),
            "a tmpfs cannot be mounted (root is needed, in a container CAP_SYS_ADMIN): {}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(Self {
            path: path.to_owned(),
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Takes all space that is left.
    pub fn fill(&self) -> Result<()> {
        let mut ballast = File::create(self.ballast())?;
        // Ever smaller pieces, so that not even one page stays free.
        for size in [1 << 16, 1 << 12, 1] {
            let piece = vec![0_u8; size];
            loop {
                match ballast.write(&piece) {
                    Ok(_) => {}
                    Err(error) if error.kind() == ErrorKind::StorageFull => break,
                    Err(error) => return Err(error).context("ballast"),
                }
            }
        }
        Ok(())
    }

    /// Gives the space back.
    pub fn relieve(&self) -> Result<()> {
        remove_file(self.ballast()).context("ballast")
    }

    fn ballast(&self) -> PathBuf {
        self.path.join("ballast")
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        // Lazy: a process that still holds a file there must not keep the mount for ever.
        let _ = Command::new("umount").arg("-l").arg(&self.path).status();
    }
}
