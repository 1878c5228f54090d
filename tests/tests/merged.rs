//! `/mcp` of a tenant with several upstreams.

#![cfg(test)]

use std::time::{Duration, Instant};

use hangar_tests::client::{Client, Reply};
use hangar_tests::envelope::Envelope;
use hangar_tests::gateway::Gateway;
use hangar_tests::manifests::{self, Manifest, mk_keys, mk_tenant, mk_upstream};
use hangar_tests::operator::Operator;
use hangar_tests::scripted::{Answer, Gate, Upstream, mk_tool};
use hangar_tests::stack::{ALICE, BOB, CAROL, setup};
use serde_json::{Value, json};
use tempfile::TempDir;

const INVALID_PARAMS: i64 = -32602;
const UNAVAILABLE: i64 = -31001;
const UPSTREAM_PROTOCOL: i64 = -31008;
const CORRELATION: &str = "hangar-correlation-id";

/// Two tenants, `acme` (alice, bob) that may use `alpha` and `beta`, and `globex` (carol) that may
/// use both and `gone`, where nobody listens.
struct World {
    gateway: Gateway,
    _operator: Operator,
    alpha: Upstream,
    beta: Upstream,
    _folder: TempDir,
}

impl World {
    async fn start() -> Self {
        Self::start_with(|object| object).await
    }

    async fn start_with(edit: impl Fn(Manifest) -> Manifest) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (alpha, beta) = (
            Upstream::start().await.unwrap(),
            Upstream::start().await.unwrap(),
        );
        let objects = [
            mk_upstream("alpha", &alpha.url()),
            mk_upstream("beta", &beta.url()),
            mk_upstream("gone", "http://127.0.0.1:1/mcp"),
            mk_tenant("acme")
                .grants_with_consent("beta")
                .grants("alpha"),
            mk_keys("acme", &[("alice", ALICE), ("bob", BOB)]),
            mk_tenant("globex")
                .grants("beta")
                .grants("gone")
                .grants("alpha"),
            mk_keys("globex", &[("carol", CAROL)]),
        ];
        let objects: Vec<_> = objects.into_iter().map(edit).collect();
        let manifests = folder.path().join("manifests");
        std::fs::create_dir(&manifests).unwrap();
        manifests::write(&manifests, "world.yaml", &objects).unwrap();
        let state = folder.path().join("operator");
        let operator = Operator::start(&manifests, &state, &[]).await.unwrap();
        let state = folder.path().join("gateway");
        let gateway = Gateway::start(&setup(&operator, &state), &[])
            .await
            .unwrap();
        for object in [
            "McpUpstream/default/alpha",
            "McpUpstream/default/beta",
            "McpUpstream/default/gone",
            "TenantPolicy/default/acme",
            "TenantPolicy/default/globex",
        ] {
            operator.programmed(object).await.unwrap();
        }
        Self {
            gateway,
            _operator: operator,
            alpha,
            beta,
            _folder: folder,
        }
    }

    fn client(&self, key: &str) -> Client {
        self.gateway.client().with_key(key)
    }

    fn seen(&self) -> usize {
        self.alpha.seen().len() + self.beta.seen().len()
    }

    /// Both answer this method so.
    fn both(&self, method: &str, result: &Value) {
        for upstream in [&self.alpha, &self.beta] {
            let result = result.clone();
            upstream.script(method, move |_| Answer::result(&result));
        }
    }

    /// What both announce beside tools.
    fn announce(&self, alpha: &Value, beta: &Value) {
        for (upstream, capabilities) in [(&self.alpha, alpha), (&self.beta, beta)] {
            let result = json!({
                "resultType": "complete", "supportedVersions": ["2026-07-28"],
                "capabilities": capabilities, "ttlMs": 0, "cacheScope": "private",
            });
            upstream.script("server/discover", move |_| Answer::result(&result));
        }
    }
}

fn list(method: &str) -> Envelope {
    Envelope::new(method, json!({}))
}

fn read(uri: &str) -> Envelope {
    Envelope::new("resources/read", json!({"uri": uri}))
}

