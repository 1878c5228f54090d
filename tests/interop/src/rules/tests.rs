//! Lines with stars.

use super::{Rules, fits};
use crate::differences::Difference;

fn mk_difference(subject: &str, direct: &str, through: &str) -> Difference {
    let [subject, direct, through] = [subject, direct, through].map(str::to_owned);
    Difference {
        subject,
        direct,
        through,
    }
}

#[test]
fn a_star_is_any_text_and_nothing_else_is() {
    for (pattern, text) in [
        ("a", "a"),
        ("*", ""),
        ("a*", "abc"),
        ("*c", "abc"),
        ("a*c*e", "abcde"),
        ("a**b", "ab"),
        ("*b*", "abc"),
    ] {
        assert!(fits(pattern, text), "{pattern} {text}");
    }
    for (pattern, text) in [
        ("a", "ab"),
        ("a*a", "a"),
        ("a*c", "abcd"),
        ("*b*c", "acb"),
        ("a.c", "abc"),
    ] {
        assert!(!fits(pattern, text), "{pattern} {text}");
    }
}

#[test]
fn what_no_line_allows_and_a_line_about_nothing_are_found() {
    let rules = Rules::parse("x * status: 4* -> 400: one\ny status: 1 -> 2: two").unwrap();
    let good = mk_difference("x [a] m status", "415", "400");
    let bad = mk_difference("x [a] m status", "200", "400");
    assert_eq!(
        rules.findings(&[good, bad]),
        [
            "not allowed: x [a] m status: 200 -> 400",
            "about nothing: y status: 1 -> 2: two"
        ]
    );
}
