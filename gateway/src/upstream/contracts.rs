//! Tool contracts of one upstream, as a `tools/list` showed them.
//!
//! Guarantees: [`Contracts::since`] answers from a fetch that began at or after the instant it is
//! given, so a caller that passes the moment when an answer arrived is never served an older list.
//! Any number of callers share one fetch. A fetch runs detached: a caller that leaves does not end
//! it for the others.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hangar_relay::contract::{Listing, Tools};
use hangar_relay::envelope::{self, Notification, Reply};
use hangar_relay::headers;
use hangar_relay::listen::List;
use hangar_relay::method::Method;
use hangar_relay::rewrite::{self, MetaOf, Own};
use hangar_relay::task;
use tokio::sync::watch;

use super::client::Http;
use super::exchange::{self, Exchange, Failure, Received, is_credential};
use crate::config::Upstream;

/// The latest list, and the fetch that is on its way.
#[derive(Debug, Default)]
pub struct Contracts {
    state: Mutex<State>,
}

/// All tools of an upstream at one moment.
#[derive(Debug)]
pub struct Catalogue {
    /// When the first request of the fetch was sent.
    pub began: Instant,
    pub tools: Arc<Tools>,
}

/// Why no list could be had.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// A cause of ours: nothing is known of the contract, and nothing is to be concluded.
    #[error("tools/list was not asked")]
    Ours(#[source] Arc<Failure>),
    /// The upstream failed, timed out or broke off.
    #[error("tools/list failed at the upstream")]
    Theirs(#[source] Arc<Failure>),
    /// The upstream answered an error or a list that cannot be read.
    #[error("tools/list of the upstream cannot be read: {0}")]
    Unreadable(&'static str),
    /// Only a call of a tool makes one.
    #[error("tools/list of the upstream became a task")]
    Task,
}

#[derive(Debug, Default)]
struct State {
    latest: Option<Arc<Catalogue>>,
    /// When the upstream last said that its list changed: nothing older is remembered.
    changed: Option<Instant>,
    flight: Option<Flight>,
}

#[derive(Clone, Debug)]
struct Flight {
    began: Instant,
    landed: watch::Receiver<Option<Fetched>>,
}

type Fetched = Result<Arc<Catalogue>, Error>;

/// Pages of one list.
const MAX_PAGES: usize = 64;
const FETCH_TIMEOUT: Duration = Duration::from_secs(2);

// === impl Contracts ===

impl Contracts {
    /// A list at most `max_age` old.
    pub async fn within(
        &self,
        upstream: &Arc<Upstream>,
        http: &Http,
        max_age: Duration,
    ) -> Fetched {
        let now = Instant::now();
        let oldest = now.checked_sub(max_age).unwrap_or(now);
        let oldest = self.lock().changed.map_or(oldest, |at| at.max(oldest));
        if let Some(latest) = self.latest().filter(|latest| latest.began >= oldest) {
            return Ok(latest);
        }
        self.since(upstream, http, oldest).await
    }

    /// A list whose fetch began at `not_before` or later. Where the upstream told of a change while it
    /// was on its way, it is asked for once more.
    pub async fn since(
        &self,
        upstream: &Arc<Upstream>,
        http: &Http,
        mut not_before: Instant,
    ) -> Fetched {
        let mut is_again = false;
        loop {
            let flight = self.board(upstream, http);
            let mut landed = flight.landed.clone();
            let outcome = match landed.wait_for(Option::is_some).await {
                Ok(outcome) => outcome.clone(),
                // The fetch ended without an answer: the next round starts another.
                Err(_) => None,
            };
            if flight.began < not_before {
                continue;
            }
            let changed = self.lock().changed.filter(|at| *at > flight.began);
            match (changed, outcome) {
                // Once, so that one which tells of a change with every list is not asked for ever.
                (Some(changed), Some(Ok(_))) if !is_again => {
                    (is_again, not_before) = (true, changed);
                }
                (_, Some(outcome)) => return outcome,
                (_, None) => {}
            }
        }
    }

    /// What the upstream tells on the exchange of some request.
    pub fn hear(&self, notification: &Notification<'_>) {
        if notification.method == List::Tools.method() {
            self.expire();
        }
    }

    /// Takes no list for true that was begun before now.
    pub fn expire(&self) {
        self.lock().changed = Some(Instant::now());
    }

    /// The list that was fetched last.
    pub(super) fn latest(&self) -> Option<Arc<Catalogue>> {
        self.lock().latest.clone()
    }

    /// Joins the fetch on its way, or starts one.
    fn board(&self, upstream: &Arc<Upstream>, http: &Http) -> Flight {
        let mut state = self.lock();
        if let Some(flight) = &state.flight
            && flight.landed.borrow().is_none()
            && flight.landed.has_changed().is_ok()
        {
            return flight.clone();
        }
        let began = Instant::now();
        let (land, landed) = watch::channel(None);
        let (upstream, http) = (Arc::clone(upstream), http.clone());
        tokio::spawn(async move {
            let outcome = fetch(&upstream, &http, began).await;
            let contracts = &upstream.runtime.contracts;
            if let Ok(catalogue) = &outcome {
                contracts.lock().latest = Some(Arc::clone(catalogue));
            }
            land.send_replace(Some(outcome));
        });
        let flight = Flight { began, landed };
        state.flight = Some(flight.clone());
        flight
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Error ===

impl Error {
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Ours(failure) | Self::Theirs(failure) => failure.reason(),
            Self::Unreadable(reason) => reason,
            Self::Task => "task",
        }
    }

    fn of(failure: Failure) -> Self {
        if failure.is_ours() {
            Self::Ours(Arc::new(failure))
        } else {
            Self::Theirs(Arc::new(failure))
        }
    }
}

async fn fetch(upstream: &Upstream, http: &Http, began: Instant) -> Fetched {
    let deadline = tokio::time::Instant::now() + FETCH_TIMEOUT;
    let earlier = upstream.runtime.contracts.latest();
    let mut list = Listing::after(earlier.map(|latest| Arc::clone(&latest.tools)));
    let id = rewrite::numeric_id(1);
    let mut cursor: Option<String> = None;
    let most = upstream.object.limits.max_response_bytes;
    let mut size = 0;
    for _ in 0..MAX_PAGES {
        let own = Own {
            id: &id,
            meta: MetaOf::Gateway,
        };
        let body = own.tools_list(cursor.as_deref());
        let exchange = Exchange {
            http,
            upstream,
            headers: headers::upstream(Method::ToolsList, None),
            body: Bytes::from(body),
            id: &id,
            owner: None,
            room: http.own(),
            deadline,
        };
        let Received { status, message } = exchange::send(exchange).await.map_err(Error::of)?;
        // All pages together stay within the bound of one answer.
        size += message.len() as u64;
        if size > most {
            return Err(Error::of(Failure::TooLarge { most }));
        }
        let page = match envelope::parse_reply(&message, &id) {
            Ok((Reply::Result(page), _)) => page,
            Ok((Reply::Error(_), _)) if is_credential(status) => {
                return Err(Error::of(Failure::Status(status)));
            }
            Ok((Reply::Error(_), _)) => return Err(Error::Unreadable("rpc_error")),
            Err(error) => return Err(Error::Unreadable(error.reason())),
        };
        if task::claims_one(page) {
            return Err(Error::Task);
        }
        cursor = list
            .push(page)
            .map_err(|error| Error::Unreadable(error.reason()))?;
        if cursor.is_none() {
            return Ok(Arc::new(Catalogue {
                began,
                tools: list.finish(),
            }));
        }
    }
    Err(Error::Unreadable("too_many_pages"))
}
