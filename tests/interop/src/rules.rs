//! What the gateway may change of an exchange, each with its reason, in a short file.
//!
//! A line is `subject: direct -> through: reason`, and in all but the reason `*` stands for any text.
//! A difference must be in a line, and every line must be about one.

use anyhow::{Context, Result};

use crate::differences::{self, Difference};

/// The file, read.
#[derive(Debug)]
pub struct Rules(Vec<Rule>);

#[derive(Debug)]
struct Rule {
    line: String,
    pattern: Difference,
}

/// Characters of a value that a finding shows.
const SHOWN: usize = 300;

// === impl Rules ===

impl Rules {
    pub fn parse(text: &str) -> Result<Self> {
        let lines = text.lines().enumerate();
        let written = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let rules = written.map(|(index, line)| {
            let (pattern, _) = differences::parse(line)
                .with_context(|| format!("line {} of the allowed differences", index + 1))?;
            Ok(Rule {
                line: line.to_owned(),
                pattern,
            })
        });
        Ok(Self(rules.collect::<Result<_>>()?))
    }

    /// What is wrong with these differences: those that no line allows, and lines about none.
    pub fn findings(&self, found: &[Difference]) -> Vec<String> {
        let mut used = vec![false; self.0.len()];
        let mut findings = Vec::new();
        for difference in found {
            let mut is_allowed = false;
            for (rule, used) in self.0.iter().zip(&mut used) {
                if rule.allows(difference) {
                    (is_allowed, *used) = (true, true);
                }
            }
            if !is_allowed {
                findings.push(format!("not allowed: {}", shown(difference)));
            }
        }
        let unused = self.0.iter().zip(used).filter(|(_, used)| !used);
        findings.extend(unused.map(|(rule, _)| format!("about nothing: {}", rule.line)));
        findings
    }
}

fn shown(difference: &Difference) -> String {
    let Difference {
        subject,
        direct,
        through,
    } = difference;
    let cut = |text: &str| -> String { text.chars().take(SHOWN).collect() };
    format!("{subject}: {} -> {}", cut(direct), cut(through))
}

/// Whether the text is the pattern, with any text for each `*`.
fn fits(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(mut left) = text.strip_prefix(first) else {
        return false;
    };
    let (middle, last) = rest
        .rsplit_once('*')
        .map_or((None, rest), |(middle, last)| (Some(middle), last));
    for part in middle.into_iter().flat_map(|middle| middle.split('*')) {
        match left.find(part) {
            Some(at) => left = &left[at + part.len()..],
            None => return false,
        }
    }
    left.ends_with(last)
}

// === impl Rule ===

impl Rule {
    fn allows(&self, difference: &Difference) -> bool {
        let Difference {
            subject,
            direct,
            through,
        } = difference;
        fits(&self.pattern.subject, subject)
            && fits(&self.pattern.direct, direct)
            && fits(&self.pattern.through, through)
    }
}

#[cfg(test)]
mod tests;
