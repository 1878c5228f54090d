//! `cargo verify`: everything that must hold before a change lands, in one command.
//!
//! Without a dependency, so that it starts within a second and before anything else is built.
//! Steps run in order and the first that fails ends the run. A step that runs cargo is safe:
//! the cargo that started this program has given up its lock by then.

mod step;
mod steps;

use std::path::Path;
use std::process::ExitCode;

use step::Runner;

const USAGE: &str = "\
usage: cargo verify [-- --quick]

  --quick   only what needs no tool: formatting, lints, tidy and unit tests

Needs Rust; without --quick also Python 3.10 or newer, npm, and Go unless KUBEBUILDER_ASSETS names a
folder with etcd, kube-apiserver and kubectl. What it makes is kept in ~/.cache/hangar.
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let steps = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => steps::all(),
        ["--quick"] => steps::quick(),
        ["--help" | "-h"] => {
            eprint!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    if Runner::new(root).run(&steps) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
