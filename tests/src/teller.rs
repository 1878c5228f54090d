//! What the audience reads: numbered steps, and a command for each.

use std::fmt::Display;
use std::io::Write;

use anyhow::Result;

/// Tells the story to a writer.
#[derive(Debug)]
pub struct Teller<W> {
    out: W,
    step: usize,
    pastes: Vec<Paste>,
}

#[derive(Debug)]
struct Paste {
    step: usize,
    command: String,
}

// === impl Teller ===

impl<W: Write> Teller<W> {
    pub fn new(out: W) -> Self {
        Self {
            out,
            step: 0,
            pastes: Vec::new(),
        }
    }

    /// The heading of the next step, before its work begins: it is the progress too.
    pub fn step(&mut self, title: &str) -> Result<()> {
        self.step += 1;
        writeln!(self.out, "\n{:2}  {title}", self.step)?;
        Ok(self.out.flush()?)
    }

    /// One line of what was sent or came back.
    pub fn say(&mut self, text: impl Display) -> Result<()> {
        writeln!(self.out, "    {text}")?;
        Ok(self.out.flush()?)
    }

    /// The promise that the step has just shown.
    pub fn held(&mut self, promise: &str, words: &str) -> Result<()> {
        self.say(format_args!("=> {promise}: {words}"))
    }

    /// A line to try the current step by hand, kept for [`Teller::pastes`].
    pub fn paste(&mut self, command: impl Into<String>) {
        self.pastes.push(Paste {
            step: self.step,
            command: command.into(),
        });
    }

    /// All lines to try.
    pub fn pastes(&mut self) -> Result<()> {
        writeln!(self.out, "\nEverything stays up. To try a step again:\n")?;
        for Paste { step, command } in &self.pastes {
            writeln!(self.out, "# step {step}\n{command}\n")?;
        }
        writeln!(self.out, "Ctrl-C stops everything.")?;
        Ok(self.out.flush()?)
    }

    pub fn end(&mut self) -> Result<()> {
        writeln!(self.out, "\nEvery step held.")?;
        Ok(self.out.flush()?)
    }
}
