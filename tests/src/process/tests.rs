//! Processes: waiting for words, signals, ends.

use std::path::Path;
use std::time::Duration;

use super::{Process, Program, Signal};

const BOUND: Duration = Duration::from_secs(20);

fn shell(script: &str, folder: &Path) -> Process {
    let sh = Program::other("script", Path::new("/bin/sh"), folder);
    sh.args(["-c", script]).start().unwrap()
}

#[tokio::test]
async fn waits_for_words_and_keeps_them_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let script =
        r#"echo plain; echo '{"message":"listening","mcp":"here"}'; echo oops >&2; exit 3"#;
    let mut process = shell(script, folder.path());
    assert_eq!(process.message("listening").await.unwrap()["mcp"], "here");
    assert_eq!(process.end(BOUND).await.unwrap().code(), Some(3));
    assert_eq!(process.all_lines().await.unwrap().len(), 2);
    let log = std::fs::read_to_string(folder.path().join("script.log")).unwrap();
    assert!(log.contains("plain") && log.contains("oops"));
}

#[tokio::test]
async fn a_program_that_ends_without_the_words_is_an_error_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let error = shell("echo no such flag", folder.path())
        .message("listening")
        .await
        .unwrap_err();
    assert!(error.to_string().contains("no such flag"), "{error}");
}

#[tokio::test]
async fn signals_arrive() {
    let folder = tempfile::tempdir().unwrap();
    let script =
        "trap 'echo bye; exit 0' TERM; echo up; while :; do read -t 1 _ || sleep 0.05; done";
    let mut process = shell(script, folder.path());
    process
        .line("up", |line| (line == "up").then_some(()))
        .await
        .unwrap();
    process.signal(Signal::Stop).unwrap();
    process.signal(Signal::Terminate).unwrap();
    process.signal(Signal::Continue).unwrap();
    assert_eq!(process.end(BOUND).await.unwrap().code(), Some(0));
    assert_eq!(process.all_lines().await.unwrap(), ["up", "bye"]);
}

#[tokio::test]
async fn kill_leaves_nothing_and_may_be_repeated() {
    let folder = tempfile::tempdir().unwrap();
    let mut process = shell("exec sleep 1000", folder.path());
    let entry = format!("/proc/{}", process.pid());
    process.kill().unwrap();
    process.kill().unwrap();
    assert!(!Path::new(&entry).exists());
}