fn names<'a>(listed: &'a Value, items: &str, name: &str) -> Vec<&'a str> {
    let items = listed[items].as_array().unwrap();
    items.iter().map(|it| it[name].as_str().unwrap()).collect()
}

fn unavailable(result: &Value) -> &Value {
    &result["_meta"]["hangar.dev/unavailable"]
}

async fn code(client: &Client, envelope: &Envelope) -> i64 {
    client.send(envelope).await.unwrap().error_code().unwrap()
}

fn text(reply: &Reply) -> &str {
    std::str::from_utf8(&reply.body).unwrap()
}

#[tokio::test]
async fn names_lead_to_their_upstream() {
    let world = World::start().await;
    let alice = world.client(ALICE);
    let listed = alice.list_tools().await.unwrap().result().unwrap();
    assert_eq!(
        names(&listed, "tools", "name"),
        [
            "alpha__ask",
            "alpha__echo",
            "alpha__slow",
            "beta__ask",
            "beta__echo",
            "beta__slow"
        ]
    );
    assert!(unavailable(&listed).is_null());
    let reply = alice.call("beta__echo", json!({"text": "hi"})).await;
    reply.unwrap().result().unwrap();
    let seen = world.beta.seen_of("tools/call").remove(0);
    assert_eq!(seen.params()["name"], "echo");
    assert_eq!(seen.header("mcp-name"), Some("echo"));
    assert_eq!(world.alpha.count("tools/call"), 0);

    let got = json!({"resultType": "complete", "messages": []});
    world.both("prompts/get", &got);
    let prompt = |name: &str| Envelope::new("prompts/get", json!({"name": name}));
    let reply = alice.send(&prompt("alpha__greet")).await.unwrap();
    assert_eq!(reply.result().unwrap(), got);
    assert_eq!(
        world.alpha.seen_of("prompts/get")[0].params()["name"],
        "greet"
    );
    let completion = json!({"resultType": "complete", "completion": {"values": []}});
    world.both("completion/complete", &completion);
    let complete = |name: &str| {
        let reference = json!({"type": "ref/prompt", "name": name});
        let params = json!({"ref": reference, "argument": {"name": "x", "value": ""}});
        Envelope::new("completion/complete", params)
    };
    let reply = alice.send(&complete("beta__greet")).await.unwrap();
    reply.result().unwrap();
    let seen = world.beta.seen_of("completion/complete").remove(0);
    assert_eq!(seen.params()["ref"]["name"], "greet");

    let before = world.seen();
    for envelope in [
        Envelope::call("echo", json!({})),
        Envelope::call("gamma__echo", json!({})),
        prompt("greet"),
        complete("Beta__greet"),
    ] {
        assert_eq!(code(&alice, &envelope).await, INVALID_PARAMS);
    }
    assert_eq!(world.seen(), before);
}

/// A name of the upstream without a prefix that looks like another's is neither shown nor called.
#[tokio::test]
async fn the_empty_prefix_takes_what_no_other_does() {
    let bare = |object: Manifest| match object.value()["spec"]["tenant"].as_str() {
        Some("acme") => object.set("/spec/upstreams/0/prefix", json!("")),
        _ => object,
    };
    let world = World::start_with(bare).await;
    let alice = world.client(ALICE);
    let tool = |name: &str| mk_tool(name, "x", &json!({}));
    world.beta.set_tools(vec![tool("dig"), tool("alpha__echo")]);
    world.alpha.set_tools(vec![tool("echo")]);
    let listed = alice.list_tools().await.unwrap().result().unwrap();
    assert_eq!(names(&listed, "tools", "name"), ["alpha__echo", "dig"]);
    let done = json!({"resultType": "complete", "content": []});
    world.both("tools/call", &done);
    for (name, upstream) in [("alpha__echo", &world.alpha), ("dig", &world.beta)] {
        alice.call(name, json!({})).await.unwrap().result().unwrap();
        let own = name.rsplit("__").next().unwrap();
        let seen = upstream.seen_of("tools/call");
        assert_eq!(seen.len(), 1, "{name}");
        assert_eq!(seen[0].params()["name"], own);
    }
    let prompts =
        json!({"resultType": "complete", "prompts": [{"name": "alpha__x"}, {"name": "y"}]});
    world.both("prompts/list", &prompts);
    let listed = alice.send(&list("prompts/list")).await.unwrap();
    assert_eq!(
        names(&listed.result().unwrap(), "prompts", "name"),
        ["alpha__alpha__x", "alpha__y", "y"]
    );
}

