//! Where a name has a prefix.

use super::{answered, asked};
use crate::corpus::{Answer, Exchange};

fn mk_exchange(name: &str, body: &str) -> Exchange {
    let text = format!(
        r#"{{"run":"r","ask":{{"headers":{{"mcp-name":"{name}"}},"body":{body}}},"answer":{{"status":200,"headers":{{}}}}}}"#
    );
    serde_json::from_str(&text).unwrap()
}

#[test]
fn the_name_is_prefixed_in_body_and_header() {
    let call = mk_exchange(
        "echo",
        r#"{"method":"tools/call","params":{"name":"echo","n":1.0}}"#,
    );
    let call = asked(&call).ask;
    let body = r#"{"method":"tools/call","params":{"name":"up__echo","n":1.0}}"#;
    assert_eq!(call.bytes(), body);
    assert_eq!(call.headers["mcp-name"], "up__echo");
}

#[test]
fn a_header_that_is_wrong_stays_wrong_and_uris_have_no_prefix() {
    let wrong = mk_exchange(
        "other",
        r#"{"method":"tools/call","params":{"name":"echo"}}"#,
    );
    assert_eq!(asked(&wrong).ask.headers["mcp-name"], "other");
    let read = mk_exchange(
        "a://b",
        r#"{"method":"resources/read","params":{"uri":"a://b"}}"#,
    );
    assert_eq!(asked(&read).ask.bytes(), read.ask.bytes());
}

#[test]
fn names_of_lists_are_prefixed() {
    let body = r#"{"id":1,"result":{"tools":[{"name":"a","x":1.0},{"name":"b"}],"name":"c"}}"#;
    let answer = Answer::read(200, std::collections::BTreeMap::new(), body.as_bytes()).unwrap();
    let expected =
        r#"{"id":1,"result":{"tools":[{"name":"up__a","x":1.0},{"name":"up__b"}],"name":"c"}}"#;
    assert_eq!(answered("tools/list", &answer).bytes(), expected);
    assert_eq!(answered("tools/call", &answer).bytes(), body);
}
