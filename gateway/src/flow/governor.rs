//! Decisions about tasks: taken on what the store holds, made durable, then acted upon.
//!
//! Guarantees: nothing is answered before its decision is durable; effects come after the commit; a
//! decision taken on an entry that moved meanwhile is taken again, also one that changes nothing.
//! Caveats: an effect on the upstream is best effort and sent to the entry's own upstream, whatever
//! request brought the decision about.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use hangar_ledger::{
    Birth, Cause, Change, Command, Decision, Detail, Effect, Entry, Event, Owner, Refusal, TaskId,
    TaskKey,
};
use hangar_relay::envelope;
use hangar_relay::headers;
use hangar_relay::method::Method;
use hangar_relay::rewrite::{self, MetaOf, Own};
use hangar_store::{Error as StoreError, Transaction, Whose};
use hangar_wire::Term;

use super::cancel;
use crate::config::{Active, OTHER, Upstream};
use crate::gateway::Gateway;
use crate::upstream::NoPlace;
use crate::upstream::exchange::{self, Exchange};

/// Decides under one configuration.
#[derive(Clone, Debug)]
pub struct Governor {
    pub gateway: Arc<Gateway>,
    pub active: Arc<Active>,
    pub correlation: String,
}

/// What a decision came to; the entry is none when it is gone by it.
#[derive(Debug)]
pub struct Decided {
    pub entry: Option<Entry>,
    pub effects: Vec<Effect>,
}

/// Why nothing was decided.
#[derive(Debug)]
pub enum Undecided {
    Refused(Refusal),
    Store(StoreError),
}

/// How often a decision is taken again because the entry moved.
const ATTEMPTS: usize = 16;
/// Due entries that are retired with one look.
const PAGE: usize = 64;
/// Looks for due entries at once.
const PAGES: usize = 64;
/// A cancel is sent once; this bounds it.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(10);

// === impl Governor ===

impl Governor {
    /// Takes one decision and makes it durable.
    pub async fn decide(
        &self,
        key: &TaskKey,
        before: Option<Entry>,
        commands: Vec<Command>,
    ) -> Result<Decided, Undecided> {
        self.decide_within(key, before, commands, None).await
    }

    /// The same, refused where the tenant has `quota` live tasks.
    pub async fn decide_within(
        &self,
        key: &TaskKey,
        mut before: Option<Entry>,
        commands: Vec<Command>,
        quota: Option<u64>,
    ) -> Result<Decided, Undecided> {
        let store = &self.gateway.store;
        // A registration is about whatever holds the key now; all else is about this one task.
        let registers = commands
            .iter()
            .any(|command| matches!(command, Command::Register { .. }));
        let birth = before
            .as_ref()
            .filter(|_| !registers)
            .map(|entry| entry.birth.clone());
        for _ in 0..ATTEMPTS {
            let now = store.now();
            let decision = hangar_ledger::decide(key, before.as_ref(), commands.clone(), now)
                .map_err(Undecided::Refused)?;
            match self.keep(key, before.as_ref(), &decision, quota).await {
                Ok(()) => return Ok(self.act(key, before, decision)),
                Err(StoreError::Conflict) => {
                    before = store.get(key).await.map_err(|e| self.failed(e))?;
                    // Under the same key another task may have been born meanwhile: not ours.
                    let now_born = before.as_ref().map(|entry| &entry.birth);
                    if birth.is_some() && now_born != birth.as_ref() {
                        return Ok(Decided::gone());
                    }
                }
                Err(error) => return Err(self.failed(error)),
            }
        }
        Err(self.failed(StoreError::Conflict))
    }

    /// Decides what the passing of time, or the end of its upstream, has decided already; none: the
    /// entry is gone by it.
    pub async fn at_this_time(&self, entry: Entry) -> Result<Option<Entry>, Undecided> {
        let cause = self.cause(&entry.key, entry.birth.term);
        let command = match cause.filter(|_| entry.is_live()) {
            Some(cause) => Command::Fail { cause },
            None if self.gateway.store.now() < entry.due_at() => return Ok(Some(entry)),
            None => Command::Due,
        };
        let key = entry.key.clone();
        let decided = self.decide(&key, Some(entry), vec![command]).await?;
        Ok(decided.entry)
    }

