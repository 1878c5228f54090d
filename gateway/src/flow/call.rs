//! `tools/call`: tool policy, contract, the exchange, and what came of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use hangar_ledger::{ToolDigest, UpstreamUid};
use hangar_relay::contract::Tool;
use hangar_relay::envelope::Reply;
use hangar_relay::list::unprefixed;
use hangar_relay::method::Method;
use hangar_relay::wire::{Kind, WireError};
use hangar_relay::{TasksExtension, rewrite, task};
use hangar_store::Health;
use hangar_wire::Admission;

use super::answers::abilities;
use super::merged::Granted;
use super::register::{self, Offer};
use super::{Answer, Call, Outcome, is_task_only, mirrored, routing};
use crate::http::rescue;
use crate::upstream::contracts::Catalogue;
use crate::upstream::pins::{self, Verdict};

/// A tool whose contract was looked at and may be invoked.
struct Approved {
    catalogue: Arc<Catalogue>,
    name: String,
}

pub async fn run(call: &Call<'_>) -> Result<Answer, WireError> {
    call.admit()?;
    let shown = call.params.name.as_deref().unwrap_or_default();
    let name = unprefixed(call.prefix, shown).ok_or(Kind::UnknownTool)?;
    if !call.allows(name) {
        return Err(Kind::UnknownTool.into());
    }
    let approved = approve(call, name).await?;
    let tool = approved.tool().ok_or(Kind::UnknownTool)?;
    let digest = ToolDigest(tool.digest);
    let headers = routing(Method::ToolsCall, Some(name), mirrored(call, tool)?);
    let offer = offer(call).await;
    if is_task_only(call.upstream, tool) {
        possible(call, offer)?;
    }
    let message = match call.exchange(headers, outgoing(call, name, offer)).await {
        Ok(message) => message,
        Err(failure) => return Err(rescue::exchange(&failure)),
    };
    let relayed = call.read(&message)?;
    let result = match (&relayed.reply, offer) {
        (Reply::Result(result), _) => *result,
        // The upstream misses what we left out: the client is told why, and not that it is to blame.
        (Reply::Error(error), Offer::Withheld(kind))
            if error.code == Kind::MissingCapability.code() =>
        {
            return Err(kind.into());
        }
        (Reply::Error(_), _) => {
            return Ok(Answer::relayed(
                call.request.id,
                &relayed,
                Outcome::RpcError,
            ));
        }
    };
    match task::classify(result) {
        task::Outcome::Complete { is_error } => {
            let outcome = if is_error {
                Outcome::ToolError
            } else {
                Outcome::Ok
            };
            Ok(Answer::relayed(call.request.id, &relayed, outcome))
        }
        task::Outcome::InputRequired => Ok(Answer::relayed(call.request.id, &relayed, Outcome::Ok)),
        task::Outcome::Task(snapshot) => {
            let birth = register::Birth {
                tool: name.to_owned(),
                digest,
                snapshot,
                offer,
                declared: abilities(&call.params.meta.capabilities),
                beside: beside(call),
                message: Bytes::clone(&message),
            };
            register::run(call.section(), birth).await
        }
        task::Outcome::Invalid(error) => {
            register::count_failure(call, error.reason());
            // A handle in a wrong shape still means that something runs upstream.
            if let Some(suspected) = task::suspected_id(result) {
                register::abandon(call.section(), &suspected);
            }
            Err(Kind::UpstreamProtocol.into())
        }
    }
}

/// All upstreams of the endpoint where there are several.
fn beside(call: &Call<'_>) -> Vec<UpstreamUid> {
    if call.has_several {
        Granted::of(call.active, &call.caller.tenant).uids()
    } else {
        Vec::new()
    }
}

/// The body with the upstream's own name of the tool, and with tasks only where they are offered.
fn outgoing(call: &Call<'_>, name: &str, offer: Offer) -> Bytes {
    let extension = match offer {
        Offer::Made => TasksExtension::Forward,
        Offer::NotDeclared | Offer::Withheld(_) => TasksExtension::Withhold,
    };
    match rewrite::call(call.request, call.params, name, extension) {
        std::borrow::Cow::Borrowed(_) => Bytes::clone(call.body),
        std::borrow::Cow::Owned(text) => text.into(),
    }
}

