//! Condition reasons in the code equal those in `docs/conditions.md`.

use std::collections::BTreeSet;

use hangar_tidy::{code, literals, sources};

const REASONS: &str = "operator/core/src/reason.rs";
const PAGE: &str = "docs/conditions.md";

#[test]
fn every_reason_is_documented_and_every_documented_reason_is_used() {
    let files = code("operator/core/src");
    let file = files
        .iter()
        .find(|file| file.path == REASONS)
        .expect(REASONS);
    let in_code: BTreeSet<_> = literals(&file.text)
        .filter(|text| is_reason(text))
        .collect();
    assert!(
        in_code.len() > 10,
        "reasons are not where they are looked for"
    );

    let pages = sources(|path| path == PAGE);
    let page = pages.first().expect(PAGE);
    let documented: BTreeSet<_> = page.text.lines().filter_map(reason_of_row).collect();
    assert_eq!(in_code, documented);

    // A reason that nothing gives would be documented for nothing.
    let given = |reason: &str| {
        let name = format!("Reason::{reason}");
        files.iter().any(|file| file.text.contains(&name))
    };
    let unused: Vec<_> = in_code.iter().filter(|reason| !given(reason)).collect();
    assert!(unused.is_empty(), "no code gives {unused:?}");
}

/// The third cell of a row that names a reason.
fn reason_of_row(line: &str) -> Option<&str> {
    let cell = line.split('|').nth(3)?.trim();
    let reason = cell.strip_prefix('`')?.strip_suffix('`')?;
    is_reason(reason).then_some(reason)
}

fn is_reason(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_uppercase()) && text.chars().all(char::is_alphanumeric)
}
