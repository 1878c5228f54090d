//! A governance section: what is read, decided and committed about one task.
//!
//! Guarantees: runs to its end when its client is gone; nothing is answered before the decision is
//! durable; effects come after the commit; an entry that moved meanwhile is read and decided again.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hangar_ledger::{
    Change, Command, Decision, Detail, Effect, Entry, Event, Owner, Refusal, TaskId, TaskKey,
};
use hangar_relay::headers;
use hangar_relay::method::Method;
use hangar_relay::rewrite::{self, MetaOf, Own};
use hangar_relay::wire::{Kind, WireError};
use hangar_store::{Error as StoreError, Scope, Transaction, Whose};
use hangar_wire::{AnsweredBy, Visibility};
use serde_json::value::RawValue;

use super::Answer;
use crate::config::active::Caller;
use crate::config::{Active, Grant, Upstream};
use crate::gateway::Gateway;
use crate::http::rescue;
use crate::upstream::exchange::{self, Exchange, Failure};

/// The owned part of a request.
#[derive(Clone, Debug)]
pub struct Section {
    pub gateway: Arc<Gateway>,
    pub active: Arc<Active>,
    pub caller: Caller,
    pub grant: Arc<Grant>,
    pub upstream: Arc<Upstream>,
    /// Id of the client's request.
    pub id: Box<RawValue>,
    pub correlation: String,
}

/// An entry that the caller may see.
#[derive(Debug)]
pub struct Found {
    pub entry: Entry,
    pub role: Role,
}

/// What the caller may do with a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Reads and cancels.
    Reader,
    /// Reads, cancels and answers questions.
    ReaderWhoAnswers,
    /// Sees status and questions, and answers them.
    Answerer,
}

/// Why nothing was decided.
#[derive(Debug)]
pub enum Undecided {
    Refused(Refusal),
    Store(StoreError),
}

/// How often a decision is taken again because the entry moved.
const ATTEMPTS: usize = 16;
/// Due rows that a registration retires first.
const RETIRE_AT_ONCE: usize = 64;
/// A cancel is sent once; this bounds it.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(10);

// === impl Section ===

impl Section {
    /// Runs a section apart from the connection that asked for it.
    pub async fn detached<F>(self, work: impl FnOnce(Self) -> F + Send) -> Result<Answer, WireError>
    where
        F: Future<Output = Result<Answer, WireError>> + Send + 'static,
    {
        let gateway = Arc::clone(&self.gateway);
        let section = gateway.sections.spawn(work(self));
        section.await.unwrap_or_else(|error| {
            tracing::error!(%error, "a governance section ended early");
            Err(Kind::Internal.into())
        })
    }

    pub fn key(&self, task: &TaskId) -> TaskKey {
        TaskKey::new(self.upstream.uid.clone(), task.clone())
    }

    pub fn tenant_label(&self) -> &str {
        &self.caller.tenant.object.tenant
    }

    /// The entry of this task, where the caller may see it. Foreign and absent are one miss.
    pub async fn find(&self, method: Method, task: &TaskId) -> Result<Found, WireError> {
        let scope = self.scope();
        let found = self
            .gateway
            .store
            .lookup(&scope, &self.upstream.uid, task)
            .await
            .map_err(|error| self.store_failed(&error))?
            .and_then(|entry| {
                let role = self.role(&entry.birth.owner)?;
                Some(Found { entry, role })
            });
        found.ok_or_else(|| {
            self.count_refusal(method, Kind::TaskNotFound.reason());
            Kind::TaskNotFound.into()
        })
    }

    /// Decides what the passing of time has decided already; none when the task is gone by it.
    pub async fn at_this_time(&self, entry: Entry) -> Result<Option<Entry>, WireError> {
        if self.gateway.store.now() < entry.due_at() {
            return Ok(Some(entry));
        }
        match self
            .decide(&entry.key.clone(), Some(entry), vec![Command::Due])
            .await
        {
            Ok(entry) => Ok(entry.map(|(entry, _)| entry)),
            Err(undecided) => Err(self.undecided(undecided)),
        }
    }

    /// Takes one decision and makes it durable; answers the entry after it, none when it is gone.
    pub async fn decide(
        &self,
        key: &TaskKey,
        before: Option<Entry>,
        commands: Vec<Command>,
    ) -> Result<Option<(Entry, Vec<Effect>)>, Undecided> {
        self.decide_within(key, before, commands, None).await
    }

