//! The first lines of a patch, and the test that they name.

use super::*;

const TEXT: &str =
    "Promise: P3\nTest: digest a_list_vouches\nBreaks: the look\n\ndiff --git a/x b/x\n";

#[test]
fn the_first_lines_say_what_it_is() {
    let one = Break::parse("p3-x", TEXT).unwrap();
    assert_eq!(
        (&*one.promise, &*one.suite, &*one.test),
        ("P3", "digest", "a_list_vouches")
    );
    assert_eq!(one.breaks, "the look");
    for bad in [
        "",
        "Promise: P3\n",
        &TEXT.replace("digest ", ""),
        &TEXT.replace("P3", ""),
    ] {
        assert!(
            Break::parse("p3-x", bad).unwrap_err().starts_with("p3-x: "),
            "{bad}"
        );
    }
}

#[test]
fn the_number_of_a_case_is_no_part_of_a_name() {
    assert_eq!(without_case("case_17_an_entry"), "an_entry");
    assert_eq!(without_case("an_entry"), "an_entry");
    assert_eq!(without_case("case_of_wine"), "case_of_wine");
    let text = "async fn case_1_a() {\nfn b(x: u8) {\n    fn inner() {}\n}\n";
    assert_eq!(functions(text).collect::<Vec<_>>(), ["case_1_a", "b"]);
}

#[test]
fn a_patch_that_does_not_fit_says_so() {
    let folder = std::env::temp_dir().join(format!("hangar-breaks-{}", std::process::id()));
    fs::create_dir_all(folder.join(FOLDER)).unwrap();
    let patch = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-one\n+two\n";
    fs::write(
        folder.join(FOLDER).join("p.patch"),
        TEXT.replace("diff --git a/x b/x\n", patch),
    )
    .unwrap();
    let one = all(&folder).unwrap().remove(0);
    fs::write(folder.join("x"), "other\n").unwrap();
    let error = one.check(&folder).unwrap_err();
    assert!(
        error.starts_with("tests/breaks/p.patch does not apply"),
        "{error}"
    );
    fs::write(folder.join("x"), "one\n").unwrap();
    one.check(&folder).unwrap();
    one.apply(&folder).unwrap();
    assert_eq!(fs::read_to_string(folder.join("x")).unwrap(), "two\n");
    fs::remove_dir_all(&folder).unwrap();
}
