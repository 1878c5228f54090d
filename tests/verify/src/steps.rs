//! What is verified, in which order: what fails fast comes first.

use crate::step::{Step, Tool};

const GO: Tool = Tool {
    program: "go",
    version: &["version"],
    remedy: "install Go 1.26 or newer, or point KUBEBUILDER_ASSETS to a folder with etcd, \
             kube-apiserver and kubectl",
};

const PYTHON: Tool = Tool {
    program: "python3",
    version: &["--version"],
    remedy: "install Python 3.10 or newer with its venv module (Debian: python3-venv)",
};

const NPM: Tool = Tool {
    program: "npm",
    version: &["--version"],
    remedy: "install Node.js with npm (Debian: nodejs and npm)",
};

/// What `cluster.sh` and the harness call.
const COMMON: &[Tool] = &[
    tool("bash", "install bash"),
    tool("curl", "install curl"),
    Tool {
        program: "openssl",
        version: &["version"],
        remedy: "install openssl",
    },
    Tool {
        program: "ss",
        version: &["-V"],
        remedy: "install iproute2",
    },
    Tool {
        program: "kill",
        version: &["-l"],
        remedy: "install procps or util-linux",
    },
];

/// Everything.
pub(crate) fn all() -> Vec<Step> {
    let mut steps = vec![tools(), format(), python(), node(), kubernetes()];
    steps.extend([lints(), binaries(), tidy(), tests(), demo(), e2e()]);
    steps
}

/// What needs no tool but Rust.
pub(crate) fn quick() -> Vec<Step> {
    vec![format(), lints(), tidy(), unit_tests()]
}

const fn tool(program: &'static str, remedy: &'static str) -> Tool {
    Tool {
        program,
        version: &["--version"],
        remedy,
    }
}

fn tools() -> Step {
    let mut tools = COMMON.to_vec();
    tools.extend([PYTHON, NPM]);
    if std::env::var_os("KUBEBUILDER_ASSETS").is_none() {
        tools.push(GO);
    }
    Step::tools("tools", tools)
}

fn python() -> Step {
    let make = ["python3", "tests/peers/environment.py", "make"];
    Step::command("python environment", &make)
}

fn node() -> Step {
    let make = ["python3", "tests/peers/node/environment.py", "make"];
    Step::command("node environment", &make)
}

/// Minutes the first time, nothing after that.
fn kubernetes() -> Step {
    let build = ["bash", "tests/rig/cluster.sh", "build", "api"];
    Step::command("etcd and kube-apiserver", &build)
}

fn format() -> Step {
    Step::cargo("format", &["fmt", "--all", "--check"])
}

fn lints() -> Step {
    let clippy = [
        "clippy",
        "--workspace",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ];
    Step::cargo("lints", &clippy)
}

fn binaries() -> Step {
    Step::cargo("binaries", &["build", "--workspace", "--bins"])
}

fn tidy() -> Step {
    Step::cargo("tidy", &["test", "--quiet", "--package", "hangar-tidy"])
}

/// The whole workspace, so that features are the same in every step and nothing builds twice.
fn tests() -> Step {
    Step::cargo("tests", &["test", "--workspace", "--no-fail-fast"])
}

/// Of every crate, those in the harness included: a unit test needs no tool.
fn unit_tests() -> Step {
    Step::cargo("unit tests", &["test", "--workspace", "--lib", "--bins"])
}

/// On a real cluster. Says loudly that it was skipped where no node can run.
fn e2e() -> Step {
    Step::cargo("e2e", &["run", "--quiet", "--package", "hangar-e2e"])
}

fn demo() -> Step {
    let demo = ["run", "--quiet", "--package", "hangar-demo", "--", "--once"];
    Step::cargo("demo", &demo)
}
