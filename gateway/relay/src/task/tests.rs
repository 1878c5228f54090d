//! What upstreams say of tasks.

use proptest::prelude::*;

use super::*;
use crate::json::quote;

fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).unwrap()
}

const TIMES: &str =
    r#""createdAt":"2026-12-01T06:00:00Z","lastUpdatedAt":"2026-12-01T06:00:01+00:00""#;

fn handle(more: &str) -> String {
    format!(r#"{{"resultType":"task","taskId":"9f1c","status":"working",{TIMES}{more}}}"#)
}

fn get(status: &str, more: &str) -> String {
    format!(
        r#"{{"resultType":"complete","taskId":"9f1c","status":"{status}",{TIMES},"ttlMs":900000{more}}}"#
    )
}

fn snapshot_of(text: &str) -> Snapshot {
    match classify(&raw(text)) {
        Outcome::Task(snapshot) => snapshot,
        other => panic!("{text} is {other:?}"),
    }
}

fn invalid(text: &str) -> &'static str {
    match classify(&raw(text)) {
        Outcome::Invalid(error) => error.reason(),
        other => panic!("{text} is {other:?}"),
    }
}

fn refused(text: &str) -> &'static str {
    polled(&raw(text), "9f1c").expect_err(text).reason()
}

#[test]
fn handles_are_copied_verbatim() {
    let snapshot = snapshot_of(&handle(
        r#","ttlMs":900000.0,"pollIntervalMs":500,"statusMessage":"m","content":[],"vendor":1"#,
    ));
    let expected = Snapshot {
        task_id: "9f1c".into(),
        status: Status::Working,
        created_at: "2026-12-01T06:00:00Z".into(),
        last_updated_at: "2026-12-01T06:00:01+00:00".into(),
        ttl_ms: Some(900_000),
        poll_interval_ms: Some(500),
    };
    assert_eq!(snapshot, expected);
    for none in ["", r#","ttlMs":null,"result":null"#] {
        assert_eq!(snapshot_of(&handle(none)).ttl_ms, None, "{none}");
    }
}

