//! Random lives of a task against a naive model of what must never happen.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const KEYS: [&str; 3] = ["k1", "k2", "k3"];
const ANSWERS: [&str; 3] = ["yes", "yes, but", "no"];
/// Who may come to own the task, one after the other.
const OWNERS: [&str; 2] = ["alice-of-acme", "carol-of-globex"];

/// What the model knows of one key: nothing of slots, only of answers on the wire.
#[derive(Clone, Debug, Default)]
struct Wire {
    last: Option<Sent>,
    decided: u32,
}

#[derive(Clone, Debug)]
struct Sent {
    attempt: u32,
    answer: AnswerHash,
    deadline: Millis,
    ended: bool,
    /// No answer but this one any more.
    bound: bool,
}

#[derive(Debug, Default)]
struct Model {
    keys: BTreeMap<InputKey, Wire>,
    /// Events since its birth; none: no such task.
    events: Option<u64>,
    outcome: Option<Outcome>,
    mismatches: u32,
    ends: u32,
}

fn status() -> impl Strategy<Value = Status> {
    prop_oneof![
        3 => Just(Status::Working),
        8 => Just(Status::InputRequired),
        1 => Just(Status::Completed),
        1 => Just(Status::Failed),
        1 => Just(Status::Cancelled),
    ]
}

fn claims() -> impl Strategy<Value = Vec<ClaimRef>> {
    let one = (prop::sample::select(&KEYS[..]), 1_u32..4);
    prop::collection::vec(one, 1..3).prop_map(|picked| refs(&picked))
}

/// A poll: status, what is asked, how long ago it began. One question in thirty is another one.
fn poll() -> impl Strategy<Value = Vec<Command>> {
    let asked = prop::collection::btree_map(
        prop::sample::select(&KEYS[..]),
        prop_oneof![30 => Just("deploy?"), 1 => Just("transfer?")],
        0..4,
    );
    let sight = prop_oneof![4 => Just(Sight::Shown), 1 => Just(Sight::Compared)];
    (status(), asked, sight).prop_map(|(status, asked, sight)| {
        let asked: Vec<_> = asked.into_iter().collect();
        vec![sync(status, 0), ask(&asked, sight, 0)]
    })
}

fn answers() -> impl Strategy<Value = Vec<Command>> {
    let answer = prop::sample::select(&ANSWERS[..]);
    let grants = prop::collection::btree_map(prop::sample::select(&KEYS[..]), answer, 1..3);
    grants.prop_map(|grants| {
        let grants: Vec<_> = grants.into_iter().map(|(k, a)| (k, "deploy?", a)).collect();
        vec![claim(&grants, 2000)]
    })
}

fn step() -> impl Strategy<Value = Vec<Command>> {
    prop_oneof![
        20 => poll(),
        16 => answers(),
        6 => (poll(), answers()).prop_map(|(poll, answers)| [poll, answers].concat()),
        8 => claims().prop_map(|claims| vec![Command::Confirm { claims }]),
        8 => claims().prop_map(|claims| vec![Command::Release { claims }]),
        8 => claims().prop_map(|claims| vec![Command::RelayUnknown { claims }]),
        2 => prop::sample::select(&KEYS[..]).prop_map(|k| vec![decline(k)]),
        1 => Just(vec![Command::Drift { found: None }]),
        1 => poll().prop_map(|poll| [poll, vec![Command::Drift { found: None }]].concat()),
        2 => Just(vec![Command::Drift { found: Some(mk_digest("contract")) }]),
        2 => Just(vec![Command::CancelRequested]),
        2 => Just(vec![lost(0)]),
        2 => Just(vec![Command::Due]),
        1 => Just(vec![Command::Fail { cause: Cause::UpstreamProtocol }]),
        3 => prop::sample::select(&OWNERS[..]).prop_map(|owner| {
            let birth = Birth { owner: mk_owner(owner), ..mk_birth() };
            vec![register(birth)]
        }),
    ]
}

/// Fixture times are relative: a poll began `ago` before now, a deadline comes after it.
fn place(commands: &mut [Command], now: u64, ago: u64) {
    let then = at(now.saturating_sub(ago));
    for command in commands {
        match command {
            Command::Sync { began, .. } | Command::Lost { began } => *began = then,
            Command::Question(questions) => questions.began = then,
            Command::Claim { deadline, .. } => *deadline = deadline.plus(now),
            _ => {}
        }
    }
}