/// With several targets one that was unreachable made the whole session fail.
#[tokio::test]
async fn an_upstream_that_is_down_or_hangs_never_hides_the_others() {
    let world = World::start().await;
    let carol = world.client(CAROL);
    let never = Gate::new();
    let all = [
        "tools/list",
        "prompts/list",
        "resources/list",
        "server/discover",
    ];
    for (method, items) in [("prompts/list", "prompts"), ("resources/list", "resources")] {
        let item = json!([{"name": "x", "uri": "x://y"}]);
        let result = json!({"resultType": "complete", items: item});
        world.alpha.script(method, move |_| Answer::result(&result));
    }
    for method in all {
        let never = never.clone();
        world
            .beta
            .script(method, move |_| Answer::built_in().held(&never));
    }
    for method in all {
        let began = Instant::now();
        let answer = carol.send(&list(method)).await.unwrap().result().unwrap();
        assert!(began.elapsed() < Duration::from_secs(20), "{method}");
        assert_eq!(*unavailable(&answer), json!(["beta", "gone"]), "{method}");
        match method {
            "tools/list" => assert_eq!(answer["tools"].as_array().unwrap().len(), 3),
            "prompts/list" => assert_eq!(names(&answer, "prompts", "name"), ["alpha__x"]),
            "resources/list" => assert_eq!(names(&answer, "resources", "uri"), ["x://y"]),
            _ => assert!(answer["capabilities"]["tools"].is_object()),
        }
    }
    let called = carol.call("alpha__echo", json!({"text": "hi"})).await;
    called.unwrap().result().unwrap();
    for upstream in [&world.alpha, &world.beta] {
        upstream.script("prompts/list", |_| Answer::hang_up());
        upstream.script("tools/list", |_| Answer::hang_up());
    }
    for method in ["prompts/list", "tools/list"] {
        assert_eq!(code(&carol, &list(method)).await, UNAVAILABLE, "{method}");
    }
}

#[tokio::test]
async fn a_breach_of_one_upstream_is_its_own() {
    let world = World::start().await;
    let alice = world.client(ALICE);
    let good = json!({"resultType": "complete", "prompts": [{"name": "x"}]});
    world.both("prompts/list", &good);
    for bad in [
        json!({"resultType": "complete", "prompts": {}}),
        json!({"resultType": "complete", "prompts": [{"title": "x"}]}),
        json!({"resultType": "input_required", "requestState": "s"}),
        json!({"prompts": []}),
        json!({"resultType": "complete", "prompts": [], "nextCursor": "c".repeat(5000)}),
    ] {
        world.alpha.enqueue("prompts/list", Answer::result(&bad));
        let listed = alice.send(&list("prompts/list")).await.unwrap();
        let listed = listed.result().unwrap();
        assert_eq!(names(&listed, "prompts", "name"), ["beta__x"], "{bad}");
        assert_eq!(*unavailable(&listed), json!(["alpha"]), "{bad}");
    }
}

/// An upstream without a method has nothing of its missing; without any that has it, it is unknown.
#[tokio::test]
async fn a_method_that_nobody_has_is_unknown() {
    let world = World::start().await;
    let alice = world.client(ALICE);
    let reply = alice.send(&list("prompts/list")).await.unwrap();
    assert_eq!(
        (reply.status.as_u16(), reply.error_code().unwrap()),
        (404, -32601)
    );
    let some = json!({"resultType": "complete", "prompts": []});
    world
        .beta
        .script("prompts/list", move |_| Answer::result(&some));
    let listed = alice.send(&list("prompts/list")).await.unwrap();
    assert!(unavailable(&listed.result().unwrap()).is_null());
}

