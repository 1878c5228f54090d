//! A strict reader of the Prometheus text format.
//!
//! Strict, because a scrape that some Prometheus takes and another refuses is a bug: the text
//! ends in a line feed, each family states HELP and TYPE once before its samples, no series
//! comes twice.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail, ensure};

use crate::client;

/// All series of one scrape.
#[derive(Debug, Default)]
pub struct Scrape {
    series: BTreeMap<Series, f64>,
    families: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Series {
    name: String,
    labels: BTreeMap<String, String>,
}

// === impl Scrape ===

impl Scrape {
    /// Fetches `http://ADDRESS/metrics` and reads it.
    pub async fn fetch(address: &str) -> Result<Self> {
        let reply = client::get(&format!("http://{address}/metrics")).await?;
        ensure!(reply.status == 200, "metrics answered {}", reply.status);
        Self::parse(std::str::from_utf8(&reply.body)?)
    }

    pub fn parse(text: &str) -> Result<Self> {
        ensure!(text.ends_with('\n'), "the last line has no line feed");
        let mut scrape = Self::default();
        let mut helped = BTreeSet::new();
        for (number, line) in text.lines().enumerate() {
            scrape
                .line(line, &mut helped)
                .with_context(|| format!("line {}: {line}", number + 1))?;
        }
        Ok(scrape)
    }

    /// The value of the one series that has this name and at least these labels.
    pub fn value(&self, name: &str, labels: &[(&str, &str)]) -> Result<f64> {
        let mut found = self.matching(name, labels);
        let value = found
            .next()
            .with_context(|| format!("no series {name} {labels:?}"))?;
        ensure!(found.next().is_none(), "several series {name} {labels:?}");
        Ok(value)
    }

    /// The sum over all series of this name with at least these labels; 0 without any.
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        // The standard sum of nothing is -0.
        self.matching(name, labels)
            .fold(0.0, |sum, value| sum + value)
    }

    /// As [`Scrape::sum`], for what counts; an error unless it is a whole number.
    pub fn count(&self, name: &str, labels: &[(&str, &str)]) -> Result<u64> {
        let sum = self.sum(name, labels);
        let text = sum.to_string();
        text.parse()
            .with_context(|| format!("{name} {labels:?} is {text}"))
    }

    /// The names of all families, as HELP and TYPE state them.
    pub fn families(&self) -> impl Iterator<Item = &str> {
        self.families.keys().map(String::as_str)
    }

    fn matching(&self, name: &str, labels: &[(&str, &str)]) -> impl Iterator<Item = f64> {
        self.series
            .iter()
            .filter(move |(series, _)| {
                series.name == name
                    && labels
                        .iter()
                        .all(|(k, v)| series.labels.get(*k).is_some_and(|have| have == v))
            })
            .map(|(_, value)| *value)
    }

    fn line(&mut self, line: &str, helped: &mut BTreeSet<String>) -> Result<()> {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, text) = rest.split_once(' ').context("HELP without text")?;
            ensure!(!text.trim().is_empty(), "HELP without text");
            ensure!(helped.insert(name.to_owned()), "a second HELP");
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').context("TYPE without a kind")?;
            ensure!(helped.contains(name), "TYPE without HELP before it");
            ensure!(
                matches!(kind, "counter" | "gauge" | "histogram" | "summary"),
                "unknown TYPE"
            );
            let again = self.families.insert(name.to_owned(), kind.to_owned());
            ensure!(again.is_none(), "a second TYPE");
        } else {
            let (series, value) = sample(line)?;
            self.ensure_announced(&series.name)?;
            ensure!(
                self.series.insert(series, value).is_none(),
                "a second sample"
            );
        }
        Ok(())
    }

    fn ensure_announced(&self, name: &str) -> Result<()> {
        let of_histogram = ["_bucket", "_sum", "_count"].iter().any(|suffix| {
            let family = name.strip_suffix(suffix).unwrap_or_default();
            matches!(
                self.families.get(family).map(String::as_str),
                Some("histogram" | "summary")
            )
        });
        ensure!(
            of_histogram || self.families.contains_key(name),
            "no TYPE before it"
        );
        Ok(())
    }
}

fn sample(line: &str) -> Result<(Series, f64)> {
    let (series, value) = match line.split_once('{') {
        None => {
            let (name, value) = line.split_once(' ').context("no value")?;
            (
                Series {
                    name: name.to_owned(),
                    labels: BTreeMap::new(),
                },
                value,
            )
        }
        Some((name, rest)) => {
            let (labels, rest) = labels(rest)?;
            (
                Series {
                    name: name.to_owned(),
                    labels,
                },
                rest,
            )
        }
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    ensure!(
        !series.name.is_empty() && series.name.chars().all(plain),
        "bad name"
    );
    let value = value.trim_start_matches(' ');
    let value = match value {
        "+Inf" => f64::INFINITY,
        "-Inf" => f64::NEG_INFINITY,
        other => other.parse().context("bad value")?,
    };
    Ok((series, value))
}

/// The labels up to the closing brace, and what follows it.
fn labels(text: &str) -> Result<(BTreeMap<String, String>, &str)> {
    let mut labels = BTreeMap::new();
    let mut rest = text;
    loop {
        if let Some(end) = rest.strip_prefix('}') {
            return Ok((labels, end));
        }
        let (name, after) = rest.split_once("=\"").context("bad label")?;
        let (value, after) = quoted(after)?;
        let again = labels.insert(name.to_owned(), value);
        ensure!(again.is_none(), "label {name} comes twice");
        rest = match after.strip_prefix(',') {
            Some(next) => next,
            None if after.starts_with('}') => after,
            None => bail!("no comma after label {name}"),
        };
    }
}

fn quoted(text: &str) -> Result<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Ok((value, &text[at + 1..])),
            '\\' => match chars.next().map(|(_, c)| c) {
                Some('n') => value.push('\n'),
                Some(c @ ('"' | '\\')) => value.push(c),
                _ => bail!("bad escape"),
            },
            c => value.push(c),
        }
    }
    bail!("label value has no end")
}

#[cfg(test)]
mod tests;
