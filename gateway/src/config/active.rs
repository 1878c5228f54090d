//! A snapshot prepared for use: rules compiled, routes and keys indexed.
//!
//! An object that cannot be used is rejected alone; its last good form, if there was one, stays.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use hangar_ledger::{Owner, Principal, TenantRef, UpstreamUid};
use hangar_relay::policy::Rules;
use hangar_wire::{
    ApiKeyHash, ConfigDigest, Held, ObjectDigest, ObjectKey, Rejection, Snapshot, SubjectKind, Term,
};
use http::Uri;
use subtle::ConstantTimeEq;

use super::Error;
use crate::limit::Bucket;
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
    tenants: BTreeMap<ObjectKey, Arc<Tenant>>,
    keys: HashMap<ApiKeyHash, (Arc<Tenant>, Principal)>,
    anonymous: Option<Arc<Tenant>>,
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
    pub grants: Vec<Arc<Grant>>,
}

/// A tenant's access to one upstream.
#[derive(Debug)]
pub struct Grant {
    pub object: hangar_wire::Grant,
    pub rules: Rules,
}

/// Who calls.
#[derive(Clone, Debug)]
pub struct Caller {
    pub tenant: Arc<Tenant>,
    pub owner: Owner,
}

/// What outlives a configuration: per upstream its contracts and counters, per tenant its rate.
#[derive(Debug, Default)]
pub struct Runtimes {
    upstreams: HashMap<(String, String), Arc<Runtime>>,
    buckets: HashMap<ObjectKey, Arc<Bucket>>,
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
            tenants: BTreeMap::new(),
            keys: HashMap::new(),
            anonymous: None,
        };
        let mut rejected = Vec::new();
        for object in snapshot.upstreams {
            active.add_upstream(object, previous, runtimes, &mut rejected)?;
        }
        for object in snapshot.tenants {
            active.add_tenant(object, previous, runtimes, &mut rejected)?;
        }
        active.index_subjects();
        runtimes.retain(&active);
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

    /// The caller behind an API key. The index is over SHA-256 of keys, and the final comparison
    /// takes the same time for every difference.
    pub fn caller_of_key(&self, key: &[u8]) -> Option<Caller> {
        let hash = ApiKeyHash::of(key);
        let (stored, (tenant, principal)) = self.keys.get_key_value(&hash)?;
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
        self.anonymous.as_ref().map(|tenant| Caller {
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

    fn add_upstream(
        &mut self,
        object: hangar_wire::Upstream,
        previous: Option<&Self>,
        runtimes: &mut Runtimes,
        rejected: &mut Vec<Rejection>,
    ) -> Result<(), Error> {
        let key = object.key();
        let digest = object.digest().map_err(Error::Damaged)?;
        let known = previous.and_then(|previous| previous.upstreams.get(&key));
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
                if let Some(known) = known {
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
        runtimes: &mut Runtimes,
        rejected: &mut Vec<Rejection>,
    ) -> Result<(), Error> {
        let key = object.key();
        let digest = object.digest().map_err(Error::Damaged)?;
        let known = previous.and_then(|previous| previous.tenants.get(&key));
        if let Some(known) = known.filter(|known| known.digest == digest) {
            self.tenants.insert(key, Arc::clone(known));
            return Ok(());
        }
        match Tenant::new(object, digest, runtimes) {
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

    fn index_subjects(&mut self) {
        for tenant in self.tenants.values() {
            for subject in &tenant.object.subjects {
                match &subject.kind {
                    SubjectKind::Anonymous => self.anonymous = Some(Arc::clone(tenant)),
                    SubjectKind::ApiKeys { principals } => {
                        for (name, hashes) in principals {
                            for hash in hashes {
                                let principal = Principal::api_key(name);
                                self.keys.insert(*hash, (Arc::clone(tenant), principal));
                            }
                        }
                    }
                }
            }
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
        if let Some(address) = literal_address(&uri).filter(|address| !addresses.permits(*address))
        {
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
}

// === impl Tenant ===

impl Tenant {
    fn new(
        object: hangar_wire::Tenant,
        digest: ObjectDigest,
        runtimes: &mut Runtimes,
    ) -> Result<Self, Refused> {
        let grants = object
            .grants
            .iter()
            .map(|grant| {
                Ok(Arc::new(Grant {
                    rules: rules_of(&grant.tools)?,
                    object: grant.clone(),
                }))
            })
            .collect::<Result<_, Refused>>()?;
        Ok(Self {
            digest,
            reference: TenantRef {
                namespace: object.namespace.clone(),
                tenant: object.tenant.clone(),
            },
            bucket: runtimes.bucket(&object),
            grants,
            object,
        })
    }
}

// === impl Runtimes ===

impl Runtimes {
    /// The runtime of an upstream; another URL or another object starts afresh, since contracts seen there say
    /// nothing of here.
    fn upstream(&mut self, object: &hangar_wire::Upstream) -> Arc<Runtime> {
        let key = (object.uid.clone(), object.url.clone());
        let limit = usize::try_from(object.limits.max_concurrent).unwrap_or(usize::MAX);
        let runtime = self
            .upstreams
            .entry(key)
            .or_insert_with(|| Arc::new(Runtime::default()));
        runtime.permit.set_limit(limit);
        Arc::clone(runtime)
    }

    fn bucket(&mut self, object: &hangar_wire::Tenant) -> Arc<Bucket> {
        let limits = &object.limits;
        let fresh = Bucket::new(limits.requests_per_second, limits.burst);
        let bucket = self.buckets.entry(object.key()).or_default();
        if !bucket.same_limits(&fresh) {
            *bucket = Arc::new(fresh);
        }
        Arc::clone(bucket)
    }

    fn retain(&mut self, active: &Active) {
        let used: HashSet<(&str, &str)> = active
            .upstreams
            .values()
            .map(|upstream| (upstream.object.uid.as_str(), upstream.object.url.as_str()))
            .collect();
        self.upstreams
            .retain(|(uid, url), _| used.contains(&(uid.as_str(), url.as_str())));
        self.buckets
            .retain(|key, _| active.tenants.contains_key(key));
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

fn rules_of(tools: &hangar_wire::ToolRules) -> Result<Rules, Refused> {
    Rules::compile(tools).map_err(|error| Refused {
        reason: "InvalidGlob",
        message: format!("tools: {}", crate::chain(&error)),
    })
}
