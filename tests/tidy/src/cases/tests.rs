//! Which lines are tests of a case.

use super::{BEGIN, Cases, END};
use crate::Source;

fn mk_cases(text: &str) -> Cases {
    Cases::read(&[Source {
        path: "a.rs".to_owned(),
        text: text.to_owned(),
    }])
}

#[test]
fn tests_are_found_by_their_names() {
    let cases = mk_cases(
        "#[tokio::test]\nasync fn case_17_it_holds() {\n}\n    fn case_3_so_does_this() {}\n\
         fn a_case_5_is_none() {}\n// fn case_6_neither() {}\nfn case_of_nothing() {}\n",
    );
    let text = format!("head\n{BEGIN}stale\n{END}tail\n");
    let written = cases.write_into(&text).unwrap();
    assert_eq!(
        written,
        format!(
            "head\n{BEGIN}\n| case | what a test shows | where |\n| --- | --- | --- |\n\
             | 3 | so does this | `a.rs` |\n| 17 | it holds | `a.rs` |\n\n{END}tail\n"
        )
    );
    assert_eq!(cases.write_into(&written).unwrap(), written);
    assert_eq!(cases.write_into("no marks"), None);
}

#[test]
fn a_case_without_a_test_is_missing() {
    let missing = mk_cases("fn case_17_it_holds() {}").missing();
    assert!(missing.contains(&16) && missing.contains(&99));
    assert!(!missing.contains(&17) && !missing.contains(&82));
}
