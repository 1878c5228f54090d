//! Decisions that race with others for the same key.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use hangar_ledger::{
    Birth, Millis, Principal, Snapshot, Status, TenantRef, Timestamp, ToolDigest, UpstreamUid,
};
use hangar_store::{
    Fut, Health, Options, PinScope, Pins, Present, Reach, Scope, Sight, SqliteStore, Store,
};
use hangar_wire::{AddressRules, ObjectDigest, Sha256Hex, Term};
use std::collections::BTreeMap;

use super::*;
use crate::args::{Edge, Seconds, Size};
use crate::config::subscribe::Freshness;
use crate::config::{Config, Runtimes};
use crate::metrics::Metrics;

type Step = Box<dyn FnOnce() -> Transaction + Send>;

/// A store in which something happens right before the next commit, and entries that it cannot read.
#[derive(Debug)]
struct Racing {
    inner: SqliteStore,
    first: Mutex<Option<Racer>>,
    unreadable: Mutex<BTreeMap<TaskKey, fn() -> StoreError>>,
}

struct Racer(Step);

struct Rig {
    _dir: tempfile::TempDir,
    clock: Arc<AtomicU64>,
    racing: Arc<Racing>,
    governor: Governor,
}

const RETENTION: u64 = 1000;
/// Its time is over, and what is left of it is not gone yet.
const OVERDUE: u64 = RETENTION * 3 / 2;

impl std::fmt::Debug for Racer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Racer")
    }
}

impl Store for Racing {
    fn now(&self) -> Millis {
        self.inner.now()
    }

    fn lookup<'a>(
        &'a self,
        scope: &'a Scope,
        upstream: &'a UpstreamUid,
        task: &'a TaskId,
    ) -> Fut<'a, Option<Entry>> {
        self.inner.lookup(scope, upstream, task)
    }

    fn locate<'a>(&'a self, reach: &'a Reach, task: &'a TaskId) -> Fut<'a, Vec<Entry>> {
        self.inner.locate(reach, task)
    }

    fn own<'a>(&'a self, caller: &'a Owner, task: &'a TaskId) -> Fut<'a, Vec<Entry>> {
        self.inner.own(caller, task)
    }

    fn get<'a>(&'a self, key: &'a TaskKey) -> Fut<'a, Option<Entry>> {
        if let Some(error) = self.unreadable.lock().unwrap().get(key) {
            return Box::pin(std::future::ready(Err(error())));
        }
        self.inner.get(key)
    }

    fn version<'a>(&'a self, key: &'a TaskKey) -> Fut<'a, Option<u64>> {
        self.inner.version(key)
    }

    fn commit(&self, transaction: Transaction) -> Fut<'_, ()> {
        let first = self.first.lock().unwrap().take();
        Box::pin(async move {
            if let Some(Racer(step)) = first {
                self.inner.commit(step()).await?;
            }
            self.inner.commit(transaction).await
        })
    }

    fn write_behind(&self, transaction: Transaction) {
        self.inner.write_behind(transaction);
    }

    fn due<'a>(&'a self, whose: &'a Whose, now: Millis, limit: usize) -> Fut<'a, Vec<TaskKey>> {
        self.inner.due(whose, now, limit)
    }

    fn live(&self) -> Fut<'_, BTreeMap<Status, u64>> {
        self.inner.live()
    }

    fn live_of<'a>(&'a self, tenant: Option<&'a TenantRef>) -> Fut<'a, u64> {
        self.inner.live_of(tenant)
    }

    fn pins<'a>(&'a self, scope: &'a PinScope) -> Fut<'a, Pins> {
        self.inner.pins(scope)
    }

    fn pin_revision(&self) -> Fut<'_, u64> {
        self.inner.pin_revision()
    }

    fn sight(&self, sight: Sight) -> Fut<'_, Pins> {
        self.inner.sight(sight)
    }

    fn retain_pins(&self, present: Present) -> Fut<'_, ()> {
        self.inner.retain_pins(present)
    }

    fn events(&self, after: u64, limit: usize) -> Fut<'_, Vec<(u64, Vec<u8>)>> {
        self.inner.events(after, limit)
    }

    fn health(&self) -> Health {
        self.inner.health()
    }
}

