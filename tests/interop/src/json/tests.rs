//! What counts as a difference.

use super::{Apart, apart, blank, member, without};

fn paths(one: &str, other: &str) -> Vec<String> {
    let found = apart(one, other).into_iter();
    found
        .map(|Apart { path, one, other }| format!("{path}: {one} -> {other}"))
        .collect()
}

#[test]
fn numbers_are_compared_as_they_are_written() {
    for (one, other) in [
        ("1", "1.0"),
        ("1e2", "100"),
        ("-0", "0"),
        ("9007199254740993", "9007199254740992"),
    ] {
        let (one, other) = (format!("{{\"n\":{one}}}"), format!("{{\"n\":{other}}}"));
        assert_eq!(paths(&one, &other).len(), 1, "{one} {other}");
    }
}

#[test]
fn the_order_of_items_matters_and_that_of_members_does_not() {
    assert_eq!(paths(r#"{"a":1,"b":2}"#, r#"{"b":2, "a":1}"#), [""; 0]);
    assert_eq!(paths("[1,2]", "[2,1]"), ["/0: 1 -> 2", "/1: 2 -> 1"]);
}

#[test]
fn named_items_are_compared_by_name_and_their_order_apart() {
    let one = r#"{"t":[{"name":"b","x":1},{"name":"a"}]}"#;
    let other = r#"{"t":[{"name":"a"},{"name":"b","x":2}]}"#;
    assert_eq!(
        paths(one, other),
        ["/t order: b a -> by name", "/t/b/x: 1 -> 2"]
    );
}

#[test]
fn what_is_missing_or_there_twice_is_seen() {
    assert_eq!(paths(r#"{"a":null}"#, "{}"), ["/a: null -> absent"]);
    assert_eq!(
        paths(r#"{"a":1}"#, r#"{"a":1,"a":1}"#),
        ["/a again: absent -> 1"]
    );
    assert_eq!(paths("[1]", "[1,[]]"), ["/1: absent -> []"]);
}

#[test]
fn the_spelling_of_strings_and_the_type_of_values_matter() {
    assert_eq!(paths(r#"{"a":"\u0041"}"#, r#"{"a":"A"}"#).len(), 1);
    assert_eq!(paths(r#"{"id":1}"#, r#"{"id":"1"}"#), ["/id: 1 -> \"1\""]);
}

#[test]
fn members_are_taken_and_left_out_as_they_are() {
    let text = r#"{"id": 1.0, "a" : [ 1 ]}"#;
    assert_eq!(member(text, "a").unwrap(), "[ 1 ]");
    assert_eq!(without(text, "id"), r#"{"a":[ 1 ]}"#);
}

#[test]
fn blanked_members_say_nothing_wherever_they_are() {
    let one = r#"{"id":1,"a":[{"id":"x","n":1.0}]}"#;
    let other = r#"{"id":2,"a":[{"id":"y","n":1.0}]}"#;
    assert_eq!(blank(one, &["id"]), blank(other, &["id"]));
    assert_ne!(blank(one, &["id"]), blank(other, &["n"]));
}
