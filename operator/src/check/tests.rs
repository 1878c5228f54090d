//! What `check` says.

use super::*;

const GOOD: &str = "\
apiVersion: hangar.dev/v1alpha1
kind: McpUpstream
metadata: {name: reports}
spec: {endpoint: {url: \"http://127.0.0.1:7411/mcp\"}}
";

fn mk_check(text: &str) -> (Answer, String) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.yaml");
    std::fs::write(&path, text).unwrap();
    let report = check(vec![path]);
    let mut out = Vec::new();
    print(&report, &mut out).unwrap();
    (report.answer(), String::from_utf8(out).unwrap())
}

#[test]
fn good_manifests_are_good() {
    let (answer, text) = mk_check(GOOD);
    assert_eq!(
        text,
        "McpUpstream default/reports Accepted=True ResolvedRefs=True\n"
    );
    assert_eq!(answer, Answer::Good);
}

#[test]
fn a_bad_object_is_named_and_others_are_still_judged() {
    let bad = GOOD
        .replace("reports", "other")
        .replace("spec: {", "spec: {tols: 1, ");
    let (answer, text) = mk_check(&format!("{GOOD}---\n{bad}"));
    assert_eq!(answer, Answer::Faulty);
    assert!(
        text.contains("McpUpstream default/reports Accepted=True"),
        "{text}"
    );
    assert!(
        text.contains("McpUpstream default/other Accepted=False Undecodable"),
        "{text}"
    );
    assert!(text.contains("a.yaml:9: spec.tols:"), "{text}");
}

#[test]
fn a_file_that_is_not_there_is_wrong_usage() {
    let report = check(vec![PathBuf::from("/nonexistent/file.yaml")]);
    assert_eq!(report.answer(), Answer::Unreadable);
}

#[test]
fn a_folder_without_an_object_is_wrong_usage() {
    let dir = tempfile::tempdir().unwrap();
    let report = check(vec![dir.path().into()]);
    let mut out = Vec::new();
    print(&report, &mut out).unwrap();
    assert!(out.starts_with(b"no McpUpstream and no TenantPolicy"));
    assert_eq!(report.answer(), Answer::Unreadable);
}

#[test]
fn the_quickstart_is_good() {
    let quickstart = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/quickstart");
    let report = check(vec![quickstart.into()]);
    assert_eq!(report.problems, [].into());
    assert_eq!(
        report.answer(),
        Answer::Good,
        "{:?}",
        report.compiled.verdicts
    );
    assert_eq!(report.compiled.verdicts.len(), 3);
}
