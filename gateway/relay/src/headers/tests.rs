//! Routing headers against the body.

use proptest::prelude::*;

use super::*;

/// Name and value.
type Line<'a> = (&'a str, &'a [u8]);

fn mk(pairs: &[Line<'_>]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        headers.append(
            HeaderName::from_bytes(name.as_bytes()).unwrap(),
            HeaderValue::from_bytes(value).unwrap(),
        );
    }
    headers
}

fn agree(pairs: &[Line<'_>], method: Method, name: Option<&str>) -> Result<(), Error> {
    Routing::read(&mk(pairs))?.agree(method, PROTOCOL_VERSION, name, TaskName::MayBeAbsent)
}

const VERSION_LINE: (&str, &[u8]) = ("MCP-Protocol-Version", b"2026-07-28");
const CALL_LINE: (&str, &[u8]) = ("Mcp-Method", b"tools/call");
const GET_LINE: (&str, &[u8]) = ("mcp-method", b"tasks/get");

fn call(name: &[u8]) -> Result<(), Error> {
    agree(
        &[VERSION_LINE, CALL_LINE, ("Mcp-Name", name)],
        Method::ToolsCall,
        Some("café"),
    )
}

#[test]
fn headers_that_agree() {
    let plain = [VERSION_LINE, CALL_LINE, ("MCP-NAME", b"crawl".as_slice())];
    assert_eq!(agree(&plain, Method::ToolsCall, Some("crawl")), Ok(()));
    assert_eq!(call(b"=?base64?Y2Fmw6k=?="), Ok(()));
    let wrapped = [
        VERSION_LINE,
        GET_LINE,
        ("mcp-name", b"=?base64?OWYxYw==?=".as_slice()),
    ];
    assert_eq!(agree(&wrapped, Method::TasksGet, Some("9f1c")), Ok(()));
    let list = [VERSION_LINE, ("mcp-method", b"tools/list".as_slice())];
    assert_eq!(agree(&list, Method::ToolsList, None), Ok(()));
}

/// A client in wide use sends no `Mcp-Name` on `tasks/*`; another value is still refused.
#[test]
fn a_task_name_may_be_absent_but_not_different() {
    let absent = [VERSION_LINE, GET_LINE];
    assert_eq!(agree(&absent, Method::TasksGet, Some("9f1c")), Ok(()));
    let strict = Routing::read(&mk(&absent)).unwrap().agree(
        Method::TasksGet,
        PROTOCOL_VERSION,
        Some("9f1c"),
        TaskName::Required,
    );
    assert_eq!(strict, Err(Error::Missing(NAME)));
    let other = [VERSION_LINE, GET_LINE, ("mcp-name", b"9F1C".as_slice())];
    assert_eq!(
        agree(&other, Method::TasksGet, Some("9f1c")),
        Err(Error::Mismatch(NAME))
    );
}

#[test]
fn headers_that_do_not_agree() {
    let name = ("mcp-name", b"crawl".as_slice());
    let cases: [(&[Line<'_>], Error); 10] = [
        (&[CALL_LINE, name], Error::Missing(VERSION)),
        (&[VERSION_LINE, name], Error::Missing(METHOD)),
        (&[VERSION_LINE, CALL_LINE], Error::Missing(NAME)),
        (
            &[("mcp-protocol-version", b"2025-11-25"), CALL_LINE, name],
            Error::Mismatch(VERSION),
        ),
        (&[VERSION_LINE, GET_LINE, name], Error::Mismatch(METHOD)),
        (
            &[VERSION_LINE, ("mcp-method", b"Tools/Call"), name],
            Error::Mismatch(METHOD),
        ),
        (
            &[VERSION_LINE, VERSION_LINE, CALL_LINE, name],
            Error::Duplicate(VERSION),
        ),
        (
            &[VERSION_LINE, CALL_LINE, CALL_LINE, name],
            Error::Duplicate(METHOD),
        ),
        (
            &[VERSION_LINE, CALL_LINE, name, name],
            Error::Duplicate(NAME),
        ),
        (
            &[VERSION_LINE, CALL_LINE, ("mcp-name", b"crawl, crawl")],
            Error::Mismatch(NAME),
        ),
    ];
    for (pairs, error) in cases {
        assert_eq!(
            agree(pairs, Method::ToolsCall, Some("crawl")),
            Err(error),
            "{pairs:?}"
        );
    }
    let list = [VERSION_LINE, ("mcp-method", b"tools/list".as_slice()), name];
    assert_eq!(
        agree(&list, Method::ToolsList, None),
        Err(Error::Mismatch(NAME))
    );
}

/// Raw non-ASCII values were once accepted because they happened to equal the body, and broken
/// wrappers were taken as plain text.
#[test]
fn only_plain_text_or_one_valid_wrapper() {
    let malformed: [&[u8]; 11] = [
        "café".as_bytes(),
        b"caf\xe9",
        b"a\tb",
        b"=?base64?Y2Fmw6k?=",
        b"=?base64?Y2Fmw6k==?=",
        b"=?base64?Y2F mw6k=?=",
        b"=?base64?/w==?=",
        b"=?BASE64?Y2Fmw6k=?=",
        b"=?Base64?Y2Fmw6k=?=",
        b"=?base64??=",
        b"=?base64?Y2Fmw6l=?=?=",
    ];
    for value in malformed {
        assert_eq!(call(value), Err(Error::Malformed(NAME)), "{value:?}");
    }
    // Wrapped twice: one layer is taken off, and what is left is another name.
    assert_eq!(
        call(b"=?base64?PT9iYXNlNjQ/WTJGbXc2az0/PQ==?="),
        Err(Error::Mismatch(NAME))
    );
}

#[test]
fn upstream_headers_are_complete() {
    let headers = upstream(Method::TasksGet, Some("9f1c"));
    let shown: Vec<_> = headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.to_str().unwrap()))
        .collect();
    assert_eq!(
        shown,
        [
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", "tasks/get"),
            ("mcp-name", "9f1c"),
        ]
    );
    assert_eq!(upstream(Method::ToolsList, None).len(), 2);
}

#[test]
fn encoding_is_used_where_it_must_be() {
    let cases = [
        ("crawl", "crawl"),
        ("a b", "a b"),
        ("café", "=?base64?Y2Fmw6k=?="),
        (" a", "=?base64?IGE=?="),
        ("a\n", "=?base64?YQo=?="),
        ("=?base64?YQ==?=", "=?base64?PT9iYXNlNjQ/WVE9PT89?="),
        ("=?BASE64?x?=", "=?base64?PT9CQVNFNjQ/eD89?="),
    ];
    for (value, header) in cases {
        assert_eq!(encode(value), header, "{value:?}");
        assert_eq!(decode(&encode(value)).as_deref(), Some(value));
    }
}

proptest! {
    #[test]
    fn every_text_survives_the_header(text in any::<String>()) {
        prop_assert_eq!(decode(&encode(&text)), Some(text));
    }

    #[test]
    fn no_header_makes_it_panic(value in proptest::collection::vec(any::<u8>(), 0..60)) {
        if let Ok(value) = HeaderValue::from_bytes(&value) {
            let _ = decode(&value);
        }
    }
}
