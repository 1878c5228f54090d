//! Registration, polls, drift, loss, time, cancel: a table a command.

use super::*;

#[test]
fn a_birth_is_one_event() {
    let task = Task::born();
    assert_eq!(task.chain(), ["TaskCreated"]);
    let entry = task.entry();
    assert_eq!((entry.version, entry.events), (BORN.0, 1));
    assert_eq!(entry.status(), Status::Working);
    assert!(entry.is_live());
}

#[test]
fn collisions() {
    let mut task = Task::born();
    assert_eq!(task.one(register(mk_birth()), 5).change, Change::Unchanged);
    let mut other_owner = mk_birth();
    other_owner.owner = mk_owner("bob");
    let mut other_tool = mk_birth();
    other_tool.tool = "drop".into();
    let mut elsewhere = mk_birth();
    elsewhere.owner.tenant.as_mut().unwrap().namespace = "evil".into();
    for birth in [other_owner, other_tool, elsewhere] {
        let refused = task.run(vec![register(birth)], 5);
        assert_eq!(refused.unwrap_err(), Refusal::Collision);
    }
    task.one(sync(Status::Completed, 10), 10);
    let refused = task.run(vec![register(mk_birth())], 20);
    assert_eq!(refused.unwrap_err(), Refusal::Collision);
    assert_eq!(task.chain(), ["TaskCreated", "TaskCompleted"]);
}

#[test]
fn a_purged_key_may_be_registered_afresh() {
    let mut task = Task::born();
    task.one(sync(Status::Completed, 10), 10);
    let before = task.entry().version;
    let mut birth = mk_birth();
    birth.owner = mk_owner("bob");
    task.one(register(birth), 10 + RETENTION);
    assert_eq!(task.entry().version, before + 1);
    assert_eq!(task.entry().birth.owner, mk_owner("bob"));
    assert_eq!(
        task.chain(),
        ["TaskCreated", "TaskCompleted", "TaskCreated"]
    );
}

#[test]
fn malformed_handles_are_refused() {
    let mut snapshot = mk_snapshot(Status::Working);
    snapshot.task_id = "other".parse().unwrap();
    let mut endless = mk_snapshot(Status::Working);
    endless.poll_interval_ms = Some(u64::MAX);
    for snapshot in [snapshot, endless] {
        let birth = Box::new(mk_birth());
        let refused = Task::default().run(vec![Command::Register { birth, snapshot }], 0);
        assert_eq!(refused.unwrap_err(), Refusal::Malformed);
    }
}

#[test]
fn a_handle_may_be_born_terminal() {
    let born = |status| {
        let mut task = Task::default();
        let snapshot = mk_snapshot(status);
        let birth = Box::new(mk_birth());
        task.one(Command::Register { birth, snapshot }, 0);
        task
    };
    assert_eq!(
        born(Status::Cancelled).chain(),
        ["TaskCreated", "TaskCancelled"]
    );
    let mut completed = born(Status::Completed);
    assert!(completed.entry().is_live());
    completed.one(sync(Status::Completed, 5), 5);
    assert_eq!(completed.chain(), ["TaskCreated", "TaskCompleted"]);
    let mut turned = born(Status::Completed);
    turned.one(sync(Status::Working, 5), 5);
    assert_eq!(turned.chain(), ["TaskCreated", "failed:upstream_protocol"]);
}

#[test]
fn every_command_but_a_birth_needs_an_entry() {
    let commands = [
        sync(Status::Working, 0),
        Command::Drift { found: None },
        decline("k1"),
        Command::CancelRequested,
        lost(0),
        Command::Due,
        Command::Confirm { claims: vec![] },
    ];
    for command in commands {
        let refused = Task::default().run(vec![command], 0);
        assert_eq!(refused.unwrap_err(), Refusal::Missing);
    }
}

