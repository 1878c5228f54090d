//! Names, URIs, cursors and lists of several upstreams.

use proptest::prelude::*;

use super::*;
use crate::list::prefixed;

fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).unwrap()
}

fn cursor(pairs: &[(&str, &str)]) -> Cursor {
    let owned = |(grant, next): &(&str, &str)| ((*grant).to_owned(), (*next).to_owned());
    Cursor(pairs.iter().map(owned).collect())
}

#[test]
fn a_name_is_its_prefix_s_and_else_the_empty_one_s() {
    let with_bare = ["", "reports", "crawl"];
    let table = [
        ("reports__dig", Some((1, "dig"))),
        ("crawl__reports__dig", Some((2, "reports__dig"))),
        ("reports_dig", Some((0, "reports_dig"))),
        ("other__dig", Some((0, "other__dig"))),
        ("dig", Some((0, "dig"))),
    ];
    for (shown, expected) in table {
        assert_eq!(route(with_bare, shown), expected, "{shown}");
    }
    assert_eq!(route(["reports", "crawl"], "dig"), None);
    assert_eq!(route(["reports", "crawl"], "Reports__dig"), None);
    assert_eq!(route([], "dig"), None);
}

/// The operator refuses a prefix with the separator in it; one that came all the same makes no
/// name two upstreams'.
#[test]
fn the_longest_prefix_wins() {
    for prefixes in [["a", "a__b"], ["a__b", "a"]] {
        let long = prefixes.iter().position(|it| *it == "a__b").unwrap();
        assert_eq!(route(prefixes, "a__b__c"), Some((long, "c")));
        assert_eq!(route(prefixes, "a__c"), Some((1 - long, "c")));
    }
}

proptest! {
    #[test]
    fn a_shown_name_leads_back(
        prefixes in proptest::collection::btree_set("[a-z]{1,3}(_[a-z]{1,3})?", 1..6),
        at in any::<prop::sample::Index>(),
        name in "[a-z_]{1,12}",
    ) {
        let prefixes: Vec<&str> = prefixes.iter().map(String::as_str).collect();
        let at = at.index(prefixes.len());
        let shown = prefixed(prefixes[at], &name);
        prop_assert_eq!(route(prefixes.iter().copied(), &shown), Some((at, &*name)));
    }

    #[test]
    fn cursors_come_back_as_they_went(
        next in proptest::collection::btree_map("[a-z]{1,9}", "\\PC{0,40}", 1..5),
    ) {
        let cursor = Cursor(next);
        let text = cursor.encode();
        prop_assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)));
        prop_assert_eq!(Cursor::parse(&text), Some(cursor));
    }

    #[test]
    fn no_text_is_read_as_a_cursor_by_chance(text in "\\PC{0,60}") {
        if let Some(cursor) = Cursor::parse(&text) {
            prop_assert_eq!(cursor.encode(), text);
        }
    }
}

