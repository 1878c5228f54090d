//! Two replicas, one task: drift, answers, polls and a cancel in every order there is.
//!
//! Each request is a small program that does what the gateway does: read the entry, ask the upstream, look
//! at the contract, decide, commit on the version that was read, and read again where that moved. The
//! decisions are the real ones. All interleavings are searched, states that were seen before left out.

use std::collections::HashSet;
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher, Hash, Hasher as _};
use std::rc::Rc;

use super::*;

/// An entry beside a hash of its bytes, which are what makes two states the same.
#[derive(Clone)]
struct Kept(Rc<(Entry, u128)>);

/// Everything that can differ.
#[derive(Clone, PartialEq, Eq, Hash)]
struct World {
    store: Kept,
    chain: Chain,
    now: u64,
    upstream: Up,
    /// Each is a request at one of the replicas.
    requests: Vec<Request>,
    /// Answers that were sent, in order.
    wire: Vec<(&'static str, Fate)>,
    /// Cancels that were sent and did not arrive.
    cancels: bool,
    /// A no came after a yes that was not known to be taken.
    revoked: bool,
    ticks: u8,
    crashes: u8,
    may_drift: bool,
}

/// How often each kind of event is on the chain.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
struct Chain {
    ends: u8,
    mismatches: u8,
    /// Answers that went upstream, or may have.
    accepts: u8,
    /// Declines that never went there.
    declines: u8,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Up {
    status: Status,
    contract: &'static str,
    /// Answers to its question that it acted upon.
    taken: u8,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Request {
    what: What,
    at: At,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum What {
    Poll,
    Answer(&'static str),
    Cancel,
}

/// How far a request has come.
#[derive(Clone, PartialEq, Eq, Hash)]
enum At {
    Start,
    Asking {
        base: Kept,
        began: u64,
    },
    /// What the upstream said has arrived, and the contract is looked at after that.
    Looking {
        base: Kept,
        began: u64,
        said: Status,
    },
    Deciding {
        base: Kept,
        began: u64,
        said: Status,
        contract: Option<&'static str>,
    },
    Claiming {
        base: Kept,
    },
    Cancelling {
        base: Kept,
    },
    Relaying {
        base: Kept,
        claims: Vec<ClaimRef>,
    },
    Telling {
        base: Kept,
        claims: Vec<ClaimRef>,
        fate: Fate,
    },
    Done,
}

/// What became of an answer that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Fate {
    Acknowledged,
    /// The acknowledgement got lost.
    TakenUnheard,
    /// It never arrived, and nobody knows.
    LostUnheard,
    Refused,
}

/// How a commit looks at the version that its decision was taken on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Versions {
    Checked,
    /// As a store must not: shows that the search finds what it is for.
    Ignored,
}

/// What a search has seen.
#[derive(Debug, Default)]
struct Seen {
    states: usize,
    ends: usize,
    delivered: usize,
    relayed: usize,
    drifted: usize,
    taken_and_recorded: usize,
    /// A no that came after a yes ended the task.
    denied: usize,
}

/// A promise that does not hold, and how to get there.
#[derive(Debug)]
struct Violation {
    what: String,
    path: Vec<String>,
}

struct Search {
    versions: Versions,
    visited: HashSet<u128>,
    path: Vec<String>,
    seen: Seen,
}

type Next = Result<World, String>;

/// Long enough for every relay to have ended; two of them do not expire a question.
const TICK: u64 = 20_000;
const CLAIM: u64 = 15_000;
const QUESTION: (&str, &str) = ("k1", "deploy?");
/// Relayed like any answer, unless it comes after another.
const NO: &str = "no";
const BOUND: &str = "contract";
const CHANGED: &str = "another contract";

// === impl Kept ===

impl Kept {
    fn new(entry: &Entry) -> Self {
        let hash = fingerprint(&entry.encode());
        Self(Rc::new((entry.clone(), hash)))
    }

    fn entry(&self) -> &Entry {
        &self.0.0
    }
}

impl PartialEq for Kept {
    fn eq(&self, other: &Self) -> bool {
        self.0.1 == other.0.1
    }
}

impl Eq for Kept {}

impl Hash for Kept {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.1.hash(state);
    }
}

// === impl World ===

impl World {
    /// A task that asks, seen once; these requests are about to come.
    fn new(requests: &[What], ticks: u8, crashes: u8) -> Self {
        let task = Task::asking();
        let request = |what: &What| Request {
            what: *what,
            at: At::Start,
        };
        Self {
            store: Kept::new(task.entry()),
            chain: Chain::default(),
            now: 2000,
            upstream: Up {
                status: Status::InputRequired,
                contract: BOUND,
                taken: 0,
            },
            requests: requests.iter().map(request).collect(),
            wire: Vec::new(),
            cancels: false,
            revoked: false,
            ticks,
            crashes,
            may_drift: true,
        }
    }

