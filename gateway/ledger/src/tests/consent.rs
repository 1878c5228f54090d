//! Questions, claims, ends of relays, declines.

use super::*;

/// An update: the fresh poll and the claim, decided together.
fn update(grants: &[(&str, &str, &str)], ms: u64) -> Vec<Command> {
    let asked: Vec<_> = grants.iter().map(|(k, q, _)| (*k, *q)).collect();
    vec![
        sync(Status::InputRequired, ms),
        ask(&asked, Sight::Compared, ms),
        claim(grants, ms + 3000),
    ]
}

const YES: [(&str, &str, &str); 1] = [("k1", "deploy?", "yes")];

#[test]
fn an_accept_is_claimed_then_confirmed() {
    let mut task = Task::asking();
    let decision = task.run(update(&YES, 2000), 2000).unwrap();
    assert_eq!(decision.claims(), refs(&[("k1", 1)]));
    assert_eq!(decision.events, []);
    assert!(matches!(decision.change, Change::Commit(_)));
    let claims = refs(&[("k1", 1)]);
    let decision = task.one(
        Command::Confirm {
            claims: claims.clone(),
        },
        2100,
    );
    let Detail::TaskConsentDecided {
        key: k,
        question: q,
        verdict,
    } = &decision.events[0].detail
    else {
        panic!("{decision:?}");
    };
    assert_eq!((*k, *q), (key("k1").hash(), Some(question("deploy?"))));
    let principal = Some(Principal::api_key("bob"));
    let accepted = Verdict::Accept {
        principal,
        answer: answer("yes"),
        relay: Relay::Confirmed,
    };
    assert_eq!(*verdict, accepted);
    assert_eq!(task.one(Command::Confirm { claims }, 2200).events, []);
    assert_eq!(task.chain(), ["TaskCreated", "accept:confirmed"]);
}

#[test]
fn the_same_answer_five_times_is_relayed_once() {
    let mut task = Task::asking();
    let mut relayed = 0;
    for ms in 2000..2005 {
        relayed += task.run(update(&YES, ms), ms).unwrap().claims().len();
    }
    let claims = refs(&[("k1", 1)]);
    task.one(Command::Confirm { claims }, 2100);
    relayed += task.run(update(&YES, 2200), 2200).unwrap().claims().len();
    assert_eq!(relayed, 1);
    assert_eq!(task.chain(), ["TaskCreated", "accept:confirmed"]);
}

#[test]
fn what_may_not_be_answered_is_ignored() {
    let grants = [("k1", "deploy?", "yes")];
    let mut working = Task::born();
    assert_eq!(
        working.one(claim(&grants, 9000), 2000).change,
        Change::Unchanged
    );
    let mut task = Task::asking();
    for unknown in [&[("k9", "?", "yes")][..], &[]] {
        let decision = task.one(claim(unknown, 9000), 2000);
        assert_eq!(
            (decision.change, decision.effects),
            (Change::Unchanged, vec![])
        );
    }
    let mut done = Task::asking();
    done.one(sync(Status::Completed, 2000), 2000);
    assert_eq!(
        done.one(claim(&grants, 9000), 2001).change,
        Change::Unchanged
    );
    assert_eq!(done.one(decline("k1"), 2002).change, Change::Unchanged);
}

#[test]
fn only_a_shown_question_opens_a_slot() {
    let mut task = Task::born();
    let poll = vec![
        sync(Status::InputRequired, 1000),
        ask(&[("k1", "deploy?")], Sight::Compared, 1000),
    ];
    task.run(poll, 1000).unwrap();
    assert_eq!(task.run(update(&YES, 2000), 2000).unwrap().claims(), []);
    assert_eq!(task.one(decline("k1"), 2000).change, Change::Unchanged);
    assert!(task.entry().slots.is_empty());
}

