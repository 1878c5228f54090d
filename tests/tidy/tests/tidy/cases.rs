//! Every behaviour case has a test, and the table says which.

use hangar_tidy::cases::Cases;
use hangar_tidy::{CASES_FILE, is_rust, sources};

#[test]
fn every_case_has_a_test() {
    let missing = Cases::read(&sources(is_rust)).missing();
    assert!(
        missing.is_empty(),
        "without a test `case_NN_..`: {missing:?}"
    );
}

#[test]
fn the_table_of_cases_is_current() {
    let readme = sources(|path| path == CASES_FILE).remove(0).text;
    let written = Cases::read(&sources(is_rust)).write_into(&readme);
    let written = written.expect("tests/README.md has no marks of the table");
    assert!(
        written == readme,
        "the table of cases in {CASES_FILE} is stale: run `cargo run -p hangar-tidy`"
    );
}
