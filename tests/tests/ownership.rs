//! Whose task it is: who finds it, and what everybody else is told.

#![cfg(test)]

use std::collections::BTreeMap;

use hangar_tests::client::{self, Client, Reply};
use hangar_tests::envelope::Envelope;
use hangar_tests::ledger::Ledger;
use hangar_tests::manifests::Manifest;
use hangar_tests::stack::{ALICE, BOB, CAROL, Stack};
use hangar_tests::wait;
use serde_json::{Value, json};

/// Differs between any two answers, and between those two that must be equal.
const CORRELATION: &str = "hangar-correlation-id";
const NOT_FOUND: (u16, i64) = (200, -32602);
const REFUSALS: &str = "hangar_task_refusals_total";
/// Alice's other key, while they are rotated.
const ROTATED: &str = "alice-second-key-0123456789";

type Request = fn(&str) -> Envelope;

async fn start() -> (Stack, Client) {
    let stack = Stack::start().await.unwrap();
    let alice = stack.client(ALICE);
    (stack, alice)
}

/// Edits one object by its name.
fn object(
    kind: &'static str,
    name: &'static str,
    pointer: &'static str,
    value: Value,
) -> impl Fn(Manifest) -> Manifest {
    move |object| {
        let is = object.value()["kind"] == kind && object.value()["metadata"]["name"] == name;
        if is {
            object.set(pointer, value.clone())
        } else {
            object
        }
    }
}

/// An id that nobody has, of the same length: the only thing that a size could tell.
fn absent(task: &str) -> String {
    let reversed: String = task.chars().rev().collect();
    assert_ne!(reversed, task);
    reversed
}

fn update(task: &str) -> Envelope {
    Envelope::update(task, &json!({}))
}

fn accept(task: &str) -> Envelope {
    let yes = json!({"name": {"action": "accept", "content": {"name": "Eve"}}});
    Envelope::update(task, &yes)
}

fn decline(task: &str) -> Envelope {
    Envelope::update(task, &json!({"name": {"action": "decline"}}))
}

/// Whom this client is asks about the task as about one that never existed, at both endpoints, and
/// no upstream hears of it.
async fn assert_told_nothing(stack: &Stack, key: &str, task: &str, requests: &[Request]) {
    let seen = stack.upstream.seen().len();
    let at_upstream = stack.client(key);
    let at_tenant = stack.gateway.client().with_key(key);
    for make in requests {
        let unknown = at_upstream.send(&make(&absent(task))).await.unwrap();
        assert_eq!(unknown.outcome().unwrap(), NOT_FOUND);
        for client in [&at_upstream, &at_tenant] {
            let foreign = client.send(&make(task)).await.unwrap();
            assert_eq!(
                foreign.fingerprint(CORRELATION),
                unknown.fingerprint(CORRELATION)
            );
            assert!(!String::from_utf8_lossy(&foreign.body).contains(task));
        }
    }
    assert_eq!(stack.upstream.seen().len(), seen, "something went upstream");
}

#[tokio::test]
async fn case_01_the_owner_reads_its_task() {
    let (stack, alice) = start().await;
    let task = alice.start_task("slow", json!({})).await.unwrap();
    let path = |path: &str| format!("http://{}{path}", stack.gateway.mcp_address());
    let clients = [
        alice.clone(),
        Client::new(&path("/mcp/default/reports")).with_key(ALICE),
        Client::over_http2(&path("/mcp/default/reports")).with_key(ALICE),
        stack.gateway.client().with_key(ALICE),
    ];
    let read = async |client: &Client| {
        let mut result = client.get(&task).await.unwrap().result().unwrap();
        let members = result.as_object_mut().unwrap();
        assert_eq!(members.remove("resultType"), Some(json!("complete")));
        result
    };
    for client in &clients {
        assert_eq!(Some(read(client).await), stack.upstream.task(&task));
    }
    stack.upstream.complete(&task, "the-payload").unwrap();
    for client in &clients {
        let done = read(client).await;
        assert_eq!(done["result"]["content"][0]["text"], "the-payload");
    }
    let read = [
        ("tenant", "acme"),
        ("method", "tasks/get"),
        ("outcome", "ok"),
    ];
    let count = stack.count("hangar_requests_total", &read).await.unwrap();
    assert_eq!(count, 2 * clients.len() as u64);
    assert_eq!(stack.count(REFUSALS, &[]).await.unwrap(), 0);
}

