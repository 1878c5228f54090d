//! Fixtures, and the tests of the embedded store by kind.

mod fault;
mod model;
mod pins;
mod scope;

use std::path::Path;
use std::time::{Duration, Instant};

use hangar_ledger::{
    Birth, Command, Decision, Owner, Principal, Snapshot, TenantRef, ToolDigest, decide, verify,
};
use hangar_wire::{Epoch, Generation, NewTools, ObjectDigest, Sha256Hex, Term};
use tempfile::TempDir;

use super::*;
use crate::{Contract, Expected, Reach, Write};

const BORN: u64 = 1_790_000_000_000;

fn clock() -> Clock {
    Arc::new(|| Millis(BORN))
}

fn open(path: &Path) -> SqliteStore {
    let path = path.join("ledger.db");
    let clock = clock();
    SqliteStore::open(Options { path, clock }).unwrap()
}

fn mk_store() -> (TempDir, SqliteStore) {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    (folder, store)
}

fn mk_key(task: &str) -> TaskKey {
    TaskKey::new(UpstreamUid("uid-reports".into()), task.parse().unwrap())
}

fn mk_tenant(tenant: &str) -> TenantRef {
    TenantRef {
        namespace: "hangar".into(),
        tenant: tenant.into(),
    }
}

fn mk_owner(tenant: &str, principal: &str) -> Owner {
    Owner::new(mk_tenant(tenant), Some(Principal::api_key(principal)))
}

fn mk_snapshot(key: &TaskKey, status: Status) -> Snapshot {
    Snapshot {
        task_id: key.task.clone(),
        status,
        created_at: "2026-12-01T06:00:00Z".parse().unwrap(),
        last_updated_at: "2026-12-01T06:00:00Z".parse().unwrap(),
        ttl_ms: None,
        poll_interval_ms: Some(500),
    }
}

fn mk_birth(owner: Owner) -> Birth {
    Birth {
        owner,
        upstream: "tools/reports".into(),
        tool: "crawl".into(),
        digest: ToolDigest(Sha256Hex::of(b"contract")),
        upstream_object: ObjectDigest(Sha256Hex::of(b"upstream object")),
        policy_object: ObjectDigest(Sha256Hex::of(b"policy object")),
        term: Term {
            epoch: Epoch(3),
            generation: Generation(7),
        },
        correlation: "corr-1".into(),
        retention_ms: 1_600_000,
        declared: std::collections::BTreeSet::new(),
    }
}

/// The registration of a task.
fn birth(key: &TaskKey, owner: Owner) -> Transaction {
    birth_at(key, owner, BORN)
}

fn birth_at(key: &TaskKey, owner: Owner, now: u64) -> Transaction {
    let command = Command::Register {
        birth: Box::new(mk_birth(owner)),
        snapshot: mk_snapshot(key, Status::Working),
    };
    transaction(key, None, command, now).unwrap()
}

/// A poll that says this.
fn poll(entry: &Entry, status: Status) -> Transaction {
    let began = Millis(BORN);
    let snapshot = mk_snapshot(&entry.key, status);
    let command = Command::Sync { snapshot, began };
    transaction(&entry.key, Some(entry), command, BORN).unwrap()
}

fn transaction(
    key: &TaskKey,
    entry: Option<&Entry>,
    command: Command,
    now: u64,
) -> Option<Transaction> {
    let decision: Decision = decide(key, entry, vec![command], Millis(now)).unwrap();
    Transaction::of(key, entry, &decision)
}

async fn born(store: &SqliteStore, task: &str, owner: Owner) -> Entry {
    let key = mk_key(task);
    store.commit(birth(&key, owner)).await.unwrap();
    store.get(&key).await.unwrap().unwrap()
}

async fn lines(store: &SqliteStore) -> Vec<Vec<u8>> {
    let events = store.events(0, usize::MAX).await.unwrap();
    events.into_iter().map(|(_, line)| line).collect()
}

