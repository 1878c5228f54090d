//! Who may subscribe: the token of a gateway pod, and the pod that it stands for.

pub mod review;
pub mod token;

use std::sync::Arc;

use hangar_wire::Pod;

use self::review::Reviewer;
use self::token::PodToken;

/// Checks tokens.
#[derive(Clone, Debug)]
pub enum Authenticator {
    /// Folder mode: one token, made by this operator, for every gateway.
    Token(Arc<PodToken>),
    /// Cluster mode: projected service-account tokens, checked by the API server.
    Review(Arc<Reviewer>),
}

/// Whose token it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// Whoever holds the token file may speak for any pod.
    AnyPod,
    /// The one pod that the token is bound to.
    Pod(Pod),
}

/// A pod that proved itself; made by [`Identity::authorize`] only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authorized(Pod);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("no bearer token in the request; send the pod's token as `Authorization: Bearer`")]
    Missing,
    #[error("the token is not valid here; read it again from its file and subscribe anew")]
    Invalid,
    #[error("the token belongs to pod {bound} and the request names pod {claimed}")]
    PodMismatch { bound: String, claimed: String },
    #[error(
        "pod {pod} is no gateway: one runs in the operator's namespace with the labels {labels}"
    )]
    NotAGateway { pod: String, labels: &'static str },
    #[error("the API server cannot be asked about the token; try again")]
    Unavailable(#[source] Box<kube::Error>),
}

// === impl Error ===

impl Error {
    /// Closed CamelCase word for answers, metrics and logs.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Missing => "TokenMissing",
            Self::Invalid => "TokenInvalid",
            Self::PodMismatch { .. } => "PodMismatch",
            Self::NotAGateway { .. } => "NotAGateway",
            Self::Unavailable(_) => "ReviewUnavailable",
        }
    }
}

// === impl Authenticator ===

impl Authenticator {
    /// Whose token this is.
    pub async fn identify(&self, token: &str) -> Result<Identity, Error> {
        match self {
            Self::Token(expected) if expected.matches(token) => Ok(Identity::AnyPod),
            Self::Token(_) => Err(Error::Invalid),
            Self::Review(reviewer) => reviewer.identify(token).await.map(Identity::Pod),
        }
    }
}

// === impl Identity ===

impl Identity {
    /// Lets the holder of the token speak for the pod that the request names.
    pub fn authorize(self, claimed: &Pod) -> Result<Authorized, Error> {
        match self {
            Self::AnyPod => Ok(Authorized(claimed.clone())),
            Self::Pod(bound) if bound == *claimed => Ok(Authorized(bound)),
            Self::Pod(bound) => Err(Error::PodMismatch {
                bound: shown(&bound),
                claimed: shown(claimed),
            }),
        }
    }
}

// === impl Authorized ===

impl Authorized {
    pub fn pod(&self) -> &Pod {
        &self.0
    }
}

fn shown(pod: &Pod) -> String {
    let Pod {
        namespace,
        name,
        uid,
    } = pod;
    format!("{namespace}/{name} (uid {uid})")
}

#[cfg(test)]
mod tests;