    /// Every step that anybody may take now.
    fn steps(&self, versions: Versions) -> Vec<(String, Next)> {
        let mut steps = Vec::new();
        for index in 0..self.requests.len() {
            self.request_steps(index, versions, &mut steps);
        }
        let mut world = |name: &str, may: bool, change: fn(&mut Self)| {
            if may {
                let mut next = self.clone();
                change(&mut next);
                steps.push((name.to_owned(), Ok(next)));
            }
        };
        world("the contract changes", self.may_drift, |next| {
            next.may_drift = false;
            next.upstream.contract = CHANGED;
        });
        world("time passes", self.ticks > 0, |next| {
            next.ticks -= 1;
            next.now += TICK;
        });
        world("a cancel arrives", self.cancels, |next| {
            next.cancels = false;
            if !next.upstream.status.is_terminal() {
                next.upstream.status = Status::Cancelled;
            }
        });
        let is_done = self.upstream.status == Status::Working;
        world("the upstream completes", is_done, |next| {
            next.upstream.status = Status::Completed;
        });
        steps
    }

    fn request_steps(&self, index: usize, versions: Versions, steps: &mut Vec<(String, Next)>) {
        let Request { what, at } = &self.requests[index];
        let name = |does: &str| format!("{} {index} {does}", what.name());
        let to = |at: At| {
            let mut next = self.clone();
            next.requests[index].at = at;
            next
        };
        match at.clone() {
            At::Start => {
                let base = self.store.clone();
                let began = self.now;
                let at = match what {
                    _ if !base.entry().is_live() => At::Done,
                    What::Poll | What::Answer(_) => At::Asking { base, began },
                    What::Cancel => At::Cancelling { base },
                };
                steps.push((name("comes"), Ok(to(at))));
            }
            At::Asking { base, began } => {
                let said = self.upstream.status;
                let at = match said {
                    // Nothing to hand over, so nothing to look at the contract for.
                    Status::Working | Status::Cancelled => At::Deciding {
                        base,
                        began,
                        said,
                        contract: None,
                    },
                    _ => At::Looking { base, began, said },
                };
                steps.push((name("asks"), Ok(to(at))));
            }
            At::Looking { base, began, said } => {
                let at = At::Deciding {
                    base,
                    began,
                    said,
                    contract: Some(self.upstream.contract),
                };
                steps.push((name("looks"), Ok(to(at))));
            }
            At::Deciding { .. } => steps.push((name("decides"), self.decides(index, versions))),
            At::Claiming { .. } => steps.push((name("claims"), self.claims(index, versions))),
            At::Cancelling { base } => {
                let commands = vec![Command::CancelRequested];
                let next = self.commit(index, &base, commands, versions);
                let next = next.map(|(mut next, decision)| {
                    if decision.is_some() {
                        next.requests[index].at = At::Done;
                    }
                    next
                });
                steps.push((name("notes the cancel"), next));
            }
            At::Relaying { base, claims } => self.relaying(index, &base, &claims, steps),
            At::Telling { .. } => {
                steps.push((name("tells how it ended"), self.tells(index, versions)));
                self.crash(index, steps);
            }
            At::Done => {}
        }
    }

