//! What a Dockerfile of this repository says, as far as it can be done without Docker.
//!
//! ```text
//! FROM rust:VERSION AS build      the builder: one build from the repository's root
//! WORKDIR /src
//! COPY . .
//! RUN ... cargo build ...
//!
//! FROM scratch                    the image: its files and its configuration
//! LABEL name="value"
//! COPY --from=build /src/target/*/release/program /program
//! USER uid:gid
//! ENTRYPOINT ["/program"]
//! ```
//!
//! Guarantees: anything else is an error. An instruction that is passed over would be a difference
//! between the image that is tried and the one that ships.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

/// One Dockerfile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipe {
    /// The command line of the builder, for a shell in the root of the repository.
    pub build: String,
    /// At least one.
    pub files: Vec<Copied>,
    /// `UID:GID`.
    pub user: String,
    pub entrypoint: Vec<String>,
    pub labels: BTreeMap<String, String>,
}

/// A program that the builder made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copied {
    /// Its name in the folder of release programs.
    pub program: String,
    /// Where it is in the image, absolute.
    pub to: String,
}

/// One instruction.
#[derive(Clone, Copy, Debug)]
struct Line<'a> {
    number: usize,
    word: &'a str,
    rest: &'a str,
}

/// The instructions of one stage seen so far; each at most once, but for files and labels.
#[derive(Debug, Default)]
struct Seen {
    workdir: bool,
    sources: bool,
    build: Option<String>,
    files: Vec<Copied>,
    user: Option<String>,
    entrypoint: Option<Vec<String>>,
    labels: BTreeMap<String, String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Start,
    Builder,
    Image,
}

/// Where the builder has the release programs; the star is the platform.
const RELEASE: &str = "/src/target/*/release/";

// === impl Recipe ===

impl Recipe {
    /// Assumptions: `text` is a Dockerfile of this repository.
    pub fn parse(text: &str) -> Result<Self> {
        let mut seen = Seen::default();
        let mut stage = Stage::Start;
        for line in lines(text) {
            let done = match stage {
                _ if line.word == "FROM" => next(stage, line.rest).map(|next| stage = next),
                Stage::Start => bail!("line {}: {} before FROM", line.number, line.word),
                Stage::Builder => seen.builder(line),
                Stage::Image => seen.image(line),
            };
            done.with_context(|| format!("line {}: {} {}", line.number, line.word, line.rest))?;
        }
        ensure!(stage == Stage::Image, "there is no `FROM scratch` stage");
        ensure!(
            seen.workdir && seen.sources,
            "the builder has no `WORKDIR /src` and `COPY . .`"
        );
        ensure!(!seen.files.is_empty(), "the image has no program");
        Ok(Self {
            build: seen.build.context("the builder runs no build")?,
            files: seen.files,
            user: seen.user.context("the image has no USER")?,
            entrypoint: seen.entrypoint.context("the image has no ENTRYPOINT")?,
            labels: seen.labels,
        })
    }

    /// The `config` of the image, as the OCI image specification names its members.
    pub fn config(&self) -> Value {
        let Self {
            build: _,
            files: _,
            user,
            entrypoint,
            labels,
        } = self;
        json!({"User": user, "Entrypoint": entrypoint, "Labels": labels})
    }

    /// The same for another package of the workspace, with one program of the package's name.
    pub fn of_package(&self, package: &str) -> Result<Self> {
        let words: Vec<_> = self.build.split(' ').collect();
        let flag = words.iter().position(|word| *word == "--package");
        let own = flag.and_then(|flag| words.get(flag + 1));
        let own = own.with_context(|| format!("no --package in `{}`", self.build))?;
        let to = format!("/{package}");
        Ok(Self {
            build: self
                .build
                .replace(&format!("--package {own}"), &format!("--package {package}")),
            files: vec![Copied {
                program: package.to_owned(),
                to: to.clone(),
            }],
            user: self.user.clone(),
            entrypoint: vec![to],
            labels: BTreeMap::new(),
        })
    }
}

