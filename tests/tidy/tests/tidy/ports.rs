//! Ports in the README equal the defaults in the code.

use std::collections::BTreeSet;

use hangar_tidy::{code, literals, sources};

#[test]
fn every_default_port_is_in_the_readme() {
    let files: Vec<_> = code("operator/src")
        .into_iter()
        .chain(code("gateway/src"))
        .collect();
    let ports: BTreeSet<_> = files
        .iter()
        .flat_map(|file| listening(&file.text))
        .collect();
    assert!(
        ports.len() >= 3,
        "default addresses are not where they are looked for: {ports:?}"
    );
    let readme = sources(|path| path == "README.md");
    let readme = readme.first().map_or("", |file| &file.text);
    let missing: Vec<_> = ports
        .iter()
        .filter(|port| !readme.contains(port.as_str()))
        .collect();
    assert!(missing.is_empty(), "not in README.md: {missing:?}");
}

/// The ports of literals like `0.0.0.0:8080`; port 0 is none.
pub(crate) fn listening(text: &str) -> BTreeSet<String> {
    let port = |literal: &str| {
        let port = literal.strip_prefix("0.0.0.0:")?;
        (port != "0").then(|| port.to_owned())
    };
    literals(text).filter_map(port).collect()
}
