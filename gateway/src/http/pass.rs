//! From a request that was taken in to its answer: checks that need no I/O, then the upstream, or
//! all of them, behind the endpoint.

use std::sync::Arc;

use bytes::Bytes;
use hangar_ledger::TaskId;
use hangar_relay::envelope::{self, Message};
use hangar_relay::headers::Routing;
use hangar_relay::method::{self, Method};
use hangar_relay::notify::Wanted;
use hangar_relay::params::Params;
use hangar_relay::wire::{Kind, WireError};
use http::HeaderMap;
use tokio::sync::mpsc;

use super::legacy::Client;
use super::rescue;
use super::trail::Trail;
use crate::config::active::Caller;
use crate::config::{Active, Grant, OTHER, Upstream};
use crate::flow::governor::Governor;
use crate::flow::merged::{Answerer, Granted, Merged, Way};
use crate::flow::orphan::{self, At, Orphan};
use crate::flow::{self, Answer, Call};
use crate::gateway::Gateway;
use crate::upstream::exchange::Notes;

/// Which endpoint was asked.
pub(super) enum Route {
    /// `/mcp`: the upstreams of the caller's tenant.
    Tenant,
    /// `/mcp/{namespace}/{upstream}`.
    Upstream { namespace: String, name: String },
}

/// What an endpoint is to one caller.
pub(super) enum Endpoint<'a> {
    One(&'a Arc<Grant>, &'a Arc<Upstream>),
    Several(Granted<'a>),
}

/// What was taken in of an authenticated request.
#[derive(Debug)]
pub(super) struct Entered {
    pub(super) active: Arc<Active>,
    pub(super) caller: Caller,
    /// As a request of 2026-07-28, whatever the client speaks.
    pub(super) body: Bytes,
    pub(super) client: Client,
}

/// A request whose own form is right.
pub(super) struct Checked<'a> {
    pub(super) method: Method,
    pub(super) request: envelope::Request<'a>,
    pub(super) params: Params<'a>,
}

/// The way from a checked request to its answer.
pub(super) struct Pass<'a> {
    pub(super) gateway: &'a Arc<Gateway>,
    pub(super) entered: &'a Entered,
    pub(super) route: &'a Route,
    pub(super) headers: &'a HeaderMap,
    pub(super) notes: Option<&'a Notes<'a>>,
}

/// A request that its client wants to be told of while it is answered, with all it needs: it is
/// answered apart from the connection that brought it.
pub(super) struct Ride {
    pub(super) gateway: Arc<Gateway>,
    pub(super) route: Route,
    pub(super) headers: HeaderMap,
    pub(super) entered: Entered,
    pub(super) trail: Trail,
}

/// Answers up to so many bytes are not counted.
const SMALL: usize = 4 << 10;

// === impl Entered ===

impl Entered {
    /// The answer, or the refusal, in the shape of its client's revision. What was written anew for
    /// it counts as held until its client has it, like what came from an upstream.
    pub(super) fn finished(&self, answer: Result<Answer, WireError>, trail: &Trail) -> Answer {
        let answer = self.client.finished(answer, trail);
        if answer.is_held || answer.body.len() <= SMALL {
            return answer;
        }
        let mut share = self.caller.tenant.room.share();
        if share.grow(answer.body.len()).is_err() {
            let error = Err(Kind::Overloaded.into());
            return self.client.finished(error, trail);
        }
        Answer {
            body: share.keep(answer.body),
            is_held: true,
            ..answer
        }
    }
}

// === impl Pass ===

