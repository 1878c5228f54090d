//! The part of one upstream in a stream: reads what it says, and tells what may be told.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use hangar_ledger::TaskId;
use hangar_relay::envelope::Reply;
use hangar_relay::listen::{self, Filter, List, Told};
use hangar_relay::rewrite;
use hangar_relay::wire::Kind;
use hangar_wire::{Admission, Sha256Hex};
use tokio::sync::{Notify, mpsc};

use crate::config::active::Caller;
use crate::config::{Active, Grant, Upstream};
use crate::flow::ask::Asker;
use crate::flow::governor::Governor;
use crate::flow::section::Section;
use crate::flow::{Call, Relayed, get};
use crate::http::mcp::authenticate;
use crate::limit::held::Room;
use crate::upstream::listen::Subscription;

/// An upstream's part in a stream.
#[derive(Debug)]
pub(super) struct Leg<'m> {
    call: &'m Call<'m>,
    granted: Filter,
    subscription: Subscription,
}

/// Why a part ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The upstream ended its stream, or broke off.
    Upstream,
    /// The configuration in force no longer has it.
    Revoked,
    /// The client is gone or takes nothing, or its tenant has no room for what it is to be told.
    Client,
}

/// Tells the client of one part.
struct Teller<'m> {
    call: &'m Call<'m>,
    to: &'m mpsc::Sender<Bytes>,
}

/// What the configuration in force says of a part.
struct Authority {
    active: Arc<Active>,
    caller: Caller,
    grant: Arc<Grant>,
    upstream: Arc<Upstream>,
}

/// Tasks that something happened to, each once, in the order of the news.
#[derive(Default)]
struct News {
    tasks: Mutex<VecDeque<(String, u32)>>,
    some: Notify,
}

/// What came of looking after a task.
enum Looked {
    State(Bytes),
    /// The upstream cannot be asked, or the contract not be seen: perhaps later.
    NotNow,
    /// It may not be told, or is gone.
    Never,
}

/// How often a task is looked after for one piece of news.
const LOOKS: u32 = 3;
/// Before a task is looked after again.
const PAUSE: Duration = Duration::from_secs(1);

/// A message of ours, which counts as held; none where its tenant has no room for it.
fn held(room: &Arc<Room>, message: String) -> Option<Bytes> {
    let mut share = room.share();
    share.grow(message.len()).ok()?;
    Some(share.keep(message.into()))
}

/// Tells what counts as held until it is on its way; false where nobody takes it, or there is no room.
pub(super) async fn tell(call: &Call<'_>, to: &mpsc::Sender<Bytes>, message: String) -> bool {
    match held(&call.caller.tenant.room, message) {
        Some(message) => call.gateway.listeners.tell(to, message).await,
        None => false,
    }
}

// === impl Leg ===

impl<'m> Leg<'m> {
    pub(super) fn new(call: &'m Call<'m>, granted: Filter, subscription: Subscription) -> Self {
        Self {
            call,
            granted,
            subscription,
        }
    }

    pub(super) fn granted(&self) -> &Filter {
        &self.granted
    }

    /// The name of its grant.
    pub(super) fn name(&self) -> &'m str {
        &self.call.grant.object.name
    }

    /// Tells until the upstream, the configuration or the client ends it.
    pub(super) async fn run(self, to: &mpsc::Sender<Bytes>) -> End {
        let Self {
            call,
            granted,
            subscription,
        } = self;
        let (teller, news) = (Teller { call, to }, News::default());
        tokio::select! {
            end = teller.read(&granted, subscription, &news) => end,
            end = teller.look_after(&news) => end,
            end = teller.follow(&granted) => end,
        }
    }
}

// === impl Teller ===