#[tokio::test]
async fn lists_go_on_where_each_upstream_left_off() {
    let world = World::start().await;
    let alice = world.client(ALICE);
    for (upstream, pages) in [(&world.alpha, 3), (&world.beta, 2)] {
        upstream.script("resources/list", move |seen| {
            let params = seen.params();
            let page = match params.get("cursor").and_then(Value::as_str) {
                None => 1,
                Some(cursor) => cursor.len() + 1,
            };
            let mut result = json!({
                "resultType": "complete", "resources": [{"uri": format!("x://{page}")}],
            });
            if page < pages {
                result["nextCursor"] = json!("c".repeat(page));
            }
            Answer::result(&result)
        });
    }
    let mut seen = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let params = match &cursor {
            None => json!({"x": 1}),
            Some(cursor) => json!({"cursor": cursor, "x": 1}),
        };
        let reply = alice.send(&Envelope::new("resources/list", params)).await;
        let listed = reply.unwrap().result().unwrap();
        seen.push(
            names(&listed, "resources", "uri")
                .into_iter()
                .map(str::to_owned)
                .collect::<Vec<_>>(),
        );
        cursor = listed["nextCursor"].as_str().map(str::to_owned);
        if cursor.is_none() {
            break;
        }
    }
    // The same URI of two upstreams stays two.
    assert_eq!(
        seen,
        [
            vec!["x://1", "x://1"],
            vec!["x://2", "x://2"],
            vec!["x://3"]
        ]
    );
    assert_eq!(world.alpha.count("resources/list"), 3);
    assert_eq!(world.beta.count("resources/list"), 2);
    let last = world.alpha.seen_of("resources/list").remove(2);
    assert_eq!(last.params()["cursor"], "cc");
    assert_eq!(last.params()["x"], 1, "other members pass");
}

#[tokio::test]
async fn a_cursor_that_is_none_of_ours_is_refused() {
    let world = World::start().await;
    let (alice, carol) = (world.client(ALICE), world.client(CAROL));
    let page = json!({"resultType": "complete", "prompts": [], "nextCursor": "next"});
    world.both("prompts/list", &page);
    let cursor_of = |listed: Value| listed["nextCursor"].as_str().unwrap().to_owned();
    let with = |cursor: &str| Envelope::new("prompts/list", json!({"cursor": cursor}));
    let listed = carol.send(&list("prompts/list")).await.unwrap();
    let carols = cursor_of(listed.result().unwrap());
    let listed = carol.send(&with(&carols)).await.unwrap();
    listed.result().unwrap();
    let before = world.seen();
    // `{"gone":"x"}`: an upstream that this tenant may not use.
    for bad in ["", "next", "e30", "eyJnb25lIjoieCJ9", &format!("{carols}=")] {
        assert_eq!(code(&alice, &with(bad)).await, INVALID_PARAMS, "{bad}");
    }
    let tools = Envelope::new("tools/list", json!({"cursor": carols}));
    assert_eq!(code(&carol, &tools).await, INVALID_PARAMS);
    assert_eq!(world.seen(), before);
    // An upstream that refuses its own cursor: the client must begin again.
    let refused = Answer::error(INVALID_PARAMS, "Invalid cursor");
    world.alpha.enqueue("prompts/list", refused);
    assert_eq!(code(&carol, &with(&carols)).await, INVALID_PARAMS);
}

#[tokio::test]
async fn discover_unites_what_the_upstreams_announce() {
    let world = World::start().await;
    let alice = world.client(ALICE);
    for (upstream, capabilities, instructions) in [
        (
            &world.alpha,
            json!({"tools": {"listChanged": true}, "logging": {}}),
            "Dig.",
        ),
        (
            &world.beta,
            json!({"resources": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}}),
            "File.",
        ),
    ] {
        let result = json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"], "ttlMs": 0,
            "cacheScope": "private", "capabilities": capabilities, "instructions": instructions,
        });
        upstream.enqueue("server/discover", Answer::result(&result));
    }
    let united = alice.discover().await.unwrap().result().unwrap();
    assert_eq!(
        united["capabilities"],
        json!({
            "tools": {"listChanged": true}, "logging": {}, "resources": {},
            "extensions": {"io.modelcontextprotocol/tasks": {}},
        })
    );
    assert_eq!(united["instructions"], "# alpha\n\nDig.\n\n# beta\n\nFile.");
}

