//! A snapshot prepared for use: rules compiled, routes and keys indexed.
//!
//! An object that cannot be used is rejected alone; its last good form, if there was one, stays.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use hangar_ledger::{Owner, TenantRef, UpstreamUid};
use hangar_relay::policy::Rules;
use hangar_wire::{
    ApiKeyHash, ConfigDigest, Held, ObjectDigest, ObjectKey, Rejection, Snapshot, Term,
};
use http::Uri;
use subtle::ConstantTimeEq;

use super::Error;
use super::graves::Graves;
use super::labels::{Labels, label_of};
use super::runtimes::Runtimes;
use super::subjects::{Subjects, newcomers};
use crate::limit::Bucket;
use crate::limit::held::{Budget, Room};
use crate::upstream::Runtime;
use crate::upstream::address::Policy;
use crate::upstream::client::{Http, literal_address};

/// Everything that decides a request.
#[derive(Debug)]
pub struct Active {
    term: Term,
    digest: ConfigDigest,
    addresses: Arc<Policy>,
    /// Remade when the address rules change, so that no pooled connection outlives its permission.
    pub http: Http,
    upstreams: BTreeMap<ObjectKey, Arc<Upstream>>,
    by_uid: HashMap<UpstreamUid, Arc<Upstream>>,
    pub(super) tenants: BTreeMap<ObjectKey, Arc<Tenant>>,
    subjects: Subjects,
    pub(super) labels: Labels,
    graves: Graves,
}

/// An upstream as requests use it.
#[derive(Debug)]
pub struct Upstream {
    pub object: hangar_wire::Upstream,
    pub digest: ObjectDigest,
    pub uid: UpstreamUid,
    /// `namespace/name`, as events and metrics name it.
    pub label: String,
    pub uri: Uri,
    pub rules: Rules,
    pub runtime: Arc<Runtime>,
}

/// A tenant as requests use it.
#[derive(Debug)]
pub struct Tenant {
    pub object: hangar_wire::Tenant,
    pub digest: ObjectDigest,
    pub reference: TenantRef,
    pub bucket: Arc<Bucket>,
    /// What bodies of its requests and answers to them are held in.
    pub room: Arc<Room>,
    /// In order of their names.
    pub grants: Vec<Arc<Grant>>,
}

/// A tenant's access to one upstream.
#[derive(Debug)]
pub struct Grant {
    pub object: hangar_wire::Grant,
    pub rules: Rules,
    /// How metrics name the upstream beside this tenant: `namespace/name`, or `other` where the
    /// configuration has too many pairs.
    pub label: String,
}

/// Who calls.
#[derive(Clone, Debug)]
pub struct Caller {
    pub tenant: Arc<Tenant>,
    pub owner: Owner,
}

struct Refused {
    reason: &'static str,
    message: String,
}

// === impl Active ===

impl Active {
    /// Compiles a snapshot beside the one in force.
    pub fn prepare(
        snapshot: Snapshot,
        previous: Option<&Self>,
        budget: &Arc<Budget>,
        runtimes: &mut Runtimes,
    ) -> Result<(Self, Vec<Rejection>), Error> {
        let addresses = Arc::new(Policy::parse(&snapshot.addresses).map_err(Error::Addresses)?);
        let kept = previous.filter(|previous| previous.addresses == addresses);
        let http = match kept {
            Some(previous) => previous.http.clone(),
            None => Http::new(Arc::clone(&addresses)).map_err(Error::Tls)?,
        };
        let mut active = Self {
            term: snapshot.term,
            digest: snapshot.digest,
            addresses,
            http,
            upstreams: BTreeMap::new(),
            by_uid: HashMap::new(),
            tenants: BTreeMap::new(),
            subjects: Subjects::default(),
            labels: Labels::new(),
            graves: Graves::new(snapshot.tombstones),
        };
        let mut rejected = Vec::new();
        for object in snapshot.upstreams {
            active.add_upstream(object, previous, runtimes, &mut rejected)?;
        }
        for object in snapshot.tenants {
            active.add_tenant(object, previous, budget, runtimes, &mut rejected)?;
        }
        active.by_uid = active
            .upstreams
            .values()
            .map(|upstream| (upstream.uid.clone(), Arc::clone(upstream)))
            .collect();
        active.count_tenants();
        active.part_subjects(previous, &mut rejected);
        active.label_grants();
        active.subjects = Subjects::index(&active.tenants);
        runtimes.retain(&active.upstreams, &active.tenants);
        Ok((active, rejected))
    }

    pub fn term(&self) -> Term {
        self.term
    }

