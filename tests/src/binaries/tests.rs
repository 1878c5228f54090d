//! What cargo is told.

use std::path::Path;

use super::{is_of_package, profile};

#[test]
fn cargo_is_asked_for_the_profile_of_the_program() {
    for (folder, profile_name) in [
        ("/t/debug", "dev"),
        ("/t/release", "release"),
        ("/t/ci", "ci"),
    ] {
        assert_eq!(profile(Path::new(folder)), profile_name);
    }
}

#[test]
fn what_cargo_says_of_a_package_is_not_handed_on() {
    for (name, expected) in [
        ("CARGO_PKG_NAME", true),
        ("CARGO_MANIFEST_DIR", true),
        ("CARGO_HOME", false),
        ("CARGO_TARGET_DIR", false),
        ("HOME", false),
    ] {
        assert_eq!(is_of_package(name.as_ref()), expected, "{name}");
    }
}
