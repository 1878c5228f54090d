//! An MCP server made with the official Rust SDK, with a hand on its contract.
//!
//! It speaks stateless Streamable HTTP on `/mcp` and has two tools: `greet` answers at once,
//! `crawl` works for a while as a task and asks its caller a question in the middle.
//! `/control/schema` changes the contract of `crawl` in place, as a compromised server would;
//! `/control/log` counts what arrived. Tasks live in memory and end with the process.

mod control;
mod server;
mod tools;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use anyhow::Context;
use axum::{Router, middleware};
use rmcp::{
    task_manager::TaskManager,
    transport::streamable_http_server::{
        StreamableHttpServerConfig, StreamableHttpService, session::never::NeverSessionManager,
    },
};
use tokio::net::TcpListener;

use crate::{control::Control, server::Server};

/// Serves until the process ends, and logs `listening` with the URL of the MCP endpoint.
///
/// `allow_hosts` are names that it may be called by, beside those of this machine: the SDK refuses
/// any other, so that no web page reaches the server through a rebound name.
pub async fn run(listener: TcpListener, allow_hosts: Vec<String>) -> anyhow::Result<()> {
    let address = listener
        .local_addr()
        .context("the listener has no address")?;
    tracing::info!(mcp = format!("http://{address}/mcp"), "listening");
    axum::serve(listener, router(allow_hosts))
        .await
        .context("the listener failed")
}

fn router(allow_hosts: Vec<String>) -> Router {
    let control = Arc::new(Control::default());
    let server = Server::new(TaskManager::new(), Arc::clone(&control));
    let mut config = StreamableHttpServerConfig::default().with_legacy_session_mode(false);
    config.allowed_hosts.extend(allow_hosts);
    let mcp = StreamableHttpService::new(
        move || Ok(server.clone()),
        Arc::new(NeverSessionManager::default()),
        config,
    );
    Router::new()
        .route_service("/mcp", mcp)
        .layer(middleware::from_fn_with_state(
            Arc::clone(&control),
            control::count,
        ))
        .merge(control::routes(control))
}