    /// The same, refused where the tenant has `quota` live tasks.
    pub async fn decide_within(
        &self,
        key: &TaskKey,
        mut before: Option<Entry>,
        commands: Vec<Command>,
        quota: Option<u64>,
    ) -> Result<Option<(Entry, Vec<Effect>)>, Undecided> {
        let store = &self.gateway.store;
        let birth = before.as_ref().map(|entry| entry.birth.clone());
        for _ in 0..ATTEMPTS {
            let decision =
                hangar_ledger::decide(key, before.as_ref(), commands.clone(), store.now())
                    .map_err(Undecided::Refused)?;
            match self.keep(key, before.as_ref(), &decision, quota).await {
                Ok(()) => return Ok(self.act(key, before, decision)),
                Err(StoreError::Conflict) => {
                    before = store.get(key).await.map_err(Undecided::Store)?;
                    // Under the same key another task may have been born meanwhile: not ours.
                    let moved_on = birth.is_some()
                        && before.as_ref().map(|entry| &entry.birth) != birth.as_ref();
                    if moved_on {
                        return Ok(None);
                    }
                }
                Err(error) => {
                    self.store_failed(&error);
                    return Err(Undecided::Store(error));
                }
            }
        }
        Err(Undecided::Store(StoreError::Conflict))
    }

    /// Retires what time has ended of the caller's tenant, so that a quota never counts it.
    pub async fn retire_due(&self) -> Result<(), WireError> {
        let store = &self.gateway.store;
        let whose = Whose::Live(self.caller.owner.tenant.clone());
        let due = store
            .due(&whose, store.now(), RETIRE_AT_ONCE)
            .await
            .map_err(|error| self.store_failed(&error))?;
        for key in due {
            let entry = store
                .get(&key)
                .await
                .map_err(|error| self.store_failed(&error))?;
            if let Some(entry) = entry
                && let Err(undecided) = self.decide(&key, Some(entry), vec![Command::Due]).await
            {
                return Err(self.undecided(undecided));
            }
        }
        Ok(())
    }

    /// One exchange with the upstream for this section.
    pub async fn exchange(
        &self,
        method: Method,
        task: &TaskId,
        body: Bytes,
        id: &RawValue,
        most: Duration,
    ) -> Result<Bytes, Failure> {
        let _permit = self.upstream.runtime.permit.take().ok_or(Failure::Busy)?;
        let timer = self
            .gateway
            .metrics
            .upstream_seconds
            .with_label_values(&[self.tenant_label()])
            .start_timer();
        let reply = exchange::send(Exchange {
            http: &self.active.http,
            upstream: &self.upstream,
            headers: headers::upstream(method, Some(task.as_str())),
            body,
            id,
            deadline: exchange::deadline(&self.upstream, most),
        })
        .await;
        timer.observe_duration();
        reply
    }

    /// Sends `tasks/cancel` once, best effort, without anybody waiting for it.
    pub fn cancel_upstream(&self, task: TaskId) {
        let section = self.clone();
        self.gateway.sections.spawn(async move {
            let id = rewrite::numeric_id(1);
            let own = Own {
                id: &id,
                meta: MetaOf::Gateway,
            };
            let body = own.tasks_cancel(task.as_str()).into();
            // No permit: a cancel must get through when the upstream is busy.
            let sent = exchange::send(Exchange {
                http: &section.active.http,
                upstream: &section.upstream,
                headers: headers::upstream(Method::TasksCancel, Some(task.as_str())),
                body,
                id: &id,
                deadline: exchange::deadline(&section.upstream, CANCEL_TIMEOUT),
            })
            .await;
            if let Err(failure) = sent {
                let (correlation, upstream) = (&section.correlation, &section.upstream.label);
                tracing::warn!(
                    correlation,
                    upstream,
                    reason = failure.reason(),
                    "cancel did not reach the upstream"
                );
            }
        });
    }

    pub fn count_refusal(&self, method: Method, reason: &str) {
        self.gateway
            .metrics
            .refusals
            .with_label_values(&[
                self.tenant_label(),
                &self.upstream.label,
                method.as_str(),
                reason,
            ])
            .inc();
    }

    /// What a client is told when nothing was decided.
    pub fn undecided(&self, undecided: Undecided) -> WireError {
        match undecided {
            Undecided::Store(error) => rescue::store(&error),
            Undecided::Refused(Refusal::Gone | Refusal::Missing) => Kind::TaskNotFound.into(),
            Undecided::Refused(Refusal::Collision | Refusal::Malformed | Refusal::Regression) => {
                Kind::UpstreamProtocol.into()
            }
        }
    }

    /// Logs and counts a store error; returns the answer to it.
    pub fn store_failed(&self, error: &StoreError) -> WireError {
        let reason = error.reason();
        self.gateway
            .metrics
            .ledger_errors
            .with_label_values(&[reason])
            .inc();
        tracing::error!(
            correlation = self.correlation,
            reason,
            error = crate::chain(error),
            "store failed: the call fails closed"
        );
        rescue::store(error)
    }

