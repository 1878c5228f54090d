//! `subscriptions/listen` on `/mcp` of a tenant with several upstreams.

#![cfg(test)]

use std::path::PathBuf;

use hangar_tests::client::Client;
use hangar_tests::envelope::Envelope;
use hangar_tests::gateway::Gateway;
use hangar_tests::manifests::{self, Manifest, mk_keys, mk_tenant, mk_upstream};
use hangar_tests::open::Open;
use hangar_tests::operator::Operator;
use hangar_tests::scripted::{Answer, Feed, Upstream};
use hangar_tests::stack::{ALICE, BOB, CAROL, setup};
use serde_json::{Value, json};
use tempfile::TempDir;

const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
const UNAVAILABLE: &str = "hangar.dev/unavailable";

/// `acme` (alice, bob) may use `alpha` and `beta`; `globex` (carol) `alpha` and `gone`, where nobody
/// listens.
struct World {
    gateway: Gateway,
    _operator: Operator,
    alpha: Upstream,
    beta: Upstream,
    folder: TempDir,
}

impl World {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (alpha, beta) = (
            Upstream::start().await.unwrap(),
            Upstream::start().await.unwrap(),
        );
        let manifests = folder.path().join("manifests");
        std::fs::create_dir(&manifests).unwrap();
        let objects = objects(&alpha, &beta);
        manifests::write(&manifests, "world.yaml", &objects).unwrap();
        let state = folder.path().join("operator");
        let operator = Operator::start(&manifests, &state, &[]).await.unwrap();
        let state = folder.path().join("gateway");
        let gateway = Gateway::start(&setup(&operator, &state), &[])
            .await
            .unwrap();
        for object in ["TenantPolicy/default/acme", "TenantPolicy/default/globex"] {
            operator.programmed(object).await.unwrap();
        }
        Self {
            gateway,
            _operator: operator,
            alpha,
            beta,
            folder,
        }
    }

    fn client(&self, key: &str) -> Client {
        self.gateway.client().with_key(key)
    }

    fn rewrite(&self, edit: impl Fn(Manifest) -> Manifest) {
        let objects = objects(&self.alpha, &self.beta).into_iter().map(edit);
        let objects: Vec<_> = objects.collect();
        let manifests: PathBuf = self.folder.path().join("manifests");
        manifests::write(&manifests, "world.yaml", &objects).unwrap();
    }

    async fn listen(&self, key: &str, notifications: &Value) -> Open {
        let address = self.gateway.mcp_address();
        let envelope = listen(notifications);
        Open::send(address, "/mcp", key, &envelope).await.unwrap()
    }
}

fn objects(alpha: &Upstream, beta: &Upstream) -> Vec<Manifest> {
    vec![
        mk_upstream("alpha", &alpha.url()),
        mk_upstream("beta", &beta.url()),
        mk_upstream("gone", "http://127.0.0.1:1/mcp"),
        mk_tenant("acme").grants("alpha").grants("beta"),
        mk_keys("acme", &[("alice", ALICE), ("bob", BOB)]),
        mk_tenant("globex").grants("alpha").grants("gone"),
        mk_keys("globex", &[("carol", CAROL)]),
    ]
}

fn listen(notifications: &Value) -> Envelope {
    let params = json!({"notifications": notifications});
    Envelope::new("subscriptions/listen", params).id(json!(41))
}

fn note(method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({SUBSCRIPTION: 41});
    json!({"jsonrpc": "2.0", "method": format!("notifications/{method}"), "params": params})
}

fn acknowledged(granted: &Value, unavailable: &[&str]) -> Value {
    let mut ack = note(
        "subscriptions/acknowledged",
        json!({"notifications": granted}),
    );
    if !unavailable.is_empty() {
        ack["params"]["_meta"][UNAVAILABLE] = json!(unavailable);
    }
    ack
}

fn raw(method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "method": format!("notifications/{method}"), "params": params})
}

fn ended() -> Value {
    json!({"jsonrpc": "2.0", "id": 41,
        "result": {"resultType": "complete", "_meta": {SUBSCRIPTION: 41}}})
}

/// What this upstream was last asked for.
fn asked(upstream: &Upstream) -> Value {
    let seen = upstream.seen_of("subscriptions/listen").pop().unwrap();
    seen.params()["notifications"].take()
}

#[tokio::test]
async fn several_streams_are_one_and_a_lost_upstream_is_said() {
    let world = World::start().await;
    let asking = json!({"toolsListChanged": true, "promptsListChanged": true});
    let alpha = Feed::script(
        &world.alpha,
        &asking,
        &[raw("tools/list_changed", &json!({}))],
    );
    let beta = Feed::script(
        &world.beta,
        &json!({"toolsListChanged": true, "resourcesListChanged": true}),
        &[
            raw("prompts/list_changed", &json!({})),
            raw("tools/list_changed", &json!({})),
        ],
    );
    let mut alice = world.listen(ALICE, &asking).await;
    let mut expected = vec![acknowledged(&asking, &[])];
    assert_eq!(alice.events(1).await.unwrap(), expected);
    alpha.open_all();
    expected.push(note("tools/list_changed", json!({})));
    assert_eq!(alice.events(2).await.unwrap(), expected);
    // Lost: what is left is acknowledged anew, and its lists are no longer what they were.
    alpha.end();
    expected.push(acknowledged(&json!({"toolsListChanged": true}), &["alpha"]));
    expected.push(note("tools/list_changed", json!({})));
    expected.push(note("prompts/list_changed", json!({})));
    assert_eq!(alice.events(5).await.unwrap(), expected);
    // The other goes on, with what it granted and nothing else.
    beta.open_all();
    expected.push(note("tools/list_changed", json!({})));
    assert_eq!(alice.events(6).await.unwrap(), expected);
    beta.end();
    expected.push(ended());
    assert_eq!(alice.to_end().await.unwrap(), expected);
}

