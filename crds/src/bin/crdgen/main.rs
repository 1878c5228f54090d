//! `crdgen write|check`: writes the chart's definitions, or says whether they are current.
//!
//! Run from the workspace's root. Exit codes: 0 done, 1 a file is not current, 2 wrong usage.
//! A generated file that nothing generates any more would still be installed: `check` finds it,
//! `write` removes it. Files without the header line are not touched.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Parser, Subcommand};
use hangar_crds::{FOLDER, HEADER, definitions, file_name, render};

/// Makes the definitions of the chart from the Rust types.
#[derive(Debug, Parser)]
#[command(version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Root of the workspace.
    #[arg(long, value_name = "DIR", default_value = ".", global = true)]
    root: PathBuf,
}

#[derive(Clone, Copy, Debug, Subcommand)]
enum Command {
    /// Write the files.
    Write,
    /// Compare them.
    Check,
}

fn main() -> ExitCode {
    let Cli { command, root } = Cli::parse();
    run(command, &root.join(FOLDER)).unwrap_or_else(|error| {
        let _ = writeln!(std::io::stderr(), "error: {error:#}");
        ExitCode::from(2)
    })
}

fn run(command: Command, folder: &Path) -> anyhow::Result<ExitCode> {
    match command {
        Command::Write => {
            write(folder)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Check => {
            let stale = stale(folder)?;
            for path in &stale {
                let path = path.display();
                writeln!(
                    std::io::stderr(),
                    "{path} is not current: run `cargo run -p hangar-crds --bin crdgen -- write`"
                )?;
            }
            Ok(if stale.is_empty() {
                ExitCode::SUCCESS
            } else {
                ExitCode::from(1)
            })
        }
    }
}

fn write(folder: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("{} cannot be made", folder.display()))?;
    let files = files(folder)?;
    for path in leftovers(folder, &files)? {
        fs::remove_file(&path).with_context(|| format!("{} cannot be removed", path.display()))?;
    }
    for (path, text) in files {
        fs::write(&path, text).with_context(|| format!("{} cannot be written", path.display()))?;
    }
    Ok(())
}

/// Files that are missing, differ, or are generated no more.
fn stale(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let files = files(folder)?;
    let mut stale = leftovers(folder, &files)?;
    for (path, text) in files {
        if fs::read_to_string(&path).ok().as_deref() != Some(&*text) {
            stale.push(path);
        }
    }
    Ok(stale)
}

/// What the folder must hold.
fn files(folder: &Path) -> anyhow::Result<BTreeMap<PathBuf, String>> {
    let mut files = BTreeMap::new();
    for definition in definitions()? {
        files.insert(folder.join(file_name(&definition)), render(&definition)?);
    }
    Ok(files)
}

/// Generated files of the folder that are none of these, sorted.
fn leftovers(folder: &Path, files: &BTreeMap<PathBuf, String>) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    if !folder.exists() {
        return Ok(found);
    }
    let unreadable = || format!("{} cannot be read", folder.display());
    for entry in fs::read_dir(folder).with_context(unreadable)? {
        let path = entry.with_context(unreadable)?.path();
        let is_generated = || fs::read(&path).is_ok_and(|it| it.starts_with(HEADER.as_bytes()));
        if !files.contains_key(&path) && is_generated() {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests;
