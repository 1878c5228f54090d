//! Features that would change what JSON means, in every crate at once.

use crate::{assert_none, metadata};

/// Either one breaks digests or byte-exact passing of members, and any dependency could switch
/// it on for the whole build.
const BANNED: &[&str] = &["arbitrary_precision", "preserve_order"];

/// Relied on by the relay and by canonical JSON.
const NEEDED: &[&str] = &["raw_value", "float_roundtrip"];

#[test]
fn serde_json_has_the_features_that_digests_rely_on() {
    let metadata = metadata().unwrap();
    let resolve = metadata.resolve.as_ref().unwrap();
    let mut found = 0;
    let mut findings = Vec::new();
    for node in &resolve.nodes {
        if metadata[&node.id].name != "serde_json" {
            continue;
        }
        found += 1;
        let has = |wanted: &str| node.features.iter().any(|have| **have == *wanted);
        findings.extend(
            BANNED
                .iter()
                .filter(|name| has(name))
                .map(|name| format!("{name} is on")),
        );
        findings.extend(
            NEEDED
                .iter()
                .filter(|name| !has(name))
                .map(|name| format!("{name} is off")),
        );
    }
    assert_eq!(found, 1, "one version of serde_json");
    assert_none("features of serde_json", &findings);
}
