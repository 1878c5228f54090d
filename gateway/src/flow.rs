//! What happens to an authorised request: one module per method.
//!
//! Synchronous calls run on the client's own connection, so that a client that leaves ends the
//! upstream's work too. Whatever touches the ledger runs as a [`section::Section`], which goes on to its
//! end when its client leaves.

pub mod access;
pub mod answers;
pub mod ask;
pub mod call;
pub mod cancel;
pub mod discover;
pub mod get;
pub mod governor;
pub mod list;
pub mod listen;
pub mod merged;
pub mod observe;
pub mod orphan;
mod persistent;
pub mod register;
pub mod relay;
pub mod section;
pub mod ticker;
pub mod update;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hangar_ledger::{Status, TaskId};
use hangar_relay::contract::Tool;
use hangar_relay::envelope::{self, Echo, Reply, Request};
use hangar_relay::headers;
use hangar_relay::legacy::Era;
use hangar_relay::legacy::task::{self, Support};
use hangar_relay::method::Method;
use hangar_relay::params::Params;
use hangar_relay::wire::{self, Kind, WireError};
use hangar_wire::Admission;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde_json::value::RawValue;

use crate::config::active::Caller;
use crate::config::{Active, Grant, Upstream};
use crate::gateway::Gateway;
use crate::http::legacy::Client;
use crate::http::rescue;
use crate::limit::held::Share;
use crate::upstream::contracts;
use crate::upstream::era;
use crate::upstream::exchange::{self, Exchange, Failure, Notes};
use crate::upstream::polls::Told;
use governor::Governor;
use section::Section;

/// A request that passed every check that needs no ledger and no tool.
#[derive(Debug)]
pub struct Call<'a> {
    pub gateway: &'a Arc<Gateway>,
    pub active: &'a Arc<Active>,
    pub caller: &'a Caller,
    pub grant: &'a Arc<Grant>,
    pub upstream: &'a Arc<Upstream>,
    pub client: Client,
    pub method: Method,
    /// Before names of tools and prompts on this endpoint; empty: their own names.
    pub prefix: &'a str,
    /// Whether this endpoint serves several upstreams.
    pub has_several: bool,
    /// Where notifications before the reply go; none: they are passed over.
    pub notes: Option<&'a Notes<'a>>,
    pub body: &'a Bytes,
    pub headers: &'a HeaderMap,
    pub request: &'a Request<'a>,
    pub params: &'a Params<'a>,
    pub correlation: &'a str,
}

/// What goes back to the client.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub body: Bytes,
    /// Whether the body counts as held: it is the upstream's as it came.
    pub is_held: bool,
    /// Seconds.
    pub retry_after: Option<u64>,
    pub outcome: Outcome,
    /// Closed word for the access log.
    pub reason: &'static str,
}

/// A reply of an upstream, read.
#[derive(Debug)]
pub struct Relayed<'a> {
    pub reply: Reply<'a>,
    echo: Echo,
    message: &'a Bytes,
}

/// Label `outcome` of `hangar_requests_total`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Ok,
    /// A handle was given out: how the work ends is not known yet.
    Task,
    /// A result with `isError`.
    ToolError,
    /// An error of the upstream, or of the request's own form.
    RpcError,
    Denied,
    Drift,
    Upstream,
    Limited,
    /// The client left before it was answered.
    Gone,
}

// === impl Call ===