impl Pass<'_> {
    pub(super) async fn answer(
        &self,
        checked: &Checked<'_>,
        trail: &mut Trail,
    ) -> Result<Answer, WireError> {
        let answer = self.answer_whatever_is_own(checked, trail).await;
        if let Err(error) = &answer
            && error.kind == Kind::TaskNotFound
        {
            let tenant = self.entered.caller.tenant.object.tenant.as_str();
            let (upstream, method) = (trail.upstream.as_str(), checked.method.as_str());
            let labels = [tenant, upstream, method, error.reason];
            let refusals = &self.gateway.metrics.refusals;
            refusals.with_label_values(&labels).inc();
        }
        answer
    }

    async fn answer_whatever_is_own(
        &self,
        checked: &Checked<'_>,
        trail: &mut Trail,
    ) -> Result<Answer, WireError> {
        match self.answer_granted(checked, trail).await {
            Err(error) if checked.method.is_task() && self.has_orphans(error.kind) => {
                let answer = self.answer_orphan(checked, trail).await?;
                answer.ok_or(error)
            }
            answer => answer,
        }
    }

    async fn answer_granted(
        &self,
        checked: &Checked<'_>,
        trail: &mut Trail,
    ) -> Result<Answer, WireError> {
        let Trail {
            correlation,
            upstream: label,
            ..
        } = &mut *trail;
        let (grant, upstream) = match self.endpoint()? {
            Endpoint::One(grant, upstream) => (grant, upstream),
            Endpoint::Several(granted) => match Way::of(checked.method, &checked.params)? {
                Way::Name { shown, unknown } => granted.named(shown, unknown)?,
                Way::LookUp(look_up) => {
                    let merged = Merged::new(&granted, |grant, upstream| {
                        self.call(checked, correlation, grant, upstream)
                    });
                    return match merged.answerer(look_up).await? {
                        Answerer::All => merged.answer().await,
                        Answerer::One(call) => {
                            label.clone_from(&call.grant.label);
                            flow::answer(call).await
                        }
                    };
                }
            },
        };
        label.clone_from(&grant.label);
        let call = self.call(checked, correlation, grant, upstream);
        flow::answer(&call).await
    }

    /// Whether a task that no grant led to may still be the caller's: known from the configuration
    /// alone, so that no answer tells whose it is.
    fn has_orphans(&self, missed: Kind) -> bool {
        match (missed, self.route) {
            (Kind::EndpointNotFound, _) | (Kind::TaskNotFound, Route::Tenant) => true,
            (Kind::TaskNotFound, Route::Upstream { namespace, name }) => {
                self.entered.active.graves().has(namespace, name)
            }
            _ => false,
        }
    }

    async fn answer_orphan(
        &self,
        checked: &Checked<'_>,
        trail: &mut Trail,
    ) -> Result<Option<Answer>, WireError> {
        let Entered { active, caller, .. } = self.entered;
        let text = checked.params.task_id.as_deref().unwrap_or_default();
        let Ok(task) = TaskId::try_from(text.to_owned()) else {
            return Ok(None);
        };
        let at = match self.route {
            Route::Tenant => At::Tenant,
            Route::Upstream { namespace, name } => At::Upstream { namespace, name },
        };
        let governor = Governor {
            gateway: Arc::clone(self.gateway),
            active: Arc::clone(active),
            correlation: trail.correlation.clone(),
        };
        let found = orphan::find(self.gateway, active, caller, at, &task).await;
        let found = found.map_err(|error| {
            governor.store_failed(&error);
            rescue::store(&error)
        })?;
        if found.is_some() {
            OTHER.clone_into(&mut trail.upstream);
        }
        match found {
            None => Ok(None),
            Some(Orphan::Revoked(grant, upstream)) => {
                let call = self.call(checked, &trail.correlation, &grant, &upstream);
                flow::answer(&call).await.map(Some)
            }
            Some(Orphan::Stranded(entry)) => {
                let id = checked.request.id.to_owned();
                let caller = caller.clone();
                let answer = orphan::answer(governor, caller, *entry, checked.method, id).await;
                answer.map(Some)
            }
        }
    }

    /// What is behind the endpoint for this caller. An upstream that does not exist and one that is
    /// not granted are the same answer.
    pub(super) fn endpoint(&self) -> Result<Endpoint<'_>, WireError> {
        let Entered { active, caller, .. } = self.entered;
        let grants = &caller.tenant.grants;
        let found = match (self.route, grants.as_slice()) {
            (Route::Upstream { namespace, name }, _) => grants.iter().find(|grant| {
                &grant.object.upstream_namespace == namespace && &grant.object.upstream_name == name
            }),
            (Route::Tenant, [only]) => Some(only),
            (Route::Tenant, []) => None,
            (Route::Tenant, [_, _, ..]) => {
                return Ok(Endpoint::Several(Granted::of(active, &caller.tenant)));
            }
        };
        let found = found.and_then(|grant| Some((grant, active.upstream(grant)?)));
        let (grant, upstream) = found.ok_or(Kind::EndpointNotFound)?;
        Ok(Endpoint::One(grant, upstream))
    }

    pub(super) fn call<'c>(
        &'c self,
        checked: &'c Checked<'c>,
        correlation: &'c str,
        grant: &'c Arc<Grant>,
        upstream: &'c Arc<Upstream>,
    ) -> Call<'c> {
        let Entered {
            active,
            caller,
            body,
            client,
        } = self.entered;
        Call {
            gateway: self.gateway,
            active,
            caller,
            grant,
            upstream,
            client: *client,
            method: checked.method,
            prefix: match self.route {
                Route::Tenant => &grant.object.prefix,
                Route::Upstream { .. } => "",
            },
            has_several: match self.route {
                Route::Tenant => caller.tenant.grants.len() > 1,
                Route::Upstream { .. } => false,
            },
            notes: self.notes,
            body,
            headers: self.headers,
            request: &checked.request,
            params: &checked.params,
            correlation,
        }
    }
}

