//! The harness of the integration suites: the shipped binaries as processes, a real API
//! server, peers made with the official SDKs, and an upstream that misbehaves on demand.
//!
//! Guarantees: everything listens on loopback at a free port; whatever a test process started
//! is gone when that process is gone, however it ended (see [`watchdog`]).
//! Assumptions: the binaries are built and `cargo verify` has made the tools. A missing part is
//! an error that says so, never a test that passes without having run.

pub mod apiserver;
pub mod binaries;
pub mod chain;
pub mod client;
pub mod cluster;
pub mod envelope;
pub mod gateway;
pub mod ledger;
pub mod manifests;
pub mod metrics;
pub mod node;
pub mod open;
pub mod operator;
pub mod process;
pub mod python;
pub mod ranks;
pub mod raw;
pub mod scripted;
pub mod sse;
pub mod stack;
pub mod teller;
pub mod tmpfs;
pub mod usage;
pub mod wait;
pub mod watchdog;

use std::path::PathBuf;

/// The root of the repository that this harness was built from.
pub fn repository() -> PathBuf {
    let tests = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    tests.parent().map_or(tests.clone(), PathBuf::from)
}
