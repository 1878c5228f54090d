//! Notifications before a reply: which of them are the client's.

use serde_json::value::RawValue;

use crate::envelope::Notification;
use crate::json::{self, Members};
use crate::params::Meta;

/// What a request asked to be told of.
#[derive(Clone, Copy)]
pub struct Wanted<'a> {
    token: Option<&'a RawValue>,
    /// Position in [`LEVELS`].
    least: Option<usize>,
}

const PROGRESS: &str = "notifications/progress";
/// The levels of messages, the least severe first (RFC 5424, as the protocol names them).
const LEVELS: [&str; 8] = [
    "debug",
    "info",
    "notice",
    "warning",
    "error",
    "critical",
    "alert",
    "emergency",
];
const MESSAGE: &str = "notifications/message";

// === impl Wanted ===

impl<'a> Wanted<'a> {
    pub fn of(meta: &Meta<'a>) -> Self {
        Self {
            token: meta.progress_token,
            least: meta.log_level.as_deref().and_then(level),
        }
    }

    /// The token that the client named its progress by.
    pub fn token(&self) -> Option<&'a RawValue> {
        self.token
    }

    pub fn is_nothing(&self) -> bool {
        self.token.is_none() && self.least.is_none()
    }

    /// Whether a notification on the exchange of this request goes on to its client: progress under
    /// the request's own token, messages of the level that it named or a more severe one. Nothing else
    /// is related to it.
    pub fn admits(&self, notification: &Notification<'_>) -> bool {
        match &*notification.method {
            MESSAGE => self.is_severe(notification.params),
            PROGRESS => self.is_own(notification.params),
            _ => false,
        }
    }

    /// Upstreams of 2025-11-25 know of no level of one request, and say all they have to say.
    fn is_severe(&self, params: Option<&RawValue>) -> bool {
        let members = params.and_then(|params| Members::of(params).ok());
        let members = members.filter(|members| members.guard(&["level"]).is_ok());
        let told = members.and_then(|members| members.string("level"));
        let told = told.as_deref().and_then(level);
        matches!((told, self.least), (Some(told), Some(least)) if told >= least)
    }

    fn is_own(&self, params: Option<&RawValue>) -> bool {
        let (Some(own), Some(params)) = (self.token, params) else {
            return false;
        };
        let Ok(members) = Members::of(params) else {
            return false;
        };
        // A client that matches names without regard to case must not read another token.
        if members.guard(&["progressToken"]).is_err() {
            return false;
        }
        members.get("progressToken").is_some_and(|told| {
            let same_text =
                || json::string(own).is_some() && json::string(own) == json::string(told);
            own.get() == told.get() || same_text()
        })
    }
}

impl std::fmt::Debug for Wanted<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wanted")
            .field("progress", &self.token.is_some())
            .field("logs", &self.least)
            .finish()
    }
}

fn level(name: &str) -> Option<usize> {
    LEVELS.iter().position(|level| *level == name)
}

#[cfg(test)]
mod tests;
