//! Images, built on this machine as their Dockerfile says, and packed for a node.

use std::env::consts::ARCH;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use hangar_tests::{repository, watchdog};
use serde_json::Value;

use crate::recipe::Recipe;
use crate::tools;

/// An image in a tar.
#[derive(Clone, Debug)]
pub struct Image {
    name: String,
    tar: PathBuf,
    bytes: u64,
}

// === impl Image ===

impl Image {
    /// As pods name it, with its tag.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn tar(&self) -> &Path {
        &self.tar
    }

    /// The size of its one layer and its configuration, uncompressed.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// Runs the builder of a Dockerfile and packs its final stage as `name` into `folder`.
pub fn of_dockerfile(name: &str, dockerfile: &Path, folder: &Path) -> Result<Image> {
    of_recipe(name, &recipe(dockerfile)?, folder)
}

/// An image of one program of this workspace that does not ship, built as the ones that do.
pub fn of_package(name: &str, package: &str, folder: &Path) -> Result<Image> {
    let shipped = recipe(&repository().join("gateway/Dockerfile"))?;
    of_recipe(name, &shipped.of_package(package)?, folder)
}

fn recipe(dockerfile: &Path) -> Result<Recipe> {
    let shown = || dockerfile.display().to_string();
    let text = fs::read_to_string(dockerfile).with_context(shown)?;
    Recipe::parse(&text).with_context(shown)
}

fn of_recipe(name: &str, recipe: &Recipe, folder: &Path) -> Result<Image> {
    let target = target()?;
    build(&recipe.build, &target)?;
    let release = target.join(format!("{ARCH}-unknown-linux-gnu/release"));
    let files: Vec<_> = recipe
        .files
        .iter()
        .map(|file| (release.join(&file.program), file.to.clone()))
        .collect();
    pack(name, &files, &recipe.config(), folder)
}

/// Runs the builder's command line where it runs in Docker: in the root of the sources.
fn build(command: &str, target: &Path) -> Result<()> {
    let mut child = Command::new("sh")
        .args(["-c", command])
        .current_dir(repository())
        .env("CARGO_TARGET_DIR", target)
        // It would win over the flags of the command line.
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .stdin(Stdio::null())
        .spawn()
        .context("sh cannot be started")?;
    let pid = child.id();
    watchdog::guard(pid)?;
    let status = child.wait()?;
    watchdog::forget(pid)?;
    ensure!(status.success(), "{status}: {command}");
    Ok(())
}

/// Cargo's folder, seen from this program in `debug` or from a test in `debug/deps`.
fn target() -> Result<PathBuf> {
    let exe = std::env::current_exe().context("this program has no path")?;
    let folder = exe.parent().context("this program has no folder")?;
    let levels = if folder.ends_with("deps") { 2 } else { 1 };
    let target = folder.ancestors().nth(levels);
    Ok(target.context("there is no target folder")?.to_owned())
}

fn pack(name: &str, files: &[(PathBuf, String)], config: &Value, folder: &Path) -> Result<Image> {
    let root = tempfile::Builder::new()
        .prefix("image-")
        .tempdir_in(folder)?;
    for (from, to) in files {
        let to = root.path().join(to.trim_start_matches('/'));
        fs::create_dir_all(to.parent().context("a file has a folder")?)?;
        fs::copy(from, &to).with_context(|| from.display().to_string())?;
    }
    let tar = folder.join(format!("{}.tar", name.replace(['/', ':'], "-")));
    let config = config.to_string();
    let args = [
        "image".as_ref(),
        name.as_ref(),
        root.path().as_os_str(),
        tar.as_os_str(),
    ];
    tools::run(&[&args[..], &[config.as_ref()]].concat())?;
    let bytes = fs::metadata(&tar)
        .with_context(|| tar.display().to_string())?
        .len();
    Ok(Image {
        name: name.to_owned(),
        tar,
        bytes,
    })
}
