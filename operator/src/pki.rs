//! The operator's own certificate authority and the serving certificate under it.
//!
//! Guarantees: the authority is made once and kept by whoever calls [`Authority::load`]; a new
//! serving certificate therefore needs no new trust at any gateway. The serving certificate lives
//! in memory only and is made anew long before it expires.
//! Caveats: the authority is valid for ten years; to replace it, delete what keeps it and restart.

pub mod cluster;
pub mod folder;

use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_util::sync::CancellationToken;

/// Certificate authority: what gateways trust and what signs.
pub struct Authority {
    certificate_pem: String,
    key_pem: String,
}

/// Hands the current serving certificate to each handshake.
pub struct Serving {
    authority: Authority,
    current: RwLock<Arc<CertifiedKey>>,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot make a certificate")]
    Make(#[from] rcgen::Error),
    #[error("cannot use the serving key")]
    Key(#[from] rustls::Error),
    #[error("cannot keep the certificate authority in the state folder")]
    State(#[from] crate::state::Error),
    #[error("cannot keep the certificate authority in {what}")]
    Cluster {
        what: &'static str,
        #[source]
        source: Box<kube::Error>,
    },
    #[error("Secret {name} has no key `{key}`; delete the Secret to have it made anew")]
    Incomplete {
        name: &'static str,
        key: &'static str,
    },
}

const COMMON_NAME: &str = "Hangar operator CA";
const DAY: Duration = Duration::from_hours(24);
const AUTHORITY_VALID: Duration = Duration::from_hours(24 * 3650);
const SERVING_VALID: Duration = Duration::from_hours(24 * 90);
/// A third of the validity: two months of failed renewals go unnoticed by gateways.
const RENEW_EVERY: Duration = Duration::from_hours(24 * 30);

fn authority_params(now: SystemTime) -> Result<CertificateParams, Error> {
    let mut params = CertificateParams::new(Vec::new())?;
    // The issuer is rebuilt from the key alone, so this name must never change.
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, COMMON_NAME);
    params.distinguished_name = name;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    set_validity(&mut params, now, AUTHORITY_VALID);
    Ok(params)
}

/// From a day before `now`, since the clock of a gateway may be behind ours.
fn set_validity(params: &mut CertificateParams, now: SystemTime, valid: Duration) {
    let since_epoch = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    params.not_before = epoch + since_epoch.saturating_sub(DAY);
    params.not_after = epoch + since_epoch + valid;
}

// === impl Error ===

impl Error {
    /// Closed word for metrics and logs.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Make(_) => "make",
            Self::Key(_) => "key",
            Self::State(_) => "state",
            Self::Cluster { .. } => "cluster",
            Self::Incomplete { .. } => "incomplete",
        }
    }
}

// === impl Authority ===

impl Authority {
    /// A new one.
    pub fn make(now: SystemTime) -> Result<Self, Error> {
        Self::from_key(KeyPair::generate()?.serialize_pem(), now)
    }

    /// The kept one.
    pub fn load(certificate_pem: String, key_pem: String) -> Result<Self, Error> {
        KeyPair::from_pem(&key_pem)?;
        Ok(Self {
            certificate_pem,
            key_pem,
        })
    }

    /// A new certificate for a kept key: gateways that trust an older one of this key go on.
    pub fn from_key(key_pem: String, now: SystemTime) -> Result<Self, Error> {
        let key = KeyPair::from_pem(&key_pem)?;
        let certificate_pem = authority_params(now)?.self_signed(&key)?.pem();
        Ok(Self {
            certificate_pem,
            key_pem,
        })
    }

    /// What gateways trust.
    pub fn certificate_pem(&self) -> &str {
        &self.certificate_pem
    }

    /// Secret.
    fn key_pem(&self) -> &str {
        &self.key_pem
    }

    fn issue(&self, now: SystemTime) -> Result<CertifiedKey, Error> {
        let issuer = Issuer::new(authority_params(now)?, KeyPair::from_pem(&self.key_pem)?);
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(vec![hangar_wire::SERVER_NAME.to_owned()])?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        set_validity(&mut params, now, SERVING_VALID);
        let certificate = params.signed_by(&key, &issuer)?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let signing = rustls::crypto::ring::sign::any_supported_type(&key)?;
        Ok(CertifiedKey::new(vec![certificate.der().clone()], signing))
    }
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

// === impl Serving ===

impl Serving {
    pub fn new(authority: Authority, now: SystemTime) -> Result<Arc<Self>, Error> {
        let current = RwLock::new(Arc::new(authority.issue(now)?));
        Ok(Arc::new(Self { authority, current }))
    }

    /// Puts a fresh certificate into use for handshakes from now on.
    pub fn renew(&self, now: SystemTime) -> Result<(), Error> {
        let fresh = Arc::new(self.authority.issue(now)?);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = fresh;
        Ok(())
    }

    /// Renews until stopped.
    pub async fn keep_fresh(self: Arc<Self>, stop: CancellationToken) {
        let mut due = tokio::time::interval(RENEW_EVERY);
        due.tick().await;
        while stop.run_until_cancelled(due.tick()).await.is_some() {
            match self.renew(SystemTime::now()) {
                Ok(()) => tracing::info!("serving certificate renewed"),
                Err(error) => tracing::error!(%error, "serving certificate not renewed"),
            }
        }
    }

    fn current(&self) -> Arc<CertifiedKey> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&current)
    }
}

impl ResolvesServerCert for Serving {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current())
    }
}

impl std::fmt::Debug for Serving {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Serving").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
