//! Pod tokens of cluster mode: TokenReview, with each verdict kept for a minute.
//!
//! Guarantees: a token counts only when the API server echoes our audience, the token is bound to
//! a pod of our own namespace, and that pod carries the gateway labels.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hangar_wire::{Pod, Sha256Hex, TOKEN_AUDIENCE};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, TokenReviewStatus};
use k8s_openapi::api::core::v1::Pod as ClusterPod;
use kube::api::PostParams;
use kube::{Api, Client, ResourceExt as _};

use super::Error;
use crate::fleet::Fleet;
use crate::source::kubernetes::{GATEWAY_LABELS, is_gateway};

/// Asks the API server.
pub struct Reviewer {
    reviews: Api<TokenReview>,
    pods: Api<ClusterPod>,
    namespace: String,
    fleet: Arc<Fleet>,
    verdicts: Mutex<Verdicts>,
}

/// Verdicts by SHA-256 of the token.
#[derive(Debug, Default)]
struct Verdicts(HashMap<Sha256Hex, (Instant, Verdict)>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Verdict {
    Gateway(Pod),
    NotAGateway(String),
    Invalid,
}

const KEPT_FOR: Duration = Duration::from_mins(1);
const KEPT_AT_MOST: usize = 4096;
const POD_NAME: &str = "authentication.kubernetes.io/pod-name";
const POD_UID: &str = "authentication.kubernetes.io/pod-uid";

// === impl Reviewer ===

impl Reviewer {
    pub fn new(client: Client, namespace: &str, fleet: Arc<Fleet>) -> Self {
        Self {
            reviews: Api::all(client.clone()),
            pods: Api::namespaced(client, namespace),
            namespace: namespace.to_owned(),
            fleet,
            verdicts: Mutex::default(),
        }
    }

    /// The gateway pod that this token is bound to.
    pub async fn identify(&self, token: &str) -> Result<Pod, Error> {
        let key = Sha256Hex::of(token.as_bytes());
        let kept = self.lock().get(&key, Instant::now());
        let verdict = if let Some(verdict) = kept {
            verdict
        } else {
            let asked = Instant::now();
            let verdict = self
                .ask(token)
                .await
                .map_err(|error| Error::Unavailable(Box::new(error)))?;
            self.lock().keep(key, verdict.clone(), asked);
            verdict
        };
        match verdict {
            Verdict::Gateway(pod) => Ok(pod),
            Verdict::Invalid => Err(Error::Invalid),
            Verdict::NotAGateway(pod) => Err(Error::NotAGateway {
                pod,
                labels: GATEWAY_LABELS,
            }),
        }
    }

    async fn ask(&self, token: &str) -> kube::Result<Verdict> {
        let review = TokenReview {
            spec: TokenReviewSpec {
                token: Some(token.to_owned()),
                audiences: Some(vec![TOKEN_AUDIENCE.to_owned()]),
            },
            ..TokenReview::default()
        };
        let review = self.reviews.create(&PostParams::default(), &review).await?;
        let Some(pod) = review.status.and_then(bound_pod) else {
            return Ok(Verdict::Invalid);
        };
        let shown = format!("{}/{}", pod.namespace, pod.name);
        if pod.namespace != self.namespace {
            return Ok(Verdict::NotAGateway(shown));
        }
        if self.fleet.lists(&pod) || self.look_up(&pod).await? {
            return Ok(Verdict::Gateway(pod));
        }
        Ok(Verdict::NotAGateway(shown))
    }

    /// A pod may subscribe before our watch told of it: ask for it once.
    async fn look_up(&self, pod: &Pod) -> kube::Result<bool> {
        let found = self.pods.get_opt(&pod.name).await?;
        Ok(found.is_some_and(|it| it.uid().as_deref() == Some(&*pod.uid) && is_gateway(&it)))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Verdicts> {
        self.verdicts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Reviewer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reviewer").finish_non_exhaustive()
    }
}

// === impl Verdicts ===

impl Verdicts {
    fn get(&self, key: &Sha256Hex, now: Instant) -> Option<Verdict> {
        let (since, verdict) = self.0.get(key)?;
        (now.saturating_duration_since(*since) < KEPT_FOR).then(|| verdict.clone())
    }

    fn keep(&mut self, key: Sha256Hex, verdict: Verdict, now: Instant) {
        if self.0.len() >= KEPT_AT_MOST {
            self.0
                .retain(|_, (since, _)| now.saturating_duration_since(*since) < KEPT_FOR);
        }
        if self.0.len() >= KEPT_AT_MOST {
            // Only a flood of fresh tokens comes here; asking again is the safe direction.
            self.0.clear();
        }
        self.0.insert(key, (now, verdict));
    }
}

/// The pod in a review; `None` unless authenticated for our audience and bound to a pod.
fn bound_pod(status: TokenReviewStatus) -> Option<Pod> {
    // A server that ignores `audiences` would accept any token, so the echo is required.
    let audiences = status.audiences.unwrap_or_default();
    if status.authenticated != Some(true) || !audiences.iter().any(|it| it == TOKEN_AUDIENCE) {
        return None;
    }
    let user = status.user?;
    let extra = user.extra.unwrap_or_default();
    let one = |key: &str| extra.get(key)?.first().cloned();
    let name = user.username?;
    let (namespace, _) = name
        .strip_prefix("system:serviceaccount:")?
        .split_once(':')?;
    Some(Pod {
        namespace: namespace.to_owned(),
        name: one(POD_NAME)?,
        uid: one(POD_UID)?,
    })
}

#[cfg(test)]
mod tests;
