//! A governance section: work about one task that ends whether or not its client still listens.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hangar_ledger::{Entry, Refusal, TaskId, TaskKey};
use hangar_relay::headers;
use hangar_relay::method::Method;
use hangar_relay::wire::{Kind, WireError};
use hangar_store::{Error as StoreError, Whose};
use serde_json::value::RawValue;

use super::Answer;
use super::governor::{Governor, Undecided};
use super::persistent::Persistent;
use crate::config::active::Caller;
use crate::config::{Grant, Upstream};
use crate::http::rescue;
use crate::upstream::exchange::{self, Exchange, Failure, Received, is_credential};

/// The owned part of a request.
#[derive(Clone, Debug)]
pub struct Section {
    pub governor: Governor,
    pub caller: Caller,
    pub grant: Arc<Grant>,
    pub upstream: Arc<Upstream>,
    /// Id of the client's request.
    pub id: Box<RawValue>,
}

// === impl Section ===

impl Section {
    /// Runs a section to its end, whatever becomes of the connection that asked for it.
    pub async fn detached<F>(self, work: impl FnOnce(Self) -> F + Send) -> Result<Answer, WireError>
    where
        F: Future<Output = Result<Answer, WireError>> + Send + 'static,
    {
        let gateway = Arc::clone(&self.governor.gateway);
        let section = Persistent::new(&gateway.sections, work(self));
        section.await.unwrap_or_else(|error| {
            tracing::error!(%error, "a governance section ended early");
            Err(Kind::Internal.into())
        })
    }

    pub fn key(&self, task: &TaskId) -> TaskKey {
        TaskKey::new(self.upstream.uid.clone(), task.clone())
    }

    pub fn correlation(&self) -> &str {
        &self.governor.correlation
    }

    pub fn tenant_label(&self) -> &str {
        &self.caller.tenant.object.tenant
    }

    /// Decides what the passing of time, or the end of its upstream, has decided already; none:
    /// nothing is left.
    pub async fn at_this_time(&self, entry: Entry) -> Result<Option<Entry>, WireError> {
        let entry = self.governor.at_this_time(entry).await;
        entry.map_err(Undecided::into_answer)
    }

    /// Retires what time has ended of the client's tenant.
    pub async fn retire_due(&self) -> Result<(), WireError> {
        let whose = Whose::Live(self.caller.owner.tenant.clone());
        let retired = self.governor.retire_due(&whose).await;
        retired.map_err(Undecided::into_answer)
    }

    /// One exchange with the upstream about a task, as its owner's, whoever may ask about it.
    pub async fn exchange(
        &self,
        method: Method,
        entry: &Entry,
        body: Bytes,
        most: Duration,
    ) -> Result<Bytes, Failure> {
        let task = &entry.key.task;
        let places = &self.upstream.runtime.places;
        let place = places.take(self.tenant_label()).ok_or(Failure::Busy);
        let _place = place.inspect_err(|failure| self.upstream_failed(failure.reason()))?;
        let seconds = &self.governor.gateway.metrics.upstream_seconds;
        let timer = seconds
            .with_label_values(&[self.tenant_label()])
            .start_timer();
        let reply = exchange::send(Exchange {
            http: &self.governor.active.http,
            upstream: &self.upstream,
            headers: headers::upstream(method, Some(task.as_str())),
            body,
            id: &self.id,
            owner: Some(&entry.birth.owner),
            room: &self.caller.tenant.room,
            deadline: exchange::deadline(&self.upstream, most),
        })
        .await;
        timer.observe_duration();
        let reply = reply.inspect_err(|failure| self.upstream_failed(failure.reason()));
        let Received { status, message } = reply?;
        // Whatever such an answer says, it is about what the gateway presents and not about a task.
        if is_credential(status) {
            let failure = Failure::Status(status);
            self.upstream_failed(failure.reason());
            return Err(failure);
        }
        Ok(message)
    }

    pub fn upstream_failed(&self, reason: &str) {
        let metrics = &self.governor.gateway.metrics;
        metrics.upstream_failed(self.tenant_label(), &self.grant.label, reason);
    }

    pub fn count_refusal(&self, method: Method, reason: &str) {
        let labels = [
            self.tenant_label(),
            &self.grant.label,
            method.as_str(),
            reason,
        ];
        let refusals = &self.governor.gateway.metrics.refusals;
        refusals.with_label_values(&labels).inc();
    }

    /// Counts and logs a store error; returns the answer to it.
    pub fn store_failed(&self, error: &StoreError) -> WireError {
        self.governor.store_failed(error);
        rescue::store(error)
    }
}

// === impl Undecided ===

impl Undecided {
    /// What a client is told.
    pub fn into_answer(self) -> WireError {
        match self {
            Self::Store(error) => rescue::store(&error),
            Self::Refused(Refusal::Gone | Refusal::Missing) => Kind::TaskNotFound.into(),
            Self::Refused(Refusal::Collision | Refusal::Malformed | Refusal::Regression) => {
                Kind::UpstreamProtocol.into()
            }
        }
    }
}
