//! A patch that no longer fits, or whose test is gone, shows nothing.

use std::collections::BTreeSet;

use hangar_tidy::{breaks, root};

use crate::assert_none;

/// Promises that have a patch.
const PROMISES: [&str; 6] = ["P1", "P2", "P3", "P4", "P5", "P6"];

#[test]
fn every_break_applies_and_names_a_test() {
    let all = breaks::all(&root()).unwrap();
    let findings: Vec<_> = all
        .iter()
        .flat_map(|one| [one.check(&root()).err(), one.test_in(&root()).err()])
        .flatten()
        .collect();
    assert_none("breaks", &findings);
    let have: BTreeSet<_> = all.iter().map(|one| one.promise.as_str()).collect();
    assert_eq!(have, BTreeSet::from(PROMISES), "a patch for each promise");
}
