//! What outlives a configuration.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use hangar_wire::ObjectKey;

use super::active::{Tenant, Upstream};
use crate::limit::Bucket;
use crate::limit::held::{Budget, Room};
use crate::upstream::Runtime;

/// Per upstream its contracts and counters, per tenant its rate and its room.
#[derive(Debug, Default)]
pub struct Runtimes {
    upstreams: HashMap<(String, String), Arc<Runtime>>,
    buckets: HashMap<ObjectKey, Arc<Bucket>>,
    rooms: HashMap<ObjectKey, Arc<Room>>,
}

// === impl Runtimes ===

impl Runtimes {
    /// The runtime of an upstream; another URL or another object starts afresh, since contracts seen there say
    /// nothing of here.
    pub(super) fn upstream(&mut self, object: &hangar_wire::Upstream) -> Arc<Runtime> {
        let key = (object.uid.clone(), object.url.clone());
        let limit = usize::try_from(object.limits.max_concurrent).unwrap_or(usize::MAX);
        let runtime = self
            .upstreams
            .entry(key)
            .or_insert_with(|| Arc::new(Runtime::default()));
        runtime.places.set_limit(limit);
        Arc::clone(runtime)
    }

    pub(super) fn bucket(&mut self, object: &hangar_wire::Tenant) -> Arc<Bucket> {
        let limits = &object.limits;
        let fresh = Bucket::new(limits.requests_per_second, limits.burst);
        let bucket = self.buckets.entry(object.key()).or_default();
        if !bucket.same_limits(&fresh) {
            *bucket = Arc::new(fresh);
        }
        Arc::clone(bucket)
    }

    pub(super) fn room(&mut self, object: &hangar_wire::Tenant, budget: &Arc<Budget>) -> Arc<Room> {
        let room = self.rooms.entry(object.key());
        Arc::clone(room.or_insert_with(|| Arc::new(Room::tenant(Arc::clone(budget)))))
    }

    pub(super) fn retain(
        &mut self,
        upstreams: &BTreeMap<ObjectKey, Arc<Upstream>>,
        tenants: &BTreeMap<ObjectKey, Arc<Tenant>>,
    ) {
        let used: HashSet<(&str, &str)> = upstreams
            .values()
            .map(|upstream| (upstream.object.uid.as_str(), upstream.object.url.as_str()))
            .collect();
        self.upstreams
            .retain(|(uid, url), _| used.contains(&(uid.as_str(), url.as_str())));
        self.buckets.retain(|key, _| tenants.contains_key(key));
        self.rooms.retain(|key, _| tenants.contains_key(key));
    }
}
