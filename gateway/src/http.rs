//! Sockets towards clients and probes.

pub mod mcp;
pub mod probe;
pub mod rescue;
pub mod serve;