#[tokio::test]
async fn case_02_another_tenant_reads_what_does_not_exist() {
    let (stack, alice) = start().await;
    let task = alice.start_task("ask", json!({})).await.unwrap();
    alice.until(&task, "input_required").await.unwrap();
    assert_told_nothing(&stack, CAROL, &task, &[Envelope::get]).await;
    let answer = alice.answer(&task, "name", "accept", json!({"name": "Ann"}));
    answer.await.unwrap().result().unwrap();
    alice.until(&task, "completed").await.unwrap();
    // The end of a task makes it nobody else's.
    assert_told_nothing(&stack, CAROL, &task, &[Envelope::get]).await;
}

#[tokio::test]
async fn case_03_another_principal_of_the_tenant_is_denied_the_same_way() {
    let (stack, alice) = start().await;
    let task = alice.start_task("slow", json!({})).await.unwrap();
    alice.until(&task, "working").await.unwrap();
    assert_told_nothing(&stack, BOB, &task, &[Envelope::get, Envelope::cancel]).await;
    // Bytes and status are those that another tenant gets.
    let (bob, carol) = (stack.client(BOB), stack.client(CAROL));
    let (within, without) = (bob.get(&task).await, carol.get(&task).await);
    assert_eq!(
        within.unwrap().fingerprint(CORRELATION),
        without.unwrap().fingerprint(CORRELATION)
    );
}

/// Reading and cancelling is shared, answering is not, and no other tenant is let in.
#[tokio::test]
async fn case_03_a_policy_that_shares_lets_its_tenant_read_and_cancel() {
    let visible = "/spec/upstreams/0/tasks/visibility";
    let shared = object("TenantPolicy", "acme", visible, json!("Tenant"));
    let stack = Stack::start_with(shared).await.unwrap();
    let (alice, bob) = (stack.client(ALICE), stack.client(BOB));
    let done = alice.start_task("slow", json!({})).await.unwrap();
    let asked = alice.start_task("ask", json!({})).await.unwrap();
    stack.upstream.complete(&done, "the-payload").unwrap();
    let read = bob.until(&done, "completed").await.unwrap();
    assert_eq!(read["result"]["content"][0]["text"], "the-payload");
    alice.until(&asked, "input_required").await.unwrap();
    let answered = bob.send(&accept(&asked)).await.unwrap();
    assert_eq!(answered.outcome().unwrap(), (200, -31004));
    assert_eq!(stack.upstream.count("tasks/update"), 0);
    for task in [&done, &asked] {
        let requests: [Request; 3] = [Envelope::get, Envelope::cancel, accept];
        assert_told_nothing(&stack, CAROL, task, &requests).await;
    }
    bob.cancel(&asked).await.unwrap().result().unwrap();
    bob.until(&asked, "cancelled").await.unwrap();
    alice.until(&asked, "cancelled").await.unwrap();
}

/// No credential of today carries none, so the record is made to say so.
#[tokio::test]
async fn case_04_a_task_recorded_without_principal_is_any_principal_s_of_its_tenant() {
    let (mut stack, alice) = start().await;
    let task = alice.start_task("slow", json!({})).await.unwrap();
    let other = alice.start_task("slow", json!({})).await.unwrap();
    stack.gateway.process().kill().unwrap();
    let file = stack.setup().store_file();
    Ledger::open(&file)
        .unwrap()
        .forget_principal(&task)
        .unwrap();
    stack.gateway.start_again().await.unwrap();
    stack.gateway.ready().await.unwrap();
    let bob = stack.client(BOB);
    alice.until(&task, "working").await.unwrap();
    bob.until(&task, "working").await.unwrap();
    assert_told_nothing(&stack, CAROL, &task, &[Envelope::get, Envelope::cancel]).await;
    assert_told_nothing(&stack, BOB, &other, &[Envelope::get]).await;
    bob.cancel(&task).await.unwrap().result().unwrap();
    alice.until(&task, "cancelled").await.unwrap();
}

