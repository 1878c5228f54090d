//! Sizes and shape of files.

use hangar_tidy::{has_extension, is_rust, is_test, sources};

use crate::assert_none;

const LINES: usize = 500;
const TEST_LINES: usize = 800;

#[test]
fn files_are_short_enough_to_be_read() {
    let written = |path: &str| has_extension(path, &["rs", "py", "sh"]);
    let files = sources(written);
    assert!(
        files.len() > 20,
        "the repository is not where it is looked for"
    );
    let findings: Vec<_> = files
        .iter()
        .filter_map(|file| {
            let bound = if is_test(&file.path) {
                TEST_LINES
            } else {
                LINES
            };
            let lines = file.text.lines().count();
            (lines > bound).then(|| format!("{} has {lines} lines, {bound} at most", file.path))
        })
        .collect();
    assert_none("sizes of files", &findings);
}

#[test]
fn every_rust_file_says_what_it_is_about() {
    let findings: Vec<_> = sources(is_rust)
        .into_iter()
        .filter(|file| !file.text.starts_with("//! "))
        .map(|file| file.path)
        .collect();
    assert_none("no `//!` at the top", &findings);
}

#[test]
fn unit_tests_are_in_files_of_their_own() {
    let findings: Vec<_> = sources(is_rust)
        .into_iter()
        .filter(|file| file.text.contains("\nmod tests {"))
        .map(|file| file.path)
        .collect();
    assert_none("tests beside code", &findings);
}