impl Call<'_> {
    /// The owned part, for work that outlives the connection.
    pub fn section(&self) -> Section {
        Section {
            governor: Governor {
                gateway: Arc::clone(self.gateway),
                active: Arc::clone(self.active),
                correlation: self.correlation.to_owned(),
            },
            caller: self.caller.clone(),
            grant: Arc::clone(self.grant),
            upstream: Arc::clone(self.upstream),
            id: self.request.id.to_owned(),
        }
    }

    /// The stricter of the upstream's and the tenant's admission.
    pub fn admission(&self) -> Admission {
        match (
            self.upstream.object.admission,
            self.caller.tenant.object.admission,
        ) {
            (Admission::Closed, _) | (_, Admission::Closed) => Admission::Closed,
            (Admission::NoNewTasks, _) | (_, Admission::NoNewTasks) => Admission::NoNewTasks,
            (Admission::Open, Admission::Open) => Admission::Open,
        }
    }

    /// Both sides must let a tool through: the upstream's rules and the tenant's.
    pub fn allows(&self, tool: &str) -> bool {
        self.upstream.rules.allows(tool) && self.grant.rules.allows(tool)
    }

    /// Refuses what is not about an existing task while the switch is closed.
    pub fn admit(&self) -> Result<(), WireError> {
        match self.admission() {
            Admission::Closed => Err(Kind::AdmissionClosed.into()),
            Admission::NoNewTasks | Admission::Open => Ok(()),
        }
    }

    pub fn task_id(&self) -> Result<TaskId, WireError> {
        let text = self.params.task_id.as_deref().unwrap_or_default();
        TaskId::try_from(text.to_owned()).map_err(|error| WireError::invalid_params(error.reason()))
    }

    /// What is copied from the request to outlive it counts as held, like the request itself.
    pub fn share(&self, bytes: usize) -> Result<Share, WireError> {
        let mut share = self.caller.tenant.room.share();
        share.grow(bytes).map_err(|_| Kind::Overloaded)?;
        Ok(share)
    }

    /// Sends a body of the client's upstream, on the client's connection.
    pub async fn exchange(
        &self,
        headers: Vec<(HeaderName, HeaderValue)>,
        body: Bytes,
    ) -> Result<Bytes, Failure> {
        self.send(headers, body, Duration::MAX, self.notes).await
    }

    /// The same in so much time at most, for a part of an answer: the client is told nothing of it.
    pub async fn exchange_within(
        &self,
        headers: Vec<(HeaderName, HeaderValue)>,
        body: Bytes,
        most: Duration,
    ) -> Result<Bytes, Failure> {
        self.send(headers, body, most, None).await
    }

    async fn send(
        &self,
        headers: Vec<(HeaderName, HeaderValue)>,
        body: Bytes,
        most: Duration,
        notes: Option<&Notes<'_>>,
    ) -> Result<Bytes, Failure> {
        let places = &self.upstream.runtime.places;
        let tenant = &self.caller.tenant.object.tenant;
        let place = places.take(tenant).ok_or(Failure::Busy);
        let _place = place.inspect_err(|failure| self.upstream_failed(failure.reason()))?;
        let timer = self
            .gateway
            .metrics
            .upstream_seconds
            .with_label_values(&[tenant])
            .start_timer();
        let exchange = Exchange {
            http: &self.active.http,
            upstream: self.upstream,
            headers,
            body,
            id: self.request.id,
            owner: Some(&self.caller.owner),
            room: &self.caller.tenant.room,
            deadline: exchange::deadline(self.upstream, most),
        };
        let reply = exchange::send_noting(exchange, notes).await;
        timer.observe_duration();
        let reply = reply.inspect_err(|failure| self.upstream_failed(failure.reason()));
        Ok(reply?.message)
    }

    /// Reads the message that answers the client's request; what is no reply counts as a failure.
    pub fn read<'m>(&self, message: &'m Bytes) -> Result<Relayed<'m>, WireError> {
        Relayed::parse(message, self.request.id).map_err(|error| {
            self.upstream_failed(error.reason());
            breach(error)
        })
    }

    /// The answer to a request that needs contracts which cannot be had.
    pub fn unseen(&self, error: &contracts::Error) -> WireError {
        self.upstream_failed(error.reason());
        rescue::contract(error)
    }

    fn upstream_failed(&self, reason: &str) {
        let tenant = &self.caller.tenant.object.tenant;
        let metrics = &self.gateway.metrics;
        metrics.upstream_failed(tenant, &self.grant.label, reason);
    }
}

// === impl Relayed ===

impl<'a> Relayed<'a> {
    /// Reads the message that answers the request `id`.
    pub fn read(message: &'a Bytes, id: &RawValue) -> Result<Self, WireError> {
        Self::parse(message, id).map_err(breach)
    }

    /// The same, for one who tells why it is none.
    pub fn parse(message: &'a Bytes, id: &RawValue) -> Result<Self, envelope::Error> {
        let (reply, echo) = envelope::parse_reply(message, id)?;
        Ok(Self {
            reply,
            echo,
            message,
        })
    }

    /// Reads what was told about a task, for the client whose request has this id: not the one that
    /// the message bears where the request was another's.
    pub fn told(told: &'a Told, id: &RawValue) -> Result<Self, WireError> {
        let relayed = Self::read(&told.message, &told.id)?;
        let echo = if told.id.get() == id.get() {
            relayed.echo
        } else {
            Echo::Loose
        };
        Ok(Self { echo, ..relayed })
    }
}

// === impl Answer ===

impl Answer {
    /// Nothing was refused.
    pub const NO_REASON: &'static str = "ok";

    /// A result of ours.
    pub fn result(id: &RawValue, result: &RawValue) -> Self {
        Self::ok(wire::result(id, result).into())
    }

    /// A result that was put together as text.
    pub fn result_text(id: &RawValue, result: &str) -> Self {
        Self::ok(wire::result_text(id, result).into())
    }

