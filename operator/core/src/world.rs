//! The index of the whole world, and its compile into one configuration.
//!
//! Guarantees: the same world gives the same [`Compiled`] in whatever order it was told; one bad
//! object changes nothing but its own verdict; a form that was in force stays until the object is
//! deleted, made anew under the name, or accepted again.
//! Assumptions: the last good form of an object is known from what this `World` saw; a new process
//! starts without one.
//! Caveats: a last good policy keeps its rules, while its Secrets and upstreams are those of now,
//! so that a withdrawn key is withdrawn everywhere at once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hangar_crds::DEFAULT_CLASS;
use hangar_wire::{AddressRules, Kind, ObjectDigest, ObjectKey, Snapshot, Tenant, Term, Upstream};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;

use crate::keys::Keys;
use crate::object::{Change, Object, ObjectId, ObjectKind, Place, Undecodable};
use crate::reason::{Reason, Refusal};
use crate::tenancy::{self, Claims, Resolved, Target};
use crate::verdict::{Currency, Finding, InForce, UpstreamCount, Verdict};
use crate::{policy, upstream};

/// What an operator is told about itself.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Objects of another class are ignored.
    pub class: String,
    /// Where a TenantPolicy counts; `None`: in every namespace.
    pub policy_namespaces: Option<BTreeSet<String>>,
    /// Passed on to the gateways.
    pub addresses: AddressRules,
}

/// Every object, and the last good form of each.
#[derive(Debug)]
pub struct World {
    settings: Settings,
    upstreams: BTreeMap<Place, Entry<upstream::Form>>,
    policies: BTreeMap<Place, Entry<policy::Form>>,
    secrets: BTreeMap<Place, Keys>,
    /// Tenants of the last compile, so that only a changed one is hashed again.
    hashed: BTreeMap<Place, (Tenant, ObjectDigest)>,
}

/// What the world amounts to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compiled {
    pub addresses: AddressRules,
    pub upstreams: Vec<Upstream>,
    pub tenants: Vec<Tenant>,
    /// One for each object of this operator's class.
    pub verdicts: BTreeMap<ObjectKey, Verdict>,
}

/// The part of an object's metadata that counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Meta {
    pub(crate) place: Place,
    pub(crate) uid: String,
    pub(crate) generation: i64,
    pub(crate) created: Option<Timestamp>,
}

#[derive(Debug)]
struct Entry<F> {
    meta: Meta,
    current: Result<Arc<F>, Refusal>,
    /// The form that was last in force under this uid.
    last_good: Option<Arc<F>>,
}

/// What deciding on one policy needs to see.
struct Pass<'a, 'claims> {
    upstreams: &'a BTreeMap<Place, Entry<upstream::Form>>,
    secrets: &'a BTreeMap<Place, Keys>,
    before: &'a BTreeMap<Place, (Tenant, ObjectDigest)>,
    claims: &'a mut Claims<'claims>,
}

// === impl World ===

