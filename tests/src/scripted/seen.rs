//! A request as it arrived.

use hyper::HeaderMap;
use hyper::body::Bytes;
use serde_json::Value;

/// One request, kept whole.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The JSON-RPC method; for anything else the HTTP method and path, as `GET /mcp`.
    pub method: String,
    pub path: String,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// Which connection it came on, counted from 0.
    pub connection: usize,
}

// === impl Seen ===

impl Seen {
    pub(super) fn new(
        http_method: &str,
        path: &str,
        headers: HeaderMap,
        body: Bytes,
        connection: usize,
    ) -> Self {
        let message: Option<Value> = serde_json::from_slice(&body).ok();
        let method = message
            .as_ref()
            .and_then(|message| message.get("method")?.as_str())
            .map_or_else(|| format!("{http_method} {path}"), str::to_owned);
        Self {
            method,
            path: path.to_owned(),
            headers,
            body,
            connection,
        }
    }

    /// The body as JSON; null if it is none.
    pub fn message(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    pub fn params(&self) -> Value {
        self.message()["params"].take()
    }

    /// The only header of this name.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.get_all(name).iter();
        let first = values.next()?.to_str().ok();
        if values.next().is_some() { None } else { first }
    }

    /// Whether these bytes are anywhere in the request; for secrets that must not be.
    pub fn contains(&self, needle: &str) -> bool {
        let found = |hay: &[u8]| hay.windows(needle.len()).any(|w| w == needle.as_bytes());
        found(&self.body)
            || found(self.path.as_bytes())
            || self
                .headers
                .iter()
                .any(|(k, v)| found(k.as_str().as_bytes()) || found(v.as_bytes()))
    }
}
