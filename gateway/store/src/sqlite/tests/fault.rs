//! A store that cannot commit: closed, told, and back by itself.

use std::process::Command as Process;

use rusqlite::ffi;

use super::*;

/// A small file system in memory; unmounted when it goes.
struct Small {
    folder: TempDir,
}

// === impl Small ===

impl Small {
    /// None for a user who may mount nothing. For root a mount that fails is a failed test: a
    /// promise that is silently not tested is not kept.
    fn mount() -> Option<Self> {
        use std::os::unix::fs::MetadataExt as _;
        let folder = tempfile::tempdir().unwrap();
        if folder.path().metadata().unwrap().uid() != 0 {
            return None;
        }
        let output = Process::new("mount")
            .args(["-t", "tmpfs", "-o", "size=4m", "hangar-store-test"])
            .arg(folder.path())
            .output()
            .expect("the program `mount` is there");
        assert!(
            output.status.success(),
            "root cannot mount a tmpfs, so a full disk is not tested: give the container \
             CAP_SYS_ADMIN, or run the tests as another user to skip this one: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        Some(Self { folder })
    }

    /// Takes all the room that is left.
    fn fill(&self) {
        use std::io::Write as _;
        let mut filler = std::fs::File::create(self.filler()).unwrap();
        for piece in [64 << 10, 4 << 10, 1] {
            while filler.write_all(&vec![0; piece]).is_ok() {}
        }
    }

    fn free(&self) {
        std::fs::remove_file(self.filler()).unwrap();
    }

    fn filler(&self) -> PathBuf {
        self.folder.path().join("filler")
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let unmounted = Process::new("umount").arg(self.folder.path()).status();
        assert!(
            unmounted.is_ok_and(|status| status.success()),
            "still mounted"
        );
    }
}

fn reason(health: Health) -> Option<&'static str> {
    match health {
        Health::Ok => None,
        Health::Degraded { since, reason } => {
            assert_eq!(since, Millis(BORN));
            Some(reason)
        }
    }
}

#[tokio::test]
async fn case_18_a_full_disk_fails_closed_and_recovers_by_itself() {
    let Some(small) = Small::mount() else {
        println!(
            "SKIPPED: case_18_a_full_disk_fails_closed_and_recovers_by_itself mounts, run it as root"
        );
        return;
    };
    let store = open(small.folder.path());
    let owner = mk_owner("acme", "alice");
    born(&store, "before", owner.clone()).await;
    small.fill();
    // The log may still hold some frames it has room for: what is acknowledged must stay.
    let mut kept = 1;
    let (lost, refused) = loop {
        let task = format!("t{kept}");
        match store.commit(birth(&mk_key(&task), owner.clone())).await {
            Ok(()) => kept += 1,
            Err(error) => break (task, error),
        }
    };
    assert_eq!(refused.reason(), "unavailable");
    assert!(reason(store.health()).is_some());
    assert_eq!(store.get(&mk_key(&lost)).await.unwrap(), None);
    // Reads go on, commits stay closed.
    assert!(store.get(&mk_key("before")).await.unwrap().is_some());
    let refused = store.commit(birth(&mk_key("closed"), owner.clone())).await;
    assert_eq!(refused.unwrap_err().reason(), "unavailable");
    small.free();
    until("the store recovers", async || store.health() == Health::Ok).await;
    born(&store, "after", owner.clone()).await;
    assert_eq!(lines(&store).await.len(), kept + 1);
    // Nothing of what was refused comes back.
    drop(store);
    let store = open(small.folder.path());
    assert_eq!(store.get(&mk_key(&lost)).await.unwrap(), None);
    assert_eq!(store.get(&mk_key("closed")).await.unwrap(), None);
    let live = store.live_of(Some(&mk_tenant("acme"))).await.unwrap();
    assert_eq!(live, kept as u64 + 1);
    let lines = lines(&store).await;
    verify(lines.iter().map(Vec::as_slice)).unwrap();
}

#[tokio::test]
async fn case_18_a_failed_batch_is_refused_whole_and_never_tried_again() {
    let (folder, store) = mk_store();
    let owner = mk_owner("acme", "alice");
    let other = rusqlite::Connection::open(folder.path().join("ledger.db")).unwrap();
    let broken = "alter table event rename to event_x; alter table probe rename to probe_x";
    other.execute_batch(broken).unwrap();
    let waiting: Vec<_> = (0..50)
        .map(|n| store.commit(birth(&mk_key(&format!("t{n}")), owner.clone())))
        .collect();
    for answer in waiting {
        assert_eq!(answer.await.unwrap_err().reason(), "unavailable");
    }
    assert_eq!(reason(store.health()), Some("sqlite"));
    let sight = Sight {
        scope: PinScope {
            class: "hangar".into(),
            namespace: "tools".into(),
            name: "reports".into(),
        },
        revision: 0,
        contracts: Vec::new(),
        new_tools: NewTools::Serve,
    };
    let refused = store.sight(sight).await.unwrap_err();
    assert_eq!(refused.reason(), "unavailable");
    let present = Present {
        class: "hangar".into(),
        upstreams: std::collections::BTreeSet::new(),
        keep_ms: 0,
    };
    let refused = store.retain_pins(present).await.unwrap_err();
    assert_eq!(refused.reason(), "unavailable");
    let mended = "alter table event_x rename to event; alter table probe_x rename to probe";
    other.execute_batch(mended).unwrap();
    until("the store recovers", async || store.health() == Health::Ok).await;
    assert_eq!(store.live().await.unwrap(), BTreeMap::new());
    assert_eq!(lines(&store).await, Vec::<Vec<u8>>::new());
    born(&store, "after", owner).await;
}