    /// Retires what time has ended, so that a quota never counts it and a terminal entry does not
    /// outlive its retention. Each entry is decided like at any access. One that cannot be read stays
    /// due, and stops neither the others nor a birth.
    pub async fn retire_due(&self, whose: &Whose) -> Result<(), Undecided> {
        let store = &self.gateway.store;
        let mut unreadable = BTreeSet::new();
        for _ in 0..PAGES {
            let limit = PAGE + unreadable.len();
            let mut due = store
                .due(whose, store.now(), limit)
                .await
                .map_err(|e| self.failed(e))?;
            let more = due.len() == limit;
            due.retain(|key| !unreadable.contains(key));
            for key in due {
                match store.get(&key).await {
                    Ok(Some(entry)) => {
                        self.at_this_time(entry).await?;
                    }
                    Ok(None) => {}
                    Err(error @ StoreError::Record(_)) => {
                        self.count_error(&error);
                        unreadable.insert(key);
                    }
                    Err(error) => return Err(self.failed(error)),
                }
            }
            if !more {
                break;
            }
        }
        if !unreadable.is_empty() {
            // Not why: the error may quote what an upstream said.
            tracing::warn!(
                correlation = self.correlation,
                entries = unreadable.len(),
                "due entries cannot be read: they are passed over"
            );
        }
        Ok(())
    }

    /// Why the upstream may not be asked about a task born then.
    fn cause(&self, key: &TaskKey, born: Term) -> Option<Cause> {
        self.active.graves().cause(&key.upstream, born)
    }

    fn cancel_at(&self, key: &TaskKey, birth: &Birth) {
        // The server there now has never heard of this task.
        if self.cause(key, birth.term).is_some() {
            return;
        }
        if let Some(upstream) = self.active.upstream_by_uid(&key.upstream) {
            self.cancel(upstream, key.task.clone(), &birth.owner);
        } else {
            tracing::warn!(
                correlation = self.correlation,
                "upstream of a task is no longer configured: it is not told to stop"
            );
        }
    }

    /// Sends `tasks/cancel` once for this owner, best effort, without anybody waiting for it. What
    /// comes of it is asked, from now on and once more when the upstream has answered.
    pub fn cancel(&self, upstream: &Arc<Upstream>, task: TaskId, owner: &Owner) {
        upstream.runtime.polls.forget(owner, &task);
        let cancelling = match upstream.runtime.cancels.begin(self.tenant(owner), &task) {
            Ok(cancelling) => cancelling,
            Err(NoPlace::Begun) => return,
            Err(NoPlace::Full) => return self.cancel_failed(upstream, owner, "busy"),
        };
        let (governor, upstream, owner) = (self.clone(), Arc::clone(upstream), owner.clone());
        self.gateway.sections.spawn(async move {
            let _turn = cancelling.turn().await;
            let id = rewrite::numeric_id(1);
            let own = Own {
                id: &id,
                meta: MetaOf::Gateway,
            };
            let began = governor.gateway.store.now();
            // No place is taken: a cancel must get through when the upstream is busy.
            let sent = exchange::send(Exchange {
                http: &governor.active.http,
                upstream: &upstream,
                headers: headers::upstream(Method::TasksCancel, Some(task.as_str())),
                body: own.tasks_cancel(task.as_str()).into(),
                id: &id,
                owner: Some(&owner),
                room: governor.active.http.own(),
                deadline: exchange::deadline(&upstream, CANCEL_TIMEOUT),
            })
            .await;
            upstream.runtime.polls.forget(&owner, &task);
            let reason = match sent {
                Err(failure) => failure.reason(),
                Ok(received) => match envelope::parse_reply(&received.message, &id) {
                    Ok((reply, _)) => {
                        if let Some(snapshot) = cancel::cancelled(&reply, &task) {
                            cancel::answered(&governor, &upstream, &task, began, snapshot).await;
                        }
                        return;
                    }
                    Err(error) => error.reason(),
                },
            };
            governor.cancel_failed(&upstream, &owner, reason);
        });
    }

    /// Logs and counts a cancel that the upstream did not acknowledge.
    fn cancel_failed(&self, upstream: &Upstream, owner: &Owner, reason: &str) {
        let tenant = self.tenant(owner);
        let label = self.active.upstream_label(tenant, &upstream.label);
        self.gateway.metrics.upstream_failed(tenant, label, reason);
        tracing::warn!(
            correlation = self.correlation,
            upstream = upstream.label,
            reason,
            "a task is not known to be told to stop"
        );
    }

    /// Logs and counts a store error.
    pub fn store_failed(&self, error: &StoreError) {
        self.count_error(error);
        tracing::error!(
            correlation = self.correlation,
            reason = error.reason(),
            error = crate::chain(error),
            "store failed: the call fails closed"
        );
    }

    fn count_error(&self, error: &StoreError) {
        let errors = &self.gateway.metrics.ledger_errors;
        errors.with_label_values(&[error.reason()]).inc();
    }

