//! Governed members of params.

use proptest::prelude::*;

use super::*;
use crate::envelope::{Message, parse};

const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;

fn body(method: Method, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#)
}

/// Parses and hands what came out to a check.
fn with<T>(method: Method, params: &str, check: impl FnOnce(Result<Params<'_>, Error>) -> T) -> T {
    let body = body(method, params);
    match parse(body.as_bytes()).unwrap() {
        Message::Request(request) => check(Params::parse(method, &request)),
        Message::Notification(_) => panic!("the body has an id"),
    }
}

fn capabilities(text: &str, check: impl FnOnce(&Capabilities<'_>)) {
    let params = format!(
        r#"{{"_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{text}}}}}"#
    );
    with(Method::Discover, &params, |params| {
        check(&params.unwrap().meta.capabilities);
    });
}

#[test]
fn a_call_is_read() {
    let params = format!(r#"{{{META},"name":"cr\u0061wl","arguments":{{"n": 1.0}},"x":1}}"#);
    with(Method::ToolsCall, &params, |params| {
        let params = params.unwrap();
        assert_eq!(params.name.as_deref(), Some("crawl"));
        assert_eq!(params.arguments.unwrap().get(), r#"{"n": 1.0}"#);
        assert_eq!(params.mirrored_name(), Some("crawl"));
        assert_eq!(params.task_id, None);
        assert!(params.meta.speaks_ours());
        assert_eq!(params.members.get("x").unwrap().get(), "1");
    });
}

#[test]
fn an_update_keeps_its_answers_in_order() {
    let params = format!(
        r#"{{{META},"taskId":"9f1c","inputResponses":{{"k2":{{"action":"accept"}},"k1":null}}}}"#
    );
    with(Method::TasksUpdate, &params, |params| {
        let params = params.unwrap();
        let responses = params.input_responses.as_ref().unwrap();
        let seen: Vec<_> = responses
            .iter()
            .map(|(key, raw)| (&**key, raw.get()))
            .collect();
        assert_eq!(seen, [("k2", r#"{"action":"accept"}"#), ("k1", "null")]);
        assert_eq!(params.mirrored_name(), Some("9f1c"));
    });
}

fn refuses(cases: &[(Method, String, &str)]) {
    for (method, params, reason) in cases {
        with(*method, params, |result| {
            assert_eq!(result.unwrap_err().reason(), *reason, "{method} {params}");
        });
    }
}

#[test]
fn metadata_that_is_refused() {
    let version = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28""#;
    let none = r#""io.modelcontextprotocol/clientCapabilities":null"#;
    let lookalike = r#""IO.modelcontextprotocol/protocolVersion":"x""#;
    let meta = |member: &str, reason: &'static str| {
        let params = format!(r#"{{"_meta":{member}}}"#);
        (Method::Discover, params, reason)
    };
    refuses(&[
        (Method::Discover, "{}".to_owned(), "missing_meta"),
        meta("null", "missing_meta"),
        meta("[]", "missing_meta"),
        meta("{}", "missing_meta"),
        meta(&format!("{{{version}}}"), "missing_meta"),
        meta(&format!("{{{version},{none}}}"), "missing_meta"),
        meta(&format!("{{{version},{version}}}"), "duplicate_key"),
        meta(&format!("{{{version},{lookalike}}}"), "lookalike_key"),
        (
            Method::Discover,
            format!("{{{META},{META}}}"),
            "duplicate_key",
        ),
    ]);
}

#[test]
fn members_that_are_refused() {
    use Method::{TasksCancel, TasksGet, TasksUpdate, ToolsCall, ToolsList};
    let long = format!(r#""taskId":"{}""#, "t".repeat(MAX_TASK_ID_BYTES + 1));
    let with = |method: Method, more: &str, reason: &'static str| {
        (method, format!("{{{META}{more}}}"), reason)
    };
    refuses(&[
        with(ToolsCall, "", "bad_member"),
        with(ToolsCall, r#","name":1"#, "bad_member"),
        with(ToolsCall, r#","name":"""#, "out_of_bounds"),
        with(ToolsCall, r#","name":"a","name":"b""#, "duplicate_key"),
        with(ToolsCall, r#","name":"a","n\u0061me":"b""#, "duplicate_key"),
        with(ToolsCall, r#","name":"a","Name":"b""#, "lookalike_key"),
        with(ToolsCall, r#","name":"a","arguments":[]"#, "bad_member"),
        with(ToolsList, r#","cursor":1"#, "bad_member"),
        with(TasksGet, "", "bad_member"),
        with(TasksGet, r#","taskId":"""#, "out_of_bounds"),
        with(TasksCancel, &format!(",{long}"), "out_of_bounds"),
        with(TasksGet, r#","taskId":"a","taskid":"b""#, "lookalike_key"),
        with(TasksUpdate, r#","taskId":"a""#, "bad_member"),
        with(
            TasksUpdate,
            r#","taskId":"a","inputResponses":[]"#,
            "bad_member",
        ),
        with(
            TasksUpdate,
            r#","taskId":"a","inputResponses":{"k":{},"\u006b":{}}"#,
            "duplicate_key",
        ),
    ]);
}

#[test]
fn params_must_be_there() {
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    let Message::Request(request) = parse(body.as_bytes()).unwrap() else {
        panic!("the body has an id");
    };
    let error = Params::parse(Method::ToolsList, &request).unwrap_err();
    assert_eq!(error, Error::MissingMeta("_meta"));
}

#[test]
fn declarations_are_read() {
    use Declared::{No, Yes};
    let tasks = r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;
    let cases = [
        ("{}", No, No, No),
        (tasks, Yes, No, No),
        (
            r#"{"extensions":{"io.modelcontextprotocol/tasks":{"a":1}}}"#,
            Yes,
            No,
            No,
        ),
        (
            r#"{"extensions":{"io.modelcontextprotocol/tasks":null}}"#,
            No,
            No,
            No,
        ),
        (
            r#"{"extensions":{"io.modelcontextprotocol/tasks":true}}"#,
            No,
            No,
            No,
        ),
        (r#"{"extensions":{"other":{}}}"#, No, No, No),
        (r#"{"tasks":{}}"#, No, No, No),
        (r#"{"elicitation":{}}"#, No, Yes, No),
        (r#"{"elicitation":{"form":{}}}"#, No, Yes, No),
        (r#"{"elicitation":{"url":{}}}"#, No, No, Yes),
        (r#"{"elicitation":{"form":{},"url":{}}}"#, No, Yes, Yes),
        (r#"{"elicitation":{"form":null}}"#, No, No, No),
        (r#"{"elicitation":null}"#, No, No, No),
    ];
    for (text, tasks, form, url) in cases {
        capabilities(text, |seen| {
            let seen = (seen.tasks, seen.elicitation_form, seen.elicitation_url);
            assert_eq!(seen, (tasks, form, url), "{text}");
        });
    }
    capabilities(r#"{"sampling":{"tools":{}},"roots":{}}"#, |seen| {
        assert_eq!((seen.sampling, seen.roots), (Yes, Yes));
    });
}

#[test]
fn another_revision_is_seen() {
    let params = r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2025-11-25","io.modelcontextprotocol/clientCapabilities":{}}}"#;
    with(Method::Discover, params, |params| {
        let meta = params.unwrap().meta;
        assert!(!meta.speaks_ours());
        assert_eq!(meta.protocol_version, "2025-11-25");
    });
}

#[test]
fn debug_shows_no_values() {
    let params = format!(r#"{{{META},"name":"a","arguments":{{"key":"canary"}}}}"#);
    with(Method::ToolsCall, &params, |params| {
        let shown = format!("{:?}", params.unwrap());
        assert!(!shown.contains("canary"), "{shown}");
    });
}

proptest! {
    #[test]
    fn no_params_make_it_panic(inner in r#"[\{\}\[\]",:0-9a-z_\\ ]{0,60}"#) {
        for method in Method::ALL {
            let body = body(method, &format!("{{{META},{inner}}}"));
            if let Ok(Message::Request(request)) = parse(body.as_bytes()) {
                let _ = Params::parse(method, &request);
            }
        }
    }
}