impl World {
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            upstreams: BTreeMap::new(),
            policies: BTreeMap::new(),
            secrets: BTreeMap::new(),
            hashed: BTreeMap::new(),
        }
    }

    /// Takes one step. Nothing is decided before [`World::compile`].
    pub fn apply(&mut self, change: Change) {
        match change {
            Change::Apply(object) => self.put(object),
            Change::Delete(id) => self.delete(&id),
            Change::Reset { kind, objects } => {
                // Objects of another kind would escape the removal below.
                let objects = objects.into_iter().filter(|it| it.id().kind == kind);
                let mut kept = BTreeSet::new();
                for object in objects {
                    let ObjectId {
                        namespace, name, ..
                    } = object.id();
                    kept.insert(Place::new(namespace, name));
                    self.put(object);
                }
                match kind {
                    ObjectKind::McpUpstream => self.upstreams.retain(|it, _| kept.contains(it)),
                    ObjectKind::TenantPolicy => self.policies.retain(|it, _| kept.contains(it)),
                    ObjectKind::Secret => self.secrets.retain(|it, _| kept.contains(it)),
                }
            }
        }
    }

    /// Decides on every object. Running it again changes nothing.
    pub fn compile(&mut self) -> Compiled {
        let mut compiled = Compiled {
            addresses: self.settings.addresses.clone(),
            upstreams: Vec::with_capacity(self.upstreams.len()),
            tenants: Vec::with_capacity(self.policies.len()),
            verdicts: BTreeMap::new(),
        };
        self.compile_upstreams(&mut compiled);
        self.compile_policies(&mut compiled);
        compiled
    }

    fn put(&mut self, object: Object) {
        match object {
            Object::Upstream(object) => {
                let meta = Meta::of(&object.metadata);
                if !self.is_ours(object.spec.class_name.as_deref()) {
                    self.upstreams.remove(&meta.place);
                    return;
                }
                let form = upstream::form(&meta, &object.spec);
                Entry::put(&mut self.upstreams, meta, form);
            }
            Object::Policy(object) => {
                let meta = Meta::of(&object.metadata);
                if !self.is_ours(object.spec.class_name.as_deref()) {
                    self.policies.remove(&meta.place);
                    return;
                }
                let form = self
                    .admits_policy(&meta)
                    .and_then(|()| policy::form(&meta, &object.spec));
                Entry::put(&mut self.policies, meta, form);
            }
            Object::Secret(secret) => {
                let keys = Keys::of(&secret);
                self.secrets
                    .insert(Place::new(secret.namespace, secret.name), keys);
            }
            Object::Undecodable(object) => self.put_undecodable(object),
        }
    }

    fn put_undecodable(&mut self, object: Undecodable) {
        let place = Place::new(object.id.namespace.as_str(), object.id.name.as_str());
        let ours = self.is_ours(object.class.as_deref());
        match (object.id.kind, ours) {
            (ObjectKind::McpUpstream, true) => {
                Entry::put_undecodable(&mut self.upstreams, place, object);
            }
            (ObjectKind::TenantPolicy, true) => {
                Entry::put_undecodable(&mut self.policies, place, object);
            }
            (ObjectKind::McpUpstream, false) => {
                self.upstreams.remove(&place);
            }
            (ObjectKind::TenantPolicy, false) => {
                self.policies.remove(&place);
            }
            (ObjectKind::Secret, _) => {
                self.secrets.insert(place, Keys::unreadable());
            }
        }
    }

    fn delete(&mut self, id: &ObjectId) {
        let place = Place::new(id.namespace.as_str(), id.name.as_str());
        match id.kind {
            ObjectKind::McpUpstream => drop(self.upstreams.remove(&place)),
            ObjectKind::TenantPolicy => drop(self.policies.remove(&place)),
            ObjectKind::Secret => drop(self.secrets.remove(&place)),
        }
    }

    fn is_ours(&self, class: Option<&str>) -> bool {
        class.unwrap_or(DEFAULT_CLASS) == self.settings.class
    }

    fn admits_policy(&self, meta: &Meta) -> Result<(), Refusal> {
        let namespace = &meta.place.namespace;
        match &self.settings.policy_namespaces {
            Some(allowed) if !allowed.contains(namespace) => {
                let allowed: Vec<&str> = allowed.iter().map(String::as_str).collect();
                Err(Refusal::new(
                    Reason::NamespaceNotAllowed,
                    format!(
                        "metadata.namespace: a TenantPolicy decides who is who and does not count \
                         in `{namespace}`; move it to one of: {}; or allow the namespace with \
                         --policy-namespace",
                        allowed.join(", ")
                    ),
                ))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn compile_upstreams(&mut self, compiled: &mut Compiled) {
        for (place, entry) in &mut self.upstreams {
            if let Ok(form) = &entry.current {
                entry.last_good = Some(Arc::clone(form));
            }
            let in_force = entry.last_good.as_deref().map(|form| InForce {
                digest: form.digest,
                generation: form.wire.generation,
                currency: entry.currency(),
            });
            let (accepted, resolved_refs) = match &entry.current {
                Ok(_) => (Finding::accepted(), Finding::resolved(&[])),
                Err(refusal) => (
                    Finding::refused(refusal, in_force.as_ref()),
                    Finding::not_judged(),
                ),
            };
            let verdict = Verdict {
                uid: entry.meta.uid.clone(),
                generation: entry.meta.generation,
                accepted,
                resolved_refs,
                in_force,
                upstreams: UpstreamCount::default(),
            };
            compiled.verdicts.insert(
                ObjectKey::new(Kind::McpUpstream, &*place.namespace, &*place.name),
                verdict,
            );
            compiled
                .upstreams
                .extend(entry.last_good.as_deref().map(|form| form.wire.clone()));
        }
    }

    fn compile_policies(&mut self, compiled: &mut Compiled) {
        let mut order: Vec<&Meta> = self.policies.values().map(|entry| &entry.meta).collect();
        // The older object wins; without a time (a folder has none) the name decides.
        order.sort_by_key(|meta| (meta.created.is_none(), meta.created, &meta.place));
        let order: Vec<Place> = order.iter().map(|meta| meta.place.clone()).collect();
        let mut claims = Claims::default();
        let mut hashed = BTreeMap::new();
        for place in &order {
            let Some(entry) = self.policies.get_mut(place) else {
                continue;
            };
            let mut pass = Pass {
                upstreams: &self.upstreams,
                secrets: &self.secrets,
                before: &self.hashed,
                claims: &mut claims,
            };
            let (verdict, tenant) = pass.decide(place, entry);
            compiled.verdicts.insert(
                ObjectKey::new(Kind::TenantPolicy, &*place.namespace, &*place.name),
                verdict,
            );
            if let Some((tenant, digest)) = tenant {
                hashed.insert(place.clone(), (tenant, digest));
            }
        }
        compiled
            .tenants
            .extend(hashed.values().map(|(tenant, _)| tenant.clone()));
        self.hashed = hashed;
    }
}

// === impl Pass ===

impl<'claims> Pass<'_, 'claims> {
    /// Tries the policy as it stands, else its last good form.
    fn decide(
        &mut self,
        place: &'claims Place,
        entry: &mut Entry<policy::Form>,
    ) -> (Verdict, Option<(Tenant, ObjectDigest)>) {
        let current = match &entry.current {
            Ok(form) => entry
                .keeps_tenant(form)
                .and_then(|()| self.admit(place, form))
                .map(|admitted| (Arc::clone(form), admitted)),
            Err(refusal) => Err(refusal.clone()),
        };
        let Meta {
            place: _,
            uid,
            generation,
            created: _,
        } = entry.meta.clone();
        let refusal = match current {
            Ok((form, (resolved, digest))) => {
                entry.last_good = Some(form);
                let verdict = Verdict {
                    uid,
                    generation,
                    accepted: Finding::accepted(),
                    resolved_refs: Finding::resolved(&resolved.unresolved),
                    in_force: Some(InForce {
                        digest,
                        generation: resolved.tenant.generation,
                        currency: Currency::Current,
                    }),
                    upstreams: resolved.upstreams,
                };
                return (verdict, Some((resolved.tenant, digest)));
            }
            Err(refusal) => refusal,
        };
        let earlier = entry
            .last_good
            .as_deref()
            .and_then(|form| self.admit(place, form).ok());
        let in_force = earlier.as_ref().map(|(resolved, digest)| InForce {
            digest: *digest,
            generation: resolved.tenant.generation,
            currency: Currency::LastGood,
        });
        let verdict = Verdict {
            uid,
            generation,
            accepted: Finding::refused(&refusal, in_force.as_ref()),
            resolved_refs: Finding::not_judged(),
            in_force,
            upstreams: earlier
                .as_ref()
                .map(|(resolved, _)| resolved.upstreams)
                .unwrap_or_default(),
        };
        (
            verdict,
            earlier.map(|(resolved, digest)| (resolved.tenant, digest)),
        )
    }

    /// Resolves a form against the world as it stands and takes its claims, all or none.
    fn admit(
        &mut self,
        place: &'claims Place,
        form: &policy::Form,
    ) -> Result<(Resolved, ObjectDigest), Refusal> {
        let resolved = tenancy::resolve(
            form,
            |place| match self.upstreams.get(place) {
                None => Target::Absent,
                Some(entry) => entry
                    .last_good
                    .as_deref()
                    .map_or(Target::NotAccepted, Target::InForce),
            },
            |place| self.secrets.get(place),
        );
        let digest = match self.before.get(place) {
            Some((tenant, digest)) if *tenant == resolved.tenant => *digest,
            _ => resolved.tenant.digest().map_err(|error| {
                Refusal::invalid("spec", format_args!("cannot be encoded: {error}"))
            })?,
        };
        self.claims.take(place, &resolved.tenant)?;
        Ok((resolved, digest))
    }
}

// === impl Entry ===

impl<F> Entry<F> {
    fn put(entries: &mut BTreeMap<Place, Self>, meta: Meta, form: Result<F, Refusal>) {
        // A good form that no compile has seen yet counts too: a bad one may follow at once.
        let last_good = entries
            .remove(&meta.place)
            .filter(|entry| entry.meta.uid == meta.uid)
            .and_then(|entry| entry.last_good.or_else(|| entry.current.ok()));
        let entry = Self {
            current: form.map(Arc::new),
            last_good,
            meta: meta.clone(),
        };
        entries.insert(meta.place, entry);
    }

    fn put_undecodable(entries: &mut BTreeMap<Place, Self>, place: Place, object: Undecodable) {
        let Undecodable {
            id: _,
            uid,
            generation,
            class: _,
            error,
        } = object;
        let known = entries.get(&place).map(|entry| entry.meta.clone());
        let same = known.filter(|meta| uid.as_ref().is_none_or(|uid| *uid == meta.uid));
        let refusal = Refusal::new(
            Reason::Undecodable,
            format!("{error}; correct the object, or upgrade the operator if it is newer"),
        );
        let meta = match same {
            Some(meta) => Meta {
                generation: generation.unwrap_or(meta.generation),
                ..meta
            },
            None => Meta {
                place,
                uid: uid.unwrap_or_default(),
                generation: generation.unwrap_or_default(),
                created: None,
            },
        };
        Self::put(entries, meta, Err(refusal));
    }

    fn currency(&self) -> Currency {
        match self.current {
            Ok(_) => Currency::Current,
            Err(_) => Currency::LastGood,
        }
    }
}

impl Entry<policy::Form> {
    /// The schema says so too; a tenant that changes its name would take its tasks along or lose them.
    fn keeps_tenant(&self, form: &policy::Form) -> Result<(), Refusal> {
        match &self.last_good {
            Some(earlier) if earlier.tenant != form.tenant => Err(Refusal::invalid(
                "spec.tenant",
                format_args!(
                    "is immutable and was `{}`; make another TenantPolicy for `{}`",
                    earlier.tenant, form.tenant
                ),
            )),
            Some(_) | None => Ok(()),
        }
    }
}

// === impl Meta ===

impl Meta {
    fn of(meta: &ObjectMeta) -> Self {
        Self {
            place: Place::new(
                meta.namespace.clone().unwrap_or_default(),
                meta.name.clone().unwrap_or_default(),
            ),
            uid: meta.uid.clone().unwrap_or_default(),
            generation: meta.generation.unwrap_or_default(),
            created: meta.creation_timestamp.as_ref().map(|time| time.0),
        }
    }
}

// === impl Compiled ===

impl Compiled {
    /// The configuration under a number.
    pub fn snapshot(&self, term: Term) -> Result<Snapshot, hangar_wire::Error> {
        Snapshot::new(
            term,
            self.addresses.clone(),
            self.upstreams.clone(),
            self.tenants.clone(),
        )
    }
}