fn mk_rig() -> Rig {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(AtomicU64::new(1_000_000));
    let told = Arc::clone(&clock);
    let inner = SqliteStore::open(Options {
        path: dir.path().join("ledger.db"),
        clock: Arc::new(move || Millis(told.load(Ordering::SeqCst))),
    })
    .unwrap();
    let racing = Arc::new(Racing {
        inner,
        first: Mutex::default(),
        unreadable: Mutex::default(),
    });
    let config = Arc::new(Config::default());
    let empty =
        hangar_wire::Snapshot::new(Term::default(), AddressRules::default(), vec![], vec![]);
    config
        .apply(empty.unwrap(), &mut Runtimes::default())
        .unwrap();
    let active = config.load().unwrap();
    let metrics = Arc::new(Metrics::new().unwrap());
    let store: Arc<dyn Store> = Arc::clone(&racing) as _;
    let freshness = Arc::new(Freshness::default());
    let edge = Edge {
        max_body: Size(1024),
        max_held: Size(1024),
        max_connections: 1,
        header_timeout: Seconds(Duration::from_secs(1)),
        body_timeout: Seconds(Duration::from_secs(1)),
        send_timeout: Seconds(Duration::from_secs(1)),
        stall_timeout: Seconds(Duration::from_secs(1)),
        listen_timeout: Seconds(Duration::from_secs(1)),
        drain_timeout: Seconds(Duration::from_secs(1)),
        require_task_name: false,
    };
    let gateway = Gateway::new(config, store, metrics, freshness, "hangar".into(), &edge);
    let governor = Governor {
        gateway: Arc::new(gateway),
        active,
        correlation: "c".into(),
    };
    Rig {
        _dir: dir,
        clock,
        racing,
        governor,
    }
}

fn mk_key() -> TaskKey {
    mk_key_of("t-1")
}

fn mk_key_of(task: &str) -> TaskKey {
    TaskKey::new(UpstreamUid("u-1".into()), task.parse().unwrap())
}

fn mk_snapshot(status: Status) -> Snapshot {
    let time = || Timestamp::try_from("2026-12-01T06:00:00Z".to_owned()).unwrap();
    Snapshot {
        task_id: mk_key().task,
        status,
        created_at: time(),
        last_updated_at: time(),
        ttl_ms: None,
        poll_interval_ms: None,
    }
}

fn mk_tenant() -> TenantRef {
    TenantRef {
        namespace: "hangar".into(),
        tenant: "acme".into(),
    }
}

fn mk_register(principal: &str) -> Command {
    let digest = Sha256Hex::of(b"x");
    Command::Register {
        birth: Box::new(Birth {
            owner: Owner::new(mk_tenant(), Some(Principal::api_key(principal))),
            upstream: "tools/reports".into(),
            tool: "crawl".into(),
            digest: ToolDigest(digest),
            upstream_object: ObjectDigest(digest),
            policy_object: ObjectDigest(digest),
            term: Term::default(),
            correlation: "c".into(),
            retention_ms: RETENTION,
            declared: std::collections::BTreeSet::new(),
        }),
        snapshot: mk_snapshot(Status::Working),
    }
}

impl Rig {
    async fn decide(&self, commands: Vec<Command>) -> Result<Decided, Undecided> {
        let before = self.racing.inner.get(&mk_key()).await.unwrap();
        self.governor.decide(&mk_key(), before, commands).await
    }

    /// What another replica or request would commit on what the store holds now.
    fn transaction(&self, before: Option<&Entry>, command: Command) -> Transaction {
        let now = self.racing.inner.now();
        let decision = hangar_ledger::decide(&mk_key(), before, vec![command], now);
        Transaction::of(&mk_key(), before, &decision.unwrap()).unwrap()
    }

    fn race(&self, steps: Transaction) {
        *self.racing.first.lock().unwrap() = Some(Racer(Box::new(move || steps)));
    }

    async fn born(&self, key: &TaskKey) {
        let mut register = mk_register("alice");
        if let Command::Register { snapshot, .. } = &mut register {
            snapshot.task_id = key.task.clone();
        }
        let born = self.governor.decide(key, None, vec![register]).await;
        assert!(born.unwrap().entry.is_some());
    }

    fn cannot_read(&self, key: &TaskKey, error: fn() -> StoreError) {
        let mut unreadable = self.racing.unreadable.lock().unwrap();
        unreadable.insert(key.clone(), error);
    }

    fn errors(&self, reason: &str) -> u64 {
        let errors = &self.governor.gateway.metrics.ledger_errors;
        errors.with_label_values(&[reason]).get()
    }

