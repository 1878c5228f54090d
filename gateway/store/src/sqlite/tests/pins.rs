//! Pins: the first sight, what comes later, and what forgets them.

use std::collections::BTreeSet;

use hangar_wire::NewTools;

use super::*;
use crate::{Contract, MAX_PINS};

const DAY: u64 = 86_400_000;
const KEEP: u64 = 30 * DAY;

fn mk_scope(name: &str) -> PinScope {
    PinScope {
        class: "hangar".into(),
        namespace: "tools".into(),
        name: name.into(),
    }
}

fn digest(text: &str) -> ToolDigest {
    ToolDigest(Sha256Hex::of(text.as_bytes()))
}

/// A list of tools by name and contract.
fn mk_sight(name: &str, new_tools: NewTools, tools: &[(&str, &str)]) -> Sight {
    let contract = |(tool, text): &(&str, &str)| Contract {
        tool: (*tool).to_owned(),
        digest: digest(text),
        canonical: text.as_bytes().to_vec(),
    };
    Sight {
        scope: mk_scope(name),
        revision: 0,
        contracts: tools.iter().map(contract).collect(),
        new_tools,
    }
}

fn serve(tools: &[(&str, &str)]) -> Sight {
    mk_sight("reports", NewTools::Serve, tools)
}

fn withhold(tools: &[(&str, &str)]) -> Sight {
    mk_sight("reports", NewTools::Withhold, tools)
}

/// One that was made beside the pins of this revision.
fn beside(revision: u64, sight: Sight) -> Sight {
    Sight { revision, ..sight }
}

fn names(map: &BTreeMap<String, ToolDigest>) -> Vec<&str> {
    map.keys().map(String::as_str).collect()
}

#[tokio::test]
async fn the_first_whole_list_is_pinned_and_what_comes_later_is_new() {
    let (_folder, store) = mk_store();
    let scope = mk_scope("reports");
    assert_eq!(store.pins(&scope).await.unwrap(), Pins::default());
    let first = withhold(&[("crawl", "one"), ("drop", "two")]);
    let pins = store.sight(first).await.unwrap();
    assert!(pins.complete && pins.others.is_empty());
    assert_eq!(names(&pins.pinned), ["crawl", "drop"]);
    let later = withhold(&[("crawl", "other"), ("pay", "three")]);
    let pins = store.sight(later).await.unwrap();
    assert_eq!(pins.pinned["crawl"], digest("one"));
    assert_eq!(names(&pins.pinned), ["crawl", "drop"]);
    assert_eq!(pins.others["crawl"], digest("other"));
    assert_eq!(pins.others["pay"], digest("three"));
    assert_eq!(store.pins(&scope).await.unwrap(), pins);
    // Put back: nothing differs any more. Served from now on: the new one is pinned.
    let back = store.sight(serve(&[("crawl", "one"), ("pay", "three")]));
    let pins = back.await.unwrap();
    assert_eq!(names(&pins.pinned), ["crawl", "drop", "pay"]);
    assert!(pins.others.is_empty());
    assert_eq!(store.pins(&scope).await.unwrap(), pins);
    let other = store.pins(&mk_scope("another")).await.unwrap();
    assert_eq!(other, Pins::default());
}

#[tokio::test]
async fn of_two_first_lists_the_second_finds_the_first() {
    let (_folder, store) = mk_store();
    let (one, two) = tokio::join!(
        store.sight(withhold(&[("crawl", "one")])),
        store.sight(withhold(&[("crawl", "two"), ("pay", "three")])),
    );
    let (one, two) = (one.unwrap(), two.unwrap());
    assert_eq!(one.pinned, two.pinned);
    assert_eq!(names(&two.pinned), ["crawl"]);
    assert_eq!(two.others["crawl"], digest("two"));
    assert_eq!(two.others["pay"], digest("three"));
}

#[tokio::test]
async fn a_reset_makes_the_next_sight_a_first_one() {
    let (folder, store) = mk_store();
    let book = PinBook::open(&folder.path().join("ledger.db")).unwrap();
    let scope = mk_scope("reports");
    assert!(!book.forget(&scope, None).unwrap());
    assert!(!book.forget(&scope, Some("crawl")).unwrap());
    assert_eq!(store.pin_revision().await.unwrap(), 0);
    let list = [("crawl", "one"), ("drop", "two")];
    store.sight(withhold(&list)).await.unwrap();
    let aside = mk_sight("aside", NewTools::Serve, &[("crawl", "one")]);
    let aside = store.sight(aside).await.unwrap();
    store
        .sight(withhold(&[("crawl", "changed"), ("pay", "three")]))
        .await
        .unwrap();
    // One tool: pin and last contract; and one that was never pinned.
    assert!(book.forget(&scope, Some("crawl")).unwrap());
    assert!(book.forget(&scope, Some("pay")).unwrap());
    assert_eq!(store.pin_revision().await.unwrap(), 2);
    let pins = store.pins(&scope).await.unwrap();
    assert_eq!(names(&pins.pinned), ["drop"]);
    assert!(pins.takes("crawl", NewTools::Withhold));
    assert!(!pins.takes("more", NewTools::Withhold));
    let later = withhold(&[("crawl", "changed"), ("more", "four")]);
    let pins = store.sight(beside(2, later)).await.unwrap();
    assert_eq!(names(&pins.pinned), ["crawl", "drop"]);
    assert_eq!(pins.pinned["crawl"], digest("changed"));
    assert_eq!(names(&pins.others), ["more"]);
    assert_eq!(pins.awaited, BTreeSet::from(["pay".to_owned()]));
    // The whole upstream: the next list is the first.
    assert!(book.forget(&scope, None).unwrap());
    let pins = store.pins(&scope).await.unwrap();
    assert_eq!(
        pins,
        Pins {
            revision: 3,
            ..Pins::default()
        }
    );
    let first = withhold(&[("drop", "new"), ("more", "four")]);
    let pins = store.sight(beside(3, first)).await.unwrap();
    assert_eq!(names(&pins.pinned), ["drop", "more"]);
    let untouched = store.pins(&aside_scope()).await.unwrap();
    assert_eq!(untouched.pinned, aside.pinned);
}

