//! The upstream: a process of its own, so that its work is neither the gateway's nor the load's.

use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use bytes::buf::Chain;
use bytes::{Buf, Bytes};
use hangar_tests::process::{Process, Program};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};

use crate::answers::{Answers, Request};

/// A running upstream; gone when dropped.
#[derive(Debug)]
pub(crate) struct Upstream {
    address: SocketAddr,
    _process: Process,
}

/// A prepared result between what is written around it: sent without being copied.
type Body = Full<Chain<Chain<Bytes, Bytes>, Bytes>>;

const LISTENING: &str = "listening";

/// Serves until the process is killed; says where in its first line.
pub(crate) async fn serve() -> Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let up = json!({"message": LISTENING, "address": listener.local_addr()?});
    writeln!(std::io::stdout(), "{up}")?;
    let answers = Arc::new(Answers::prepare());
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio::spawn(serve_connection(stream, Arc::clone(&answers)));
    }
}

async fn serve_connection(stream: TcpStream, answers: Arc<Answers>) {
    let service = service_fn(|request: hyper::Request<Incoming>| {
        let answers = &answers;
        async move {
            let body = request.into_body().collect().await?.to_bytes();
            Ok::<_, hyper::Error>(respond(answers, &body))
        }
    });
    // Whoever hangs up sees by itself what became of its call.
    let _ = http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

fn respond(answers: &Answers, body: &[u8]) -> Response<Body> {
    let (status, head, value, tail) = match serde_json::from_slice::<Request<'_>>(body) {
        Ok(request) => {
            let (member, value) = answers.to(&request);
            let head = format!(r#"{{"jsonrpc":"2.0","id":{},"{member}":"#, request.id);
            (StatusCode::OK, Bytes::from(head), value, "}")
        }
        Err(error) => {
            let said = Bytes::from(format!("this upstream cannot read the request: {error}"));
            (StatusCode::BAD_REQUEST, said, Bytes::new(), "")
        }
    };
    let body = head.chain(value).chain(Bytes::from_static(tail.as_bytes()));
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

// === impl Upstream ===

impl Upstream {
    /// This program again, as an upstream.
    pub(crate) async fn start(log_folder: &Path) -> Result<Self> {
        let program = std::env::current_exe().context("this program has no path")?;
        let mut process = Program::other("upstream", &program, log_folder)
            .args(["--upstream"])
            .start()?;
        let up = process.message(LISTENING).await?;
        let address = up["address"].as_str().and_then(|text| text.parse().ok());
        Ok(Self {
            address: address.context("the upstream does not say where it is")?,
            _process: process,
        })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}
