//! Lists of tools and digests.

use std::sync::Arc;

use super::*;

fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).unwrap()
}

fn of(tool: &str) -> Sha256Hex {
    digest(&raw(tool)).unwrap()
}

fn names(tools: &Tools) -> Vec<&str> {
    tools.iter().map(|tool| tool.name.as_str()).collect()
}

const TOOL: &str = r#"{"name":"crawl","title":"Crawl","description":"d","inputSchema":{"type":"object","properties":{"n":{"const":1}}},"outputSchema":{},"annotations":{"readOnlyHint":true},"icons":[{"src":"i"}]}"#;

#[test]
fn spelling_and_execution_do_not_count() {
    let other = r#" { "icons":[{"src":"i"}],"annotations":{"readOnlyHint":true}, "execution":{"taskSupport":"optional"},
        "outputSchema":{},"inputSchema":{"properties":{"n":{"const":1.0}},"type":"object"},"description":"\u0064","title":"Crawl","name":"cr\u0061wl"}"#;
    assert_eq!(of(TOOL), of(other.trim()));
}

/// Each member of the contract, one the protocol does not have, and an `execution` deeper down.
#[test]
fn every_other_member_counts() {
    let changes = [
        (r#""name":"crawl""#, r#""name":"crawl2""#),
        (r#""title":"Crawl""#, r#""title":"crawl""#),
        (r#""description":"d""#, r#""description":"D""#),
        (r#""const":1"#, r#""const":2"#),
        (r#""n":{"#, r#""n":{"x-mcp-header":"N","#),
        (r#""outputSchema":{}"#, r#""outputSchema":{"type":"array"}"#),
        (r#""readOnlyHint":true"#, r#""readOnlyHint":false"#),
        (r#""src":"i""#, r#""src":"j""#),
        (r#"{"name""#, r#"{"vendor":null,"name""#),
        (r#"{"name""#, r#"{"_meta":{},"name""#),
        (r#""type":"object""#, r#""type":"object","execution":{}"#),
    ];
    for (old, new) in changes {
        let other = TOOL.replacen(old, new, 1);
        assert_ne!(other, TOOL, "{old}");
        assert_ne!(of(&other), of(TOOL), "{new}");
    }
}

/// Pinned value: a change of the rule would make every stored pin a drift.
#[test]
fn the_digest_is_that_of_the_rfc_form() {
    let canonical = r#"{"description":"d","inputSchema":{"type":"object"},"name":"t"}"#;
    assert_eq!(
        of(r#"{"name":"t","inputSchema":{"type":"object"},"execution":{},"description":"d"}"#),
        Sha256Hex::of(canonical.as_bytes())
    );
}

#[test]
fn contracts_that_two_readers_could_take_differently() {
    let cases = [
        (
            r#"{"name":"t","inputSchema":{"a":1,"a":2}}"#,
            "duplicate_key",
        ),
        (
            r#"{"name":"t","x":{"$serde_json::private::RawValue":"[1]"}}"#,
            "private_key",
        ),
        (
            r#"{"name":"t","inputSchema":{"const":9007199254740993}}"#,
            "big_integer",
        ),
        (r#"{"name":"t","execution":{"a":1,"a":1}}"#, "duplicate_key"),
        ("[]", "not_object"),
    ];
    for (tool, reason) in cases {
        assert_eq!(digest(&raw(tool)).unwrap_err().reason(), reason, "{tool}");
    }
}

#[test]
fn pages_make_one_list() {
    let mut listing = Listing::default();
    let first = raw(r#"{"resultType":"complete","tools":[{"name":"b","x": 1.0}],"nextCursor":""}"#);
    assert_eq!(listing.push(&first), Ok(Some(String::new())));
    let second = raw(r#"{"tools":[{"name":"a"}],"nextCursor":null,"ttlMs":9}"#);
    assert_eq!(listing.push(&second), Ok(None));
    let tools = listing.finish();
    assert_eq!(names(&tools), ["a", "b"]);
    let b = tools.get("b").unwrap();
    assert_eq!(b.raw.get(), r#"{"name":"b","x": 1.0}"#);
    assert_eq!(b.digest, of(r#"{"name":"b","x":1}"#));
}

#[test]
fn lists_that_are_refused() {
    let long = "n".repeat(MAX_NAME_BYTES + 1);
    let many: Vec<String> = (0..=MAX_TOOLS)
        .map(|n| format!(r#"{{"name":"{n}"}}"#))
        .collect();
    let cases = [
        ("{}".to_owned(), "no_tools"),
        (r#"{"tools":{}}"#.to_owned(), "no_tools"),
        (r#"{"tools":[],"tools":[]}"#.to_owned(), "duplicate_key"),
        (r#"{"tools":[],"Tools":[]}"#.to_owned(), "lookalike_key"),
        (r#"{"tools":[1]}"#.to_owned(), "not_object"),
        (r#"{"tools":[{}]}"#.to_owned(), "tool_name"),
        (r#"{"tools":[{"name":""}]}"#.to_owned(), "tool_name"),
        (r#"{"tools":[{"name":1}]}"#.to_owned(), "tool_name"),
        (format!(r#"{{"tools":[{{"name":"{long}"}}]}}"#), "tool_name"),
        (
            r#"{"tools":[{"name":"a","name":"b"}]}"#.to_owned(),
            "duplicate_key",
        ),
        (
            r#"{"tools":[{"name":"a","NAME":"b"}]}"#.to_owned(),
            "lookalike_key",
        ),
        (
            r#"{"tools":[{"name":"a"},{"name":"\u0061"}]}"#.to_owned(),
            "duplicate_tool",
        ),
        (
            r#"{"tools":[{"name":"a","x":{"y":1,"y":1}}]}"#.to_owned(),
            "duplicate_key",
        ),
        (r#"{"tools":[],"nextCursor":1}"#.to_owned(), "cursor"),
        (
            format!(r#"{{"tools":[{}]}}"#, many.join(",")),
            "too_many_tools",
        ),
    ];
    for (page, reason) in cases {
        let error = Listing::default().push(&raw(&page)).unwrap_err();
        assert_eq!(error.reason(), reason, "{}", &page[..page.len().min(60)]);
    }
}

#[test]
fn pages_that_contradict_each_other() {
    let mut listing = Listing::default();
    listing
        .push(&raw(r#"{"tools":[{"name":"a"}],"nextCursor":"2"}"#))
        .unwrap();
    let again = listing.push(&raw(r#"{"tools":[{"name":"a"}]}"#));
    assert_eq!(again, Err(Error::DuplicateName));

    let mut listing = Listing::default();
    let page = raw(r#"{"tools":[],"nextCursor":"2"}"#);
    listing.push(&page).unwrap();
    assert_eq!(listing.push(&page), Err(Error::Cursor));
}

/// An upstream that gives a new cursor for ever with nothing on its pages.
#[test]
fn empty_pages_end() {
    let mut listing = Listing::default();
    let pages =
        (0..).map(|page| listing.push(&raw(&format!(r#"{{"tools":[],"nextCursor":"{page}"}}"#))));
    let pages: Vec<_> = pages
        .take_while(Result::is_ok)
        .take(MAX_TOOLS + 9)
        .collect();
    assert_eq!(pages.len(), MAX_TOOLS);
}

fn list_after(earlier: Option<&Arc<Tools>>, pages: &[&str]) -> Arc<Tools> {
    let mut listing = Listing::after(earlier.cloned());
    for page in pages {
        listing.push(&raw(page)).unwrap();
    }
    listing.finish()
}

#[test]
fn a_list_that_is_as_it_was_is_the_same_list() {
    let page = r#"{"tools":[{"name":"a"},{"name":"b"}]}"#;
    let first = list_after(None, &[page]);
    assert!(Arc::ptr_eq(&list_after(Some(&first), &[page]), &first));
    // Anything else is read: also what only follows the tools.
    for other in [
        r#"{"tools":[{"name":"a"},{"name":"b"}] }"#,
        r#"{"tools":[{"name":"a"},{"name":"b"}],"ttlMs":1}"#,
        r#"{"tools":[{"name":"a"}]}"#,
    ] {
        let list = list_after(Some(&first), &[other]);
        assert_eq!(list.iter().count(), other.matches("name").count());
        assert!(!Arc::ptr_eq(&list, &first), "{other}");
    }
}

/// The first page of a longer list is not the whole of one that ended there before, nor the reverse.
#[test]
fn a_page_stands_for_a_list_only_where_it_is_all_of_it() {
    let (head, tail) = (
        r#"{"tools":[{"name":"a"}],"nextCursor":"2"}"#,
        r#"{"tools":[{"name":"b"}]}"#,
    );
    let both = list_after(None, &[head, tail]);
    let again = list_after(Some(&both), &[head, r#"{"tools":[{"name":"c"}]}"#]);
    assert_eq!(names(&again), ["a", "c"]);
    let tail_alone = list_after(Some(&both), &[tail]);
    assert_eq!(names(&tail_alone), ["b"]);
}

#[test]
fn a_tool_is_known_by_its_bytes_alone() {
    let first = list_after(None, &[r#"{"tools":[{"name":"a"},{"name":"b"}]}"#]);
    let next = list_after(
        Some(&first),
        &[r#"{"tools":[{"name":"b","x":1},{"name":"a"}]}"#],
    );
    let digest = |list: &Arc<Tools>, name| list.get(name).unwrap().digest;
    assert_eq!(digest(&next, "a"), digest(&first, "a"));
    assert_ne!(digest(&next, "b"), digest(&first, "b"));
    let fresh = list_after(None, &[r#"{"tools":[{"name":"b","x":1}]}"#]);
    assert_eq!(digest(&next, "b"), digest(&fresh, "b"));
}

#[test]
fn debug_shows_no_contract() {
    let mut listing = Listing::default();
    listing
        .push(&raw(r#"{"tools":[{"name":"a","description":"canary"}]}"#))
        .unwrap();
    let shown = format!("{listing:?}");
    assert!(
        shown.contains("sha256:") && !shown.contains("canary"),
        "{shown}"
    );
}

/// Kind, path and value of each change.
fn changes(from: &str, to: &str) -> Vec<String> {
    let changes = diff(&raw(from), &raw(to)).unwrap();
    let one = |Change { path, what }| match what {
        What::Added(value) => format!("+{path} {value}"),
        What::Removed(value) => format!("-{path} {value}"),
        What::Changed { from, to } => format!("~{path} {from} {to}"),
    };
    changes.into_iter().map(one).collect()
}

#[test]
fn a_difference_is_named_by_its_member() {
    let from = r#"{"name":"a","x":{"b/c":[1,{"d":2}],"e~f":1.0e1},"execution":{"t":1},"g":null}"#;
    let to = r#"{"g":false,"name":"a","x":{"b/c":[1,{"d":3},[]],"e~f":10},"h":{"i":{}}}"#;
    assert_eq!(
        changes(from, to),
        [
            "~/g null false",
            r#"+/h {"i":{}}"#,
            "~/x/b~1c/1/d 2 3",
            "+/x/b~1c/2 []",
        ]
    );
    assert_eq!(changes(from, from), Vec::<String>::new());
    assert_eq!(
        changes(r#"{"a":[1,2]}"#, r#"{"a":{"b":1}}"#),
        [r#"~/a [1,2] {"b":1}"#]
    );
    assert_eq!(changes(r#"{"a":[1,2]}"#, r#"{"a":[1]}"#), ["-/a/1 2"]);
    assert!(diff(&raw("[]"), &raw("{}")).is_err());
}

#[test]
fn no_difference_is_one_digest() {
    for (from, to) in [
        (
            r#"{"name":"a","n":1}"#,
            r#"{"n":1.0,"name":"\u0061","execution":{}}"#,
        ),
        (r#"{"name":"a","n":1}"#, r#"{"name":"a","n":2}"#),
        (r#"{"name":"a"}"#, r#"{"name":"a","n":null}"#),
    ] {
        let is_one = digest(&raw(from)).unwrap() == digest(&raw(to)).unwrap();
        assert_eq!(changes(from, to).is_empty(), is_one, "{from} {to}");
        let canonical = canonical(&raw(from)).unwrap();
        assert_eq!(Sha256Hex::of(&canonical), digest(&raw(from)).unwrap());
    }
}
