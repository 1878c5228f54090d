//! The pod token of folder mode: random, made once, kept in the state folder.

use rand::TryRng as _;
use rand::rngs::SysRng;
use subtle::ConstantTimeEq as _;

use crate::state::{self, Access, StateDir};

/// The one token.
pub struct PodToken(String);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot keep the pod token")]
    State(#[from] state::Error),
    #[error("the system gives no random bytes")]
    Random(#[source] rand::rngs::SysError),
}

/// What gateways are given to prove themselves.
pub const FILE: &str = "pod.token";

const BYTES: usize = 32;

// === impl Error ===

impl Error {
    /// Closed word for metrics and logs.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::State(_) => "state",
            Self::Random(_) => "random",
        }
    }
}

// === impl PodToken ===

impl PodToken {
    /// The kept token, or a new one when there is none or the kept one is too short to be ours.
    pub fn load_or_make(state: &StateDir) -> Result<Self, Error> {
        if let Some(kept) = state.read_text(FILE)? {
            let kept = kept.trim();
            if kept.len() >= BYTES {
                return Ok(Self(kept.to_owned()));
            }
        }
        let mut bytes = [0; BYTES];
        SysRng.try_fill_bytes(&mut bytes).map_err(Error::Random)?;
        let token = hangar_wire::hex(&bytes);
        state.write(FILE, token.as_bytes(), Access::Private)?;
        Ok(Self(token))
    }

    /// Takes the same time wherever the two differ.
    pub fn matches(&self, presented: &str) -> bool {
        self.0.as_bytes().ct_eq(presented.as_bytes()).into()
    }
}

impl std::fmt::Debug for PodToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PodToken([redacted])")
    }
}