#[tokio::test]
async fn a_uri_is_read_where_resources_are() {
    let world = World::start().await;
    let alice = world.client(ALICE);
    let content = json!({"resultType": "complete", "contents": [], "cacheScope": "private"});
    world.both("resources/read", &content);
    // Nobody has resources.
    let reply = alice.send(&read("x://a")).await.unwrap();
    assert_eq!(reply.error_code().unwrap(), INVALID_PARAMS);
    assert_eq!(reply.message().unwrap()["error"]["data"]["uri"], "x://a");
    // One has, meanwhile: it is asked whatever it lists.
    world.announce(&json!({}), &json!({"resources": {}}));
    alice.send(&read("x://a")).await.unwrap().result().unwrap();
    let seen = world.beta.seen_of("resources/read").remove(0);
    assert_eq!(seen.header("mcp-name"), Some("x://a"));
    assert_eq!(seen.params()["uri"], "x://a");
    assert_eq!(world.alpha.count("resources/read"), 0);
    // What was announced is remembered.
    let before = world.beta.count("server/discover");
    alice.send(&read("x://b")).await.unwrap().result().unwrap();
    assert_eq!(world.beta.count("server/discover"), before);
}

/// What one upstream does not list may be the other's, which is only down: it is not tried out on
/// the wrong one.
#[tokio::test]
async fn a_uri_does_not_go_astray_while_its_upstream_is_down() {
    let world = World::start().await;
    let alice = world.client(ALICE);
    world.announce(&json!({}), &json!({"resources": {}}));
    world.alpha.script("server/discover", |_| Answer::hang_up());
    let resources = json!({"resultType": "complete", "resources": [{"uri": "x://own"}]});
    world.both("resources/list", &resources);
    let templates = json!({"resultType": "complete", "resourceTemplates": []});
    world.both("resources/templates/list", &templates);
    let content = json!({"resultType": "complete", "contents": [], "cacheScope": "private"});
    world.both("resources/read", &content);
    assert_eq!(code(&alice, &read("x://hidden")).await, UNAVAILABLE);
    assert_eq!(world.beta.count("resources/read"), 0);
    alice
        .send(&read("x://own"))
        .await
        .unwrap()
        .result()
        .unwrap();
    assert_eq!(world.beta.count("resources/read"), 1);
}

#[tokio::test]
async fn a_uri_of_several_is_read_where_it_is_listed_best() {
    let world = World::start().await;
    let alice = world.client(ALICE);
    world.announce(&json!({"resources": {}}), &json!({"resources": {}}));
    let content = json!({"resultType": "complete", "contents": [], "cacheScope": "private"});
    world.both("resources/read", &content);
    let lists = |upstream: &Upstream, uris: &[&str], templates: &[&str]| {
        let items: Vec<_> = uris.iter().map(|uri| json!({"uri": uri})).collect();
        let result = json!({"resultType": "complete", "resources": items});
        upstream.script("resources/list", move |_| Answer::result(&result));
        let items: Vec<_> = templates
            .iter()
            .map(|it| json!({"uriTemplate": it}))
            .collect();
        let result = json!({"resultType": "complete", "resourceTemplates": items});
        upstream.script("resources/templates/list", move |_| Answer::result(&result));
    };
    lists(
        &world.alpha,
        &["x://a", "x://both"],
        &["y://{id}", "z://{id}"],
    );
    lists(
        &world.beta,
        &["x://b", "x://both", "y://listed"],
        &["y://deep/{id}", "z://{id}"],
    );
    for (uri, upstream) in [
        ("x://a", &world.alpha),
        ("x://b", &world.beta),
        ("y://1", &world.alpha),
        ("y://deep/1", &world.beta),
        ("y://listed", &world.beta),
    ] {
        alice.send(&read(uri)).await.unwrap().result().unwrap();
        let seen = upstream.seen_of("resources/read").pop().unwrap();
        assert_eq!(seen.params()["uri"], uri);
    }
    // What was found is remembered: each further read is one request, at its upstream.
    let before = world.seen();
    alice.send(&read("x://a")).await.unwrap().result().unwrap();
    assert_eq!(world.seen(), before + 1);
    let before = (
        world.alpha.count("resources/read"),
        world.beta.count("resources/read"),
    );
    for uri in ["x://both", "z://1"] {
        let reply = alice.send(&read(uri)).await.unwrap();
        assert_eq!(reply.error_code().unwrap(), INVALID_PARAMS, "{uri}");
        assert!(
            text(&reply).contains("/mcp/{namespace}/{upstream}"),
            "{uri}"
        );
    }
    let reply = alice.send(&read("w://1")).await.unwrap();
    assert_eq!(reply.message().unwrap()["error"]["data"]["uri"], "w://1");
    // While one cannot be asked, what the other lacks may be its.
    world.beta.script("resources/list", |_| Answer::hang_up());
    assert_eq!(code(&alice, &read("w://1")).await, UNAVAILABLE);
    let after = (
        world.alpha.count("resources/read"),
        world.beta.count("resources/read"),
    );
    assert_eq!(after, before);
    // A completion for a template finds it by its own text.
    let completion = json!({"resultType": "complete", "completion": {"values": []}});
    world.both("completion/complete", &completion);
    let reference = json!({"type": "ref/resource", "uri": "y://{id}"});
    let params = json!({"ref": reference, "argument": {"name": "id", "value": "1"}});
    let complete = Envelope::new("completion/complete", params);
    alice.send(&complete).await.unwrap().result().unwrap();
    assert_eq!(world.alpha.count("completion/complete"), 1);
}

