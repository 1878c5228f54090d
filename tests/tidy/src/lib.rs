//! The files of the repository, for the rules in `tests/`.

pub mod breaks;
pub mod cases;

use std::fs;
use std::path::{Path, PathBuf};

/// One text file.
#[derive(Debug)]
pub struct Source {
    /// Relative to the root, with `/`.
    pub path: String,
    pub text: String,
}

/// Where the table of behaviour cases is.
pub const CASES_FILE: &str = "tests/README.md";
/// Folders that hold nothing written by hand.
const SKIPPED: &[&str] = &["target", ".git", "__pycache__"];

/// The root of the repository.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_owned()
}

/// Every text file whose path `wanted` takes, sorted by path.
pub fn sources(wanted: impl Fn(&str) -> bool) -> Vec<Source> {
    let mut found = Vec::new();
    walk(&root(), "", &wanted, &mut found);
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

/// The Rust files below a folder, tests left out.
pub fn code(folder: &str) -> Vec<Source> {
    sources(|path| path.starts_with(folder) && is_rust(path) && !is_test(path))
}

pub fn is_rust(path: &str) -> bool {
    has_extension(path, &["rs"])
}

/// Whether the file's name ends in one of these, without the dot.
pub fn has_extension(path: &str, wanted: &[&str]) -> bool {
    let extension = Path::new(path).extension();
    extension.is_some_and(|have| wanted.iter().any(|one| have == *one))
}

/// Whether a Rust file holds tests only.
pub fn is_test(path: &str) -> bool {
    // The first folder `tests` is the crate of the harness, whose code is no test.
    path.ends_with("/tests.rs") || path.split('/').skip(1).any(|folder| folder == "tests")
}

/// Every string literal of Rust code that contains none of `"`, `\` and a line end.
pub fn literals(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .flat_map(|line| line.split('"').skip(1).step_by(2))
}

fn walk(folder: &Path, prefix: &str, wanted: &impl Fn(&str) -> bool, found: &mut Vec<Source>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        let Ok(kind) = entry.file_type() else {
            continue;
        };
        if kind.is_dir() && !SKIPPED.contains(&name.as_str()) {
            walk(&entry.path(), &format!("{path}/"), wanted, found);
        } else if kind.is_file() && wanted(&path) {
            // What is not UTF-8 is no text.
            if let Ok(text) = fs::read_to_string(entry.path()) {
                found.push(Source { path, text });
            }
        }
    }
}
