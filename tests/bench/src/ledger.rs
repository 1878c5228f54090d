//! What a look at the ledger takes, with many live entries in it, idle and beside a writer.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use hangar_ledger::{
    Birth, Command as Decide, Millis, Owner, Principal, Snapshot, Status, TaskId, TaskKey,
    TenantRef, ToolDigest, UpstreamUid,
};
use hangar_store::{Options, Scope, SqliteStore, Store as _, Transaction};
use hangar_wire::{Epoch, Generation, ObjectDigest, Sha256Hex, Term};
use tokio::task::JoinSet;

use crate::procfs;

/// Whose entry is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    Own,
    /// Of another principal of the tenant.
    Foreign,
    Absent,
}

/// A store in a folder, filled by a process of its own so that this one's memory is that of a reader.
struct Ledger {
    store: Arc<SqliteStore>,
    uid: UpstreamUid,
}

/// Looks of each kind, in turns.
const LOOKS: u64 = 100_000;
/// Commits that wait at once while it is filled and written to beside.
const WIDTH: u64 = 256;
const NOW: u64 = 1_790_000_000_000;

/// Prints a line for each kind of look, idle and beside a writer, and what the entries cost in memory.
pub(crate) async fn measure(entries: u64) -> Result<String> {
    let folder = tempfile::tempdir()?;
    let (empty, full) = (
        folder.path().join("empty.db"),
        folder.path().join("full.db"),
    );
    let mut out = String::from("look                  p50 us    p99 us\n");
    let ledger = Ledger::open(&empty)?;
    ledger.looks(1000).await?;
    let before = procfs::resident_bytes(std::process::id())?;
    let status = Command::new(std::env::current_exe()?)
        .args(["--fill", &entries.to_string(), "--at"])
        .arg(&full)
        .status()?;
    ensure!(status.success(), "the ledger could not be filled");
    let ledger = Ledger::open(&full)?;
    ledger.report(&mut out, "idle", entries).await?;
    let after = procfs::resident_bytes(std::process::id())?;
    let stop = Arc::new(AtomicBool::new(false));
    let writer = tokio::spawn(write(Arc::clone(&ledger.store), Arc::clone(&stop), entries));
    let began = Instant::now();
    ledger.report(&mut out, "beside a writer", entries).await?;
    stop.store(true, Ordering::Relaxed);
    let written = writer.await??;
    writeln!(
        out,
        "\n{entries} live entries: {} MiB resident, {} MiB with an empty ledger; {:.0} births/s beside",
        after >> 20,
        before >> 20,
        count(written) / began.elapsed().as_secs_f64(),
    )?;
    Ok(out)
}

/// Makes so many live tasks.
pub(crate) async fn fill(entries: u64, at: &Path) -> Result<()> {
    let store = Arc::new(SqliteStore::open(options(at))?);
    let mut waiting = JoinSet::new();
    for n in 0..entries {
        if count_of(&waiting) >= WIDTH {
            waiting.join_next().await.context("nothing waits")???;
        }
        let (store, birth) = (Arc::clone(&store), birth(n)?);
        waiting.spawn(async move { store.commit(birth).await });
    }
    while let Some(committed) = waiting.join_next().await {
        committed??;
    }
    Ok(())
}

