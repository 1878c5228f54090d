//! What went wrong in the field with tasks behind gateways like this one: shapes, owners, answers, ids,
//! ends, late news, and pollers that never tire. Each test begins with the story.

#![cfg(test)]

use hangar_tests::client::{Client, Reply};
use hangar_tests::envelope::Envelope;
use hangar_tests::manifests::{Manifest, mk_upstream, write};
use hangar_tests::raw::{Raw, request};
use hangar_tests::scripted::{Answer, Gate, Upstream};
use hangar_tests::stack::{ALICE, BOB, CAROL, REPORTS, Stack, world};
use hangar_tests::wait;
use hyper::StatusCode;
use serde_json::{Value, json};

const EVENTS: &str = "hangar_provenance_events_total";
const BIRTHS_REFUSED: &str = "hangar_task_registration_failures_total";
const REFUSALS: &str = "hangar_task_refusals_total";
const DECISIONS: &str = "hangar_task_consent_decisions_total";
const FAILURES: &str = "hangar_upstream_failures_total";
const CORRELATION: &str = "hangar-correlation-id";
const PAPERS: &str = "McpUpstream/default/papers";
const NOT_FOUND: i64 = -32602;
const UNAVAILABLE: i64 = -31001;
const UPSTREAM_PROTOCOL: i64 = -31008;
/// Of three requests.
const ORDERS: [[usize; 3]; 6] = [
    [0, 1, 2],
    [0, 2, 1],
    [1, 0, 2],
    [1, 2, 0],
    [2, 0, 1],
    [2, 1, 0],
];

async fn start() -> (Stack, Client) {
    let stack = Stack::start().await.unwrap();
    let alice = stack.client(ALICE);
    (stack, alice)
}

/// The usual world with a second upstream, `papers`, that both tenants may use.
async fn start_two(edit: impl Fn(Manifest) -> Manifest) -> (Stack, Upstream) {
    let stack = Stack::start().await.unwrap();
    let papers = Upstream::start().await.unwrap();
    let granted = |object: Manifest| match object.value()["kind"].as_str() {
        Some("TenantPolicy") => object.grants_with_consent("papers"),
        _ => object,
    };
    let mut objects: Vec<_> = world(&stack.upstream.url())
        .into_iter()
        .map(|object| granted(edit(object)))
        .collect();
    objects.push(mk_upstream("papers", &papers.url()));
    write(&stack.manifests(), "world.yaml", &objects).unwrap();
    let client = stack.gateway.client_of("default", "papers").with_key(ALICE);
    wait::eventually("papers served", async || {
        client.list_tools().await?.result()
    })
    .await
    .unwrap();
    stack.operator.programmed(PAPERS).await.unwrap();
    (stack, papers)
}

/// What a task is without a word of how it is put.
fn task(id: &str) -> Value {
    json!({
        "taskId": id, "status": "working", "ttlMs": 900_000,
        "createdAt": "2026-12-01T06:00:00Z", "lastUpdatedAt": "2026-12-01T06:00:00Z",
    })
}

fn with(mut value: Value, member: &str, to: Value) -> Value {
    value[member] = to;
    value
}

fn snapshot(id: &str, status: &str) -> Value {
    let task = with(task(id), "resultType", json!("complete"));
    with(task, "status", json!(status))
}

fn yes() -> Value {
    json!({"action": "accept", "content": {"name": "Ann"}})
}

/// All that a client can ask of a task.
fn follow_ups(task: &str) -> [Envelope; 3] {
    [
        Envelope::get(task),
        Envelope::update(task, &json!({"name": yes()})),
        Envelope::cancel(task),
    ]
}

fn assert_ack(reply: &Reply, what: &str) {
    assert_eq!(reply.status, 200, "{what}");
    let mut result = reply.result().unwrap();
    result.as_object_mut().unwrap().remove("_meta");
    assert_eq!(result, json!({"resultType": "complete"}), "{what}");
}

