//! From the errors of the parts to what a client is told. The table of codes is in
//! `hangar_relay::wire`; nothing here invents one.

use hangar_relay::wire::{Kind, WireError};

use crate::flow::Outcome;
use crate::upstream::contracts;
use crate::upstream::exchange::Failure;

/// `/mcp` of a tenant with several upstreams is not merged.
pub fn several_upstreams(count: usize) -> WireError {
    WireError::from(Kind::EndpointNotFound).because(format_args!(
        "this tenant has {count} upstreams, use /mcp/{{namespace}}/{{upstream}}"
    ))
}

/// A synchronous request that its upstream did not answer.
pub fn exchange(failure: &Failure) -> WireError {
    match failure {
        Failure::Busy => Kind::Overloaded.into(),
        Failure::NoReply(_) | Failure::Redirect | Failure::TooLarge { .. } => {
            WireError::from(Kind::UpstreamProtocol).because(failure)
        }
        Failure::Request(_) => Kind::Internal.into(),
        Failure::Http(_)
        | Failure::Timeout
        | Failure::Broken(_)
        | Failure::Throttled { .. }
        | Failure::Status(_) => WireError::from(Kind::Unavailable).because(failure),
    }
}

/// A call whose tool contract could not be had.
pub fn contract(error: &contracts::Error) -> WireError {
    WireError::from(Kind::Unavailable).because(error)
}

/// The store failed: the call fails closed, and the cause is in the log and in the metrics.
pub fn store(error: &hangar_store::Error) -> WireError {
    match error {
        hangar_store::Error::Quota { .. } => Kind::QuotaExceeded.into(),
        _ => Kind::Internal.into(),
    }
}

/// The outcome label of a refusal, by its reason.
pub fn outcome(reason: &str) -> Outcome {
    let is = |kind: Kind| kind.reason() == reason;
    if is(Kind::Unavailable) || is(Kind::UpstreamProtocol) {
        Outcome::Upstream
    } else if is(Kind::DigestDrift) {
        Outcome::Drift
    } else if is(Kind::RateLimited) || is(Kind::QuotaExceeded) || is(Kind::Overloaded) {
        Outcome::Limited
    } else if [
        Kind::Denied,
        Kind::Withheld,
        Kind::UnknownTool,
        Kind::TaskNotFound,
        Kind::AdmissionClosed,
        Kind::Unauthenticated,
        Kind::OriginForbidden,
        Kind::EndpointNotFound,
    ]
    .into_iter()
    .any(is)
    {
        Outcome::Denied
    } else {
        Outcome::RpcError
    }
}