#[tokio::test]
async fn case_12_a_stranger_updates_and_cancels_nothing() {
    let (stack, alice) = start().await;
    let task = alice.start_task("ask", json!({})).await.unwrap();
    alice.until(&task, "input_required").await.unwrap();
    let ledger = Ledger::open(&stack.setup().store_file()).unwrap();
    let before = ledger.entry(&task).unwrap().unwrap();
    let requests: [Request; 4] = [update, accept, decline, Envelope::cancel];
    for stranger in [BOB, CAROL] {
        assert_told_nothing(&stack, stranger, &task, &requests).await;
    }
    assert_eq!(ledger.entry(&task).unwrap().unwrap(), before);
    // The question is still there, and still its owner's to answer.
    alice.until(&task, "input_required").await.unwrap();
    let answer = alice.answer(&task, "name", "accept", json!({"name": "Ann"}));
    answer.await.unwrap().result().unwrap();
    let done = alice.until(&task, "completed").await.unwrap();
    assert_eq!(done["result"]["content"][0]["text"], "Hello Ann");
    assert_eq!(stack.upstream.count("tasks/cancel"), 0);
}

/// Who calls is looked at with each request, never with the connection.
#[tokio::test]
async fn case_13_each_credential_reaches_its_own_tasks_on_a_shared_connection() {
    let keys = json!(format!("{ALICE}\n{ROTATED}"));
    let rotated = object("Secret", "acme-keys", "/stringData/alice", keys);
    let open = json!({"name": "open", "type": "Anonymous"});
    let open = object("TenantPolicy", "globex", "/spec/subjects/1", open);
    let stack = Stack::start_with(|it| open(rotated(it))).await.unwrap();
    let url = format!("http://{}/mcp/default/reports", stack.gateway.mcp_address());
    // A pool of HTTP/1.1 may open another connection while it waits for one to come back.
    for (nobody, most) in [(Client::new(&url), 3), (Client::over_http2(&url), 1)] {
        let key = |key| nobody.with_key(key);
        let owners = [key(ALICE), key(BOB), key(CAROL), nobody.clone()];
        let mut tasks = Vec::new();
        for owner in &owners {
            tasks.push(owner.start_task("slow", json!({})).await.unwrap());
        }
        let callers = [(0, key(ALICE)), (0, key(ROTATED)), (1, key(BOB))];
        let callers = callers.into_iter().chain([(2, key(CAROL)), (3, nobody)]);
        for round in 0..3 {
            for (own, caller) in callers.clone() {
                for (of, task) in tasks.iter().enumerate() {
                    let reply = caller.get(task).await.unwrap();
                    if of == own {
                        assert_eq!(reply.result().unwrap()["taskId"], *task, "{round}");
                    } else {
                        assert_eq!(reply.outcome().unwrap(), NOT_FOUND, "{own} reads {of}'s");
                    }
                }
            }
        }
        let connections = stack.count("hangar_connections", &[]).await.unwrap();
        assert!(
            connections <= most,
            "{connections} connections for five callers"
        );
        drop((owners, callers));
        let none = async || {
            let open = stack.count("hangar_connections", &[]).await?;
            wait::same(&open, &0)
        };
        wait::eventually("the connection is over", none)
            .await
            .unwrap();
    }
}

/// What moved between two looks at `/metrics`, but for times.
async fn moved(stack: &Stack, act: impl AsyncFnOnce()) -> BTreeMap<String, String> {
    let look = async || {
        let url = format!("http://{}/metrics", stack.gateway.metrics_address());
        let reply = client::get(&url).await.unwrap();
        let text = String::from_utf8(reply.body.to_vec()).unwrap();
        let samples = text.lines().filter(|line| !line.starts_with('#'));
        let samples = samples.filter_map(|line| line.rsplit_once(' '));
        let samples = samples.map(|(series, value)| (series.to_owned(), value.to_owned()));
        samples.collect::<BTreeMap<_, _>>()
    };
    let before = look().await;
    act().await;
    let mut after = look().await;
    after.retain(|series, value| {
        let is_time = series.contains("_seconds_bucket")
            || series.contains("_seconds_sum")
            || series.starts_with("hangar_config_age_seconds");
        before.get(series) != Some(value) && !is_time
    });
    for (series, value) in &mut after {
        let before = before
            .get(series)
            .map_or(0.0, |value| value.parse().unwrap());
        *value = (value.parse::<f64>().unwrap() - before).to_string();
    }
    after
}

