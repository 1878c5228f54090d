//! The leadership term: a number that only goes up and is kept outside of the process.

pub mod cluster;
pub mod folder;

use futures::future::BoxFuture;
use hangar_wire::Epoch;

/// Keeps the epoch. A Lease holder's term fits behind this as well.
pub trait EpochStore: Send + Sync + std::fmt::Debug {
    /// Takes a new epoch for this process.
    ///
    /// Guarantees: the result is higher than every earlier result of this store and at least
    /// `at_least`; it is durable when this returns.
    fn raise(&self, at_least: Epoch) -> BoxFuture<'_, Result<Epoch, Error>>;
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot keep the epoch in the state folder")]
    State(#[from] crate::state::Error),
    #[error(
        "state file `{file}` holds `{found}` where a number is expected; delete it to start anew"
    )]
    NotANumber { file: &'static str, found: String },
    #[error("cannot keep the epoch in ConfigMap {name}")]
    Cluster {
        name: &'static str,
        #[source]
        source: Box<kube::Error>,
    },
    #[error("ConfigMap {name} was changed by somebody else at each of {attempts} attempts")]
    Contended { name: &'static str, attempts: u32 },
    #[error("there is no epoch after {}", u64::MAX)]
    Exhausted,
}

/// The epoch to take after `kept`.
fn next(kept: Option<Epoch>, at_least: Epoch) -> Result<Epoch, Error> {
    let after = match kept {
        Some(Epoch(kept)) => kept.checked_add(1).ok_or(Error::Exhausted)?,
        None => 1,
    };
    Ok(Epoch(after).max(at_least))
}

// === impl Error ===

impl Error {
    /// Closed word for metrics and logs.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::State(_) => "state",
            Self::NotANumber { .. } => "not_a_number",
            Self::Cluster { .. } => "cluster",
            Self::Contended { .. } => "contended",
            Self::Exhausted => "exhausted",
        }
    }
}

#[cfg(test)]
mod tests;
