//! The differences that the gateway may make, each with its reason, in a short file.
//!
//! A line is `subject: direct -> through: reason`; one that begins with `#` is a comment. The list
//! is held to both ways: what is not in it may not differ, and what is in it must.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use anyhow::{Context, Result, ensure};

/// One thing that is not the same through the gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    pub subject: String,
    pub direct: String,
    pub through: String,
}

/// The file, read.
#[derive(Debug)]
pub struct Allowed(Vec<(Difference, String)>);

// === impl Allowed ===

impl Allowed {
    pub fn parse(text: &str) -> Result<Self> {
        let lines = text.lines().enumerate();
        let written = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let parsed = written.map(|(index, line)| {
            parse(line).with_context(|| format!("line {} of the differences", index + 1))
        });
        Ok(Self(parsed.collect::<Result<_>>()?))
    }

    /// What is wrong with these differences: those that nobody allowed, and those that are gone.
    pub fn findings(&self, found: &[Difference]) -> Vec<String> {
        let allowed: BTreeMap<_, _> = self.0.iter().map(|(d, _)| (&d.subject, d)).collect();
        let mut findings: Vec<_> = found
            .iter()
            .filter(|difference| allowed.get(&difference.subject) != Some(difference))
            .map(|difference| format!("not allowed: {difference}"))
            .collect();
        let gone = self.0.iter().filter(|(d, _)| !found.contains(d));
        findings.extend(gone.map(|(d, _)| format!("no longer so: {d}")));
        findings
    }

    /// Rows of a table.
    pub fn table(&self) -> String {
        let mut table = "| what | direct | through | why |\n| --- | --- | --- | --- |\n".to_owned();
        for (difference, reason) in &self.0 {
            let Difference {
                subject,
                direct,
                through,
            } = difference;
            let _ = writeln!(table, "| `{subject}` | {direct} | {through} | {reason} |");
        }
        table
    }
}

pub(crate) fn parse(line: &str) -> Result<(Difference, String)> {
    let mut parts = line.splitn(3, ": ");
    let (Some(subject), Some(change), Some(reason)) = (parts.next(), parts.next(), parts.next())
    else {
        anyhow::bail!("`{line}` is not `subject: direct -> through: reason`");
    };
    let (direct, through) = change
        .split_once(" -> ")
        .with_context(|| format!("`{change}` is not `direct -> through`"))?;
    ensure!(!reason.trim().is_empty(), "`{line}` has no reason");
    let difference = Difference {
        subject: subject.to_owned(),
        direct: direct.to_owned(),
        through: through.to_owned(),
    };
    Ok((difference, reason.trim().to_owned()))
}

// === impl Difference ===

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            subject,
            direct,
            through,
        } = self;
        write!(f, "{subject}: {direct} -> {through}")
    }
}

#[cfg(test)]
mod tests;