    /// Where the policy lets others of the tenant see or answer, the whole tenant is looked
    /// through and the role decides; otherwise only the caller's own.
    fn scope(&self) -> Scope {
        let grant = &self.grant.object;
        let answered_by_owner = grant
            .consent
            .as_ref()
            .is_none_or(|consent| consent.answered_by == AnsweredBy::Owner);
        match (&self.caller.owner.tenant, grant.visibility) {
            (Some(tenant), Visibility::Tenant) => Scope::Tenant(tenant.clone()),
            (Some(tenant), Visibility::Owner) if !answered_by_owner => {
                Scope::Tenant(tenant.clone())
            }
            _ => Scope::Owner(self.caller.owner.clone()),
        }
    }

    fn role(&self, owner: &Owner) -> Option<Role> {
        let caller = &self.caller.owner;
        let owns = owner.tenant == caller.tenant
            && (owner.principal.is_none() || owner.principal == caller.principal);
        let grant = &self.grant.object;
        let reads = owns || grant.visibility == Visibility::Tenant;
        let answers = grant
            .consent
            .as_ref()
            .is_some_and(|consent| match &consent.answered_by {
                AnsweredBy::Owner => owns,
                AnsweredBy::Tenant => true,
                AnsweredBy::Principals { principals } => caller
                    .principal
                    .as_ref()
                    .is_some_and(|principal| principals.contains(principal.as_str())),
            });
        match (reads, answers) {
            (true, true) => Some(Role::ReaderWhoAnswers),
            (true, false) => Some(Role::Reader),
            (false, true) => Some(Role::Answerer),
            (false, false) => None,
        }
    }

    async fn keep(
        &self,
        key: &TaskKey,
        before: Option<&Entry>,
        decision: &Decision,
        quota: Option<u64>,
    ) -> Result<(), StoreError> {
        let Some(transaction) = Transaction::of(key, before, decision) else {
            return Ok(());
        };
        if matches!(decision.change, Change::WriteBehind(_)) {
            self.gateway.store.write_behind(transaction);
            return Ok(());
        }
        let transaction = match quota {
            Some(quota) => transaction.with_quota(quota),
            None => transaction,
        };
        let timer = self.gateway.metrics.commit_seconds.start_timer();
        let kept = self.gateway.store.commit(transaction).await;
        timer.observe_duration();
        kept
    }

    fn act(
        &self,
        key: &TaskKey,
        before: Option<Entry>,
        decision: Decision,
    ) -> Option<(Entry, Vec<Effect>)> {
        let Decision {
            change,
            events,
            effects,
        } = decision;
        let after = match change {
            Change::Unchanged => before,
            Change::WriteBehind(entry) | Change::Commit(entry) => Some(*entry),
            Change::Purge => None,
        };
        for event in &events {
            self.count_event(event, after.as_ref());
        }
        for effect in &effects {
            match effect {
                Effect::CancelUpstream => self.cancel_upstream(key.task.clone()),
                Effect::InputRequired => {
                    let labels = [self.tenant_label(), &self.upstream.label];
                    self.gateway
                        .metrics
                        .input_required
                        .with_label_values(&labels)
                        .inc();
                }
                // The caller of the decision relays: it holds the answers.
                Effect::Relay { .. } => {}
            }
        }
        after.map(|entry| (entry, effects))
    }

    fn count_event(&self, event: &Event, entry: Option<&Entry>) {
        let metrics = &self.gateway.metrics;
        let (tenant, upstream) = (self.tenant_label(), self.upstream.label.as_str());
        metrics
            .events
            .with_label_values(&[event.detail.as_str()])
            .inc();
        match &event.detail {
            Detail::TaskCreated {} => {}
            Detail::TaskConsentDecided { verdict, .. } => metrics
                .consent_decisions
                .with_label_values(&[tenant, upstream, verdict.as_str(), verdict.reason()])
                .inc(),
            Detail::TaskCompleted {} => {
                metrics
                    .tasks_completed
                    .with_label_values(&[tenant, upstream])
                    .inc();
            }
            Detail::TaskFailed { reason } => metrics
                .tasks_failed
                .with_label_values(&[tenant, upstream, reason.as_str()])
                .inc(),
            Detail::TaskCancelled {} => {
                metrics
                    .tasks_cancelled
                    .with_label_values(&[tenant, upstream])
                    .inc();
            }
            Detail::DigestMismatchInTask { .. } => {
                metrics
                    .digest_drift
                    .with_label_values(&[tenant, upstream])
                    .inc();
            }
        }
        if let Some(entry) = entry.filter(|_| event.detail.is_terminal()) {
            #[allow(clippy::cast_precision_loss)] // an age in milliseconds is far below 2^52
            let age = event.at.since(entry.relayed_at) as f64 / 1000.0;
            metrics.task_age.with_label_values(&[tenant]).observe(age);
        }
    }
}

// === impl Role ===

impl Role {
    pub fn answers(self) -> bool {
        match self {
            Self::ReaderWhoAnswers | Self::Answerer => true,
            Self::Reader => false,
        }
    }

    pub fn reads(self) -> bool {
        match self {
            Self::ReaderWhoAnswers | Self::Reader => true,
            Self::Answerer => false,
        }
    }
}
