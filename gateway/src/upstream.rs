//! Upstream MCP servers: addresses, the pooled client, one exchange, and their tool contracts.

pub mod address;
pub mod client;
pub mod contracts;
pub mod exchange;
pub mod pins;

use crate::limit::Permits;

/// What a gateway keeps of an upstream over a change of configuration.
#[derive(Debug, Default)]
pub struct Runtime {
    /// Exchanges in flight for callers. Contract fetches are not counted: a caller that uses up
    /// this limit must not make anybody's task unverifiable.
    pub permit: Permits,
    pub contracts: contracts::Contracts,
    pub pins: pins::Known,
}

#[cfg(test)]
mod tests;
