//! The pooled HTTP client towards upstreams.
//!
//! Guarantees: a connection goes only to an address that the policy permits, since the resolver
//! hands out nothing else and a request to a literal address, which no resolver is asked for, is
//! judged here as well; redirects are never followed; no proxy variable of the environment is read.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::Name;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use super::address::Policy;
use crate::limit::held::Room;

/// Sends requests to upstreams; cheap to clone.
#[derive(Clone, Debug)]
pub struct Http {
    inner: Client<HttpsConnector<HttpConnector<Resolver>>, Full<Bytes>>,
    policy: Arc<Policy>,
    /// Where answers to what the gateway itself asks are held.
    pub(super) own: Arc<Room>,
}

/// Why no response came.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No connection: the request was never sent.
    #[error("upstream cannot be reached")]
    Connect(#[source] hyper_util::client::legacy::Error),
    /// The connection broke after the request may have been sent.
    #[error("exchange with the upstream broke off")]
    Broken(#[source] hyper_util::client::legacy::Error),
    /// The address rules refuse the address that the URL names: the request was never sent.
    #[error("address {0} is refused by the address rules")]
    Denied(IpAddr),
}

/// Resolves names and hands out only permitted addresses.
#[derive(Clone, Debug)]
struct Resolver {
    policy: Arc<Policy>,
}

type Resolved = Pin<Box<dyn Future<Output = io::Result<std::vec::IntoIter<SocketAddr>>> + Send>>;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
const KEEP_ALIVE: Duration = Duration::from_secs(20);
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
const IDLE_CONNECTIONS: usize = 256;

/// The address that a URL names literally, if it does.
pub fn literal_address(uri: &Uri) -> Option<IpAddr> {
    let host = uri.host()?;
    host.strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .unwrap_or(host)
        .parse()
        .ok()
}

// === impl Http ===

impl Http {
    pub fn new(policy: Arc<Policy>) -> Result<Self, rustls::Error> {
        // The provider is named here: a second one somewhere in the tree must not change it.
        let provider = rustls::crypto::ring::default_provider();
        let resolver = Resolver {
            policy: Arc::clone(&policy),
        };
        let mut tcp = HttpConnector::new_with_resolver(resolver);
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
        // A subscription is silent for long: an upstream that went without a word is found out.
        tcp.set_keepalive(Some(KEEP_ALIVE));
        tcp.set_keepalive_interval(Some(KEEP_ALIVE));
        tcp.set_keepalive_retries(Some(3));
        let connector = HttpsConnectorBuilder::new()
            .with_provider_and_webpki_roots(provider)?
            .https_or_http()
            .enable_all_versions()
            .wrap_connector(tcp);
        let inner = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_max_idle_per_host(IDLE_CONNECTIONS)
            .build(connector);
        Ok(Self {
            inner,
            policy,
            own: Arc::default(),
        })
    }

    /// Answers to the gateway itself are held there from now on.
    pub fn hold_within(&mut self, own: Arc<Room>) {
        self.own = own;
    }

    pub fn own(&self) -> &Arc<Room> {
        &self.own
    }

    /// Whether both are the same client, under the same address rules.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.policy, &other.policy)
    }

    /// Sends one request; the caller bounds it in time.
    pub async fn send(&self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, Error> {
        if let Some(address) = literal_address(request.uri())
            && !self.policy.permits(address)
        {
            return Err(Error::Denied(address));
        }
        self.inner.request(request).await.map_err(|error| {
            if error.is_connect() {
                Error::Connect(error)
            } else {
                Error::Broken(error)
            }
        })
    }
}

// === impl Resolver ===

impl tower::Service<Name> for Resolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = Resolved;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Resolved {
        let policy = Arc::clone(&self.policy);
        Box::pin(async move {
            let found: Vec<SocketAddr> =
                tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            let permitted: Vec<SocketAddr> = found
                .into_iter()
                .filter(|address| policy.permits(address.ip()))
                .collect();
            if permitted.is_empty() {
                return Err(io::Error::new(
                    io::ErrorKind::PermissionDenied,
                    "every address of this name is refused by the address rules",
                ));
            }
            Ok(permitted.into_iter())
        })
    }
}

#[cfg(test)]
mod tests;