#[tokio::test]
async fn a_task_is_found_by_its_id() {
    let world = World::start().await;
    let alice = world.client(ALICE);
    // Left alone both would count alike.
    world.beta.set_task_ids(&["asking"]);
    let slow = alice.start_task("alpha__slow", json!({})).await.unwrap();
    let ask = alice.start_task("beta__ask", json!({})).await.unwrap();
    alice.until(&slow, "working").await.unwrap();
    alice.until(&ask, "input_required").await.unwrap();
    let answer = alice
        .answer(&ask, "name", "accept", json!({"name": "Ann"}))
        .await;
    answer.unwrap().result().unwrap();
    alice.until(&ask, "completed").await.unwrap();
    alice.cancel(&slow).await.unwrap().result().unwrap();
    alice.until(&slow, "cancelled").await.unwrap();
    assert_eq!(world.alpha.count("tasks/update"), 0);
    assert_eq!(world.beta.count("tasks/cancel"), 0);
    // A stranger's is one that never existed, at both endpoints alike, and nobody is asked.
    let before = world.seen();
    let absent: String = slow.chars().rev().collect();
    for key in [BOB, CAROL] {
        let (here, there) = (
            world.client(key),
            world.gateway.client_of("default", "alpha").with_key(key),
        );
        for make in [
            Envelope::get as fn(&str) -> Envelope,
            Envelope::cancel,
            |task| Envelope::update(task, &json!({})),
        ] {
            let unknown = there.send(&make(&absent)).await.unwrap();
            assert_eq!(unknown.error_code().unwrap(), INVALID_PARAMS);
            for reply in [
                here.send(&make(&slow)).await,
                here.send(&make(&absent)).await,
            ] {
                assert_eq!(
                    reply.unwrap().fingerprint(CORRELATION),
                    unknown.fingerprint(CORRELATION)
                );
            }
        }
    }
    assert_eq!(world.seen(), before);
}