#[tokio::test]
async fn each_upstream_is_asked_for_what_is_its_own() {
    let world = World::start().await;
    for (upstream, uri) in [(&world.alpha, "x://alpha"), (&world.beta, "x://beta")] {
        let discover = json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"],
            "capabilities": {"resources": {}, "tools": {}}, "ttlMs": 0, "cacheScope": "private",
        });
        let list = json!({
            "resultType": "complete", "resources": [{"uri": uri, "name": uri}, {"uri": "x://both", "name": "b"}],
            "ttlMs": 0, "cacheScope": "private",
        });
        upstream.script("server/discover", move |_| Answer::result(&discover));
        upstream.script("resources/list", move |_| Answer::result(&list));
    }
    world.alpha.set_task_ids(&["of-bob"]);
    let alice = world.client(ALICE);
    let own = alice
        .start_task("beta__slow", json!({"text": "x"}))
        .await
        .unwrap();
    let bobs = world
        .client(BOB)
        .start_task("alpha__ask", json!({}))
        .await
        .unwrap();
    let granted =
        json!({"resourceSubscriptions": ["x://alpha", "x://beta"], "taskIds": [own, bobs]});
    let alpha = Feed::script(
        &world.alpha,
        &granted,
        &[
            raw("resources/updated", &json!({"uri": "x://beta"})),
            raw("tasks", &json!({"taskId": own})),
            raw("resources/updated", &json!({"uri": "x://alpha"})),
        ],
    );
    let beta = Feed::script(
        &world.beta,
        &granted,
        &[raw("tasks", &json!({"taskId": own}))],
    );
    let asking = json!({
        "resourceSubscriptions": ["x://alpha", "x://beta", "x://both", "x://nobody"],
        "taskIds": [own, bobs, "unknown"],
    });
    let mut open = world.listen(ALICE, &asking).await;
    let ack = acknowledged(
        &json!({"resourceSubscriptions": ["x://alpha", "x://beta"], "taskIds": [own]}),
        &[],
    );
    assert_eq!(open.events(1).await.unwrap(), [ack]);
    assert_eq!(
        asked(&world.alpha),
        json!({"resourceSubscriptions": ["x://alpha"]})
    );
    assert_eq!(
        asked(&world.beta),
        json!({"resourceSubscriptions": ["x://beta"], "taskIds": [own]})
    );
    // No upstream speaks for another.
    alpha.open_all();
    let told = open.events(2).await.unwrap().pop().unwrap();
    assert_eq!(told, note("resources/updated", json!({"uri": "x://alpha"})));
    assert_eq!(world.alpha.count("tasks/get"), 0);
    beta.open_all();
    let told = open.events(3).await.unwrap().pop().unwrap();
    assert_eq!(told["method"], "notifications/tasks");
    assert_eq!(told["params"]["taskId"], json!(own));
    assert_eq!(told["params"]["status"], "working");
}

#[tokio::test]
async fn who_cannot_be_asked_is_named_and_who_serves_nothing_is_not_missed() {
    let world = World::start().await;
    let asking = json!({"toolsListChanged": true});
    let _alpha = Feed::script(&world.alpha, &asking, &[]);
    let mut carol = world.listen(CAROL, &asking).await;
    assert_eq!(
        carol.events(1).await.unwrap(),
        [acknowledged(&asking, &["gone"])]
    );
    // `beta` has no such method.
    let mut alice = world.listen(ALICE, &asking).await;
    assert_eq!(alice.events(1).await.unwrap(), [acknowledged(&asking, &[])]);
    world.alpha.unscript("subscriptions/listen");
    let reply = world.client(ALICE).send(&listen(&asking)).await.unwrap();
    assert_eq!(
        (reply.status.as_u16(), reply.error_code().unwrap()),
        (404, -32601)
    );
    let reply = world.client(CAROL).send(&listen(&asking)).await.unwrap();
    assert_eq!(reply.error_code().unwrap(), -31001);
}

#[tokio::test]
async fn a_grant_that_goes_takes_its_part_and_no_other() {
    let world = World::start().await;
    let asking = json!({"toolsListChanged": true});
    let alpha = Feed::script(&world.alpha, &asking, &[]);
    let beta = Feed::script(
        &world.beta,
        &asking,
        &[raw("tools/list_changed", &json!({}))],
    );
    let mut alice = world.listen(ALICE, &asking).await;
    alice.events(1).await.unwrap();
    world.rewrite(|object| match object.value()["metadata"]["name"].as_str() {
        Some("acme") => object.set("/spec/upstreams", json!([])).grants("beta"),
        _ => object,
    });
    alpha.gone().await.unwrap();
    let changed = note("tools/list_changed", json!({}));
    let mut expected = vec![
        acknowledged(&asking, &[]),
        acknowledged(&asking, &[]),
        changed.clone(),
    ];
    assert_eq!(alice.events(3).await.unwrap(), expected);
    beta.open_all();
    expected.push(changed);
    assert_eq!(alice.events(4).await.unwrap(), expected);
    world.rewrite(|object| match object.value()["metadata"]["name"].as_str() {
        Some("acme") => object.set("/spec/upstreams", json!([])),
        _ => object,
    });
    expected.push(ended());
    assert_eq!(alice.to_end().await.unwrap(), expected);
    let reply = world.client(ALICE).send(&listen(&asking)).await.unwrap();
    assert_eq!(
        (reply.status.as_u16(), reply.error_code().unwrap()),
        (404, -31016)
    );
}
