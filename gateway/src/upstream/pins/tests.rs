//! What is due of a list, and what becomes of answers that come late.

use hangar_relay::contract::Listing;
use hangar_wire::{
    AddressRules, Admission, NewTools, Pinning, Protocol, Sha256Hex, Snapshot, Term, ToolRules,
    UpstreamLimits, UpstreamTasks,
};
use serde_json::value::RawValue;

use super::*;
use crate::config::{Config, Runtimes};

fn mk_upstream(new_tools: NewTools, pins: &[(&str, &str)]) -> Arc<Upstream> {
    let digests = pins
        .iter()
        .map(|(tool, digest)| ((*tool).to_owned(), [digest.parse().unwrap()].into()));
    let object = hangar_wire::Upstream {
        namespace: "tools".into(),
        name: "reports".into(),
        uid: "u-1".into(),
        generation: 1,
        url: "http://127.0.0.1:1/mcp".into(),
        protocol: Protocol::Auto,
        admission: Admission::Open,
        tools: ToolRules {
            allow: vec!["*".into()],
            deny: vec![],
        },
        pinning: Pinning {
            mode: PinningMode::FirstUse,
            new_tools,
            pins: digests.collect(),
            max_age_ms: 1000,
        },
        tasks: UpstreamTasks {
            relay: true,
            retention_ms: 1000,
        },
        limits: UpstreamLimits {
            request_timeout_ms: 5000,
            max_response_bytes: 4096,
            max_concurrent: 8,
        },
    };
    let rules = AddressRules {
        allow: vec!["127.0.0.0/8".into()],
        deny: vec![],
    };
    let config = Config::default();
    let snapshot = Snapshot::new(Term::default(), rules, vec![object], vec![]).unwrap();
    config.apply(snapshot, &mut Runtimes::default()).unwrap();
    let active = config.load().unwrap();
    Arc::clone(active.upstreams().next().unwrap())
}

