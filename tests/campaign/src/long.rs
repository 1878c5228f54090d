//! Long forms of tests that stand beside the code.
//!
//! Optimised, and with the assertions of a debug build.

use anyhow::Result;

use crate::cargo::Cargo;
use crate::command::cache;

/// The fuzz targets of the relay.
pub(crate) fn fuzz(seeds: u64, inputs: u64) -> Result<bool> {
    let args = [
        "test",
        "--locked",
        "--package",
        "hangar-relay",
        "--test",
        "fuzz",
        "--",
        "--nocapture",
    ];
    let numbers = [
        ("HANGAR_FUZZ_SEEDS", seeds.to_string()),
        ("HANGAR_FUZZ_INPUTS", inputs.to_string()),
    ];
    run(&args, &numbers)
}

/// The ledger's tests that are left out otherwise.
pub(crate) fn model() -> Result<bool> {
    let package = ["test", "--locked", "--package", "hangar-ledger", "--lib"];
    let tests = ["--", "--ignored", "--nocapture", "long_"];
    run(&[&package[..], &tests].concat(), &[])
}

fn run(args: &[&str], environment: &[(&str, String)]) -> Result<bool> {
    let optimised = [("CARGO_PROFILE_DEV_OPT_LEVEL", "2".to_owned())];
    let environment = [&optimised[..], environment].concat();
    let cargo = Cargo::new(&hangar_tidy::root(), &cache()?.join("target-long"));
    cargo.shown(args, &environment)
}
