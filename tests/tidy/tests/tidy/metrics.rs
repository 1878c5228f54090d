//! The README's table of metrics equals the code.

use std::collections::BTreeSet;

use hangar_tidy::{code, literals, sources};

const PREFIX: &str = "hangar_";

#[test]
fn every_metric_has_a_row_and_every_row_a_metric() {
    let mut in_code = BTreeSet::new();
    for file in code("operator/").iter().chain(&code("gateway/")) {
        if file.path.ends_with("metrics.rs") {
            in_code.extend(registered(&file.text));
        }
    }
    assert!(
        in_code.len() > 10,
        "metrics are not registered where they are looked for"
    );
    let readme = sources(|path| path == "README.md");
    let documented: BTreeSet<_> = readme.iter().flat_map(|file| rows(&file.text)).collect();
    let missing: Vec<_> = in_code.difference(&documented).collect();
    let stale: Vec<_> = documented.difference(&in_code).collect();
    assert!(
        missing.is_empty() && stale.is_empty(),
        "without a row in README.md: {missing:?}\nin README.md only: {stale:?}"
    );
}

#[test]
fn a_name_is_found_by_the_help_text_after_it() {
    let text = r#"
        a("operator_x_total", "Xs by y.", &["the_label"])?,
        b(
            "hangar_y_seconds",
            "Time of y.",
        )
    "#;
    let names = ["hangar_operator_x_total", "hangar_y_seconds"];
    assert_eq!(registered(text), BTreeSet::from(names.map(str::to_owned)));
}

/// The names in a file: a name, then its help, which is a sentence.
fn registered(text: &str) -> BTreeSet<String> {
    let literals: Vec<_> = literals(text).collect();
    let pairs = literals
        .windows(2)
        .filter(|pair| is_name(pair[0]) && is_sentence(pair[1]));
    pairs
        .map(|pair| {
            let bare = pair[0].strip_prefix(PREFIX).unwrap_or(pair[0]);
            format!("{PREFIX}{bare}")
        })
        .collect()
}

/// The first cell of each row that names a metric, without its labels.
fn rows(text: &str) -> impl Iterator<Item = String> {
    text.lines().filter_map(|line| {
        let cell = line.strip_prefix("| `")?;
        let end = cell.find(['`', '{'])?;
        cell.starts_with(PREFIX).then(|| cell[..end].to_owned())
    })
}

fn is_name(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    text.contains('_') && text.chars().all(plain)
}

fn is_sentence(text: &str) -> bool {
    text.contains(' ') && text.chars().any(char::is_alphabetic)
}
