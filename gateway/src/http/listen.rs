//! A request to listen: the same ladder as any other, and then a stream that lasts.

use hangar_relay::wire::WireError;
use http::StatusCode;

use super::pass::{Checked, Endpoint, Pass};
use super::trail::Trail;
use crate::flow::Answer;
use crate::flow::listen::{self, Begun};
use crate::flow::merged::{Granted, Merged};

// === impl Pass ===

impl Pass<'_> {
    /// Listens until somebody ends it. The request counts as answered once it is acknowledged, since
    /// most streams end with their client.
    pub(super) async fn listen(&self, checked: &Checked<'_>, trail: &mut Trail) -> Answer {
        let correlation = trail.correlation.clone();
        let refused = |error: WireError, trail: &mut Trail| {
            let answer = Answer::refused(trail.id.as_deref(), &error);
            trail.tell(&answer);
            answer
        };
        let granted = match self.endpoint() {
            Ok(Endpoint::Several(granted)) => granted,
            Ok(Endpoint::One(grant, upstream)) => {
                trail.upstream.clone_from(&grant.label);
                Granted {
                    present: vec![(grant, upstream)],
                    absent: Vec::new(),
                }
            }
            Err(error) => return refused(error, trail),
        };
        let merged = Merged::new(&granted, |grant, upstream| {
            self.call(checked, &correlation, grant, upstream)
        });
        match listen::begin(&merged).await {
            Ok(Begun::Listening(listening)) => {
                let begun = Answer {
                    status: StatusCode::OK,
                    ..Answer::accepted()
                };
                trail.tell(&begun);
                listening.run().await
            }
            Ok(Begun::Answered(answer)) => {
                trail.tell(&answer);
                answer
            }
            Err(error) => refused(error, trail),
        }
    }
}
