//! A test process that is killed leaves nothing running.
//!
//! The killed process is this test binary once more, with the one test that never ends.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use hangar_tests::process::Program;
use hangar_tests::{apiserver, wait};

const IN_VICTIM: &str = "HANGAR_TESTS_VICTIM";

#[tokio::test]
async fn kill_9_of_a_test_process_ends_its_programs_and_its_cluster() {
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "victim", "--nocapture"])
        .env(IN_VICTIM, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(victim.stdout.take().unwrap()).lines();
    let owns = lines.map_while(Result::ok).find_map(|line| {
        let (_, owns) = line.split_once("owns ")?;
        Some(owns.to_owned())
    });
    let owns = owns.unwrap();
    let (pid, state) = owns.split_once(' ').unwrap();
    let etcd = std::fs::read_to_string(Path::new(state).join("pid/etcd")).unwrap();
    let owned = [
        format!("/proc/{pid}"),
        format!("/proc/{}", etcd.trim()),
        state.to_owned(),
    ];
    assert!(
        owned.iter().all(|path| Path::new(path).exists()),
        "{owned:?}"
    );
    victim.kill().unwrap();
    victim.wait().unwrap();
    wait::eventually("everything gone", async || {
        let left = owned.iter().find(|path| Path::new(path).exists());
        left.map_or(Ok(()), |left| Err(anyhow::anyhow!("{left} is left")))
    })
    .await
    .unwrap();
}

/// Passes at once unless it is the victim, which waits for its end.
#[tokio::test]
async fn victim() {
    if std::env::var_os(IN_VICTIM).is_none() {
        return;
    }
    let state = (|| {
        let kubeconfig = apiserver::shared()?.kubeconfig().to_owned();
        let state = kubeconfig.ancestors().nth(2).context("no state folder")?;
        ensure!(
            state.join("env").exists(),
            "{} is no state folder",
            state.display()
        );
        anyhow::Ok(state.to_owned())
    })();
    let state = state.unwrap();
    let sleep = Program::other("sleep", Path::new("/bin/sleep"), &state);
    let sleep = sleep.args(["1000"]).start().unwrap();
    println!("owns {} {}", sleep.pid(), state.display());
    std::future::pending::<()>().await;
}
