//! Builds binaries, so that they are as new as the program that starts them.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Guarantees: the binaries of these packages stand beside this program, built with its profile,
/// unless `HANGAR_BIN_DIR` says where others are.
pub fn build(packages: &[&str]) -> Result<()> {
    if std::env::var_os("HANGAR_BIN_DIR").is_some() {
        return Ok(());
    }
    let program = std::env::current_exe().context("this program has no path")?;
    let folder = program.parent().context("this program has no folder")?;
    let target = folder.parent().context("there is no target folder")?;
    // Set by `cargo run`; the toolchain then is the one that built this program.
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    // What `cargo run` tells this program about itself would make crates build anew whose build
    // scripts look at such variables.
    for (name, _) in std::env::vars_os() {
        if is_of_package(&name) {
            build.env_remove(name);
        }
    }
    let status = build
        .arg("build")
        .args(packages.iter().flat_map(|package| ["--package", package]))
        .arg("--manifest-path")
        .arg(crate::repository().join("Cargo.toml"))
        .args(["--profile", profile(folder)])
        .arg("--target-dir")
        .arg(target)
        .status()
        .context("cargo cannot be started: install Rust from https://rustup.rs")?;
    ensure!(status.success(), "the binaries cannot be built, see above");
    Ok(())
}

/// Whether `cargo run` sets this to say which package it runs.
fn is_of_package(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    name.starts_with(b"CARGO_PKG_") || name.starts_with(b"CARGO_MANIFEST_")
}

/// Cargo names the folder of its default profile `debug`; other folders bear the profile's name.
fn profile(folder: &Path) -> &str {
    match folder.file_name().and_then(|name| name.to_str()) {
        None | Some("debug") => "dev",
        Some(name) => name,
    }
}

#[cfg(test)]
mod tests;