#[test]
fn two_questions_are_two_decisions() {
    let mut task = Task::asking();
    let both = [("k1", "deploy?"), ("k2", "really?")];
    task.one(ask(&both, Sight::Shown, 1500), 1500);
    let poll = vec![
        sync(Status::InputRequired, 2000),
        ask(&both, Sight::Compared, 2000),
        claim(&YES, 5000),
    ];
    task.run(poll, 2000).unwrap();
    task.one(
        Command::Confirm {
            claims: refs(&[("k1", 1)]),
        },
        2100,
    );
    assert_eq!(*task.slot("k1"), SlotState::Used);
    assert_eq!(*task.slot("k2"), SlotState::Open);
    assert_eq!(task.chain(), ["TaskCreated", "accept:confirmed"]);
}

#[test]
fn another_question_under_a_known_key_ends_the_task() {
    let mut used = Task::asking();
    used.run(update(&YES, 2000), 2000).unwrap();
    used.one(
        Command::Confirm {
            claims: refs(&[("k1", 1)]),
        },
        2100,
    );
    let mut same = used.clone();
    same.one(ask(&[("k1", "deploy?")], Sight::Shown, 3000), 3000);
    assert_eq!(same.run(update(&YES, 3100), 3100).unwrap().claims(), []);
    assert_eq!(same.chain(), ["TaskCreated", "accept:confirmed"]);
    for (mut task, before) in [
        (Task::asking(), vec!["TaskCreated"]),
        (used, vec!["TaskCreated", "accept:confirmed"]),
    ] {
        let decision = task
            .run(update(&[("k1", "transfer?", "yes")], 3000), 3000)
            .unwrap();
        assert_eq!(decision.effects, [Effect::CancelUpstream]);
        let chain = [before, vec!["failed:upstream_protocol"]].concat();
        assert_eq!(task.chain(), chain);
    }
    // The answer names the question that it saw.
    let mut task = Task::asking();
    task.one(claim(&[("k1", "transfer?", "yes")], 9000), 2000);
    assert_eq!(task.chain(), ["TaskCreated", "failed:upstream_protocol"]);
}

#[test]
fn questions_are_bounded() {
    let names: Vec<_> = (0..=MAX_OUTSTANDING).map(|n| format!("k{n}")).collect();
    let asked: Vec<_> = names.iter().map(|name| (name.as_str(), "?")).collect();
    for (count, end) in [
        (MAX_OUTSTANDING, None),
        (MAX_OUTSTANDING + 1, Some("upstream_protocol")),
    ] {
        let mut task = Task::born();
        let poll = vec![
            sync(Status::InputRequired, 1),
            ask(&asked[..count], Sight::Shown, 1),
        ];
        task.run(poll, 1).unwrap();
        let last = end.map(|end| format!("failed:{end}"));
        assert_eq!(task.words.get(1), last.as_ref());
    }
    let mut task = Task::born();
    task.one(sync(Status::InputRequired, 1), 1);
    for n in 0..MAX_KEYS {
        let ms = 2 + n as u64;
        task.one(ask(&[(&format!("k{n}"), "?")], Sight::Shown, ms), ms);
    }
    assert_eq!(task.chain(), ["TaskCreated"]);
    assert_eq!(task.entry().slots.len(), MAX_KEYS);
    task.one(ask(&[("one more", "?")], Sight::Shown, 5000), 5000);
    assert_eq!(task.chain(), ["TaskCreated", "failed:upstream_protocol"]);
}

#[test]
fn a_decline_ends_the_task_and_relays_nothing_of_its_update() {
    let mut task = Task::asking();
    task.one(
        ask(&[("k1", "deploy?"), ("k2", "?")], Sight::Shown, 1500),
        1500,
    );
    let poll = vec![claim(&YES, 5000), decline("k2")];
    let decision = task.run(poll, 2000).unwrap();
    assert_eq!(decision.effects, [Effect::CancelUpstream]);
    assert_eq!(
        task.chain(),
        ["TaskCreated", "decline:declined", "failed:consent_denied"]
    );
    assert_eq!(task.one(decline("k1"), 2001).change, Change::Unchanged);
}

