//! Notifications before a reply: which of them are the client's.

use serde_json::value::RawValue;

use crate::envelope::Notification;
use crate::json::{self, Members};
use crate::params::Meta;

/// What a request asked to be told of.
#[derive(Clone, Copy)]
pub struct Wanted<'a> {
    token: Option<&'a RawValue>,
    logs: bool,
}

const PROGRESS: &str = "notifications/progress";
const MESSAGE: &str = "notifications/message";

// === impl Wanted ===

impl<'a> Wanted<'a> {
    pub fn of(meta: &Meta<'a>) -> Self {
        Self {
            token: meta.progress_token,
            logs: meta.log_level.is_some(),
        }
    }

    /// The token that the client named its progress by.
    pub fn token(&self) -> Option<&'a RawValue> {
        self.token
    }

    pub fn is_nothing(&self) -> bool {
        self.token.is_none() && !self.logs
    }

    /// Whether a notification on the exchange of this request goes on to its client: progress under
    /// the request's own token, messages where it named a level. Nothing else is related to it.
    pub fn admits(&self, notification: &Notification<'_>) -> bool {
        match &*notification.method {
            MESSAGE => self.logs,
            PROGRESS => self.is_own(notification.params),
            _ => false,
        }
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
            .field("logs", &self.logs)
            .finish()
    }
}

#[cfg(test)]
mod tests;