    /// A task of alice that ended so long ago that its id may be registered afresh.
    async fn forgotten(&self) -> Entry {
        self.decide(vec![mk_register("alice")]).await.unwrap();
        let snapshot = mk_snapshot(Status::Completed);
        let began = self.racing.inner.now();
        self.decide(vec![Command::Sync { snapshot, began }])
            .await
            .unwrap();
        self.clock.fetch_add(10 * RETENTION, Ordering::SeqCst);
        self.racing.inner.get(&mk_key()).await.unwrap().unwrap()
    }
}

#[tokio::test]
async fn a_registration_that_meets_a_purge_is_decided_afresh() {
    let rig = mk_rig();
    let forgotten = rig.forgotten().await;
    let purge = rig.transaction(Some(&forgotten), Command::Due);
    rig.race(purge);
    let decided = rig.decide(vec![mk_register("bob")]).await.unwrap();
    let entry = decided.entry.expect("a handle is given out for this");
    assert_eq!(entry.birth.owner.principal.unwrap().as_str(), "key:bob");
    assert!(rig.racing.inner.get(&mk_key()).await.unwrap().is_some());
}

#[tokio::test]
async fn of_two_registrations_of_one_id_one_is_refused() {
    let rig = mk_rig();
    let forgotten = rig.forgotten().await;
    let carol = rig.transaction(Some(&forgotten), mk_register("carol"));
    rig.race(carol);
    let refused = rig.decide(vec![mk_register("bob")]).await.unwrap_err();
    assert!(
        matches!(refused, Undecided::Refused(Refusal::Collision)),
        "{refused:?}"
    );
    let entry = rig.racing.inner.get(&mk_key()).await.unwrap().unwrap();
    assert_eq!(entry.birth.owner.principal.unwrap().as_str(), "key:carol");
}

#[tokio::test]
async fn news_of_a_task_that_made_room_for_another_change_nothing() {
    let rig = mk_rig();
    rig.decide(vec![mk_register("alice")]).await.unwrap();
    let before = rig.racing.inner.get(&mk_key()).await.unwrap().unwrap();
    rig.clock.fetch_add(100 * RETENTION, Ordering::SeqCst);
    rig.decide(vec![Command::Due]).await.unwrap();
    rig.clock.fetch_add(100 * RETENTION, Ordering::SeqCst);
    rig.decide(vec![mk_register("bob")]).await.unwrap();
    let late = Command::CancelRequested;
    let decided = rig
        .governor
        .decide(&mk_key(), Some(before), vec![late])
        .await
        .unwrap();
    assert!(decided.entry.is_none(), "alice's task is gone");
    let entry = rig.racing.inner.get(&mk_key()).await.unwrap().unwrap();
    assert!(entry.is_live() && entry.cancel_requested_at.is_none());
}

/// One due entry that could not be read failed every birth of its tenant, and let none of the entries
/// behind it be retired.
#[tokio::test]
async fn a_due_entry_that_cannot_be_read_stops_no_other() {
    let rig = mk_rig();
    let whose = Whose::Live(Some(mk_tenant()));
    let bad = PAGE + 1;
    for number in 0..=bad {
        rig.born(&mk_key_of(&format!("t-{number}"))).await;
        rig.clock.fetch_add(1, Ordering::SeqCst);
    }
    let last = mk_key_of(&format!("t-{bad}"));
    let record = || StoreError::Record(Entry::decode(b"{").unwrap_err());
    for number in 0..bad {
        rig.cannot_read(&mk_key_of(&format!("t-{number}")), record);
    }
    rig.clock.fetch_add(OVERDUE, Ordering::SeqCst);
    rig.governor.retire_due(&whose).await.unwrap();
    let retired = rig.racing.inner.get(&last).await.unwrap().unwrap();
    assert_eq!(retired.status(), Status::Failed);
    assert_eq!(rig.errors("record"), bad as u64);
    // What is still due is what cannot be read.
    let now = rig.racing.inner.now();
    let due = rig.racing.inner.due(&whose, now, 2 * bad).await.unwrap();
    assert_eq!(due.len(), bad);
}

#[tokio::test]
async fn a_store_that_cannot_be_read_retires_nothing_and_says_so() {
    let rig = mk_rig();
    rig.born(&mk_key()).await;
    rig.cannot_read(&mk_key(), || StoreError::Damaged);
    rig.clock.fetch_add(OVERDUE, Ordering::SeqCst);
    let whose = Whose::Live(Some(mk_tenant()));
    let failed = rig.governor.retire_due(&whose).await.unwrap_err();
    assert!(
        matches!(failed, Undecided::Store(StoreError::Damaged)),
        "{failed:?}"
    );
    assert_eq!((rig.errors("damaged"), rig.errors("record")), (1, 0));
}