/// Finds the tool's contract and judges it. One that is missing or not the pinned one is looked at
/// again before it is refused: it may have come, or been put back, since the list was fetched.
async fn approve(call: &Call<'_>, name: &str) -> Result<Approved, WireError> {
    let max_age = Duration::from_millis(call.upstream.object.pinning.max_age_ms);
    let contracts = &call.upstream.runtime.contracts;
    let http = &call.active.http;
    let arrived = Instant::now();
    let mut catalogue = contracts
        .within(call.upstream, http, max_age)
        .await
        .map_err(|error| call.unseen(&error))?;
    let mut verdict = judge(call, &catalogue, name).await?;
    if verdict != Some(Verdict::Approved) && catalogue.began < arrived {
        catalogue = contracts
            .since(call.upstream, http, arrived)
            .await
            .map_err(|error| call.unseen(&error))?;
        verdict = judge(call, &catalogue, name).await?;
    }
    match verdict {
        Some(Verdict::Approved) => Ok(Approved {
            catalogue,
            name: name.to_owned(),
        }),
        Some(Verdict::Drifted) => Err(Kind::DigestDrift.into()),
        Some(Verdict::NotPinned) => {
            Err(WireError::from(Kind::DigestDrift).because("no contract of this tool is pinned"))
        }
        None => Err(Kind::UnknownTool.into()),
    }
}

async fn judge(
    call: &Call<'_>,
    catalogue: &Catalogue,
    name: &str,
) -> Result<Option<Verdict>, WireError> {
    let Some(tool) = catalogue
        .tools
        .get(name)
        .filter(|tool| tool.mirrors.is_ok())
    else {
        return Ok(None);
    };
    let judged = pins::judge(call.gateway, call.upstream, &catalogue.tools, &[tool]).await;
    let judged = judged.map_err(|error| rescue::store(&error))?;
    Ok(judged.first().copied())
}

/// Whether a task may be born of this call. Refusing before the work starts is the rule; a cancel
/// afterwards is only the net under it.
async fn offer(call: &Call<'_>) -> Offer {
    if !call.params.meta.capabilities.tasks.is_yes() {
        return Offer::NotDeclared;
    }
    if !call.upstream.object.tasks.relay {
        return Offer::Withheld(Kind::Denied);
    }
    if call.admission() != Admission::Open {
        return Offer::Withheld(Kind::AdmissionClosed);
    }
    if call.gateway.store.health() != Health::Ok {
        return Offer::Withheld(Kind::Internal);
    }
    match below_quota(call).await {
        Ok(true) => Offer::Made,
        Ok(false) => Offer::Withheld(Kind::QuotaExceeded),
        Err(_) => Offer::Withheld(Kind::Internal),
    }
}

/// A tool that runs as a task only is not called where none may be born.
fn possible(call: &Call<'_>, offer: Offer) -> Result<(), WireError> {
    match offer {
        Offer::Made => Ok(()),
        Offer::NotDeclared if call.client.is_modern() => Err(WireError::missing_tasks()),
        Offer::NotDeclared => Err(WireError::from(Kind::Denied)
            .because("this tool runs as a task only, and clients of 2025-11-25 are not given any")),
        Offer::Withheld(kind) => Err(kind.into()),
    }
}

/// Whether the tenant may have another live task; what time has ended is retired before it says no.
async fn below_quota(call: &Call<'_>) -> Result<bool, WireError> {
    let quota = u64::from(call.caller.tenant.object.limits.live_tasks);
    let tenant = call.caller.owner.tenant.as_ref();
    let store = &call.gateway.store;
    let section = call.section();
    let live = store.live_of(tenant).await;
    if live.map_err(|error| section.store_failed(&error))? < quota {
        return Ok(true);
    }
    section.retire_due().await?;
    let live = store.live_of(tenant).await;
    Ok(live.map_err(|error| section.store_failed(&error))? < quota)
}

// === impl Approved ===

impl Approved {
    fn tool(&self) -> Option<&Tool> {
        self.catalogue.tools.get(&self.name)
    }
}