#[test]
fn the_policy_denies_what_was_never_shown() {
    let denied = |by| Command::Decline {
        key: key("k1"),
        by,
        reason: DeclineReason::MethodNotAllowed,
        question: Some(question("sample?")),
    };
    let mut task = Task::born();
    task.one(sync(Status::InputRequired, 1), 1);
    assert_eq!(
        task.one(denied(Decider::Caller(None)), 2).change,
        Change::Unchanged
    );
    let decision = task.one(denied(Decider::Policy), 3);
    let chain = [
        "TaskCreated",
        "decline:method_not_allowed",
        "failed:consent_denied",
    ];
    assert_eq!(task.chain(), chain);
    let Detail::TaskConsentDecided {
        question: asked, ..
    } = decision.events[0].detail
    else {
        panic!("{decision:?}");
    };
    assert_eq!(asked, Some(question("sample?")));
}

#[test]
fn an_unanswered_question_expires() {
    let mut task = Task::asking();
    let ends = 1000 + CONSENT_TTL;
    assert_eq!(task.entry().due_at(), at(ends));
    // Seen again later: its time runs from first sight.
    task.one(ask(&[("k1", "deploy?")], Sight::Shown, 9000), 9000);
    let decision = task.run(update(&YES, ends), ends).unwrap();
    assert_eq!(decision.effects, [Effect::CancelUpstream]);
    assert_eq!(task.chain(), ["TaskCreated", "failed:consent_expired"]);
}

#[test]
fn a_question_that_went_away_expires_nothing() {
    let mut task = Task::asking();
    task.one(sync(Status::Working, 2000), 2000);
    assert_eq!(*task.slot("k1"), SlotState::Withdrawn);
    task.one(Command::Due, 1000 + CONSENT_TTL);
    assert_eq!(task.chain(), ["TaskCreated"]);
    // It comes back, and may be answered while its time runs.
    let mut back = Task::asking();
    back.one(sync(Status::Working, 2000), 2000);
    assert_eq!(
        back.run(update(&YES, 3000), 3000).unwrap().claims().len(),
        1
    );
}

#[test]
fn a_slow_poll_withdraws_no_newer_question() {
    let mut task = Task::asking();
    task.one(sync(Status::Working, 999), 2000);
    assert_eq!(*task.slot("k1"), SlotState::Open);
}

#[test]
fn a_definite_refusal_releases_the_claim() {
    let mut task = Task::asking();
    task.run(update(&YES, 2000), 2000).unwrap();
    // A reference to no current claim does nothing.
    for stale in [("k1", 7), ("k2", 1)] {
        let claims = refs(&[stale]);
        assert_eq!(
            task.one(Command::Release { claims }, 2001).change,
            Change::Unchanged
        );
    }
    task.one(
        Command::Release {
            claims: refs(&[("k1", 1)]),
        },
        2100,
    );
    assert_eq!(*task.slot("k1"), SlotState::Open);
    let other = [("k1", "deploy?", "yes, but")];
    let decision = task.run(update(&other, 2200), 2200).unwrap();
    assert_eq!(decision.claims(), refs(&[("k1", 2)]));
    task.one(
        Command::Release {
            claims: refs(&[("k1", 1)]),
        },
        2250,
    );
    task.one(
        Command::Confirm {
            claims: refs(&[("k1", 2)]),
        },
        2300,
    );
    assert_eq!(task.chain(), ["TaskCreated", "accept:confirmed"]);
}

/// A claim of 2 s whose relay ended in an unknown outcome at 3 s.
fn unknown() -> Task {
    let mut task = Task::asking();
    task.run(update(&YES, 2000), 2000).unwrap();
    task.one(
        Command::RelayUnknown {
            claims: refs(&[("k1", 1)]),
        },
        3000,
    );
    task
}

