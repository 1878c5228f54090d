//! `hangar-gateway run`: wires the parts together and ends them in order.

use std::future::Future;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use hangar_store::{Options, SqliteStore};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::args::{Run, StoreUrl};
use crate::config::Config;
use crate::config::disk::LastKnownGood;
use crate::config::link::Link;
use crate::config::subscribe::{Freshness, Subscription};
use crate::flow::ticker;
use crate::gateway::Gateway;
use crate::http::serve::bounds::Bounds;
use crate::http::{mcp, probe, serve};
use crate::limit::held::Budget;
use crate::log;
use crate::metrics::Metrics;
use crate::upstream::pins;

pub(crate) fn run(args: Run) -> ExitCode {
    let log = match log::start() {
        Ok(log) => log,
        Err(error) => {
            let _ = writeln!(io::stderr(), "error: no log: {error}");
            return ExitCode::from(2);
        }
    };
    let code = run_logged(args);
    log.flush();
    code
}

fn run_logged(args: Run) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!(%error, "no runtime");
            return ExitCode::from(2);
        }
    };
    match runtime.block_on(serve_all(args)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(error = format!("{error:#}"), "gateway cannot run");
            ExitCode::from(2)
        }
    }
}

async fn serve_all(args: Run) -> anyhow::Result<()> {
    let Run {
        operator,
        operator_ca,
        token_file,
        store,
        state_dir,
        mcp_address,
        metrics_address,
        edge,
        class,
    } = args;
    edge.check()?;
    let store = open(store, &state_dir)?;
    let metrics = Arc::new(Metrics::new().context("metrics")?);
    let budget = Budget::new(edge.max_held.0, edge.max_body.0);
    let config = Arc::new(Config::holding(budget));
    let freshness = Arc::new(Freshness::default());
    let stop = CancellationToken::new();
    let gateway = Arc::new(Gateway::new(
        Arc::clone(&config),
        Arc::new(store),
        Arc::clone(&metrics),
        Arc::clone(&freshness),
        class,
        &edge,
    ));
    let subscription = Subscription {
        link: Link::new(&operator, operator_ca.clone(), token_file).context("--operator")?,
        disk: LastKnownGood::new(&state_dir),
        config,
        freshness,
        metrics,
        stop: stop.clone(),
    };
    let mcp_listener = listen("--mcp-address", mcp_address).await?;
    let probe_listener = listen("--metrics-address", metrics_address).await?;
    tracing::info!(
        mcp = %mcp_listener.local_addr()?,
        metrics = %probe_listener.local_addr()?,
        version = env!("CARGO_PKG_VERSION"),
        "listening"
    );
    // Probes outlive the drain, so that the last minutes are scraped too.
    let probes_stop = CancellationToken::new();
    let probes = probe::router(probe::Probed {
        gateway: Arc::clone(&gateway),
        stop: stop.clone(),
        ca: operator_ca.into(),
        started: Instant::now(),
    });
    let (mut serving, mut background) = (JoinSet::new(), JoinSet::new());
    background.spawn(serve::serve(
        probe_listener,
        probes,
        Bounds::probes(),
        probes_stop.clone(),
    ));
    background.spawn(subscription.run());
    look_after(&gateway, &stop, &mut background);
    let bounds = Bounds::clients(&edge, &gateway.metrics);
    let router = mcp::router(Arc::clone(&gateway));
    serving.spawn(serve::serve(mcp_listener, router, bounds, stop.clone()));
    let ended = watch(terminated(), &mut serving, &mut background).await;
    say_why(&ended);
    stop.cancel();
    drain(&gateway, serving, edge.drain_timeout.0).await;
    probes_stop.cancel();
    let _ = tokio::time::timeout(Duration::from_secs(1), all_ended(background)).await;
    ended
}

/// The ledger, in the state folder unless it has a place of its own.
fn open(store: Option<StoreUrl>, state_dir: &Path) -> anyhow::Result<SqliteStore> {
    std::fs::create_dir_all(state_dir)
        .with_context(|| format!("--state-dir {} cannot be made", state_dir.display()))?;
    let StoreUrl(ledger) = store.unwrap_or_else(|| StoreUrl(state_dir.join("ledger.db")));
    SqliteStore::open(Options::new(&ledger))
        .with_context(|| format!("--store {} cannot be opened", ledger.display()))
}

/// What goes on beside requests: time passes, and pins are reset.
fn look_after(gateway: &Arc<Gateway>, stop: &CancellationToken, background: &mut JoinSet<()>) {
    background.spawn(ticker::run(Arc::clone(gateway), stop.clone()));
    background.spawn(pins::watch(Arc::clone(gateway), stop.clone()));
}

fn say_why(ended: &anyhow::Result<()>) {
    match ended {
        Ok(()) => tracing::info!("draining"),
        Err(error) => tracing::error!(error = format!("{error:#}"), "draining"),
    }
}

/// Returns when the process is told to stop, or when a part ended that runs until then: a gateway
/// that no longer follows its operator would serve old configuration for ever, and nobody would see.
async fn watch(
    told: impl Future<Output = anyhow::Result<()>>,
    serving: &mut JoinSet<()>,
    background: &mut JoinSet<()>,
) -> anyhow::Result<()> {
    let (part, ended) = tokio::select! {
        told = told => return told,
        Some(ended) = serving.join_next() => ("MCP server", ended),
        Some(ended) = background.join_next() => ("background part", ended),
    };
    ended.with_context(|| format!("{part} ended early"))?;
    anyhow::bail!("{part} ended early")
}

/// Lets requests and governance sections in flight end, but not for ever; new requests are refused.
async fn drain(gateway: &Gateway, serving: JoinSet<()>, most: Duration) {
    gateway.listeners.close();
    let drained = tokio::time::timeout(most, async {
        all_ended(serving).await;
        gateway.sections.close();
        gateway.sections.wait().await;
    });
    if drained.await.is_err() {
        let seconds = most.as_secs();
        tracing::warn!(seconds, "requests in flight did not end in time");
    }
}

/// Unlike `join_all`, this takes a panic for an end.
async fn all_ended(mut parts: JoinSet<()>) {
    while let Some(ended) = parts.join_next().await {
        if let Err(error) = ended {
            tracing::error!(%error, "a part of the gateway failed");
        }
    }
}

async fn listen(flag: &str, address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address)
        .await
        .with_context(|| format!("{flag} {address} cannot be listened on"))
}

async fn terminated() -> anyhow::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate()).context("SIGTERM")?;
    tokio::select! {
        _ = terminate.recv() => {}
        result = tokio::signal::ctrl_c() => result.context("SIGINT")?,
    }
    Ok(())
}

#[cfg(test)]
mod tests;