#[test]
fn only_the_result_type_decides() {
    let complete = raw(r#"{"resultType":"complete","content":[],"taskId":"x","status":"working"}"#);
    assert!(matches!(
        classify(&complete),
        Outcome::Complete { is_error: false }
    ));
    let tool_error = raw(r#"{"resultType":"complete","content":[],"isError":true}"#);
    assert!(matches!(
        classify(&tool_error),
        Outcome::Complete { is_error: true }
    ));
    let round = raw(r#"{"resultType":"input_required","requestState":"s"}"#);
    assert!(matches!(classify(&round), Outcome::InputRequired));
}

#[test]
fn a_nested_handle_is_none_beside_anything() {
    for result_type in ["complete", "input_required", "task"] {
        let both = format!(
            r#"{{"resultType":"{result_type}","content":[],"task":{{"taskId":"x","status":"working"}}}}"#
        );
        assert!(
            matches!(classify(&raw(&both)), Outcome::Invalid(Error::Nested)),
            "{result_type}"
        );
    }
    let polled_both = handle("").replace(r#""task""#, r#""complete""#).replace(
        '}',
        r#","task":{"taskId":"9f1c","status":"completed","result":{}}}"#,
    );
    assert_eq!(
        polled(&raw(&polled_both), "9f1c").unwrap_err(),
        Error::Nested
    );
}

/// Another reader may find a handle where this one finds nothing that it can read.
#[test]
fn a_nested_handle_that_cannot_be_read_is_one() {
    let many: Vec<String> = (0..=4096).map(|n| format!("\"{n}\":0")).collect();
    let many = format!("{{{}}}", many.join(","));
    for task in [
        r#"{"taskId":"q","taskId":"hid"}"#,
        r#"{"taskId":"hid","ttl":1,"ttl":2}"#,
        r#"{"\ud800":1,"taskId":"hid"}"#,
        r#"{"TaskID":"hid"}"#,
        &many,
    ] {
        for result_type in ["complete", "input_required"] {
            let both = format!(r#"{{"resultType":"{result_type}","task":{task}}}"#);
            let outcome = classify(&raw(&both));
            assert!(matches!(outcome, Outcome::Invalid(Error::Nested)), "{both}");
        }
    }
    for task in [r#"{"title":"x"}"#, "\"x\"", "null", "[]"] {
        let plain = raw(&format!(r#"{{"resultType":"complete","task":{task}}}"#));
        assert!(
            matches!(classify(&plain), Outcome::Complete { .. }),
            "{task}"
        );
    }
}

#[test]
fn a_payload_hides_nowhere() {
    let poll = |more: &str, status: &str| {
        let text = handle("").replace(r#""task""#, r#""complete""#);
        let text = text.replace("working", status);
        let text = text.replacen('{', &format!("{{{more}"), 1);
        polled(&raw(&text), "9f1c").map(drop)
    };
    for more in [
        r#""content":[{"type":"text","text":"x"}],"#,
        r#""structuredContent":{},"#,
        r#""statusMessage":{"content":[]},"#,
        r#""statusMessage":["x"],"#,
    ] {
        for status in ["working", "cancelled"] {
            assert_eq!(poll(more, status), Err(Error::StrayPayload), "{more}");
        }
    }
    for more in [
        r#""statusMessage":"half way","#,
        r#""statusMessage":null,"#,
        r#""content":[],"#,
    ] {
        assert_eq!(poll(more, "working"), Ok(()), "{more}");
    }
    for (result, wanted) in [
        (r#"{"resultType":"complete","content":[]}"#, Ok(())),
        (r#"{"content":[]}"#, Ok(())),
        (
            r#"{"resultType":"task","taskId":"x"}"#,
            Err(Error::ResultType),
        ),
        (r#"{"resultType":"input_required"}"#, Err(Error::ResultType)),
        (r#"{"resultType":1}"#, Err(Error::ResultType)),
        (r#"{"task":{"taskId":"x"}}"#, Err(Error::Nested)),
        (
            r#"{"resultType":"complete","resultType":"task"}"#,
            Err(Error::Json(json::Error::Duplicate)),
        ),
    ] {
        let more = format!(r#""result":{result},"#);
        assert_eq!(poll(&more, "completed"), wanted, "{result}");
    }
}

#[test]
fn handles_that_are_none() {
    let long = "t".repeat(MAX_TASK_ID_BYTES + 1);
    let fits = "t".repeat(MAX_TASK_ID_BYTES);
    assert_eq!(
        snapshot_of(&handle("").replace("9f1c", &fits)).task_id,
        fits
    );
    let cases = [
        (
            handle("").replace(r#""resultType":"task","#, ""),
            "result_type",
        ),
        (handle("").replace(r#""task""#, r#""tasks""#), "result_type"),
        (handle("").replace(r#""task""#, "1"), "result_type"),
        (r#"{"content":[]}"#.to_owned(), "result_type"),
        (r#"{"task":{"taskId":"9f1c"}}"#.to_owned(), "nested_task"),
        (
            r#"{"resultType":"task","task":{"taskId":"9f1c"}}"#.to_owned(),
            "nested_task",
        ),
        (
            r#"{"resultType":"complete","task":{"taskId":"9f1c"}}"#.to_owned(),
            "nested_task",
        ),
        (handle("").replace(r#""taskId":"9f1c","#, ""), "task_id"),
        (handle("").replace("9f1c", ""), "task_id"),
        (handle("").replace("9f1c", &long), "task_id"),
        (handle("").replace(r#""9f1c""#, "9"), "task_id"),
        (handle("").replace("working", "running"), "status"),
        (handle("").replace("working", "Working"), "status"),
        (handle("").replace(r#""createdAt""#, r#""created""#), "time"),
        (handle("").replace("2026-12-01T06:00:00Z", ""), "time"),
        (
            handle("").replace("2026-12-01T06:00:00Z", &"9".repeat(65)),
            "time",
        ),
        (handle("").replace("2026-12-01T06", "2026-12-01 06"), "time"),
        (handle(r#","ttlMs":-1"#), "duration"),
        (handle(r#","ttlMs":"900""#), "duration"),
        (handle(r#","pollIntervalMs":1.5"#), "duration"),
        (handle(r#","result":{}"#), "stray_payload"),
        (handle(r#","error":{}"#), "stray_payload"),
        (handle(r#","inputRequests":{}"#), "stray_payload"),
        (handle(r#","taskId":"b""#), "duplicate_key"),
        (handle(r#","TaskId":"b""#), "lookalike_key"),
        ("[]".to_owned(), "not_object"),
    ];
    for (text, reason) in cases {
        assert_eq!(invalid(&text), reason, "{text}");
    }
}

#[test]
fn an_id_is_found_for_the_cancel_on_suspicion() {
    let cases = [
        (handle(r#","result":{}"#), Some("9f1c")),
        (r#"{"task":{"taskId":"old"}}"#.to_owned(), Some("old")),
        (r#"{"task":{"taskId":""}}"#.to_owned(), None),
        (r#"{"taskId":1}"#.to_owned(), None),
        (r#"{"taskId":"a","taskId":"b"}"#.to_owned(), None),
    ];
    for (text, id) in cases {
        assert_eq!(suspected_id(&raw(&text)).as_deref(), id, "{text}");
    }
}

#[test]
fn only_result_type_claims_a_task() {
    for (text, expected) in [
        (r#"{"resultType":"task","tools":[]}"#, true),
        (r#"{"result\u0054ype":"task"}"#, true),
        (r#"{"resultType":"complete","taskId":"a"}"#, false),
        (r#"{"tools":[{"resultType":"task"}],"task":{}}"#, false),
        (r#""task""#, false),
    ] {
        assert_eq!(claims_one(&raw(text)), expected, "{text}");
    }
}

#[test]
fn polls_bring_what_their_status_has() {
    for status in ["working", "cancelled"] {
        let text = raw(&get(status, r#","statusMessage":"m""#));
        let seen = polled(&text, "9f1c").unwrap();
        assert_eq!(seen.snapshot.status.as_str(), status);
        assert!(matches!(seen.payload, Payload::None));
        assert_eq!(seen.raw.get(), text.get());
    }
    let text = raw(&get("completed", r#","result":{ "isError":true}"#));
    match polled(&text, "9f1c").unwrap().payload {
        Payload::Completed { result } => assert_eq!(result.get(), r#"{ "isError":true}"#),
        other => panic!("{other:?}"),
    }
    let text = raw(&get(
        "failed",
        r#","error":{"code":-32603,"message":"m"},"result":null"#,
    ));
    match polled(&text, "9f1c").unwrap().payload {
        Payload::Failed { error } => assert_eq!(error.get(), r#"{"code":-32603,"message":"m"}"#),
        other => panic!("{other:?}"),
    }
}

/// A `working` task with a `result` in it would hand that over unverified.
#[test]
fn polls_that_break_the_protocol() {
    let question = r#","inputRequests":{"k":{"method":"roots/list"}}"#;
    let result = r#","result":{}"#;
    let error = r#","error":{"code":1,"message":"m"}"#;
    let cases = [
        (get("completed", ""), "missing_payload"),
        (get("completed", r#","result":null"#), "missing_payload"),
        (get("completed", r#","result":1"#), "missing_payload"),
        (get("failed", ""), "missing_payload"),
        (get("failed", r#","error":"m""#), "missing_payload"),
        (get("input_required", ""), "missing_payload"),
        (
            get("input_required", r#","inputRequests":{}"#),
            "missing_payload",
        ),
        (get("working", result), "stray_payload"),
        (get("working", error), "stray_payload"),
        (get("working", question), "stray_payload"),
        (get("cancelled", result), "stray_payload"),
        (
            get("completed", &[result, question].concat()),
            "stray_payload",
        ),
        (get("failed", &[error, result].concat()), "stray_payload"),
        (
            get("input_required", &[question, result].concat()),
            "stray_payload",
        ),
        (get("done", ""), "status"),
        (get("working", "").replace("9f1c", "9f1d"), "other_task"),
        (
            get("working", "").replace("complete\"", "task\""),
            "result_type",
        ),
        (
            get("working", "").replace(r#""resultType":"complete","#, ""),
            "result_type",
        ),
        (get("working", r#","Result":{}"#), "lookalike_key"),
        (
            get("completed", &[result, result].concat()),
            "duplicate_key",
        ),
    ];
    for (text, reason) in cases {
        assert_eq!(refused(&text), reason, "{text}");
    }
}

fn questions_of(requests: &str) -> Result<Vec<(String, Needs, Sha256Hex)>, Error> {
    let text = raw(&get(
        "input_required",
        &format!(r#","inputRequests":{requests}"#),
    ));
    match polled(&text, "9f1c")?.payload {
        Payload::InputRequired { requests } => Ok(requests
            .iter()
            .map(|question| (question.key.to_string(), question.needs, question.hash))
            .collect()),
        other => panic!("{other:?}"),
    }
}

/// The requests are written in their canonical form.
#[test]
fn questions_keep_their_order_and_say_what_they_need() {
    let cases = [
        (
            r#"{"method":"elicitation/create","params":{"message":"?"}}"#,
            Needs::ElicitationForm,
        ),
        (
            r#"{"method":"elicitation/create","params":{"mode":"form"}}"#,
            Needs::ElicitationForm,
        ),
        (
            r#"{"method":"elicitation/create","params":{"mode":"url"}}"#,
            Needs::ElicitationUrl,
        ),
        (
            r#"{"method":"sampling/createMessage","params":{}}"#,
            Needs::Sampling,
        ),
        (r#"{"method":"roots/list"}"#, Needs::Roots),
        (r#"{"method":"vendor/ask"}"#, Needs::Unknown),
    ];
    for (request, needs) in cases {
        let seen = questions_of(&format!(
            r#"{{"b":{request},"a":{{"method":"roots/list"}}}}"#
        ))
        .unwrap();
        assert_eq!(
            seen[0],
            ("b".to_owned(), needs, Sha256Hex::of(request.as_bytes()))
        );
        assert_eq!((seen.len(), &*seen[1].0), (2, "a"));
    }
}

#[test]
fn the_same_question_has_the_same_hash() {
    let hash = |request: &str| questions_of(&format!(r#"{{"k":{request}}}"#)).unwrap()[0].2;
    let one = hash(r#"{"method":"elicitation/create","params":{"message":"Deploy?"}}"#);
    assert_eq!(
        one,
        hash(r#"{ "params":{"message":"\u0044eploy?"},"method":"elicitation/create"}"#)
    );
    assert_ne!(
        one,
        hash(r#"{"method":"elicitation/create","params":{"message":"Delete?"}}"#)
    );
    assert_ne!(
        one,
        hash(r#"{"method":"elicitation/create","params":{"message":"Deploy?"},"x":1}"#)
    );
}

#[test]
fn questions_that_are_refused() {
    let many: Vec<String> = (0..=MAX_OUTSTANDING)
        .map(|n| format!(r#""{n}":{{"method":"roots/list"}}"#))
        .collect();
    let cases = [
        "[]".to_owned(),
        format!("{{{}}}", many.join(",")),
        format!(
            r#"{{{}:{{"method":"roots/list"}}}}"#,
            quote(&"k".repeat(MAX_KEY_BYTES + 1))
        ),
        r#"{"":{"method":"roots/list"}}"#.to_owned(),
        r#"{"k":{}}"#.to_owned(),
        r#"{"k":1}"#.to_owned(),
        r#"{"k":{"method":1}}"#.to_owned(),
        r#"{"k":{"method":"elicitation/create"}}"#.to_owned(),
        r#"{"k":{"method":"elicitation/create","params":{"mode":"x"}}}"#.to_owned(),
        r#"{"k":{"method":"elicitation/create","params":{"mode":"form","Mode":"url"}}}"#.to_owned(),
        r#"{"k":{"method":"roots/list","method":"x"}}"#.to_owned(),
        r#"{"k":{"method":"roots/list","params":{"a":[{"b":1,"b":2}]}}}"#.to_owned(),
        r#"{"k":{"method":"roots/list"},"\u006b":{"method":"roots/list"}}"#.to_owned(),
    ];
    for requests in cases {
        assert_eq!(
            questions_of(&requests),
            Err(Error::InputRequests),
            "{requests}"
        );
    }
    assert_eq!(many.len(), MAX_OUTSTANDING + 1);
    assert!(questions_of(&format!("{{{}}}", many[1..].join(","))).is_ok());
}

#[test]
fn acks_are_complete_results() {
    assert_eq!(
        acknowledged(&raw(r#"{"resultType":"complete","_meta":{}}"#)),
        Ok(())
    );
    for text in ["{}", r#"{"resultType":"task"}"#, r#"{"resultType":null}"#] {
        assert_eq!(acknowledged(&raw(text)), Err(Error::ResultType), "{text}");
    }
}

#[test]
fn statuses_are_a_closed_set() {
    for status in Status::ALL {
        assert_eq!(Status::parse(status.as_str()), Some(status));
    }
    let terminal = Status::ALL
        .into_iter()
        .filter(|status| status.is_terminal());
    assert_eq!(terminal.count(), 3);
}

#[test]
fn debug_shows_no_payload() {
    let more = r#","inputRequests":{"canary-key":{"method":"roots/list","params":{"m":"canary"}}}"#;
    let text = raw(&get("input_required", more));
    let seen = polled(&text, "9f1c").unwrap();
    let shown = format!("{seen:?} {:?}", seen.payload);
    assert!(!shown.contains("canary"), "{shown}");
    if let Payload::InputRequired { requests } = &seen.payload {
        let shown = format!("{requests:?}");
        assert!(!shown.contains("canary"), "{shown}");
    }
}

proptest! {
    #[test]
    fn no_result_makes_it_panic(more in r#"(,"[a-zA-Z]{0,13}":[\{\}\[\]",:0-9a-z]{0,12}){0,4}"#) {
        for text in [handle(&more), get("input_required", &more)] {
            if let Ok(raw) = RawValue::from_string(text) {
                let _ = classify(&raw);
                let _ = polled(&raw, "9f1c");
                let _ = acknowledged(&raw);
                let _ = suspected_id(&raw);
            }
        }
    }
}
