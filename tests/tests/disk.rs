//! A store that cannot commit: calls fail closed, and it recovers by itself.

#![cfg(test)]

use hangar_tests::chain;
use hangar_tests::client::Client;
use hangar_tests::gateway::Gateway;
use hangar_tests::manifests;
use hangar_tests::operator::Operator;
use hangar_tests::scripted::Upstream;
use hangar_tests::stack::{ALICE, REPORTS, setup, world};
use hangar_tests::tmpfs::Tmpfs;
use hangar_tests::wait;
use serde_json::{Value, json};
use tempfile::TempDir;

/// Room for a ledger of some tasks.
const SIZE_KIB: u32 = 2048;
const DEGRADED: &str = "hangar_ledger_degraded";
const ERRORS: &str = "hangar_ledger_errors_total";
const INTERNAL: i64 = -32603;

/// The usual world, with the ledger on a disk of its own.
struct Small {
    // Dropped in this order: nobody writes to the disk any more when it goes.
    gateway: Gateway,
    _operator: Operator,
    upstream: Upstream,
    disk: Tmpfs,
    folder: TempDir,
}

// === impl Small ===

impl Small {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let disk = Tmpfs::mount(&folder.path().join("disk"), SIZE_KIB).unwrap();
        let upstream = Upstream::start().await.unwrap();
        let objects = folder.path().join("manifests");
        std::fs::create_dir(&objects).unwrap();
        manifests::write(&objects, "world.yaml", &world(&upstream.url())).unwrap();
        let operator = Operator::start(&objects, &folder.path().join("operator"), &[])
            .await
            .unwrap();
        let setup = setup(&operator, &folder.path().join("gateway"));
        let store = disk.path().join("ledger.sqlite");
        let gateway = Gateway::start_with_store(&setup, &store, &[])
            .await
            .unwrap();
        operator.programmed(REPORTS).await.unwrap();
        gateway.ready().await.unwrap();
        Self {
            gateway,
            _operator: operator,
            upstream,
            disk,
            folder,
        }
    }

    fn client(&self) -> Client {
        self.gateway.client_of("default", "reports").with_key(ALICE)
    }

    async fn readyz(&self) -> (u16, String) {
        let reply = self.gateway.readyz().await.unwrap();
        let body = String::from_utf8_lossy(&reply.body).into_owned();
        (reply.status.as_u16(), body)
    }

    async fn count(&self, name: &str) -> u64 {
        let scrape = self.gateway.scrape().await.unwrap();
        scrape.count(name, &[]).unwrap()
    }

    async fn recovered(&self) {
        wait::eventually("the store recovers", async || {
            wait::same(&self.readyz().await, &(200, "ok\n".to_owned()))
        })
        .await
        .unwrap();
        assert_eq!(self.count(DEGRADED).await, 0);
    }

    async fn events(&self, task: &str) -> Vec<String> {
        let store = self.disk.path().join("ledger.sqlite");
        let export = chain::export(&store, self.folder.path()).await.unwrap();
        chain::of_task(&export, task).unwrap()
    }
}