// === impl Seen ===

impl Seen {
    fn builder(&mut self, line: Line<'_>) -> Result<()> {
        match (line.word, line.rest) {
            ("WORKDIR", "/src") => once(&mut self.workdir),
            ("COPY", ". .") => once(&mut self.sources),
            ("RUN", rest) if rest.split(' ').any(|word| word == "cargo") => {
                set(&mut self.build, rest.to_owned())
            }
            _ => bail!("not understood in the builder"),
        }
    }

    fn image(&mut self, line: Line<'_>) -> Result<()> {
        match line.word {
            "LABEL" => {
                let (name, value) = label(line.rest)?;
                let other = self.labels.insert(name, value);
                ensure!(other.is_none(), "set before");
                Ok(())
            }
            "COPY" => {
                self.files.push(copied(line.rest)?);
                Ok(())
            }
            "USER" => set(&mut self.user, user(line.rest)?),
            "ENTRYPOINT" => {
                let words: Vec<String> = serde_json::from_str(line.rest)
                    .context("not the form `[\"/program\"]`, which needs no shell")?;
                ensure!(!words.is_empty(), "empty");
                set(&mut self.entrypoint, words)
            }
            _ => bail!("not understood in the final stage"),
        }
    }
}

/// Every instruction, without comments.
fn lines(text: &str) -> impl Iterator<Item = Line<'_>> {
    let numbered = text.lines().map(str::trim).zip(1..);
    let written = numbered.filter(|(text, _)| !text.is_empty() && !text.starts_with('#'));
    written.map(|(text, number)| {
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        Line {
            number,
            word,
            rest: rest.trim(),
        }
    })
}

fn next(stage: Stage, from: &str) -> Result<Stage> {
    let words: Vec<_> = from.split(' ').collect();
    match (stage, &words[..]) {
        (Stage::Start, [image, "AS", "build"]) if image.starts_with("rust:") => Ok(Stage::Builder),
        (Stage::Builder, ["scratch"]) => Ok(Stage::Image),
        _ => bail!("expected `FROM rust:VERSION AS build`, then `FROM scratch`"),
    }
}

fn once(seen: &mut bool) -> Result<()> {
    ensure!(!*seen, "said before");
    *seen = true;
    Ok(())
}

fn set<T>(seen: &mut Option<T>, value: T) -> Result<()> {
    ensure!(seen.is_none(), "said before");
    *seen = Some(value);
    Ok(())
}

fn label(text: &str) -> Result<(String, String)> {
    let (name, value) = text.split_once('=').context("not `name=\"value\"`")?;
    let value = value
        .strip_prefix('"')
        .and_then(|value| value.strip_suffix('"'));
    let value = value.filter(|value| !value.contains(['"', '\\', '$']));
    Ok((
        name.to_owned(),
        value.context("not one `name=\"value\"`")?.to_owned(),
    ))
}

fn copied(text: &str) -> Result<Copied> {
    let expected = || format!("expected `--from=build {RELEASE}program /program`");
    let [from, source, to] = text.split(' ').collect::<Vec<_>>()[..] else {
        bail!(expected());
    };
    let program = source
        .strip_prefix(RELEASE)
        .filter(|_| from == "--from=build");
    let program = program.with_context(expected)?;
    let plain = |name: &str| !name.is_empty() && !name.contains(['/', '*', '?', '[', '$', '\\']);
    let file = to
        .strip_prefix('/')
        .is_some_and(|to| to.split('/').all(plain));
    ensure!(plain(program) && file, expected());
    Ok(Copied {
        program: program.to_owned(),
        to: to.to_owned(),
    })
}

/// Kubernetes can tell that a user is not root by a number only.
fn user(text: &str) -> Result<String> {
    let ids = text
        .split_once(':')
        .map(|(uid, gid)| (uid.parse::<u32>(), gid.parse::<u32>()));
    ensure!(
        matches!(ids, Some((Ok(uid), Ok(_))) if uid != 0),
        "not `UID:GID` in numbers, or root"
    );
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests;