/// Only the older shape of a handle, nested, was known: the flat one passed ungoverned, and the client's
/// follow-ups failed. Here flat is the shape, and whatever else hides a task is refused.
#[tokio::test]
async fn bb_02_a_handle_has_one_shape_and_none_passes_ungoverned() {
    let (stack, alice) = start().await;
    let given = with(task("flat"), "resultType", json!("task"));
    stack.upstream.set_task_ids(&["flat"]);
    stack.upstream.enqueue("tools/call", Answer::built_in());
    let reply = alice.call("slow", json!({})).await.unwrap();
    let handle = reply.result().unwrap();
    assert_eq!(handle["taskId"], "flat", "{handle}");
    assert!(handle.get("task").is_none(), "served flat: {handle}");
    alice.until("flat", "working").await.unwrap();
    let events = stack.count(EVENTS, &[]).await.unwrap();
    let without = |id| task(id);
    let shapes = [
        ("nested", "nested_task", json!({"task": task("nested")})),
        (
            "both",
            "nested_task",
            with(
                with(given.clone(), "taskId", json!("both")),
                "task",
                task("both"),
            ),
        ),
        (
            "beside",
            "nested_task",
            json!({"resultType": "complete", "content": [], "task": task("beside")}),
        ),
        ("untold", "result_type", without("untold")),
        (
            "null",
            "result_type",
            with(task("null"), "resultType", Value::Null),
        ),
        (
            "upper",
            "result_type",
            with(task("upper"), "resultType", json!("Task")),
        ),
    ];
    for (count, (id, reason, shape)) in (1..).zip(shapes) {
        let labels = [("tenant", "acme"), ("reason", reason)];
        let before = stack.count(BIRTHS_REFUSED, &labels).await.unwrap();
        stack.upstream.enqueue("tools/call", Answer::result(&shape));
        let reply = alice.call("slow", json!({})).await.unwrap();
        assert_eq!(reply.error_code().unwrap(), UPSTREAM_PROTOCOL, "{shape}");
        let after = stack.count(BIRTHS_REFUSED, &labels).await.unwrap();
        assert_eq!(after, before + 1, "{id}");
        // What runs there all the same is told to stop, once.
        stack.upstream.arrived("tasks/cancel", count).await.unwrap();
        let cancels = stack.upstream.seen_of("tasks/cancel");
        assert_eq!(cancels.last().unwrap().params()["taskId"], id);
        assert_eq!(cancels.len(), count);
        for envelope in follow_ups(id) {
            let reply = alice.send(&envelope).await.unwrap();
            assert_eq!(reply.error_code().unwrap(), NOT_FOUND, "{id}");
        }
    }
    assert_eq!(stack.count(EVENTS, &[]).await.unwrap(), events);
    // The governed one is as it was, to its end.
    assert_ack(&alice.cancel("flat").await.unwrap(), "flat");
    alice.until("flat", "cancelled").await.unwrap();
}

/// Says one request on a connection, and gives what comes back.
async fn say(raw: &mut Raw, key: &str, envelope: &Envelope) -> Value {
    raw.say(&request(envelope, key, "", &envelope.body()))
        .await
        .unwrap();
    serde_json::from_str(&raw.answer().await.unwrap().body).unwrap()
}

