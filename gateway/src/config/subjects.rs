//! Who is who: the index from credentials to tenants, and who gives way where two claim one.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use hangar_ledger::Principal;
use hangar_wire::{ApiKeyHash, ObjectKey, SubjectKind};

use super::active::Tenant;

/// Which tenant a credential belongs to.
#[derive(Debug, Default)]
pub(super) struct Subjects {
    keys: HashMap<ApiKeyHash, (Arc<Tenant>, Principal)>,
    anonymous: Option<Arc<Tenant>>,
}

/// What makes a caller one of a tenant.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Credential {
    Anonymous,
    Key(ApiKeyHash),
}

// === impl Subjects ===

impl Subjects {
    /// Assumptions: [`newcomers`] finds nobody.
    pub(super) fn index(tenants: &BTreeMap<ObjectKey, Arc<Tenant>>) -> Self {
        let mut subjects = Self::default();
        for tenant in tenants.values() {
            for subject in &tenant.object.subjects {
                match &subject.kind {
                    SubjectKind::Anonymous => subjects.anonymous = Some(Arc::clone(tenant)),
                    SubjectKind::ApiKeys { principals } => {
                        for (name, hashes) in principals {
                            for hash in hashes {
                                let principal = Principal::api_key(name);
                                let known = (Arc::clone(tenant), principal);
                                subjects.keys.insert(*hash, known);
                            }
                        }
                    }
                }
            }
        }
        subjects
    }

    /// The hash as it is stored, and who it is.
    pub(super) fn key(
        &self,
        hash: &ApiKeyHash,
    ) -> Option<(&ApiKeyHash, &(Arc<Tenant>, Principal))> {
        self.keys.get_key_value(hash)
    }

    pub(super) fn anonymous(&self) -> Option<&Arc<Tenant>> {
        self.anonymous.as_ref()
    }

    /// Whether this credential was this tenant's.
    fn held(&self, credential: Credential, tenant: &Tenant) -> bool {
        let holder = match credential {
            Credential::Anonymous => self.anonymous.as_ref(),
            Credential::Key(hash) => self.keys.get(&hash).map(|(tenant, _)| tenant),
        };
        // An object that was deleted and made again is not its predecessor.
        holder.is_some_and(|holder| {
            holder.object.key() == tenant.object.key() && holder.object.uid == tenant.object.uid
        })
    }
}

/// Tenants that claim what another one held before, or else what another name claims first. A
/// conflict with one of them is none: it goes.
pub(super) fn newcomers(
    tenants: &BTreeMap<ObjectKey, Arc<Tenant>>,
    before: Option<&Subjects>,
) -> BTreeSet<ObjectKey> {
    let mut claims: HashMap<Credential, (&ObjectKey, &Tenant)> = HashMap::new();
    let mut losers = BTreeSet::new();
    for (key, tenant) in tenants {
        for credential in credentials(tenant) {
            let Some((other, claimant)) = claims.get(&credential).copied() else {
                claims.insert(credential, (key, tenant));
                continue;
            };
            if other == key || losers.contains(key) {
                continue;
            }
            if losers.contains(other) {
                claims.insert(credential, (key, tenant));
                continue;
            }
            let held = |tenant| before.is_some_and(|before| before.held(credential, tenant));
            if held(tenant) && !held(claimant) {
                losers.insert(other.clone());
                claims.insert(credential, (key, tenant));
            } else {
                losers.insert(key.clone());
            }
        }
    }
    losers
}

fn credentials(tenant: &Tenant) -> impl Iterator<Item = Credential> {
    let subjects = tenant.object.subjects.iter();
    subjects.flat_map(|subject| match &subject.kind {
        SubjectKind::Anonymous => vec![Credential::Anonymous],
        SubjectKind::ApiKeys { principals } => {
            let hashes = principals.values().flatten();
            hashes.map(|hash| Credential::Key(*hash)).collect()
        }
    })
}