#[test]
fn terminal_states_are_recorded_once() {
    let table = [
        (Status::Completed, "TaskCompleted"),
        (Status::Failed, "failed:upstream_failed"),
        (Status::Cancelled, "TaskCancelled"),
    ];
    for (status, word) in table {
        let mut task = Task::born();
        for ms in 1..=10 {
            task.one(sync(status, ms), ms);
        }
        assert_eq!(task.chain(), ["TaskCreated", word]);
        for other in Status::ALL.into_iter().filter(|other| *other != status) {
            let refused = task.run(vec![sync(other, 20)], 20);
            assert_eq!(refused.unwrap_err(), Refusal::Regression, "{other:?}");
        }
        assert_eq!(task.entry().status(), status);
    }
}

/// Two polls run at once: the later one finds the end and is answered first. The answer of the
/// earlier one was true when it was asked for, so it is no anomaly of the upstream.
#[test]
fn a_poll_that_was_overtaken_is_no_regression() {
    for status in [Status::Working, Status::InputRequired] {
        let mut task = Task::born();
        task.one(sync(Status::Completed, 10), 20);
        for began in [5, 20] {
            let decision = task.one(sync(status, began), 30);
            assert_eq!(
                (decision.change, decision.events),
                (Change::Unchanged, vec![])
            );
        }
        assert_eq!(task.entry().status(), Status::Completed);
        let refused = task.run(vec![sync(status, 21)], 30);
        assert_eq!(refused.unwrap_err(), Refusal::Regression);
    }
    // Two ends of one task contradict each other in any order.
    let mut task = Task::born();
    task.one(sync(Status::Completed, 10), 20);
    let refused = task.run(vec![sync(Status::Cancelled, 5)], 30);
    assert_eq!(refused.unwrap_err(), Refusal::Regression);
}

#[test]
fn another_task_in_the_answer_ends_it() {
    let mut task = Task::born();
    let mut snapshot = mk_snapshot(Status::Completed);
    snapshot.task_id = "other".parse().unwrap();
    let poll = Command::Sync {
        snapshot,
        began: at(1),
    };
    let decision = task.one(poll.clone(), 1);
    assert_eq!(decision.effects, [Effect::CancelUpstream]);
    assert_eq!(task.chain(), ["TaskCreated", "failed:upstream_protocol"]);
    let mut done = Task::born();
    done.one(sync(Status::Completed, 1), 1);
    assert_eq!(done.run(vec![poll], 2).unwrap_err(), Refusal::Regression);
}

#[test]
fn a_poll_costs_a_commit_only_when_it_changes_governance() {
    let mut task = Task::born();
    assert_eq!(
        task.one(sync(Status::Working, 1), 1).change,
        Change::Unchanged
    );
    let mut hint = mk_snapshot(Status::Working);
    hint.last_updated_at = "2026-12-01T06:00:07Z".parse().unwrap();
    hint.poll_interval_ms = None;
    let poll = |snapshot: &Snapshot, ms| Command::Sync {
        snapshot: snapshot.clone(),
        began: at(ms),
    };
    let decision = task.one(poll(&hint, 2), 2);
    assert!(matches!(decision.change, Change::WriteBehind(_)));
    assert_eq!(task.entry().version, BORN.0);
    assert_eq!(task.entry().contact_at, at(2));
    hint.ttl_ms = None;
    assert!(matches!(
        task.one(poll(&hint, 3), 3).change,
        Change::Commit(_)
    ));
    hint.status = Status::InputRequired;
    let decision = task.one(poll(&hint, 4), 4);
    assert!(matches!(decision.change, Change::Commit(_)));
    assert_eq!(decision.effects, [Effect::InputRequired]);
    assert_eq!(task.one(poll(&hint, 5), 5).effects, []);
    assert_eq!(task.entry().snapshot, hint);
    assert_eq!(task.entry().version, BORN.0 + 2);
}

#[test]
fn a_quiet_task_that_is_polled_stays() {
    let mut task = Task::born();
    let mut commits = 0;
    for ms in (0..RETENTION * 4).step_by(50_000) {
        let decision = task.one(sync(Status::Working, ms), ms);
        commits += u32::from(decision.change != Change::Unchanged);
    }
    assert_eq!(task.chain(), ["TaskCreated"]);
    assert!(commits < 65, "{commits} commits in four retentions");
    assert!(task.entry().expires_at() >= at(RETENTION * 5 - 50_000));
}