fn aside_scope() -> PinScope {
    mk_scope("aside")
}

/// Made beside pins that are no more, it has only what differed from them: taken for a first list, it
/// would leave all other tools out for good.
#[tokio::test]
async fn a_sight_from_before_a_reset_is_not_taken_in() {
    let (folder, store) = mk_store();
    let book = PinBook::open(&folder.path().join("ledger.db")).unwrap();
    let scope = mk_scope("reports");
    let list = [("crawl", "one"), ("drop", "two")];
    store.sight(withhold(&list)).await.unwrap();
    assert!(book.forget(&scope, None).unwrap());
    let after = Pins {
        revision: 1,
        ..Pins::default()
    };
    let pins = store.sight(withhold(&[("pay", "three")])).await.unwrap();
    assert_eq!(pins, after);
    assert_eq!(store.pins(&scope).await.unwrap(), after);
    let pins = store.sight(beside(1, withhold(&list))).await.unwrap();
    assert_eq!(names(&pins.pinned), ["crawl", "drop"]);
}

/// `spec.tools.pins` names all tools of the first list: no contract is kept, and yet it was the first.
#[tokio::test]
async fn that_a_list_was_seen_is_forgotten_as_well() {
    let (folder, store) = mk_store();
    let book = PinBook::open(&folder.path().join("ledger.db")).unwrap();
    let scope = mk_scope("reports");
    assert!(store.sight(withhold(&[])).await.unwrap().complete);
    assert!(book.forget(&scope, None).unwrap());
    assert_eq!(store.pin_revision().await.unwrap(), 1);
    assert!(!book.forget(&scope, None).unwrap());
    assert_eq!(store.pin_revision().await.unwrap(), 1);
    assert!(!store.pins(&scope).await.unwrap().complete);
}

#[tokio::test]
async fn the_book_shows_both_contracts() {
    let (folder, store) = mk_store();
    store.sight(serve(&[("crawl", "one")])).await.unwrap();
    store.sight(serve(&[("crawl", "two")])).await.unwrap();
    let book = PinBook::open(&folder.path().join("ledger.db")).unwrap();
    let all = book.read("hangar").unwrap();
    assert_eq!(all.len(), 1);
    let known = &all[&mk_scope("reports")]["crawl"];
    let (pinned, other) = (known.pinned.as_ref(), known.other.as_ref());
    let (pinned, other) = (pinned.unwrap(), other.unwrap());
    assert_eq!((pinned.digest, pinned.at), (digest("one"), Millis(BORN)));
    assert_eq!(pinned.contract, b"one");
    assert_eq!(
        (other.digest, &*other.contract),
        (digest("two"), &b"two"[..])
    );
    assert!(book.read("another").unwrap().is_empty());
}

#[tokio::test]
async fn pins_outlive_their_object_by_thirty_days() {
    let folder = tempfile::tempdir().unwrap();
    let ticks = Arc::new(AtomicU64::new(BORN));
    let source = Arc::clone(&ticks);
    let store = SqliteStore::open(Options {
        path: folder.path().join("ledger.db"),
        clock: Arc::new(move || Millis(source.load(Ordering::Relaxed))),
    })
    .unwrap();
    let scope = mk_scope("reports");
    let retain = async |days: u64, names: &[&str]| {
        ticks.store(BORN + days * DAY, Ordering::Relaxed);
        let upstreams = names.iter().map(|name| ("tools".into(), (*name).into()));
        let present = Present {
            class: "hangar".into(),
            upstreams: upstreams.collect(),
            keep_ms: KEEP,
        };
        store.retain_pins(present).await.unwrap();
        let pins = store.pins(&scope).await.unwrap();
        (pins.pinned.len(), pins.revision)
    };
    store.sight(withhold(&[("crawl", "one")])).await.unwrap();
    assert_eq!(retain(100, &["reports"]).await, (1, 0));
    // Absence counts from when it is noticed, and ends with the object's return.
    assert_eq!(retain(200, &["another"]).await, (1, 0));
    assert_eq!(retain(229, &[]).await, (1, 0));
    assert_eq!(retain(229, &["reports"]).await, (1, 0));
    assert_eq!(retain(231, &[]).await, (1, 0));
    assert_eq!(retain(260, &[]).await, (1, 0));
    assert_eq!(retain(261, &[]).await, (0, 1));
    assert_eq!(retain(400, &[]).await, (0, 1));
    // Of another class nothing is known here.
    let other = Sight {
        scope: PinScope {
            class: "other".into(),
            ..mk_scope("reports")
        },
        ..withhold(&[("crawl", "one")])
    };
    let kept = other.scope.clone();
    let revision = store.pin_revision().await.unwrap();
    store.sight(beside(revision, other)).await.unwrap();
    retain(401, &[]).await;
    retain(500, &[]).await;
    assert_eq!(store.pins(&kept).await.unwrap().pinned.len(), 1);
}

