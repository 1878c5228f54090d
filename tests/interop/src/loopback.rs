//! A server on a free port of this machine, which ends with its handle.

use std::error::Error;
use std::future::Future;
use std::net::SocketAddr;

use anyhow::Result;
use hyper::body::{Body, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::{CancellationToken, DropGuard};

/// A server that listens; closed when dropped.
#[derive(Debug)]
pub(crate) struct Loopback {
    address: SocketAddr,
    _stop: DropGuard,
}

type Boxed = Box<dyn Error + Send + Sync>;

// === impl Loopback ===

impl Loopback {
    pub(crate) async fn serve<A, F, B, E>(answer: A) -> Result<Self>
    where
        A: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Result<Response<B>, E>> + Send + 'static,
        B: Body<Data: Send, Error: Into<Boxed>> + Send + 'static,
        E: Into<Boxed> + 'static,
    {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let accept = async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(connected(stream, answer.clone()));
            }
        };
        tokio::spawn(async move {
            stopped.run_until_cancelled(accept).await;
        });
        Ok(Self {
            address,
            _stop: stop.drop_guard(),
        })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

async fn connected<A, F, B, E>(stream: TcpStream, answer: A)
where
    A: Fn(Request<Incoming>) -> F,
    F: Future<Output = Result<Response<B>, E>>,
    B: Body<Error: Into<Boxed>> + 'static,
    E: Into<Boxed>,
{
    let http = hyper::server::conn::http1::Builder::new();
    let stream = TokioIo::new(stream);
    // A peer that leaves in the middle ends here as an error.
    let _ = http.serve_connection(stream, service_fn(answer)).await;
}
