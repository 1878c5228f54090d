//! What the gateways hold, as far as they told.

use std::collections::BTreeMap;
use std::sync::Arc;

use hangar_wire::{ObjectDigest, ObjectKey, Pod, Rejection};

/// Every gateway pod that counts: those that are Ready, and those that are subscribed.
#[derive(Clone, Debug, Default)]
pub struct Fleet {
    pub pods: BTreeMap<Pod, PodView>,
}

/// What one pod acknowledged. A pod that is Ready and never subscribed has the default: nothing.
#[derive(Clone, Debug, Default)]
pub struct PodView {
    /// Digests of the objects of the configuration that the pod holds; shared by all pods that hold it.
    pub acknowledged: Arc<BTreeMap<ObjectKey, ObjectDigest>>,
    /// Objects of that configuration that the pod could not use.
    pub rejected: BTreeMap<ObjectKey, Rejection>,
}

/// How far one form of one object has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// Pods that count.
    pub(crate) ready: usize,
    /// Pods that acknowledged the form.
    pub(crate) programmed: usize,
    /// Pods that could not use the form.
    pub(crate) rejected: usize,
    /// The first rejection, in order of pods.
    pub(crate) rejection: Option<String>,
}

// === impl Fleet ===

impl Fleet {
    /// Counts pods. With no digest (nothing current to hold) none is programmed.
    pub(crate) fn progress(&self, key: &ObjectKey, digest: Option<ObjectDigest>) -> Progress {
        let mut progress = Progress {
            ready: self.pods.len(),
            ..Progress::default()
        };
        let Some(digest) = digest else {
            return progress;
        };
        for (pod, view) in &self.pods {
            // A rejection of an earlier form says nothing about this one.
            let rejection = view.rejected.get(key).filter(|it| it.digest == digest);
            if let Some(rejection) = rejection {
                progress.rejected += 1;
                progress.rejection.get_or_insert_with(|| {
                    format!(
                        "gateway {}/{}: {}: {}",
                        pod.namespace, pod.name, rejection.reason, rejection.message
                    )
                });
            } else if view.acknowledged.get(key) == Some(&digest) {
                progress.programmed += 1;
            }
        }
        progress
    }
}
