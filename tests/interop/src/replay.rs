//! Every recorded exchange once more: its client asks, and its server answers, as they were recorded;
//! directly, and at both endpoints of the gateway. What is not the same both ways is a difference; at
//! the tenant's endpoint names have the prefix that the policy sets, on the way in and on the way out.
//!
//! Caveats: the exchanges of one recording come one after the other, in the order of the file.

mod client;
mod compare;
mod prefix;
mod upstream;

use anyhow::{Context, Result};
use hangar_tests::manifests::{Manifest, mk_keys, mk_tenant, mk_upstream};
use serde_json::{Value, json};

use crate::corpus::{Answer, Exchange, Recording};
use crate::differences::Difference;
use crate::json::Apart;
use crate::stage::{KEY, Stage};
use client::Client;
use compare::Way;
use prefix::PREFIX;
use upstream::Upstream;

/// One endpoint of the gateway, and who asks there.
struct Door {
    /// After the run's.
    name: &'static str,
    url: String,
    key: String,
}

/// The tenant of all upstreams.
const ALL: &str = "acme";
const PREFIXED: &str = ", prefixed";
/// What the gateway may change.
pub const ALLOWED: &str = include_str!("../allowed.txt");

/// Replays all of it; gives every difference, as `recording [run] method path`.
pub async fn run(recordings: &[Recording]) -> Result<Vec<Difference>> {
    let mut upstreams = Vec::new();
    for recording in recordings {
        upstreams.push(Upstream::start(recording).await?);
    }
    let stage = Stage::start_with(&world(recordings, &upstreams)).await?;
    let mut found = Vec::new();
    for (recording, upstream) in recordings.iter().zip(&upstreams) {
        for door in [
            Door::of_upstream(&stage, recording),
            Door::of_tenant(&stage, recording),
        ] {
            found.extend(replay(recording, upstream, &door).await?);
        }
    }
    Ok(found)
}

/// One recording at one endpoint.
async fn replay(
    recording: &Recording,
    upstream: &Upstream,
    door: &Door,
) -> Result<Vec<Difference>> {
    let (plain, keyed) = (Client::new(None), Client::new(Some(door.key.clone())));
    let mut found = Vec::new();
    for exchange in &recording.exchanges {
        let Some(at_door) = door.asked(exchange) else {
            continue;
        };
        let method = exchange.ask.method();
        let name = format!(
            "{} [{}{}] {method}",
            recording.name, exchange.run, door.name
        );
        let mut ways = Vec::new();
        let ask = [
            (&plain, upstream.url(), exchange),
            (&keyed, door.url.clone(), &at_door),
        ];
        for (client, url, asked) in ask {
            upstream.turn_to(exchange);
            let answer = client.ask(&url, asked).await;
            let answer = answer.with_context(|| name.clone())?;
            let arrived = upstream.arrived();
            ways.push(Way { answer, arrived });
        }
        let [direct, through] = &mut ways[..] else {
            continue;
        };
        direct.answer = door.answered(&method, &direct.answer);
        let apart = compare::differences(direct, through).into_iter();
        found.extend(apart.map(|Apart { path, one, other }| Difference {
            subject: format!("{name} {path}"),
            direct: one,
            through: other,
        }));
    }
    Ok(found)
}

/// Tenants that may do everything that a policy can allow: one for the endpoints of all upstreams, and
/// one for each recording that reaches it alone, under a prefix. Owners are different, and so each has
/// an upstream of its own: a task belongs to who saw it first.
fn world(recordings: &[Recording], upstreams: &[Upstream]) -> Vec<Manifest> {
    // A fast machine asks as often as it can.
    let limits = json!({"requestsPerSecond": 100_000, "burst": 100_000});
    let mut all = mk_tenant(ALL).set("/spec/limits", limits);
    let mut objects = vec![mk_keys(ALL, &[("alice", KEY)])];
    for (index, (recording, upstream)) in recordings.iter().zip(upstreams).enumerate() {
        let name = &recording.name;
        let alone = format!("{name}-alone");
        for name in [name, &alone] {
            let protocol = json!(recording.origin.revision);
            let object = mk_upstream(name, &upstream.url()).set("/spec/protocol", protocol);
            objects.push(object);
        }
        all = all.set(&format!("/spec/upstreams/{index}"), grant(name));
        let under_prefix = grant(&alone);
        let tenant = mk_tenant(&alone).set("/spec/upstreams/0", under_prefix);
        objects.push(tenant.set("/spec/upstreams/0/prefix", json!(PREFIX)));
        objects.push(mk_keys(&alone, &[("alice", &key_of(recording))]));
    }
    objects.push(all);
    objects
}

fn grant(upstream: &str) -> Value {
    let consent = json!({
        "methods": ["elicitation/create", "sampling/createMessage", "roots/list"],
        "answeredBy": {"type": "Owner"},
    });
    json!({
        "name": upstream, "upstreamRef": {"name": upstream}, "tasks": {"consent": consent},
    })
}

/// The key of the tenant that has this recording alone.
fn key_of(recording: &Recording) -> String {
    format!("{}-alone-key-0123456789", recording.name)
}

// === impl Door ===

impl Door {
    fn of_upstream(stage: &Stage, recording: &Recording) -> Self {
        Self {
            name: "",
            url: stage.url(&recording.name),
            key: KEY.to_owned(),
        }
    }

    fn of_tenant(stage: &Stage, recording: &Recording) -> Self {
        Self {
            name: PREFIXED,
            url: stage.tenant_url(),
            key: key_of(recording),
        }
    }

    /// What is asked here; none where the name in the header is in a code of its own.
    fn asked(&self, exchange: &Exchange) -> Option<Exchange> {
        if self.name != PREFIXED {
            return Some(exchange.clone());
        }
        let name = exchange.ask.headers.get("mcp-name");
        let is_coded = name.is_some_and(|name| name.starts_with("=?"));
        (!is_coded).then(|| prefix::asked(exchange))
    }

    fn answered(&self, method: &str, answer: &Answer) -> Answer {
        if self.name == PREFIXED {
            prefix::answered(method, answer)
        } else {
            answer.clone()
        }
    }
}
