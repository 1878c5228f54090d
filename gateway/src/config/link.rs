//! The TLS connection to the operator: its own CA, one fixed name, a token.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hangar_wire::{HOLD_SECONDS, Refused, SERVER_NAME, SUBSCRIBE_PATH, Subscribe, Update};
use http::{Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};

/// Speaks to the operator. CA and token are read anew, so that a rotation needs no restart.
#[derive(Debug)]
pub struct Link {
    operator: Uri,
    ca: PathBuf,
    token: PathBuf,
    client: Option<(Vec<u8>, OperatorClient)>,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{path} cannot be read yet")]
    File { path: PathBuf, source: io::Error },
    #[error("{0} holds no PEM certificate")]
    NoCertificate(PathBuf),
    #[error("CA certificate of {path} cannot be used")]
    Tls {
        path: PathBuf,
        source: rustls::Error,
    },
    #[error("operator URL must be https://HOST:PORT")]
    Url,
    #[error("operator {operator} cannot be reached")]
    Connect {
        operator: String,
        source: hyper_util::client::legacy::Error,
    },
    #[error("operator {operator} did not answer within {}s", REQUEST_TIMEOUT.as_secs())]
    Timeout { operator: String },
    #[error("answer of operator {operator} broke off")]
    Body {
        operator: String,
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error(
        "operator {operator} refused the subscription with the token of {token}: {status} {reason}: {message}"
    )]
    Refused {
        operator: String,
        token: PathBuf,
        status: StatusCode,
        reason: String,
        message: String,
    },
    #[error("answer of the operator cannot be used")]
    Message(#[source] hangar_wire::Error),
}

type OperatorClient = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// The hold, and what a slow network may add.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(HOLD_SECONDS + 10);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// 10,000 upstreams at 2 KiB and 1,000 tenants at 64 KiB fit.
const MAX_UPDATE_BYTES: usize = 128 << 20;

// === impl Link ===

impl Link {
    pub fn new(operator: &Uri, ca: PathBuf, token: PathBuf) -> Result<Self, Error> {
        let mut parts = operator.clone().into_parts();
        let is_bare = parts.path_and_query.as_ref().is_none_or(|it| it == "/");
        let is_https = parts.scheme.as_ref().map(http::uri::Scheme::as_str) == Some("https");
        if !is_bare || !is_https {
            return Err(Error::Url);
        }
        parts.path_and_query = Some(http::uri::PathAndQuery::from_static(SUBSCRIBE_PATH));
        Ok(Self {
            operator: Uri::from_parts(parts).map_err(|_| Error::Url)?,
            ca,
            token,
            client: None,
        })
    }

    /// The token, without the line end that an editor adds.
    pub fn token(&self) -> Result<String, Error> {
        Ok(read(&self.token)?.trim_ascii().escape_ascii().to_string())
    }

    /// One subscription: returns with an update, or with none when the hold ended.
    pub async fn subscribe(&mut self, message: &Subscribe) -> Result<Update, Error> {
        let token = self.token()?;
        let client = self.client()?;
        let body = serde_json::to_vec(message)
            .map_err(|error| Error::Message(hangar_wire::Error::Malformed(error)))?;
        let request = Request::post(self.operator.clone())
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::AUTHORIZATION, format!("Bearer {token}"))
            .body(Full::new(Bytes::from(body)))
            .map_err(|_| Error::Url)?;
        let exchange = async {
            let response = client
                .request(request)
                .await
                .map_err(|source| Error::Connect {
                    operator: self.operator.to_string(),
                    source,
                })?;
            let status = response.status();
            let body = Limited::new(response.into_body(), MAX_UPDATE_BYTES)
                .collect()
                .await
                .map_err(|source| Error::Body {
                    operator: self.operator.to_string(),
                    source,
                })?
                .to_bytes();
            Ok((status, body))
        };
        let result = tokio::time::timeout(REQUEST_TIMEOUT, exchange)
            .await
            .unwrap_or_else(|_| {
                Err(Error::Timeout {
                    operator: self.operator.to_string(),
                })
            });
        if result.is_err() {
            // The next attempt reads the CA again and shakes hands anew.
            self.client = None;
        }
        let (status, body) = result?;
        if status == StatusCode::OK {
            return hangar_wire::decode(&body).map_err(Error::Message);
        }
        let refused = serde_json::from_slice(&body).unwrap_or(Refused {
            reason: "Unknown".into(),
            message: "no reason was given".into(),
        });
        Err(Error::Refused {
            operator: self.operator.to_string(),
            token: self.token.clone(),
            status,
            reason: refused.reason,
            message: refused.message,
        })
    }

    fn client(&mut self) -> Result<OperatorClient, Error> {
        let pem = read(&self.ca)?;
        if let Some((known, client)) = &self.client
            && *known == pem
        {
            return Ok(client.clone());
        }
        let client = connect_with(&pem, &self.ca)?;
        self.client = Some((pem, client.clone()));
        Ok(client)
    }
}

// === impl Error ===

impl Error {
    pub fn reason(&self) -> &'static str {
        match self {
            Self::File { .. } => "file",
            Self::NoCertificate(_) | Self::Tls { .. } => "trust",
            Self::Url => "url",
            Self::Connect { .. } => "connect",
            Self::Timeout { .. } => "timeout",
            Self::Body { .. } => "broken",
            Self::Refused { .. } => "refused",
            Self::Message(_) => "message",
        }
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    fs::read(path).map_err(|source| Error::File {
        path: path.into(),
        source,
    })
}

fn connect_with(pem: &[u8], path: &Path) -> Result<OperatorClient, Error> {
    let unusable = |source| Error::Tls {
        path: path.into(),
        source,
    };
    let mut roots = rustls::RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|_| Error::NoCertificate(path.into()))?;
        roots.add(certificate).map_err(unusable)?;
    }
    if roots.is_empty() {
        return Err(Error::NoCertificate(path.into()));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(unusable)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from(SERVER_NAME).map_err(|_| Error::Url)?;
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
    let connector = HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_only()
        .with_server_name_resolver(FixedServerNameResolver::new(name))
        .enable_all_versions()
        .wrap_connector(tcp);
    Ok(Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .build(connector))
}
