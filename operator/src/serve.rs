//! Accept loops: connections are bounded in number and each step of one is bounded in time.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::pki::Serving;

/// What is spoken on a listener.
#[derive(Clone)]
pub enum Transport {
    Plain,
    Tls(TlsAcceptor),
}

const MAX_CONNECTIONS: usize = 4096;
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// A connection whose peer is gone without a word is found after these two.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(10);
const MAX_STREAMS: u32 = 16;
const DRAIN_TIMEOUT: Duration = Duration::from_secs(3);
/// After a failed accept (out of file descriptors, mostly).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves until stopped, then lets running requests end for a short while.
///
/// Assumptions: handlers answer at once when the same token is cancelled.
pub async fn serve(
    listener: TcpListener,
    transport: Transport,
    router: Router,
    stop: CancellationToken,
) {
    let graceful = GracefulShutdown::new();
    let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    while let Some((stream, slot)) = next(&listener, &slots, &stop).await {
        let connection = connect(
            stream,
            transport.clone(),
            router.clone(),
            graceful.watcher(),
        );
        let stop = stop.clone();
        tokio::spawn(async move {
            // A handshake that is still running when the operator stops is not waited for.
            let ended = connection.await;
            if let (Err(error), false) = (ended, stop.is_cancelled()) {
                tracing::debug!(%error, "connection ended");
            }
            drop(slot);
        });
    }
    drop(listener);
    if tokio::time::timeout(DRAIN_TIMEOUT, graceful.shutdown())
        .await
        .is_err()
    {
        tracing::warn!("connections still open after {DRAIN_TIMEOUT:?}; closing them");
    }
}

async fn next(
    listener: &TcpListener,
    slots: &Arc<Semaphore>,
    stop: &CancellationToken,
) -> Option<(TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    loop {
        let slot = Arc::clone(slots).acquire_owned();
        let slot = stop.run_until_cancelled(slot).await?.ok()?;
        match stop.run_until_cancelled(listener.accept()).await? {
            Ok((stream, _)) => return Some((stream, slot)),
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                stop.run_until_cancelled(tokio::time::sleep(ACCEPT_PAUSE))
                    .await?;
            }
        }
    }
}

async fn connect(
    stream: TcpStream,
    transport: Transport,
    router: Router,
    watcher: Watcher,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    stream.set_nodelay(true)?;
    match transport {
        Transport::Plain => answer(stream, router, watcher).await,
        Transport::Tls(acceptor) => {
            let handshake = tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream));
            let stream = handshake.await.map_err(|_| {
                io::Error::new(io::ErrorKind::TimedOut, "TLS handshake takes too long")
            })??;
            answer(stream, router, watcher).await
        }
    }
}

async fn answer(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    router: Router,
    watcher: Watcher,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .keep_alive_interval(KEEP_ALIVE_INTERVAL)
        .keep_alive_timeout(KEEP_ALIVE_TIMEOUT);
    let service = TowerToHyperService::new(router);
    let connection = builder
        .serve_connection(TokioIo::new(stream), service)
        .into_owned();
    watcher.watch(connection).await
}

/// Binds, with the address in the error.
pub async fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    TcpListener::bind(address)
        .await
        .map_err(|error| io::Error::new(error.kind(), format!("{address}: {error}")))
}

// === impl Transport ===

impl Transport {
    /// TLS with the current serving certificate, HTTP/2 preferred.
    pub fn tls(serving: Arc<Serving>) -> Result<Self, rustls::Error> {
        // The provider is named: a second one in the build must not change what is spoken here.
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(serving);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self::Tls(TlsAcceptor::from(Arc::new(config))))
    }
}

impl std::fmt::Debug for Transport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Plain => "Plain",
            Self::Tls(_) => "Tls",
        })
    }
}
