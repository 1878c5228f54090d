//! `crdgen write|check`: writes the chart's definitions, or says whether they are current.
//!
//! Run from the workspace's root. Exit codes: 0 done, 1 a file is not current, 2 wrong usage.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Parser, Subcommand};
use hangar_crds::{FOLDER, definitions, file_name, render};

/// Makes the CustomResourceDefinitions of the chart from the Rust types.
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
    let mut stale = Vec::new();
    for definition in definitions()? {
        let (path, text) = (folder.join(file_name(&definition)), render(&definition)?);
        match command {
            Command::Write => {
                std::fs::create_dir_all(folder)?;
                std::fs::write(&path, text)
                    .with_context(|| format!("{} cannot be written", path.display()))?;
            }
            Command::Check => {
                if std::fs::read_to_string(&path).ok().as_deref() != Some(&*text) {
                    stale.push(path);
                }
            }
        }
    }
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