/// With authentication on, the rightful owner was told "not found" for every follow-up: who asks was
/// looked for where the served transport never puts it. Here it is known of each request on its own,
/// whoever else uses the same connection.
#[tokio::test]
async fn bb_04_an_owner_is_known_on_a_connection_that_others_share() {
    let (stack, _) = start().await;
    let mut raw = Raw::connect(stack.gateway.mcp_address()).await.unwrap();
    let born = say(&mut raw, ALICE, &Envelope::call("ask", json!({}))).await;
    let task = born["result"]["taskId"].as_str().unwrap().to_owned();
    let [get, update, cancel] = follow_ups(&task);
    for (envelope, status) in [
        (&get, "input_required"),
        (&update, ""),
        (&get, "completed"),
        (&cancel, ""),
        (&get, "completed"),
    ] {
        let seen = stack.upstream.seen().len();
        for stranger in [BOB, CAROL] {
            let refused = say(&mut raw, stranger, envelope).await;
            assert_eq!(refused["error"]["code"], NOT_FOUND, "{refused}");
        }
        assert_eq!(
            stack.upstream.seen().len(),
            seen,
            "nothing is asked for a stranger"
        );
        let own = say(&mut raw, ALICE, envelope).await;
        assert_eq!(
            own["result"]["status"].as_str().unwrap_or_default(),
            status,
            "{own}"
        );
        assert!(own["error"].is_null(), "{own}");
    }
    assert_eq!(stack.count("hangar_connections", &[]).await.unwrap(), 1);
    let events = stack.events(&task).await.unwrap();
    let expected = ["TaskCreated", "TaskConsentDecided(accept)", "TaskCompleted"];
    assert_eq!(events, expected);
}

/// The same where the requests of several are on one connection at the same time.
#[tokio::test]
async fn bb_04_an_owner_is_known_on_a_connection_that_others_use_at_once() {
    let (stack, _) = start().await;
    let url = format!("http://{}/mcp/default/reports", stack.gateway.mcp_address());
    let shared = Client::over_http2(&url);
    let all = [ALICE, BOB, CAROL].map(|key| shared.with_key(key));
    let mut tasks = Vec::new();
    for client in &all {
        tasks.push(client.start_task("slow", json!({})).await.unwrap());
    }
    let mut polls = Vec::new();
    for _ in 0..10 {
        for (asks, client) in all.iter().enumerate() {
            for (owns, task) in tasks.iter().enumerate() {
                let (client, task) = (client.clone(), task.clone());
                let poll = tokio::spawn(async move { client.get(&task).await.unwrap() });
                polls.push((asks == owns, poll));
            }
        }
    }
    for (owns, poll) in polls {
        let reply = poll.await.unwrap();
        if owns {
            assert_eq!(reply.result().unwrap()["status"], "working");
        } else {
            assert_eq!(reply.error_code().unwrap(), NOT_FOUND);
        }
    }
    assert_eq!(stack.count("hangar_connections", &[]).await.unwrap(), 1);
}

/// An answer to the wrong question, to none, or that was none, was told to have succeeded while nothing
/// had happened. Here what names no outstanding question is acknowledged and ignored, always; what
/// names one and is no yes is a recorded no.
#[tokio::test]
async fn bb_06_only_a_yes_to_what_was_asked_is_a_yes() {
    let (stack, alice) = start().await;
    let task = alice.start_task("ask", json!({})).await.unwrap();
    alice.until(&task, "input_required").await.unwrap();
    let update = async |answers: &Value| {
        let update = Envelope::update(&task, answers);
        assert_ack(&alice.send(&update).await.unwrap(), &answers.to_string());
    };
    let nothing = [
        json!({}),
        json!({"k2": yes()}),
        json!({"k2": null}),
        json!({"k2": {"action": "decline"}}),
        json!({"Name": yes()}),
        json!({"name ": yes()}),
        json!({" name": yes()}),
        json!({"name\u{0}": yes()}),
        json!({"n\u{430}me": yes()}),
        json!({"": yes()}),
    ];
    for answers in &nothing {
        update(answers).await;
        alice.until(&task, "input_required").await.unwrap();
    }
    // No map at all is no update.
    for answers in [
        Value::Null,
        json!([]),
        json!("name"),
        json!([{"name": yes()}]),
    ] {
        let reply = alice
            .send(&Envelope::update(&task, &answers))
            .await
            .unwrap();
        assert_eq!(reply.outcome().unwrap(), (400, -32602), "{answers}");
    }
    assert_eq!(stack.upstream.count("tasks/update"), 0);
    assert_eq!(stack.count(DECISIONS, &[]).await.unwrap(), 0);
    // It is still there to be answered, and what comes beside the answer goes nowhere.
    update(&json!({"k2": yes(), "Name": null, "name": yes()})).await;
    let relayed = stack.upstream.seen_of("tasks/update");
    assert_eq!(relayed.len(), 1);
    assert_eq!(
        relayed[0].params()["inputResponses"],
        json!({"name": yes()})
    );
    alice.until(&task, "completed").await.unwrap();
    let expected = ["TaskCreated", "TaskConsentDecided(accept)", "TaskCompleted"];
    assert_eq!(stack.events(&task).await.unwrap(), expected);
}