    pub fn held(&self) -> Held {
        Held {
            term: self.term,
            digest: self.digest,
        }
    }

    /// Whether connections that the other one permitted are permitted by this one.
    pub fn same_addresses(&self, other: &Self) -> bool {
        self.addresses == other.addresses
    }

    /// The caller behind an API key. The index is over SHA-256 of keys, and the final comparison
    /// takes the same time for every difference.
    pub fn caller_of_key(&self, key: &[u8]) -> Option<Caller> {
        let hash = ApiKeyHash::of(key);
        let (stored, (tenant, principal)) = self.subjects.key(&hash)?;
        let equal: bool = stored.0.as_bytes().ct_eq(hash.0.as_bytes()).into();
        equal.then(|| Caller {
            tenant: Arc::clone(tenant),
            owner: Owner {
                tenant: Some(tenant.reference.clone()),
                principal: Some(principal.clone()),
            },
        })
    }

    /// The tenant of callers without a credential, where a policy says so.
    pub fn anonymous(&self) -> Option<Caller> {
        self.subjects.anonymous().map(|tenant| Caller {
            tenant: Arc::clone(tenant),
            owner: Owner {
                tenant: None,
                principal: None,
            },
        })
    }

    pub fn upstream(&self, grant: &Grant) -> Option<&Arc<Upstream>> {
        self.upstreams.get(&ObjectKey::new(
            hangar_wire::Kind::McpUpstream,
            &grant.object.upstream_namespace,
            &grant.object.upstream_name,
        ))
    }

    pub fn upstreams(&self) -> impl Iterator<Item = &Arc<Upstream>> {
        self.upstreams.values()
    }

    /// The upstream of a task, whichever tenant made it.
    pub fn upstream_by_uid(&self, uid: &UpstreamUid) -> Option<&Arc<Upstream>> {
        self.by_uid.get(uid)
    }

    /// Upstreams that were deleted or became others.
    pub fn graves(&self) -> &Graves {
        &self.graves
    }

    /// Name of the tenant that unattributed callers belong to.
    pub fn anonymous_tenant(&self) -> Option<&str> {
        let tenant = self.subjects.anonymous()?;
        Some(&tenant.object.tenant)
    }

    fn add_upstream(
        &mut self,
        object: hangar_wire::Upstream,
        previous: Option<&Self>,
        runtimes: &mut Runtimes,
        rejected: &mut Vec<Rejection>,
    ) -> Result<(), Error> {
        let key = object.key();
        let digest = object.digest().map_err(Error::Damaged)?;
        // An object that was deleted and made again is not its predecessor.
        let known = previous
            .and_then(|previous| previous.upstreams.get(&key))
            .filter(|known| known.object.uid == object.uid);
        // Under other address rules a literal address must be judged again.
        let same_rules = previous.is_some_and(|previous| previous.addresses == self.addresses);
        if let Some(known) = known.filter(|known| same_rules && known.digest == digest) {
            self.upstreams.insert(key, Arc::clone(known));
            return Ok(());
        }
        match Upstream::new(object, digest, &self.addresses, runtimes) {
            Ok(upstream) => {
                self.upstreams.insert(key, Arc::new(upstream));
            }
            Err(refused) => {
                rejected.push(refused.of(key.clone(), digest));
                // Its last good form is good only as long as it may be reached.
                if let Some(known) =
                    known.filter(|known| known.denied_by(&self.addresses).is_none())
                {
                    self.upstreams.insert(key, Arc::clone(known));
                }
            }
        }
        Ok(())
    }

    fn add_tenant(
        &mut self,
        object: hangar_wire::Tenant,
        previous: Option<&Self>,
        budget: &Arc<Budget>,
        runtimes: &mut Runtimes,
        rejected: &mut Vec<Rejection>,
    ) -> Result<(), Error> {
        let key = object.key();
        let digest = object.digest().map_err(Error::Damaged)?;
        let known = previous
            .and_then(|previous| previous.tenants.get(&key))
            .filter(|known| known.object.uid == object.uid);
        if let Some(known) = known.filter(|known| known.digest == digest) {
            self.tenants.insert(key, Arc::clone(known));
            return Ok(());
        }
        match Tenant::new(object, digest, budget, runtimes) {
            Ok(tenant) => {
                self.tenants.insert(key, Arc::new(tenant));
            }
            Err(refused) => {
                rejected.push(refused.of(key.clone(), digest));
                if let Some(known) = known {
                    self.tenants.insert(key, Arc::clone(known));
                }
            }
        }
        Ok(())
    }