/// A list of tools by name and description.
fn mk_list(tools: &[(&str, &str)]) -> Arc<Tools> {
    let tools = tools.iter().map(|(name, description)| {
        format!(
            r#"{{"name":"{name}","description":"{description}","inputSchema":{{"type":"object"}}}}"#
        )
    });
    let page = format!(r#"{{"tools":[{}]}}"#, tools.collect::<Vec<_>>().join(","));
    let mut list = Listing::default();
    list.push(&RawValue::from_string(page).unwrap()).unwrap();
    list.finish()
}

fn digest_of(list: &Tools, name: &str) -> ToolDigest {
    ToolDigest(list.get(name).unwrap().digest)
}

fn mk_pins(revision: u64, list: &Tools) -> Pins {
    let pinned = list
        .iter()
        .map(|tool| (tool.name.clone(), ToolDigest(tool.digest)));
    Pins {
        revision,
        complete: true,
        pinned: pinned.collect(),
        ..Pins::default()
    }
}

fn mk_scope() -> PinScope {
    PinScope {
        class: "hangar".into(),
        namespace: "tools".into(),
        name: "reports".into(),
    }
}

/// Names of what is due of a list.
fn due(state: &mut State, upstream: &Upstream, list: &Tools) -> Option<Vec<String>> {
    let sight = state.due(&mk_scope(), upstream, list)?;
    let names = sight.contracts.into_iter().map(|contract| contract.tool);
    Some(names.collect())
}

#[test]
fn the_first_list_is_due_whole_without_what_is_pinned_explicitly() {
    let some = Sha256Hex::of(b"some").to_string();
    for new_tools in [NewTools::Serve, NewTools::Withhold] {
        let upstream = mk_upstream(new_tools, &[("pay", &some)]);
        let mut state = State::default();
        let list = mk_list(&[("crawl", "a"), ("drop", "b"), ("pay", "c")]);
        assert_eq!(due(&mut state, &upstream, &list), None, "nothing was read");
        state.take(Pins::default());
        assert_eq!(due(&mut state, &upstream, &mk_list(&[])), None);
        let names = due(&mut state, &upstream, &list).unwrap();
        assert_eq!(names, ["crawl", "drop"]);
        // A list of explicit pins alone is a first list all the same.
        let names = due(&mut state, &upstream, &mk_list(&[("pay", "c")]));
        assert_eq!(names, Some(vec![]));
    }
}

#[test]
fn what_comes_later_is_pinned_or_noted() {
    let list = mk_list(&[("crawl", "a")]);
    let later = mk_list(&[("crawl", "changed"), ("drop", "b")]);
    let (serving, withholding) = (
        mk_upstream(NewTools::Serve, &[]),
        mk_upstream(NewTools::Withhold, &[]),
    );
    let mut state = State::default();
    state.take(mk_pins(0, &list));
    assert_eq!(due(&mut state, &serving, &list), None);
    assert_eq!(due(&mut state, &withholding, &list), None);
    assert_eq!(
        due(&mut state, &withholding, &later).unwrap(),
        ["crawl", "drop"]
    );
    // Notes are not taken with every list; pins are.
    assert_eq!(due(&mut state, &withholding, &later), None);
    assert_eq!(
        due(&mut state, &serving, &later).unwrap(),
        ["crawl", "drop"]
    );
    // Noted as they are: nothing is due any more.
    let mut pins = mk_pins(0, &list);
    for name in ["crawl", "drop"] {
        pins.others.insert(name.into(), digest_of(&later, name));
    }
    let mut state = State::default();
    state.take(pins.clone());
    assert_eq!(due(&mut state, &withholding, &later), None);
    // Put back: the note is to be taken away.
    assert_eq!(due(&mut state, &withholding, &list).unwrap(), ["crawl"]);
    // Reset: its next sight is a first one.
    pins.awaited.insert("drop".into());
    let mut state = State::default();
    state.take(pins);
    assert_eq!(due(&mut state, &withholding, &later).unwrap(), ["drop"]);
}

#[test]
fn what_finds_no_room_is_not_due_again_and_again() {
    let (list, later) = (
        mk_list(&[("crawl", "a")]),
        mk_list(&[("crawl", "a"), ("drop", "b")]),
    );
    let upstream = mk_upstream(NewTools::Serve, &[]);
    let due_with = |pinned_bytes, other_bytes| {
        let mut state = State::default();
        state.take(Pins {
            pinned_bytes,
            other_bytes,
            ..mk_pins(3, &list)
        });
        state.due(&mk_scope(), &upstream, &later)
    };
    let sight = due_with(MAX_PIN_BYTES - 1, MAX_PIN_BYTES).unwrap();
    assert_eq!((sight.revision, sight.contracts.len()), (3, 1));
    assert!(
        due_with(MAX_PIN_BYTES, MAX_PIN_BYTES - 1).is_some(),
        "noted"
    );
    assert!(due_with(MAX_PIN_BYTES, MAX_PIN_BYTES).is_none());
}

#[test]
fn nothing_read_before_a_reset_counts_after_it() {
    let (old, new) = (mk_list(&[("crawl", "a")]), mk_list(&[("crawl", "b")]));
    let upstream = mk_upstream(NewTools::Serve, &[]);
    let mut state = State::default();
    let verdict = |state: &State, revision, list: &Tools| {
        state.verdict(&upstream, revision, list.get("crawl").unwrap())
    };
    assert_eq!(verdict(&state, 0, &old), Verdict::NotPinned);
    state.take(mk_pins(4, &old));
    assert_eq!(verdict(&state, 4, &old), Verdict::Approved);
    assert_eq!(verdict(&state, 4, &new), Verdict::Drifted);
    // Reset, and noticed: the copy says nothing any more.
    assert_eq!(verdict(&state, 5, &old), Verdict::NotPinned);
    state.take(mk_pins(5, &new));
    assert_eq!(verdict(&state, 5, &new), Verdict::Approved);
    // An answer from before comes late.
    state.take(mk_pins(4, &old));
    assert_eq!(verdict(&state, 5, &new), Verdict::Approved);
    assert_eq!(verdict(&state, 5, &old), Verdict::Drifted);
}

#[test]
fn answers_of_one_revision_lose_no_pin() {
    let (first, both) = (
        mk_list(&[("crawl", "a")]),
        mk_list(&[("crawl", "a"), ("drop", "b")]),
    );
    let upstream = mk_upstream(NewTools::Serve, &[]);
    let mut state = State::default();
    state.take(mk_pins(1, &both));
    let earlier = Pins {
        complete: false,
        ..mk_pins(1, &first)
    };
    state.take(earlier);
    assert!(state.pins.as_ref().unwrap().complete);
    for tool in both.iter() {
        assert_eq!(state.verdict(&upstream, 1, tool), Verdict::Approved);
    }
}

#[test]
fn explicit_pins_win_over_what_was_seen_first() {
    let (first, approved) = (mk_list(&[("crawl", "a")]), mk_list(&[("crawl", "b")]));
    let digest = digest_of(&approved, "crawl").0.to_string();
    let upstream = mk_upstream(NewTools::Serve, &[("crawl", &digest)]);
    let mut state = State::default();
    state.take(mk_pins(0, &first));
    let verdict = |list: &Tools| state.verdict(&upstream, 0, list.get("crawl").unwrap());
    assert_eq!(verdict(&first), Verdict::Drifted);
    assert_eq!(verdict(&approved), Verdict::Approved);
}

#[test]
fn a_revision_only_moves_on() {
    let revision = Revision::default();
    revision.reached(3);
    revision.reached(2);
    assert_eq!(revision.current(), 3);
}
