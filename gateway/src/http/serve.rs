//! The accept loop: connection cap, header bounds, draining.
//!
//! Guarantees: no connection keeps its place by silence. Its first bytes must come in time, then each
//! request's headers, which also bounds the time between two requests; over HTTP/2 a client must
//! answer a ping.

pub mod bounds;
mod stall;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use bounds::{Bounds, Cut};
use stall::Moving;

/// What an HTTP/2 client says first (RFC 9113, 3.4).
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Pause after an accept error such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves until `stop`, then lets requests in flight end.
pub async fn serve(listener: TcpListener, app: Router, bounds: Bounds, stop: CancellationToken) {
    let places = Arc::new(Semaphore::new(bounds.connections));
    let connections = TaskTracker::new();
    let builder = Arc::new(bounds.builder());
    let (header_timeout, send_timeout) = (bounds.header_timeout, bounds.send_timeout);
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
        let counted = bounds.counted();
        connections.spawn(async move {
            let _place = place;
            // Hyper waits for the first bytes without any bound.
            let greeted = tokio::select! {
                greeted = tokio::time::timeout(header_timeout, greeted(socket)) => greeted,
                () = stop.cancelled() => return,
            };
            let Ok(Ok(socket)) = greeted else {
                tracing::debug!("connection ended before it said what it speaks");
                counted.cut(Cut::Silent);
                return;
            };
            let connection =
                builder.serve_connection(TokioIo::new(Moving::new(socket, send_timeout)), service);
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
                counted.cut(Cut::of(&*error));
            }
        });
    }
    connections.close();
    connections.wait().await;
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
