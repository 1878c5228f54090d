//! A small MCP client that keeps every byte.
//!
//! Comparing answers byte for byte is what several promises are about, so nothing here parses
//! before it is asked to.

use anyhow::{Context, Result, bail};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::{HeaderMap, Method, Request, StatusCode};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};

use crate::envelope::{Capabilities, Envelope};
use crate::{sse, wait};

/// One MCP endpoint with one credential.
#[derive(Clone, Debug)]
pub struct Client {
    url: String,
    key: Option<String>,
    http: legacy::Client<HttpConnector, Full<Bytes>>,
}

/// A whole answer.
#[derive(Clone, Debug)]
pub struct Reply {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

// === impl Client ===

impl Client {
    /// `url` with scheme, address and path; no credential.
    pub fn new(url: &str) -> Self {
        Self {
            url: url.to_owned(),
            key: None,
            http: legacy::Client::builder(TokioExecutor::new()).build_http(),
        }
    }

    /// The same, over HTTP/2 from the first byte on.
    pub fn over_http2(url: &str) -> Self {
        let mut builder = legacy::Client::builder(TokioExecutor::new());
        Self {
            http: builder.http2_only(true).build_http(),
            ..Self::new(url)
        }
    }

    /// The same endpoint with this API key; the connection pool is shared.
    #[must_use]
    pub fn with_key(&self, key: &str) -> Self {
        Self {
            key: Some(key.to_owned()),
            ..self.clone()
        }
    }

    /// The same credential at another URL.
    #[must_use]
    pub fn at(&self, url: &str) -> Self {
        Self {
            url: url.to_owned(),
            ..self.clone()
        }
    }

    /// Sends exactly these headers (and the API key) and this body.
    pub async fn post(&self, headers: &[(String, String)], body: Bytes) -> Result<Reply> {
        let mut request = Request::builder().method(Method::POST).uri(&self.url);
        if let Some(key) = &self.key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        for (name, value) in headers {
            request = request.header(name, value);
        }
        send(&self.http, request.body(Full::new(body))?).await
    }

    /// Sends an HTTP method without a body.
    pub async fn bare(&self, method: Method) -> Result<Reply> {
        let mut request = Request::builder().method(method).uri(&self.url);
        if let Some(key) = &self.key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        send(&self.http, request.body(Full::new(Bytes::new()))?).await
    }

    /// A request as a client of MCP 2025-11-25 sends it, without a session.
    pub async fn send_legacy(&self, method: &str, params: Value) -> Result<Reply> {
        let message = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
        self.post(&legacy_headers(), message.to_string().into())
            .await
    }

    pub async fn send(&self, envelope: &Envelope) -> Result<Reply> {
        self.post(envelope.headers(), envelope.body()).await
    }

    /// `tools/call` that may become a task.
    pub async fn call(&self, tool: &str, arguments: Value) -> Result<Reply> {
        self.send(&Envelope::call(tool, arguments)).await
    }

    /// `tools/call` by a client that does not know tasks.
    pub async fn call_sync(&self, tool: &str, arguments: Value) -> Result<Reply> {
        let call = Envelope::call(tool, arguments).capabilities(Capabilities::None);
        self.send(&call).await
    }

    pub async fn get(&self, task: &str) -> Result<Reply> {
        self.send(&Envelope::get(task)).await
    }

    pub async fn cancel(&self, task: &str) -> Result<Reply> {
        self.send(&Envelope::cancel(task)).await
    }

    /// Answers one question with `{"action": ACTION, "content": CONTENT}`.
    pub async fn answer(
        &self,
        task: &str,
        key: &str,
        action: &str,
        content: Value,
    ) -> Result<Reply> {
        let responses = json!({key: {"action": action, "content": content}});
        self.send(&Envelope::update(task, &responses)).await
    }

    pub async fn list_tools(&self) -> Result<Reply> {
        self.send(&Envelope::new("tools/list", json!({}))).await
    }

    pub async fn discover(&self) -> Result<Reply> {
        self.send(&Envelope::new("server/discover", json!({})))
            .await
    }

