//! How metrics name upstreams: by grants of the configuration, and a bounded number of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::active::{Active, Grant, Tenant};

/// Upstream labels of metrics, by tenant.
pub type Labels = BTreeMap<String, BTreeSet<String>>;

/// Label of upstreams that have none of their own.
pub const OTHER: &str = "other";
/// Most pairs of tenant and upstream with a label of their own, in the order of their names.
const MAX_PAIRS: usize = 5000;

// === impl Active ===

impl Active {
    /// How metrics name this upstream (`namespace/name`) beside this tenant: as its grant says, and
    /// `other` where there is none any more.
    pub fn upstream_label(&self, tenant: &str, upstream: &str) -> &str {
        let labels = self.labels.get(tenant);
        labels
            .and_then(|labels| labels.get(upstream))
            .map_or(OTHER, String::as_str)
    }

    /// Every pair that metrics may name.
    pub fn labels(&self) -> &Labels {
        &self.labels
    }

    /// The first pairs have a label of their own; a bound, because each is a row of time series.
    pub(super) fn label_grants(&mut self) {
        let mut room = MAX_PAIRS;
        for tenant in self.tenants.values_mut() {
            let own = tenant.grants.len().min(room);
            room -= own;
            if tenant.own_labels() != own {
                *tenant = Arc::new(tenant.with_own_labels(own));
            }
            let labels = tenant.grants.iter().map(|grant| grant.label.clone());
            self.labels
                .entry(tenant.object.tenant.clone())
                .or_default()
                .extend(labels);
        }
    }
}

// === impl Tenant ===

impl Tenant {
    /// Grants whose upstream has a label of its own.
    fn own_labels(&self) -> usize {
        let own = self.grants.iter().filter(|grant| grant.label != OTHER);
        own.count()
    }

    /// The same tenant, with so many of its grants labelled.
    fn with_own_labels(&self, most: usize) -> Self {
        let Self {
            object,
            digest,
            reference,
            bucket,
            room,
            grants,
        } = self;
        let grants = grants.iter().enumerate().map(|(index, grant)| {
            let Grant { object, rules, .. } = &**grant;
            Arc::new(Grant {
                object: object.clone(),
                rules: rules.clone(),
                label: if index < most {
                    label_of(object)
                } else {
                    OTHER.to_owned()
                },
            })
        });
        Self {
            object: object.clone(),
            digest: *digest,
            reference: reference.clone(),
            bucket: Arc::clone(bucket),
            room: Arc::clone(room),
            grants: grants.collect(),
        }
    }
}

pub(super) fn label_of(grant: &hangar_wire::Grant) -> String {
    format!("{}/{}", grant.upstream_namespace, grant.upstream_name)
}