#[test]
fn retention_ends_a_task_once() {
    let mut task = Task::born();
    let ends = task.entry().expires_at().since(BORN);
    assert!(ends >= RETENTION);
    assert_eq!(task.one(Command::Due, ends - 1).change, Change::Unchanged);
    let decision = task.one(Command::Due, ends);
    assert_eq!(decision.effects, [Effect::CancelUpstream]);
    assert_eq!(task.one(Command::Due, ends + 1).change, Change::Unchanged);
    assert_eq!(task.entry().due_at(), at(ends + RETENTION));
    assert_eq!(
        task.one(Command::Due, ends + RETENTION).change,
        Change::Purge
    );
    assert_eq!(task.chain(), ["TaskCreated", "failed:evicted"]);
}

#[test]
fn what_is_left_of_the_ttl_outlasts_the_retention() {
    let mut task = Task::default();
    let mut snapshot = mk_snapshot(Status::Working);
    snapshot.ttl_ms = Some(RETENTION * 3);
    let birth = Box::new(mk_birth());
    task.one(Command::Register { birth, snapshot }, 0);
    assert_eq!(task.entry().expires_at(), at(RETENTION * 3));
}

#[test]
fn a_poll_that_began_in_time_evicts_nothing() {
    let mut task = Task::born();
    let ends = task.entry().expires_at().since(BORN);
    task.one(sync(Status::Working, ends - 1), ends + 5000);
    assert_eq!(task.chain(), ["TaskCreated"]);
    let ends = task.entry().expires_at().since(BORN);
    task.one(sync(Status::Completed, ends), ends);
    assert_eq!(task.chain(), ["TaskCreated", "failed:evicted"]);
}

#[test]
fn drift_wins_over_the_payload_it_came_with() {
    for status in [
        Status::Completed,
        Status::Failed,
        Status::InputRequired,
        Status::Working,
    ] {
        let mut task = Task::born();
        let found = Some(mk_digest("other"));
        let poll = vec![sync(status, 1), Command::Drift { found }];
        let decision = task.run(poll, 1).unwrap();
        assert_eq!(decision.effects, [Effect::CancelUpstream]);
        let chain = ["TaskCreated", "DigestMismatchInTask", "failed:digest_drift"];
        assert_eq!(task.chain(), chain);
        // Three polls later, and with the schema put back.
        for ms in 2..5 {
            let found = Some(mk_digest("contract"));
            let poll = vec![sync(Status::Completed, ms), Command::Drift { found }];
            assert_eq!(task.run(poll, ms).unwrap().change, Change::Unchanged);
            assert_eq!(task.one(Command::Drift { found: None }, ms).events, []);
        }
        assert_eq!(task.chain(), chain);
    }
}

#[test]
fn drift_on_a_terminal_entry_has_no_second_outcome() {
    let table = [
        (
            Status::Completed,
            vec!["TaskCreated", "TaskCompleted", "DigestMismatchInTask"],
        ),
        (
            Status::Failed,
            vec![
                "TaskCreated",
                "failed:upstream_failed",
                "DigestMismatchInTask",
            ],
        ),
        (Status::Cancelled, vec!["TaskCreated", "TaskCancelled"]),
    ];
    for (status, chain) in table {
        let mut task = Task::born();
        task.one(sync(status, 1), 1);
        for ms in 2..5 {
            let decision = task.one(Command::Drift { found: None }, ms);
            assert_eq!(decision.effects, []);
        }
        assert_eq!(task.chain(), chain);
        assert_eq!(task.entry().status(), status);
        assert_eq!(task.entry().mismatch_at.is_some(), chain.len() == 3);
    }
}

#[test]
fn the_bound_contract_is_no_drift() {
    let mut task = Task::born();
    let found = Some(mk_digest("contract"));
    assert_eq!(
        task.one(Command::Drift { found }, 1).change,
        Change::Unchanged
    );
}