    fn relaying(
        &self,
        index: usize,
        base: &Kept,
        claims: &[ClaimRef],
        steps: &mut Vec<(String, Next)>,
    ) {
        let slot = base.entry().slot(&key(QUESTION.0));
        let in_time = slot.is_some_and(|slot| match &slot.state {
            SlotState::Claimed { claim, .. } => claim.deadline > at(self.now),
            _ => false,
        });
        let name = |does: &str| format!("answer {index} {does}");
        if in_time {
            for fate in self.fates() {
                let next = self.relays(index, base, claims, fate);
                steps.push((name(&format!("relays: {fate:?}")), next));
            }
            self.crash(index, steps);
            return;
        }
        // It is too late to send anything, so nobody can have taken it.
        let mut next = self.clone();
        next.requests[index].at = At::Telling {
            base: base.clone(),
            claims: claims.to_vec(),
            fate: Fate::Refused,
        };
        steps.push((name("is late"), Ok(next)));
    }

    /// The replica dies and takes what it knew with it.
    fn crash(&self, index: usize, steps: &mut Vec<(String, Next)>) {
        if self.crashes > 0 {
            let mut next = self.clone();
            next.crashes -= 1;
            next.requests[index].at = At::Done;
            let name = self.requests[index].what.name();
            steps.push((format!("{name} {index} dies"), Ok(next)));
        }
    }

    /// What can become of an answer that is sent now.
    fn fates(&self) -> Vec<Fate> {
        if self.upstream.status == Status::InputRequired {
            let taken = [Fate::Acknowledged, Fate::TakenUnheard];
            return [taken, [Fate::LostUnheard, Fate::Refused]].concat();
        }
        vec![Fate::Acknowledged, Fate::LostUnheard, Fate::Refused]
    }

    /// The end of a poll, and what an answer does first.
    fn decides(&self, index: usize, versions: Versions) -> Next {
        let Request { what, at } = &self.requests[index];
        let At::Deciding {
            base,
            began,
            said,
            contract,
        } = at
        else {
            return Err("not deciding".into());
        };
        let mut commands = vec![sync(*said, *began)];
        let drifted = contract.is_some_and(|contract| contract != BOUND);
        if drifted {
            let found = contract.map(mk_digest);
            commands.push(Command::Drift { found });
        }
        let sight = match what {
            What::Answer(_) => Sight::Compared,
            What::Poll | What::Cancel => Sight::Shown,
        };
        if *said == Status::InputRequired {
            commands.push(ask(&[QUESTION], sight, *began));
        }
        let (mut next, decision) = match self.commit(index, base, commands, versions) {
            Ok(committed) => committed,
            // Another poll latched what this one contradicts: that is served.
            Err(why) if why == Refusal::Regression.to_string() => {
                let mut next = self.clone();
                next.requests[index].at = At::Done;
                return Ok(next);
            }
            Err(why) => return Err(why),
        };
        if decision.is_none() {
            return Ok(next);
        }
        let entry = next.store.clone();
        let is_ours = entry
            .entry()
            .latch
            .is_some_and(|l| l.outcome.is_gateway_made());
        let handed =
            !is_ours && entry.entry().mismatch_at.is_none() && entry.entry().status() == *said;
        if handed && drifted {
            return Err("a payload was handed over under another contract".into());
        }
        next.requests[index].at = match what {
            What::Answer(_) if handed && *said == Status::InputRequired => {
                At::Claiming { base: entry }
            }
            _ => At::Done,
        };
        Ok(next)
    }

