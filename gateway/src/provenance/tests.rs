//! Exports as files.

use super::*;

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o777
}

#[test]
fn an_export_is_for_its_owner_only() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("export.jsonl");
    create(&path).unwrap();
    assert_eq!(mode(&path), 0o600);
    // A file that others could read is taken back from them.
    std::fs::write(&path, "longer than what comes").unwrap();
    std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    create(&path).unwrap();
    assert_eq!(mode(&path), 0o600);
    assert_eq!(std::fs::read(&path).unwrap(), b"");
}

#[test]
fn a_file_is_verified_line_by_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("export.jsonl");
    let answer = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        format!("{:?}", verify(&path).unwrap())
    };
    let [yes, no] = [ExitCode::SUCCESS, ExitCode::from(1)].map(|code| format!("{code:?}"));
    let whole = [Export::default().end(), b"\n".to_vec()].concat();
    assert_eq!(answer(&whole), yes);
    assert_eq!(answer(b""), no, "cut off");
    assert_eq!(answer(b"no event\n"), no);
    assert_eq!(answer(&whole.repeat(2)), no, "something follows the end");
    // What cannot be read is neither.
    assert!(verify(folder.path()).is_err());
    assert!(verify(&folder.path().join("absent")).is_err());
}
