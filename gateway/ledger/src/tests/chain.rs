//! The verifier: what it finds, and where.

use super::*;

/// Two tasks, interleaved, one of them with every kind of event.
fn mk_export() -> Vec<Vec<u8>> {
    let mut first = Task::asking();
    first.one(claim(&[("k1", "deploy?", "yes")], 9000), 2000);
    first.one(
        Command::Confirm {
            claims: refs(&[("k1", 1)]),
        },
        2100,
    );
    first.one(Command::Drift { found: None }, 3000);
    let other = TaskKey::new(UpstreamUid("uid-reports".into()), "other".parse().unwrap());
    let mut snapshot = mk_snapshot(Status::Working);
    snapshot.task_id = other.task.clone();
    let birth = Box::new(mk_birth());
    let born = Command::Register { birth, snapshot };
    let second = decide(&other, None, vec![born], at(0)).unwrap();
    let mut lines = first.lines;
    lines.insert(2, second.events[0].line());
    lines
}

fn ended(lines: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut export = Export::default();
    for line in lines {
        export.add(line);
    }
    let mut lines = lines.to_vec();
    lines.push(export.end());
    lines
}

fn check(lines: &[Vec<u8>]) -> Result<Summary, Broken> {
    verify(lines.iter().map(Vec::as_slice))
}

fn broken(lines: &[Vec<u8>]) -> (u64, &'static str) {
    let broken = check(lines).unwrap_err();
    (broken.line, broken.reason())
}

#[test]
fn a_sound_export_is_summed_up() {
    let lines = mk_export();
    let summary = Summary {
        events: 5,
        chains: 2,
        live: 1,
        ended: false,
    };
    assert_eq!(check(&lines).unwrap(), summary);
    assert_eq!(
        check(&ended(&lines)).unwrap(),
        Summary {
            ended: true,
            ..summary
        }
    );
    assert_eq!(
        check(&ended(&[])).unwrap(),
        Summary {
            ended: true,
            ..Summary::default()
        }
    );
}

#[test]
fn every_flipped_byte_is_found() {
    let lines = ended(&mk_export());
    for (index, line) in lines.iter().enumerate() {
        for place in 0..line.len() {
            let mut damaged = lines.clone();
            damaged[index][place] ^= 1;
            let found = check(&damaged).unwrap_err();
            assert!(
                found.line > index as u64,
                "byte {place} of line {}: {found}",
                index + 1
            );
        }
    }
}

#[test]
fn a_flipped_byte_is_named_at_the_latest_by_the_next_event() {
    let lines = mk_export();
    let text = String::from_utf8(lines[1].clone()).unwrap();
    let mut damaged = lines.clone();
    damaged[1] = text
        .replace(r#""relay":"confirmed""#, r#""relay":"settled""#)
        .into_bytes();
    assert_ne!(damaged, lines);
    assert_eq!(broken(&damaged), (4, "hash"));
}

#[test]
fn a_dropped_event_is_found() {
    let lines = mk_export();
    for (index, found) in [(0, (1, "gap")), (1, (3, "gap")), (3, (4, "gap"))] {
        let mut cut = lines.clone();
        cut.remove(index);
        assert_eq!(broken(&cut), found);
    }
    // The tail of a chain, and a whole task, show by the end line.
    for index in [2, 4] {
        let mut cut = ended(&lines);
        cut.remove(index);
        assert_eq!(broken(&cut), (5, "end"));
    }
}

#[test]
fn a_moved_or_doubled_event_is_found() {
    let lines = mk_export();
    let mut moved = lines.clone();
    moved.swap(1, 3);
    assert_eq!(broken(&moved), (2, "gap"));
    for (index, line) in lines.iter().enumerate() {
        let mut doubled = lines.clone();
        doubled.insert(index + 1, line.clone());
        assert_eq!(broken(&doubled), (index as u64 + 2, "duplicate"));
    }
    // A birth doubled after the task's end is no second life.
    let mut again = lines.clone();
    again.push(lines[0].clone());
    assert_eq!(broken(&again), (6, "duplicate"));
    let mut after = ended(&lines);
    after.push(lines[0].clone());
    assert_eq!(broken(&after), (7, "after_end"));
}

#[test]
fn what_is_no_event_is_found() {
    let lines = mk_export();
    let with = |line: &[u8]| {
        let mut lines = lines.clone();
        lines.insert(1, line.to_vec());
        broken(&lines)
    };
    assert_eq!(with(b""), (2, "not_an_event"));
    assert_eq!(with(b"{}"), (2, "not_an_event"));
    assert_eq!(with(br#"{"format":2}"#), (2, "format"));
    let mut spaced = lines.clone();
    spaced[0].push(b' ');
    assert_eq!(broken(&spaced), (1, "not_canonical"));
}

/// Chains that hold by their hashes and still say what cannot be.
#[test]
fn forbidden_transitions_are_found() {
    let accepted = || Detail::TaskConsentDecided {
        key: key("k1").hash(),
        question: Some(question("deploy?")),
        verdict: Verdict::Accept {
            principal: None,
            answer: answer("yes"),
            relay: Relay::Confirmed,
        },
    };
    let failed = |reason| Detail::TaskFailed { reason };
    let mismatch = || Detail::DigestMismatchInTask { found: None };
    let table = [
        vec![Detail::TaskCreated {}],
        vec![Detail::TaskCompleted {}, Detail::TaskCancelled {}],
        vec![Detail::TaskCompleted {}, accepted()],
        vec![accepted(), accepted()],
        vec![failed(FailureReason::DigestDrift)],
        vec![mismatch(), Detail::TaskCompleted {}],
        vec![mismatch(), mismatch()],
        vec![Detail::TaskCancelled {}, mismatch()],
    ];
    for details in table {
        let mut entry = Task::born().entry().clone();
        let mut lines = Task::born().lines;
        for detail in &details {
            let event = Event::next(&entry, at(1), detail.clone());
            entry.head = event.hash();
            entry.events += 1;
            lines.push(event.line());
        }
        let last = lines.len() as u64;
        assert_eq!(broken(&lines), (last, "transition"), "{details:?}");
    }
    let mut entry = Task::born().entry().clone();
    entry.birth.owner = mk_owner("mallory");
    let event = Event::next(&entry, at(1), Detail::TaskCompleted {});
    let lines = [Task::born().lines, vec![event.line()]].concat();
    assert_eq!(broken(&lines), (2, "birth"));
}
