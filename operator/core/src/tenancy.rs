//! Policies against the rest of the world: references resolved, identities claimed.

use std::collections::BTreeMap;

use hangar_wire::{ApiKeyHash, Grant, Subject, SubjectKind, Tenant};

use crate::keys::{self, Keys, Principals};
use crate::object::Place;
use crate::policy::{self, Source};
use crate::reason::{Reason, Refusal};
use crate::upstream::{self, Sharing};
use crate::verdict::UpstreamCount;

/// A policy with what its references lead to. What leads nowhere is left out and named.
#[derive(Debug)]
pub(crate) struct Resolved {
    pub(crate) tenant: Tenant,
    pub(crate) unresolved: Vec<Refusal>,
    pub(crate) upstreams: UpstreamCount,
}

/// What a reference to an upstream leads to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target<'a> {
    Absent,
    /// The object is there and nothing of it is in force.
    NotAccepted,
    InForce(&'a upstream::Form),
}

/// Identities that policies in force hold; each one belongs to one policy.
#[derive(Debug, Default)]
pub(crate) struct Claims<'a> {
    tenants: BTreeMap<String, &'a Place>,
    keys: BTreeMap<ApiKeyHash, &'a Place>,
    anonymous: Option<&'a Place>,
}

/// Resolves references.
///
/// Guarantees: a subject whose Secret is unusable gives nobody; a grant whose upstream is absent,
/// not in force or closed to the policy's namespace gives nothing; all others stand.
pub(crate) fn resolve<'a>(
    form: &policy::Form,
    upstream: impl Fn(&Place) -> Target<'a>,
    secret: impl Fn(&Place) -> Option<&'a Keys>,
) -> Resolved {
    let mut unresolved = Vec::new();
    let namespace = form.place.namespace.as_str();
    let mut subjects = Vec::with_capacity(form.subjects.len());
    for (index, subject) in form.subjects.iter().enumerate() {
        let kind = match &subject.source {
            Source::Anonymous => Ok(SubjectKind::Anonymous),
            Source::ApiKeys { secret: name } => {
                let place = Place::new(namespace, name.as_str());
                let path = format!("spec.subjects[{index}].apiKeys.secretRef");
                keys::resolve(&path, &place, secret(&place))
                    .map(|principals| SubjectKind::ApiKeys { principals })
            }
        };
        match kind {
            Ok(kind) => subjects.push(Subject {
                name: subject.name.clone(),
                kind,
            }),
            Err(refusal) => unresolved.push(refusal),
        }
    }
    let mut grants = Vec::with_capacity(form.grants.len());
    for (index, grant) in form.grants.iter().enumerate() {
        let place = Place::new(&*grant.upstream_namespace, &*grant.upstream_name);
        match check_reference(index, namespace, &place, upstream(&place)) {
            Ok(()) => grants.push(Grant::clone(grant)),
            Err(refusal) => unresolved.push(refusal),
        }
    }
    let upstreams = UpstreamCount {
        resolved: grants.len(),
        named: form.grants.len(),
    };
    let tenant = Tenant {
        namespace: form.place.namespace.clone(),
        name: form.place.name.clone(),
        uid: form.uid.clone(),
        generation: form.generation,
        tenant: form.tenant.clone(),
        admission: form.admission,
        subjects,
        grants,
        limits: form.limits,
    };
    Resolved {
        tenant,
        unresolved,
        upstreams,
    }
}

fn check_reference(
    index: usize,
    namespace: &str,
    place: &Place,
    target: Target<'_>,
) -> Result<(), Refusal> {
    let path = format!("spec.upstreams[{index}].upstreamRef");
    match target {
        Target::Absent => Err(Refusal::new(
            Reason::RefNotFound,
            format!("{path}: no McpUpstream {place}; make it or correct the reference"),
        )),
        Target::NotAccepted => Err(Refusal::new(
            Reason::UpstreamNotAccepted,
            format!("{path}: McpUpstream {place} is not accepted; see its own conditions"),
        )),
        Target::InForce(form) => match form.sharing {
            Sharing::All => Ok(()),
            Sharing::Same if place.namespace == namespace => Ok(()),
            Sharing::Same => Err(Refusal::new(
                Reason::RefNotPermitted,
                format!(
                    "{path}: McpUpstream {place} does not admit policies of namespace \
                     `{namespace}`; its owner can set spec.allowedPolicies.namespaces.from: All"
                ),
            )),
        },
    }
}

// === impl Claims ===

impl<'a> Claims<'a> {
    /// Takes every identity of a tenant, or none of them. Older policies must come first.
    pub(crate) fn take(&mut self, place: &'a Place, tenant: &Tenant) -> Result<(), Refusal> {
        self.check(tenant)?;
        self.tenants.insert(tenant.tenant.clone(), place);
        for subject in &tenant.subjects {
            match &subject.kind {
                SubjectKind::Anonymous => self.anonymous = Some(place),
                SubjectKind::ApiKeys { principals } => {
                    let keys = principals.values().flatten();
                    self.keys.extend(keys.map(|key| (*key, place)));
                }
            }
        }
        Ok(())
    }

    fn check(&self, tenant: &Tenant) -> Result<(), Refusal> {
        if let Some(older) = self.tenants.get(&tenant.tenant) {
            return Err(Refusal::new(
                Reason::Conflicted,
                format!(
                    "spec.tenant: `{}` belongs to the older TenantPolicy {older}; choose another \
                     name or delete one of the two",
                    tenant.tenant
                ),
            ));
        }
        let mut own: BTreeMap<ApiKeyHash, (&str, &str)> = BTreeMap::new();
        for Subject { name, kind } in &tenant.subjects {
            match kind {
                SubjectKind::Anonymous => {
                    if let Some(older) = self.anonymous {
                        return Err(conflict(&format!(
                            "subject `{name}`: callers without a credential belong to the older \
                             TenantPolicy {older}; one policy of a class may have them"
                        )));
                    }
                }
                SubjectKind::ApiKeys { principals } => {
                    self.check_keys(name, principals)?;
                    check_own_keys(&mut own, name, principals)?;
                }
            }
        }
        Ok(())
    }

    fn check_keys(&self, subject: &str, principals: &Principals) -> Result<(), Refusal> {
        for (principal, keys) in principals {
            if let Some(older) = keys.iter().find_map(|key| self.keys.get(key)) {
                return Err(conflict(&format!(
                    "subject `{subject}`: a key of principal `{principal}` is also in use in the \
                     older TenantPolicy {older}; give each its own key"
                )));
            }
        }
        Ok(())
    }
}

/// One key that is two principals would make an owner a matter of luck.
fn check_own_keys<'a>(
    own: &mut BTreeMap<ApiKeyHash, (&'a str, &'a str)>,
    subject: &'a str,
    principals: &'a Principals,
) -> Result<(), Refusal> {
    for (principal, keys) in principals {
        for key in keys {
            match own.insert(*key, (subject, principal)) {
                Some((other, first)) if first != principal => {
                    return Err(conflict(&format!(
                        "subject `{subject}`: principal `{principal}` has a key that is also the \
                         one of `{first}` in subject `{other}`; give each its own key"
                    )));
                }
                Some(_) | None => {}
            }
        }
    }
    Ok(())
}

fn conflict(what: &str) -> Refusal {
    Refusal::new(Reason::SubjectConflict, format!("spec.subjects: {what}"))
}
