//! The list of differences, held to both ways.

use super::{Allowed, Difference};

const LIST: &str =
    "# a comment\n\none a: passed -> failed: because\ntwo b: passed -> skipped: so it is: yes\n";

fn mk_difference(subject: &str, through: &str) -> Difference {
    Difference {
        subject: subject.to_owned(),
        direct: "passed".to_owned(),
        through: through.to_owned(),
    }
}

#[test]
fn what_is_listed_and_found_is_no_finding() {
    let allowed = Allowed::parse(LIST).unwrap();
    let found = [
        mk_difference("one a", "failed"),
        mk_difference("two b", "skipped"),
    ];
    assert_eq!(allowed.findings(&found), Vec::<String>::new());
    assert!(allowed.table().contains("| so it is: yes |"));
}

#[test]
fn a_difference_that_is_not_listed_is_found() {
    let allowed = Allowed::parse("").unwrap();
    let findings = allowed.findings(&[mk_difference("one a", "failed")]);
    assert_eq!(findings, ["not allowed: one a: passed -> failed"]);
}

#[test]
fn a_listed_difference_that_is_gone_or_another_is_found() {
    let allowed = Allowed::parse("one a: passed -> failed: because").unwrap();
    let gone = "no longer so: one a: passed -> failed";
    assert_eq!(allowed.findings(&[]), [gone]);
    let another = allowed.findings(&[mk_difference("one a", "warned")]);
    assert_eq!(another, ["not allowed: one a: passed -> warned", gone]);
}

#[test]
fn a_line_without_reason_is_refused() {
    for line in [
        "one a: passed -> failed",
        "one a: passed: because",
        "one a: x -> y:  ",
    ] {
        assert!(Allowed::parse(line).is_err(), "{line}");
    }
}
