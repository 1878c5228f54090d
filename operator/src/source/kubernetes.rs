//! A Kubernetes cluster as the source: watches with reconnect, relist and guarded decode.
//!
//! Guarantees: a missed delete cannot survive a relist; an object that does not decode is told as
//! such and stops no other.

mod pods;
mod relist;

use std::fmt::Debug;
use std::pin::pin;
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::{Stream, StreamExt as _};
use hangar_crds::{LABEL_USE, McpUpstream, TenantPolicy};
use hangar_operator_core::{Change, Object, ObjectId, ObjectKind, SecretView, Status, Undecodable};
use hangar_wire::{Kind, ObjectKey};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Secret;
use kube::core::DeserializeGuard;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

pub use self::pods::is_gateway;
use self::relist::Relist;
use super::Source;
use super::trouble::{self, Troubles};
use crate::fleet::Fleet;
use crate::metrics::Metrics;
use crate::status::Book;

/// Name under which the operator owns fields.
pub const FIELD_MANAGER: &str = "hangar-operator";

/// Label selector of gateway pods.
pub const GATEWAY_LABELS: &str =
    "app.kubernetes.io/name=hangar,app.kubernetes.io/component=gateway";

/// Watches a cluster.
pub struct Kubernetes {
    pub client: Client,
    /// The operator's own, where the gateways run.
    pub own_namespace: String,
    /// Whose objects are watched; empty: all.
    pub namespaces: Vec<String>,
    pub fleet: Arc<Fleet>,
    /// Told the status that each object carries.
    pub book: Arc<Book>,
    pub metrics: Metrics,
    /// What cannot be read is told here.
    pub troubles: Troubles,
}

/// A kind that is watched.
trait Watched:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + Debug
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
    const KIND: ObjectKind;

    fn status(&self) -> Option<Status>;
    fn into_object(self) -> Object;
}

/// An event of one watch; watches of a kind are numbered.
type Tagged<K> = (usize, watcher::Result<watcher::Event<DeserializeGuard<K>>>);

const PAGE: u32 = 500;
/// Below the 295 s after which client and server disagree on who ends a watch.
const WATCH_SECONDS: u32 = 290;

fn config() -> watcher::Config {
    watcher::Config::default()
        .page_size(PAGE)
        .timeout(WATCH_SECONDS)
}

fn object_key(id: &ObjectId) -> Option<ObjectKey> {
    let kind = match id.kind {
        ObjectKind::McpUpstream => Kind::McpUpstream,
        ObjectKind::TenantPolicy => Kind::TenantPolicy,
        ObjectKind::Secret => return None,
    };
    Some(ObjectKey::new(kind, &*id.namespace, &*id.name))
}

// === impl Kubernetes ===

impl Kubernetes {
    async fn watch_all(self, changes: mpsc::Sender<Change>, stop: CancellationToken) {
        let secrets = config().labels(LABEL_USE);
        tokio::join!(
            self.watch::<McpUpstream>(config(), &changes, &stop),
            self.watch::<TenantPolicy>(config(), &changes, &stop),
            self.watch::<Secret>(secrets, &changes, &stop),
            pods::watch(
                Api::namespaced(self.client.clone(), &self.own_namespace),
                config().labels(GATEWAY_LABELS),
                &self.fleet,
                &self.metrics,
                &stop,
            ),
        );
    }

    async fn watch<K: Watched>(
        &self,
        config: watcher::Config,
        changes: &mpsc::Sender<Change>,
        stop: &CancellationToken,
    ) {
        let apis = self.apis::<K>();
        let mut relist = Relist::new(K::KIND, apis.len());
        let mut events = pin!(events::<K>(apis, &config));
        while let Some(Some((scope, event))) = stop.run_until_cancelled(events.next()).await {
            for change in self.take(&mut relist, scope, event) {
                let sent = stop.run_until_cancelled(changes.send(change)).await;
                if !matches!(sent, Some(Ok(()))) {
                    return;
                }
            }
        }
    }

    fn apis<K: Watched>(&self) -> Vec<Api<DeserializeGuard<K>>> {
        if self.namespaces.is_empty() {
            return vec![Api::all(self.client.clone())];
        }
        self.namespaces
            .iter()
            .map(|namespace| Api::namespaced(self.client.clone(), namespace))
            .collect()
    }

