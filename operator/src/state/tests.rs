//! Files are replaced whole and with the right mode.

use super::*;

#[test]
fn writes_replace_and_private_stays_private() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::new(dir.path().join("made"));
    assert_eq!(state.read("x").unwrap(), None);
    state.write("x", b"one", Access::Public).unwrap();
    state.write("x", b"two", Access::Private).unwrap();
    assert_eq!(state.read("x").unwrap().unwrap(), b"two");
    let mode = fs::metadata(state.path.join("x")).unwrap().permissions();
    assert_eq!(mode.mode() & 0o777, 0o600);
    assert_eq!(fs::read_dir(&state.path).unwrap().count(), 1);
}

#[test]
fn an_unusable_folder_is_named() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("file"), b"").unwrap();
    let state = StateDir::new(dir.path().join("file"));
    let error = state.write("x", b"one", Access::Public).unwrap_err();
    assert_eq!(error.reason(), "write");
    assert!(error.to_string().contains("file/x"), "{error}");
}

#[test]
fn a_folder_belongs_to_one_process_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::new(dir.path().join("new"));
    let lock = state.lock().unwrap();
    let error = state.lock().unwrap_err();
    assert_eq!(error.reason(), "in_use");
    assert!(error.to_string().contains("in use by another operator"));
    drop(lock);
    state.lock().unwrap();
}
