//! Filters, and each message of a stream.

use super::*;

fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).unwrap()
}

fn filter(notifications: &str) -> Result<Filter, Error> {
    let params = format!(r#"{{"notifications":{notifications}}}"#);
    Filter::parse(&Members::parse(&params).unwrap())
}

fn read_as(message: &str, own: &str) -> String {
    match read(message, &raw(own)) {
        Ok(told) => format!("{told:?}"),
        Err(error) => error.reason().to_owned(),
    }
}

const ALL: &str = r#"{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["x://b","x://a"],"taskIds":["t2","t1"]}"#;

#[test]
fn a_filter_is_read_and_written() {
    let all = filter(ALL).unwrap();
    assert_eq!(all.lists, BTreeSet::from(List::ALL));
    assert_eq!(
        all.encode(),
        r#"{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["x://a","x://b"],"taskIds":["t1","t2"]}"#
    );
    for nothing in [
        "{}",
        r#"{"toolsListChanged":false,"promptsListChanged":null,"resourceSubscriptions":[],"taskIds":null,"x":1}"#,
    ] {
        let filter = filter(nothing).unwrap();
        assert!(filter.is_empty(), "{nothing}");
        assert_eq!(filter.encode(), "{}");
    }
}

#[test]
fn what_is_not_a_filter_is_refused() {
    let texts = |name: &str, count: usize, bytes: usize| {
        let texts: Vec<String> = (0..count)
            .map(|n| format!("{n:0>bytes$}"))
            .map(|text| json::quote(&text))
            .collect();
        format!(r#"{{"{name}":[{}]}}"#, texts.join(","))
    };
    let table = [
        ("[]".to_owned(), "bad_member"),
        (r#"{"toolsListChanged":1}"#.to_owned(), "bad_member"),
        (r#"{"toolslistChanged":true}"#.to_owned(), "lookalike_key"),
        (
            r#"{"taskIds":["a"],"taskIds":["b"]}"#.to_owned(),
            "duplicate_key",
        ),
        (r#"{"taskIds":"a"}"#.to_owned(), "not_array"),
        (r#"{"taskIds":[1]}"#.to_owned(), "bad_member"),
        (r#"{"taskIds":[""]}"#.to_owned(), "out_of_bounds"),
        (texts(TASK_IDS, MAX_TASK_IDS + 1, 4), "too_many_members"),
        (texts(TASK_IDS, 1, MAX_TASK_ID_BYTES + 1), "out_of_bounds"),
        (texts(URIS, MAX_URIS + 1, 4), "too_many_members"),
        (texts(URIS, 1, MAX_URI_BYTES + 1), "out_of_bounds"),
    ];
    for (text, reason) in table {
        assert_eq!(filter(&text).unwrap_err().reason(), reason, "{text}");
    }
    assert!(filter(&texts(TASK_IDS, MAX_TASK_IDS, MAX_TASK_ID_BYTES)).is_ok());
    assert!(filter(&texts(URIS, MAX_URIS, 4)).is_ok());
    assert!(Filter::parse(&Members::default()).is_err());
}

#[test]
fn a_grant_is_never_more_than_what_was_asked_for() {
    let all = filter(ALL).unwrap();
    let asked =
        filter(r#"{"toolsListChanged":true,"resourceSubscriptions":["x://a"],"taskIds":["t1"]}"#)
            .unwrap();
    assert_eq!(all.and(&asked), asked);
    assert_eq!(asked.and(&all), asked);
    assert!(asked.and(&Filter::default()).is_empty());
    assert_eq!(asked.or(&all), all);
}

#[test]
fn a_part_of_a_resource_belongs_to_it() {
    let filter = filter(r#"{"resourceSubscriptions":["x://a","x://dir/"]}"#).unwrap();
    for uri in [
        "x://a",
        "x://a/b",
        "x://a?b",
        "x://a#b",
        "x://dir/",
        "x://dir/b",
    ] {
        assert!(filter.covers(uri), "{uri}");
    }
    for uri in ["x://ab", "x://", "x://dir", "y://a", ""] {
        assert!(!filter.covers(uri), "{uri}");
    }
}

#[test]
fn each_message_of_an_upstream_is_told_apart() {
    let note = |method: &str, params: &str| {
        format!(r#"{{"jsonrpc":"2.0","method":"notifications/{method}","params":{params}}}"#)
    };
    let own = r#"{"_meta":{"io.modelcontextprotocol/subscriptionId":"7"}}"#;
    let foreign = r#"{"_meta":{"io.modelcontextprotocol/subscriptionId":"8"}}"#;
    let lookalike = r#"{"_meta":{"io.modelcontextprotocol/SubscriptionId":"7"}}"#;
    let table = [
        (note("tools/list_changed", own), "Tools"),
        (note("tools/list_changed", "{}"), "Tools"),
        (
            r#"{"jsonrpc":"2.0","method":"notifications/prompts/list_changed"}"#.to_owned(),
            "Prompts",
        ),
        (note("resources/list_changed", own), "Resources"),
        (note("tools/list_changed", foreign), "Other"),
        (note("tools/list_changed", lookalike), "Other"),
        (note("tools/list_changed", r#"{"_meta":1}"#), "Other"),
        (
            note("resources/updated", r#"{"uri":"x://a"}"#),
            "Update(..)",
        ),
        (
            note("resources/updated", r#"{"uri":"x://a","URI":"x://b"}"#),
            "Other",
        ),
        (note("resources/updated", "{}"), "Other"),
        (
            note("tasks", r#"{"taskId":"t1","status":"nonsense"}"#),
            "Task(..)",
        ),
        (note("tasks", r#"{"taskId":1}"#), "Other"),
        (note("progress", own), "Other"),
        (note("message", own), "Other"),
        (
            note(
                "subscriptions/acknowledged",
                r#"{"notifications":{"toolsListChanged":true}}"#,
            ),
            "Filter { lists: {Tools}, uris: 0, tasks: 0 }",
        ),
        (note("subscriptions/acknowledged", "{}"), "Other"),
        (
            r#"{"jsonrpc":"2.0","id":7,"result":{"resultType":"complete"}}"#.to_owned(),
            "Ended",
        ),
        (
            r#"{"jsonrpc":"2.0","id":"7","error":{"code":-32601,"message":"x"}}"#.to_owned(),
            "Refused(-32601)",
        ),
        (
            r#"{"jsonrpc":"2.0","id":8,"result":{}}"#.to_owned(),
            "foreign_id",
        ),
        (
            r#"{"jsonrpc":"2.0","id":7,"method":"roots/list"}"#.to_owned(),
            "mixed",
        ),
        ("nonsense".to_owned(), "syntax"),
    ];
    for (message, expected) in table {
        assert_eq!(read_as(&message, "7"), expected, "{message}");
    }
}

#[test]
fn the_subscription_id_is_the_client_s_own_byte_for_byte() {
    for id in ["7", r#""7""#, r#""\u0041""#, "-0"] {
        let expected = format!(r#""io.modelcontextprotocol/subscriptionId":{id}"#);
        let id = raw(id);
        let granted = filter(r#"{"taskIds":["t1"]}"#).unwrap();
        let update = r#"{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"x://a","x": 1.0,"_meta":{"io.modelcontextprotocol/subscriptionId":"own","y": 2.0}}}"#;
        let own = raw(r#""own""#);
        let Ok(Told::Updated(update)) = read(update, &own) else {
            panic!("it is an update");
        };
        let result = raw(
            r#"{"resultType":"complete","taskId":"t1","status":"working","x": 1.0,"_meta":{"y": 2.0}}"#,
        );
        let messages = [
            acknowledged(&id, &granted, &[]),
            changed(List::Tools, &id),
            updated(&update, &id),
            task(&result, &id).unwrap(),
            ended(&id).get().to_owned(),
        ];
        for message in &messages {
            assert!(message.contains(&expected), "{message}");
            assert!(!message.contains("own"), "{message}");
            Members::parse(message).unwrap();
        }
        assert!(messages[2].contains(r#""uri":"x://a","x":1.0,"_meta":{"y":2.0,"#));
        assert!(
            messages[3].contains(
                r#""params":{"taskId":"t1","status":"working","x":1.0,"_meta":{"y":2.0,"#
            )
        );
        assert!(!messages[3].contains("resultType"));
    }
}

#[test]
fn a_changed_list_carries_nothing_else_and_the_acknowledgement_names_what_is_missing() {
    let id = raw("1");
    assert_eq!(
        changed(List::Resources, &id),
        r#"{"jsonrpc":"2.0","method":"notifications/resources/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":1}}}"#
    );
    let granted = filter(r#"{"toolsListChanged":true}"#).unwrap();
    assert_eq!(
        acknowledged(&id, &granted, &["a", "b"]),
        r#"{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{"toolsListChanged":true},"_meta":{"io.modelcontextprotocol/subscriptionId":1,"hangar.dev/unavailable":["a","b"]}}}"#
    );
}

/// What the ledger says of a task whose upstream is down is no news of it.
#[test]
fn an_answer_of_the_ledger_alone_is_not_told() {
    let old = raw(
        r#"{"resultType":"complete","taskId":"t1","status":"working","_meta":{"hangar.dev/ageMs":5}}"#,
    );
    assert_eq!(task(&old, &raw("1")), None);
}

#[test]
fn a_debug_form_shows_nothing_of_the_client_s() {
    let all = filter(ALL).unwrap();
    assert_eq!(
        format!("{all:?}"),
        "Filter { lists: {Tools, Prompts, Resources}, uris: 2, tasks: 2 }"
    );
}
