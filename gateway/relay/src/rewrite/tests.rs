//! Bodies for the upstream.

use proptest::prelude::*;

use super::*;
use crate::envelope::{Message, parse};

fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).unwrap()
}

fn rewritten(body: &str, name: &str, tasks: TasksExtension) -> String {
    let Message::Request(request) = parse(body.as_bytes()).unwrap() else {
        panic!("the body has an id");
    };
    let params = Params::parse(Method::ToolsCall, &request).unwrap();
    call(&request, &params, name, tasks).into_owned()
}

/// A `tools/call` with odd spelling everywhere, in pieces around what may be replaced.
fn mk(name: &str, extensions: &str) -> String {
    [
        " {\"id\" : \"\\u0031\",\n\"params\":{ \"arguments\":{\"big\":12345678901234567890.10, \"name\":\"inner\"},\"name\" :",
        name,
        " , \"task\":{\"ttl\":1e3},\"_meta\":{\"io.modelcontextprotocol/clientCapabilities\":{\"extensions\":",
        extensions,
        ",\"x\": {}},\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\",\"progressToken\":1.0}},\"method\":\"tools\\/call\",\"jsonrpc\":\"2.0\"}\r\n",
    ]
    .concat()
}

const TASKS: &str = r#"{"a":{ "b":1.0} ,"io.modelcontextprotocol/tasks": {} }"#;

#[test]
fn a_body_in_which_nothing_changes_is_not_copied() {
    let body = mk("\"cr\\u0061wl\"", TASKS);
    let Message::Request(request) = parse(body.as_bytes()).unwrap() else {
        panic!("the body has an id");
    };
    let params = Params::parse(Method::ToolsCall, &request).unwrap();
    let same = call(&request, &params, "crawl", TasksExtension::Forward);
    assert!(matches!(same, Cow::Borrowed(text) if text == body));
}

#[test]
fn only_the_named_members_change() {
    let body = mk("\"reports__crawl\"", TASKS);
    assert_eq!(
        rewritten(&body, "crawl", TasksExtension::Forward),
        mk("\"crawl\"", TASKS)
    );
    assert_eq!(
        rewritten(&body, "crawl", TasksExtension::Withhold),
        mk("\"crawl\"", r#"{"a":{ "b":1.0}}"#)
    );
    let only = mk("\"crawl\"", r#"{"io.modelcontextprotocol/tasks":{}}"#);
    assert_eq!(
        rewritten(&only, "crawl", TasksExtension::Withhold),
        mk("\"crawl\"", "{}")
    );
}

/// `null` declares nothing to us, and an upstream that only looks for the key would make a task
/// that nobody may have.
#[test]
fn a_way_to_declare_nothing_is_not_forwarded() {
    let body = mk(
        "\"crawl\"",
        r#"{"io.modelcontextprotocol/tasks":null,"a":1}"#,
    );
    assert_eq!(
        rewritten(&body, "crawl", TasksExtension::Forward),
        mk("\"crawl\"", r#"{"a":1}"#)
    );
}

#[test]
fn requests_of_our_own_are_whole() {
    let id = numeric_id(7);
    let own = Own {
        id: &id,
        meta: MetaOf::Gateway,
    };
    let answers = [("k\"1", raw(r#"{"action": "accept"}"#)), ("k2", raw("1.0"))];
    let update = own.tasks_update("9f1c", answers.iter().map(|(key, raw)| (*key, &**raw)));
    assert!(update.contains(
        r#""params":{"taskId":"9f1c","inputResponses":{"k\"1":{"action": "accept"},"k2":1.0},"_meta":{"#
    ));
    let cases = [
        (own.tasks_get("9f1c"), Method::TasksGet),
        (own.tasks_cancel("9f1c"), Method::TasksCancel),
        (update, Method::TasksUpdate),
        (own.tools_list(None), Method::ToolsList),
        (own.tools_list(Some("")), Method::ToolsList),
        (own.discover(), Method::Discover),
    ];
    for (body, method) in cases {
        let Message::Request(request) = parse(body.as_bytes()).unwrap() else {
            panic!("{body} has an id");
        };
        assert_eq!(request.method, method.as_str());
        assert_eq!(request.id.get(), "7");
        let params = Params::parse(method, &request).unwrap();
        assert!(params.meta.speaks_ours());
        assert!(params.meta.capabilities.tasks.is_yes());
        assert!(!params.meta.capabilities.elicitation_form.is_yes());
        assert_eq!(params.task_id.is_some(), method.is_task());
        assert!(params.meta.raw.get().contains(r#""name":"hangar-gateway""#));
    }
    let first = own.tools_list(None);
    assert!(!first.contains("cursor"), "{first}");
    assert!(own.tools_list(Some("")).contains(r#""cursor":"""#));
}

#[test]
fn a_client_s_meta_goes_along_as_it_came() {
    let id = raw("\"a\"");
    let meta = raw(r#"{ "x":1.0 }"#);
    let own = Own {
        id: &id,
        meta: MetaOf::Client(&meta),
    };
    assert_eq!(
        own.tasks_get("t\"1"),
        r#"{"jsonrpc":"2.0","id":"a","method":"tasks/get","params":{"taskId":"t\"1","_meta":{ "x":1.0 }}}"#
    );
    assert_eq!(format!("{:?}", own.meta), "Client(..)");
}

proptest! {
    #[test]
    fn all_other_bytes_are_kept(
        old in "[ -~é]{1,40}",
        new in "[ -~é]{1,40}",
        space in "[ \t\r\n]{0,4}",
        number in "-?[1-9][0-9]{0,30}(\\.[0-9]{1,20})?(e[+-]?[0-9]{1,2})?",
        other in any::<String>(),
    ) {
        let other = json::quote(&other);
        let mk = |name: &str| {
            let name = json::quote(name);
            format!(
                r#"{space}{{"jsonrpc":"2.0","id":{other},"method":"tools/call","params":{{"x":{space}{number},"name":{name}{space},"arguments":{{"a":{space}[{other},{number}]}},"_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{{}}}}}}}}{space}"#
            )
        };
        prop_assume!(other.len() < 1000);
        prop_assert_eq!(rewritten(&mk(&old), &new, TasksExtension::Withhold), mk(&new));
    }
}
