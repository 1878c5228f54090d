//! The ends that time brings: what is seen of them depends on the instant, and on nothing else.

use super::*;

/// What a client can tell of a task: status, why and when it ended, until when it is there.
type View = Option<(Status, Option<Latch>, Millis)>;

const ORDERS: [[&str; 3]; 6] = [
    ["get", "update", "cancel"],
    ["get", "cancel", "update"],
    ["update", "get", "cancel"],
    ["update", "cancel", "get"],
    ["cancel", "get", "update"],
    ["cancel", "update", "get"],
];

fn view(task: &Task) -> View {
    let seen = |entry: &Entry| (entry.status(), entry.latch, entry.gone_at());
    task.entry.as_ref().map(seen)
}

/// A follow-up as the gateway runs it: time first, and nothing for what has ended by it.
fn follow_up(task: &mut Task, method: &str, ms: u64) {
    if task.entry.is_none() {
        return;
    }
    task.one(Command::Due, ms);
    if !task.entry.as_ref().is_some_and(Entry::is_live) {
        return;
    }
    match method {
        "update" => task.one(claim(&[("none", "of these", "yes")], ms + 5000), ms),
        "cancel" => task.one(Command::CancelRequested, ms),
        // An upstream that is silent: the ledger is all there is.
        _ => task.one(Command::Due, ms),
    };
}

/// Tasks that time ends: one that nobody asks for, one whose question nobody answers, one whose
/// question would outlive it, and one that is over.
fn tasks() -> Vec<(&'static str, Task)> {
    let mut done = Task::born();
    done.one(sync(Status::Completed, 10), 10);
    let mut patient = Task::born();
    let Command::Question(questions) = ask(&[("k1", "deploy?")], Sight::Shown, 1000) else {
        unreachable!("a question");
    };
    let patient_poll = vec![
        sync(Status::InputRequired, 1000),
        Command::Question(Questions {
            ttl_ms: 10 * RETENTION,
            ..questions
        }),
    ];
    patient.run(patient_poll, 1000).unwrap();
    vec![
        ("live", Task::born()),
        ("asking", Task::asking()),
        ("patient", patient),
        ("done", done),
    ]
}

/// A task was gone for one method and there for another, and whether it was there at all depended on
/// whether a sweeper had come by.
#[test]
fn bb_10_all_methods_agree_at_every_instant_and_no_sweeper_is_seen() {
    for (what, task) in tasks() {
        let due = task.entry().due_at().since(BORN);
        let gone = task.entry().gone_at().since(BORN);
        let instants = [due - 1, due, due + 1, gone - 1, gone, gone + 1, 3 * gone];
        for at in instants {
            let mut plain = task.clone();
            follow_up(&mut plain, "get", at);
            assert_eq!(plain.entry.is_none(), at >= gone, "{what} at {at}");
            let live = plain.entry.as_ref().is_some_and(Entry::is_live);
            assert_eq!(live, at < due && what != "done", "{what} at {at}");
            let chain: Vec<_> = plain.chain().into_iter().map(str::to_owned).collect();
            let sweeps = instants.into_iter().filter(|sweep| *sweep <= at);
            for sweep in sweeps.map(Some).chain([None]) {
                for order in ORDERS {
                    let mut swept = task.clone();
                    if let Some(sweep) = sweep {
                        swept.one(Command::Due, sweep);
                    }
                    for method in order {
                        follow_up(&mut swept, method, at);
                        let what = format!("{what} at {at}, swept at {sweep:?}, {order:?}");
                        assert_eq!(view(&swept), view(&plain), "{what}: {method}");
                        assert_eq!(swept.chain(), chain, "{what}: {method}");
                    }
                }
            }
        }
    }
}

/// Nobody looked for so long that its end is over too: the end is recorded all the same, once.
#[test]
fn an_end_that_nobody_saw_is_on_the_chain() {
    let mut task = Task::born();
    let gone = task.entry().gone_at().since(BORN);
    let decision = task.one(Command::Due, gone);
    assert_eq!(decision.change, Change::Purge);
    assert_eq!(decision.effects, [Effect::CancelUpstream]);
    assert_eq!(task.chain(), ["TaskCreated", "failed:evicted"]);
    task.one(register(mk_birth()), gone);
    assert_eq!(
        task.chain(),
        ["TaskCreated", "failed:evicted", "TaskCreated"]
    );
}

/// Of two ends the earlier one is the end, whoever looks when.
#[test]
fn the_first_of_two_ends_counts() {
    for (what, reason) in [
        ("asking", FailureReason::ConsentExpired),
        ("patient", FailureReason::Evicted),
    ] {
        let (_, mut task) = tasks().into_iter().find(|(name, _)| *name == what).unwrap();
        let (due, gone) = (task.entry().due_at(), task.entry().gone_at());
        task.one(Command::Due, gone.since(BORN) - 1);
        let latch = task.entry().latch.unwrap();
        assert_eq!(latch.outcome, Outcome::Failed(reason), "{what}");
        assert_eq!(latch.at, due, "{what}");
    }
}