    fn claims(&self, index: usize, versions: Versions) -> Next {
        let Request { what, at } = &self.requests[index];
        let (What::Answer(words), At::Claiming { base }) = (what, at) else {
            return Err("not claiming".into());
        };
        let grant = [(QUESTION.0, QUESTION.1, *words)];
        let commands = vec![claim(&grant, self.now + CLAIM)];
        let (mut next, decision) = self.commit(index, base, commands, versions)?;
        let Some(decision) = decision else {
            return Ok(next);
        };
        let claims = decision.claims().to_vec();
        if !claims.is_empty() && self.revoked {
            return Err("an answer was granted after a no to the one before".into());
        }
        let slot = base.entry().slot(&key(QUESTION.0)).map(|slot| &slot.state);
        let after_yes = matches!(slot,
            Some(SlotState::Claimed { claim, .. } | SlotState::Unsettled { claim })
            if claim.decline.is_none());
        let asks = base.entry().is_live() && base.entry().status() == Status::InputRequired;
        next.revoked |= *words == NO && after_yes && asks;
        next.requests[index].at = if claims.is_empty() {
            At::Done
        } else {
            let base = next.store.clone();
            At::Relaying { base, claims }
        };
        Ok(next)
    }

    fn relays(&self, index: usize, base: &Kept, claims: &[ClaimRef], fate: Fate) -> Next {
        let What::Answer(words) = self.requests[index].what else {
            return Err("only an answer is relayed".into());
        };
        let slot = base.entry().slot(&key(QUESTION.0)).map(|slot| &slot.state);
        let granted = matches!(slot, Some(SlotState::Claimed { claim, .. })
            if claim.answer == answer(words));
        if !granted {
            return Err("relayed without a grant".into());
        }
        for (earlier, became) in &self.wire {
            match became {
                Fate::Refused => {}
                Fate::LostUnheard if *earlier == words => {}
                _ => return Err(format!("relayed again: {earlier} was {became:?}")),
            }
        }
        let mut next = self.clone();
        next.wire.push((words, fate));
        let takes = matches!(fate, Fate::Acknowledged | Fate::TakenUnheard);
        if takes && next.upstream.status == Status::InputRequired {
            next.upstream.taken += 1;
            next.upstream.status = Status::Working;
        }
        if next.upstream.taken > 1 {
            return Err("the upstream took two answers".into());
        }
        let (base, claims) = (base.clone(), claims.to_vec());
        next.requests[index].at = At::Telling { base, claims, fate };
        Ok(next)
    }

    fn tells(&self, index: usize, versions: Versions) -> Next {
        let At::Telling { base, claims, fate } = &self.requests[index].at else {
            return Err("nothing to tell".into());
        };
        let claims = claims.clone();
        let command = match fate {
            Fate::Acknowledged => Command::Confirm { claims },
            Fate::Refused => Command::Release { claims },
            Fate::TakenUnheard | Fate::LostUnheard => Command::RelayUnknown { claims },
        };
        let (mut next, decision) = self.commit(index, base, vec![command], versions)?;
        if decision.is_some() {
            next.requests[index].at = At::Done;
        }
        Ok(next)
    }

    /// Decides on what was read, and keeps it; where the entry moved, it is read again and no
    /// decision is returned.
    fn commit(
        &self,
        index: usize,
        base: &Kept,
        commands: Vec<Command>,
        versions: Versions,
    ) -> Result<(Self, Option<Decision>), String> {
        let mut next = self.clone();
        let decision = decide(&mk_key(), Some(base.entry()), commands, at(self.now));
        let decision = decision.map_err(|refusal| refusal.to_string())?;
        let moved = base.entry().version != self.store.entry().version;
        if moved && versions == Versions::Checked {
            next.requests[index].at.rebase(&self.store);
            return Ok((next, None));
        }
        let before = self.store.entry();
        if !decision.claims().is_empty() && (!before.is_live() || before.mismatch_at.is_some()) {
            return Err("a grant was given after the end or the drift".into());
        }
        next.record(before, &decision)?;
        if decision.effects.contains(&Effect::CancelUpstream) {
            next.cancels = true;
        }
        if let Some(entry) = decision.entry() {
            next.store = Kept::new(entry);
        }
        next.check(before)?;
        Ok((next, Some(decision)))
    }