// === impl Model ===

impl Model {
    /// Takes note of what the relays reported.
    fn hear(&mut self, commands: &[Command]) {
        for command in commands {
            let (claims, released) = match command {
                Command::Release { claims } => (claims, true),
                Command::RelayUnknown { claims } => (claims, false),
                _ => continue,
            };
            for ClaimRef { key, attempt } in claims {
                let wire = self.keys.entry(key.clone()).or_default();
                let Some(sent) = wire.last.as_mut().filter(|sent| sent.attempt == *attempt) else {
                    continue;
                };
                if released && !sent.bound {
                    wire.last = None;
                } else {
                    sent.ended = true;
                }
            }
        }
    }

    /// An answer goes upstream: never twice, unless nobody knows how the first one ended.
    fn relay(&mut self, claims: &[ClaimRef], commands: &[Command], now: Millis) {
        let granted = commands.iter().find_map(|command| match command {
            Command::Claim {
                grants, deadline, ..
            } => Some((grants, *deadline)),
            _ => None,
        });
        for ClaimRef { key, attempt } in claims {
            let (grants, deadline) = granted.expect("a relay comes from a claim");
            let answer = grants[key].answer;
            let wire = self.keys.entry(key.clone()).or_default();
            assert_eq!(wire.decided, 0, "relayed after its decision");
            if let Some(sent) = &wire.last {
                assert!(
                    sent.ended || now > sent.deadline,
                    "relayed while on its way"
                );
                assert_eq!(
                    sent.answer, answer,
                    "another answer after an unknown outcome"
                );
            }
            let bound = wire.last.is_some();
            let attempt = *attempt;
            wire.last = Some(Sent {
                attempt,
                answer,
                deadline,
                ended: false,
                bound,
            });
        }
    }

    fn record(&mut self, events: &[Event]) {
        for event in events {
            let count = self.events.map(|count| count + 1);
            match &event.detail {
                Detail::TaskCreated {} => {
                    *self = Self::default();
                    self.events = Some(1);
                    continue;
                }
                Detail::TaskConsentDecided {
                    key: hash,
                    verdict:
                        Verdict::Accept { .. }
                        | Verdict::Decline {
                            relayed: Some(_), ..
                        },
                    ..
                } => {
                    let known = KEYS.into_iter().map(key).find(|key| key.hash() == *hash);
                    let wire = self.keys.get_mut(&known.unwrap()).expect("decided unsent");
                    wire.decided += 1;
                    assert_eq!(wire.decided, 1, "a grant was used twice");
                }
                Detail::TaskConsentDecided { .. } => assert_eq!(self.ends, 0),
                Detail::DigestMismatchInTask { .. } => self.mismatches += 1,
                Detail::TaskCompleted {} | Detail::TaskFailed { .. } | Detail::TaskCancelled {} => {
                    self.ends += 1;
                }
            }
            self.events = Some(count.expect("an event of a task that does not exist"));
        }
    }

    /// Holds after every decision.
    fn check(&mut self, before: Option<&Entry>, decision: &Decision, task: &Task) {
        assert!(self.ends <= 1 && self.mismatches <= 1);
        let Some(entry) = &task.entry else {
            *self = Self::default();
            return;
        };
        assert_eq!(self.events, Some(entry.events), "another number of events");
        let outcome = entry.latch.map(|latch| latch.outcome);
        if self.outcome.is_some() {
            assert_eq!(outcome, self.outcome, "a terminal state is final");
        }
        self.outcome = outcome;
        assert_eq!(self.ends == 1, outcome.is_some());
        let mismatch = entry.mismatch_at.is_some();
        assert_eq!(self.mismatches == 1, mismatch);
        let drifted = outcome == Some(Outcome::Failed(FailureReason::DigestDrift));
        let finished = matches!(
            outcome,
            Some(Outcome::Completed | Outcome::Failed(FailureReason::UpstreamFailed))
        );
        assert!(
            !mismatch || drifted || finished,
            "drift is latched for good"
        );
        if outcome.is_some() {
            assert!(decision.claims().is_empty(), "relayed after the end");
            let open = |slot: &Slot| {
                matches!(
                    slot.state,
                    SlotState::Claimed { .. } | SlotState::Unsettled { .. }
                )
            };
            assert!(!entry.slots.values().any(open), "a claim outlived its task");
        }
        let version = before.map(|before| before.version);
        match &decision.change {
            Change::Unchanged => assert_eq!(before, Some(entry)),
            Change::WriteBehind(_) => assert_eq!(Some(entry.version), version),
            Change::Commit(_) => {
                let next = version.map_or(entry.relayed_at.0, |version| version + 1);
                assert_eq!(entry.version, next);
            }
            Change::Purge => unreachable!("a purged entry is gone"),
        }
        if !matches!(decision.change, Change::Commit(_)) {
            assert!(decision.events.is_empty() && decision.claims().is_empty());
        }
        if let Some(last) = decision.events.last() {
            assert_eq!((entry.head, entry.events), (last.hash(), last.index + 1));
        }
    }
}

