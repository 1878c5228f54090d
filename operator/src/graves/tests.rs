//! Who is buried, and what is remembered.

use hangar_operator_core::{Change, Object, ObjectId, ObjectKind, Settings, Undecodable, World};
use hangar_wire::{AddressRules, Epoch, Generation};

use super::*;

fn mk_upstream(uid: &str, url: &str) -> Upstream {
    serde_json::from_value(serde_json::json!({
        "namespace": "default", "name": "reports", "uid": uid, "generation": 1, "url": url,
        "admission": "Open", "tools": {"allow": ["*"], "deny": []},
        "pinning": {"mode": "FirstUse", "newTools": "Serve", "pins": {}, "maxAgeMs": 1},
        "tasks": {"relay": true, "retentionMs": 1},
        "limits": {"requestTimeoutMs": 1, "maxResponseBytes": 1, "maxConcurrent": 1},
    }))
    .unwrap()
}

/// The object is there under this uid; none: in a form that does not say.
fn mk_verdicts(uid: Option<&str>) -> BTreeMap<ObjectKey, Verdict> {
    let mut world = World::new(Settings {
        class: "hangar".into(),
        policy_namespaces: None,
        addresses: AddressRules::default(),
    });
    world.apply(Change::Apply(Object::Undecodable(Undecodable {
        id: ObjectId::new(ObjectKind::McpUpstream, "default", "reports"),
        uid: uid.map(str::to_owned),
        generation: None,
        class: None,
        error: "spec.tols: not known".into(),
    })));
    world.compile().verdicts
}

fn term(epoch: u64, generation: u64) -> Term {
    Term {
        epoch: Epoch(epoch),
        generation: Generation(generation),
    }
}

/// A look of which nothing is left to be looked at again.
fn look(
    graves: &mut Graves,
    upstreams: &[Upstream],
    verdicts: &BTreeMap<ObjectKey, Verdict>,
    next: Term,
) {
    let again = graves.look(upstreams, verdicts, next, Instant::now());
    assert_eq!(again, None);
}

fn stones(graves: &Graves) -> Vec<(String, Fate, Term)> {
    let stones = graves.tombstones().into_iter();
    stones.map(|it| (it.uid, it.fate, it.before)).collect()
}

#[test]
fn only_what_is_gone_or_elsewhere_is_buried() {
    let mut graves = Graves::default();
    let here = mk_upstream("u", "http://a.example/mcp");
    look(&mut graves, &[here], &mk_verdicts(Some("u")), term(1, 1));
    // Another path, a port that was meant all along, another spelling of the host.
    let same = mk_upstream("u", "http://A.example:80/other");
    look(&mut graves, &[same], &mk_verdicts(Some("u")), term(1, 2));
    // Refused, or not to be decoded: still there.
    look(&mut graves, &[], &mk_verdicts(Some("u")), term(1, 3));
    look(&mut graves, &[], &mk_verdicts(None), term(1, 4));
    assert_eq!(stones(&graves), []);
    let there = mk_upstream("u", "https://a.example/mcp");
    look(
        &mut graves,
        std::slice::from_ref(&there),
        &mk_verdicts(Some("u")),
        term(1, 5),
    );
    look(&mut graves, &[there], &mk_verdicts(Some("u")), term(1, 6));
    assert_eq!(stones(&graves), [("u".into(), Fate::Changed, term(1, 5))]);
    look(&mut graves, &[], &BTreeMap::new(), term(1, 7));
    look(&mut graves, &[], &BTreeMap::new(), term(1, 8));
    assert_eq!(stones(&graves), [("u".into(), Fate::Removed, term(1, 7))]);
}

/// Made again under the name: in a cluster it is another object, in a folder the same uid.
#[test]
fn what_is_made_again_leaves_the_grave_closed() {
    let mut graves = Graves::default();
    let url = "http://a.example/mcp";
    look(
        &mut graves,
        &[mk_upstream("u", url)],
        &mk_verdicts(Some("u")),
        term(1, 1),
    );
    look(
        &mut graves,
        &[mk_upstream("v", url)],
        &mk_verdicts(Some("v")),
        term(1, 2),
    );
    assert_eq!(stones(&graves), [("u".into(), Fate::Removed, term(1, 2))]);
    look(
        &mut graves,
        &[mk_upstream("u", url)],
        &mk_verdicts(Some("u")),
        term(1, 3),
    );
    let two = [
        ("u".into(), Fate::Removed, term(1, 2)),
        ("v".into(), Fate::Removed, term(1, 3)),
    ];
    assert_eq!(stones(&graves), two);
}

#[test]
fn a_deletion_is_found_after_a_restart_and_remembered_after_another() {
    let dir = tempfile::tempdir().unwrap();
    let start = || Graves::load(StateDir::new(dir.path()), &[]);
    let here = mk_upstream("u", "http://a.example/mcp");
    look(&mut start(), &[here], &mk_verdicts(Some("u")), term(1, 1));
    let mut graves = start();
    let now = Instant::now();
    let again = graves.look(&[], &BTreeMap::new(), term(2, 1), now);
    graves.look(&[], &BTreeMap::new(), term(2, 2), again.unwrap());
    let buried = [("u".into(), Fate::Removed, term(2, 2))];
    assert_eq!(stones(&start()), buried);
    // Without what was known nobody is buried.
    std::fs::write(dir.path().join(FILE), "{").unwrap();
    let mut graves = start();
    look(&mut graves, &[], &BTreeMap::new(), term(3, 1));
    assert_eq!(stones(&graves), []);
}

