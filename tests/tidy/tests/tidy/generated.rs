//! Generated files are what the generator makes today.

use std::env;
use std::path::PathBuf;
use std::process::Command;

#[test]
fn crds_are_current() {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    // For the whole workspace: with the features of one package alone everything below it would
    // be built a second time.
    let build = Command::new(cargo)
        .args(["build", "--quiet", "--workspace", "--bin", "crdgen"])
        .current_dir(hangar_tidy::root())
        .status()
        .unwrap();
    assert!(build.success(), "crdgen does not build");
    let output = Command::new(built("crdgen").unwrap())
        .arg("check")
        .current_dir(hangar_tidy::root())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}

/// `target/debug/NAME`, seen from `target/debug/deps/tidy-HASH`.
fn built(name: &str) -> Option<PathBuf> {
    let exe = env::current_exe().ok()?;
    Some(exe.ancestors().nth(2)?.join(name))
}