#[test]
fn a_bad_cursor_is_none() {
    let long = "c".repeat(MAX_CURSOR_BYTES + 1);
    let texts = [
        "{}".to_owned(),
        "[]".to_owned(),
        r#"{"a":1}"#.to_owned(),
        r#"{"a":"x","a":"y"}"#.to_owned(),
        r#"{"a":"x""#.to_owned(),
        format!(r#"{{"a":"{long}"}}"#),
    ];
    for text in texts {
        assert_eq!(
            Cursor::parse(&URL_SAFE_NO_PAD.encode(&text)),
            None,
            "{text}"
        );
    }
    let good = cursor(&[("a", "x")]).encode();
    assert!(Cursor::parse(&good).is_some());
    assert_eq!(Cursor::parse(&format!("{good}=")), None);
    assert_eq!(Cursor::parse(""), None);
    assert_eq!(Cursor::parse(r#"{"a":"x"}"#), None);
    let huge = URL_SAFE_NO_PAD.encode(vec![b' '; MAX_MERGED_CURSOR_BYTES]);
    assert_eq!(Cursor::parse(&huge), None);
}

fn prompts(names: &str, more: &str) -> Box<RawValue> {
    raw(&format!(
        r#"{{"resultType":"complete","prompts":[{names}]{more}}}"#
    ))
}

#[test]
fn pages_are_joined_in_their_order() {
    let first = prompts(
        r#"{ "name":"b","x":1.0},{"name":"a"}"#,
        r#","nextCursor":"n1""#,
    );
    let second = prompts(r#"{"name":"c"},{"name":"crawl__x"}"#, "");
    let third = prompts("", r#","nextCursor":"""#);
    let prefixes = ["crawl", "", "mail"];
    let mut merging = Merging::new(Method::PromptsList);
    for (index, result) in [&first, &second, &third].into_iter().enumerate() {
        let page = Page::read(Method::PromptsList, result).unwrap();
        let is_own = |shown: &str| route(prefixes, shown).is_some_and(|(at, _)| at == index);
        let grant = ["one", "two", "three"][index];
        merging.push(grant, prefixes[index], &page, is_own).unwrap();
    }
    let result = merging.finish(&["gone"]);
    let members = Members::of(&result).unwrap();
    // The bare name that looks like another upstream's cannot be called, so it is not shown.
    assert_eq!(
        members.get("prompts").unwrap().get(),
        r#"[{ "name":"crawl__b","x":1.0},{"name":"crawl__a"},{"name":"c"}]"#
    );
    let next = Cursor::parse(&members.string("nextCursor").unwrap()).unwrap();
    assert_eq!(next, cursor(&[("one", "n1"), ("three", "")]));
    assert_eq!(next.grants().collect::<Vec<_>>(), ["one", "three"]);
    assert_eq!(members.string("cacheScope").unwrap(), "private");
    assert!(
        members
            .get("_meta")
            .unwrap()
            .get()
            .contains(r#""hangar.dev/unavailable":["gone"]"#)
    );
}

#[test]
fn a_cursor_that_would_grow_beyond_its_bound_is_refused() {
    let long = "c".repeat(MAX_CURSOR_BYTES);
    let page = prompts("", &format!(r#","nextCursor":"{long}""#));
    let mut merging = Merging::new(Method::PromptsList);
    let page = Page::read(Method::PromptsList, &page).unwrap();
    let room = (0..64)
        .take_while(|index| {
            let grant = format!("grant-{index}");
            merging.push(&grant, "", &page, |_| true).is_ok()
        })
        .count();
    assert!((8..16).contains(&room), "{room}");
    let result = merging.finish(&[]);
    let text = Members::of(&result)
        .unwrap()
        .string("nextCursor")
        .unwrap()
        .into_owned();
    assert_eq!(Cursor::parse(&text).unwrap().0.len(), room);
}

#[test]
fn a_uri_fits_what_lists_it_best() {
    let fit_of = |method: Method, items: &str, uri: &str| {
        let key = method.items().unwrap();
        let result = raw(&format!(r#"{{"resultType":"complete","{key}":[{items}]}}"#));
        fit(&Page::read(method, &result).unwrap(), uri)
    };
    let listed = |items, uri| fit_of(Method::ResourcesList, items, uri);
    let by_template = |items, uri| fit_of(Method::TemplatesList, items, uri);
    assert_eq!(listed(r#"{"uri":"a:\/\/b"}"#, "a://b"), Some(Fit::Listed));
    assert_eq!(listed(r#"{"uri":"a://b"}"#, "a://bc"), None);
    let templates = r#"{"uriTemplate":"a://{x}"},{"uriTemplate":"a://b/{x}"},{"uriTemplate":"z"}"#;
    assert_eq!(
        by_template(templates, "a://b/c"),
        Some(Fit::Template("a://b/".len()))
    );
    assert_eq!(by_template(templates, "a://c"), Some(Fit::Template(4)));
    assert_eq!(by_template(templates, "b://c"), None);
    assert_eq!(by_template(templates, "zz"), None);
    // A completion names the template itself.
    assert_eq!(by_template(templates, "a://{x}"), Some(Fit::Listed));
}

#[test]
fn the_best_fit_alone_is_chosen() {
    let table: [(&[Option<Fit>], Chosen); 6] = [
        (&[], Chosen::None),
        (&[None, None], Chosen::None),
        (&[None, Some(Fit::Template(0))], Chosen::One(1)),
        (
            &[Some(Fit::Template(9)), Some(Fit::Listed), None],
            Chosen::One(1),
        ),
        (
            &[Some(Fit::Template(9)), Some(Fit::Template(9))],
            Chosen::Ambiguous,
        ),
        (&[Some(Fit::Listed), Some(Fit::Listed)], Chosen::Ambiguous),
    ];
    for (fits, expected) in table {
        assert_eq!(choose(fits), expected, "{fits:?}");
    }
}
