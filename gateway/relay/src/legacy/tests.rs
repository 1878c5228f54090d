//! Each translation, in both directions.

use serde_json::{Value, json};

use super::task::Handles;
use super::*;
use crate::envelope::{Message, Reply, parse, parse_reply};
use crate::method::Method;
use crate::params::Params;

fn mk_request(body: &str, look: impl FnOnce(&envelope::Request<'_>)) {
    match parse(body.as_bytes()).unwrap() {
        Message::Request(request) => look(&request),
        Message::Notification(_) => panic!("a notification"),
    }
}

fn mk_reply(body: &str, look: impl FnOnce(&Reply<'_>)) {
    let id = json::raw("7".to_owned());
    look(&parse_reply(body.as_bytes(), &id).unwrap().0);
}

fn mk_raw(text: &str) -> Box<RawValue> {
    json::raw(text.to_owned())
}

fn value(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

const MODERN: &str = r#"{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"x","arguments":{"n": 1.50},"task":{"ttl":1},"inputResponses":{},"requestState":"s","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{},"io.modelcontextprotocol/logLevel":"info","progressToken":"p","traceparent":"00-1"}}}"#;

#[test]
fn a_request_loses_its_envelope_and_keeps_its_arguments() {
    mk_request(MODERN, |request| {
        let text = upstream::request(request, 9).unwrap();
        assert!(text.contains(r#""arguments":{"n": 1.50}"#), "{text}");
        assert_eq!(
            value(&text),
            json!({"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": {
                "name": "x", "arguments": {"n": 1.5},
                "_meta": {"progressToken": 9, "traceparent": "00-1"},
            }})
        );
    });
}

#[test]
fn a_lookalike_of_a_dropped_member_is_refused() {
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"Task":{}}}"#;
    mk_request(body, |request| {
        assert_eq!(
            upstream::request(request, 1).unwrap_err().reason(),
            "lookalike_key"
        );
        assert_eq!(
            client::request(request).unwrap_err().reason(),
            "lookalike_key"
        );
    });
}

#[test]
fn a_result_gains_what_its_method_requires() {
    for (method, theirs, ours) in [
        (
            Method::ToolsCall,
            r#"{"content":[{"n": 1.0}]}"#,
            r#"{"content":[{"n": 1.0}],"resultType":"complete"}"#,
        ),
        (Method::Complete, "{}", r#"{"resultType":"complete"}"#),
        (
            Method::PromptsList,
            r#"{"prompts":[],"ttlMs":"x"}"#,
            r#"{"prompts":[],"resultType":"complete","ttlMs":0,"cacheScope":"private"}"#,
        ),
        (
            Method::ResourcesRead,
            r#"{"contents":[]}"#,
            r#"{"contents":[],"resultType":"complete","ttlMs":0,"cacheScope":"private"}"#,
        ),
    ] {
        mk_reply(
            &format!(r#"{{"jsonrpc":"2.0","id":7,"result":{theirs}}}"#),
            |reply| {
                let text = upstream::reply(method, &mk_raw("\"a\""), reply, Handles::Flat).unwrap();
                assert_eq!(
                    text,
                    format!(r#"{{"jsonrpc":"2.0","id":"a","result":{ours}}}"#)
                );
            },
        );
    }
}

#[test]
fn a_result_of_another_kind_is_none() {
    for result in [
        r#"{"resultType":"input_required"}"#,
        r#"{"resultType":null}"#,
    ] {
        mk_reply(
            &format!(r#"{{"jsonrpc":"2.0","id":7,"result":{result}}}"#),
            |reply| {
                let read = upstream::reply(Method::ToolsCall, &mk_raw("1"), reply, Handles::Flat);
                assert_eq!(read, Err(Error::ResultType), "{result}");
            },
        );
    }
}

#[test]
fn retired_codes_do_not_cross() {
    for (theirs, ours) in [(-32002, -32602), (-32042, -32603), (-32000, -32000)] {
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":7,"error":{{"code":{theirs},"message":"m","data":{{"x": 1.0}}}}}}"#
        );
        mk_reply(&body, |reply| {
            let text =
                upstream::reply(Method::ResourcesRead, &mk_raw("1"), reply, Handles::Flat).unwrap();
            assert_eq!(value(&text)["error"]["code"], ours);
            assert!(text.contains(r#"{"x": 1.0}"#));
        });
    }
}

#[test]
fn initialize_becomes_discover_without_tasks() {
    let result = mk_raw(
        r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true,"x":1.0},"tasks":{},"extensions":{}},"serverInfo":{"name":"s","version":"0"},"instructions":"Read \u0041"}"#,
    );
    assert_eq!(upstream::negotiated(&result).unwrap(), "2025-06-18");
    let text = upstream::discovered(&result).unwrap();
    assert!(text.contains(r#""instructions":"Read \u0041""#));
    let found = value(&text);
    assert_eq!(
        found["capabilities"],
        json!({"tools": {"x": 1.0}}),
        "no promise of a stream that is not there"
    );
    assert_eq!(found["resultType"], "complete");
    assert_eq!(
        found["_meta"]["io.modelcontextprotocol/serverInfo"]["name"],
        "s"
    );
    let old = mk_raw(r#"{"protocolVersion":"2024-11-05"}"#);
    assert_eq!(upstream::negotiated(&old).unwrap_err(), Error::Version);
}

/// Fallback on one code alone left clients without an answer: old servers refuse the probe in many
/// ways.
#[test]
fn an_answer_to_the_probe_tells_the_era() {
    let error = |code: i64| format!(r#""error":{{"code":{code},"message":"m"}}"#);
    let supports = |version: &str| {
        format!(
            r#""error":{{"code":-32022,"message":"m","data":{{"supported":["{version}"],"requested":"2026-07-28"}}}}"#
        )
    };
    for (member, era) in [
        (
            r#""result":{"supportedVersions":["2026-07-28"]}"#.to_owned(),
            Some(Era::Modern),
        ),
        (
            r#""result":{"resultType":"complete"}"#.to_owned(),
            Some(Era::Modern),
        ),
        (
            r#""result":{"supportedVersions":["2025-11-25"]}"#.to_owned(),
            Some(Era::Legacy),
        ),
        (r#""result":{}"#.to_owned(), Some(Era::Legacy)),
        (error(-32601), Some(Era::Legacy)),
        (error(-32000), Some(Era::Legacy)),
        (error(-32600), Some(Era::Legacy)),
        (error(-32602), Some(Era::Legacy)),
        (error(-32020), Some(Era::Modern)),
        (error(-32021), Some(Era::Modern)),
        (error(-32603), None),
        (supports("2025-11-25"), Some(Era::Legacy)),
    ] {
        let body = format!(r#"{{"jsonrpc":"2.0","id":7,{member}}}"#);
        mk_reply(&body, |reply| {
            assert_eq!(upstream::judge(reply), Ok(era), "{member}");
        });
    }
    let body = format!(r#"{{"jsonrpc":"2.0","id":7,{}}}"#, supports("2030-01-01"));
    mk_reply(&body, |reply| {
        assert_eq!(upstream::judge(reply), Err(Error::Version));
    });
}

#[test]
fn progress_goes_on_under_the_clients_token() {
    let message = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":9,"progress": 1.0}}"#;
    let token = mk_raw("\"p\"");
    let told = upstream::notification(message, Some(&token)).unwrap();
    assert_eq!(told, message.replace(":9,", ":\"p\","));
    assert_eq!(upstream::notification(message, None), None);
    match upstream::parse_incoming(message.as_bytes(), &token).unwrap() {
        upstream::Incoming::Notification(notification) => {
            assert!(upstream::is_progress_of(&notification, 9));
            assert!(!upstream::is_progress_of(&notification, 8));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_question_is_refused_and_a_ping_answered() {
    let asked = br#"{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{}}"#;
    match upstream::parse_incoming(asked, &mk_raw("9")).unwrap() {
        upstream::Incoming::Asked { id, method } => {
            let refusal = value(&upstream::answer(id, &method));
            assert_eq!(
                (&refusal["id"], &refusal["error"]["code"]),
                (&json!("q"), &json!(-32601))
            );
            let pong = value(&upstream::answer(id, "ping"));
            assert_eq!(pong, json!({"jsonrpc": "2.0", "id": "q", "result": {}}));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_legacy_request_gains_an_envelope_that_declares_nothing() {
    let body = r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"x","arguments":{"n": 1.50},"task":{"ttl":1},"_meta":{"progressToken":"p"}}}"#;
    mk_request(body, |request| {
        assert!(!client::has_envelope(request));
        assert_eq!(
            client::asked(request),
            Some(client::Asked::Relayed(Method::ToolsCall))
        );
        let text = client::request(request).unwrap();
        assert!(
            text.contains(r#"{"n": 1.50}"#) && !text.contains("task"),
            "{text}"
        );
        mk_request(&text, |request| {
            assert!(client::has_envelope(request));
            let params = Params::parse(Method::ToolsCall, request).unwrap();
            assert!(params.meta.speaks_ours());
            assert!(!params.meta.capabilities.tasks.is_yes());
            assert_eq!(params.meta.progress_token.unwrap().get(), "\"p\"");
        });
    });
}

#[test]
fn what_this_era_has_not_is_not_asked_for() {
    for method in [
        "server/discover",
        "tasks/get",
        "tasks/list",
        "logging/setLevel",
        "x",
    ] {
        let body = format!(r#"{{"jsonrpc":"2.0","id":3,"method":"{method}"}}"#);
        mk_request(&body, |request| {
            assert_eq!(client::asked(request), None, "{method}");
        });
    }
    for (wanted, spoken) in [
        ("2025-11-25", "2025-11-25"),
        ("2025-06-18", "2025-06-18"),
        ("2026-07-28", "2025-11-25"),
        ("2024-11-05", "2025-11-25"),
    ] {
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":3,"method":"initialize","params":{{"protocolVersion":"{wanted}"}}}}"#
        );
        mk_request(&body, |request| {
            assert_eq!(
                client::asked(request),
                Some(client::Asked::Initialize(spoken))
            );
        });
    }
}

#[test]
fn a_result_is_given_in_the_old_shape() {
    let shaped = |method, text: &str| client::result(method, &mk_raw(text)).unwrap();
    let called = r#"{"resultType":"complete","content":[{"n": 1.0}],"isError":true}"#;
    assert_eq!(
        shaped(Method::ToolsCall, called),
        r#"{"content":[{"n": 1.0}],"isError":true}"#
    );
    let list = r#"{"resultType":"complete","tools":[{"name":"a", "x":1},{"name":"b","execution":{},"outputSchema":{"type":"array"}},{"name":"c","outputSchema":{"type":"object"}}],"ttlMs":0,"cacheScope":"private"}"#;
    assert_eq!(
        shaped(Method::ToolsList, list),
        r#"{"tools":[{"name":"a", "x":1},{"name":"b"},{"name":"c","outputSchema":{"type":"object"}}]}"#
    );
    let structured = r#"{"content":[],"structuredContent":[1],"resultType":"complete"}"#;
    assert_eq!(shaped(Method::ToolsCall, structured), r#"{"content":[]}"#);
    for (kind, error) in [("input_required", Error::Asks), ("task", Error::Task)] {
        let result = mk_raw(&format!(r#"{{"resultType":"{kind}"}}"#));
        assert_eq!(client::result(Method::ToolsCall, &result), Err(error));
    }
}

#[test]
fn discover_becomes_initialize_without_tasks_and_log_levels() {
    let discovered = mk_raw(
        r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"logging":{},"extensions":{"io.modelcontextprotocol/tasks":{}}},"instructions":"I","ttlMs":0}"#,
    );
    let result = value(&client::initialized("2025-11-25", &discovered).unwrap());
    assert_eq!(result["capabilities"], json!({"tools": {}}));
    assert_eq!(result["protocolVersion"], "2025-11-25");
    assert_eq!(result["serverInfo"]["name"], "hangar-gateway");
    assert_eq!(result["instructions"], "I");
}
