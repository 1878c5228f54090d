//! A request to listen: the same ladder as any other, and then a stream that lasts.

use std::time::Instant;

use hangar_relay::wire::{Kind, WireError};
use http::StatusCode;

use super::mcp::{Inflight, Trail, report};
use super::pass::{Checked, Pass, Route};
use crate::flow::Answer;
use crate::flow::listen::{self, Begun};
use crate::flow::merged::{Granted, Merged};

// === impl Pass ===

impl Pass<'_> {
    /// Listens until somebody ends it. The request counts as answered once it is acknowledged, since
    /// most streams end with their client.
    pub(super) async fn listen(
        &self,
        checked: &Checked<'_>,
        trail: &mut Trail,
        started: Instant,
        inflight: Inflight,
    ) -> Answer {
        let correlation = trail.correlation.clone();
        let refused = |error: WireError, trail: &Trail| {
            let answer = Answer::refused(trail.id.as_deref(), &error);
            report(self.gateway, trail, &answer, started);
            answer
        };
        let granted = match self.granted(&mut trail.upstream) {
            Ok(granted) => granted,
            Err(error) => return refused(error, trail),
        };
        let merged = Merged::new(&granted, |grant, upstream| {
            self.call(checked, &correlation, grant, upstream, &granted.uids)
        });
        match listen::begin(&merged).await {
            Ok(Begun::Listening(listening)) => {
                let begun = Answer {
                    status: StatusCode::OK,
                    ..Answer::accepted()
                };
                report(self.gateway, trail, &begun, started);
                drop(inflight);
                listening.run().await
            }
            Ok(Begun::Answered(answer)) => {
                report(self.gateway, trail, &answer, started);
                answer
            }
            Err(error) => refused(error, trail),
        }
    }

    /// The upstreams behind the endpoint.
    fn granted(&self, label: &mut String) -> Result<Granted<'_>, WireError> {
        let (active, caller) = (&self.entered.active, &self.entered.caller);
        let tenant = &caller.tenant;
        let (namespace, name) = match (self.route, tenant.grants.as_slice()) {
            (Route::Upstream { namespace, name }, _) => (namespace, name),
            (Route::Tenant, [only]) => {
                let object = &only.object;
                (&object.upstream_namespace, &object.upstream_name)
            }
            (Route::Tenant, []) => return Err(Kind::EndpointNotFound.into()),
            (Route::Tenant, _) => return Ok(Granted::of(active, tenant)),
        };
        let found = tenant.grants.iter().find(|grant| {
            &grant.object.upstream_namespace == namespace && &grant.object.upstream_name == name
        });
        let (grant, upstream) = found
            .and_then(|grant| Some((grant, active.upstream(grant)?)))
            .ok_or(Kind::EndpointNotFound)?;
        label.clone_from(&grant.label);
        Ok(Granted {
            present: vec![(grant, upstream)],
            absent: Vec::new(),
            uids: Vec::new(),
        })
    }
}