/// The null of that report, for a question that is outstanding: no success without a trace.
#[tokio::test]
async fn bb_06_a_null_for_a_question_is_a_recorded_no() {
    let (stack, alice) = start().await;
    let task = alice.start_task("ask", json!({})).await.unwrap();
    alice.until(&task, "input_required").await.unwrap();
    let null = Envelope::update(&task, &json!({"k2": yes(), "name": null}));
    assert_ack(&alice.send(&null).await.unwrap(), "null");
    let failed = alice.until(&task, "failed").await.unwrap();
    assert_eq!(failed["error"]["data"]["reason"], "consent_denied");
    let labels = [("decision", "decline"), ("reason", "not_an_answer")];
    assert_eq!(stack.count(DECISIONS, &labels).await.unwrap(), 1);
    assert_eq!(stack.upstream.count("tasks/update"), 0);
}

/// Ids were `task-1`, `task-2` and so on, in one store for everybody: whoever could count could read and
/// cancel. Here an id is its upstream's, a task is its owner's, and guessing tells nothing.
#[tokio::test]
async fn bb_08_counting_leads_to_no_one_elses_task() {
    let (stack, papers) = start_two(|object| object).await;
    let at = |name: &str, key| stack.gateway.client_of("default", name).with_key(key);
    for upstream in [&stack.upstream, &papers] {
        upstream.set_task_ids(&["task-1", "task-2", "task-1"]);
    }
    let start = async |client: Client| client.start_task("slow", json!({})).await.unwrap();
    // One principal holds the first of both, each behind its own upstream.
    for name in ["reports", "papers"] {
        assert_eq!(start(at(name, ALICE)).await, "task-1");
        assert_eq!(start(at(name, BOB)).await, "task-2");
    }
    let seen = || stack.upstream.seen().len() + papers.seen().len();
    let before = seen();
    for name in ["reports", "papers"] {
        let carol = at(name, CAROL);
        let fingerprint = async |envelope: Envelope| {
            carol
                .send(&envelope)
                .await
                .unwrap()
                .fingerprint(CORRELATION)
        };
        let unknown = follow_ups("task-9");
        for guess in ["task-1", "task-2", "task-3"] {
            for (envelope, unknown) in follow_ups(guess).into_iter().zip(unknown.clone()) {
                let told = fingerprint(envelope).await;
                assert_eq!(told, fingerprint(unknown).await, "{guess} at {name}");
            }
        }
    }
    assert_eq!(seen(), before, "nobody upstream hears of a guess");
    // The count begins anew, and comes to an id that somebody holds.
    let refused = at("reports", CAROL).call("slow", json!({})).await.unwrap();
    assert_eq!(refused.error_code().unwrap(), UPSTREAM_PROTOCOL);
    let collision = [("tenant", "globex"), ("reason", "collision")];
    assert_eq!(stack.count(BIRTHS_REFUSED, &collision).await.unwrap(), 1);
    let (here, there) = (at("reports", ALICE), at("papers", ALICE));
    here.cancel("task-1").await.unwrap().result().unwrap();
    here.until("task-1", "cancelled").await.unwrap();
    there.until("task-1", "working").await.unwrap();
    papers.complete("task-1", "of papers").unwrap();
    let done = there.until("task-1", "completed").await.unwrap();
    assert_eq!(done["result"]["content"][0]["text"], "of papers");
    assert_eq!(stack.upstream.count("tasks/cancel"), 1);
    assert_eq!(papers.count("tasks/cancel"), 0);
}

