//! The authority of cluster mode: kept in a Secret, its certificate published in a ConfigMap.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::{Authority, Error};
use crate::owner::Owner;
use crate::source::kubernetes::FIELD_MANAGER;

/// Secret in the operator's namespace; created once, its content is never overwritten.
pub const SECRET: &str = "hangar-operator-tls";

/// ConfigMap in the operator's namespace with what gateways trust, under [`CA_KEY`].
pub const CONFIG_MAP: &str = "hangar-operator-ca";

pub const CA_KEY: &str = "ca.crt";

/// What gateways trust, as it is published.
#[derive(Debug)]
pub struct Published {
    api: Api<ConfigMap>,
    map: ConfigMap,
}

const PRIVATE_KEY: &str = "ca.key";
/// How often it is looked whether the certificate is still published.
const REPUBLISH_EVERY: Duration = Duration::from_secs(15);

// === impl Published ===

impl Published {
    /// Puts the certificate back where somebody took it away or changed it, until stopped: a
    /// gateway that loses it learns of no edit.
    pub async fn keep(self, stop: CancellationToken) {
        let mut due = tokio::time::interval(REPUBLISH_EVERY);
        due.set_missed_tick_behavior(MissedTickBehavior::Delay);
        due.tick().await;
        while stop.run_until_cancelled(due.tick()).await.is_some() {
            if let Some(Err(error)) = stop.run_until_cancelled(self.apply()).await {
                let error = crate::chain(&error);
                tracing::warn!(error, "certificate of the authority not published again");
            }
        }
    }

    async fn apply(&self) -> Result<(), Error> {
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let map = Patch::Apply(&self.map);
        let applied = self.api.patch(CONFIG_MAP, &params, &map).await;
        applied.map(drop).map_err(|source| Error::Cluster {
            what: "ConfigMap hangar-operator-ca",
            source: Box::new(source),
        })
    }
}

/// The kept authority, made when there is none; its certificate is published either way.
pub async fn authority(
    client: Client,
    namespace: &str,
    owner: &Owner,
    now: SystemTime,
) -> Result<(Authority, Published), Error> {
    let authority = keep(&Api::namespaced(client.clone(), namespace), owner, now).await?;
    let map = ConfigMap {
        metadata: ObjectMeta {
            name: Some(CONFIG_MAP.to_owned()),
            owner_references: owner.references(),
            ..ObjectMeta::default()
        },
        data: Some([(CA_KEY.to_owned(), authority.certificate_pem().to_owned())].into()),
        ..ConfigMap::default()
    };
    let published = Published {
        api: Api::namespaced(client, namespace),
        map,
    };
    published.apply().await?;
    Ok((authority, published))
}

async fn keep(api: &Api<Secret>, owner: &Owner, now: SystemTime) -> Result<Authority, Error> {
    let failed = |source| Error::Cluster {
        what: "Secret hangar-operator-tls",
        source: Box::new(source),
    };
    let params = PostParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    };
    if let Some(mut secret) = api.get_opt(SECRET).await.map_err(failed)? {
        if owner.adopt(&mut secret.metadata) {
            // Refused if the garbage collector was faster; the next start makes a new one then.
            secret = api
                .replace(SECRET, &params, &secret)
                .await
                .map_err(failed)?;
        }
        return load(&secret);
    }
    let authority = Authority::make(now)?;
    match api.create(&params, &secret_of(&authority, owner)).await {
        Ok(_) => Ok(authority),
        // Another process was faster: its authority is the one.
        Err(kube::Error::Api(status)) if status.code == 409 => {
            load(&api.get(SECRET).await.map_err(failed)?)
        }
        Err(source) => Err(failed(source)),
    }
}

fn load(secret: &Secret) -> Result<Authority, Error> {
    let text = |key: &'static str| {
        secret
            .data
            .as_ref()
            .and_then(|data| data.get(key))
            .and_then(|value| String::from_utf8(value.0.clone()).ok())
            .ok_or(Error::Incomplete { name: SECRET, key })
    };
    Authority::load(text(CA_KEY)?, text(PRIVATE_KEY)?)
}

fn secret_of(authority: &Authority, owner: &Owner) -> Secret {
    let value = |text: &str| ByteString(text.as_bytes().to_vec());
    let data: BTreeMap<_, _> = [
        (CA_KEY.to_owned(), value(authority.certificate_pem())),
        (PRIVATE_KEY.to_owned(), value(authority.key_pem())),
    ]
    .into();
    Secret {
        metadata: ObjectMeta {
            name: Some(SECRET.to_owned()),
            owner_references: owner.references(),
            ..ObjectMeta::default()
        },
        data: Some(data),
        ..Secret::default()
    }
}

#[cfg(test)]
mod tests;
