//! Answers of our own, and the page that documents them.

use std::collections::BTreeSet;

use super::*;
use crate::json::Members;
use crate::task::{Payload, polled};

const PAGE: &str = include_str!("../../../../docs/errors.md");

fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).unwrap()
}

fn mk_snapshot(status: Status) -> Snapshot {
    Snapshot {
        task_id: "9f\"1c".into(),
        status,
        created_at: "2026-12-01T06:00:00Z".into(),
        last_updated_at: "2026-12-01T06:00:01.000001+00:00".into(),
        ttl_ms: None,
        poll_interval_ms: Some(500),
    }
}

/// The first cells of each row of a section, without the text.
fn rows(section: &str, cells: usize) -> Vec<String> {
    section
        .lines()
        .filter(|line| line.starts_with("| -"))
        .filter(|line| !line.starts_with("| ---"))
        .map(|line| {
            line.split('|')
                .skip(1)
                .take(cells)
                .map(str::trim)
                .collect::<Vec<_>>()
                .join(" ")
        })
        .collect()
}

#[test]
fn the_page_is_the_table() {
    let (errors, failures) = PAGE.split_once("## Failed tasks").unwrap();
    let expected: Vec<String> = Kind::all()
        .map(|kind| {
            format!(
                "{} {} `{}`",
                kind.code(),
                kind.status().as_u16(),
                kind.reason()
            )
        })
        .collect();
    assert_eq!(rows(errors, 3), expected);
    let expected: Vec<String> = Failure::all()
        .map(|failure| format!("{} `{}`", failure.code(), failure.reason()))
        .collect();
    assert_eq!(rows(failures, 2), expected);
}

#[test]
fn rows_are_where_they_are_looked_up() {
    for (index, kind) in Kind::all().enumerate() {
        assert_eq!(kind as usize, index);
    }
    for (index, failure) in Failure::all().enumerate() {
        assert_eq!(failure as usize, index);
        assert_eq!(Failure::parse(failure.reason()), Some(failure));
    }
    // The last of each: an entry that was forgotten would be out of the table.
    assert_eq!(Kind::EndpointNotFound.reason(), "endpoint_not_found");
    assert_eq!(Failure::Evicted.reason(), "evicted");
    assert_eq!(Failure::parse("upstream_failed"), None);
}

#[test]
fn codes_are_legal_and_reasons_distinct() {
    let reasons: BTreeSet<_> = Kind::all().map(Kind::reason).collect();
    assert_eq!(reasons.len(), Kind::all().count());
    let reasons: BTreeSet<_> = Failure::all().map(Failure::reason).collect();
    assert_eq!(reasons.len(), Failure::all().count());
    let standard = [
        -32700, -32600, -32601, -32602, -32603, -32020, -32021, -32022,
    ];
    let codes = Kind::all()
        .map(Kind::code)
        .chain(Failure::all().map(Failure::code));
    for code in codes {
        let is_private = !(-32768..=-32000).contains(&code);
        assert!(is_private || standard.contains(&code), "{code}");
    }
}

