//! A shipped binary as a process: its log, its signals, its end.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use tokio::sync::watch;

use crate::{wait, watchdog};

/// How to start a program; can be started again after its end.
#[derive(Clone, Debug)]
pub struct Program {
    /// The name in messages and of the log file.
    pub name: String,
    pub path: PathBuf,
    pub args: Vec<String>,
    pub env: BTreeMap<String, String>,
    /// Both output streams are written here too, all starts one after the other.
    pub log_folder: PathBuf,
}

/// A running program; killed when dropped.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    lines: watch::Receiver<Vec<String>>,
    ended: Option<ExitStatus>,
}

/// The signals that the suites send.
#[derive(Clone, Copy, Debug)]
pub enum Signal {
    Kill,
    Terminate,
    Stop,
    Continue,
}

// === impl Program ===

impl Program {
    /// A binary of this workspace, by name.
    ///
    /// Looked up in `HANGAR_BIN_DIR`, else in the folder that cargo put this test into.
    pub fn shipped(name: &str, log_folder: &Path) -> Result<Self> {
        Ok(Self::other(name, &binary(name)?, log_folder))
    }

    /// Any program.
    pub fn other(name: &str, path: &Path, log_folder: &Path) -> Self {
        Self {
            name: name.to_owned(),
            path: path.to_owned(),
            args: Vec::new(),
            env: BTreeMap::new(),
            log_folder: log_folder.to_owned(),
        }
    }

    #[must_use]
    pub fn args<I: IntoIterator<Item = S>, S: Into<String>>(mut self, args: I) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.insert(name.to_owned(), value.to_owned());
        self
    }

    pub fn log_file(&self) -> PathBuf {
        self.log_folder.join(format!("{}.log", self.name))
    }

    pub fn start(&self) -> Result<Process> {
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.log_file())
            .with_context(|| format!("log of {}", self.name))?;
        let mut child = Command::new(&self.path)
            .args(&self.args)
            .envs(&self.env)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log.try_clone()?)
            .spawn()
            .with_context(|| format!("{} cannot be started", self.path.display()))?;
        watchdog::guard(child.id())?;
        let stdout = child.stdout.take().context("no standard output")?;
        let (sender, lines) = watch::channel(Vec::new());
        std::thread::spawn(move || copy_lines(BufReader::new(stdout), log, &sender));
        Ok(Process {
            name: self.name.clone(),
            child,
            lines,
            ended: None,
        })
    }
}

fn copy_lines(from: impl BufRead, mut file: File, to: &watch::Sender<Vec<String>>) {
    for line in from.lines() {
        let Ok(line) = line else { return };
        // A full disk must not stop the reading: the program would block on its own log.
        let _ = writeln!(file, "{line}");
        to.send_modify(|lines| lines.push(line));
    }
}

fn binary(name: &str) -> Result<PathBuf> {
    let folder = match std::env::var_os("HANGAR_BIN_DIR") {
        Some(folder) => PathBuf::from(folder),
        None => beside_tests()?,
    };
    let path = folder.join(name);
    if !path.is_file() {
        bail!(
            "{} is not built: `cargo verify` builds everything, `cargo build --bins` the binaries",
            path.display()
        );
    }
    Ok(path)
}

/// `target/debug`, whether this is `target/debug/deps/suite-HASH` or `target/debug/program`.
fn beside_tests() -> Result<PathBuf> {
    let exe = std::env::current_exe()?;
    let folder = exe.parent().context("the test has no folder")?;
    let folder = if folder.ends_with("deps") {
        folder.parent().context("deps has no parent")?
    } else {
        folder
    };
    Ok(folder.to_owned())
}

// === impl Process ===

impl Process {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Every line of standard output so far.
    pub fn lines(&self) -> Vec<String> {
        self.lines.borrow().clone()
    }

    /// Every line, once the program has closed its output.
    pub async fn all_lines(&mut self) -> Result<Vec<String>> {
        let closed = async { while self.lines.changed().await.is_ok() {} };
        tokio::time::timeout(wait::PATIENCE, closed)
            .await
            .with_context(|| format!("{} does not close its output", self.name))?;
        Ok(self.lines())
    }

    /// The first line that `pick` takes, now or later; an error as soon as the program has ended
    /// without it.
    pub async fn line<T>(&mut self, what: &str, pick: impl Fn(&str) -> Option<T>) -> Result<T> {
        let found = tokio::time::timeout(wait::PATIENCE, async {
            loop {
                let seen = self.lines.borrow_and_update().clone();
                if let Some(value) = seen.iter().find_map(|line| pick(line)) {
                    return Ok(value);
                }
                if self.lines.changed().await.is_err() {
                    let last = seen.last().map_or("nothing", String::as_str);
                    bail!("{} ended before `{what}`; it said last: {last}", self.name);
                }
            }
        });
        found
            .await
            .with_context(|| format!("{}: no line `{what}`", self.name))?
    }

    /// The first JSON log line with this `message`.
    pub async fn message(&mut self, message: &str) -> Result<Value> {
        self.line(message, |line| {
            let value: Value = serde_json::from_str(line).ok()?;
            (value.get("message")?.as_str()? == message).then_some(value)
        })
        .await
    }

    pub fn signal(&self, signal: Signal) -> Result<()> {
        let name = match signal {
            Signal::Kill => "-KILL",
            Signal::Terminate => "-TERM",
            Signal::Stop => "-STOP",
            Signal::Continue => "-CONT",
        };
        let status = Command::new("kill")
            .args([name, &self.pid().to_string()])
            .stderr(Stdio::null())
            .status()
            .context("kill cannot be started")?;
        if !status.success() {
            bail!("{}: kill {name} failed", self.name);
        }
        Ok(())
    }

    /// `kill -9`, and the process is gone when this returns.
    pub fn kill(&mut self) -> Result<()> {
        if self.ended.is_none() {
            self.child.kill()?;
            watchdog::forget(self.pid())?;
            self.ended = Some(self.child.wait()?);
        }
        Ok(())
    }

    /// SIGTERM, and the exit status; an error if it has not ended within `bound`.
    pub async fn terminate(&mut self, bound: Duration) -> Result<ExitStatus> {
        self.signal(Signal::Terminate)?;
        self.end(bound).await
    }

    /// The exit status once the process has ended by itself.
    pub async fn end(&mut self, bound: Duration) -> Result<ExitStatus> {
        let what = format!("end of {}", self.name);
        wait::within(bound, &what, async || {
            if self.ended.is_none() {
                self.ended = self.child.try_wait()?;
            }
            self.ended.context("still running")
        })
        .await
        .inspect(|_| drop(watchdog::forget(self.child.id())))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Nothing can be done about a failure here; the watchdog is the net under it.
        let _ = self.kill();
    }
}

#[cfg(test)]
mod tests;
