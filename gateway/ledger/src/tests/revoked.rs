//! A no that comes after a yes: it is never lost, and never follows that yes upstream.

use super::*;

const YES: [(&str, &str, &str); 1] = [("k1", "deploy?", "yes")];
const NO: [(&str, &str, &str); 1] = [("k1", "deploy?", "no")];
/// What the chain holds when the upstream did not take the yes.
const DENIED: [&str; 3] = ["TaskCreated", "decline:declined", "failed:consent_denied"];
/// What it holds when nobody knows.
const DENIED_IN_DOUBT: [&str; 4] = [
    "TaskCreated",
    "accept:unknown",
    "decline:declined",
    "failed:consent_denied",
];

/// A yes went upstream at 2 s, with 3 s to be answered.
fn on_its_way() -> Task {
    let mut task = Task::asking();
    let decision = task.one(claim(&YES, 5000), 2000);
    assert_eq!(decision.claims(), refs(&[("k1", 1)]));
    task
}

/// The same after a no, given in each of the ways there are.
fn revoked() -> [Task; 2] {
    [decline("k1"), claim(&NO, 5000)].map(|no| {
        let mut task = on_its_way();
        let decision = task.one(no, 2500);
        assert!(matches!(decision.change, Change::Commit(_)));
        assert_eq!((decision.events, decision.effects), (vec![], vec![]));
        assert!(task.entry().is_live());
        task
    })
}

fn confirm() -> Command {
    let claims = refs(&[("k1", 1)]);
    Command::Confirm { claims }
}

fn release(attempt: u32) -> Command {
    let claims = refs(&[("k1", attempt)]);
    Command::Release { claims }
}

fn relay_unknown() -> Command {
    let claims = refs(&[("k1", 1)]);
    Command::RelayUnknown { claims }
}

fn listed(ms: u64) -> Vec<Command> {
    vec![
        sync(Status::InputRequired, ms),
        ask(&[("k1", "deploy?")], Sight::Shown, ms),
    ]
}

#[test]
fn the_upstream_took_the_yes_so_that_it_stands() {
    for mut task in revoked() {
        task.one(confirm(), 3000);
        assert_eq!(task.chain(), ["TaskCreated", "accept:confirmed"]);
        assert!(task.entry().is_live());
    }
    for mut task in revoked() {
        task.one(sync(Status::Working, 5001), 5500);
        assert_eq!(task.chain(), ["TaskCreated", "accept:settled"]);
    }
}

#[test]
fn the_upstream_refused_the_yes_so_that_the_no_is_the_answer() {
    for mut task in revoked() {
        let decision = task.one(release(1), 3000);
        assert_eq!(decision.effects, [Effect::CancelUpstream]);
        assert_eq!(task.chain(), DENIED);
        let Detail::TaskConsentDecided { verdict, .. } = &decision.events[0].detail else {
            panic!("{decision:?}");
        };
        let by = Decider::Caller(Some(Principal::api_key("bob")));
        let declined = Verdict::Decline {
            by,
            reason: DeclineReason::Declined,
            relayed: None,
        };
        assert_eq!(*verdict, declined);
    }
    // Also where the task went on meanwhile, by what a poll says that began before.
    for mut task in revoked() {
        task.one(sync(Status::Working, 2600), 2600);
        task.one(release(1), 3000);
        assert_eq!(task.chain(), DENIED);
    }
}

#[test]
fn nobody_knows_of_the_yes_so_that_the_task_ends() {
    for mut task in revoked() {
        let decision = task.one(relay_unknown(), 3000);
        assert_eq!(decision.effects, [Effect::CancelUpstream]);
        assert_eq!(task.chain(), DENIED_IN_DOUBT);
    }
    // The one who relayed was killed: the first poll after the deadline knows.
    for mut task in revoked() {
        task.run(listed(5000), 5500).unwrap();
        assert_eq!(task.chain(), ["TaskCreated"]);
        let decision = task.run(listed(5001), 5500).unwrap();
        assert_eq!(decision.effects, [Effect::CancelUpstream]);
        assert_eq!(task.chain(), DENIED_IN_DOUBT);
    }
}

#[test]
fn a_no_after_the_end_of_the_relay_waits_for_nothing() {
    let mut ended = on_its_way();
    ended.one(relay_unknown(), 3000);
    let mut late = on_its_way();
    late.one(sync(Status::InputRequired, 4000), 4000);
    let mut unsettled = on_its_way();
    unsettled.one(relay_unknown(), 3000);
    unsettled.run(listed(3001), 3500).unwrap();
    for (task, ms) in [(ended, 3500), (late, 5001), (unsettled, 4000)] {
        for no in [decline("k1"), claim(&NO, 9000)] {
            let mut task = task.clone();
            assert_eq!(task.one(no, ms).effects, [Effect::CancelUpstream]);
            assert_eq!(task.chain(), DENIED_IN_DOUBT);
        }
    }
}

#[test]
fn a_no_to_an_answer_sent_again_counts_the_first_one_too() {
    let mut task = on_its_way();
    task.one(relay_unknown(), 3000);
    task.run(listed(3001), 3500).unwrap();
    let again = task.one(claim(&YES, 9000), 4000);
    assert_eq!(again.claims(), refs(&[("k1", 2)]));
    task.one(decline("k1"), 4100);
    // The first attempt's end is an old one.
    task.one(release(1), 4200);
    assert!(task.entry().is_live());
    task.one(release(2), 4300);
    assert_eq!(task.chain(), DENIED_IN_DOUBT);
}

#[test]
fn the_first_no_is_the_one() {
    let [mut task, _] = revoked();
    let by_policy = Command::Decline {
        key: key("k1"),
        by: Decider::Policy,
        reason: DeclineReason::MethodNotAllowed,
        question: None,
    };
    assert_eq!(task.one(by_policy.clone(), 2600).change, Change::Unchanged);
    task.one(release(1), 3000);
    assert_eq!(task.chain(), DENIED);
    // Whoever said it: what the policy no longer allows is no yes either.
    let mut task = on_its_way();
    task.one(by_policy, 2600);
    task.one(release(1), 3000);
    assert_eq!(task.chain()[1], "decline:method_not_allowed");
}

#[test]
fn nothing_else_of_that_update_is_relayed() {
    let mut task = Task::asking();
    let both = [("k1", "deploy?"), ("k2", "really?")];
    task.one(ask(&both, Sight::Shown, 1500), 1500);
    task.one(claim(&YES, 5000), 2000);
    let mixed = [("k1", "deploy?", "no"), ("k2", "really?", "yes")];
    assert_eq!(task.one(claim(&mixed, 6000), 2500).claims(), []);
    assert_eq!(*task.slot("k2"), SlotState::Open);
}

#[test]
fn an_end_of_its_own_is_the_end() {
    for mut task in revoked() {
        task.one(sync(Status::Completed, 2600), 2600);
        let chain = ["TaskCreated", "accept:unknown", "TaskCompleted"];
        assert_eq!(task.chain(), chain);
        assert_eq!(task.one(release(1), 3000).change, Change::Unchanged);
    }
}