    /// Starts a task and gives its id.
    pub async fn start_task(&self, tool: &str, arguments: Value) -> Result<String> {
        let result = self.call(tool, arguments).await?.result()?;
        if result["resultType"] != "task" {
            bail!("no task handle: {result}");
        }
        let id = result["taskId"].as_str().context("handle without taskId")?;
        Ok(id.to_owned())
    }

    /// Polls until the task has this status, and gives that answer.
    pub async fn until(&self, task: &str, status: &str) -> Result<Value> {
        let what = format!("task {task} {status}");
        wait::eventually(&what, async || {
            let result = self.get(task).await?.result()?;
            wait::same(&result["status"], &json!(status))?;
            Ok(result)
        })
        .await
    }
}

// === impl Reply ===

impl Reply {
    /// The response message, of a JSON body or the last event of a stream.
    pub fn message(&self) -> Result<Value> {
        let text = std::str::from_utf8(&self.body).context("body is not UTF-8")?;
        let kind = self.header("content-type").unwrap_or_default();
        let message = if kind.starts_with("text/event-stream") {
            sse::events(text).pop().context("no event in the stream")?
        } else {
            text.to_owned()
        };
        serde_json::from_str(&message)
            .with_context(|| format!("status {}, body is not JSON: {text}", self.status))
    }

    /// The `result` member; an error with the whole message when there is none.
    pub fn result(&self) -> Result<Value> {
        let mut message = self.message()?;
        match message.get_mut("result") {
            Some(result) => Ok(result.take()),
            None => bail!("status {}: {message}", self.status),
        }
    }

    /// `error.code`; an error with the whole message when there is none.
    pub fn error_code(&self) -> Result<i64> {
        let message = self.message()?;
        match message["error"]["code"].as_i64() {
            Some(code) => Ok(code),
            None => bail!("status {}: {message}", self.status),
        }
    }

    /// The status, and `error.code`.
    pub fn outcome(&self) -> Result<(u16, i64)> {
        Ok((self.status.as_u16(), self.error_code()?))
    }

    /// The only header of this name.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.get_all(name).iter();
        let first = values.next()?.to_str().ok();
        if values.next().is_some() { None } else { first }
    }

    /// Everything that a caller can tell two answers apart by, without what differs between any
    /// two answers: the date, and the header named here (the correlation id).
    pub fn fingerprint(&self, except: &str) -> (StatusCode, Vec<(String, Vec<u8>)>, Bytes) {
        let mut headers: Vec<_> = self
            .headers
            .iter()
            .filter(|(name, _)| name.as_str() != "date" && name.as_str() != except)
            .map(|(name, value)| (name.to_string(), value.as_bytes().to_vec()))
            .collect();
        headers.sort();
        (self.status, headers, self.body.clone())
    }
}

/// The headers of every request of MCP 2025-11-25 after `initialize`.
pub fn legacy_headers() -> Vec<(String, String)> {
    [
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
        ("mcp-protocol-version", "2025-11-25"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .to_vec()
}

/// A plain GET.
pub async fn get(url: &str) -> Result<Reply> {
    let http = legacy::Client::builder(TokioExecutor::new()).build_http();
    let request = Request::builder().uri(url).body(Full::new(Bytes::new()))?;
    send(&http, request).await
}

async fn send(
    http: &legacy::Client<HttpConnector, Full<Bytes>>,
    request: Request<Full<Bytes>>,
) -> Result<Reply> {
    let target = request.uri().to_string();
    let exchange = async {
        let response = http.request(request).await.context("no answer")?;
        let (head, body) = response.into_parts();
        let body = body
            .collect()
            .await
            .context("answer was cut off")?
            .to_bytes();
        anyhow::Ok(Reply {
            status: head.status,
            headers: head.headers,
            body,
        })
    };
    let reply = tokio::time::timeout(wait::PATIENCE, exchange).await;
    reply
        .with_context(|| format!("{target}: no answer in time"))?
        .with_context(|| format!("request to {target}"))
}
