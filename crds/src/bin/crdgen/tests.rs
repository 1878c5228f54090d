//! `write` and `check` on a folder of their own.

use tempfile::TempDir;

use super::*;

/// A folder as `write` leaves it.
fn mk_written() -> TempDir {
    let folder = TempDir::new().unwrap();
    write(folder.path()).unwrap();
    folder
}

#[test]
fn what_was_written_is_current() {
    let folder = mk_written();
    assert_eq!(stale(folder.path()).unwrap(), Vec::<PathBuf>::new());
    let code = run(Command::Check, folder.path()).unwrap();
    assert_eq!(code, ExitCode::SUCCESS);
}

#[test]
fn an_edited_file_is_named_and_written_again() {
    let folder = mk_written();
    let edited = folder.path().join("mcpupstreams.yaml");
    let text = fs::read_to_string(&edited).unwrap();
    fs::write(&edited, text.replace("mcpup", "mcpdown")).unwrap();
    assert_eq!(stale(folder.path()).unwrap(), [edited]);
    let code = run(Command::Check, folder.path()).unwrap();
    assert_eq!(code, ExitCode::from(1));

    write(folder.path()).unwrap();
    assert_eq!(stale(folder.path()).unwrap(), Vec::<PathBuf>::new());
}

#[test]
fn a_missing_file_and_a_missing_folder_are_not_current() {
    let folder = mk_written();
    let removed = folder.path().join("tenantpolicies.yaml");
    fs::remove_file(&removed).unwrap();
    assert_eq!(stale(folder.path()).unwrap(), [removed]);

    let absent = folder.path().join("absent");
    assert_eq!(stale(&absent).unwrap().len(), 2);
    write(&absent).unwrap();
    assert_eq!(stale(&absent).unwrap(), Vec::<PathBuf>::new());
}

#[test]
fn a_file_that_nothing_generates_any_more_is_found_and_removed() {
    let folder = mk_written();
    let leftover = folder.path().join("oldkinds.yaml");
    fs::write(&leftover, format!("{HEADER}kind: Old\n")).unwrap();
    let own = folder.path().join("NOTES.txt");
    fs::write(&own, "written by hand\n").unwrap();
    assert_eq!(
        stale(folder.path()).unwrap(),
        std::slice::from_ref(&leftover)
    );

    write(folder.path()).unwrap();
    assert!(!leftover.exists());
    assert!(own.exists());
}

#[test]
fn wrong_usage_is_refused() {
    for wrong in [
        &["crdgen"][..],
        &["crdgen", "both"],
        &["crdgen", "write", "more"],
    ] {
        let error = Cli::try_parse_from(wrong).unwrap_err();
        assert_eq!(error.exit_code(), 2, "{wrong:?}");
    }
}