/// A manifest that was replaced by removing and writing it was away for one pass, which ended the
/// tasks of its upstream.
#[test]
fn an_upstream_of_a_folder_is_gone_when_it_stays_away() {
    let dir = tempfile::tempdir().unwrap();
    let mut graves = Graves::load(StateDir::new(dir.path()), &[]);
    let url = "http://a.example/mcp";
    let (u, v) = (mk_upstream("u", url), mk_upstream("v", url));
    let (here, none) = (mk_verdicts(Some("u")), BTreeMap::new());
    let began = Instant::now();
    let at = |seconds: f32| began + Duration::from_secs_f32(seconds);
    let mut look = |upstreams: &[Upstream], verdicts, generation, seconds| {
        let again = graves.look(upstreams, verdicts, term(1, generation), at(seconds));
        (again, stones(&graves))
    };
    assert_eq!(
        look(std::slice::from_ref(&u), &here, 1, 0.0),
        (None, vec![])
    );
    assert_eq!(look(&[], &none, 2, 1.0), (Some(at(6.0)), vec![]));
    assert_eq!(look(&[], &none, 2, 5.5), (Some(at(6.0)), vec![]));
    // Back, and away once more: counted anew.
    assert_eq!(look(&[u], &here, 3, 5.75), (None, vec![]));
    assert_eq!(look(&[], &none, 4, 7.0), (Some(at(12.0)), vec![]));
    let removed = ("u".to_owned(), Fate::Removed, term(1, 5));
    assert_eq!(look(&[], &none, 5, 12.0), (None, vec![removed.clone()]));
    // Nothing is left of the wait for one that was buried.
    let there = mk_verdicts(Some("v"));
    assert_eq!(look(&[v], &there, 6, 13.0), (None, vec![removed.clone()]));
    assert_eq!(look(&[], &none, 7, 14.0), (Some(at(19.0)), vec![removed]));
}

/// An operator that was started again for one namespace ended the tasks of all others.
#[test]
fn an_upstream_of_a_namespace_that_is_not_looked_at_is_not_gone() {
    let dir = tempfile::tempdir().unwrap();
    let start = |namespaces: &[&str]| {
        let namespaces: Vec<String> = namespaces.iter().map(|&it| it.to_owned()).collect();
        Graves::load(StateDir::new(dir.path()), &namespaces)
    };
    let here = mk_upstream("u", "http://a.example/mcp");
    look(
        &mut start(&[]),
        &[here],
        &mk_verdicts(Some("u")),
        term(1, 1),
    );
    let twice = |graves: &mut Graves| {
        let now = Instant::now();
        for (generation, at) in [(1, now), (2, now + GONE_AFTER)] {
            graves.look(&[], &BTreeMap::new(), term(2, generation), at);
        }
        stones(graves)
    };
    assert_eq!(twice(&mut start(&["other"])), []);
    // It was not forgotten either.
    let buried = [("u".into(), Fate::Removed, term(2, 2))];
    assert_eq!(twice(&mut start(&["other", "default"])), buried);
}

/// An operator that had lost its epoch buried an upstream, and tasks were born when it was made again
/// under the same uid. Then a gateway came that held a higher term: the tombstone was raised above
/// that one, and ended those tasks too.
#[test]
fn what_was_buried_in_an_epoch_is_lifted_with_it_and_spares_what_was_made_again() {
    let mut graves = Graves::default();
    let here = mk_upstream("u", "http://a.example/mcp");
    let here = std::slice::from_ref(&here);
    look(&mut graves, here, &mk_verdicts(Some("u")), term(3, 1));
    look(&mut graves, &[], &BTreeMap::new(), term(3, 2));
    look(&mut graves, here, &mk_verdicts(Some("u")), term(3, 3));
    let covers = |graves: &Graves, born: Term| graves.tombstones()[0].covers(born);
    // As if by a later process: of what came between it knows nothing.
    graves.lift(term(4, 3), term(9, 3));
    assert!(!covers(&graves, term(8, 4)));
    graves.lift(term(3, 4), term(9, 4));
    graves.lift(term(9, 6), term(16, 6));
    graves.lift(term(17, 6), term(20, 6));
    for born in [term(2, 7), term(3, 1), term(3, 5), term(8, 4), term(15, 2)] {
        assert!(covers(&graves, born), "{born}");
    }
    for born in [term(3, 2), term(3, 4), term(9, 4), term(9, 6), term(18, 1)] {
        assert!(!covers(&graves, born), "{born}");
    }
    for epoch in 16..16 + 2 * MOST_OUTRANKED as u64 {
        graves.lift(term(epoch, 6), term(epoch + 1, 6));
    }
    assert_eq!(graves.tombstones()[0].outranked.len(), MOST_OUTRANKED);
}

#[test]
fn the_oldest_graves_are_given_up() {
    let mut graves = Graves::default();
    for number in 0..=MOST as u64 {
        let uid = format!("u{number}");
        let here = mk_upstream(&uid, "http://a.example/mcp");
        look(
            &mut graves,
            &[here],
            &mk_verdicts(Some(&uid)),
            term(1, number),
        );
    }
    look(&mut graves, &[], &BTreeMap::new(), term(2, 1));
    let left = stones(&graves);
    assert_eq!(left.len(), MOST);
    assert!(left.iter().all(|(uid, ..)| uid != "u0"));
}
