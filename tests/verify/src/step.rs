//! One step, and running them one after the other.

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Something that must succeed.
#[derive(Debug)]
pub(crate) struct Step {
    name: &'static str,
    work: Work,
}

/// A program that must be there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tool {
    pub(crate) program: &'static str,
    /// Arguments that make it succeed and do nothing.
    pub(crate) version: &'static [&'static str],
    /// What to do when it is missing.
    pub(crate) remedy: &'static str,
}

/// Runs steps in the root of the repository.
#[derive(Debug)]
pub(crate) struct Runner {
    root: PathBuf,
    started: Instant,
}

#[derive(Debug)]
enum Work {
    Command(Vec<OsString>),
    Tools(Vec<Tool>),
}

// === impl Step ===

impl Step {
    pub(crate) fn command(name: &'static str, words: &[&str]) -> Self {
        let words = words.iter().map(OsString::from).collect();
        let work = Work::Command(words);
        Self { name, work }
    }

    /// A command of the cargo that runs this program.
    pub(crate) fn cargo(name: &'static str, args: &[&str]) -> Self {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let words = std::iter::once(cargo).chain(args.iter().map(OsString::from));
        let work = Work::Command(words.collect());
        Self { name, work }
    }

    pub(crate) fn tools(name: &'static str, tools: Vec<Tool>) -> Self {
        let work = Work::Tools(tools);
        Self { name, work }
    }
}

// === impl Runner ===

impl Runner {
    pub(crate) fn new(root: PathBuf) -> Self {
        let started = Instant::now();
        Self { root, started }
    }

    /// Runs until the first failure; whether all held.
    pub(crate) fn run(&self, steps: &[Step]) -> bool {
        let mut passed = 0;
        let mut failed = 0;
        for (index, step) in steps.iter().enumerate() {
            say(&format!("[{}/{}] {}", index + 1, steps.len(), step.name));
            let started = Instant::now();
            let outcome = self.run_one(step);
            let took = seconds(started.elapsed());
            match outcome {
                Ok(()) => {
                    passed += 1;
                    say(&format!(
                        "[{}/{}] {}: ok, {took}",
                        index + 1,
                        steps.len(),
                        step.name
                    ));
                }
                Err(why) => {
                    failed += 1;
                    say(&format!("{}: FAILED after {took}: {why}", step.name));
                    break;
                }
            }
        }
        let total = seconds(self.started.elapsed());
        let skipped = steps.len() - passed - failed;
        if skipped > 0 {
            say(&format!("{skipped} steps not run"));
        }
        say(&format!("total {total}"));
        say(&format!("{passed} passed, {failed} failed"));
        failed == 0
    }

    fn run_one(&self, step: &Step) -> Result<(), String> {
        match &step.work {
            Work::Tools(tools) => missing(tools),
            Work::Command(words) => self.run_command(words),
        }
    }

    /// Its output is shown as it comes: a build that takes minutes must be seen to live.
    fn run_command(&self, words: &[OsString]) -> Result<(), String> {
        let Some((program, args)) = words.split_first() else {
            return Err("an empty command".to_owned());
        };
        let shown = words.iter().map(|word| word.to_string_lossy());
        let shown = shown.collect::<Vec<_>>().join(" ");
        let status = Command::new(program)
            .args(args)
            .current_dir(&self.root)
            .stdin(Stdio::null())
            .status();
        match status {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("{status}: {shown}")),
            Err(error) => Err(format!("{error}: {shown}")),
        }
    }
}

/// Names every missing tool at once, so that one installation mends it.
fn missing(tools: &[Tool]) -> Result<(), String> {
    let lines: Vec<_> = tools
        .iter()
        .filter(|tool| !works(tool))
        .map(|tool| format!("\n  {} is missing: {}", tool.program, tool.remedy))
        .collect();
    if lines.is_empty() {
        Ok(())
    } else {
        Err(lines.concat())
    }
}

fn works(tool: &Tool) -> bool {
    let status = Command::new(tool.program)
        .args(tool.version)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

fn say(line: &str) {
    // Nobody reads on: the exit status still tells.
    let _ = writeln!(std::io::stdout(), "verify: {line}");
}

#[cfg(test)]
mod tests;
