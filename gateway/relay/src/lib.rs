//! MCP as this gateway reads and writes it: pure functions over text.
//!
//! Only governed members are read; everything else passes byte for byte. No function here
//! waits, reads a clock, draws a random number or touches a socket.
//!
//! Guarantees: no input makes a function panic or recurse without a bound; duplicate keys are
//! refused at every level that is read; nothing that a client or an upstream sent is shown by a
//! `Debug` implementation, apart from method names.

pub mod announce;
pub mod answer;
pub mod contract;
pub mod envelope;
pub mod headers;
pub mod json;
pub mod legacy;
pub mod list;
pub mod listen;
pub mod merge;
pub mod method;
pub mod mirror;
pub mod notify;
pub mod params;
pub mod policy;
pub mod rewrite;
pub mod sse;
pub mod surface;
pub mod task;
pub mod wire;

/// The protocol revision spoken on both sides.
pub const PROTOCOL_VERSION: &str = "2026-07-28";
/// Identifier of the tasks extension (SEP-2663).
pub const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";
/// Name under which the gateway presents itself, as a server and as a client.
pub const GATEWAY_NAME: &str = "hangar-gateway";
/// Version under which the gateway presents itself.
pub const GATEWAY_VERSION: &str = env!("CARGO_PKG_VERSION");

const META_PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const META_CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const META_CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
const META_PROGRESS_TOKEN: &str = "progressToken";
const META_LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
const META_SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

/// Whether the tasks extension crosses the gateway on a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TasksExtension {
    Forward,
    /// Left out of what is declared, so that no task can be born.
    Withhold,
}