/// Every method says of each of them, in some order, what it says of a task that never was.
async fn assert_gone(client: &Client, tasks: &[String]) {
    for (id, order) in tasks.iter().zip(ORDERS.iter().cycle()) {
        for method in order {
            let envelope = |id| follow_ups(id)[*method].clone();
            let told = client.send(&envelope(id)).await.unwrap();
            assert_eq!(told.error_code().unwrap(), NOT_FOUND, "{id} {order:?}");
            let unknown = client.send(&envelope("unknown")).await.unwrap();
            assert_eq!(
                told.fingerprint(CORRELATION),
                unknown.fingerprint(CORRELATION)
            );
        }
    }
}

/// Time was looked at by one method and not by the others: an expired id was unknown to the one and
/// alive for the others. Here all say the same, in every order, whether a sweeper came by or not.
#[tokio::test]
async fn bb_10_an_expired_task_is_the_same_for_every_method() {
    let brief = |object: Manifest| match object.value()["kind"].as_str() {
        Some("McpUpstream") => object.set("/spec/tasks/retention", json!("4s")),
        _ => object,
    };
    let mut stack = Stack::start_with(brief).await.unwrap();
    let alice = stack.client(ALICE);
    let births: Vec<_> = (0..8).map(|number| format!("brief-{number}")).collect();
    for id in &births {
        let handle = with(
            with(task(id), "resultType", json!("task")),
            "ttlMs",
            json!(1),
        );
        stack
            .upstream
            .enqueue("tools/call", Answer::result(&handle));
        alice.start_task("slow", json!({})).await.unwrap();
    }
    // One that nobody looks at before all is over, and the youngest, which tells the time.
    let [asleep, orders @ .., witness] = &births[..] else {
        unreachable!("eight of them");
    };
    let events = ["TaskCreated", "TaskFailed(evicted)"];
    stack.upstream.script("tasks/get", |_| Answer::hang_up());
    alice.until(witness, "failed").await.unwrap();
    let mut told = Vec::new();
    for (id, order) in orders.iter().zip(ORDERS) {
        let mut answers = [const { None }; 3];
        for method in order {
            let reply = alice.send(&follow_ups(id)[method]).await.unwrap();
            answers[method] = Some(reply.result().unwrap());
        }
        let [get, update, cancel] = answers.map(Option::unwrap);
        assert_eq!(get["error"]["data"]["reason"], "evicted", "{order:?}");
        told.push((with(get, "taskId", Value::Null), update, cancel));
    }
    assert!(told.iter().all(|one| *one == told[0]), "{told:?}");
    wait::eventually("the witness is gone", async || {
        wait::same(&alice.get(witness).await?.error_code()?, &NOT_FOUND)
    })
    .await
    .unwrap();
    let asked = stack.upstream.seen().len();
    // Before a sweep, and after the one that a start brings.
    for is_swept in [false, true] {
        if is_swept {
            stack.gateway.restart().await.unwrap();
            stack.gateway.ready().await.unwrap();
        }
        assert_gone(&alice, &births).await;
    }
    let refused = stack.upstream.seen_of("tasks/cancel");
    let of = |id: &String| {
        refused
            .iter()
            .filter(|it| it.params()["taskId"] == **id)
            .count()
    };
    assert_eq!(births.iter().map(of).max(), Some(1), "told to stop once");
    assert!(stack.upstream.seen().len() <= asked + births.len() + 1);
    for id in [asleep, witness, &orders[0]] {
        assert_eq!(stack.events(id).await.unwrap(), events);
    }
    // The id is as good as new.
    let again = with(task(asleep), "resultType", json!("task"));
    stack.upstream.enqueue("tools/call", Answer::result(&again));
    assert_eq!(alice.start_task("slow", json!({})).await.unwrap(), *asleep);
}

