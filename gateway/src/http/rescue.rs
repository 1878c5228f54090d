//! From the errors of the parts to what a client is told. The table of codes is in
//! `hangar_relay::wire`; nothing here invents one.

use hangar_relay::wire::{Kind, WireError};

use crate::flow::Outcome;
use crate::upstream::contracts;
use crate::upstream::exchange::Failure;

/// A URI that leads to several upstreams alike.
pub fn ambiguous_resource() -> WireError {
    WireError::invalid_params(
        "several upstreams have this URI, use /mcp/{namespace}/{upstream} of the one that is meant",
    )
}

/// A request that its upstream did not answer.
pub fn exchange(failure: &Failure) -> WireError {
    let error = match failure {
        Failure::Busy => Kind::Overloaded.into(),
        Failure::Before(failure) => return exchange(failure),
        Failure::Untranslated(_)
        | Failure::NoReply(_)
        | Failure::Redirect
        | Failure::Compressed
        | Failure::TooLarge { .. } => WireError::from(Kind::UpstreamProtocol).because(failure),
        Failure::NoRoom => WireError::from(Kind::Overloaded).because(failure),
        Failure::Http(_)
        | Failure::Timeout
        | Failure::Late
        | Failure::Broken(_)
        | Failure::Throttled { .. }
        | Failure::Status(_)
        | Failure::NoAnswers
        | Failure::Refused(_) => WireError::from(Kind::Unavailable).because(failure),
    };
    match failure.retry_after() {
        Some(seconds) => error.retry_after(Some(seconds)),
        None => error,
    }
}

/// A call whose tool contract could not be had.
pub fn contract(error: &contracts::Error) -> WireError {
    let retry_after = match error {
        contracts::Error::Ours(failure) | contracts::Error::Theirs(failure) => {
            failure.retry_after()
        }
        contracts::Error::Unreadable(_) => None,
        contracts::Error::Task => {
            return WireError::from(Kind::UpstreamProtocol).because(error);
        }
    };
    WireError::from(Kind::Unavailable)
        .because(error)
        .retry_after(retry_after)
}

/// The store failed: the call fails closed, and the cause is in the log and in the metrics.
pub fn store(error: &hangar_store::Error) -> WireError {
    match error {
        hangar_store::Error::Quota { .. } => Kind::QuotaExceeded.into(),
        _ => Kind::Internal.into(),
    }
}

/// The outcome label of a refusal.
pub fn outcome(kind: Kind) -> Outcome {
    match kind {
        Kind::Unavailable | Kind::UpstreamProtocol => Outcome::Upstream,
        Kind::DigestDrift => Outcome::Drift,
        Kind::RateLimited | Kind::QuotaExceeded | Kind::Overloaded => Outcome::Limited,
        Kind::Denied
        | Kind::Withheld
        | Kind::UnknownTool
        | Kind::UnknownPrompt
        | Kind::ResourceNotFound
        | Kind::TaskNotFound
        | Kind::AdmissionClosed
        | Kind::Unauthenticated
        | Kind::OriginForbidden
        | Kind::EndpointNotFound => Outcome::Denied,
        Kind::Parse
        | Kind::InvalidRequest
        | Kind::UnknownMethod
        | Kind::MissingMeta
        | Kind::InvalidParams
        | Kind::Internal
        | Kind::HeaderMismatch
        | Kind::MissingCapability
        | Kind::UnsupportedVersion
        | Kind::BodyTooLarge
        | Kind::HeadersTooLarge
        | Kind::NotReady
        | Kind::UnsupportedMediaType => Outcome::RpcError,
    }
}