/// Two upstreams that both count from `task-1`.
#[tokio::test]
async fn case_09_one_id_of_two_upstreams_is_given_out_once() {
    let world = World::start().await;
    let alice = world.client(ALICE);
    world.alpha.set_task_ids(&["task-1", "task-2"]);
    world.beta.set_task_ids(&["task-1", "task-2", "task-3"]);
    for expected in ["task-1", "task-2"] {
        let task = alice.start_task("alpha__slow", json!({})).await.unwrap();
        assert_eq!(task, expected);
    }
    // Another principal of the tenant learns no more than that its upstream is at fault.
    for (round, key) in [ALICE, BOB].into_iter().enumerate() {
        let reply = world.client(key).call("beta__slow", json!({})).await;
        let reply = reply.unwrap();
        assert_eq!(reply.error_code().unwrap(), UPSTREAM_PROTOCOL);
        assert!(!text(&reply).contains("task-"));
        world.beta.arrived("tasks/cancel", round + 1).await.unwrap();
        let cancel = world.beta.seen_of("tasks/cancel").pop().unwrap();
        assert_eq!(cancel.params()["taskId"], format!("task-{}", round + 1));
    }
    let bob = world.client(BOB);
    let other = bob.start_task("beta__slow", json!({})).await.unwrap();
    assert_eq!(other, "task-3");
    alice.until("task-1", "working").await.unwrap();
    assert_eq!(world.alpha.count("tasks/cancel"), 0);
    let labels = [
        ("upstream", "default/beta"),
        ("reason", "upstream_protocol"),
    ];
    let scrape = world.gateway.scrape().await.unwrap();
    let refused = scrape.count("hangar_task_registration_failures_total", &labels);
    assert_eq!(refused.unwrap(), 2);
}

/// The principal with two equal ids reaches both, each at its own upstream's endpoint.
#[tokio::test]
async fn case_09_equal_ids_are_each_reached_at_their_own_endpoint() {
    let world = World::start().await;
    let at = |name: &str| world.gateway.client_of("default", name).with_key(ALICE);
    let (alpha, beta, both) = (at("alpha"), at("beta"), world.client(ALICE));
    for (client, upstream) in [(&alpha, &world.alpha), (&beta, &world.beta)] {
        upstream.set_task_ids(&["twin"]);
        assert_eq!(client.start_task("slow", json!({})).await.unwrap(), "twin");
    }
    world.alpha.complete("twin", "from alpha").unwrap();
    let done = alpha.until("twin", "completed").await.unwrap();
    assert_eq!(done["result"]["content"][0]["text"], "from alpha");
    beta.until("twin", "working").await.unwrap();
    let before = world.seen();
    for envelope in [Envelope::get("twin"), Envelope::cancel("twin")] {
        assert_eq!(code(&both, &envelope).await, INVALID_PARAMS);
    }
    assert_eq!(world.seen(), before);
}

/// Somebody else's task of the same id is no second match: it does not exist for this caller.
#[tokio::test]
async fn case_07_an_id_that_a_stranger_has_elsewhere_is_still_one_s_own() {
    let world = World::start().await;
    for (name, upstream, key) in [("alpha", &world.alpha, ALICE), ("beta", &world.beta, BOB)] {
        upstream.set_task_ids(&["twin"]);
        let at_upstream = world.gateway.client_of("default", name).with_key(key);
        let task = at_upstream.start_task("slow", json!({})).await.unwrap();
        assert_eq!(task, "twin");
    }
    world.beta.complete("twin", "from beta").unwrap();
    world.client(ALICE).until("twin", "working").await.unwrap();
    let done = world.client(BOB).until("twin", "completed").await.unwrap();
    assert_eq!(done["result"]["content"][0]["text"], "from beta");
}

/// Both upstreams mint the id at the same time: exactly one handle goes out.
#[tokio::test]
async fn case_09_equal_ids_at_once_are_given_out_once() {
    let world = World::start().await;
    let alice = world.client(ALICE);
    let gate = Gate::new();
    for upstream in [&world.alpha, &world.beta] {
        upstream.set_task_ids(&["twin"]);
        upstream.enqueue("tools/call", Answer::built_in().held(&gate));
    }
    let call = |tool: &'static str| {
        let alice = alice.clone();
        tokio::spawn(async move { alice.call(tool, json!({})).await.unwrap() })
    };
    let calls = [call("alpha__slow"), call("beta__slow")];
    gate.reached(2).await.unwrap();
    gate.open();
    let mut given = 0;
    for call in calls {
        match call.await.unwrap().result() {
            Ok(handle) => {
                assert_eq!(handle["taskId"], "twin");
                given += 1;
            }
            Err(error) => assert!(error.to_string().contains("-31008"), "{error}"),
        }
    }
    assert_eq!(given, 1);
    alice.until("twin", "working").await.unwrap();
    let cancelled = world.alpha.count("tasks/cancel") + world.beta.count("tasks/cancel");
    assert!(cancelled <= 1, "the other one alone is told to stop");
}