/// A decision names the owner that the task has, and nobody who had it or wants it.
fn assert_private(task: &Task, decision: &Decision) {
    let shown = format!("{decision:?}");
    let owner = task
        .entry
        .as_ref()
        .map(|entry| format!("{:?}", entry.birth.owner));
    for other in OWNERS {
        let is_owner = owner.as_ref().is_some_and(|owner| owner.contains(other));
        assert!(is_owner || !shown.contains(other), "{other} in {shown}");
    }
}

/// A no that came after a yes ends the task as soon as that yes is known to have gone nowhere, or
/// is no longer known to have gone anywhere.
fn assert_no_is_heard(before: Option<&Entry>, commands: &[Command], task: &Task) {
    let kept = |entry: &Entry, key: &InputKey| match &entry.slot(key)?.state {
        SlotState::Claimed {
            claim,
            revoked: Some(_),
            ..
        } => Some(claim.clone()),
        _ => None,
    };
    let is_live = task.entry.as_ref().is_some_and(Entry::is_live);
    for command in commands {
        let (Command::Release { claims } | Command::RelayUnknown { claims }) = command else {
            continue;
        };
        for ClaimRef { key, attempt } in claims {
            let claim = before.and_then(|entry| kept(entry, key));
            let over = claim.is_some_and(|claim| claim.attempt == *attempt);
            assert!(!over || !is_live, "a no was forgotten");
        }
    }
    let Some(entry) = task.entry.as_ref() else {
        return;
    };
    for claim in KEYS.into_iter().filter_map(|k| kept(entry, &key(k))) {
        let yes = claim.decline.is_none() && claim.ended_at.is_none();
        assert!(yes, "kept beside what is no yes on its way");
    }
}

/// One life: commands, how long after the last, how long ago their poll began, and which earlier commands
/// come again instead, if any.
type Step = (Vec<Command>, u64, u64, Option<prop::sample::Index>);

fn lives() -> impl Strategy<Value = Vec<Step>> {
    let pause = prop_oneof![40 => 0_u64..1500, 1 => 0..RETENTION];
    let again = prop::option::weighted(0.1, any::<prop::sample::Index>());
    prop::collection::vec((step(), pause, 0_u64..2500, again), 1..60)
}

fn live(steps: Vec<Step>) {
    let (mut task, mut model, mut now) = (Task::default(), Model::default(), 0);
    let mut history: Vec<Vec<Command>> = Vec::new();
    for (mut commands, pause, ago, again) in steps {
        now += pause;
        place(&mut commands, now, ago);
        if let Some(again) = again.filter(|_| !history.is_empty()) {
            commands = again.get(&history).clone();
        }
        history.push(commands.clone());
        let before = task.entry.clone();
        let Ok(decision) = task.run(commands.clone(), now) else {
            assert_eq!(task.entry, before);
            continue;
        };
        if before.as_ref().is_some_and(Entry::is_live) {
            model.hear(&commands);
        }
        assert_private(&task, &decision);
        assert_no_is_heard(before.as_ref(), &commands, &task);
        model.relay(decision.claims(), &commands, at(now));
        model.record(&decision.events);
        model.check(before.as_ref(), &decision, &task);
    }
    let summary = verify(task.lines.iter().map(Vec::as_slice)).unwrap();
    assert_eq!(summary.events, task.lines.len() as u64);
}

fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn no_life_breaks_a_promise(steps in lives()) {
        live(steps);
    }
}

proptest! {
    #![proptest_config(cases(50_000))]

    #[test]
    #[ignore = "takes minutes: cargo campaign model"]
    fn long_no_life_breaks_a_promise(steps in lives()) {
        live(steps);
    }
}
