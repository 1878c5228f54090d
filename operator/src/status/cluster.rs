//! Status of cluster mode: server-side apply to the status subresource, with our own manager.

use std::time::Duration;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use hangar_crds::{McpUpstream, TenantPolicy};
use hangar_operator_core::Status;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::{Book, Outcome, Update, Writer};
use crate::control::Verdicts;
use crate::metrics::{Metrics, StatusWrite};
use crate::source::kubernetes::FIELD_MANAGER;

/// Writes to the API server.
pub struct ClusterWriter {
    client: Client,
    metrics: Metrics,
}

/// Writes under way at the same time.
const CONCURRENT: usize = 8;
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

// === impl ClusterWriter ===

impl ClusterWriter {
    pub fn new(client: Client, metrics: Metrics) -> Self {
        Self { client, metrics }
    }

    async fn write_one(&self, update: Update, book: &Book) -> StatusWrite {
        let outcome = tokio::time::timeout(WRITE_TIMEOUT, self.apply(&update)).await;
        let Update { key, status, .. } = update;
        let written = match outcome {
            Ok(Ok(())) => {
                book.set(key, status);
                StatusWrite::Written
            }
            // Deleted, or made again under the same name: its own event brings it back.
            Ok(Err(kube::Error::Api(answer))) if answer.code == 404 || answer.code == 409 => {
                StatusWrite::Gone
            }
            Ok(Err(error)) => {
                tracing::warn!(object = %key, %error, "status not written");
                StatusWrite::Failed
            }
            Err(_) => {
                tracing::warn!(object = %key, "status not written within {WRITE_TIMEOUT:?}");
                StatusWrite::Failed
            }
        };
        self.metrics.status_write(written);
        written
    }

    async fn apply(&self, update: &Update) -> kube::Result<()> {
        match &update.status {
            Status::Upstream(status) => self.patch::<McpUpstream>(update, status).await,
            Status::Policy(status) => self.patch::<TenantPolicy>(update, status).await,
        }
    }

    async fn patch<K>(&self, update: &Update, status: &impl Serialize) -> kube::Result<()>
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + DeserializeOwned,
    {
        let Update { key, uid, .. } = update;
        // With the uid a status cannot land on another object of the same name.
        let patch = json!({
            "apiVersion": K::api_version(&()),
            "kind": K::kind(&()),
            "metadata": {"name": key.name, "uid": uid},
            "status": status,
        });
        Api::<K>::namespaced(self.client.clone(), &key.namespace)
            .patch_status(
                &key.name,
                &PatchParams::apply(FIELD_MANAGER).force(),
                &Patch::Apply(&patch),
            )
            .await?;
        Ok(())
    }
}

impl Writer for ClusterWriter {
    fn write<'a>(&'a self, updates: Vec<Update>, book: &'a Book) -> BoxFuture<'a, Outcome> {
        let writes = futures::stream::iter(updates)
            .map(move |update| self.write_one(update, book))
            .buffer_unordered(CONCURRENT);
        Box::pin(
            writes.fold(Outcome::Done, async |so_far, written| match written {
                StatusWrite::Failed => Outcome::Failed,
                StatusWrite::Written | StatusWrite::Gone => so_far,
            }),
        )
    }

    /// The book follows the watch here.
    fn retain(&self, _: &Verdicts, _: &Book) {}
}

impl std::fmt::Debug for ClusterWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClusterWriter").finish_non_exhaustive()
    }
}
