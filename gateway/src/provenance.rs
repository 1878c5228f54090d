//! `hangar-gateway provenance export|verify`.
//!
//! A line of an export is the exact bytes of an event, in the order of commits; the last line says how
//! many there are and hashes them all. Verification needs nothing but the file.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, BufRead as _, BufReader, BufWriter, Write};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use hangar_ledger::{Export, Summary};
use hangar_store::Reader;

use crate::args::{Provenance, StoreUrl};

const PAGE: usize = 1000;

pub(crate) fn run(command: Provenance) -> ExitCode {
    let result = match command {
        Provenance::Export { store, output } => export(&store, output.as_deref()),
        Provenance::Verify { file } => verify(&file),
    };
    result.unwrap_or_else(|error| {
        let _ = writeln!(io::stderr(), "error: {error:#}");
        ExitCode::from(2)
    })
}

fn export(store: &StoreUrl, output: Option<&Path>) -> anyhow::Result<ExitCode> {
    let StoreUrl(path) = store;
    let reader = Reader::open(path)
        .with_context(|| format!("ledger {} cannot be opened", path.display()))?;
    let target: Box<dyn Write> = match output {
        Some(path) => {
            Box::new(create(path).with_context(|| format!("{} cannot be written", path.display()))?)
        }
        None => Box::new(io::stdout().lock()),
    };
    let mut target = BufWriter::new(target);
    let mut after = 0;
    let mut export = Export::default();
    loop {
        let page = reader
            .events(after, PAGE)
            .context("events cannot be read")?;
        let Some((last, _)) = page.last() else {
            break;
        };
        after = *last;
        for (_, line) in page {
            target.write_all(&line)?;
            target.write_all(b"\n")?;
            export.add(&line);
        }
    }
    // Without this line a cut end would not show.
    target.write_all(&export.end())?;
    target.write_all(b"\n")?;
    target.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Who did what with whom is for the eyes of whoever exports it.
fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let file = options.open(path)?;
    // The mode above is for a file that did not exist.
    if file.metadata()?.is_file() {
        file.set_permissions(Permissions::from_mode(0o600))?;
    }
    Ok(file)
}

fn verify(file: &Path) -> anyhow::Result<ExitCode> {
    let open = File::open(file).with_context(|| format!("{} cannot be read", file.display()))?;
    // Line by line: an export may be larger than memory. A line that cannot be read ends them.
    let mut unread = None;
    let lines = BufReader::new(open)
        .split(b'\n')
        .map_while(|line| line.map_err(|error| unread = Some(error)).ok());
    let verdict = hangar_ledger::verify(lines);
    if let Some(error) = unread {
        return Err(error).with_context(|| format!("{} cannot be read", file.display()));
    }
    let mut out = io::stdout().lock();
    match verdict {
        Ok(summary) => {
            let Summary {
                events,
                chains,
                live,
                ended,
            } = summary;
            if !ended {
                writeln!(
                    out,
                    "chain is broken: the end line is missing, the export was cut off"
                )?;
                return Ok(ExitCode::from(1));
            }
            writeln!(
                out,
                "chain holds: {events} events of {chains} tasks, {live} of them live"
            )?;
            Ok(ExitCode::SUCCESS)
        }
        Err(broken) => {
            writeln!(out, "chain is broken: {broken}")?;
            Ok(ExitCode::from(1))
        }
    }
}

#[cfg(test)]
mod tests;
