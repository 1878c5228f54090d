//! What is concluded, and for how long.

use super::*;

/// Whatever stood before an upstream refused twice in its place: it was taken for one of the older
/// revision from then on, with its tasks out of reach.
#[test]
fn a_mere_refusal_ages_nobody_for_good() {
    let eras = Eras::default();
    eras.take(Told::Said(Era::Modern));
    assert_eq!(eras.take(Told::Seems(Era::Legacy)), Some(Era::Legacy));
    let now = Instant::now();
    assert_eq!(eras.known_at(now), Some(Era::Legacy));
    assert_eq!(eras.known_at(now + DOUBTFUL), None, "it is asked again");
    // One that says it itself is believed, as is one that was never known otherwise.
    eras.take(Told::Said(Era::Legacy));
    assert_eq!(eras.known_at(now + DOUBTFUL), Some(Era::Legacy));
    let eras = Eras::default();
    eras.take(Told::Seems(Era::Legacy));
    assert_eq!(eras.known_at(now + DOUBTFUL), Some(Era::Legacy));
}

#[test]
fn what_tells_nothing_changes_nothing() {
    let eras = Eras::default();
    assert_eq!(eras.take(Told::Nothing), None);
    eras.take(Told::Said(Era::Modern));
    assert_eq!(eras.take(Told::Nothing), None);
    assert_eq!(eras.known(), Some(Era::Modern));
}