/// A poll that is asked now and answered when the gate opens.
async fn held_poll(
    stack: &Stack,
    client: &Client,
    task: &str,
    answer: Answer,
) -> (Gate, tokio::task::JoinHandle<Reply>) {
    let gate = Gate::new();
    stack.upstream.enqueue("tasks/get", answer.held(&gate));
    let (client, id) = (client.clone(), task.to_owned());
    let poll = tokio::spawn(async move { client.get(&id).await.unwrap() });
    gate.reached(1).await.unwrap();
    (gate, poll)
}

/// News of a task that had ended meanwhile made it anew, and memory and disk disagreed about which state
/// was the newer one. Here an end is final, whatever was on its way when it came.
#[tokio::test]
async fn bb_12_late_news_resurrects_nothing() {
    let (stack, alice) = start().await;
    let result = json!({"content": [{"type": "text", "text": "late"}]});
    let news = |id: &str| {
        [
            Answer::result(&with(snapshot(id, "completed"), "result", result.clone())),
            Answer::result(&with(
                snapshot(id, "failed"),
                "error",
                json!({"code": 1, "message": "late"}),
            )),
            Answer::result(&snapshot(id, "working")),
        ]
    };
    for number in 0..3 {
        let id = alice.start_task("slow", json!({})).await.unwrap();
        let regressions = [("reason", "regression")];
        let before = stack.count(REFUSALS, &regressions).await.unwrap();
        let late = news(&id)[number].clone();
        let (gate, poll) = held_poll(&stack, &alice, &id, late).await;
        alice.cancel(&id).await.unwrap().result().unwrap();
        alice.until(&id, "cancelled").await.unwrap();
        gate.open();
        let told = poll.await.unwrap();
        assert!(
            !String::from_utf8_lossy(&told.body).contains("late"),
            "{told:?}"
        );
        assert_eq!(told.result().unwrap()["status"], "cancelled");
        alice.until(&id, "cancelled").await.unwrap();
        let expected = ["TaskCreated", "TaskCancelled"];
        assert_eq!(stack.events(&id).await.unwrap(), expected);
        // An answer that was true when it was asked for is no contradiction.
        let contradicts = u64::from(number < 2);
        let after = stack.count(REFUSALS, &regressions).await.unwrap();
        assert_eq!(after, before + contradicts, "counted");
    }
    assert_eq!(stack.count("hangar_tasks_live", &[]).await.unwrap(), 0);
    // News of what never was makes nothing either.
    let (gate, live) = (
        Gate::new(),
        alice.start_task("slow", json!({})).await.unwrap(),
    );
    let other = Answer::result(&with(
        snapshot("phantom", "completed"),
        "result",
        result.clone(),
    ));
    stack.upstream.enqueue("tasks/get", other.held(&gate));
    gate.open();
    let told = alice.get(&live).await.unwrap().result().unwrap();
    assert_eq!(told["error"]["data"]["reason"], "upstream_protocol");
    let phantom = alice.get("phantom").await.unwrap();
    assert_eq!(phantom.error_code().unwrap(), NOT_FOUND);
}

