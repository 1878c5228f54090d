//! What is told of a run, and the copy of the tree.

use std::fs;

use clap::CommandFactory as _;
use hangar_tidy::breaks::Break;

use crate::breaks::{Row, shown};
use crate::cargo::{Verdict, verdict};
use crate::command::Args;
use crate::tree::Copy;

fn mk_row(without: Verdict, with: Verdict) -> Row {
    let text = "Promise: P5\nTest: polling a_state_is_final\nBreaks: it\n";
    Row {
        one: Break::parse("p5-final", text).unwrap(),
        test: "case_46_a_state_is_final".to_owned(),
        without,
        with,
    }
}

#[test]
fn the_command_line_is_sound() {
    Args::command().debug_assert();
}

#[test]
fn a_break_holds_only_when_its_test_fails_for_it_alone() {
    let not_run = || Verdict::NotRun("does not build: error".to_owned());
    assert!(mk_row(Verdict::Passed, Verdict::Failed).holds());
    for (without, with) in [
        (Verdict::Passed, Verdict::Passed),
        (Verdict::Failed, Verdict::Failed),
        (Verdict::Passed, not_run()),
        (not_run(), Verdict::Failed),
    ] {
        assert!(!mk_row(without, with).holds());
    }
    let rows = [
        mk_row(Verdict::Passed, Verdict::Failed),
        mk_row(Verdict::Passed, not_run()),
    ];
    assert_eq!(
        shown(&rows),
        "promise  break     test                               without  with\n\
         P5       p5-final  polling::case_46_a_state_is_final  passes   fails\n\
         P5       p5-final  polling::case_46_a_state_is_final  passes   does not build: error  <- WRONG\n"
    );
}

#[test]
fn a_test_that_did_not_run_shows_nothing() {
    let line = |passed, failed| {
        let ended = if failed == 0 { "ok" } else { "FAILED" };
        format!(
            "\nrunning 1 test\ntest result: {ended}. {passed} passed; {failed} failed; 0 ignored;\n"
        )
    };
    assert_eq!(verdict(&line(1, 0)), Verdict::Passed);
    assert_eq!(verdict(&line(0, 1)), Verdict::Failed);
    assert!(matches!(verdict(&line(0, 0)), Verdict::NotRun(_)));
    assert!(matches!(
        verdict("error: could not compile"),
        Verdict::NotRun(_)
    ));
}

#[test]
fn a_copy_follows_its_tree_and_keeps_what_is_equal() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    for file in ["a/one", "two", "target/built", ".git/HEAD"] {
        fs::create_dir_all(from.join(file).parent().unwrap()).unwrap();
        fs::write(from.join(file), file).unwrap();
    }
    let copy = Copy::new(&from, &to);
    copy.renew().unwrap();
    assert_eq!(fs::read_to_string(to.join("a/one")).unwrap(), "a/one");
    assert!(!to.join("target").exists() && !to.join(".git").exists());
    let time = |file: &str| fs::metadata(to.join(file)).unwrap().modified().unwrap();
    let before = time("a/one");
    fs::write(to.join("two"), "broken").unwrap();
    fs::write(to.join("left"), "over").unwrap();
    copy.renew().unwrap();
    assert_eq!(fs::read_to_string(to.join("two")).unwrap(), "two");
    assert!(!to.join("left").exists());
    assert_eq!(time("a/one"), before);
}
