//! The upstream: answers that are prepared, so that little of a call is its work.

use std::sync::Arc;

use anyhow::Result;
use bytes::buf::Chain;
use bytes::{Buf, Bytes};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::answers::{Answers, Request, Said};
use crate::peer;

/// A prepared result between what is written around it: sent without being copied.
type Body = Full<Chain<Chain<Bytes, Bytes>, Bytes>>;

/// Serves until the process is killed.
pub(crate) async fn serve() -> Result<()> {
    let listener = peer::listen().await?;
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
            let Said { member, head, rest } = answers.to(&request);
            let head = format!(r#"{{"jsonrpc":"2.0","id":{},"{member}":{head}"#, request.id);
            (StatusCode::OK, Bytes::from(head), rest, "}")
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
