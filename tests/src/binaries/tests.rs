//! Which profile is built.

use std::path::Path;

use super::profile;

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
