//! Writes the table of behaviour cases in `tests/README.md`.

use std::process::ExitCode;

use hangar_tidy::cases::Cases;
use hangar_tidy::{CASES_FILE, is_rust, root, sources};

fn main() -> ExitCode {
    let path = root().join(CASES_FILE);
    let written = std::fs::read_to_string(&path).and_then(|text| {
        let written = Cases::read(&sources(is_rust)).write_into(&text);
        let written = written.ok_or_else(|| std::io::Error::other("no marks of the table"))?;
        std::fs::write(&path, written)
    });
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}: {error}", path.display());
            ExitCode::FAILURE
        }
    }
}
