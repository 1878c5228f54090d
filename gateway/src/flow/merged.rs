//! `/mcp` of a tenant with several upstreams: names lead to one of them by prefix, task ids and
//! URIs by look-up, and lists are put together.
//!
//! Guarantees: an upstream that is slow, down or broken never hides the others; it is named in the
//! answer's `_meta`. A task is looked up in the store before any upstream hears of the request.

mod lists;
mod owners;
mod resource;

use std::sync::Arc;
use std::time::Duration;

use hangar_ledger::UpstreamUid;
use hangar_relay::merge;
use hangar_relay::method::Method;
use hangar_relay::params::{Params, Reference};
use hangar_relay::wire::{Kind, WireError};

use super::{Answer, Call, access, listen};
use crate::config::{Active, Grant, Tenant, Upstream};

pub use owners::Owners;

/// The upstreams of one tenant, in the order of their grants' names.
#[derive(Debug)]
pub struct Granted<'a> {
    pub present: Vec<(&'a Arc<Grant>, &'a Arc<Upstream>)>,
    /// Names of grants whose upstream is not in force.
    pub absent: Vec<&'a str>,
}

/// What leads a request to its upstream.
#[derive(Clone, Copy, Debug)]
pub enum Way<'p> {
    /// The prefix of a name; without one that leads anywhere the error is this.
    Name {
        shown: &'p str,
        unknown: Kind,
    },
    LookUp(LookUp<'p>),
}

/// What has to be looked for.
#[derive(Clone, Copy, Debug)]
pub enum LookUp<'p> {
    Uri(&'p str),
    Task,
    /// All answer together.
    All,
}

/// One request as each of several upstreams would be asked it.
#[derive(Debug)]
pub struct Merged<'a> {
    pub(super) calls: Vec<Call<'a>>,
    pub(super) absent: &'a [&'a str],
}

/// Who answers.
#[derive(Debug)]
pub enum Answerer<'m> {
    One(&'m Call<'m>),
    All,
}

/// What one upstream may take of an answer that others wait for.
const PATIENCE: Duration = Duration::from_secs(5);

// === impl Way ===

impl<'p> Way<'p> {
    pub fn of(method: Method, params: &'p Params<'_>) -> Result<Self, WireError> {
        let named = |name: Option<&'p str>, unknown: Kind| match name {
            Some(shown) => Ok(Self::Name { shown, unknown }),
            None => Err(unknown.into()),
        };
        match method {
            Method::Discover
            | Method::ToolsList
            | Method::PromptsList
            | Method::ResourcesList
            | Method::TemplatesList
            // Refused alike by all.
            | Method::Listen => Ok(Self::LookUp(LookUp::All)),
            Method::ToolsCall => named(params.name.as_deref(), Kind::UnknownTool),
            Method::PromptsGet => named(params.name.as_deref(), Kind::UnknownPrompt),
            Method::ResourcesRead => {
                let uri = params.uri.as_deref().unwrap_or_default();
                Ok(Self::LookUp(LookUp::Uri(uri)))
            }
            Method::Complete => match &params.reference {
                Some(Reference::Resource { uri }) => Ok(Self::LookUp(LookUp::Uri(uri))),
                Some(Reference::Prompt { name, .. }) => named(Some(name), Kind::UnknownPrompt),
                None => Err(Kind::UnknownPrompt.into()),
            },
            Method::TasksGet | Method::TasksUpdate | Method::TasksCancel => {
                Ok(Self::LookUp(LookUp::Task))
            }
        }
    }
}

// === impl Granted ===

impl<'a> Granted<'a> {
    pub fn of(active: &'a Active, tenant: &'a Tenant) -> Self {
        let mut granted = Self {
            present: Vec::with_capacity(tenant.grants.len()),
            absent: Vec::new(),
        };
        for grant in &tenant.grants {
            match active.upstream(grant) {
                Some(upstream) => granted.present.push((grant, upstream)),
                None => granted.absent.push(&grant.object.name),
            }
        }
        granted
    }

    /// The upstream that a shown name leads to.
    pub fn named(
        &self,
        shown: &str,
        unknown: Kind,
    ) -> Result<(&'a Arc<Grant>, &'a Arc<Upstream>), WireError> {
        if self.present.is_empty() {
            return Err(WireError::unavailable(None));
        }
        let prefixes = self.present.iter().map(|(grant, _)| &*grant.object.prefix);
        let (index, _) = merge::route(prefixes, shown).ok_or(unknown)?;
        Ok(self.present[index])
    }

    /// The upstreams in force: one task id must lead to one task among them.
    pub fn uids(&self) -> Vec<UpstreamUid> {
        let present = self.present.iter();
        present.map(|(_, upstream)| upstream.uid.clone()).collect()
    }
}

// === impl Merged ===

impl<'a> Merged<'a> {
    /// `call` makes the request for one of them.
    pub fn new(
        granted: &'a Granted<'a>,
        call: impl Fn(&'a Arc<Grant>, &'a Arc<Upstream>) -> Call<'a>,
    ) -> Self {
        let calls = granted.present.iter();
        Self {
            calls: calls
                .map(|(grant, upstream)| call(grant, upstream))
                .collect(),
            absent: &granted.absent,
        }
    }

    /// Whether there is one upstream, and no other that is missing.
    pub fn is_alone(&self) -> bool {
        self.calls.len() == 1 && self.absent.is_empty()
    }

    /// Finds out who answers.
    pub async fn answerer(&self, look_up: LookUp<'_>) -> Result<Answerer<'_>, WireError> {
        // No upstream in force: there is nothing to tell what was asked by.
        let Some(call) = self.calls.first() else {
            return Err(WireError::unavailable(None));
        };
        match look_up {
            LookUp::Uri(uri) => self.by_uri(uri).await,
            LookUp::Task => self.by_task(call).await,
            LookUp::All => Ok(Answerer::All),
        }
    }

    /// The answer of all together.
    pub async fn answer(&self) -> Result<Answer, WireError> {
        let Some(call) = self.calls.first() else {
            return Err(WireError::unavailable(None));
        };
        match call.method {
            Method::Discover => self.discover(call).await,
            Method::ToolsList => self.tools(call).await,
            Method::Listen => Err(listen::no_stream()),
            _ => self.list(call).await,
        }
    }

    async fn by_task(&self, call: &Call<'_>) -> Result<Answerer<'_>, WireError> {
        let task = call.task_id()?;
        let grants: Vec<_> = self
            .calls
            .iter()
            .map(|call| (&**call.grant, &call.upstream.uid))
            .collect();
        let place = access::place(call.gateway, call.caller, &grants, &task).await;
        if let Some(index) = place.map_err(|error| call.section().store_failed(&error))? {
            return Ok(Answerer::One(&self.calls[index]));
        }
        Err(Kind::TaskNotFound.into())
    }

    fn prefixes(&self) -> Vec<&str> {
        self.calls.iter().map(|call| call.prefix).collect()
    }

    /// Whether a shown name leads back to the upstream that it came from.
    fn is_own(prefixes: &[&str], index: usize, shown: &str) -> bool {
        merge::route(prefixes.iter().copied(), shown).is_some_and(|(at, _)| at == index)
    }
}
