//! Epoch of cluster mode: a number in a ConfigMap, moved by compare-and-swap on its resourceVersion.

use futures::future::BoxFuture;
use hangar_wire::Epoch;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};

use super::{EpochStore, Error, next};
use crate::owner::Owner;
use crate::source::kubernetes::FIELD_MANAGER;

#[derive(Clone, Debug)]
pub struct ClusterEpoch {
    api: Api<ConfigMap>,
    owner: Owner,
}

/// ConfigMap in the operator's namespace.
pub const NAME: &str = "hangar-operator-state";

const KEY: &str = "epoch";
const ATTEMPTS: u32 = 8;

// === impl ClusterEpoch ===

impl ClusterEpoch {
    pub fn new(client: Client, namespace: &str, owner: Owner) -> Self {
        Self {
            api: Api::namespaced(client, namespace),
            owner,
        }
    }

    async fn attempt(&self, at_least: Epoch) -> Result<Option<Epoch>, Error> {
        let failed = |source| Error::Cluster {
            name: NAME,
            source: Box::new(source),
        };
        let params = PostParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PostParams::default()
        };
        let found = self.api.get_opt(NAME).await.map_err(failed)?;
        let epoch = next(found.as_ref().map(kept).transpose()?.flatten(), at_least)?;
        let result = match found {
            Some(mut map) => {
                self.owner.adopt(&mut map.metadata);
                let data = map.data.get_or_insert_default();
                data.insert(KEY.to_owned(), epoch.0.to_string());
                // Carries the resourceVersion that was read: a concurrent writer makes this a 409.
                self.api.replace(NAME, &params, &map).await
            }
            None => self.api.create(&params, &fresh(epoch, &self.owner)).await,
        };
        match result {
            Ok(_) => Ok(Some(epoch)),
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(None),
            Err(source) => Err(failed(source)),
        }
    }
}

impl EpochStore for ClusterEpoch {
    fn raise(&self, at_least: Epoch) -> BoxFuture<'_, Result<Epoch, Error>> {
        Box::pin(async move {
            for _ in 0..ATTEMPTS {
                if let Some(epoch) = self.attempt(at_least).await? {
                    return Ok(epoch);
                }
            }
            Err(Error::Contended {
                name: NAME,
                attempts: ATTEMPTS,
            })
        })
    }
}

fn kept(map: &ConfigMap) -> Result<Option<Epoch>, Error> {
    let Some(text) = map.data.as_ref().and_then(|data| data.get(KEY)) else {
        return Ok(None);
    };
    let number = text.parse().map_err(|_| Error::NotANumber {
        file: NAME,
        found: text.chars().take(32).collect(),
    })?;
    Ok(Some(Epoch(number)))
}

fn fresh(epoch: Epoch, owner: &Owner) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(NAME.to_owned()),
            owner_references: owner.references(),
            ..ObjectMeta::default()
        },
        data: Some([(KEY.to_owned(), epoch.0.to_string())].into()),
        ..ConfigMap::default()
    }
}
