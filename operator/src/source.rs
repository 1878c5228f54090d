//! Where objects come from: a folder of manifests, or a Kubernetes cluster.

pub mod document;
pub mod folder;
pub mod kubernetes;
pub mod manifest;
pub mod trouble;

use futures::future::BoxFuture;
use hangar_operator_core::Change;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Feeds the control loop.
///
/// Guarantees: one `Change::Reset` for each kind comes before anything else of that kind, and only
/// once the objects of that kind are known completely.
pub trait Source: Send {
    /// Sends changes until stopped.
    fn run(
        self: Box<Self>,
        changes: mpsc::Sender<Change>,
        stop: CancellationToken,
    ) -> BoxFuture<'static, ()>;
}
