//! The operator's core: objects in, configuration and conditions out.
//!
//! The shell tells a [`World`] what changed; [`World::compile`] decides on everything at once and
//! gives the wire form of what is in force and a [`Verdict`] for each object; [`status()`] joins a
//! verdict with what the gateways acknowledged.
//!
//! Guarantees: no I/O, no clock, no randomness, no client: time enters as an argument, and the
//! same world gives the same answer. A field that this version cannot enforce is never accepted
//! in silence. Secret bytes are hashed as they come in and kept nowhere.

mod fleet;
mod keys;
mod object;
mod parse;
mod policy;
mod reason;
mod status;
mod tenancy;
mod upstream;
mod verdict;
mod world;

#[cfg(test)]
mod tests;

pub use fleet::{Fleet, PodView};
pub use object::{Change, Object, ObjectId, ObjectKind, SecretBytes, SecretView, Undecodable};
pub use reason::{Reason, Refusal};
pub use status::{Difference, Status, difference, differs, status};
pub use verdict::{Currency, Finding, InForce, Truth, UpstreamCount, Verdict};
pub use world::{Compiled, Settings, World};
