//! The truth table, cell by cell.

use proptest::prelude::*;

use super::*;

fn mk(allow: &[&str], deny: &[&str]) -> Rules {
    let owned = |globs: &[&str]| globs.iter().map(|&glob| glob.to_owned()).collect();
    Rules::compile(&ToolRules {
        allow: owned(allow),
        deny: owned(deny),
    })
    .unwrap()
}

#[test]
fn the_truth_table() {
    let cases: [(&[&str], &[&str], bool); 10] = [
        // allow matches, deny matches
        (&["crawl"], &["crawl"], false),
        (&["*"], &["cr*"], false),
        // allow matches, deny does not
        (&["crawl"], &["drop"], true),
        (&["c*", "x"], &["d*"], true),
        // allow does not, deny matches
        (&["drop"], &["crawl"], false),
        // neither matches
        (&["drop"], &["dump"], false),
        // empty allow
        (&[], &[], false),
        (&[], &["drop"], false),
        // empty deny
        (&["*"], &[], true),
        (&["drop"], &[], false),
    ];
    for (allow, deny, allowed) in cases {
        assert_eq!(
            mk(allow, deny).allows("crawl"),
            allowed,
            "{allow:?} {deny:?}"
        );
    }
}

#[test]
fn globs_match_names_and_not_paths() {
    let cases = [
        ("*", "a/b.c", true),
        ("a*c", "a/b/c", true),
        ("**", "a/b", true),
        ("*.drop", "db.drop", true),
        ("*.drop", "a/db.drop", true),
        ("**/drop", "a/drop", true),
        ("drop*", "drop/..", true),
        ("*..", "a/..", true),
        ("d?op", "drop", true),
        ("d?op", "d/op", true),
        ("[a-c]x", "bx", true),
        ("[a-c]x", "dx", false),
        ("{read,list}_*", "list_all", true),
        ("{read,list}_*", "write_all", false),
        (r"a\*", "a*", true),
        (r"a\*", "ab", false),
        ("crawl", "Crawl", false),
        ("crawl", "crawl2", false),
    ];
    for (glob, tool, matches) in cases {
        assert_eq!(
            mk(&[glob], &[]).allows(tool),
            matches,
            "allow {glob} {tool}"
        );
        assert_eq!(
            mk(&["*"], &[glob]).allows(tool),
            !matches,
            "deny {glob} {tool}"
        );
    }
}

#[test]
fn a_bad_glob_is_named() {
    let rules = ToolRules {
        allow: vec!["*".into()],
        deny: vec!["ok".into(), "[a".into()],
    };
    let error = Rules::compile(&rules).unwrap_err();
    assert_eq!(error.to_string(), "deny[1] is no glob");
    assert_eq!(error.reason(), "bad_glob");
}

proptest! {
    #[test]
    fn deny_wins_over_any_allow(name in "[a-zA-Z0-9_./-]{1,40}") {
        prop_assert!(mk(&["*"], &[]).allows(&name));
        prop_assert!(!mk(&["*", &name], &[&name]).allows(&name));
        prop_assert!(!mk(&["*"], &["*"]).allows(&name));
    }
}
