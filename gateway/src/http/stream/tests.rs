//! Who is answered with a stream.

use hangar_relay::envelope::{Message, parse};
use hangar_relay::method::Method;
use hangar_relay::params::Params;

use super::*;

fn may_with(accept: &[&str], meta: &str) -> bool {
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"x","_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{{}}{meta}}}}}}}"#
    );
    let Message::Request(request) = parse(body.as_bytes()).unwrap() else {
        panic!("the body has an id");
    };
    let params = Params::parse(Method::ToolsCall, &request).unwrap();
    let mut headers = HeaderMap::new();
    for value in accept {
        headers.append(header::ACCEPT, HeaderValue::from_str(value).unwrap());
    }
    may(&headers, Method::ToolsCall, &params.meta)
}

#[test]
fn a_stream_needs_a_client_that_takes_one_and_wants_to_be_told() {
    let token = r#","progressToken":1"#;
    let level = r#","io.modelcontextprotocol/logLevel":"info""#;
    let both = "application/json, text/event-stream";
    for meta in [token, level] {
        assert!(may_with(&[both], meta), "{meta}");
        assert!(may_with(
            &["application/json", "Text/Event-Stream;q=0.5"],
            meta
        ));
        assert!(!may_with(&["application/json"], meta));
        assert!(!may_with(&["*/*"], meta));
        assert!(!may_with(&[], meta));
    }
    assert!(!may_with(&[both], ""));
    assert!(!may_with(&[both], r#","progressToken":null"#));
}

#[test]
fn an_event_holds_its_message_whole() {
    let whole = |message: &'static str| {
        let pieces = event(Bytes::from_static(message.as_bytes()));
        String::from_utf8(pieces.into_iter().flatten().collect()).unwrap()
    };
    let expected = "event: message\ndata: {\ndata: \"a\": 1\ndata: }\n\n";
    assert_eq!(whole("{\n\"a\": 1\r}"), expected);
    assert_eq!(whole("{}"), "event: message\ndata: {}\n\n");
    assert_eq!(whole("{}"), sse::encode("{}"));
}