    fn take<K: Watched>(
        &self,
        relist: &mut Relist,
        scope: usize,
        event: watcher::Result<watcher::Event<DeserializeGuard<K>>>,
    ) -> Vec<Change> {
        match event {
            Ok(watcher::Event::Init) => {
                relist.begin(scope);
                Vec::new()
            }
            Ok(watcher::Event::InitApply(object)) => {
                relist.collect(scope, self.object(object));
                Vec::new()
            }
            Ok(watcher::Event::InitDone) => {
                self.troubles.clear(K::KIND, scope);
                let changes = relist.finish(scope);
                for change in &changes {
                    self.forget(change);
                }
                changes
            }
            Ok(watcher::Event::Apply(object)) => {
                self.troubles.clear(K::KIND, scope);
                relist.apply(scope, self.object(object))
            }
            Ok(watcher::Event::Delete(object)) => {
                self.troubles.clear(K::KIND, scope);
                let namespace = object.namespace().unwrap_or_default();
                let id = ObjectId::new(K::KIND, namespace, object.name_any());
                let changes = relist.delete(scope, &id);
                for change in &changes {
                    self.forget(change);
                }
                changes
            }
            Err(error) => {
                self.metrics.source_error(K::KIND.as_str());
                let words = trouble::words(K::KIND, &error);
                tracing::warn!(kind = %K::KIND, error = words, "watch failed; it is tried again");
                self.troubles.set(K::KIND, scope, words);
                Vec::new()
            }
        }
    }

    fn forget(&self, change: &Change) {
        if let Change::Delete(id) = change
            && let Some(key) = object_key(id)
        {
            self.book.remove(&key);
        }
    }

    fn object<K: Watched>(&self, DeserializeGuard(object): DeserializeGuard<K>) -> Object {
        let object = match object {
            Ok(object) => object,
            Err(invalid) => {
                let metadata = invalid.metadata;
                return Object::Undecodable(Undecodable {
                    id: ObjectId::new(
                        K::KIND,
                        metadata.namespace.unwrap_or_default(),
                        metadata.name.unwrap_or_default(),
                    ),
                    uid: metadata.uid,
                    generation: metadata.generation,
                    class: None,
                    error: invalid.error,
                });
            }
        };
        let status = object.status();
        let object = object.into_object();
        if let Some(key) = object_key(&object.id()) {
            match status {
                Some(status) => self.book.set(key, status),
                None => self.book.remove(&key),
            }
        }
        object
    }
}

impl Source for Kubernetes {
    fn run(
        self: Box<Self>,
        changes: mpsc::Sender<Change>,
        stop: CancellationToken,
    ) -> BoxFuture<'static, ()> {
        Box::pin(self.watch_all(changes, stop))
    }
}

impl Debug for Kubernetes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kubernetes").finish_non_exhaustive()
    }
}

fn events<K: Watched>(
    apis: Vec<Api<DeserializeGuard<K>>>,
    config: &watcher::Config,
) -> impl Stream<Item = Tagged<K>> + use<K> {
    let watches = apis.into_iter().enumerate().map(|(scope, api)| {
        watcher(api, config.clone())
            .default_backoff()
            .map(move |event| (scope, event))
            .boxed()
    });
    futures::stream::select_all(watches.collect::<Vec<_>>())
}

// === impl Watched ===

impl Watched for McpUpstream {
    const KIND: ObjectKind = ObjectKind::McpUpstream;

    fn status(&self) -> Option<Status> {
        self.status.clone().map(Status::Upstream)
    }

    fn into_object(self) -> Object {
        Object::Upstream(Box::new(self))
    }
}

impl Watched for TenantPolicy {
    const KIND: ObjectKind = ObjectKind::TenantPolicy;

    fn status(&self) -> Option<Status> {
        self.status.clone().map(Status::Policy)
    }

    fn into_object(self) -> Object {
        Object::Policy(Box::new(self))
    }
}

impl Watched for Secret {
    const KIND: ObjectKind = ObjectKind::Secret;

    fn status(&self) -> Option<Status> {
        None
    }

    fn into_object(self) -> Object {
        Object::Secret(SecretView::of(self))
    }
}