// === impl Ride ===

impl Ride {
    /// Answers; what the client is told before goes to `to`.
    pub(super) async fn answer(self, to: mpsc::Sender<Bytes>) -> Answer {
        let Self {
            gateway,
            route,
            headers,
            entered,
            mut trail,
        } = self;
        let answer = match check(&gateway, &entered, &headers, &mut trail) {
            Ok(Some(checked)) => {
                let notes = Notes {
                    wanted: Wanted::of(&checked.params.meta),
                    to,
                };
                let pass = Pass {
                    gateway: &gateway,
                    entered: &entered,
                    route: &route,
                    headers: &headers,
                    notes: Some(&notes),
                };
                if checked.method == Method::Listen {
                    return pass.listen(&checked, &mut trail).await;
                }
                pass.answer(&checked, &mut trail).await
            }
            Ok(None) => Ok(Answer::accepted()),
            Err(error) => Err(error),
        };
        let answer = entered.finished(answer, &trail);
        trail.tell(&answer);
        answer
    }
}

/// Checks what the body alone decides, and the headers against it; none for a notification: core
/// defines none from client to server over HTTP, and one that needs no answer gets none.
pub(super) fn check<'a>(
    gateway: &Gateway,
    entered: &'a Entered,
    headers: &HeaderMap,
    trail: &mut Trail,
) -> Result<Option<Checked<'a>>, WireError> {
    let request = match envelope::parse(&entered.body)? {
        Message::Request(request) => request,
        Message::Notification(_) => return Ok(None),
    };
    trail.id = Some(request.id.to_owned());
    if !matches!(entered.client, Client::Beginning(_)) {
        trail.method = method::label(&request.method);
    }
    let Some(method) = Method::parse(&request.method) else {
        return Err(unknown_method(&request, headers));
    };
    let params = Params::parse(method, &request)?;
    if entered.client.is_modern() {
        Routing::read(headers)?.agree(
            method,
            &params.meta.protocol_version,
            params.mirrored_name(),
            gateway.task_name,
        )?;
    }
    if !params.meta.speaks_ours() {
        return Err(WireError::unsupported_version(
            &params.meta.protocol_version,
        ));
    }
    let needs_tasks = method.is_task() || params.needs_tasks();
    if needs_tasks && !params.meta.capabilities.tasks.is_yes() {
        return Err(WireError::missing_tasks());
    }
    Ok(Some(Checked {
        method,
        request,
        params,
    }))
}

/// What is not built or was removed is an unknown method, once the header agrees.
fn unknown_method(request: &envelope::Request<'_>, headers: &HeaderMap) -> WireError {
    let agreed =
        Routing::read(headers).and_then(|routing| routing.agree_on_method(&request.method));
    match agreed {
        Ok(()) => Kind::UnknownMethod.into(),
        Err(error) => error.into(),
    }
}