/// Goes on with births until it is told to stop; how many there were.
async fn write(store: Arc<SqliteStore>, stop: Arc<AtomicBool>, from: u64) -> Result<u64> {
    let next = Arc::new(AtomicU64::new(2 * from));
    let mut workers = JoinSet::new();
    for _ in 0..16 {
        let (store, stop, next) = (Arc::clone(&store), Arc::clone(&stop), Arc::clone(&next));
        workers.spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                let birth = birth(next.fetch_add(1, Ordering::Relaxed))?;
                store.commit(birth).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(ended) = workers.join_next().await {
        ended??;
    }
    Ok(next.load(Ordering::Relaxed) - 2 * from)
}

fn birth(n: u64) -> Result<Transaction> {
    let key = TaskKey::new(uid(), task(n)?);
    let time = "2026-12-01T06:00:00Z";
    let command = Decide::Register {
        birth: Box::new(Birth {
            owner: owner("alice"),
            upstream: "tools/reports".into(),
            tool: "crawl".into(),
            digest: ToolDigest(Sha256Hex::of(b"contract")),
            upstream_object: ObjectDigest(Sha256Hex::of(b"upstream")),
            policy_object: ObjectDigest(Sha256Hex::of(b"policy")),
            term: Term {
                epoch: Epoch(1),
                generation: Generation(1),
            },
            correlation: "01939b5e-0000-7000-8000-000000000000".into(),
            retention_ms: 86_400_000,
            declared: std::collections::BTreeSet::new(),
        }),
        snapshot: Snapshot {
            task_id: key.task.clone(),
            status: Status::Working,
            created_at: time.to_owned().try_into()?,
            last_updated_at: time.to_owned().try_into()?,
            ttl_ms: None,
            poll_interval_ms: Some(1000),
        },
    };
    let decision = hangar_ledger::decide(&key, None, vec![command], Millis(NOW))
        .map_err(|refusal| anyhow::anyhow!("refused: {}", refusal.reason()))?;
    Transaction::of(&key, None, &decision).context("a birth is a commit")
}

/// Ids like any upstream's, whose order says nothing.
fn task(n: u64) -> Result<TaskId> {
    let digits = hangar_wire::hex(&Sha256Hex::of(&n.to_le_bytes()).as_bytes()[..16]);
    Ok(TaskId::try_from(digits)?)
}

fn owner(principal: &str) -> Owner {
    let tenant = TenantRef {
        namespace: "hangar".into(),
        tenant: "acme".into(),
    };
    Owner::new(tenant, Some(Principal::api_key(principal)))
}

fn uid() -> UpstreamUid {
    UpstreamUid("1f0c7b0e-6a55-4f0e-9f3e-0d7e4f5f2c11".into())
}

fn options(at: &Path) -> Options {
    Options {
        path: PathBuf::from(at),
        clock: Arc::new(|| Millis(NOW)),
    }
}

fn count_of<T>(set: &JoinSet<T>) -> u64 {
    set.len() as u64
}

#[allow(clippy::cast_precision_loss)] // a count of a benchmark is far below 2^52
fn count(n: u64) -> f64 {
    n as f64
}

// === impl Ledger ===

impl Ledger {
    fn open(at: &Path) -> Result<Self> {
        Ok(Self {
            store: Arc::new(SqliteStore::open(options(at))?),
            uid: uid(),
        })
    }

    /// Looks that come to nothing, so that code and connections are there.
    async fn looks(&self, most: u64) -> Result<()> {
        for n in 0..most {
            ensure!(self.look(Whose::Own, n).await?.is_none(), "not empty");
        }
        Ok(())
    }

    async fn report(&self, out: &mut String, when: &str, entries: u64) -> Result<()> {
        let kinds = [Whose::Own, Whose::Foreign, Whose::Absent];
        let mut times = kinds.map(|_| Vec::new());
        // Far apart, so that no look finds the pages of the one before.
        let step = 7_368_787;
        for n in 0..LOOKS {
            for (kind, times) in kinds.into_iter().zip(&mut times) {
                let at = n.wrapping_mul(step) % entries;
                let at = if kind == Whose::Absent {
                    entries + at
                } else {
                    at
                };
                let began = Instant::now();
                let found = self.look(kind, at).await?;
                times.push(began.elapsed());
                ensure!(found.is_some() == (kind == Whose::Own), "{kind:?} {at}");
            }
        }
        for (kind, mut times) in kinds.into_iter().zip(times) {
            times.sort_unstable();
            let micros = |part: usize| times[times.len() * part / 100].as_secs_f64() * 1e6;
            let name = format!("{kind:?}, {when}").to_lowercase();
            writeln!(out, "{name:<24} {:>5.1} {:>9.1}", micros(50), micros(99))?;
        }
        Ok(())
    }

    async fn look(&self, whose: Whose, n: u64) -> Result<Option<hangar_ledger::Entry>> {
        let owner = match whose {
            Whose::Own | Whose::Absent => owner("alice"),
            Whose::Foreign => owner("bob"),
        };
        let (scope, task) = (Scope::Owner(owner), task(n)?);
        Ok(self.store.lookup(&scope, &self.uid, &task).await?)
    }
}
