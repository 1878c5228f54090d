//! Sharing: `tasks.visibility` and `answeredBy` widen exactly what they name.

#![cfg(test)]

use hangar_tests::client::{Client, Reply};
use hangar_tests::gateway::Gateway;
use hangar_tests::manifests::{self, Manifest, mk_keys, mk_tenant, mk_upstream};
use hangar_tests::operator::Operator;
use hangar_tests::scripted::Upstream;
use hangar_tests::stack::setup;
use serde_json::{Value, json};
use tempfile::TempDir;

/// One policy, and for each caller what it may do.
struct Row {
    visibility: &'static str,
    /// None: no question may be answered.
    answered_by: Option<Value>,
    /// Whose poll shows the question.
    opener: &'static str,
    /// By caller, in the order of [`CALLERS`]: get, get after the end, update, cancel.
    cells: [[Cell; 4]; 4],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cell {
    /// Done as for the owner.
    Done,
    /// Seen to be there, and refused.
    Denied,
    /// No outcome is told.
    Withheld,
    /// Like a task that does not exist.
    Unknown,
}

use Cell::{Denied, Done, Unknown, Withheld};

/// A world with one tenant for each row, and one more.
struct World {
    gateway: Gateway,
    _operator: Operator,
    upstream: Upstream,
    folder: TempDir,
}

/// The owner, another of its tenant, one of its tenant that `answeredBy` lists, one of another
/// tenant that it lists too.
const CALLERS: [&str; 4] = ["alice", "erin", "bob", "carol"];
const CORRELATION: &str = "hangar-correlation-id";

const ALL: [Cell; 4] = [Done, Done, Done, Done];
const READS: [Cell; 4] = [Done, Done, Denied, Done];
const ANSWERS: [Cell; 4] = [Done, Withheld, Done, Denied];
const NOTHING: [Cell; 4] = [Unknown, Unknown, Unknown, Unknown];

fn table() -> Vec<Row> {
    let owner = || Some(json!({"type": "Owner"}));
    let tenant = || Some(json!({"type": "Tenant"}));
    let listed = || Some(json!({"type": "Principals", "principals": ["key:bob", "key:carol"]}));
    let row = |visibility, answered_by, opener, cells| Row {
        visibility,
        answered_by,
        opener,
        cells,
    };
    vec![
        row("Owner", owner(), "alice", [ALL, NOTHING, NOTHING, NOTHING]),
        row("Owner", tenant(), "alice", [ALL, ANSWERS, ANSWERS, NOTHING]),
        row("Owner", listed(), "bob", [READS, NOTHING, ANSWERS, NOTHING]),
        row("Owner", None, "alice", [READS, NOTHING, NOTHING, NOTHING]),
        row("Tenant", owner(), "alice", [ALL, READS, READS, NOTHING]),
        row("Tenant", tenant(), "erin", [ALL, ALL, ALL, NOTHING]),
        row("Tenant", listed(), "bob", [READS, READS, ALL, NOTHING]),
        row("Tenant", None, "alice", [READS, READS, READS, NOTHING]),
    ]
}

fn key(tenant: &str, principal: &str) -> String {
    format!("{tenant}-{principal}-key-0123456789abcdef")
}

fn tenant(number: usize) -> String {
    format!("row{number}")
}

// === impl World ===

impl World {
    async fn start(rows: &[Row]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let upstream = Upstream::start().await.unwrap();
        let mut objects = vec![mk_upstream("reports", &upstream.url())];
        for (number, row) in rows.iter().enumerate() {
            let name = tenant(number);
            let keys = ["alice", "erin", "bob"].map(|of| (of, key(&name, of)));
            let keys: Vec<_> = keys.iter().map(|(of, key)| (*of, key.as_str())).collect();
            objects.extend([policy(&name, row), mk_keys(&name, &keys)]);
        }
        let carol = key("other", "carol");
        objects.extend([
            mk_tenant("other").grants_with_consent("reports"),
            mk_keys("other", &[("carol", carol.as_str())]),
        ]);
        let manifests = folder.path().join("manifests");
        std::fs::create_dir(&manifests).unwrap();
        manifests::write(&manifests, "world.yaml", &objects).unwrap();
        let state = folder.path().join("operator");
        let operator = Operator::start(&manifests, &state, &[]).await.unwrap();
        let setup = setup(&operator, &folder.path().join("gateway"));
        let gateway = Gateway::start(&setup, &[]).await.unwrap();
        for number in 0..rows.len() {
            let policy = format!("TenantPolicy/default/{}", tenant(number));
            operator.programmed(&policy).await.unwrap();
        }
        gateway.ready().await.unwrap();
        Self {
            gateway,
            _operator: operator,
            upstream,
            folder,
        }
    }

