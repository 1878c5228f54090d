//! How the gateway gets on with what others made: the official conformance suite, and clients and
//! servers of every official SDK with the gateway between them.
//!
//! Each run is made twice, directly and through the gateway, because what a gateway owes is that
//! nothing changes. `tests/README.md` holds the tables; `cargo interop` writes them.

pub mod conformance;
pub mod corpus;
pub mod cross;
pub mod differences;
pub mod json;
mod loopback;
pub mod peer;
pub mod readme;
pub mod record;
pub mod replay;
pub mod rules;
pub mod run;
pub mod stage;