/// Until a value is reached; the bound only ends a test that fails.
async fn until(what: &str, reached: impl AsyncFn() -> bool) {
    let start = Instant::now();
    while !reached().await {
        assert!(start.elapsed() < Duration::from_secs(30), "never: {what}");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn what_is_committed_is_there_after_reopening() {
    let (folder, store) = mk_store();
    let entry = born(&store, "t1", mk_owner("acme", "alice")).await;
    store.commit(poll(&entry, Status::Completed)).await.unwrap();
    let scope = PinScope {
        class: "hangar".into(),
        namespace: "tools".into(),
        name: "reports".into(),
    };
    let contract = Contract {
        tool: "crawl".into(),
        digest: ToolDigest(Sha256Hex::of(b"first")),
        canonical: b"{}".to_vec(),
    };
    let sight = Sight {
        scope: scope.clone(),
        revision: 0,
        contracts: vec![contract],
        new_tools: NewTools::Withhold,
    };
    let pins = store.sight(sight).await.unwrap();
    assert_eq!(pins.pinned.len(), 1);
    drop(store);
    let store = open(folder.path());
    let entry = store.get(&mk_key("t1")).await.unwrap().unwrap();
    assert_eq!(entry.status(), Status::Completed);
    assert_eq!(
        store.version(&mk_key("t1")).await.unwrap(),
        Some(entry.version)
    );
    assert_eq!(store.version(&mk_key("t2")).await.unwrap(), None);
    let lines = lines(&store).await;
    let summary = verify(lines.iter().map(Vec::as_slice)).unwrap();
    assert_eq!((summary.events, summary.live), (2, 0));
    assert_eq!(store.pins(&scope).await.unwrap(), pins);
}

#[tokio::test]
async fn a_decision_on_an_entry_that_moved_is_refused_whole() {
    let (_folder, store) = mk_store();
    let key = mk_key("t1");
    let owner = mk_owner("acme", "alice");
    let entry = born(&store, "t1", owner.clone()).await;
    let twice = store.commit(birth(&key, owner)).await.unwrap_err();
    assert_eq!(twice.reason(), "conflict");
    // Two polls see two ends of one task.
    let (first, second) = tokio::join!(
        store.commit(poll(&entry, Status::Completed)),
        store.commit(poll(&entry, Status::Cancelled)),
    );
    first.unwrap();
    assert_eq!(second.unwrap_err().reason(), "conflict");
    assert_eq!(lines(&store).await.len(), 2);
    let gone = Transaction {
        key: mk_key("absent"),
        ..poll(&entry, Status::Completed)
    };
    assert_eq!(store.commit(gone).await.unwrap_err().reason(), "conflict");
}

#[tokio::test]
async fn a_refused_decision_does_not_sink_its_batch() {
    let (folder, store) = mk_store();
    let owner = mk_owner("acme", "alice");
    // While another process holds the lock, the commits pile up behind the first.
    let other = rusqlite::Connection::open(folder.path().join("ledger.db")).unwrap();
    other.execute_batch("begin immediate").unwrap();
    let names = ["t1", "t2", "t3", "t2", "t4"];
    let waiting: Vec<_> = names
        .iter()
        .map(|task| store.commit(birth(&mk_key(task), owner.clone())))
        .collect();
    other.execute_batch("rollback").unwrap();
    let mut answers = Vec::new();
    for answer in waiting {
        answers.push(answer.await.map_err(|error| error.reason()));
    }
    assert_eq!(answers, [Ok(()), Ok(()), Ok(()), Err("conflict"), Ok(())]);
    assert_eq!(lines(&store).await.len(), 4);
    assert_eq!(store.live_of(Some(&mk_tenant("acme"))).await.unwrap(), 4);
}

#[tokio::test]
async fn a_quota_is_exact_under_concurrent_registrations() {
    let (_folder, store) = mk_store();
    let owner = mk_owner("acme", "alice");
    let waiting: Vec<_> = (0..20)
        .map(|n| birth(&mk_key(&format!("t{n}")), owner.clone()).with_quota(5))
        .map(|transaction| store.commit(transaction))
        .collect();
    let mut refused = 0;
    for answer in waiting {
        match answer.await {
            Ok(()) => {}
            Err(Error::Quota { live }) => {
                assert_eq!(live, 5);
                refused += 1;
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(refused, 15);
    // Nobody else is affected, and an end makes room for one.
    let other = birth(&mk_key("other"), mk_owner("globex", "alice")).with_quota(5);
    store.commit(other).await.unwrap();
    let entry = store.get(&mk_key("t0")).await.unwrap().unwrap();
    store.commit(poll(&entry, Status::Completed)).await.unwrap();
    let more = |task| birth(&mk_key(task), owner.clone()).with_quota(5);
    store.commit(more("u1")).await.unwrap();
    let refused = store.commit(more("u2")).await.unwrap_err();
    assert_eq!(refused.reason(), "quota");
}

#[tokio::test]
async fn entries_are_counted_by_status_and_tenant() {
    let (_folder, store) = mk_store();
    for task in ["t1", "t2", "t3"] {
        born(&store, task, mk_owner("acme", "alice")).await;
    }
    born(&store, "t4", Owner::anonymous()).await;
    let asking = store.get(&mk_key("t1")).await.unwrap().unwrap();
    store
        .commit(poll(&asking, Status::InputRequired))
        .await
        .unwrap();
    let done = store.get(&mk_key("t2")).await.unwrap().unwrap();
    store.commit(poll(&done, Status::Failed)).await.unwrap();
    let live = store.live().await.unwrap();
    let expected = [(Status::Working, 2), (Status::InputRequired, 1)];
    assert_eq!(live, expected.into());
    assert_eq!(store.live_of(Some(&mk_tenant("acme"))).await.unwrap(), 2);
    assert_eq!(store.live_of(None).await.unwrap(), 1);
    assert_eq!(store.live_of(Some(&mk_tenant("globex"))).await.unwrap(), 0);
}

#[tokio::test]
async fn due_entries_come_the_oldest_first() {
    let (_folder, store) = mk_store();
    for (n, task) in ["t3", "t1", "t2"].into_iter().enumerate() {
        let key = mk_key(task);
        let mut birth = birth(&key, mk_owner("acme", "alice"));
        let Write::Put(entry) = &mut birth.write else {
            panic!("a birth puts an entry");
        };
        entry.birth.retention_ms = 1600 * (n as u64 + 1);
        store.commit(birth).await.unwrap();
    }
    born(&store, "other", mk_owner("globex", "alice")).await;
    let step = 1600 + 1600 / 16;
    let due = async |whose: &Whose, after: u64, limit| {
        let keys = store.due(whose, Millis(BORN + after), limit).await.unwrap();
        let tasks = keys.into_iter().map(|key| key.task.to_string());
        tasks.collect::<Vec<_>>()
    };
    let acme = Whose::Live(Some(mk_tenant("acme")));
    assert_eq!(due(&Whose::All, step - 1, 9).await, Vec::<String>::new());
    assert_eq!(due(&Whose::All, step, 9).await, ["t3"]);
    assert_eq!(due(&acme, 3 * step, 9).await, ["t3", "t1", "t2"]);
    assert_eq!(due(&acme, 3 * step, 2).await, ["t3", "t1"]);
    assert_eq!(due(&Whose::All, 10_000_000, 9).await.len(), 4);
    assert_eq!(
        due(&Whose::Live(None), 10_000_000, 9).await,
        Vec::<String>::new()
    );
    // An evicted entry is due again when it is purged, and counts for no quota meanwhile.
    let entry = store.get(&mk_key("t3")).await.unwrap().unwrap();
    let evicted = transaction(&entry.key, Some(&entry), Command::Due, BORN + step).unwrap();
    store.commit(evicted).await.unwrap();
    assert_eq!(due(&acme, 3 * step, 9).await, ["t1", "t2"]);
    let entry = store.get(&entry.key).await.unwrap().unwrap();
    let later = BORN + step + 1600;
    let purged = transaction(&entry.key, Some(&entry), Command::Due, later).unwrap();
    store.commit(purged).await.unwrap();
    assert_eq!(store.get(&entry.key).await.unwrap(), None);
    assert_eq!(store.live_of(Some(&mk_tenant("acme"))).await.unwrap(), 2);
}

#[tokio::test]
async fn a_write_behind_arrives_and_never_undoes_a_commit() {
    let (folder, store) = mk_store();
    let entry = born(&store, "t1", mk_owner("acme", "alice")).await;
    let hint = |entry: &Entry, interval| {
        let mut snapshot = mk_snapshot(&entry.key, entry.snapshot.status);
        snapshot.poll_interval_ms = Some(interval);
        let began = Millis(BORN);
        let command = Command::Sync { snapshot, began };
        transaction(&entry.key, Some(entry), command, BORN).unwrap()
    };
    store.write_behind(hint(&entry, 7));
    let interval = async || {
        let entry = store.get(&mk_key("t1")).await.unwrap().unwrap();
        entry.snapshot.poll_interval_ms
    };
    until("the hint is written", async || interval().await == Some(7)).await;
    store
        .commit(poll(&entry, Status::InputRequired))
        .await
        .unwrap();
    store.write_behind(hint(&entry, 9));
    // A commit later in the queue shows that the writer went past it.
    born(&store, "t2", mk_owner("acme", "alice")).await;
    assert_eq!(interval().await, Some(500));
    let entry = store.get(&mk_key("t1")).await.unwrap().unwrap();
    assert_eq!(entry.status(), Status::InputRequired);
    // What still waits is written when the store closes.
    store.write_behind(hint(&entry, 11));
    drop(store);
    let store = open(folder.path());
    let entry = store.get(&mk_key("t1")).await.unwrap().unwrap();
    assert_eq!(entry.snapshot.poll_interval_ms, Some(11));
}

#[tokio::test]
async fn a_reader_beside_the_store_sees_what_is_committed() {
    let (folder, store) = mk_store();
    let reader = Reader::open(&folder.path().join("ledger.db")).unwrap();
    assert_eq!(reader.events(0, 9).unwrap(), []);
    born(&store, "t1", mk_owner("acme", "alice")).await;
    born(&store, "t2", mk_owner("acme", "alice")).await;
    let events = reader.events(0, 9).unwrap();
    assert_eq!(events, store.events(0, 9).await.unwrap());
    let numbers: Vec<_> = events.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, [1, 2]);
    assert_eq!(reader.events(1, 9).unwrap(), events[1..]);
    assert_eq!(reader.events(0, 1).unwrap(), events[..1]);
    let absent = Reader::open(&folder.path().join("absent.db")).unwrap_err();
    assert_eq!(absent.reason(), "cannot_open");
}

#[tokio::test]
async fn a_newer_schema_is_refused() {
    let (folder, store) = mk_store();
    drop(store);
    let path = folder.path().join("ledger.db");
    let newer = rusqlite::Connection::open(&path).unwrap();
    newer.pragma_update(None, "user_version", 99).unwrap();
    drop(newer);
    let options = Options {
        path: path.clone(),
        clock: clock(),
    };
    let refused = SqliteStore::open(options).unwrap_err();
    assert_eq!(refused.reason(), "newer");
    assert_eq!(
        refused.to_string(),
        "store schema 99 is newer than this binary's 2"
    );
    assert_eq!(Reader::open(&path).unwrap_err().reason(), "newer");
}

#[tokio::test]
async fn the_file_is_durable_by_its_settings() {
    let (_folder, store) = mk_store();
    let connection = schema::open(&store.options.path).unwrap();
    let pragma = |name| -> String {
        let read = |row: &rusqlite::Row<'_>| row.get::<_, rusqlite::types::Value>(0);
        let value = connection.pragma_query_value(None, name, read).unwrap();
        format!("{value:?}")
    };
    assert_eq!(pragma("journal_mode"), r#"Text("wal")"#);
    assert_eq!(pragma("synchronous"), "Integer(2)");
    assert_eq!(pragma("journal_size_limit"), "Integer(67108864)");
}

#[tokio::test]
async fn time_never_goes_back() {
    let folder = tempfile::tempdir().unwrap();
    let ticks = Arc::new(AtomicU64::new(BORN));
    let source = Arc::clone(&ticks);
    let store = SqliteStore::open(Options {
        path: folder.path().join("ledger.db"),
        clock: Arc::new(move || Millis(source.load(Ordering::Relaxed))),
    })
    .unwrap();
    assert_eq!(store.now(), Millis(BORN));
    ticks.store(BORN + 5, Ordering::Relaxed);
    assert_eq!(store.now(), Millis(BORN + 5));
    ticks.store(BORN - 5, Ordering::Relaxed);
    assert_eq!(store.now(), Millis(BORN + 5));
}