    /// No credential is two tenants': the newcomer is rejected, and its last good form stays.
    fn part_subjects(&mut self, previous: Option<&Self>, rejected: &mut Vec<Rejection>) {
        loop {
            let losers = newcomers(&self.tenants, previous.map(|previous| &previous.subjects));
            if losers.is_empty() {
                return;
            }
            for key in losers {
                let Some(loser) = self.tenants.remove(&key) else {
                    continue;
                };
                let known = previous
                    .and_then(|previous| previous.tenants.get(&key))
                    .filter(|known| known.object.uid == loser.object.uid)
                    // One of the two forms goes in each round, so that there is a last one.
                    .filter(|known| known.digest != loser.digest);
                if let Some(known) = known {
                    self.tenants.insert(key.clone(), Arc::clone(known));
                }
                let refused = Refused {
                    reason: "SubjectConflict",
                    message: "spec.subjects: a credential is already another tenant's".into(),
                };
                rejected.push(refused.of(key, loser.digest));
            }
        }
    }

    /// Tells each upstream how many tenants share it.
    fn count_tenants(&self) {
        let mut sharing: HashMap<(&str, &str), usize> = HashMap::new();
        for grant in self.tenants.values().flat_map(|tenant| &tenant.grants) {
            let object = &grant.object;
            let key = (&*object.upstream_namespace, &*object.upstream_name);
            *sharing.entry(key).or_default() += 1;
        }
        for upstream in self.upstreams.values() {
            let key = (&*upstream.object.namespace, &*upstream.object.name);
            let tenants = sharing.get(&key).copied().unwrap_or(0);
            upstream.runtime.places.set_tenants(tenants);
        }
    }
}

// === impl Upstream ===

impl Upstream {
    fn new(
        object: hangar_wire::Upstream,
        digest: ObjectDigest,
        addresses: &Policy,
        runtimes: &mut Runtimes,
    ) -> Result<Self, Refused> {
        let uri: Uri = object.url.parse().map_err(|_| Refused {
            reason: "BadUrl",
            message: "spec.endpoint: not a URL".into(),
        })?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) || uri.host().is_none() {
            return Err(Refused {
                reason: "BadUrl",
                message: "spec.endpoint: use an absolute http or https URL".into(),
            });
        }
        if let Some(address) = denied(&uri, addresses) {
            return Err(Refused {
                reason: "AddressDenied",
                message: format!(
                    "spec.endpoint: {address} is refused; start the operator with --allow-address if it is wanted"
                ),
            });
        }
        let uid = UpstreamUid(object.uid.clone());
        let rules = rules_of(&object.tools)?;
        let runtime = runtimes.upstream(&object);
        Ok(Self {
            digest,
            uid,
            label: format!("{}/{}", object.namespace, object.name),
            uri,
            rules,
            runtime,
            object,
        })
    }

    /// The literal address of the endpoint, where it is refused.
    fn denied_by(&self, addresses: &Policy) -> Option<IpAddr> {
        denied(&self.uri, addresses)
    }
}

// === impl Tenant ===

impl Tenant {
    fn new(
        object: hangar_wire::Tenant,
        digest: ObjectDigest,
        budget: &Arc<Budget>,
        runtimes: &mut Runtimes,
    ) -> Result<Self, Refused> {
        let mut grants = object
            .grants
            .iter()
            .map(|grant| {
                Ok(Arc::new(Grant {
                    rules: rules_of(&grant.tools)?,
                    label: label_of(grant),
                    object: grant.clone(),
                }))
            })
            .collect::<Result<Vec<_>, Refused>>()?;
        grants.sort_by(|one, other| one.object.name.cmp(&other.object.name));
        Ok(Self {
            digest,
            reference: TenantRef {
                namespace: object.namespace.clone(),
                tenant: object.tenant.clone(),
            },
            bucket: runtimes.bucket(&object),
            room: runtimes.room(&object, budget),
            grants,
            object,
        })
    }
}

// === impl Refused ===

impl Refused {
    fn of(self, object: ObjectKey, digest: ObjectDigest) -> Rejection {
        let Self { reason, message } = self;
        Rejection {
            object,
            digest,
            reason: reason.into(),
            message,
        }
    }
}

fn denied(uri: &Uri, addresses: &Policy) -> Option<IpAddr> {
    literal_address(uri).filter(|address| !addresses.permits(*address))
}

fn rules_of(tools: &hangar_wire::ToolRules) -> Result<Rules, Refused> {
    Rules::compile(tools).map_err(|error| Refused {
        reason: "InvalidGlob",
        message: format!("tools: {}", crate::chain(&error)),
    })
}
