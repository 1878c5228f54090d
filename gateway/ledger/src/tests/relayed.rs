//! A no that is relayed instead of ending the task.

use super::*;

const NO: [(&str, &str, &str); 1] = [("k1", "deploy?", "no")];
const YES: [(&str, &str, &str); 1] = [("k1", "deploy?", "yes")];

fn confirm(claims: &[(&str, u32)]) -> Command {
    Command::Confirm {
        claims: refs(claims),
    }
}

/// The answer went out at 2 s, its relay ended unknown at 3 s, and a poll at 3.5 s still asks.
fn unsettled(grants: &[(&str, &str, &str)]) -> Task {
    let mut task = Task::asking();
    task.one(claim(grants, 5000), 2000);
    let claims = refs(&[("k1", 1)]);
    task.one(Command::RelayUnknown { claims }, 3000);
    let poll = vec![
        sync(Status::InputRequired, 3500),
        ask(&[("k1", "deploy?")], Sight::Shown, 3500),
    ];
    task.run(poll, 3500).unwrap();
    assert!(matches!(task.slot("k1"), SlotState::Unsettled { .. }));
    task
}

#[test]
fn a_relayed_no_is_claimed_and_recorded_and_the_task_lives_on() {
    let mut task = Task::asking();
    let decision = task.one(claim(&NO, 5000), 2000);
    assert_eq!(decision.claims(), refs(&[("k1", 1)]));
    assert_eq!(decision.events, []);
    assert!(matches!(decision.change, Change::Commit(_)));
    // While it is on its way it is the answer.
    assert_eq!(task.one(claim(&YES, 5000), 2001).change, Change::Unchanged);
    assert_eq!(task.one(claim(&NO, 5000), 2002).change, Change::Unchanged);
    let decision = task.one(confirm(&[("k1", 1)]), 2100);
    let Detail::TaskConsentDecided { verdict, .. } = &decision.events[0].detail else {
        panic!("{decision:?}");
    };
    let declined = Verdict::Decline {
        by: Decider::Caller(Some(Principal::api_key("bob"))),
        reason: DeclineReason::Declined,
        relayed: Some(Relayed {
            answer: answer("no"),
            relay: Relay::Confirmed,
        }),
    };
    assert_eq!(*verdict, declined);
    assert_eq!(decision.effects, []);
    assert!(task.entry().is_live());
    // Used: neither answer goes out again.
    assert_eq!(task.one(claim(&YES, 9000), 2200).change, Change::Unchanged);
    task.one(sync(Status::Completed, 2300), 2300);
    let chain = ["TaskCreated", "decline:declined", "TaskCompleted"];
    assert_eq!(task.chain(), chain);
}

#[test]
fn a_yes_and_a_relayed_no_go_together() {
    let mut task = Task::asking();
    let both = [("k1", "deploy?"), ("k2", "really?")];
    task.one(ask(&both, Sight::Shown, 1500), 1500);
    let mixed = [("k1", "deploy?", "yes"), ("k2", "really?", "no")];
    let decision = task.one(claim(&mixed, 5000), 2000);
    assert_eq!(decision.claims(), refs(&[("k1", 1), ("k2", 1)]));
    task.one(confirm(&[("k1", 1), ("k2", 1)]), 2100);
    assert!(task.entry().is_live());
    assert_eq!(
        task.chain(),
        ["TaskCreated", "accept:confirmed", "decline:declined"]
    );
}

#[test]
fn a_definite_refusal_releases_a_no_too() {
    let mut task = Task::asking();
    task.one(claim(&NO, 5000), 2000);
    let claims = refs(&[("k1", 1)]);
    task.one(Command::Release { claims }, 2100);
    assert_eq!(*task.slot("k1"), SlotState::Open);
    let decision = task.one(claim(&YES, 6000), 2200);
    assert_eq!(decision.claims(), refs(&[("k1", 2)]));
    task.one(confirm(&[("k1", 2)]), 2300);
    assert_eq!(task.chain(), ["TaskCreated", "accept:confirmed"]);
}

#[test]
fn a_no_of_unknown_outcome_is_settled_by_a_poll_or_by_the_end() {
    let mut gone = unsettled(&NO);
    gone.one(sync(Status::Working, 4000), 4000);
    assert_eq!(gone.chain(), ["TaskCreated", "decline:declined"]);
    assert!(gone.entry().is_live());
    let mut again = unsettled(&NO);
    // A yes is not the byte-identical answer.
    assert_eq!(again.one(claim(&YES, 9000), 4000).claims(), []);
    let decision = again.one(claim(&NO, 9000), 4001);
    assert_eq!(decision.claims(), refs(&[("k1", 2)]));
    let mut ended = unsettled(&NO);
    let decision = ended.one(sync(Status::Cancelled, 4000), 4000);
    let Detail::TaskConsentDecided { verdict, .. } = &decision.events[0].detail else {
        panic!("{decision:?}");
    };
    let relay = |verdict: &Verdict| match verdict {
        Verdict::Decline { relayed, .. } => relayed.map(|relayed| relayed.relay),
        Verdict::Accept { .. } => None,
    };
    assert_eq!(relay(verdict), Some(Relay::Unknown));
}

/// The yes may have been taken: a no cannot be sent after it, and must not be lost either.
#[test]
fn a_no_after_a_yes_of_unknown_outcome_ends_the_task() {
    let mut task = unsettled(&YES);
    let decision = task.one(claim(&NO, 9000), 4000);
    assert_eq!(decision.claims(), []);
    assert_eq!(decision.effects, [Effect::CancelUpstream]);
    let chain = [
        "TaskCreated",
        "accept:unknown",
        "decline:declined",
        "failed:consent_denied",
    ];
    assert_eq!(task.chain(), chain);
}

#[test]
fn a_relayed_no_is_on_a_chain_once() {
    let relayed = Relayed {
        answer: answer("no"),
        relay: Relay::Confirmed,
    };
    let detail = Detail::TaskConsentDecided {
        key: key("k1").hash(),
        question: Some(question("deploy?")),
        verdict: Verdict::Decline {
            by: Decider::Caller(None),
            reason: DeclineReason::Cancelled,
            relayed: Some(relayed),
        },
    };
    let mut entry = Task::born().entry().clone();
    let mut lines = Task::born().lines;
    for _ in 0..2 {
        let event = Event::next(&entry, at(1), detail.clone());
        entry.head = event.hash();
        entry.events += 1;
        lines.push(event.line());
    }
    assert!(verify(lines[..2].iter()).is_ok());
    let broken = verify(lines.iter()).unwrap_err();
    assert_eq!((broken.line, broken.reason()), (3, "transition"));
}
