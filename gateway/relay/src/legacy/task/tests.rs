//! Each message of a 2025-11-25 task, and what the checks of 2026-07-28 make of its translation.

use serde_json::{Value, json};

use super::*;
use crate::envelope::{Message, parse, parse_reply};
use crate::legacy::upstream;
use crate::task::{self as later, Outcome, Payload, classify};

const TASK: &str = r#""taskId":"t","createdAt":"2026-12-01T06:12:36.127Z","lastUpdatedAt":"2026-12-01T06:12:36.627Z","ttl":60000,"pollInterval":200,"statusMessage":"a\u0041","x": 1.50"#;
const CALL: &str = r#"{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"x","arguments":{"n": 1.50},"task":{"ttl":1},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":CAPABILITIES,"progressToken":"p"}}}"#;
const DECLARED: &str = r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;

fn mk_request(body: &str, look: impl FnOnce(&Request<'_>)) {
    match parse(body.as_bytes()).unwrap() {
        Message::Request(request) => look(&request),
        Message::Notification(_) => panic!("a notification"),
    }
}

fn mk_raw(text: &str) -> Box<RawValue> {
    json::raw(text.to_owned())
}

fn mk_task(status: &str) -> Box<RawValue> {
    mk_raw(&format!(r#"{{{TASK},"status":"{status}"}}"#))
}

/// The translated reply to `tools/call`.
fn mk_called(result: &str, handles: Handles) -> Box<RawValue> {
    let id = mk_raw("7");
    let body = format!(r#"{{"jsonrpc":"2.0","id":7,"result":{result}}}"#);
    let reply = parse_reply(body.as_bytes(), &id).unwrap().0;
    let text = upstream::reply(Method::ToolsCall, &id, &reply, handles).unwrap();
    match parse_reply(text.as_bytes(), &id).unwrap().0 {
        Reply::Result(result) => result.to_owned(),
        Reply::Error(error) => panic!("{}", error.raw),
    }
}

/// The whole answer to `tasks/get` about a task that ended like this.
fn mk_ended(status: &str, payload: &str) -> String {
    let id = mk_raw("7");
    let body = format!(r#"{{"jsonrpc":"2.0","id":7,{payload}}}"#);
    let payload = parse_reply(body.as_bytes(), &id).unwrap().0;
    match polled(&mk_task(status), "t").unwrap() {
        Polled::Ended(ended) => ended.reply(&id, &payload).unwrap(),
        Polled::Whole(text) => panic!("{text}"),
    }
}

fn value(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn a_tool_says_whether_it_runs_as_a_task() {
    for (execution, said) in [
        (r#"{"taskSupport":"required"}"#, Support::Required),
        (r#"{"taskSupport":"optional"}"#, Support::Optional),
        (r#"{"taskSupport":"forbidden"}"#, Support::Forbidden),
        (r#"{"taskSupport":"Required"}"#, Support::Forbidden),
        (r#"{"taskSupport":true}"#, Support::Forbidden),
        ("{}", Support::Forbidden),
        ("null", Support::Forbidden),
    ] {
        let tool = mk_raw(&format!(r#"{{"name":"x","execution":{execution}}}"#));
        assert_eq!(support(&tool), said, "{execution}");
    }
    assert_eq!(support(&mk_raw(r#"{"name":"x"}"#)), Support::Forbidden);
}

#[test]
fn an_upstream_offers_tasks_of_tools_or_none() {
    for (tasks, is_offered) in [
        (
            r#"{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}"#,
            true,
        ),
        (r#"{"requests":{"tools":{"call":null}}}"#, false),
        (r#"{"requests":{"tools":{}}}"#, false),
        (r#"{"list":{},"cancel":{}}"#, false),
        ("{}", false),
    ] {
        let result = mk_raw(&format!(r#"{{"capabilities":{{"tasks":{tasks}}}}}"#));
        assert_eq!(announced(&result), is_offered, "{tasks}");
        let discovered = value(&upstream::discovered(&result).unwrap());
        let extensions = &discovered["capabilities"]["extensions"];
        let wanted = if is_offered {
            json!({TASKS_EXTENSION: {}})
        } else {
            Value::Null
        };
        assert_eq!(extensions, &wanted, "{tasks}");
        assert!(discovered["capabilities"]["tasks"].is_null());
    }
}

#[test]
fn a_call_asks_for_a_task_in_the_gateways_words() {
    for (ttl_ms, asked) in [(60_000, 60_000), (u64::MAX, MAX_TTL_MS)] {
        mk_request(&CALL.replace("CAPABILITIES", DECLARED), |request| {
            let text = call(request, 9, ttl_ms).unwrap();
            assert!(text.contains(r#""arguments":{"n": 1.50}"#), "{text}");
            let wanted = json!({"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": {
                "name": "x", "arguments": {"n": 1.5}, "task": {"ttl": asked},
                "_meta": {"progressToken": 9},
            }});
            assert_eq!(value(&text), wanted);
        });
    }
}

#[test]
fn a_client_can_handle_a_task_where_it_says_so() {
    for (capabilities, declares) in [
        (DECLARED, true),
        (
            r#"{"extensions":{"io.modelcontextprotocol/tasks":null}}"#,
            false,
        ),
        (r#"{"extensions":{}}"#, false),
        ("{}", false),
    ] {
        mk_request(&CALL.replace("CAPABILITIES", capabilities), |request| {
            let (tool, declared) = called(request).unwrap();
            assert_eq!((&*tool, declared), ("x", declares), "{capabilities}");
        });
    }
}

#[test]
fn a_nested_handle_is_given_on_flat() {
    for beside in ["", r#","content":[]"#] {
        let result =
            format!(r#"{{"task":{{{TASK},"status":"working"}},"_meta":{{"m":1}}{beside}}}"#);
        let flat = mk_called(&result, Handles::Flat);
        assert!(flat.get().contains(r#""statusMessage":"a\u0041","x":1.50"#));
        assert_eq!(
            value(flat.get()),
            json!({
                "resultType": "task", "taskId": "t", "status": "working", "ttlMs": 60000,
                "pollIntervalMs": 200, "createdAt": "2026-12-01T06:12:36.127Z",
                "lastUpdatedAt": "2026-12-01T06:12:36.627Z", "statusMessage": "aA", "x": 1.5,
                "_meta": {"m": 1},
            })
        );
        assert!(matches!(classify(&flat), Outcome::Task(_)));
    }
    let endless = format!(r#"{{"task":{{{TASK},"status":"working"}}}}"#).replace("60000", "null");
    match classify(&mk_called(&endless, Handles::Flat)) {
        Outcome::Task(snapshot) => {
            assert_eq!(
                (snapshot.ttl_ms, snapshot.poll_interval_ms),
                (None, Some(200))
            );
        }
        other => panic!("{other:?}"),
    }
}

/// Whether it failed in the later sense says its payload alone.
#[test]
fn a_handle_that_is_born_failed_is_working_until_its_payload_is_seen() {
    for (born, shown) in [
        ("failed", later::Status::Working),
        ("completed", later::Status::Completed),
        ("cancelled", later::Status::Cancelled),
    ] {
        let result = format!(r#"{{"task":{{{TASK},"status":"{born}"}}}}"#);
        match classify(&mk_called(&result, Handles::Flat)) {
            Outcome::Task(snapshot) => assert_eq!(snapshot.status, shown, "{born}"),
            other => panic!("{born}: {other:?}"),
        }
    }
}

#[test]
fn any_other_handle_is_a_breach_whose_task_is_known() {
    let nested = format!(r#"{{"task":{{{TASK},"status":"working"}}}}"#);
    let flat = format!(r#"{{{TASK},"status":"working"}}"#);
    let typed = format!(r#"{{{TASK},"status":"working","resultType":"task"}}"#);
    let filled = format!(r#"{{"task":{{{TASK}}},"content":[{{"type":"text","text":"x"}}]}}"#);
    for (result, handles) in [
        (&nested, Handles::Breach),
        (&flat, Handles::Flat),
        (&typed, Handles::Flat),
        (&typed, Handles::Breach),
        (&filled, Handles::Flat),
    ] {
        let read = mk_called(result, handles);
        assert!(matches!(classify(&read), Outcome::Invalid(_)), "{result}");
        assert_eq!(later::suspected_id(&read).as_deref(), Some("t"), "{result}");
    }
    let id = mk_raw("7");
    let body = format!(r#"{{"jsonrpc":"2.0","id":7,"result":{nested}}}"#);
    let reply = parse_reply(body.as_bytes(), &id).unwrap().0;
    let prompt = upstream::reply(Method::PromptsGet, &id, &reply, Handles::Flat).unwrap();
    assert!(value(&prompt)["result"]["resultType"].is_null(), "{prompt}");
    // A tool's own result is no handle, whatever it has beside its content.
    let own = mk_called(r#"{"content":[],"taskId":"t"}"#, Handles::Flat);
    assert!(matches!(classify(&own), Outcome::Complete { .. }));
}

#[test]
fn a_task_that_goes_on_is_read_as_it_is() {
    for status in ["working", "cancelled"] {
        let Polled::Whole(text) = polled(&mk_task(status), "t").unwrap() else {
            panic!("{status} has no payload");
        };
        assert!(text.contains(r#""statusMessage":"a\u0041","x":1.50"#));
        let raw = mk_raw(&text);
        let read = later::polled(&raw, "t").unwrap();
        assert_eq!(read.snapshot.ttl_ms, Some(60_000));
        assert_eq!(read.snapshot.poll_interval_ms, Some(200));
        assert_eq!(read.snapshot.status.as_str(), status);
        assert!(matches!(read.payload, Payload::None));
    }
}

#[test]
fn a_task_that_asks_can_be_answered_by_nobody() {
    assert_eq!(
        polled(&mk_task("input_required"), "t").unwrap_err(),
        Error::TaskAsks
    );
}

/// What breaks the protocol is not repaired on the way.
#[test]
fn a_breach_is_left_to_the_reader() {
    for (answer, error) in [
        (mk_task("completed"), later::Error::OtherTask),
        (mk_task("input_required"), later::Error::OtherTask),
        (mk_task("done"), later::Error::Status),
        (
            mk_raw(&format!(r#"{{"task":{{{TASK},"status":"working"}}}}"#)),
            later::Error::Nested,
        ),
        (
            mk_raw(
                &format!(r#"{{{TASK},"status":"working","result":{{}}}}"#)
                    .replace(r#""t""#, r#""other""#),
            ),
            later::Error::StrayPayload,
        ),
        (mk_raw("{}"), later::Error::TaskId),
    ] {
        let Polled::Whole(text) = polled(&answer, "other").unwrap() else {
            panic!("{answer}");
        };
        let read = mk_raw(&text);
        assert_eq!(
            later::polled(&read, "other").unwrap_err(),
            error,
            "{answer}"
        );
    }
}

#[test]
fn an_end_is_told_with_its_payload() {
    let result = r#""result":{"content":[{"n": 1.50}],"isError":ERROR,"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t"}}}"#;
    for (status, is_error) in [
        ("completed", "false"),
        ("completed", "true"),
        ("failed", "true"),
    ] {
        let text = mk_ended(status, &result.replace("ERROR", is_error));
        assert!(text.contains(r#"{"content":[{"n": 1.50}]"#), "{text}");
        let told = &value(&text)["result"];
        assert_eq!(told["status"], "completed", "{status}");
        assert_eq!(told["result"]["isError"], value(is_error), "{status}");
        assert_eq!(told["result"]["resultType"], "complete");
        let raw = mk_raw(&told.to_string());
        let read = later::polled(&raw, "t").unwrap();
        assert!(matches!(read.payload, Payload::Completed { .. }));
    }
    // That it failed is not lost where its result does not repeat it.
    for is_error in ["false", "null"] {
        let text = mk_ended("failed", &result.replace("ERROR", is_error));
        assert_eq!(value(&text)["result"]["result"]["isError"], true, "{text}");
    }
}

#[test]
fn an_error_in_place_of_a_result_is_the_failure() {
    let error = r#""error":{"code":-32002,"message":"m","data":{"x": 1.50}}"#;
    let text = mk_ended("failed", error);
    assert!(text.contains(r#"{"x": 1.50}"#), "{text}");
    let told = &value(&text)["result"];
    assert_eq!(told["status"], "failed");
    assert_eq!(
        told["error"]["code"], -32602,
        "a retired code does not cross"
    );
    let raw = mk_raw(&told.to_string());
    assert!(matches!(
        later::polled(&raw, "t").unwrap().payload,
        Payload::Failed { .. }
    ));
    let text = mk_ended("completed", error);
    let whole = value(&text);
    assert!(
        whole["result"].is_null() && whole["error"]["code"] == -32602,
        "{text}"
    );
}

#[test]
fn a_payload_of_another_task_is_an_answer_about_another() {
    let text = mk_ended(
        "completed",
        r#""result":{"content":[],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"u"}}}"#,
    );
    let raw = mk_raw(&value(&text)["result"].to_string());
    assert_eq!(
        later::polled(&raw, "t").unwrap_err(),
        later::Error::OtherTask
    );
}

#[test]
fn a_payload_is_asked_for_by_the_task_alone() {
    let wanted =
        json!({"jsonrpc": "2.0", "id": 9, "method": "tasks/result", "params": {"taskId": "a\"b"}});
    assert_eq!(value(&result_request("a\"b", 9)), wanted);
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"a\u0022b"}}"#;
    mk_request(body, |request| {
        assert_eq!(asked_about(request).as_deref(), Some("a\"b"));
    });
}

#[test]
fn an_answer_to_a_cancel_is_the_task() {
    let id = mk_raw("7");
    for status in ["cancelled", "working"] {
        let body = format!(r#"{{"jsonrpc":"2.0","id":7,"result":{{{TASK},"status":"{status}"}}}}"#);
        let reply = parse_reply(body.as_bytes(), &id).unwrap().0;
        let text = upstream::reply(Method::TasksCancel, &id, &reply, Handles::Breach).unwrap();
        let told = &value(&text)["result"];
        assert_eq!(
            (&told["status"], &told["ttlMs"]),
            (&json!(status), &json!(60000))
        );
        assert_eq!(told["resultType"], "complete");
    }
}

#[test]
fn a_session_is_kept_as_long_as_its_task_and_no_longer_than_the_entry() {
    let handle = |ttl: &str| mk_raw(&format!(r#"{{"task":{{"taskId":"t","ttl":{ttl}}}}}"#));
    assert_eq!(kept_ms(&handle("500"), 1000), Some(500));
    assert_eq!(kept_ms(&handle("5000"), 1000), Some(1000));
    assert_eq!(kept_ms(&handle("null"), 1000), Some(1000));
    assert_eq!(kept_ms(&mk_raw(r#"{"content":[]}"#), 1000), None);
    assert_eq!(kept_ms(&mk_raw(r#"{"task":{}}"#), 1000), None);
}