/// With a disk that is really full.
#[tokio::test]
async fn case_18_a_full_disk_gives_no_handle_and_recovers_by_itself() {
    let small = Small::start().await;
    let alice = small.client();
    // Its pin is stored now, so that what fails below is the birth.
    let before = alice.start_task("slow", json!({})).await.unwrap();
    assert_eq!(small.readyz().await, (200, "ok\n".to_owned()));
    assert_eq!(small.count(DEGRADED).await, 0);
    assert_eq!(small.count(ERRORS).await, 0);

    small.disk.fill().unwrap();
    let tried = give_until_refused(&alice).await;
    let lost = small.upstream.tasks().pop().unwrap();
    assert!(
        !tried.contains(&lost),
        "no handle of the last one was given"
    );
    small.upstream.arrived("tasks/cancel", 1).await.unwrap();
    let (status, body) = small.readyz().await;
    assert_eq!(status, 200);
    assert!(body.starts_with("degraded"), "{body}");
    assert_eq!(small.count(DEGRADED).await, 1);
    assert!(small.count(ERRORS).await >= 1);
    let failures = "hangar_task_registration_failures_total";
    assert_eq!(small.count(failures).await, 1);

    // While it lasts no further work is begun upstream; what is known is still served.
    let made = small.upstream.tasks().len();
    let reply = alice.call("ask", json!({})).await.unwrap();
    assert_eq!(reply.error_code().unwrap(), INTERNAL);
    assert_eq!(small.upstream.tasks().len(), made);
    alice.until(&before, "working").await.unwrap();
    let reply = alice.call("echo", json!({"text": "hi"})).await.unwrap();
    let code = reply.error_code();
    assert!(code.is_err() || code.unwrap() == INTERNAL);

    small.disk.relieve().unwrap();
    small.recovered().await;
    let after = alice.start_task("slow", json!({})).await.unwrap();
    alice.until(&after, "working").await.unwrap();
    let lookup = alice.get(&lost).await.unwrap();
    assert_eq!(lookup.error_code().unwrap(), -32602, "nothing survived");
    let cancels = small.upstream.seen_of("tasks/cancel");
    let ids: Vec<Value> = cancels
        .iter()
        .map(|seen| seen.params()["taskId"].take())
        .collect();
    assert_eq!(ids, [json!(lost)], "cancelled once, and no other");
    assert_eq!(small.events(&before).await, ["TaskCreated"]);
    assert_eq!(small.events(&after).await, ["TaskCreated"]);
    assert!(small.events(&lost).await.is_empty());
}

/// The free pages of the write-ahead log may take a few births more. Gives the ids handed out.
async fn give_until_refused(client: &Client) -> Vec<String> {
    let mut given = Vec::new();
    wait::eventually("a birth fails", async || {
        let reply = client.call("slow", json!({})).await?;
        match reply.error_code() {
            Ok(code) => {
                assert_eq!(code, INTERNAL);
                assert_eq!(reply.status, 200);
                Ok(())
            }
            Err(error) => {
                let task = reply.result()?["taskId"].take();
                given.push(task.as_str().unwrap_or_default().to_owned());
                Err(error)
            }
        }
    })
    .await
    .unwrap();
    given
}

/// No decision is handed out that is not on the chain.
#[tokio::test]
async fn a_result_waits_for_a_disk_that_takes_its_event() {
    let small = Small::start().await;
    let alice = small.client();
    let task = alice.start_task("slow", json!({})).await.unwrap();
    let asked = alice.start_task("ask", json!({})).await.unwrap();
    alice.until(&asked, "input_required").await.unwrap();
    small.disk.fill().unwrap();
    give_until_refused(&alice).await;

    small.upstream.complete(&task, "the-payload").unwrap();
    let reply = alice.get(&task).await.unwrap();
    assert_eq!(reply.error_code().unwrap(), INTERNAL);
    assert!(!String::from_utf8_lossy(&reply.body).contains("the-payload"));
    let answer = alice.answer(&asked, "name", "accept", json!({"name": "Ann"}));
    assert_eq!(answer.await.unwrap().error_code().unwrap(), INTERNAL);
    assert_eq!(small.upstream.count("tasks/update"), 0);

    small.disk.relieve().unwrap();
    small.recovered().await;
    let done = alice.until(&task, "completed").await.unwrap();
    assert_eq!(done["result"]["content"][0]["text"], "the-payload");
    let answer = alice.answer(&asked, "name", "accept", json!({"name": "Ann"}));
    answer.await.unwrap().result().unwrap();
    alice.until(&asked, "completed").await.unwrap();
    assert_eq!(small.upstream.count("tasks/update"), 1);
    assert_eq!(small.events(&task).await, ["TaskCreated", "TaskCompleted"]);
    assert_eq!(
        small.events(&asked).await,
        ["TaskCreated", "TaskConsentDecided(accept)", "TaskCompleted"]
    );
}