#[test]
fn a_task_is_lost_after_two_answers_a_second_apart() {
    let mut task = Task::born();
    let first = task.one(lost(1000), 1000);
    assert!(matches!(first.change, Change::WriteBehind(_)));
    assert_eq!(task.one(lost(1999), 1999).change, Change::Unchanged);
    // Found again: it starts anew.
    task.one(sync(Status::Working, 1999), 1999);
    task.one(lost(2500), 2500);
    task.one(lost(3499), 3499);
    assert_eq!(task.chain(), ["TaskCreated"]);
    let decision = task.one(lost(3500), 3500);
    assert_eq!(decision.effects, []);
    assert_eq!(task.one(lost(9000), 9000).change, Change::Unchanged);
    assert_eq!(task.chain(), ["TaskCreated", "failed:upstream_lost"]);
}

/// Two polls of one moment were decided a second apart, because one answer was slow: together they
/// say no more than one of them.
#[test]
fn lost_is_measured_between_polls_and_not_between_decisions() {
    let mut task = Task::born();
    task.one(lost(1000), 1000);
    task.one(lost(1001), 4000);
    assert_eq!(task.chain(), ["TaskCreated"]);
    assert_eq!(task.entry().lost_since, Some(at(1000)));
    // The poll that began first may be the one that is answered last.
    let mut task = Task::born();
    task.one(lost(2000), 2500);
    task.one(lost(1000), 2600);
    assert_eq!(task.chain(), ["TaskCreated", "failed:upstream_lost"]);
}

#[test]
fn past_its_ttl_one_answer_is_enough() {
    let mut task = Task::born();
    task.one(lost(TTL + 1), TTL + 1);
    assert_eq!(task.chain(), ["TaskCreated", "failed:upstream_lost"]);
}

#[test]
fn a_finished_task_that_is_lost_is_not_found() {
    for status in [Status::Completed, Status::Failed] {
        let mut task = Task::born();
        task.one(sync(status, 1), 1);
        let refused = task.run(vec![lost(5000)], 5000);
        assert_eq!(refused.unwrap_err(), Refusal::Gone);
        assert_eq!(task.entry().status(), status);
    }
    let mut cancelled = Task::born();
    cancelled.one(sync(Status::Cancelled, 1), 1);
    assert_eq!(cancelled.one(lost(5000), 5000).change, Change::Unchanged);
}

#[test]
fn a_cancel_is_confirmed_by_a_poll_only() {
    let mut task = Task::born();
    // The first may have been lost on its way: each request is passed on.
    for ms in [1, 2, 3] {
        let decision = task.one(Command::CancelRequested, ms);
        assert_eq!(decision.effects, [Effect::CancelUpstream], "request {ms}");
        assert_eq!(decision.events, []);
    }
    assert_eq!(task.entry().cancel_requested_at, Some(at(1)));
    let mut done = task.clone();
    done.one(sync(Status::Completed, 4), 4);
    assert_eq!(done.chain(), ["TaskCreated", "TaskCompleted"]);
    task.one(sync(Status::Cancelled, 4), 4);
    let again = task.one(Command::CancelRequested, 5);
    assert_eq!((again.change, again.effects), (Change::Unchanged, vec![]));
    assert_eq!(task.chain(), ["TaskCreated", "TaskCancelled"]);
}

#[test]
fn causes_of_the_gateway() {
    let table = [
        (Cause::UpstreamProtocol, "failed:upstream_protocol", 1),
        (Cause::ConsentUnavailable, "failed:consent_unavailable", 1),
        (Cause::UpstreamRemoved, "failed:upstream_removed", 0),
        (Cause::UpstreamChanged, "failed:upstream_changed", 0),
    ];
    for (cause, word, cancels) in table {
        let mut task = Task::born();
        let decision = task.one(Command::Fail { cause }, 1);
        assert_eq!(decision.effects.len(), cancels, "{word}");
        assert_eq!(
            task.one(Command::Fail { cause }, 2).change,
            Change::Unchanged
        );
        // Whatever the upstream says later, the latched state is served.
        task.one(sync(Status::Completed, 3), 3);
        assert_eq!(task.chain(), ["TaskCreated", word]);
    }
}

#[test]
fn refusals_have_words() {
    let all = [
        Refusal::Collision,
        Refusal::Malformed,
        Refusal::Regression,
        Refusal::Gone,
        Refusal::Missing,
    ];
    let words: Vec<_> = all.into_iter().map(Refusal::reason).collect();
    assert_eq!(
        words,
        ["collision", "malformed", "regression", "gone", "missing"]
    );
}