#[tokio::test]
async fn names_are_bounded() {
    let (_folder, store) = mk_store();
    let contract = |n: usize| Contract {
        tool: format!("t{n}"),
        digest: digest("x"),
        canonical: b"x".to_vec(),
    };
    let sight = |from: usize, to: usize| Sight {
        contracts: (from..to).map(contract).collect(),
        ..serve(&[])
    };
    let pins = store.sight(sight(0, MAX_PINS + 5)).await.unwrap();
    assert_eq!((pins.pinned.len(), pins.others.len()), (MAX_PINS, 5));
    let pins = store.sight(sight(MAX_PINS, 3 * MAX_PINS)).await.unwrap();
    assert_eq!((pins.pinned.len(), pins.others.len()), (MAX_PINS, MAX_PINS));
    assert_eq!(store.pins(&mk_scope("reports")).await.unwrap(), pins);
}

#[tokio::test]
async fn bytes_are_bounded() {
    let (_folder, store) = mk_store();
    let big = |tool: &str, fill: u8| Contract {
        tool: tool.into(),
        digest: digest(tool),
        canonical: vec![fill; 24 << 20],
    };
    let sight = |tools: &[&str]| Sight {
        contracts: tools.iter().map(|tool| big(tool, b'x')).collect(),
        ..serve(&[])
    };
    let pins = store.sight(sight(&["a", "b"])).await.unwrap();
    assert!(!pins.is_full());
    let pins = store.sight(sight(&["c", "d"])).await.unwrap();
    assert_eq!(names(&pins.pinned), ["a", "b", "c"]);
    assert_eq!(names(&pins.others), ["d"]);
    let pins = store.sight(sight(&["e", "f", "g"])).await.unwrap();
    assert_eq!(names(&pins.pinned), ["a", "b", "c"]);
    assert_eq!(names(&pins.others), ["d", "e", "f"]);
    // Whoever reads them knows, so that none is shown to the writer again and again.
    let read = store.pins(&mk_scope("reports")).await.unwrap();
    assert_eq!(read, pins);
    assert!(read.is_full() && !read.takes("small", NewTools::Serve));
    assert!(!read.notes("small", digest("x")) && !read.notes("d", digest("x")));
}

/// A file of the first schema, with a pin in it.
fn mk_old(path: &Path) {
    let old = rusqlite::Connection::open(path).unwrap();
    old.execute_batch(schema::MIGRATIONS[0]).unwrap();
    old.pragma_update(None, "user_version", 1).unwrap();
    let put = "insert into pin (class, namespace, name, tool, digest, contract, at)
        values ('hangar', 'tools', 'reports', 'crawl', ?1, x'7b7d', 7)";
    let text = digest("one").0.to_string();
    old.execute(put, [text]).unwrap();
}

#[tokio::test]
async fn a_pin_of_the_first_schema_stands() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.db");
    mk_old(&path);
    let refused = PinBook::open(&path).unwrap_err();
    assert_eq!(refused.reason(), "older");
    assert_eq!(
        refused.to_string(),
        "store schema 1 is older than this binary's 2: start the gateway of this version once"
    );
    let store = open(folder.path());
    let pins = store.pins(&mk_scope("reports")).await.unwrap();
    assert!(!pins.complete);
    assert_eq!(pins.pinned["crawl"], digest("one"));
    // No whole list was ever seen: the next one pins what is missing, and replaces nothing.
    let pins = store.sight(withhold(&[("crawl", "two"), ("drop", "three")]));
    let pins = pins.await.unwrap();
    assert_eq!(pins.pinned["crawl"], digest("one"));
    assert_eq!(names(&pins.pinned), ["crawl", "drop"]);
    assert!(PinBook::open(&path).is_ok());
    let present = Present {
        class: "hangar".into(),
        upstreams: BTreeSet::new(),
        keep_ms: 0,
    };
    // Its absence counts as well.
    store.retain_pins(present.clone()).await.unwrap();
    store.retain_pins(present).await.unwrap();
    let pins = store.pins(&mk_scope("reports")).await.unwrap();
    assert!(pins.pinned.is_empty());
}
