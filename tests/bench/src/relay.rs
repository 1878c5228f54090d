//! A bare relay: what the gateway's HTTP stack costs when nothing is governed and nothing read.

use std::net::SocketAddr;

use anyhow::Result;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;

use crate::peer;

/// The pool of connections to the upstream, as the gateway keeps one.
type Pool = Client<HttpConnector, Incoming>;

/// Hands every request to the upstream and its answer back, bodies as they come, until the process
/// is killed.
pub(crate) async fn serve(upstream: SocketAddr) -> Result<()> {
    let listener = peer::listen().await?;
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    let pool = Client::builder(TokioExecutor::new()).build(connector);
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio::spawn(serve_connection(stream, pool.clone(), upstream));
    }
}

async fn serve_connection(stream: TcpStream, pool: Pool, upstream: SocketAddr) {
    let service = service_fn(|request| forward(&pool, upstream, request));
    // Whoever hangs up sees by itself what became of its call.
    let _ = http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

async fn forward(
    pool: &Pool,
    upstream: SocketAddr,
    mut request: Request<Incoming>,
) -> Result<Response<Incoming>> {
    let path = request.uri().path();
    *request.uri_mut() = Uri::try_from(format!("http://{upstream}{path}"))?;
    Ok(pool.request(request).await?)
}