#[test]
fn an_unknown_outcome_is_settled_by_a_later_poll_only() {
    let listed = |began| {
        vec![
            sync(Status::InputRequired, began),
            ask(&[("k1", "deploy?")], Sight::Shown, began),
        ]
    };
    // Gone: consumed.
    let mut task = unknown();
    task.one(sync(Status::Working, 3000), 3500);
    assert!(matches!(task.slot("k1"), SlotState::Claimed { .. }));
    task.one(sync(Status::Working, 3001), 3500);
    assert_eq!(task.chain(), ["TaskCreated", "accept:settled"]);
    // Outstanding: only the byte-identical answer again.
    let mut task = unknown();
    task.run(listed(3000), 3500).unwrap();
    assert!(matches!(task.slot("k1"), SlotState::Claimed { .. }));
    task.run(listed(3001), 3500).unwrap();
    assert!(matches!(task.slot("k1"), SlotState::Unsettled { .. }));
    let other = [("k1", "deploy?", "yes, but")];
    assert_eq!(task.run(update(&other, 4000), 4000).unwrap().claims(), []);
    assert_eq!(
        task.run(update(&YES, 4000), 4000).unwrap().claims(),
        refs(&[("k1", 2)])
    );
    // Refused now: the first relay is still unknown, so still no other answer.
    task.one(
        Command::Release {
            claims: refs(&[("k1", 2)]),
        },
        4100,
    );
    assert_eq!(task.run(update(&other, 4200), 4200).unwrap().claims(), []);
    assert_eq!(
        task.run(update(&YES, 4300), 4300).unwrap().claims(),
        refs(&[("k1", 3)])
    );
    task.one(
        Command::Confirm {
            claims: refs(&[("k1", 3)]),
        },
        4400,
    );
    assert_eq!(task.chain(), ["TaskCreated", "accept:confirmed"]);
}

#[test]
fn without_an_end_the_deadline_decides() {
    let mut task = Task::asking();
    task.run(update(&YES, 2000), 2000).unwrap();
    task.one(sync(Status::Working, 5000), 5500);
    assert_eq!(task.chain(), ["TaskCreated"]);
    task.one(sync(Status::Working, 5001), 5500);
    assert_eq!(task.chain(), ["TaskCreated", "accept:settled"]);
}

#[test]
fn a_late_confirmation_is_the_truth() {
    let mut task = unknown();
    let poll = vec![
        sync(Status::InputRequired, 3001),
        ask(&[("k1", "deploy?")], Sight::Shown, 3001),
    ];
    task.run(poll, 3500).unwrap();
    let mut again = task.clone();
    again.run(update(&YES, 4000), 4000).unwrap();
    for task in [&mut task, &mut again] {
        task.one(
            Command::Confirm {
                claims: refs(&[("k1", 1)]),
            },
            4500,
        );
        assert_eq!(task.chain(), ["TaskCreated", "accept:confirmed"]);
    }
}

#[test]
fn a_terminal_event_closes_an_open_claim() {
    let ends = [
        (sync(Status::Completed, 4000), vec!["TaskCompleted"]),
        (sync(Status::Cancelled, 4000), vec!["TaskCancelled"]),
        (
            Command::Fail {
                cause: Cause::UpstreamRemoved,
            },
            vec!["failed:upstream_removed"],
        ),
    ];
    for (end, last) in ends {
        let mut task = unknown();
        task.one(end, 4000);
        let chain = [vec!["TaskCreated", "accept:unknown"], last].concat();
        assert_eq!(task.chain(), chain);
        let claims = refs(&[("k1", 1)]);
        assert_eq!(
            task.one(
                Command::Confirm {
                    claims: claims.clone()
                },
                4100
            )
            .events,
            []
        );
        assert_eq!(
            task.one(Command::Release { claims }, 4100).change,
            Change::Unchanged
        );
    }
    let mut task = unknown();
    task.one(Command::Drift { found: None }, 4000);
    let chain = [
        "TaskCreated",
        "DigestMismatchInTask",
        "accept:unknown",
        "failed:digest_drift",
    ];
    assert_eq!(task.chain(), chain);
}

#[test]
fn a_grant_given_in_time_is_not_expired_by_the_clock() {
    let mut task = Task::asking();
    task.run(update(&YES, 2000), 2000).unwrap();
    task.one(Command::Due, 1000 + CONSENT_TTL);
    assert_eq!(task.chain(), ["TaskCreated"]);
    // A late confirmation wins over time in the same decision.
    let ends = task.entry().expires_at().since(BORN);
    task.one(
        Command::Confirm {
            claims: refs(&[("k1", 1)]),
        },
        ends,
    );
    assert_eq!(task.words[1], "accept:confirmed");
}