    fn record(&mut self, before: &Entry, decision: &Decision) -> Result<(), String> {
        let (mut head, mut index) = (before.head, before.events);
        for event in &decision.events {
            if (event.prev, event.index) != (head, index) {
                return Err("an event does not follow the one before".into());
            }
            (head, index) = (event.hash(), index + 1);
            match &event.detail {
                Detail::TaskCreated {} => return Err("born twice".into()),
                Detail::DigestMismatchInTask { .. } => self.chain.mismatches += 1,
                Detail::TaskConsentDecided {
                    verdict: Verdict::Decline { relayed: None, .. },
                    ..
                } => self.chain.declines += 1,
                Detail::TaskConsentDecided { .. } => self.chain.accepts += 1,
                Detail::TaskCompleted {} | Detail::TaskFailed { .. } | Detail::TaskCancelled {} => {
                    self.chain.ends += 1;
                }
            }
        }
        Ok(())
    }

    /// What must hold after every commit.
    fn check(&self, before: &Entry) -> Result<(), String> {
        let entry = self.store.entry();
        let Chain {
            ends,
            mismatches,
            accepts,
            declines,
        } = self.chain;
        if before.latch.is_some() && entry.latch != before.latch {
            return Err("a terminal state was left".into());
        }
        if ends > 1 || mismatches > 1 || accepts > 1 || declines > 1 {
            return Err(format!(
                "{ends} ends, {mismatches} mismatches, {accepts} accepts, {declines} declines"
            ));
        }
        if (ends == 1) != entry.latch.is_some() {
            return Err("the chain and the latch differ".into());
        }
        if (mismatches == 1) != entry.mismatch_at.is_some() {
            return Err("the chain and the mismatch differ".into());
        }
        if mismatches == 1 && entry.is_live() {
            return Err("drift did not win".into());
        }
        Ok(())
    }

    /// What must hold when nobody has anything left to do.
    fn check_end(&self) -> Result<(), String> {
        let is_over = !self.store.entry().is_live();
        let recorded = self.chain.accepts == 1;
        if self.upstream.taken == 1 && is_over && !recorded {
            return Err("an answer was taken and no accept is on the chain".into());
        }
        Ok(())
    }
}

// === impl What ===

impl What {
    fn name(self) -> &'static str {
        match self {
            Self::Poll => "poll",
            Self::Answer(_) => "answer",
            Self::Cancel => "cancel",
        }
    }
}

// === impl At ===

impl At {
    fn rebase(&mut self, store: &Kept) {
        match self {
            Self::Asking { base, .. }
            | Self::Looking { base, .. }
            | Self::Deciding { base, .. }
            | Self::Claiming { base }
            | Self::Cancelling { base }
            | Self::Relaying { base, .. }
            | Self::Telling { base, .. } => *base = store.clone(),
            Self::Start | Self::Done => {}
        }
    }
}

// === impl Search ===

impl Search {
    fn run(world: &World, versions: Versions) -> Result<Seen, Violation> {
        let mut search = Self {
            versions,
            visited: HashSet::new(),
            path: Vec::new(),
            seen: Seen::default(),
        };
        search.visit(world)?;
        Ok(search.seen)
    }

    fn visit(&mut self, world: &World) -> Result<(), Violation> {
        if !self.visited.insert(fingerprint(world)) {
            return Ok(());
        }
        self.seen.states += 1;
        let steps = world.steps(self.versions);
        let is_end = world.requests.iter().all(|request| request.at == At::Done);
        if is_end {
            self.count(world);
            world.check_end().map_err(|what| self.violation(what))?;
        }
        for (name, next) in steps {
            self.path.push(name);
            let next = next.map_err(|what| self.violation(what))?;
            self.visit(&next)?;
            self.path.pop();
        }
        Ok(())
    }