impl Teller<'_> {
    async fn read(&self, granted: &Filter, mut subscription: Subscription, news: &News) -> End {
        let id = self.call.request.id;
        loop {
            let message = match subscription.next().await {
                Ok(Some(message)) => message,
                Ok(None) => return End::Upstream,
                Err(failure) => {
                    tracing::warn!(
                        correlation = self.call.correlation,
                        upstream = self.call.upstream.label,
                        reason = failure.reason(),
                        "upstream of a listener is lost"
                    );
                    return End::Upstream;
                }
            };
            let told = match listen::read(&message, subscription.id()) {
                Ok(told) => told,
                // Passed over, but only so much of it.
                Err(_) if subscription.reject(message.len()).is_ok() => continue,
                Err(_) => return End::Upstream,
            };
            if matches!(told, Told::Changed(List::Tools)) {
                self.call.upstream.runtime.contracts.expire();
            }
            let size = message.len();
            let message = match told {
                Told::Changed(list) if granted.lists.contains(&list) => listen::changed(list, id),
                Told::Updated(update) if granted.covers(&update.uri) => {
                    listen::updated(&update, id)
                }
                Told::Task(task) if granted.tasks.contains(&*task) => {
                    self.forget(&task);
                    news.add(&task, 0);
                    continue;
                }
                Told::Ended | Told::Refused { .. } => return End::Upstream,
                Told::Changed(_)
                | Told::Updated(_)
                | Told::Task(_)
                | Told::Acknowledged(_)
                | Told::Other => continue,
            };
            if self.authority().is_none() {
                return End::Revoked;
            }
            // It is as large as what it was made of, or little larger.
            let message = subscription.part(size).keep(message.into());
            if !self.hand(message).await {
                return End::Client;
            }
        }
    }

    /// Whoever polls is told no less than who listens.
    fn forget(&self, task: &str) {
        let Call {
            caller, upstream, ..
        } = self.call;
        if let Ok(task) = TaskId::try_from(task.to_owned()) {
            upstream.runtime.polls.forget(&caller.owner, &task);
        }
    }

    /// Looks after tasks one at a time, so that an upstream which talks much is asked no more.
    async fn look_after(&self, news: &News) -> End {
        let mut told: BTreeMap<String, Sha256Hex> = BTreeMap::new();
        loop {
            let (task, looks) = news.next().await;
            if looks > 0 {
                tokio::time::sleep(PAUSE).await;
            }
            let Some(authority) = self.authority() else {
                return End::Revoked;
            };
            let message = match self.look(authority, &task).await {
                Looked::State(message) => message,
                Looked::NotNow if looks + 1 < LOOKS => {
                    news.add(&task, looks + 1);
                    continue;
                }
                Looked::NotNow | Looked::Never => continue,
            };
            // What was found out meanwhile may be no longer the client's.
            if self.authority().is_none() {
                return End::Revoked;
            }
            let hash = Sha256Hex::of(&message);
            if told.insert(task, hash) == Some(hash) {
                continue;
            }
            if !self.hand(message).await {
                return End::Client;
            }
        }
    }

    /// Asks as the client's own `tasks/get` would, under the configuration in force.
    async fn look(&self, authority: Authority, task: &str) -> Looked {
        let call = self.call;
        let room = &call.caller.tenant.room;
        let Ok(task) = TaskId::try_from(task.to_owned()) else {
            return Looked::Never;
        };
        let Ok(asker) = Asker::of(call) else {
            return Looked::NotNow;
        };
        let Authority {
            active,
            caller,
            grant,
            upstream,
        } = authority;
        let section = Section {
            governor: Governor {
                gateway: Arc::clone(call.gateway),
                active,
                correlation: call.correlation.to_owned(),
            },
            caller,
            grant,
            upstream,
            id: rewrite::numeric_id(1),
        };
        let id = section.id.clone();
        let answer = section
            .detached(move |section| get::get(section, task, asker, get::Why::News))
            .await;
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) if matches!(error.kind, Kind::TaskNotFound | Kind::Withheld) => {
                return Looked::Never;
            }
            Err(_) => return Looked::NotNow,
        };
        match Relayed::read(&answer.body, &id) {
            Ok(Relayed {
                reply: Reply::Result(result),
                ..
            }) => {
                let message = listen::task(result, call.request.id);
                let message = message.and_then(|message| held(room, message));
                message.map_or(Looked::NotNow, Looked::State)
            }
            Ok(_) | Err(_) => Looked::NotNow,
        }
    }

    /// Ends when the configuration does, and says where it changed what tools there are.
    async fn follow(&self, granted: &Filter) -> End {
        let mut changes = self.call.gateway.config.changes();
        let mut grant = Arc::clone(self.call.grant);
        let mut upstream = Arc::clone(self.call.upstream);
        loop {
            let Some(authority) = self.authority() else {
                return End::Revoked;
            };
            let same_tools = authority.grant.object == grant.object
                && authority.upstream.object.tools == upstream.object.tools
                && authority.upstream.object.pinning == upstream.object.pinning;
            (grant, upstream) = (authority.grant, authority.upstream);
            if !same_tools && granted.lists.contains(&List::Tools) {
                let message = listen::changed(List::Tools, self.call.request.id);
                if !tell(self.call, self.to, message).await {
                    return End::Client;
                }
            }
            if changes.changed().await.is_err() {
                return End::Revoked;
            }
        }
    }

    /// Judges the client anew; none where this part is no longer its own.
    ///
    /// Guarantees: the same credential is the same owner's, who has the same upstream at the same
    /// address, and it may be connected to.
    fn authority(&self) -> Option<Authority> {
        let call = self.call;
        let active = call.gateway.config.load()?;
        let caller = authenticate(&active, call.headers).ok()?;
        if caller.owner != call.caller.owner || !active.same_addresses(call.active) {
            return None;
        }
        let object = &call.grant.object;
        let grant = caller.tenant.grants.iter().find(|grant| {
            grant.object.name == object.name
                && grant.object.upstream_namespace == object.upstream_namespace
                && grant.object.upstream_name == object.upstream_name
        });
        let grant = Arc::clone(grant?);
        let upstream = Arc::clone(active.upstream(&grant)?);
        let same_runtime = Arc::ptr_eq(&upstream.runtime, &call.upstream.runtime);
        let closed = [upstream.object.admission, caller.tenant.object.admission]
            .contains(&Admission::Closed);
        (same_runtime && !closed).then_some(Authority {
            active,
            caller,
            grant,
            upstream,
        })
    }

    /// Hands over what is counted; false where its client is gone or takes nothing.
    async fn hand(&self, message: Bytes) -> bool {
        self.call.gateway.listeners.tell(self.to, message).await
    }
}

// === impl News ===

impl News {
    /// A task that waits already is not looked after twice, but it is not given up either.
    fn add(&self, task: &str, looks: u32) {
        let mut tasks = self.lock();
        match tasks.iter_mut().find(|(waiting, _)| waiting == task) {
            Some((_, waiting)) => *waiting = looks.min(*waiting),
            None => tasks.push_back((task.to_owned(), looks)),
        }
        drop(tasks);
        self.some.notify_one();
    }

    async fn next(&self) -> (String, u32) {
        loop {
            let first = self.lock().pop_front();
            match first {
                Some(first) => return first,
                None => self.some.notified().await,
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(String, u32)>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