    /// The reply of an upstream, with the client's own id. Where the upstream echoed the id byte
    /// for byte, its message goes on as it came, without a copy.
    pub fn relayed(id: &RawValue, reply: &Relayed<'_>, outcome: Outcome) -> Self {
        let Relayed {
            reply,
            echo,
            message,
        } = reply;
        let body = match (echo, reply) {
            (Echo::Exact, _) => Bytes::clone(message),
            (Echo::Loose, Reply::Result(result)) => wire::result(id, result).into(),
            (Echo::Loose, Reply::Error(error)) => wire::rpc_error(Some(id), error.raw).into(),
        };
        let is_held = *echo == Echo::Exact;
        let status = match reply {
            Reply::Result(_) => StatusCode::OK,
            Reply::Error(error) => wire::relayed_status(error.code),
        };
        Self {
            status,
            is_held,
            outcome,
            ..Self::ok(body)
        }
    }

    pub fn refused(id: Option<&RawValue>, error: &WireError) -> Self {
        Self {
            status: error.status,
            body: wire::error(id, error).into(),
            is_held: false,
            retry_after: error.retry_after,
            outcome: rescue::outcome(error.kind),
            reason: error.reason,
        }
    }

    /// A notification was taken.
    pub fn accepted() -> Self {
        Self {
            status: StatusCode::ACCEPTED,
            ..Self::ok(Bytes::new())
        }
    }

    pub fn method_not_allowed() -> Self {
        Self {
            status: StatusCode::METHOD_NOT_ALLOWED,
            outcome: Outcome::RpcError,
            reason: "http_method",
            ..Self::ok(Bytes::new())
        }
    }

    fn ok(body: Bytes) -> Self {
        Self {
            status: StatusCode::OK,
            body,
            is_held: false,
            retry_after: None,
            outcome: Outcome::Ok,
            reason: Self::NO_REASON,
        }
    }
}

// === impl Outcome ===

impl Outcome {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Task => "task",
            Self::ToolError => "tool_error",
            Self::RpcError => "rpc_error",
            Self::Denied => "denied",
            Self::Drift => "drift",
            Self::Upstream => "upstream",
            Self::Limited => "limited",
            Self::Gone => "gone",
        }
    }
}

/// Answers a request of one upstream.
pub async fn answer(call: &Call<'_>) -> Result<Answer, WireError> {
    match call.method {
        Method::Discover => discover::run(call).await,
        Method::ToolsList => list::run(call).await,
        Method::ToolsCall => call::run(call).await,
        Method::PromptsList
        | Method::PromptsGet
        | Method::ResourcesList
        | Method::TemplatesList
        | Method::ResourcesRead
        | Method::Complete => relay::run(call).await,
        // Only a client that takes no stream gets here.
        Method::Listen => Err(listen::no_stream()),
        Method::TasksGet => get::run(call).await,
        Method::TasksUpdate => update::run(call).await,
        Method::TasksCancel => cancel::run(call).await,
    }
}

/// The answer to a message of an upstream that is no reply.
fn breach(error: envelope::Error) -> WireError {
    WireError::from(Kind::UpstreamProtocol).because(error)
}

/// The protocol's routing headers for the upstream leg, and the mirrored arguments.
pub fn routing(
    method: Method,
    name: Option<&str>,
    mirrored: Vec<(HeaderName, HeaderValue)>,
) -> Vec<(HeaderName, HeaderValue)> {
    let mut routing = headers::upstream(method, name);
    routing.extend(mirrored);
    routing
}

/// The status as the wire crate names it.
pub fn wire_status(status: Status) -> hangar_relay::task::Status {
    use hangar_relay::task::Status as Wire;
    match status {
        Status::Working => Wire::Working,
        Status::InputRequired => Wire::InputRequired,
        Status::Completed => Wire::Completed,
        Status::Failed => Wire::Failed,
        Status::Cancelled => Wire::Cancelled,
    }
}

/// Whether a tool runs as a task only; a 2025-11-25 upstream says so.
pub fn is_task_only(upstream: &Upstream, tool: &Tool) -> bool {
    era::of(upstream) == Some(Era::Legacy)
        && upstream.runtime.sessions.has_tasks()
        && task::support(&tool.raw) == Support::Required
}

/// Headers that mirror arguments, made anew from the body; the client's must agree with it.
pub fn mirrored(call: &Call<'_>, tool: &Tool) -> Result<Vec<(HeaderName, HeaderValue)>, WireError> {
    let mirrors = tool.mirrors.as_ref().map_err(|error| *error)?;
    if mirrors.is_empty() {
        return Ok(Vec::new());
    }
    let arguments = call.params.arguments;
    // Clients of 2025-11-25 know of no headers that mirror arguments.
    if call.client.is_modern() {
        mirrors.check(call.headers, arguments)?;
    }
    Ok(mirrors.headers(arguments)?)
}
