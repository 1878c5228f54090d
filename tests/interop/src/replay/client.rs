//! A client that asks as it was recorded, and reads until it has what it was recorded to have read.

use anyhow::{Context, Result};
use bytes::Bytes;
use hangar_tests::{sse, wait};
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::Incoming;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

use super::upstream::flat;
use crate::corpus::{Answer, Exchange};

/// With or without a credential.
#[derive(Debug)]
pub(super) struct Client {
    http: legacy::Client<HttpConnector, Full<Bytes>>,
    key: Option<String>,
}

// === impl Client ===

impl Client {
    pub(super) fn new(key: Option<String>) -> Self {
        Self {
            http: legacy::Client::builder(TokioExecutor::new()).build_http(),
            key,
        }
    }

    pub(super) async fn ask(&self, url: &str, exchange: &Exchange) -> Result<Answer> {
        let ask = &exchange.ask;
        let mut request = Request::builder().method(ask.verb.as_str()).uri(url);
        for (name, value) in &ask.headers {
            request = request.header(name, value);
        }
        if let Some(key) = &self.key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        let request = request.body(Full::new(Bytes::from(ask.bytes())))?;
        let asked = async {
            let (head, body) = self.http.request(request).await?.into_parts();
            let enough = exchange
                .answer
                .is_open()
                .then(|| exchange.answer.messages().len());
            let body = read(body, enough).await?;
            Answer::read(head.status.as_u16(), flat(&head.headers), &body)
        };
        let answered = tokio::time::timeout(wait::PATIENCE, asked).await;
        answered.with_context(|| format!("{url}: no end of the answer in time"))?
    }
}

/// All of it, or as many events as are enough: the rest is left, as its client left it.
async fn read(mut body: Incoming, enough: Option<usize>) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        if let Some(data) = frame?.data_ref() {
            bytes.extend_from_slice(data);
        }
        let text = String::from_utf8_lossy(&bytes);
        let is_whole = text.ends_with("\n\n");
        if is_whole && enough.is_some_and(|enough| sse::events(&text).len() >= enough) {
            break;
        }
    }
    Ok(bytes)
}
