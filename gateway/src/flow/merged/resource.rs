//! Whose a URI is: the one upstream that announces resources, or the one that lists it best.

use std::time::{Duration, Instant};

use futures::future::join_all;
use hangar_relay::announce::Announced;
use hangar_relay::envelope::Reply;
use hangar_relay::merge::{self, Chosen, Fit};
use hangar_relay::method::Method;
use hangar_relay::rewrite::{MetaOf, Own};
use hangar_relay::surface::Page;
use hangar_relay::wire::{Kind, WireError};

use super::{Answerer, Merged, PATIENCE};
use crate::flow::relay::breach;
use crate::flow::{Call, routing};
use crate::http::rescue;

/// How long an announcement is taken for true where something comes of it.
const REMEMBERED: Duration = Duration::from_mins(1);
/// Pages of one list that are looked through for a URI.
const MAX_PAGES: usize = 16;

// === impl Merged ===

impl Merged<'_> {
    /// Caveats: an upstream that cannot be asked is not waited for where another one fits.
    pub(super) async fn by_uri(&self, uri: &str) -> Result<Answerer<'_>, WireError> {
        if let Some(index) = self.remembered(uri) {
            return Ok(Answerer::One(&self.calls[index]));
        }
        let led_away = |call: &Call<'_>| {
            let remembered = &call.upstream.runtime.resources;
            remembered.within(REMEMBERED) == Some(false)
        };
        let may_be_old = self.calls.iter().any(led_away);
        let mut found = self.look(&[uri], REMEMBERED).await.remove(0);
        let leads_nowhere = !matches!(&found, Ok(Some(_)));
        if may_be_old && leads_nowhere {
            found = self.look(&[uri], Duration::ZERO).await.remove(0);
        }
        match found? {
            Some(index) => {
                let call = &self.calls[index];
                let owners = &call.gateway.owners;
                owners.set(call.caller, uri, &call.upstream.uid);
                Ok(Answerer::One(call))
            }
            None => Err(WireError::resource_not_found(uri)),
        }
    }

    fn remembered(&self, uri: &str) -> Option<usize> {
        let call = self.calls.first()?;
        let upstream = call.gateway.owners.of(call.caller, uri)?;
        let mut calls = self.calls.iter();
        calls.position(|call| call.upstream.uid == upstream)
    }

    /// Whose each of these URIs is; none where it is nobody's, or cannot be told.
    pub(in crate::flow) async fn owners(&self, uris: &[&str]) -> Vec<Option<usize>> {
        if self.is_alone() || uris.is_empty() {
            return vec![Some(0); uris.len()];
        }
        let found = self.look(uris, Duration::ZERO).await;
        found
            .into_iter()
            .map(|owner| owner.ok().flatten())
            .collect()
    }

    /// Looks for each of these URIs, in their order.
    async fn look(
        &self,
        uris: &[&str],
        max_age: Duration,
    ) -> Vec<Result<Option<usize>, WireError>> {
        let announced = join_all(self.calls.iter().map(|call| announces(call, max_age))).await;
        let mut missing = None;
        let mut candidates = Vec::new();
        for (index, announced) in announced.into_iter().enumerate() {
            match announced {
                Ok(true) => candidates.push(index),
                Ok(false) => {}
                Err(error) => missing = Some(error),
            }
        }
        // What one of two upstreams does not say may be that it is the other's.
        if let ([only], None) = (candidates.as_slice(), &missing) {
            return uris.iter().map(|_| Ok(Some(*only))).collect();
        }
        let fits = candidates.iter().map(async |index| {
            let fits = fits(&self.calls[*index], uris);
            tokio::time::timeout(PATIENCE, fits)
                .await
                .unwrap_or_else(|_| Err(WireError::unavailable(None)))
        });
        let mut known = Vec::with_capacity(candidates.len());
        for fits in join_all(fits).await {
            known.push(fits.unwrap_or_else(|error| {
                missing = Some(error);
                vec![None; uris.len()]
            }));
        }
        let choose = |at: usize| {
            let known: Vec<_> = known.iter().map(|fits| fits[at]).collect();
            match (merge::choose(&known), &missing) {
                (Chosen::One(at), _) => Ok(Some(candidates[at])),
                (Chosen::Ambiguous, _) => Err(rescue::ambiguous_resource()),
                (Chosen::None, None) => Ok(None),
                // It may be the missing one's.
                (Chosen::None, Some(error)) => Err(error.clone()),
            }
        };
        (0..uris.len()).map(choose).collect()
    }
}

/// Whether this upstream announces resources.
async fn announces(call: &Call<'_>, max_age: Duration) -> Result<bool, WireError> {
    call.admit()?;
    let remembered = &call.upstream.runtime.resources;
    if let Some(announced) = remembered.within(max_age) {
        return Ok(announced);
    }
    let asked = Instant::now();
    let message = ask(call, Method::Discover, own(call).discover()).await?;
    let announced = match call.read(&message)?.reply {
        Reply::Result(result) => {
            let announced = Announced::read(result);
            announced.map_err(|error| breach(call, result, error))?
        }
        Reply::Error(_) => return Err(WireError::unavailable(None)),
    };
    let has_resources = announced.has("resources");
    remembered.set(asked, has_resources);
    Ok(has_resources)
}

/// How well this upstream's lists fit each of these URIs.
async fn fits(call: &Call<'_>, uris: &[&str]) -> Result<Vec<Option<Fit>>, WireError> {
    let mut best = vec![None; uris.len()];
    for method in [Method::ResourcesList, Method::TemplatesList] {
        let mut cursor: Option<String> = None;
        for _ in 0..MAX_PAGES {
            let body = own(call).list(method, cursor.as_deref());
            let message = ask(call, method, body).await?;
            let result = match call.read(&message)?.reply {
                Reply::Result(result) => result,
                Reply::Error(error) if error.code == Kind::UnknownMethod.code() => break,
                Reply::Error(_) => return Err(WireError::unavailable(None)),
            };
            let page = Page::read(method, result);
            let page = page.map_err(|error| breach(call, result, error))?;
            for (best, uri) in best.iter_mut().zip(uris) {
                *best = (*best).max(merge::fit(&page, uri));
            }
            if best.iter().all(|best| *best == Some(Fit::Listed)) {
                return Ok(best);
            }
            let next = page.next_cursor();
            let next = next.map_err(|error| breach(call, result, error))?;
            cursor = next.map(std::borrow::Cow::into_owned);
            if cursor.is_none() {
                break;
            }
        }
    }
    Ok(best)
}

async fn ask(call: &Call<'_>, method: Method, body: String) -> Result<bytes::Bytes, WireError> {
    let headers = routing(method, None, Vec::new());
    call.exchange_within(headers, body.into(), PATIENCE)
        .await
        .map_err(|failure| rescue::exchange(&failure))
}

/// A look-up is the gateway's own request: the client's progress token is for its request alone.
fn own<'c>(call: &Call<'c>) -> Own<'c> {
    Own {
        id: call.request.id,
        meta: MetaOf::Gateway,
    }
}
