//! Lists of our own.

use std::sync::Arc;

use super::*;
use crate::contract::{Listing, Tools};

fn mk(tools: &str) -> Arc<Tools> {
    let page = RawValue::from_string(format!(r#"{{"tools":[{tools}]}}"#)).unwrap();
    let mut listing = Listing::default();
    listing.push(&page).unwrap();
    listing.finish()
}

fn members(raw: &RawValue) -> Members<'_> {
    Members::of(raw).unwrap()
}

#[test]
fn tools_keep_their_bytes_but_for_the_name() {
    let odd = r#"{ "x":{"name":"inner"}, "name" : "cr\u0061wl" ,"n":1.00}"#;
    let tools_by_name = mk(&format!(r#"{odd},{{"name":"dig"}}"#));
    let shown = tools_by_name.iter().map(|tool| Shown {
        tool,
        name: prefixed("reports", &tool.name),
    });
    let result = tools(shown, &[]);
    assert_eq!(
        members(&result).get("tools").unwrap().get(),
        r#"[{ "x":{"name":"inner"}, "name" : "reports__crawl" ,"n":1.00},{"name":"reports__dig"}]"#
    );
    let shown = tools_by_name.iter().map(|tool| Shown {
        tool,
        name: prefixed("", &tool.name),
    });
    let result = tools(shown, &[]);
    assert_eq!(
        members(&result).get("tools").unwrap().get(),
        format!(r#"[{odd},{{"name":"dig"}}]"#)
    );
}

#[test]
fn nobody_may_keep_or_share_a_list() {
    for result in [tools([], &[]), crate::announce::discover(&[], &[])] {
        let members = members(&result);
        assert_eq!(members.string("resultType").unwrap(), "complete");
        assert_eq!(members.get("ttlMs").unwrap().get(), "0");
        assert_eq!(members.string("cacheScope").unwrap(), "private");
        let meta = members.get("_meta").unwrap().get();
        assert!(meta.contains(r#""name":"hangar-gateway""#), "{meta}");
        assert!(members.get("nextCursor").is_none());
    }
}

#[test]
fn prefixes_come_off_as_they_went_on() {
    let cases = [
        ("reports", "crawl"),
        ("", "a__b"),
        ("a", "_b"),
        ("a__b", "c__d"),
    ];
    for (prefix, name) in cases {
        let shown = prefixed(prefix, name);
        assert_eq!(unprefixed(prefix, &shown), Some(name), "{prefix} {name}");
    }
    assert_eq!(unprefixed("reports", "report__crawl"), None);
    assert_eq!(unprefixed("reports", "reports_crawl"), None);
    assert_eq!(unprefixed("reports", "Reports__crawl"), None);
}