/// The line of the access log about this answer, without what differs between any two.
async fn logged(stack: &Stack, reply: &Reply) -> Value {
    let correlation = reply.header(CORRELATION).unwrap().to_owned();
    let file = stack.folder().join("hangar-gateway.log");
    let mut line = wait::eventually("the request is in the log", async || {
        let text = std::fs::read_to_string(&file)?;
        let lines = text.lines().filter(|line| line.contains(&correlation));
        let lines: Vec<Value> = lines.map(serde_json::from_str).collect::<Result<_, _>>()?;
        anyhow::ensure!(lines.len() == 1, "{lines:?}");
        Ok(lines[0].clone())
    })
    .await
    .unwrap();
    let members = line.as_object_mut().unwrap();
    for different in ["timestamp", "correlation", "micros"] {
        assert!(members.remove(different).is_some(), "{different}: {line}");
    }
    line
}

/// What a stranger could tell a foreign task from an absent one by, apart from the time it takes.
#[tokio::test]
async fn case_14_foreign_and_absent_leave_the_same_traces() {
    let (stack, alice) = start().await;
    let task = alice.start_task("ask", json!({})).await.unwrap();
    alice.until(&task, "input_required").await.unwrap();
    let seen = stack.upstream.seen().len();
    let requests: [Request; 5] = [Envelope::get, update, accept, decline, Envelope::cancel];
    for key in [BOB, CAROL] {
        let stranger = stack.client(key);
        let ask = async |id: &str| {
            let mut answers = Vec::new();
            for make in requests {
                answers.push(stranger.send(&make(id)).await.unwrap());
            }
            answers
        };
        // Series appear at their first use.
        ask(&absent(&task)).await;
        let (mut foreign, mut unknown) = (Vec::new(), Vec::new());
        let of_foreign = moved(&stack, async || foreign = ask(&task).await).await;
        let of_unknown = moved(&stack, async || unknown = ask(&absent(&task)).await).await;
        assert_eq!(of_foreign, of_unknown);
        assert!(of_foreign.len() >= requests.len(), "{of_foreign:?}");
        for (foreign, unknown) in foreign.iter().zip(&unknown) {
            assert_eq!(
                foreign.fingerprint(CORRELATION),
                unknown.fingerprint(CORRELATION)
            );
            assert_eq!(logged(&stack, foreign).await, logged(&stack, unknown).await);
        }
    }
    assert_eq!(stack.upstream.seen().len(), seen);
}

#[tokio::test]
async fn case_15_a_foreign_or_absent_poll_is_counted_and_logged() {
    let (stack, alice) = start().await;
    let task = alice.start_task("slow", json!({})).await.unwrap();
    let carol = stack.client(CAROL);
    let labels = |reason| {
        [
            ("tenant", "globex"),
            ("upstream", "default/reports"),
            ("method", "tasks/get"),
            reason,
        ]
    };
    let mut bodies = Vec::new();
    for (index, id) in [task.clone(), absent(&task)].into_iter().enumerate() {
        let reply = carol.get(&id).await.unwrap();
        let polls = index as u64 + 1;
        for (name, reason) in [
            (REFUSALS, ("reason", "task_not_found")),
            ("hangar_requests_total", ("outcome", "denied")),
        ] {
            let count = stack.count(name, &labels(reason)).await.unwrap();
            assert_eq!(count, polls, "{name}");
        }
        let line = logged(&stack, &reply).await;
        assert_eq!(line["message"], "request", "{line}");
        assert_eq!(line["tenant"], "globex", "{line}");
        assert_eq!(line["upstream"], "default/reports", "{line}");
        assert_eq!(line["method"], "tasks/get", "{line}");
        assert_eq!(line["reason"], "task_not_found", "{line}");
        bodies.push(reply.body);
    }
    assert_eq!(bodies[0], bodies[1], "the caller is not told which it was");
}
