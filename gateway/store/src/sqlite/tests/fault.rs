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
    /// None where mounting is not permitted.
    fn mount() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mounted = Process::new("mount")
            .args(["-t", "tmpfs", "-o", "size=4m", "hangar-store-test"])
            .arg(folder.path())
            .output()
            .is_ok_and(|output| output.status.success());
        mounted.then_some(Self { folder })
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
async fn a_full_disk_fails_closed_and_recovers_by_itself() {
    let Some(small) = Small::mount() else {
        println!("SKIPPED: mounting a small file system is not permitted here");
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
async fn a_failed_batch_is_refused_whole_and_never_tried_again() {
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
    let pin = PinKey {
        class: "hangar".into(),
        namespace: "tools".into(),
        name: "reports".into(),
        tool: "crawl".into(),
    };
    let digest = ToolDigest(Sha256Hex::of(b"contract"));
    let refused = store.pin_first(pin, digest, vec![]).await.unwrap_err();
    assert_eq!(refused.reason(), "unavailable");
    let mended = "alter table event_x rename to event; alter table probe_x rename to probe";
    other.execute_batch(mended).unwrap();
    until("the store recovers", async || store.health() == Health::Ok).await;
    assert_eq!(store.live().await.unwrap(), BTreeMap::new());
    assert_eq!(lines(&store).await, Vec::<Vec<u8>>::new());
    born(&store, "after", owner).await;
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
