//! What must not stand in any file: places of one machine, unfinished work.

use hangar_tidy::{has_extension, sources};

use crate::assert_none;

/// Written in halves, because this file is read too.
const WORDS: &[(&str, &str)] = &[
    ("/wo", "rk/"),
    ("/ro", "ot/"),
    ("/ho", "me/"),
    ("TO", "DO"),
    ("FIX", "ME"),
    ("XX", "X:"),
    ("to", "do!("),
    ("unimpl", "emented!("),
];

#[test]
fn no_file_holds_a_forbidden_word() {
    let generated = |path: &str| has_extension(path, &["lock", "sum"]);
    let mut findings = Vec::new();
    for file in sources(|path| !generated(path)) {
        for (number, line) in file.text.lines().enumerate() {
            for (one, two) in WORDS {
                let word = format!("{one}{two}");
                if line.contains(&word) {
                    findings.push(format!("{}:{}: {word}", file.path, number + 1));
                }
            }
        }
    }
    assert_none("forbidden words", &findings);
}