/// The same where the time of the task ran out meanwhile, and where its id has a new owner.
#[tokio::test]
async fn bb_12_late_news_of_an_expired_task_is_news_of_nothing() {
    let brief = |object: Manifest| match object.value()["kind"].as_str() {
        Some("McpUpstream") => object.set("/spec/tasks/retention", json!("1s")),
        _ => object,
    };
    let stack = Stack::start_with(brief).await.unwrap();
    let alice = stack.client(ALICE);
    let handle = with(
        with(task("brief"), "resultType", json!("task")),
        "ttlMs",
        json!(1),
    );
    stack
        .upstream
        .enqueue("tools/call", Answer::result(&handle));
    alice.start_task("slow", json!({})).await.unwrap();
    let result = json!({"content": [{"type": "text", "text": "late"}]});
    let late = Answer::result(&with(snapshot("brief", "completed"), "result", result));
    let (gate, poll) = held_poll(&stack, &alice, "brief", late).await;
    stack.upstream.script("tasks/get", |_| Answer::hang_up());
    wait::eventually("gone", async || {
        wait::same(&alice.get("brief").await?.error_code()?, &NOT_FOUND)
    })
    .await
    .unwrap();
    // Somebody else's now.
    let carol = stack.client(CAROL);
    stack
        .upstream
        .enqueue("tools/call", Answer::result(&handle));
    assert_eq!(carol.start_task("slow", json!({})).await.unwrap(), "brief");
    gate.open();
    let told = poll.await.unwrap();
    assert_eq!(told.error_code().unwrap(), NOT_FOUND, "{told:?}");
    let events = stack.events("brief").await.unwrap();
    assert_eq!(
        events,
        ["TaskCreated", "TaskFailed(evicted)", "TaskCreated"]
    );
}

/// The same where the tenant was deleted meanwhile: what it had begun is answered, and that was all.
#[tokio::test]
async fn bb_12_late_news_of_a_deleted_tenant_gives_nobody_anything() {
    let (stack, alice) = start().await;
    let task = alice.start_task("slow", json!({})).await.unwrap();
    let (gate, poll) = held_poll(&stack, &alice, &task, Answer::built_in()).await;
    let objects: Vec<_> = world(&stack.upstream.url())
        .into_iter()
        .filter(|object| object.value()["metadata"]["name"] != "acme")
        .collect();
    write(&stack.manifests(), "world.yaml", &objects).unwrap();
    wait::eventually("the tenant is gone", async || {
        wait::same(&alice.list_tools().await?.status.as_u16(), &401)
    })
    .await
    .unwrap();
    gate.open();
    poll.await.unwrap();
    for envelope in follow_ups(&task) {
        assert_eq!(alice.send(&envelope).await.unwrap().status, 401);
        let carol = stack.client(CAROL).send(&envelope).await.unwrap();
        assert_eq!(carol.error_code().unwrap(), NOT_FOUND);
    }
    assert_eq!(stack.events(&task).await.unwrap(), ["TaskCreated"]);
}

/// The same over a restart: what is on disk is what is true, and a terminal state stays one.
#[tokio::test]
async fn bb_12_after_a_restart_the_newest_durable_state_wins() {
    let (mut stack, alice) = start().await;
    let task = alice.start_task("slow", json!({})).await.unwrap();
    let cancelled = alice.start_task("slow", json!({})).await.unwrap();
    stack.upstream.complete(&task, "done").unwrap();
    alice.until(&task, "completed").await.unwrap();
    alice.cancel(&cancelled).await.unwrap().result().unwrap();
    alice.until(&cancelled, "cancelled").await.unwrap();
    // Killed while older news is on its way.
    let older = Answer::result(&snapshot(&task, "working"));
    let gate = Gate::new();
    stack.upstream.enqueue("tasks/get", older.held(&gate));
    let poll = tokio::spawn({
        let (alice, task) = (alice.clone(), task.clone());
        async move { alice.get(&task).await }
    });
    gate.reached(1).await.unwrap();
    stack.gateway.process().kill().unwrap();
    gate.open();
    poll.await.unwrap().unwrap_err();
    stack.gateway.start_again().await.unwrap();
    stack.gateway.ready().await.unwrap();
    for id in [&task, &cancelled] {
        let working = Answer::result(&snapshot(id, "working"));
        stack.upstream.script("tasks/get", move |_| working.clone());
        let told = alice.get(id).await.unwrap();
        let status = match told.error_code() {
            Ok(code) => {
                assert_eq!(code, UNAVAILABLE);
                told.message().unwrap()["error"]["data"]["status"].take()
            }
            Err(_) => told.result().unwrap()["status"].take(),
        };
        let expected = if id == &task {
            "completed"
        } else {
            "cancelled"
        };
        assert_eq!(status, expected);
    }
    let regressions = [("reason", "regression")];
    // What was cancelled is not even asked about.
    assert_eq!(stack.count(REFUSALS, &regressions).await.unwrap(), 1);
    assert_eq!(
        stack.events(&task).await.unwrap(),
        ["TaskCreated", "TaskCompleted"]
    );
    assert_eq!(
        stack.events(&cancelled).await.unwrap(),
        ["TaskCreated", "TaskCancelled"]
    );
}