#[test]
fn replies_hold_the_id_and_the_result_as_they_came() {
    assert_eq!(
        result(&raw(r#""\u0031""#), &raw(r#"{ "a" : 1.0}"#)),
        r#"{"jsonrpc":"2.0","id":"\u0031","result":{ "a" : 1.0}}"#
    );
    assert_eq!(
        rpc_error(Some(&raw("1")), &raw(r#"{"code":1.0, "message":""}"#)),
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":1.0, "message":""}}"#
    );
    assert_eq!(
        error(None, &Kind::Parse.into()),
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}"#
    );
    assert_eq!(ack().get(), r#"{"resultType":"complete"}"#);
}

/// One answer for unknown, expired and foreign: nothing in it comes from the request.
#[test]
fn a_task_that_is_not_found() {
    let answer = WireError::from(Kind::TaskNotFound);
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(
        answer.object().get(),
        r#"{"code":-32602,"message":"Task not found"}"#
    );
}

#[test]
fn errors_with_data() {
    let cases = [
        (
            WireError::missing_tasks(),
            r#"{"code":-32021,"message":"Missing required client capability","data":{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}}"#,
        ),
        (
            WireError::unsupported_version("a\"b"),
            r#"{"code":-32022,"message":"Unsupported protocol version","data":{"supported":["2026-07-28"],"requested":"a\"b"}}"#,
        ),
        (
            WireError::unavailable(Some(Status::Completed)),
            r#"{"code":-31001,"message":"Upstream unavailable","data":{"reason":"unavailable","status":"completed"}}"#,
        ),
        (
            WireError::unavailable(None),
            r#"{"code":-31001,"message":"Upstream unavailable","data":{"reason":"unavailable"}}"#,
        ),
        (
            WireError::withheld(Some(Status::InputRequired)),
            r#"{"code":-31002,"message":"Withheld by policy","data":{"reason":"withheld","status":"input_required"}}"#,
        ),
        (
            WireError::invalid_params("cursor"),
            r#"{"code":-32602,"message":"Invalid params: cursor"}"#,
        ),
    ];
    for (error, object) in cases {
        assert_eq!(error.object().get(), object);
    }
}

#[test]
fn errors_of_other_modules_find_their_row() {
    let of_body = |body: &[u8]| WireError::from(envelope::parse(body).unwrap_err());
    let missing = params::Error::MissingMeta("_meta");
    let member = params::Error::Json {
        member: "params",
        source: json::Error::Duplicate,
    };
    let cases = [
        (of_body(b"{"), Kind::Parse),
        (of_body(b"\xff"), Kind::Parse),
        (of_body(b"[]"), Kind::InvalidRequest),
        (
            of_body(br#"{"jsonrpc":"2.0","jsonrpc":"2.0"}"#),
            Kind::InvalidRequest,
        ),
        (of_body("[".repeat(65).as_bytes()), Kind::InvalidRequest),
        (missing.into(), Kind::MissingMeta),
        (member.into(), Kind::InvalidParams),
        (params::Error::Bounds("taskId").into(), Kind::InvalidParams),
        (
            headers::Error::Missing("Mcp-Name").into(),
            Kind::HeaderMismatch,
        ),
        (mirror::Error::Mismatch.into(), Kind::HeaderMismatch),
    ];
    for (error, kind) in cases {
        assert_eq!(
            (error.code, error.status),
            (kind.code(), kind.status()),
            "{error:?}"
        );
        assert_eq!(error.reason, kind.reason());
        assert!(
            error.message.len() > kind.message().len(),
            "{}",
            error.message
        );
    }
}

/// The failed task reads back through the checks that an upstream's must pass.
#[test]
fn failed_tasks_are_legal() {
    for failure in Failure::all() {
        let body = failed_task(&mk_snapshot(Status::Working), failure);
        let seen = polled(&body, "9f\"1c").unwrap();
        assert_eq!(seen.snapshot, mk_snapshot(Status::Failed));
        let Payload::Failed { error } = seen.payload else {
            panic!("{failure:?} is no failed task");
        };
        let members = Members::of(error).unwrap();
        assert_eq!(
            members.get("code").unwrap().get(),
            failure.code().to_string()
        );
        assert_eq!(members.string("message").unwrap(), failure.message());
        let data = members.get("data").unwrap().get();
        assert_eq!(data, format!(r#"{{"reason":"{}"}}"#, failure.reason()));
        let members = Members::of(&body).unwrap();
        assert_eq!(members.string("statusMessage").unwrap(), failure.message());
        assert_eq!(members.get("ttlMs").unwrap().get(), "null");
    }
}

#[test]
fn plain_tasks_are_legal_and_say_their_age() {
    for status in [Status::Working, Status::Cancelled] {
        let mut snapshot = mk_snapshot(status);
        snapshot.ttl_ms = Some(900_000);
        snapshot.poll_interval_ms = None;
        let body = plain_task(&snapshot, Some(1500));
        assert_eq!(polled(&body, "9f\"1c").unwrap().snapshot, snapshot);
        let meta = Members::of(&body).unwrap().get("_meta").unwrap();
        assert_eq!(meta.get(), r#"{"hangar.dev/ageMs":1500}"#);
        let body = plain_task(&snapshot, None);
        assert!(Members::of(&body).unwrap().get("_meta").is_none());
    }
}

#[test]
fn debug_shows_no_message() {
    let shown = format!("{:?}", WireError::unsupported_version("canary"));
    assert!(!shown.contains("canary"), "{shown}");
    assert!(shown.contains("unsupported_version"), "{shown}");
}
