//! Which notifications pass.

use super::*;
use crate::envelope::{Message, parse};
use crate::method::Method;
use crate::params::Params;

/// Whether a request with this in its `_meta` is told of this notification.
fn admits(meta: &str, notification: &str) -> bool {
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{{"_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{{}}{meta}}}}}}}"#
    );
    let Message::Request(request) = parse(body.as_bytes()).unwrap() else {
        panic!("the body has an id");
    };
    let params = Params::parse(Method::Discover, &request).unwrap();
    let wanted = Wanted::of(&params.meta);
    assert_eq!(wanted.is_nothing(), meta.is_empty());
    let text = format!(r#"{{"jsonrpc":"2.0",{notification}}}"#);
    let Message::Notification(notification) = parse(text.as_bytes()).unwrap() else {
        panic!("it has no id");
    };
    wanted.admits(&notification)
}

#[test]
fn progress_passes_under_the_request_s_own_token_only() {
    let told = |token: &str| {
        format!(
            r#""method":"notifications/progress","params":{{"progressToken":{token},"progress":1}}"#
        )
    };
    let text = r#","progressToken":"a1""#;
    let number = r#","progressToken":1"#;
    assert!(admits(text, &told(r#""a1""#)));
    assert!(admits(
        text,
        &told(r#""\u0061""#).replace("\\u0061", "\\u00611")
    ));
    assert!(admits(number, &told("1")));
    for other in [r#""a2""#, "1", "null", r#""A1""#] {
        assert!(!admits(text, &told(other)), "{other}");
    }
    for other in [r#""1""#, "2", "null", "1.0"] {
        assert!(!admits(number, &told(other)), "{other}");
    }
    assert!(!admits("", &told("1")));
    assert!(!admits(number, r#""method":"notifications/progress""#));
    let two = r#""method":"notifications/progress","params":{"progressToken":1,"ProgressToken":2}"#;
    assert!(!admits(number, two));
}

#[test]
fn messages_pass_where_a_level_was_named() {
    let message = r#""method":"notifications/message","params":{"level":"info","data":1}"#;
    let level = r#","io.modelcontextprotocol/logLevel":"info""#;
    assert!(admits(level, message));
    assert!(!admits("", message));
    assert!(!admits(r#","progressToken":1"#, message));
}

/// Upstreams of 2025-11-25 say everything, whatever one request asked for.
#[test]
fn messages_below_the_level_do_not_pass() {
    let message = |level: &str| {
        format!(r#""method":"notifications/message","params":{{"level":{level},"data":1}}"#)
    };
    let wanted = r#","io.modelcontextprotocol/logLevel":"warning""#;
    for (level, passes) in [
        (r#""debug""#, false),
        (r#""info""#, false),
        (r#""notice""#, false),
        (r#""warning""#, true),
        (r#""error""#, true),
        (r#""critical""#, true),
        (r#""alert""#, true),
        (r#""emergency""#, true),
        (r#""Error""#, false),
        (r#""loud""#, false),
        ("4", false),
    ] {
        assert_eq!(admits(wanted, &message(level)), passes, "{level}");
    }
    let none = r#""method":"notifications/message","params":{"data":1}"#;
    assert!(!admits(wanted, none));
    let two = r#""method":"notifications/message","params":{"level":"error","Level":"debug"}"#;
    assert!(!admits(wanted, two));
}

#[test]
fn nothing_else_is_related_to_a_request() {
    let all = r#","progressToken":1,"io.modelcontextprotocol/logLevel":"debug""#;
    for method in [
        "notifications/tools/list_changed",
        "notifications/tasks",
        "notifications/cancelled",
        "notifications/Progress",
    ] {
        let other = format!(r#""method":"{method}","params":{{"progressToken":1}}"#);
        assert!(!admits(all, &other), "{method}");
    }
}