    fn failed(&self, error: StoreError) -> Undecided {
        // A full quota is an answer, not a fault.
        if !matches!(error, StoreError::Quota { .. }) {
            self.store_failed(&error);
        }
        Undecided::Store(error)
    }

    /// Makes a decision durable. One that changes nothing is checked against the store: it may have
    /// been taken on an entry that somebody ended meanwhile.
    async fn keep(
        &self,
        key: &TaskKey,
        before: Option<&Entry>,
        decision: &Decision,
        quota: Option<u64>,
    ) -> Result<(), StoreError> {
        let store = &self.gateway.store;
        let transaction = Transaction::of(key, before, decision);
        match (&decision.change, transaction) {
            (Change::Commit(_) | Change::Purge, Some(transaction)) => {
                let transaction = match quota {
                    Some(quota) => transaction.with_quota(quota),
                    None => transaction,
                };
                let timer = self.gateway.metrics.commit_seconds.start_timer();
                let kept = store.commit(transaction).await;
                timer.observe_duration();
                kept
            }
            (_, transaction) => {
                if store.version(key).await? != before.map(|entry| entry.version) {
                    return Err(StoreError::Conflict);
                }
                if let Some(transaction) = transaction {
                    store.write_behind(transaction);
                }
                Ok(())
            }
        }
    }

    fn act(&self, key: &TaskKey, before: Option<Entry>, decision: Decision) -> Decided {
        let Decision {
            change,
            events,
            effects,
        } = decision;
        let known = before.as_ref().map(|entry| entry.birth.clone());
        let after = match change {
            Change::Unchanged => before,
            Change::WriteBehind(entry) | Change::Commit(entry) => Some(*entry),
            Change::Purge => None,
        };
        for event in &events {
            self.count_event(event, after.as_ref());
        }
        let birth = after.as_ref().map(|entry| &entry.birth).or(known.as_ref());
        for effect in &effects {
            match effect {
                Effect::CancelUpstream => {
                    if let Some(birth) = birth {
                        self.cancel_at(key, birth);
                    }
                }
                Effect::InputRequired => {
                    if let Some(birth) = birth {
                        let tenant = self.tenant(&birth.owner);
                        let labels = [tenant, self.active.upstream_label(tenant, &birth.upstream)];
                        let input_required = &self.gateway.metrics.input_required;
                        input_required.with_label_values(&labels).inc();
                    }
                }
                // Whoever took the decision relays: it holds the answers.
                Effect::Relay { .. } => {}
            }
        }
        Decided {
            entry: after,
            effects,
        }
    }

    fn count_event(&self, event: &Event, entry: Option<&Entry>) {
        let metrics = &self.gateway.metrics;
        let tenant = self.tenant(&event.owner);
        let upstream = self.active.upstream_label(tenant, &event.upstream);
        let pair = [tenant, upstream];
        let kind = event.detail.as_str();
        metrics.events.with_label_values(&[kind]).inc();
        match &event.detail {
            Detail::TaskCreated {} => metrics.tasks_relayed.with_label_values(&pair).inc(),
            Detail::TaskConsentDecided { verdict, .. } => metrics
                .consent_decisions
                .with_label_values(&[tenant, upstream, verdict.as_str(), verdict.reason()])
                .inc(),
            Detail::TaskCompleted {} => metrics.tasks_completed.with_label_values(&pair).inc(),
            Detail::TaskFailed { reason } => metrics
                .tasks_failed
                .with_label_values(&[tenant, upstream, reason.as_str()])
                .inc(),
            Detail::TaskCancelled {} => metrics.tasks_cancelled.with_label_values(&pair).inc(),
            Detail::DigestMismatchInTask { .. } => {
                metrics.digest_drift.with_label_values(&pair).inc();
            }
        }
        if let Some(entry) = entry.filter(|_| event.detail.is_terminal()) {
            #[allow(clippy::cast_precision_loss)] // an age in milliseconds is far below 2^52
            let age = event.at.since(entry.relayed_at) as f64 / 1000.0;
            metrics.task_age.with_label_values(&[tenant]).observe(age);
        }
    }

    /// Label of an owner's tenant; unattributed owners belong to the tenant that admits them.
    fn tenant<'a>(&'a self, owner: &'a Owner) -> &'a str {
        match &owner.tenant {
            Some(tenant) if self.active.labels().contains_key(&tenant.tenant) => &tenant.tenant,
            // Its policy is gone: a name of the past makes no series.
            Some(_) => OTHER,
            None => self.active.anonymous_tenant().unwrap_or(OTHER),
        }
    }
}

// === impl Decided ===

impl Decided {
    fn gone() -> Self {
        Self {
            entry: None,
            effects: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests;
