//! Announcements, alone and together.

use super::*;

fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).unwrap()
}

fn mk(capabilities: &str, instructions: &str) -> Box<RawValue> {
    raw(&format!(
        r#"{{"resultType":"complete","capabilities":{capabilities}{instructions}}}"#
    ))
}

fn said<'a>(heading: Option<&'a str>, result: &'a RawValue, tasks: TasksExtension) -> Said<'a> {
    Said {
        heading,
        announced: Announced::read(result).unwrap(),
        tasks,
    }
}

fn member(result: &RawValue, name: &str) -> Option<String> {
    let members = Members::of(result).unwrap();
    members.get(name).map(|raw| raw.get().to_owned())
}

const TASKS: &str = r#"{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;

#[test]
fn one_upstream_is_repeated_but_for_what_is_not_served() {
    let theirs = mk(
        r#"{"resources":{"listChanged":true,"subscribe":true,"x": 1.0},"prompts":{"listChanged":true},"logging":{},"experimental":{"y":{}},"completions":{},"tools":{"listChanged":false}}"#,
        r#","instructions":"use \"crawl\"""#,
    );
    let result = discover(&[said(None, &theirs, TasksExtension::Forward)], &[]);
    assert_eq!(
        member(&result, "capabilities").unwrap(),
        r#"{"tools":{"listChanged":false},"prompts":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true,"x":1.0},"completions":{},"logging":{}}"#
    );
    assert_eq!(
        member(&result, "instructions").unwrap(),
        r#""use \"crawl\"""#
    );
    assert_eq!(
        member(&result, "supportedVersions").unwrap(),
        r#"["2026-07-28"]"#
    );
    let none = discover(&[said(None, &mk("{}", ""), TasksExtension::Forward)], &[]);
    assert_eq!(member(&none, "capabilities").unwrap(), "{}");
    assert_eq!(member(&none, "instructions"), None);
}

#[test]
fn tasks_are_announced_where_the_upstream_has_them_and_may_make_one() {
    let with = mk(TASKS, "");
    let without = mk(r#"{"tools":{}}"#, "");
    let table = [
        (&with, TasksExtension::Forward, TASKS),
        (&with, TasksExtension::Withhold, r#"{"tools":{}}"#),
        (&without, TasksExtension::Forward, r#"{"tools":{}}"#),
    ];
    for (theirs, tasks, expected) in table {
        let result = discover(&[said(None, theirs, tasks)], &[]);
        assert_eq!(member(&result, "capabilities").unwrap(), expected);
    }
}

#[test]
fn several_upstreams_are_united_and_the_missing_are_named() {
    let first = mk(r#"{"tools":{"a":1}}"#, r#","instructions":"dig""#);
    let second = mk(r#"{"prompts":{},"tools":{"a":2,"b":3}}"#, "");
    let third = mk(TASKS, r#","instructions":"file""#);
    let all = [
        said(Some("crawl"), &first, TasksExtension::Withhold),
        said(Some("mute"), &second, TasksExtension::Withhold),
        said(Some("reports"), &third, TasksExtension::Forward),
    ];
    let result = discover(&all, &["down", "gone"]);
    assert_eq!(
        member(&result, "capabilities").unwrap(),
        r#"{"tools":{"a":1,"b":3},"prompts":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}"#
    );
    assert_eq!(
        member(&result, "instructions").unwrap(),
        r##""# crawl\n\ndig\n\n# reports\n\nfile""##
    );
    let meta = member(&result, "_meta").unwrap();
    assert!(
        meta.contains(r#""hangar.dev/unavailable":["down","gone"]"#),
        "{meta}"
    );
}

#[test]
fn a_promise_that_one_upstream_keeps_is_one() {
    let first = mk(r#"{"tools":{"listChanged":false}}"#, "");
    let second = mk(r#"{"tools":{"listChanged":true}}"#, "");
    let third = mk(r#"{"tools":{}}"#, "");
    let all = [&third, &first, &second, &third]
        .map(|theirs| said(None, theirs, TasksExtension::Withhold));
    assert_eq!(
        member(&discover(&all, &[]), "capabilities").unwrap(),
        r#"{"tools":{"listChanged":true}}"#
    );
}

#[test]
fn what_two_readers_could_read_twice_is_refused() {
    for capabilities in [
        r#"{"tools":{},"Tools":{}}"#,
        r#"{"tools":{},"tools":{}}"#,
        r#"{"extensions":{"a":1,"a":2}}"#,
        "[]",
    ] {
        let theirs = mk(capabilities, "");
        assert!(Announced::read(&theirs).is_err(), "{capabilities}");
    }
    for text in [
        r#"{"capabilities":{}}"#,
        r#"{"resultType":"input_required","capabilities":{}}"#,
        r#"{"resultType":"task","taskId":"9f1c"}"#,
    ] {
        let result = raw(text);
        assert_eq!(
            Announced::read(&result).unwrap_err(),
            Error::ResultType,
            "{text}"
        );
    }
}
