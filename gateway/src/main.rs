//! hangar-gateway: relays MCP under governance.

use std::process::ExitCode;

fn main() -> ExitCode {
    hangar_gateway::main()
}