    fn client(&self, row: usize, of: &str) -> Client {
        let key = match of {
            "carol" => key("other", of),
            _ => key(&tenant(row), of),
        };
        self.gateway.client_of("default", "reports").with_key(&key)
    }

    /// What a caller gets, each of a fresh task of alice's.
    async fn cells(&self, number: usize, row: &Row, of: &str) -> [Cell; 4] {
        let (alice, caller) = (self.client(number, "alice"), self.client(number, of));
        let start = async |tool: &str| alice.start_task(tool, json!({})).await.unwrap();
        let working = start("slow").await;
        let get = cell(&caller, &caller.get(&working).await.unwrap()).await;
        let done = start("slow").await;
        self.upstream.complete(&done, "SECRET").unwrap();
        alice.until(&done, "completed").await.unwrap();
        let ended = caller.get(&done).await.unwrap();
        let is_told = String::from_utf8_lossy(&ended.body).contains("SECRET");
        let ended = cell(&caller, &ended).await;
        assert_eq!(is_told, ended == Done, "row {number} {of}");
        let update = self.update(number, row, of).await;
        let cancels = self.upstream.count("tasks/cancel");
        let cancel = cell(&caller, &caller.cancel(&working).await.unwrap()).await;
        let passed_on = usize::from(cancel == Done);
        self.upstream
            .arrived("tasks/cancel", cancels + passed_on)
            .await
            .unwrap();
        assert_eq!(self.upstream.count("tasks/cancel"), cancels + passed_on);
        [get, ended, update, cancel]
    }

    /// Answers a question that was shown to whom it may be shown.
    async fn update(&self, number: usize, row: &Row, of: &str) -> Cell {
        let (alice, caller) = (self.client(number, "alice"), self.client(number, of));
        let asks = row.answered_by.is_some();
        let tool = if asks { "ask" } else { "slow" };
        let task = alice.start_task(tool, json!({})).await.unwrap();
        if asks {
            let opener = self.client(number, row.opener);
            opener.until(&task, "input_required").await.unwrap();
        }
        let relayed = self.upstream.count("tasks/update");
        let answer = caller.answer(&task, "name", "accept", json!({"name": "Ann"}));
        let update = cell(&caller, &answer.await.unwrap()).await;
        let more = usize::from(update == Done);
        let now = self.upstream.count("tasks/update");
        assert_eq!(now, relayed + more, "row {number} {of}");
        if update == Done {
            self.assert_recorded(&task, of).await;
        }
        update
    }

    /// The chain names who decided.
    async fn assert_recorded(&self, task: &str, by: &str) {
        let store = self.gateway.state().join("ledger.sqlite");
        let export = hangar_tests::chain::export(&store, self.folder.path()).await;
        let export = export.unwrap();
        let decided = export
            .lines()
            .find(|line| line.contains(task) && line.contains("TaskConsentDecided"));
        let decided: Value = serde_json::from_str(decided.unwrap()).unwrap();
        let verdict = &decided["detail"]["verdict"];
        assert_eq!(verdict["principal"], format!("key:{by}"), "{decided}");
    }
}

fn policy(name: &str, row: &Row) -> Manifest {
    let consent = match &row.answered_by {
        Some(by) => json!({"methods": ["elicitation/create"], "answeredBy": by}),
        None => Value::Null,
    };
    let policy = mk_tenant(name)
        .grants_with_consent("reports")
        .set("/spec/upstreams/0/tasks/consent", consent)
        .set("/spec/upstreams/0/tasks/visibility", json!(row.visibility));
    if row.answered_by.is_some() {
        policy
    } else {
        policy.without("/spec/upstreams/0/tasks/consent")
    }
}

/// What an answer is. Unknown means: the same as for an id that nobody has.
async fn cell(client: &Client, reply: &Reply) -> Cell {
    match reply.error_code() {
        Err(_) => Done,
        Ok(-31004) => Denied,
        Ok(-31002) => Withheld,
        Ok(_) => {
            let unknown = client.get("unknown").await.unwrap();
            assert_eq!(
                reply.fingerprint(CORRELATION),
                unknown.fingerprint(CORRELATION)
            );
            Unknown
        }
    }
}

#[tokio::test]
async fn case_03_sharing_widens_what_it_names_and_nothing_else() {
    let rows = table();
    let world = World::start(&rows).await;
    for (number, row) in rows.iter().enumerate() {
        for (of, wanted) in CALLERS.iter().zip(row.cells) {
            let found = world.cells(number, row, of).await;
            let Row {
                visibility,
                answered_by,
                ..
            } = row;
            assert_eq!(found, wanted, "{of}: {visibility} {answered_by:?}");
        }
    }
}