/// The file is verified after a failure, which takes long where it is large: callers are told no
/// meanwhile, and do not hang. The probe at the end of it asks for the time, and waits here.
#[tokio::test]
async fn callers_do_not_wait_while_the_file_is_verified() {
    let folder = tempfile::tempdir().unwrap();
    let (reached, at_probe) = std::sync::mpsc::sync_channel(1);
    let (open_gate, gate) = std::sync::mpsc::sync_channel(1);
    let gate = std::sync::Mutex::new(gate);
    let asked = AtomicU64::new(0);
    let store = SqliteStore::open(Options {
        path: folder.path().join("ledger.db"),
        clock: Arc::new(move || {
            // First for the start of the outage, then for the probe.
            if asked.fetch_add(1, Ordering::Relaxed) == 1 {
                reached.send(()).unwrap();
                gate.lock().unwrap().recv().unwrap();
            }
            Millis(BORN)
        }),
    })
    .unwrap();
    let owner = mk_owner("acme", "alice");
    let other = rusqlite::Connection::open(folder.path().join("ledger.db")).unwrap();
    let rename = |from: &str, to: &str| {
        let text = format!("alter table {from} rename to {to}");
        other.execute_batch(&text).unwrap();
    };
    rename("event", "event_x");
    let failed = store.commit(birth(&mk_key("t1"), owner.clone())).await;
    assert_eq!(failed.unwrap_err().reason(), "unavailable");
    rename("event_x", "event");
    let bound = Duration::from_secs(30);
    at_probe.recv_timeout(bound).expect("an attempt was made");
    for n in 0..50 {
        let commit = store.commit(birth(&mk_key(&format!("u{n}")), owner.clone()));
        let refused = tokio::time::timeout(bound, commit).await;
        assert_eq!(refused.expect("hangs").unwrap_err().reason(), "unavailable");
    }
    assert_eq!(reason(store.health()), Some("sqlite"));
    open_gate.send(()).unwrap();
    until("the store recovers", async || store.health() == Health::Ok).await;
    born(&store, "after", owner).await;
    assert_eq!(lines(&store).await.len(), 1);
}

/// A hint that the file refuses used to fail the commits beside it, and to close the store.
#[tokio::test]
async fn a_refused_write_behind_sinks_nothing() {
    let (folder, store) = mk_store();
    let owner = mk_owner("acme", "alice");
    let other = rusqlite::Connection::open(folder.path().join("ledger.db")).unwrap();
    let bad = born(&store, "bad", owner.clone()).await;
    let good = born(&store, "good", owner.clone()).await;
    let refuse = "create trigger refuse before update on entry when old.task = 'bad'
        begin select raise(abort, 'no'); end";
    other.execute_batch(refuse).unwrap();
    // Both wait behind a lock, so that they come into one batch with the commit.
    other.execute_batch("begin immediate").unwrap();
    let hint = |entry: &Entry| {
        let mut snapshot = mk_snapshot(&entry.key, Status::Working);
        snapshot.poll_interval_ms = Some(7);
        let began = Millis(BORN);
        let command = Command::Sync { snapshot, began };
        transaction(&entry.key, Some(entry), command, BORN).unwrap()
    };
    store.write_behind(hint(&bad));
    store.write_behind(hint(&good));
    let commit = store.commit(birth(&mk_key("beside"), owner));
    other.execute_batch("rollback").unwrap();
    commit.await.unwrap();
    assert_eq!(store.health(), Health::Ok);
    let interval = async |task| {
        let entry = store.get(&mk_key(task)).await.unwrap().unwrap();
        entry.snapshot.poll_interval_ms
    };
    until("the other hint is written", async || {
        interval("good").await == Some(7)
    })
    .await;
    assert_eq!(interval("bad").await, Some(500));
}

#[tokio::test]
async fn a_record_of_a_newer_binary_is_refused_and_not_taken_for_absent() {
    let (folder, store) = mk_store();
    born(&store, "t1", mk_owner("acme", "alice")).await;
    let other = rusqlite::Connection::open(folder.path().join("ledger.db")).unwrap();
    let newer = br#"{"entry":{},"format":2}"#.to_vec();
    other
        .execute("update entry set body = ?1", [newer])
        .unwrap();
    let refused = store.get(&mk_key("t1")).await.unwrap_err();
    assert_eq!(refused.reason(), "record");
}

#[tokio::test]
async fn causes_are_closed_words() {
    let code = |code| {
        let error = rusqlite::ffi::Error::new(code);
        Error::Sqlite(rusqlite::Error::SqliteFailure(error, None)).reason()
    };
    let table = [
        (ffi::SQLITE_FULL, "disk_full"),
        (ffi::SQLITE_IOERR, "io"),
        (ffi::SQLITE_CANTOPEN, "cannot_open"),
        (ffi::SQLITE_READONLY, "read_only"),
        (ffi::SQLITE_CORRUPT, "damaged"),
        (ffi::SQLITE_BUSY, "busy"),
        (ffi::SQLITE_ERROR, "sqlite"),
    ];
    for (number, word) in table {
        assert_eq!(code(number), word);
    }
    assert_eq!(
        Error::Sqlite(rusqlite::Error::InvalidQuery).reason(),
        "other"
    );
}
