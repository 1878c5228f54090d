//! Who owns what the operator makes in its namespace: its own `ServiceAccount`.
//!
//! An installation that is removed takes its `ServiceAccount` with it, and the cluster's garbage
//! collector then takes the objects that name it as their owner. An object that a person made in
//! advance names no such owner, and is never given one.

use k8s_openapi::api::authentication::v1::{SelfSubjectReview, SelfSubjectReviewStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};

/// The owner of new objects; none where the operator does not run as a `ServiceAccount`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Owner(Option<OwnerReference>);

const KIND: &str = "ServiceAccount";
const USER_PREFIX: &str = "system:serviceaccount:";

// === impl Owner ===

impl Owner {
    /// Asks the API server who we are; every authenticated user may.
    ///
    /// Assumptions: a `ServiceAccount` of another namespace owns nothing in `namespace`, since an
    /// owner reference does not cross namespaces.
    pub async fn of_this_process(client: Client, namespace: &str) -> kube::Result<Self> {
        let question = SelfSubjectReview::default();
        let answer = Api::<SelfSubjectReview>::all(client)
            .create(&PostParams::default(), &question)
            .await?;
        Ok(Self::from_review(answer.status.as_ref(), namespace))
    }

    fn from_review(review: Option<&SelfSubjectReviewStatus>, namespace: &str) -> Self {
        let user = review.and_then(|status| status.user_info.as_ref());
        let name = user
            .and_then(|user| user.username.as_deref())
            .and_then(|user| user.strip_prefix(USER_PREFIX))
            .and_then(|user| user.split_once(':'))
            .and_then(|(of, name)| (of == namespace).then_some(name));
        let uid = user.and_then(|user| user.uid.as_deref());
        Self(name.zip(uid).map(|(name, uid)| OwnerReference {
            api_version: "v1".to_owned(),
            kind: KIND.to_owned(),
            name: name.to_owned(),
            uid: uid.to_owned(),
            ..OwnerReference::default()
        }))
    }

    /// For an object that is made now.
    pub fn references(&self) -> Option<Vec<OwnerReference>> {
        self.0.clone().map(|owner| vec![owner])
    }

    /// Takes over what an earlier installation made, so that it does not go with that one; whether
    /// anything changed.
    pub fn adopt(&self, metadata: &mut ObjectMeta) -> bool {
        let Some(owner) = &self.0 else { return false };
        let left_over = metadata
            .owner_references
            .iter_mut()
            .flatten()
            .find(|found| found.kind == KIND && found.name == owner.name);
        match left_over {
            Some(found) if found.uid != owner.uid => {
                *found = owner.clone();
                true
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests;
