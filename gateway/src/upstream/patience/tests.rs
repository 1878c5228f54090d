//! Who waits, and for how long.

use super::*;

#[test]
fn an_upstream_is_left_alone_as_long_as_it_asked_and_for_one_tenant() {
    let (patience, start) = (Patience::default(), Instant::now());
    let at = |ms| start + Duration::from_millis(ms);
    assert_eq!(patience.left("acme", at(0)), None);
    patience.ask_for("acme", 7, at(0));
    assert_eq!(patience.left("acme", at(0)), Some(7));
    assert_eq!(patience.left("acme", at(6001)), Some(1));
    assert_eq!(patience.left("acme", at(7000)), None);
    assert_eq!(patience.left("globex", at(0)), None);
    patience.ask_for("acme", 0, at(0));
    assert_eq!(patience.left("acme", at(0)), None);
}

#[test]
fn no_upstream_is_left_alone_for_ever() {
    let (patience, start) = (Patience::default(), Instant::now());
    patience.ask_for("acme", u64::MAX, start);
    assert_eq!(patience.left("acme", start), Some(60));
    assert_eq!(patience.left("acme", start + MOST), None);
}
