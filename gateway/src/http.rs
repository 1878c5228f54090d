//! Sockets towards clients and probes.

pub mod legacy;
mod listen;
pub mod mcp;
mod pass;
pub mod probe;
pub mod rescue;
pub mod serve;
mod stream;
mod trail;