/// A controller polled a task that never ended for ever, took no notice of 429, woke itself by what it
/// wrote, and used up everybody's share. Here nothing is sent but what a client asks for, and an
/// upstream that asks for patience has it.
#[tokio::test]
async fn bb_14_an_upstream_that_asks_for_patience_has_it() {
    let (mut stack, papers) = start_two(|object| object).await;
    let (alice, bob) = (stack.client(ALICE), stack.client(BOB));
    let carol = stack.client(CAROL);
    let start = async |client: &Client| client.start_task("slow", json!({})).await.unwrap();
    let [of_alice, of_bob, of_carol] =
        [start(&alice).await, start(&bob).await, start(&carol).await];
    let conditions = |object: &str| stack.operator.status(object).unwrap()["conditions"].take();
    let before = [conditions(REPORTS), conditions(PAPERS)];
    let polls = stack.upstream.count("tasks/get");
    stack.upstream.script("tasks/get", |_| {
        Answer::raw("")
            .status(StatusCode::TOO_MANY_REQUESTS)
            .header("retry-after", "30")
    });
    // The hint is passed on; whoever of the tenant polls again is told the same without a request.
    for (client, task) in [(&alice, &of_alice), (&alice, &of_alice), (&bob, &of_bob)] {
        let reply = client.get(task).await.unwrap();
        let hint: u64 = reply.header("retry-after").unwrap().parse().unwrap();
        assert!((1..=30).contains(&hint), "{hint}");
        assert_eq!(reply.result().unwrap()["status"], "working");
    }
    assert_eq!(stack.upstream.count("tasks/get"), polls + 1);
    let throttled = [("tenant", "acme"), ("reason", "throttled")];
    assert_eq!(stack.count(FAILURES, &throttled).await.unwrap(), 1);
    // It is nobody else's patience: another tenant's poll is its own.
    let reply = carol.get(&of_carol).await.unwrap();
    assert!(reply.header("retry-after").is_some(), "{reply:?}");
    assert_eq!(stack.upstream.count("tasks/get"), polls + 2);
    // Calls and cancels are what clients want once, and go through.
    let echoed = alice.call("echo", json!({"text": "hi"})).await.unwrap();
    echoed.result().unwrap();
    assert_ack(&alice.cancel(&of_alice).await.unwrap(), "cancel");
    stack.upstream.arrived("tasks/cancel", 1).await.unwrap();
    let there = stack.gateway.client_of("default", "papers").with_key(ALICE);
    let elsewhere = start(&there).await;
    there.until(&elsewhere, "working").await.unwrap();
    assert_eq!(
        [conditions(REPORTS), conditions(PAPERS)],
        before,
        "no condition moved"
    );
    // Nothing is sent by itself, and not at a start either, which looks through all tasks.
    let asked = || stack.upstream.seen().len() + papers.seen().len();
    let now = asked();
    stack
        .gateway
        .metric("hangar_tasks_live", &[], 4.0)
        .await
        .unwrap();
    assert_eq!(asked(), now);
    stack.gateway.restart().await.unwrap();
    stack.gateway.ready().await.unwrap();
    let live = stack.gateway.metric("hangar_tasks_live", &[], 4.0);
    live.await.unwrap();
    assert_eq!(stack.upstream.count("tasks/get"), polls + 2);
    assert_eq!(stack.upstream.count("tasks/cancel"), 1);
}
