//! Clients and servers of every SDK, each client with each server: directly and through the gateway.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use hangar_tests::process::Program;
use hangar_tests::{node, python};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::differences::Difference;
use crate::peer::Server;
use crate::stage::{KEY, Stage};

/// Who made a client and a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sdk {
    Python,
    TypeScript,
    FastMcp,
    Rust,
}

/// What each client got of each server.
#[derive(Debug, Default)]
pub struct Runs(BTreeMap<(Sdk, Sdk), Pair>);

/// The steps that did not come out as they should, by name.
#[derive(Debug, Default)]
struct Pair {
    direct: BTreeMap<&'static str, String>,
    through: BTreeMap<&'static str, String>,
}

#[derive(Debug, Deserialize)]
struct Line {
    step: String,
    #[serde(default)]
    value: Value,
    failed: Option<String>,
}

/// A client stops here; steps that it has not taken then have failed.
const CLIENT_BOUND: Duration = Duration::from_secs(40);
const STEPS: [&str; 7] = [
    "list", "call", "prompt", "resource", "progress", "error", "task",
];
const GOOD: &str = "good";

/// Runs every pair.
pub async fn run() -> Result<Runs> {
    let folder = tempfile::tempdir()?;
    let mut servers = Vec::new();
    for sdk in Sdk::ALL {
        servers.push((sdk, Server::start(&sdk.server(folder.path())?).await?));
    }
    let named: Vec<_> = servers
        .iter()
        .map(|(sdk, server)| (sdk.name(), server.url()))
        .collect();
    let stage = Stage::start(&named).await?;
    let mut runs = Runs::default();
    for client in Sdk::ALL {
        for (sdk, server) in &servers {
            let through = stage.url(sdk.name());
            let pair = Pair {
                direct: take_steps(client, server.url(), folder.path()).await?,
                through: take_steps(client, &through, folder.path()).await?,
            };
            runs.0.insert((client, *sdk), pair);
        }
    }
    Ok(runs)
}

/// The steps that came to something else than they should.
pub(crate) async fn take_steps(
    sdk: Sdk,
    url: &str,
    folder: &Path,
) -> Result<BTreeMap<&'static str, String>> {
    let mut client = sdk.client(folder)?.args([url, KEY]).start()?;
    // A client that hangs has said what it came to until then.
    if client.end(CLIENT_BOUND).await.is_err() {
        client.kill()?;
    }
    let lines = client.all_lines().await?;
    let mut taken = BTreeMap::new();
    for line in &lines {
        let Line {
            step,
            value,
            failed,
        } = serde_json::from_str(line).with_context(|| format!("{sdk:?} said {line}"))?;
        taken.insert(step, (value, failed));
    }
    let mut wrong: BTreeMap<&'static str, String> = BTreeMap::new();
    for step in STEPS {
        match taken.remove(step) {
            Some((value, None)) if value == expected(step) => continue,
            Some((value, None)) => wrong.insert(step, format!("got {value}")),
            Some((_, Some(_))) => wrong.insert(step, "refused".to_owned()),
            None => wrong.insert(step, "not taken".to_owned()),
        };
    }
    Ok(wrong)
}

fn expected(step: &str) -> Value {
    match step {
        "list" => json!(["ask", "count", "echo", "fail"]),
        "call" => json!("hello"),
        "prompt" => json!("Greet Ann"),
        "resource" => json!("nothing planned"),
        "progress" => json!([1, 2]),
        "error" => json!(true),
        _ => json!("Hello Ann"),
    }
}

// === impl Sdk ===

impl Sdk {
    pub const ALL: [Self; 4] = [Self::Python, Self::TypeScript, Self::FastMcp, Self::Rust];

    pub fn name(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::TypeScript => "typescript",
            Self::FastMcp => "fastmcp",
            Self::Rust => "rust",
        }
    }

    pub(crate) fn server(self, folder: &Path) -> Result<Program> {
        match self {
            Self::Python => python::program("cross_server.py", folder),
            Self::TypeScript => node::program("server.mjs", folder),
            Self::FastMcp => python::program("fastmcp_server.py", folder),
            Self::Rust => Ok(Program::shipped("hangar-rust-peer", folder)?.args(["server"])),
        }
    }

    fn client(self, folder: &Path) -> Result<Program> {
        match self {
            Self::Python => python::program("cross_client.py", folder),
            Self::TypeScript => node::program("client.mjs", folder),
            Self::FastMcp => python::program("fastmcp_client.py", folder),
            Self::Rust => Ok(Program::shipped("hangar-rust-peer", folder)?.args(["client"])),
        }
    }
}

// === impl Runs ===

impl Runs {
    /// Every step of a pair that does not come out as it should, either way.
    pub fn differences(&self) -> Vec<Difference> {
        let mut found = Vec::new();
        for ((client, server), Pair { direct, through }) in &self.0 {
            for step in STEPS {
                let said = |steps: &BTreeMap<_, String>| {
                    steps.get(step).map_or(GOOD, String::as_str).to_owned()
                };
                let (direct, through) = (said(direct), said(through));
                if direct != GOOD || through != GOOD {
                    let subject = format!("{} {} {step}", client.name(), server.name());
                    found.push(Difference {
                        subject,
                        direct,
                        through,
                    });
                }
            }
        }
        found
    }

    /// Rows of a table: a client each, and a column for each server.
    pub fn table(&self) -> String {
        let mut table = "| client |".to_owned();
        for server in Sdk::ALL {
            let _ = write!(table, " {} |", server.name());
        }
        table.push_str("\n| --- | --- | --- | --- | --- |\n");
        for client in Sdk::ALL {
            let _ = write!(table, "| {} |", client.name());
            for server in Sdk::ALL {
                let cell = self.0.get(&(client, server)).map_or_else(String::new, cell);
                let _ = write!(table, " {cell} |");
            }
            table.push('\n');
        }
        table
    }
}

fn cell(Pair { direct, through }: &Pair) -> String {
    let good = |wrong: &BTreeMap<_, _>| STEPS.len() - wrong.len();
    format!("{} direct, {} through", good(direct), good(through))
}
