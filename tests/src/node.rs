//! Peers made with the official TypeScript SDK, and the official conformance suite: programs of Node.js.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::process::Program;

/// Packages and interpreter of the environment that `cargo verify` makes.
#[derive(Debug)]
struct Environment {
    folder: PathBuf,
    interpreter: PathBuf,
}

const SUITE: &str = "node_modules/@modelcontextprotocol/conformance/dist/index.js";

/// A script of `tests/peers/node`.
pub fn program(script: &str, log_folder: &Path) -> Result<Program> {
    let environment = Environment::find()?;
    let scripts = environment.scripts(log_folder)?;
    let path = scripts.join(script);
    Ok(Program::other(script, &environment.interpreter, log_folder).args([path.to_string_lossy()]))
}

/// The command line of the conformance suite.
pub fn conformance(name: &str, log_folder: &Path) -> Result<Program> {
    let environment = Environment::find()?;
    let suite = environment.folder.join(SUITE);
    Ok(Program::other(name, &environment.interpreter, log_folder).args([suite.to_string_lossy()]))
}

fn peers() -> PathBuf {
    crate::repository().join("tests/peers/node")
}

// === impl Environment ===

impl Environment {
    fn find() -> Result<Self> {
        let output = Command::new("python3")
            .arg("-B")
            .arg(peers().join("environment.py"))
            .arg("find")
            .output()
            .context("python3 cannot be started: install Python 3.10 or newer")?;
        ensure!(
            output.status.success(),
            "no Node.js environment for the tests; `cargo verify` makes it: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
        let said = String::from_utf8(output.stdout)?;
        let (folder, interpreter) = said
            .trim()
            .split_once('\n')
            .context("the environment says no interpreter")?;
        Ok(Self {
            folder: folder.into(),
            interpreter: interpreter.into(),
        })
    }

    /// A copy of the scripts beside the packages: Node.js looks for packages from where a module
    /// lies, and the repository has none.
    fn scripts(&self, log_folder: &Path) -> Result<PathBuf> {
        let folder = log_folder.join("node");
        if !folder.exists() {
            fs::create_dir(&folder)?;
            symlink(
                self.folder.join("node_modules"),
                folder.join("node_modules"),
            )?;
        }
        for entry in fs::read_dir(peers())? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "mjs") {
                let name = path.file_name().context("a script without a name")?;
                fs::copy(&path, folder.join(name))
                    .with_context(|| format!("{}", path.display()))?;
            }
        }
        Ok(folder)
    }
}
