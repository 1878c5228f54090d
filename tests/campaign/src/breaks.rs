//! Proof that the test of a promise can fail: the gateway broken on purpose, once for each promise.

use std::io::Write as _;

use anyhow::{Result, ensure};
use hangar_tidy::breaks::{self, Break};

use crate::cargo::{Cargo, Verdict};
use crate::command::cache;
use crate::table::table;
use crate::tree::Copy;

/// What one patch came to.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) one: Break,
    pub(crate) test: String,
    pub(crate) without: Verdict,
    pub(crate) with: Verdict,
}

const BINARIES: [&str; 8] = [
    "build",
    "--locked",
    "--quiet",
    "--package",
    "hangar-gateway",
    "--package",
    "hangar-operator",
    "--bins",
];

/// Whether every patch makes its test fail, and every test passes without.
///
/// Guarantees: a patch that does not apply, or whose test is not there, ends the run before anything is
/// built. The tree itself is never changed.
pub(crate) fn run(only: &[String]) -> Result<bool> {
    let root = hangar_tidy::root();
    let mut all = breaks::all(&root).map_err(anyhow::Error::msg)?;
    for name in only {
        let known = all.iter().any(|one| one.name == *name);
        ensure!(known, "there is no {}/{name}.patch", breaks::FOLDER);
    }
    all.retain(|one| only.is_empty() || only.contains(&one.name));
    let mut tests = Vec::new();
    for one in &all {
        one.check(&root).map_err(anyhow::Error::msg)?;
        tests.push(one.test_in(&root).map_err(anyhow::Error::msg)?);
    }
    let folder = cache()?.join("breaks");
    let copy = Copy::new(&root, &folder.join("tree"));
    let cargo = Cargo::new(copy.path(), &folder.join("target"));
    say("building the tree as it is");
    copy.renew()?;
    cargo.build(&BINARIES).map_err(anyhow::Error::msg)?;
    let mut rows = Vec::new();
    for (one, test) in all.into_iter().zip(tests) {
        say(&format!("{}: {test}", one.name));
        let without = cargo.test(&one.suite, &test);
        rows.push(Row {
            one,
            test,
            without,
            with: Verdict::NotRun("not yet".to_owned()),
        });
    }
    for row in &mut rows {
        say(&format!("{}: {}", row.one.name, row.one.breaks));
        copy.renew()?;
        row.one.apply(copy.path()).map_err(anyhow::Error::msg)?;
        row.with = match cargo.build(&BINARIES) {
            Ok(()) => cargo.test(&row.one.suite, &row.test),
            Err(why) => Verdict::NotRun(why),
        };
    }
    copy.renew()?;
    write!(std::io::stdout(), "\n{}", shown(&rows))?;
    Ok(rows.iter().all(Row::holds))
}

pub(crate) fn shown(rows: &[Row]) -> String {
    let head = ["promise", "break", "test", "without", "with"];
    let mut cells = vec![head.map(str::to_owned).to_vec()];
    cells.extend(rows.iter().map(|row| {
        let Row {
            one,
            test,
            without,
            with,
        } = row;
        let holds = if row.holds() { "" } else { "  <- WRONG" };
        vec![
            one.promise.clone(),
            one.name.clone(),
            format!("{}::{test}", one.suite),
            without.shown(),
            with.shown() + holds,
        ]
    }));
    table(&cells)
}

fn say(line: &str) {
    eprintln!("campaign: {line}");
}

// === impl Row ===

impl Row {
    pub(crate) fn holds(&self) -> bool {
        self.without == Verdict::Passed && self.with == Verdict::Failed
    }
}

// === impl Verdict ===

impl Verdict {
    fn shown(&self) -> String {
        match self {
            Self::Passed => "passes".to_owned(),
            Self::Failed => "fails".to_owned(),
            Self::NotRun(why) => why.clone(),
        }
    }
}
