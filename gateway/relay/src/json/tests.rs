//! Members, trees and digests.

use proptest::prelude::*;

use super::*;

fn mk(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).unwrap()
}

fn hash(text: &str) -> Result<hangar_wire::Sha256Hex, Error> {
    canonical_hash(&mk(text))
}

#[test]
fn members_keep_order_and_bytes() {
    let text = r#" { "b" : 1.00, "\u0061" : [ 1 ,2 ] } "#;
    let members = Members::parse(text).unwrap();
    let seen: Vec<_> = members
        .iter()
        .map(|(key, raw)| (&**key, raw.get()))
        .collect();
    assert_eq!(seen, [("b", "1.00"), ("a", "[ 1 ,2 ]")]);
    assert_eq!(members.len(), 2);
    assert_eq!(members.without("b"), r#"{"a":[ 1 ,2 ]}"#);
    assert_eq!(members.without("a"), r#"{"b":1.00}"#);
}

#[test]
fn what_is_no_plain_object_is_refused() {
    let many: Vec<String> = (0..=MAX_MEMBERS).map(|n| format!("\"{n}\":0")).collect();
    let many = format!("{{{}}}", many.join(","));
    let cases = [
        (r#"{"a":1,"a":2}"#, Error::Duplicate),
        (r#"{"a":1,"b":0,"\u0061":2}"#, Error::Duplicate),
        (r#"{"a":1"#, Error::Syntax),
        (r#"{"a":1} x"#, Error::Syntax),
        (r#"{"a":01}"#, Error::Syntax),
        (r#"{"\ud800":1}"#, Error::Syntax),
        ("[1]", Error::NotObject),
        ("null", Error::NotObject),
        ("", Error::Syntax),
        (&many, Error::TooMany),
    ];
    for (text, error) in cases {
        let shown = &text[..text.len().min(40)];
        assert_eq!(Members::parse(text).unwrap_err(), error, "{shown}");
    }
}

#[test]
fn lookalikes_of_governed_names_are_refused() {
    for key in [
        "TaskId",
        "taskid",
        "TASKID",
        "ta\u{17f}kId",
        "tas\u{212a}Id",
    ] {
        let text = format!(r#"{{"taskId":"a","{key}":"b"}}"#);
        let members = Members::parse(&text).unwrap();
        assert_eq!(members.guard(&["taskId"]), Err(Error::Lookalike), "{key}");
    }
    let members = Members::parse(r#"{"taskId":"a","taskIds":"b","Other":1}"#).unwrap();
    assert_eq!(members.guard(&["taskId"]), Ok(()));
}

#[test]
fn depth_is_counted_outside_strings() {
    let nest = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    assert_eq!(check_depth(&nest(MAX_DEPTH)), Ok(()));
    assert_eq!(check_depth(&nest(MAX_DEPTH + 1)), Err(Error::TooDeep));
    assert_eq!(check_depth(&format!("\"\\\"{}\"", "[".repeat(500))), Ok(()));
    assert_eq!(check_depth(&"[]".repeat(500)), Ok(()));
    assert_eq!(
        check_depth(&"{\"a\":".repeat(MAX_DEPTH + 1)),
        Err(Error::TooDeep)
    );
}

#[test]
fn one_value_has_one_hash_however_spelled() {
    let same = [
        (
            r#"{"a":1,"b":[true,null]}"#,
            r#"{ "b" : [true, null], "a" : 1.0 }"#,
        ),
        (r#""\u0061\/""#, r#""a/""#),
        ("1e2", "100"),
        ("-0", "0"),
        ("0.5", "5e-1"),
        ("1e300", "10e299"),
    ];
    for (one, other) in same {
        assert_eq!(hash(one).unwrap(), hash(other).unwrap(), "{one} {other}");
    }
    let differ = [
        ("1", "\"1\""),
        ("[1,2]", "[2,1]"),
        ("null", "{}"),
        ("\"é\"", "\"e\u{301}\""),
    ];
    for (one, other) in differ {
        assert_ne!(hash(one).unwrap(), hash(other).unwrap(), "{one} {other}");
    }
}

/// RFC 8785 sorts by UTF-16 code units, which differs from UTF-8 order beyond the first plane.
#[test]
fn the_canonical_form_is_that_of_the_rfc() {
    let text = "{\"\u{fb33}\":1,\"\u{1f600}\":2,\"\\r\":3,\"1\":4.50,\"e\":1e21}";
    let expected = "{\"\\r\":3,\"1\":4.5,\"e\":1e+21,\"\u{1f600}\":2,\"\u{fb33}\":1}";
    assert_eq!(
        hash(text).unwrap(),
        hangar_wire::Sha256Hex::of(expected.as_bytes())
    );
}

#[test]
fn what_two_readers_could_take_differently_has_no_hash() {
    let deep = "[".repeat(200) + &"]".repeat(200);
    let cases = [
        (r#"{"a":{"b":1,"b":1}}"#, Error::Duplicate),
        (r#"[{"a":1,"\u0061":1}]"#, Error::Duplicate),
        (
            r#"{"$serde_json::private::RawValue":"[1]"}"#,
            Error::PrivateKey,
        ),
        (
            r#"[{"\u0024serde_json::private::Number":"1"}]"#,
            Error::PrivateKey,
        ),
        ("9007199254740993", Error::BigInteger),
        ("[-9007199254740993]", Error::BigInteger),
        (r#"{"const":100000000000000000000000}"#, Error::BigInteger),
        (&deep, Error::TooDeep),
    ];
    for (text, error) in cases {
        let shown = &text[..text.len().min(40)];
        assert_eq!(hash(text).unwrap_err(), error, "{shown}");
    }
    for fine in [
        "9007199254740992",
        "-9007199254740992",
        "\"9007199254740993\"",
        "9007199254740993.5",
    ] {
        assert!(hash(fine).is_ok(), "{fine}");
    }
}

#[test]
fn naturals_are_read_in_every_spelling() {
    let cases = [
        ("0", Some(0)),
        ("900000", Some(900_000)),
        ("900000.0", Some(900_000)),
        ("9e5", Some(900_000)),
        ("-1", None),
        ("1.5", None),
        ("\"1\"", None),
        ("true", None),
        ("18446744073709551616", None),
    ];
    for (text, value) in cases {
        assert_eq!(unsigned(&mk(text)), value, "{text}");
    }
}

#[test]
fn debug_shows_no_values() {
    let shown = format!(
        "{:?} {:?}",
        Members::parse(r#"{"key":"canary"}"#).unwrap(),
        Tree::parse(&mk(r#"["canary"]"#)).unwrap()
    );
    assert!(!shown.contains("canary"), "{shown}");
}

#[test]
fn raw_never_breaks_a_message() {
    assert_eq!(raw("{\"a\":1}".to_owned()).get(), "{\"a\":1}");
    assert_eq!(raw("{\"a\":".to_owned()).get(), "null");
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in "\\PC{0,120}") {
        let _ = Members::parse(&text);
        let _ = check_depth(&text);
        if let Ok(raw) = RawValue::from_string(text) {
            let _ = canonical_hash(&raw);
        }
    }

    #[test]
    fn a_quoted_text_reads_back(text in any::<String>()) {
        let quoted = mk(&quote(&text));
        prop_assert_eq!(string(&quoted).unwrap(), text);
    }
}
