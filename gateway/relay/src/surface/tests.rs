//! Results of relayed methods.

use super::*;

fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).unwrap()
}

fn governed(method: Method, text: &str, prefix: &str) -> Result<String, Error> {
    let result = raw(text);
    govern(method, &result, prefix).map(Cow::into_owned)
}

#[test]
fn a_list_keeps_its_bytes_but_for_cache_hints_and_prompt_names() {
    let text = r#"{ "prompts":[{"x": 1.0 ,"name":"a\u0062"},{"name":"c","title":"c"}] , "cacheScope" : "public","ttlMs":60000,"nextCursor":"\u0041","resultType":"complete" }"#;
    assert_eq!(
        governed(Method::PromptsList, text, "reports").unwrap(),
        r#"{ "prompts":[{"x": 1.0 ,"name":"reports__ab"},{"name":"reports__c","title":"c"}] , "cacheScope" : "private","ttlMs":0,"nextCursor":"\u0041","resultType":"complete" }"#
    );
    assert_eq!(
        governed(Method::PromptsList, text, "").unwrap(),
        text.replace("60000", "0").replace("public", "private")
    );
}

#[test]
fn cache_hints_that_are_missing_are_added() {
    for (method, items) in [
        (Method::ResourcesList, "resources"),
        (Method::TemplatesList, "resourceTemplates"),
        (Method::PromptsList, "prompts"),
    ] {
        let text = format!(r#"{{"resultType":"complete","{items}":[] }}"#);
        assert_eq!(
            governed(method, &text, "").unwrap(),
            format!(
                r#"{{"resultType":"complete","{items}":[] ,"ttlMs":0,"cacheScope":"private"}}"#
            )
        );
    }
}

#[test]
fn uris_are_never_rewritten() {
    let text = r#"{"resultType":"complete","resources":[{"uri":"a://b","name":"n"}],"ttlMs":0,"cacheScope":"private"}"#;
    let result = raw(text);
    let same = govern(Method::ResourcesList, &result, "reports").unwrap();
    assert!(matches!(same, Cow::Borrowed(_)), "not copied either");
    assert_eq!(same, text);
}

/// The content of a resource is the upstream's to time, but no shared cache may have it.
#[test]
fn a_resource_is_private_and_keeps_its_time() {
    let text = r#"{"resultType":"complete","contents":[],"ttlMs":5,"cacheScope":"public"}"#;
    assert_eq!(
        governed(Method::ResourcesRead, text, "reports").unwrap(),
        text.replace("public", "private")
    );
}

#[test]
fn rounds_of_questions_pass_where_they_may_be() {
    let text = r#"{ "resultType":"input_required","requestState":"\u0041","inputRequests":{} }"#;
    for method in Method::ALL {
        if method == Method::ToolsList || method == Method::Discover {
            continue;
        }
        let expected = if method.may_ask() {
            Ok(text.to_owned())
        } else {
            Err(Error::ResultType)
        };
        assert_eq!(governed(method, text, "p"), expected, "{method}");
    }
    assert!(Method::PromptsGet.may_ask() && !Method::Complete.may_ask());
}

#[test]
fn what_is_no_result_of_the_method_is_refused() {
    let cases = [
        (Method::PromptsGet, r#"{"messages":[]}"#, Error::ResultType),
        (
            Method::PromptsGet,
            r#"{"resultType":"task","taskId":"9f1c"}"#,
            Error::ResultType,
        ),
        (
            Method::PromptsList,
            r#"{"resultType":"complete"}"#,
            Error::NoItems("prompts"),
        ),
        (
            Method::ResourcesList,
            r#"{"resultType":"complete","resources":{}}"#,
            Error::NoItems("resources"),
        ),
        (
            Method::PromptsList,
            r#"{"resultType":"complete","prompts":[{"title":"x"}]}"#,
            Error::Name,
        ),
        (
            Method::PromptsList,
            r#"{"resultType":"complete","prompts":[{"name":"x","Name":"y"}]}"#,
            Error::Json(json::Error::Lookalike),
        ),
        (
            Method::ResourcesRead,
            r#"{"resultType":"complete","cacheScope":"private","CacheScope":"public"}"#,
            Error::Json(json::Error::Lookalike),
        ),
    ];
    for (method, text, error) in cases {
        assert_eq!(governed(method, text, "p"), Err(error), "{text}");
    }
}

#[test]
fn a_page_says_where_the_next_one_is() {
    let page = |cursor: &str| format!(r#"{{"resultType":"complete","prompts":[]{cursor}}}"#);
    let long = format!(r#","nextCursor":"{}""#, "c".repeat(MAX_CURSOR_BYTES + 1));
    let table = [
        ("", Ok(None)),
        (r#","nextCursor":null"#, Ok(None)),
        (r#","nextCursor":"""#, Ok(Some(""))),
        (r#","nextCursor":"\u0041""#, Ok(Some("A"))),
        (r#","nextCursor":7"#, Err(Error::Cursor)),
        (long.as_str(), Err(Error::Cursor)),
    ];
    for (cursor, expected) in table {
        let result = raw(&page(cursor));
        let page = Page::read(Method::PromptsList, &result).unwrap();
        let next = page.next_cursor();
        let next = next.as_ref().map(Option::as_deref).map_err(|error| *error);
        assert_eq!(next, expected, "{cursor}");
    }
}