    /// So that a search that reaches nothing is no proof.
    fn count(&mut self, world: &World) {
        let entry = world.store.entry();
        let completed = entry.latch.map(|latch| latch.outcome) == Some(Outcome::Completed);
        self.seen.ends += 1;
        self.seen.delivered += usize::from(completed);
        self.seen.relayed += usize::from(!world.wire.is_empty());
        self.seen.drifted += usize::from(world.chain.mismatches == 1);
        let recorded = world.upstream.taken == 1 && world.chain.accepts == 1;
        self.seen.taken_and_recorded += usize::from(recorded);
        self.seen.denied += usize::from(world.chain.declines == 1);
    }

    fn violation(&self, what: String) -> Violation {
        let path = self.path.clone();
        Violation { what, path }
    }
}

/// Of 128 bits, so that no two states of a search share one.
fn fingerprint(what: &impl Hash) -> u128 {
    let half = |salt: u8| {
        let mut hasher = BuildHasherDefault::<DefaultHasher>::default().build_hasher();
        salt.hash(&mut hasher);
        what.hash(&mut hasher);
        u128::from(hasher.finish())
    };
    half(0) << 64 | half(1)
}

fn assert_sound(requests: &[What], ticks: u8, crashes: u8) -> Seen {
    let world = World::new(requests, ticks, crashes);
    let seen = Search::run(&world, Versions::Checked).unwrap();
    println!("{seen:?}");
    assert!(seen.relayed > 0 && seen.drifted > 0 && seen.taken_and_recorded > 0);
    assert!(
        seen.delivered > 0 || !requests.contains(&What::Poll),
        "{seen:?}"
    );
    seen
}

#[test]
fn a_yes_and_a_no_race_with_drift() {
    let requests = [What::Answer("yes"), What::Answer(NO), What::Answer("yes")];
    let seen = assert_sound(&requests, 0, 0);
    assert!(seen.denied > 0, "{seen:?}");
}

#[test]
fn two_answers_race_with_drift() {
    assert_sound(&[What::Answer("yes"), What::Answer("yes, but")], 1, 1);
}

/// One client that tries again at the other replica.
#[test]
fn the_same_answer_twice_races_with_drift() {
    assert_sound(&[What::Answer("yes"), What::Answer("yes")], 1, 1);
}

#[test]
fn an_answer_a_poll_and_a_cancel_race_with_drift() {
    assert_sound(&[What::Answer("yes"), What::Poll, What::Cancel], 1, 1);
}

/// Both replicas answer, poll and cancel, and time passes more than once.
#[test]
#[ignore = "takes minutes: cargo campaign model"]
fn long_everything_races_with_drift() {
    let answers = [What::Answer("yes"), What::Answer("yes, but")];
    let again = [What::Answer("yes"), What::Answer("yes")];
    let mixed = [What::Answer("yes"), What::Answer(NO), What::Answer("yes")];
    assert_sound(&[&again[..], &[What::Poll]].concat(), 2, 1);
    assert_sound(&mixed, 2, 1);
    assert_sound(&[&answers[..], &[What::Poll]].concat(), 2, 1);
    assert_sound(&[&answers[..], &[What::Cancel]].concat(), 2, 1);
    assert_sound(
        &[&answers[..1], &[What::Poll, What::Poll, What::Cancel]].concat(),
        1,
        1,
    );
}

/// Without them a second replica would decide on what is no longer so.
#[test]
fn without_versions_the_search_finds_a_broken_promise() {
    let requests = [What::Answer("yes"), What::Answer("yes, but")];
    let world = World::new(&requests, 0, 0);
    let violation = Search::run(&world, Versions::Ignored).unwrap_err();
    let Violation { what, path } = violation;
    assert!(path.len() > 5, "{what} after {path:?}");
}
