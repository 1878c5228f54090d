//! `hangar-gateway run`: wires the parts together and ends them in order.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use hangar_store::{Options, SqliteStore};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, fmt};

use crate::args::{Run, StoreUrl};
use crate::config::Config;
use crate::config::disk::LastKnownGood;
use crate::config::link::Link;
use crate::config::subscribe::{Freshness, Subscription};
use crate::gateway::Gateway;
use crate::http::{mcp, probe, serve};
use crate::metrics::Metrics;

/// Longest time that requests in flight have to end after SIGTERM.
const DRAIN: Duration = Duration::from_secs(20);

pub(crate) fn run(args: Run) -> ExitCode {
    tracing_subscriber::registry()
        .with(EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info")))
        .with(
            fmt::layer()
                .json()
                .flatten_event(true)
                .with_current_span(false)
                .with_span_list(false),
        )
        .init();
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
        max_body,
        class,
    } = args;
    std::fs::create_dir_all(&state_dir)
        .with_context(|| format!("--state-dir {} cannot be made", state_dir.display()))?;
    let StoreUrl(ledger) = store.unwrap_or_else(|| StoreUrl(state_dir.join("ledger.db")));
    let store = SqliteStore::open(Options::new(&ledger))
        .with_context(|| format!("--store {} cannot be opened", ledger.display()))?;
    let metrics = Arc::new(Metrics::new().context("metrics")?);
    let config = Arc::new(Config::default());
    let freshness = Arc::new(Freshness::default());
    let stop = CancellationToken::new();
    let gateway = Arc::new(Gateway::new(
        Arc::clone(&config),
        Arc::new(store),
        Arc::clone(&metrics),
        Arc::clone(&freshness),
        class,
        max_body.0,
    ));
    let subscription = Subscription {
        link: Link::new(&operator, operator_ca, token_file).context("--operator")?,
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
    });
    let mut background = JoinSet::new();
    background.spawn(serve::serve(probe_listener, probes, probes_stop.clone()));
    background.spawn(subscription.run());
    let serving = tokio::spawn(serve::serve(
        mcp_listener,
        mcp::router(Arc::clone(&gateway)),
        stop.clone(),
    ));
    terminated().await?;
    tracing::info!("draining");
    stop.cancel();
    drain(&gateway, serving).await;
    probes_stop.cancel();
    let _ = tokio::time::timeout(Duration::from_secs(1), background.join_all()).await;
    Ok(())
}

/// Lets requests and governance sections in flight end, but not for ever.
async fn drain(gateway: &Gateway, serving: tokio::task::JoinHandle<()>) {
    let drained = tokio::time::timeout(DRAIN, async {
        let _ = serving.await;
        gateway.sections.close();
        gateway.sections.wait().await;
    });
    if drained.await.is_err() {
        let seconds = DRAIN.as_secs();
        tracing::warn!(seconds, "requests in flight did not end in time");
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
