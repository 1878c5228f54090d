//! The accept loop: connection cap, header bounds, draining.
//!
//! Guarantees: no connection keeps its place by silence. Its first bytes must come in time, then each
//! request's headers, which over HTTP/1.1 also bounds the time between two requests; over HTTP/2 one
//! without a request for that time is told to go, and a client must answer a ping.

pub mod bounds;
mod stall;
mod streams;

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use http::Version;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::{Service, ServiceBuilder};

use bounds::{Bounds, Cut};
use stall::Moving;
use streams::{Delivered, Streams};

type Answered = Response<Delivered<Body>>;

/// What lets connections in.
struct Door<S> {
    listener: TcpListener,
    service: TowerToHyperService<S>,
    places: Arc<Semaphore>,
    bounds: Bounds,
}

/// How long a connection of HTTP/1.1 stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stay {
    /// For further requests.
    Kept,
    /// For one.
    Once,
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
    let app = ServiceBuilder::new()
        .map_response(|response: Response| response.map(Delivered::new))
        .service(app);
    let door = Door {
        listener,
        service: TowerToHyperService::new(app),
        places: Arc::new(Semaphore::new(bounds.connections)),
        bounds,
    };
    let (connections, late) = (TaskTracker::new(), TaskTracker::new());
    stop.run_until_cancelled(door.let_in(&connections, Stay::Kept, &stop))
        .await;
    connections.close();
    let never = CancellationToken::new();
    tokio::select! {
        () = connections.wait() => {}
        () = door.let_in(&late, Stay::Once, &never) => {}
    }
    late.close();
    let _ = tokio::time::timeout(LAST_WORD, late.wait()).await;
}

/// Serves one connection to its end.
async fn connected<S>(
    socket: TcpStream,
    service: TowerToHyperService<S>,
    bounds: &Bounds,
    stay: Stay,
    stop: &CancellationToken,
) where
    S: Service<hyper::Request<Incoming>, Response = Answered, Error = Infallible>,
    S: Clone + Send + 'static,
    S::Future: Send + 'static,
{
    let counted = bounds.counted();
    let (silence, patience) = (bounds.header_timeout, bounds.send_timeout);
    // Hyper waits for the first bytes without any bound.
    let greeted = tokio::select! {
        greeted = tokio::time::timeout(silence, greeted(socket)) => greeted,
        () = stop.cancelled() => return,
    };
    let Ok(Ok((socket, version))) = greeted else {
        tracing::debug!("connection ended before it said what it speaks");
        counted.cut(Cut::Silent);
        return;
    };
    let streams = Streams::new(patience, bounds.metrics.clone());
    let builder = bounds.builder(streams.clone(), stay == Stay::Kept);
    let socket = TokioIo::new(Moving::new(socket, patience));
    let mut connection = std::pin::pin!(builder.serve_connection(socket, service));
    let idle = async {
        match version {
            Version::HTTP_2 => streams.idle(Instant::now(), silence).await,
            // Hyper bounds the time until the next request's headers.
            _ => std::future::pending().await,
        }
    };
    let result = tokio::select! {
        result = connection.as_mut() => result,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
        () = idle => {
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                result = connection => result,
                () = streams.idle(Instant::now(), silence) => {
                    Err(io::Error::from(io::ErrorKind::TimedOut).into())
                }
            }
        }
    };
    if let Err(error) = result {
        tracing::debug!(%error, "connection ended");
        counted.cut(Cut::of(&*error));
    }
}

/// Reads until the bytes tell HTTP/1.1 from HTTP/2, and returns a socket that gives them again.
async fn greeted(
    socket: TcpStream,
) -> io::Result<(impl AsyncRead + AsyncWrite + Unpin + Send, Version)> {
    let (mut reader, writer) = socket.into_split();
    let mut first = Vec::with_capacity(PREFACE.len());
    while first.len() < PREFACE.len() && PREFACE.starts_with(&first) {
        // Never past the preface: what follows is for the connection to read.
        let room = (PREFACE.len() - first.len()) as u64;
        if (&mut reader).take(room).read_buf(&mut first).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    let version = if first == PREFACE {
        Version::HTTP_2
    } else {
        Version::HTTP_11
    };
    let again = io::Cursor::new(first).chain(reader);
    Ok((tokio::io::join(again, writer), version))
}

// === impl Door ===

impl<S> Door<S>
where
    S: Service<hyper::Request<Incoming>, Response = Answered, Error = Infallible>,
    S: Clone + Send + 'static,
    S::Future: Send + 'static,
{
    /// Lets in whoever there is a place for, for ever; at `stop` connections end with the request
    /// that they are at.
    async fn let_in(&self, connections: &TaskTracker, stay: Stay, stop: &CancellationToken) {
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
            let (service, bounds) = (self.service.clone(), self.bounds.clone());
            let stop = stop.clone();
            connections.spawn(async move {
                let _place = place;
                connected(socket, service, &bounds, stay, &stop).await;
            });
        }
    }
}

#[cfg(test)]
mod tests;
