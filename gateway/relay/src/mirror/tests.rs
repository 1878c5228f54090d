//! Arguments in headers.

use proptest::prelude::*;

use super::*;

fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).unwrap()
}

fn tool(schema: &str) -> Box<RawValue> {
    raw(&format!(r#"{{"name":"t","inputSchema":{schema}}}"#))
}

fn mk() -> Mirrors {
    Mirrors::of(&tool(
        r#"{"type":"object","properties":{
            "region":{"type":"string","x-mcp-header":"Region"},
            "deep":{"type":"object","properties":{"n":{"type":"integer","x-mcp-header":"Count"}}},
            "flag":{"type":"boolean","x-mcp-header":"Flag"},
            "x-mcp-header":{"type":"number"}}}"#,
    ))
    .unwrap()
}

fn made(arguments: &str) -> Vec<(String, String)> {
    let headers = mk().headers(Some(&raw(arguments))).unwrap();
    headers
        .iter()
        .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
        .collect()
}

fn check(sent: &[(&str, &str)], arguments: &str) -> Result<(), Error> {
    let mut headers = HeaderMap::new();
    for (name, value) in sent {
        headers.append(
            HeaderName::from_bytes(name.as_bytes()).unwrap(),
            HeaderValue::from_str(value).unwrap(),
        );
    }
    mk().check(&headers, Some(&raw(arguments)))
}

#[test]
fn headers_are_made_from_the_arguments() {
    let owned = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(
        made(r#"{"flag":true,"region":"é","deep":{"n":42.0},"other":1}"#),
        [
            owned("mcp-param-count", "42"),
            owned("mcp-param-flag", "true"),
            owned("mcp-param-region", "=?base64?w6k=?="),
        ]
    );
    for nothing in ["{}", r#"{"region":null,"deep":null}"#, r#"{"deep":[1]}"#] {
        assert_eq!(made(nothing), [], "{nothing}");
    }
    assert_eq!(mk().headers(None).unwrap(), []);
}

#[test]
fn a_client_s_headers_are_compared() {
    let arguments = r#"{"region":"eu","deep":{"n":42}}"#;
    let region = ("Mcp-Param-Region", "eu");
    let count = ("Mcp-Param-Count", "42");
    assert_eq!(check(&[region, count], arguments), Ok(()));
    assert_eq!(
        check(&[region, ("mcp-param-count", "42.0")], arguments),
        Ok(())
    );
    assert_eq!(
        check(&[region, count, ("mcp-param-unknown", "x")], arguments),
        Ok(())
    );
    let wrapped = ("mcp-param-region", "=?base64?ZXU=?=");
    assert_eq!(check(&[wrapped, count], arguments), Ok(()));
    let cases: [(&[(&str, &str)], Error); 6] = [
        (&[count], Error::Mismatch),
        (&[("mcp-param-region", "EU"), count], Error::Mismatch),
        (&[region, ("mcp-param-count", "43")], Error::Mismatch),
        (
            &[region, count, ("mcp-param-flag", "true")],
            Error::Mismatch,
        ),
        (&[region, region, count], Error::Duplicate),
        (
            &[("mcp-param-region", "=?base64?ZX?="), count],
            Error::Malformed,
        ),
    ];
    for (sent, error) in cases {
        assert_eq!(check(sent, arguments), Err(error), "{sent:?}");
    }
}

#[test]
fn arguments_that_cannot_be_mirrored() {
    let cases = [
        (r#"{"region":1}"#, Error::Type),
        (r#"{"flag":"true"}"#, Error::Type),
        (r#"{"deep":{"n":1.5}}"#, Error::Type),
        (r#"{"deep":{"n":9007199254740993}}"#, Error::Type),
        (
            r#"{"region":"eu","region":"us"}"#,
            Error::Arguments(json::Error::Duplicate),
        ),
        (
            r#"{"deep":{"n":1,"\u006e":2}}"#,
            Error::Arguments(json::Error::Duplicate),
        ),
    ];
    for (arguments, error) in cases {
        assert_eq!(
            mk().headers(Some(&raw(arguments))),
            Err(error),
            "{arguments}"
        );
    }
}

#[test]
fn annotations_that_are_not_valid() {
    let string = r#"{"type":"string","x-mcp-header":"A"}"#;
    let cases = [
        r#"{"x-mcp-header":"A","type":"string"}"#.to_owned(),
        format!(r#"{{"items":{string}}}"#),
        format!(r#"{{"anyOf":[{string}]}}"#),
        format!(r#"{{"$defs":{{"d":{string}}}}}"#),
        format!(r#"{{"properties":{{"a":{{"items":{{"properties":{{"b":{string}}}}}}}}}}}"#),
        format!(r#"{{"properties":{{"a":{string},"b":{{"type":"string","x-mcp-header":"a"}}}}}}"#),
        r#"{"properties":{"a":{"type":"number","x-mcp-header":"A"}}}"#.to_owned(),
        r#"{"properties":{"a":{"type":["string","null"],"x-mcp-header":"A"}}}"#.to_owned(),
        r#"{"properties":{"a":{"x-mcp-header":"A"}}}"#.to_owned(),
        r#"{"properties":{"a":{"type":"string","x-mcp-header":""}}}"#.to_owned(),
        r#"{"properties":{"a":{"type":"string","x-mcp-header":"a b"}}}"#.to_owned(),
        r#"{"properties":{"a":{"type":"string","x-mcp-header":"a\r\nb"}}}"#.to_owned(),
        r#"{"properties":{"a":{"type":"string","x-mcp-header":"é"}}}"#.to_owned(),
        r#"{"properties":{"a":{"type":"string","x-mcp-header":1}}}"#.to_owned(),
        r#"{"properties":{"a":{"type":"string","\u0078-mcp-header":""}}}"#.to_owned(),
    ];
    for schema in cases {
        assert_eq!(
            Mirrors::of(&tool(&schema)),
            Err(Error::Annotation),
            "{schema}"
        );
    }
}

#[test]
fn what_looks_like_an_annotation_and_is_none() {
    let cases = [
        r#"{"properties":{"a":{"default":{"x-mcp-header":1}}}}"#,
        r#"{"properties":{"a":{"enum":[{"x-mcp-header":1}]}}}"#,
        r#"{"properties":{"x-mcp-header":{"type":"string"}}}"#,
        r#"{"description":"x-mcp-header"}"#,
        "{}",
    ];
    for schema in cases {
        assert!(Mirrors::of(&tool(schema)).unwrap().is_empty(), "{schema}");
    }
}

proptest! {
    #[test]
    fn what_is_made_passes_the_check(region in any::<String>(), n in -9_007_199_254_740_992_i64..=9_007_199_254_740_992) {
        let arguments = raw(&format!(r#"{{"region":{},"deep":{{"n":{n}}}}}"#, json::quote(&region)));
        let headers = mk().headers(Some(&arguments)).unwrap();
        let headers: HeaderMap = headers.into_iter().collect();
        prop_assert_eq!(mk().check(&headers, Some(&arguments)), Ok(()));
    }
}
