//! Ends what a test process leaves behind.
//!
//! One shell per test process reads names of things to end from a pipe. The kernel closes the
//! pipe when the test process is gone, also after an abort, `kill -9` or a timeout of the
//! runner; the shell then ends everything on its list. A parent-death signal would not do: it
//! fires when the thread that spawned the child ends, and test threads end all the time.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::{LazyLock, Mutex, PoisonError};

use anyhow::{Context, Result};

// `reaped` keeps a stranger that got a freed process id from being hit.
const SCRIPT: &str = r#"
trap '' INT TERM HUP
pids=" " clusters="" folders=""
while IFS=' ' read -r op what; do
    case $op in
    pid) pids="$pids$what " ;;
    reaped) case $pids in *" $what "*) pids="${pids%% "$what" *} ${pids#* "$what" }" ;; esac ;;
    cluster) clusters="$clusters$what
" ;;
    folder) folders="$folders$what
" ;;
    esac
done
for pid in $pids; do kill -CONT "$pid"; kill -KILL "$pid"; done
IFS='
'
for state in $clusters; do "$0" down "$state"; done
for folder in $folders; do rm -rf "$folder"; done
"#;

static PIPE: LazyLock<Mutex<Option<ChildStdin>>> = LazyLock::new(|| Mutex::new(start().ok()));

/// This process is killed when the test process is gone.
pub fn guard(pid: u32) -> Result<()> {
    say(&format!("pid {pid}"))
}

/// This process ended and may be reaped now.
pub fn forget(pid: u32) -> Result<()> {
    say(&format!("reaped {pid}"))
}

/// The cluster in this state folder is taken down when the test process is gone.
pub fn guard_cluster(state: &Path) -> Result<()> {
    say(&format!("cluster {}", state.display()))
}

/// This folder is removed when the test process is gone; for folders that live in a `static`,
/// which is never dropped.
pub fn guard_folder(folder: &Path) -> Result<()> {
    say(&format!("folder {}", folder.display()))
}

fn say(line: &str) -> Result<()> {
    let mut pipe = PIPE.lock().unwrap_or_else(PoisonError::into_inner);
    let pipe = pipe.as_mut().context("the watchdog could not be started")?;
    writeln!(pipe, "{line}").context("the watchdog is gone")
}

fn start() -> Result<ChildStdin> {
    let mut child = Command::new("sh")
        .arg("-c")
        .arg(SCRIPT)
        .arg(crate::repository().join("tests/rig/cluster.sh"))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0) // ctrl-C is for the test process; this one acts after it
        .spawn()
        .context("sh cannot be started")?;
    child.stdin.take().context("sh has no standard input")
}
