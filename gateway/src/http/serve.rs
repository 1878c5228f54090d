//! The accept loop: connection cap, header bounds, draining.
//!
//! Guarantees: no connection keeps its place by silence. Its first bytes must come in time, then each
//! request's headers, which also bounds the time between two requests; over HTTP/2 a client must
//! answer a ping.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// What an HTTP/2 client says first (RFC 9113, 3.4).
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Time for a client to say which protocol it speaks, and again for request line and headers.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
const HEADER_BYTES: usize = 64 << 10;
const HEADER_COUNT: usize = 100;
const CONNECTIONS: usize = 10_000;
/// HTTP/2 streams that one connection may have open.
const STREAMS: u32 = 256;
/// Pause after an accept error such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves until `stop`, then lets requests in flight end.
pub async fn serve(listener: TcpListener, app: Router, stop: CancellationToken) {
    serve_within(listener, app, stop, HEADER_TIMEOUT).await;
}

async fn serve_within(
    listener: TcpListener,
    app: Router,
    stop: CancellationToken,
    header_timeout: Duration,
) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let connections = TaskTracker::new();
    let builder = Arc::new(bounded(header_timeout));
    loop {
        let place = tokio::select! {
            () = stop.cancelled() => break,
            place = Arc::clone(&places).acquire_owned() => place,
        };
        let socket = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        let socket = match socket {
            Ok((socket, _)) => socket,
            Err(error) => {
                tracing::warn!(%error, "connection cannot be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let _ = socket.set_nodelay(true);
        let service = TowerToHyperService::new(app.clone());
        let (builder, stop) = (Arc::clone(&builder), stop.clone());
        connections.spawn(async move {
            let _place = place;
            // Hyper waits for the first bytes without any bound.
            let greeted = tokio::select! {
                greeted = tokio::time::timeout(header_timeout, greeted(socket)) => greeted,
                () = stop.cancelled() => return,
            };
            let Ok(Ok(socket)) = greeted else {
                tracing::debug!("connection ended before it said what it speaks");
                return;
            };
            let connection = builder.serve_connection(TokioIo::new(socket), service);
            let mut connection = std::pin::pin!(connection);
            let result = tokio::select! {
                result = connection.as_mut() => result,
                () = stop.cancelled() => {
                    connection.as_mut().graceful_shutdown();
                    connection.await
                }
            };
            if let Err(error) = result {
                tracing::debug!(%error, "connection ended");
            }
        });
    }
    connections.close();
    connections.wait().await;
}

fn bounded(header_timeout: Duration) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(header_timeout)
        .max_buf_size(HEADER_BYTES)
        .max_headers(HEADER_COUNT);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(u32::try_from(HEADER_BYTES).unwrap_or(u32::MAX))
        .keep_alive_interval(Some(Duration::from_secs(30)));
    builder
}

/// Reads until the bytes tell HTTP/1 from HTTP/2, and returns a socket that gives them again.
async fn greeted(socket: TcpStream) -> io::Result<impl AsyncRead + AsyncWrite + Unpin + Send> {
    let (mut reader, writer) = socket.into_split();
    let mut first = Vec::with_capacity(PREFACE.len());
    while first.len() < PREFACE.len() && PREFACE.starts_with(&first) {
        // Never past the preface: what follows is for the connection to read.
        let room = (PREFACE.len() - first.len()) as u64;
        if (&mut reader).take(room).read_buf(&mut first).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    let again = io::Cursor::new(first).chain(reader);
    Ok(tokio::io::join(again, writer))
}

#[cfg(test)]
mod tests;
