//! Random transactions against a map that anybody can follow.

use hangar_ledger::{Detail, Event};
use proptest::prelude::*;

use super::*;

const TASKS: [&str; 3] = ["t1", "t2", "t3"];
const TENANTS: [&str; 2] = ["acme", "globex"];

#[derive(Clone, Debug)]
enum Step {
    Register {
        task: usize,
        tenant: usize,
        quota: u64,
    },
    Poll {
        task: usize,
        status: Status,
        stale: bool,
    },
    Purge {
        task: usize,
    },
    /// An earlier transaction comes again, as from a replica that did not hear of its end.
    Replay {
        which: prop::sample::Index,
    },
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    let task = 0..TASKS.len();
    let status = prop::sample::select(&Status::ALL[..]);
    prop_oneof![
        6 => (task.clone(), 0..TENANTS.len(), 0_u64..4)
            .prop_map(|(task, tenant, quota)| Step::Register { task, tenant, quota }),
        6 => (task.clone(), status, prop::bool::weighted(0.2))
            .prop_map(|(task, status, stale)| Step::Poll { task, status, stale }),
        2 => task.prop_map(|task| Step::Purge { task }),
        2 => any::<prop::sample::Index>().prop_map(|which| Step::Replay { which }),
        1 => Just(Step::Reopen),
    ]
}

/// Entries as a map, events as a list.
#[derive(Default)]
struct Model {
    /// Moves with each step: two tasks under one key are not born at one time, as the ledger assumes.
    clock: u64,
    entries: BTreeMap<TaskKey, Entry>,
    events: Vec<Vec<u8>>,
    /// The same events, read.
    chain: Vec<Event>,
    /// Everything that was tried.
    tried: Vec<Transaction>,
}

// === impl Model ===

impl Model {
    fn now(&self) -> u64 {
        BORN + self.clock
    }

    fn live(&self, tenant: &TenantRef) -> u64 {
        let of = |entry: &&Entry| entry.is_live() && entry.tenant() == Some(tenant);
        self.entries.values().filter(of).count() as u64
    }

    /// What the store must answer to this transaction.
    fn apply(&mut self, what: &Transaction) -> Result<(), &'static str> {
        let version = self.entries.get(&what.key).map(|entry| entry.version);
        let expected = match what.expected {
            Expected::Absent => None,
            Expected::Version(version) => Some(version),
        };
        if version != expected {
            return Err("conflict");
        }
        match &what.write {
            Write::Put(entry) => {
                let live = entry.tenant().map_or(0, |tenant| self.live(tenant));
                if what.quota.is_some_and(|most| live >= most) {
                    return Err("quota");
                }
                self.entries.insert(what.key.clone(), (**entry).clone());
            }
            Write::Delete => {
                self.entries.remove(&what.key);
                // No replica is as late as a whole retention.
                let is_birth =
                    |it: &Transaction| it.key == what.key && it.expected == Expected::Absent;
                self.tried.retain(|it| !is_birth(it));
            }
        }
        self.events.extend(what.events.iter().map(Event::line));
        self.chain.extend(what.events.iter().cloned());
        Ok(())
    }

    fn transaction(&self, step: &Step) -> Option<Transaction> {
        match *step {
            Step::Register {
                task,
                tenant,
                quota,
            } => {
                let owner = mk_owner(TENANTS[tenant], "alice");
                Some(birth_at(&mk_key(TASKS[task]), owner, self.now()).with_quota(quota))
            }
            Step::Poll {
                task,
                status,
                stale,
            } => {
                let mut entry = self.entries.get(&mk_key(TASKS[task]))?.clone();
                entry.version -= u64::from(stale);
                let began = Millis(self.now());
                let snapshot = mk_snapshot(&entry.key, status);
                let command = Command::Sync { snapshot, began };
                let decision = decide(&entry.key, Some(&entry), vec![command], began).ok()?;
                Transaction::of(&entry.key, Some(&entry), &decision)
            }
            Step::Purge { task } => {
                let entry = self.entries.get(&mk_key(TASKS[task]))?;
                let late = BORN * 2;
                transaction(&entry.key, Some(entry), Command::Due, late)
            }
            Step::Replay { which } => {
                let tried = (!self.tried.is_empty()).then(|| which.get(&self.tried));
                tried.cloned()
            }
            Step::Reopen => None,
        }
    }

    /// Live tasks of a tenant as the chain alone tells: births without an end.
    fn live_by_chain(&self, tenant: &TenantRef) -> usize {
        let of = |event: &&Event| event.owner.tenant.as_ref() == Some(tenant);
        let is_birth = |event: &&Event| event.detail == Detail::TaskCreated {};
        let is_end = |event: &&Event| event.detail.is_terminal();
        let count = |of_kind: &dyn Fn(&&Event) -> bool| {
            let of_tenant = self.chain.iter().filter(of);
            of_tenant.filter(of_kind).count()
        };
        count(&is_birth) - count(&is_end)
    }

    async fn check(&self, store: &SqliteStore) {
        for task in TASKS {
            let key = mk_key(task);
            let entry = store.get(&key).await.unwrap();
            assert_eq!(entry.as_ref(), self.entries.get(&key));
            for (tenant, principal) in [("acme", "alice"), ("acme", "bob"), ("globex", "alice")] {
                let owner = mk_owner(tenant, principal);
                let own = entry.clone().filter(|entry| entry.birth.owner == owner);
                let scope = Scope::Owner(owner);
                let seen = store.lookup(&scope, &key.upstream, &key.task).await;
                assert_eq!(seen.unwrap(), own, "{task} for {tenant}, {principal}");
            }
        }
        for name in TENANTS {
            let tenant = mk_tenant(name);
            let live = store.live_of(Some(&tenant)).await.unwrap();
            assert_eq!(live, self.live(&tenant));
            assert_eq!(live, self.live_by_chain(&tenant) as u64);
        }
        let mut live = BTreeMap::new();
        for entry in self.entries.values().filter(|entry| entry.is_live()) {
            *live.entry(entry.status()).or_insert(0) += 1;
        }
        let mut counted = store.live().await.unwrap();
        counted.retain(|_, entries| *entries > 0);
        assert_eq!(counted, live);
        assert_eq!(lines(store).await, self.events);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_store_is_a_map_and_a_list(steps in prop::collection::vec(step(), 1..30)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (folder, mut store) = mk_store();
            let mut model = Model::default();
            for step in &steps {
                model.clock += 1;
                if let Step::Reopen = step {
                    drop(store);
                    store = open(folder.path());
                } else if let Some(transaction) = model.transaction(step) {
                    let expected = model.apply(&transaction);
                    let (quota, key) = (transaction.quota, transaction.key.clone());
                    model.tried.push(transaction.clone());
                    let answer = store.commit(transaction).await;
                    assert_eq!(answer.map_err(|error| error.reason()), expected);
                    if let (Ok(()), Some(quota)) = (expected, quota) {
                        let tenant = model.entries[&key].tenant().cloned();
                        assert!(store.live_of(tenant.as_ref()).await.unwrap() <= quota);
                    }
                }
                model.check(&store).await;
            }
        });
    }
}
