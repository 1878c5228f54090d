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
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use bounds::{Bounds, Cut};
use stall::Moving;

/// What lets connections in.
struct Door {
    listener: TcpListener,
    app: Router,
    places: Arc<Semaphore>,
    bounds: Bounds,
}

/// What an HTTP/2 client says first (RFC 9113, 3.4).
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Pause after an accept error such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// For those who came last to be answered.
const LAST_WORD: Duration = Duration::from_secs(1);

/// Serves until `stop`, then lets requests in flight end.
///
/// Guarantees: while there are any, whoever connects is still answered, one request on a connection,
/// so that `app` can say that this process is about to end.
pub async fn serve(listener: TcpListener, app: Router, bounds: Bounds, stop: CancellationToken) {
    let door = Door {
        listener,
        app,
        places: Arc::new(Semaphore::new(bounds.connections)),
        bounds,
    };
    let (connections, late) = (TaskTracker::new(), TaskTracker::new());
    let builder = Arc::new(door.bounds.builder());
    stop.run_until_cancelled(door.let_in(&connections, &builder, &stop))
        .await;
    connections.close();
    let builder = Arc::new(door.bounds.builder_of_one_request());
    let never = CancellationToken::new();
    tokio::select! {
        () = connections.wait() => {}
        () = door.let_in(&late, &builder, &never) => {}
    }
    late.close();
    let _ = tokio::time::timeout(LAST_WORD, late.wait()).await;
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

// === impl Door ===

impl Door {
    /// Lets in whoever there is a place for, for ever; at `stop` connections end with the request
    /// that they are at.
    async fn let_in(
        &self,
        connections: &TaskTracker,
        builder: &Arc<auto::Builder<TokioExecutor>>,
        stop: &CancellationToken,
    ) {
        loop {
            let Ok(place) = Arc::clone(&self.places).acquire_owned().await else {
                return;
            };
            let socket = match self.listener.accept().await {
                Ok((socket, _)) => socket,
                Err(error) => {
                    tracing::warn!(%error, "connection cannot be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let _ = socket.set_nodelay(true);
            let service = TowerToHyperService::new(self.app.clone());
            let (builder, stop) = (Arc::clone(builder), stop.clone());
            let counted = self.bounds.counted();
            let (header_timeout, send_timeout) =
                (self.bounds.header_timeout, self.bounds.send_timeout);
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
                let socket = TokioIo::new(Moving::new(socket, send_timeout));
                let mut connection = std::pin::pin!(builder.serve_connection(socket, service));
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
    }
}

#[cfg(test)]
mod tests;
