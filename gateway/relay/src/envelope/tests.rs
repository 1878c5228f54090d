//! What is a message and what is not.

use proptest::prelude::*;

use super::*;

fn request(body: &str) -> Request<'_> {
    match parse(body.as_bytes()).unwrap() {
        Message::Request(request) => request,
        Message::Notification(_) => panic!("{body} has an id"),
    }
}

fn mk(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).unwrap()
}

#[test]
fn a_request_keeps_its_bytes() {
    let body = r#"{"params": {"a" : 1.0} ,"id":"\u0031","method":"tools/call","jsonrpc":"2.0"}"#;
    let request = request(body);
    assert_eq!(request.id.get(), r#""\u0031""#);
    assert_eq!(request.method, "tools/call");
    assert_eq!(request.params.unwrap().get(), r#"{"a" : 1.0}"#);
    assert_eq!(request.body, body);
}

#[test]
fn a_message_without_an_id_is_a_notification() {
    let body = br#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{}}"#;
    match parse(body).unwrap() {
        Message::Notification(notification) => {
            assert_eq!(notification.method, "notifications/cancelled");
        }
        Message::Request(_) => panic!("no id was sent"),
    }
}

fn refuses(cases: &[(&str, &str)]) {
    for (body, reason) in cases {
        let shown = &body[..body.len().min(80)];
        let error = parse(body.as_bytes()).expect_err(shown);
        assert_eq!(error.reason(), *reason, "{shown}");
    }
}

/// Envoy's filter stopped early and took the last of two keys, so that policy saw another value
/// than the server. Here both orders and all spellings are refused, also after padding.
#[test]
fn keys_that_two_readers_could_take_differently() {
    let padding = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list","x":"{}","method":"tools/call"}}"#,
        "p".repeat(1 << 20)
    );
    let with = |more: &str| format!(r#"{{"jsonrpc":"2.0","id":1,"method":"a",{more}}}"#);
    refuses(&[
        (&with(r#""method":"b""#), "duplicate_key"),
        (&with(r#""\u006dethod":"b""#), "duplicate_key"),
        (&with(r#""x":1,"x":1"#), "duplicate_key"),
        (&with(r#""params":{},"params":{}"#), "duplicate_key"),
        (&with(r#""Method":"b""#), "lookalike_key"),
        (&with(r#""param\u017f":{}"#), "lookalike_key"),
        (&padding, "duplicate_key"),
    ]);
}

#[test]
fn what_is_no_message() {
    let with = |more: &str| format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{more}}}"#);
    let deep = with(&format!(r#"{{"a":{}{}}}"#, "[".repeat(63), "]".repeat(63)));
    refuses(&[
        ("", "syntax"),
        ("\u{feff}{}", "syntax"),
        ("{", "syntax"),
        ("[]", "batch"),
        (r#" [{"jsonrpc":"2.0","id":1,"method":"m"}]"#, "batch"),
        ("1", "not_object"),
        (r#"{"id":1,"method":"m"}"#, "jsonrpc_version"),
        (
            r#"{"jsonrpc":"1.0","id":1,"method":"m"}"#,
            "jsonrpc_version",
        ),
        (r#"{"jsonrpc":2.0,"id":1,"method":"m"}"#, "jsonrpc_version"),
        (r#"{"jsonrpc":"2.0","id":1}"#, "no_method"),
        (r#"{"jsonrpc":"2.0","id":1,"method":7}"#, "no_method"),
        (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, "mixed"),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"m","result":{}}"#,
            "mixed",
        ),
        (&with("[1]"), "bad_params"),
        (&with("null"), "bad_params"),
        (&deep, "too_deep"),
    ]);
    assert_eq!(parse(b"{\"a\":\"\xff\"}").unwrap_err().reason(), "not_utf8");
}

#[test]
fn ids_are_strings_or_integers() {
    let with = |id: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"m"}}"#);
    for id in ["0", "-1", "12345678901234567890123", r#""""#, r#""a""#] {
        assert_eq!(request(&with(id)).id.get(), id);
    }
    let long = format!("\"{}\"", "i".repeat(MAX_ID_BYTES - 1));
    for id in ["null", "1.0", "1e1", "[1]", "{}", "true", &long] {
        refuses(&[(&with(id), "bad_id")]);
    }
}

#[test]
fn depth_sixty_four_passes() {
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{{"a":{}{}}}}}"#,
        "[".repeat(62),
        "]".repeat(62)
    );
    assert_eq!(request(&body).method, "m");
}

/// A client of the Rust SDK waited for ever because a server answered id `"1"` to id `1`. A
/// string of the same digits is taken; null, absent and foreign ids are errors.
#[test]
fn ids_of_replies() {
    let cases = [
        ("1", "1", true),
        ("1", r#""1""#, true),
        (r#""1""#, "1", true),
        (r#""a""#, r#""\u0061""#, true),
        ("-7", r#""-7""#, true),
        ("1", "1.0", false),
        ("1", "null", false),
        ("1", "2", false),
        (r#""a""#, r#""A""#, false),
        ("1", "[1]", false),
    ];
    for (sent, echoed, accepted) in cases {
        let body = format!(r#"{{"jsonrpc":"2.0","id":{echoed},"result":{{}}}}"#);
        let reply = parse_reply(body.as_bytes(), &mk(sent));
        match reply {
            Ok((Reply::Result(_), echo)) => {
                assert!(accepted, "{sent} {echoed}");
                assert_eq!(echo == Echo::Exact, sent == echoed);
            }
            other => {
                assert!(!accepted, "{sent} {echoed}");
                assert_eq!(other.unwrap_err(), Error::ForeignId);
            }
        }
    }
    let none = parse_reply(br#"{"jsonrpc":"2.0","result":{}}"#, &mk("1"));
    assert_eq!(none.unwrap_err(), Error::ForeignId);
}

/// Only a reply whose id came back byte for byte may go on as it is.
#[test]
fn the_spelling_of_an_echoed_id_is_told() {
    let cases = [
        ("1", "1", Echo::Exact),
        ("1", r#""1""#, Echo::Loose),
        (r#""1""#, "1", Echo::Loose),
        (r#""a""#, r#""a""#, Echo::Exact),
        (r#""a""#, r#""\u0061""#, Echo::Loose),
    ];
    for (sent, echoed, echo) in cases {
        for outcome in [r#""result":{}"#, r#""error":{"code":1,"message":"m"}"#] {
            let body = format!(r#"{{"jsonrpc":"2.0","id":{echoed},{outcome}}}"#);
            let (_, seen) = parse_reply(body.as_bytes(), &mk(sent)).unwrap();
            assert_eq!(seen, echo, "{sent} {echoed} {outcome}");
        }
    }
}

#[test]
fn replies_have_one_outcome() {
    let cases = [
        (r#""result":{},"error":{"code":1,"message":""}"#, "mixed"),
        (r#""result":[]"#, "no_outcome"),
        (r#""result":null"#, "no_outcome"),
        (r#""error":{"message":"m"}"#, "no_outcome"),
        (r#""error":{"code":"1","message":"m"}"#, "no_outcome"),
        (r#""error":{"code":1}"#, "no_outcome"),
        (
            r#""error":{"code":1,"code":2,"message":"m"}"#,
            "duplicate_key",
        ),
        (
            r#""error":{"code":1,"Code":2,"message":"m"}"#,
            "lookalike_key",
        ),
        (r#""method":"elicitation/create""#, "mixed"),
        (r#""x":1"#, "no_outcome"),
    ];
    for (members, reason) in cases {
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,{members}}}"#);
        let error = parse_incoming(body.as_bytes(), &mk("1")).unwrap_err();
        assert_eq!(error.reason(), reason, "{members}");
    }
}

#[test]
fn errors_and_notifications_are_told_apart() {
    let body =
        br#"{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"m","data":{"x":1.0}}}"#;
    match parse_reply(body, &mk("1")).unwrap() {
        (Reply::Error(error), _) => {
            assert_eq!(error.code, -32602);
            assert_eq!(
                error.raw.get(),
                r#"{"code":-32602,"message":"m","data":{"x":1.0}}"#
            );
        }
        (Reply::Result(_), _) => panic!("the body is an error"),
    }
    let body = br#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1}}"#;
    match parse_incoming(body, &mk("1")).unwrap() {
        Incoming::Notification(notification) => {
            assert_eq!(notification.method, "notifications/progress");
        }
        Incoming::Reply(..) => panic!("the body is a notification"),
    }
    assert_eq!(parse_reply(body, &mk("1")).unwrap_err(), Error::NoOutcome);
}

#[test]
fn debug_shows_no_params() {
    let body = r#"{"jsonrpc":"2.0","id":"canary-id","method":"m","params":{"a":"canary"}}"#;
    let shown = format!("{:?}", parse(body.as_bytes()).unwrap());
    assert!(!shown.contains("canary"), "{shown}");
    let body = br#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"canary"}}"#;
    let shown = format!("{:?}", parse_incoming(body, &mk("1")).unwrap());
    assert!(!shown.contains("canary"), "{shown}");
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(body in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse(&body);
        let _ = parse_incoming(&body, &mk("1"));
    }

    #[test]
    fn no_json_like_text_makes_it_panic(body in r#"[\{\}\[\]",:0-9a-z\\ ]{0,80}"#) {
        let _ = parse(body.as_bytes());
        let _ = parse_incoming(body.as_bytes(), &mk("1"));
    }
}
