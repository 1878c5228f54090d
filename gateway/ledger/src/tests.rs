//! Fixtures, and the tests of the ledger by kind.

mod chain;
mod consent;
mod expiry;
mod lifecycle;
mod model;
mod race;
mod relayed;
mod revoked;

use hangar_wire::{Epoch, Generation, ObjectDigest, Sha256Hex, Term};

use super::*;

/// When every fixture task is born.
const BORN: Millis = Millis(1_790_000_000_000);
const RETENTION: u64 = 1_600_000;
const TTL: u64 = 900_000;
const CONSENT_TTL: u64 = 60_000;

fn at(ms: u64) -> Millis {
    BORN.plus(ms)
}

fn mk_key() -> TaskKey {
    TaskKey::new(UpstreamUid("uid-reports".into()), "9f1c".parse().unwrap())
}

fn mk_owner(principal: &str) -> Owner {
    let tenant = TenantRef {
        namespace: "hangar".into(),
        tenant: "acme".into(),
    };
    Owner::new(tenant, Some(Principal::api_key(principal)))
}

fn mk_digest(of: &str) -> ToolDigest {
    ToolDigest(Sha256Hex::of(of.as_bytes()))
}

fn mk_birth() -> Birth {
    Birth {
        owner: mk_owner("alice"),
        upstream: "tools/reports".into(),
        tool: "crawl".into(),
        digest: mk_digest("contract"),
        upstream_object: ObjectDigest(Sha256Hex::of(b"upstream object")),
        policy_object: ObjectDigest(Sha256Hex::of(b"policy object")),
        term: Term {
            epoch: Epoch(3),
            generation: Generation(7),
        },
        correlation: "corr-1".into(),
        retention_ms: RETENTION,
        declared: std::collections::BTreeSet::new(),
    }
}

fn mk_snapshot(status: Status) -> Snapshot {
    Snapshot {
        task_id: mk_key().task,
        status,
        created_at: "2026-12-01T06:00:00Z".parse().unwrap(),
        last_updated_at: "2026-12-01T06:00:00.000001+00:00".parse().unwrap(),
        ttl_ms: Some(TTL),
        poll_interval_ms: Some(500),
    }
}

fn register(birth: Birth) -> Command {
    Command::Register {
        birth: Box::new(birth),
        snapshot: mk_snapshot(Status::Working),
    }
}

/// A poll that began and ended at one instant.
fn sync(status: Status, began: u64) -> Command {
    Command::Sync {
        snapshot: mk_snapshot(status),
        began: at(began),
    }
}

fn lost(began: u64) -> Command {
    Command::Lost { began: at(began) }
}

fn key(text: &str) -> InputKey {
    text.parse().unwrap()
}

fn question(text: &str) -> QuestionHash {
    QuestionHash(Sha256Hex::of(text.as_bytes()))
}

fn answer(text: &str) -> AnswerHash {
    AnswerHash(Sha256Hex::of(text.as_bytes()))
}

/// The questions of a poll, as `(key, text)`.
fn ask(asked: &[(&str, &str)], sight: Sight, began: u64) -> Command {
    let hashed = asked.iter().map(|(k, text)| (key(k), question(text)));
    Command::Question(Questions {
        outstanding: hashed.collect(),
        sight,
        ttl_ms: CONSENT_TTL,
        began: at(began),
    })
}

/// Answers to questions, as `(key, question, answer)`; one that begins with `no` is a no.
fn claim(grants: &[(&str, &str, &str)], deadline: u64) -> Command {
    let grant = |(k, q, a): &(&str, &str, &str)| {
        let grant = Grant {
            question: question(q),
            answer: answer(a),
            decline: a.starts_with("no").then_some(DeclineReason::Declined),
        };
        (key(k), grant)
    };
    Command::Claim {
        principal: Some(Principal::api_key("bob")),
        grants: grants.iter().map(grant).collect(),
        deadline: at(deadline),
    }
}

fn refs(claims: &[(&str, u32)]) -> Vec<ClaimRef> {
    let one = |(k, attempt): &(&str, u32)| ClaimRef {
        key: key(k),
        attempt: *attempt,
    };
    claims.iter().map(one).collect()
}

fn decline(k: &str) -> Command {
    Command::Decline {
        key: key(k),
        by: Decider::Caller(Some(Principal::api_key("bob"))),
        reason: DeclineReason::Declined,
        question: None,
    }
}

/// A task and everything that was recorded of it.
#[derive(Clone, Debug, Default)]
struct Task {
    entry: Option<Entry>,
    lines: Vec<Vec<u8>>,
    words: Vec<String>,
}

impl Task {
    fn born() -> Self {
        let mut task = Self::default();
        task.run(vec![register(mk_birth())], 0).unwrap();
        task
    }

    /// Born, and asking `k1` since 1 s.
    fn asking() -> Self {
        let mut task = Self::born();
        let poll = vec![
            sync(Status::InputRequired, 1000),
            ask(&[("k1", "deploy?")], Sight::Shown, 1000),
        ];
        task.run(poll, 1000).unwrap();
        task
    }

    /// Decides and keeps, as the store would.
    fn run(&mut self, commands: Vec<Command>, ms: u64) -> Result<Decision, Refusal> {
        let decision = decide(&mk_key(), self.entry.as_ref(), commands, at(ms))?;
        if let Some(entry) = decision.entry() {
            self.entry = Some(Entry::decode(&entry.encode()).unwrap());
            assert_eq!(self.entry.as_ref(), Some(entry));
        }
        if decision.change == Change::Purge {
            self.entry = None;
        }
        self.lines.extend(decision.events.iter().map(Event::line));
        self.words.extend(decision.events.iter().map(word));
        Ok(decision)
    }

    fn one(&mut self, command: Command, ms: u64) -> Decision {
        self.run(vec![command], ms).unwrap()
    }

    fn entry(&self) -> &Entry {
        self.entry.as_ref().unwrap()
    }

    fn slot(&self, k: &str) -> &SlotState {
        &self.entry().slot(&key(k)).unwrap().state
    }

    /// The chain so far, in words; it must verify.
    fn chain(&self) -> Vec<&str> {
        verify(self.lines.iter().map(Vec::as_slice)).unwrap();
        self.words.iter().map(String::as_str).collect()
    }
}

/// An event in one word.
fn word(event: &Event) -> String {
    match &event.detail {
        Detail::TaskFailed { reason } => format!("failed:{}", reason.as_str()),
        Detail::TaskConsentDecided { verdict, .. } => {
            format!("{}:{}", verdict.as_str(), verdict.reason())
        }
        detail => detail.as_str().to_owned(),
    }
}

#[test]
fn words_are_the_wire_names() {
    for status in Status::ALL {
        assert_eq!(serde_json::to_value(status).unwrap(), status.as_str());
        assert_eq!(Status::parse(status.as_str()), Some(status));
    }
    assert_eq!(Status::parse("running"), None);
    let reasons = [
        FailureReason::UpstreamFailed,
        FailureReason::UpstreamLost,
        FailureReason::UpstreamProtocol,
        FailureReason::UpstreamRemoved,
        FailureReason::UpstreamChanged,
        FailureReason::DigestDrift,
        FailureReason::ConsentDenied,
        FailureReason::ConsentExpired,
        FailureReason::ConsentUnavailable,
        FailureReason::Evicted,
    ];
    for reason in reasons {
        assert_eq!(serde_json::to_value(reason).unwrap(), reason.as_str());
    }
}

#[test]
fn ids_are_bounded() {
    assert!("x".repeat(256).parse::<TaskId>().is_ok());
    assert!("x".repeat(512).parse::<InputKey>().is_ok());
    let error = "x".repeat(257).parse::<TaskId>().unwrap_err();
    assert_eq!(
        error.to_string(),
        "task id of 257 bytes, 1 to 256 are allowed"
    );
    assert_eq!("".parse::<TaskId>().unwrap_err().reason(), "task_id");
    for bad in [String::new(), "x".repeat(513)] {
        assert_eq!(bad.parse::<InputKey>().unwrap_err().reason(), "input_key");
    }
}

#[test]
fn a_time_cannot_carry_words() {
    for good in [
        "2026-12-01T06:00:00Z",
        "2026-12-01T06:00:00.123456789+00:00",
    ] {
        assert_eq!(good.parse::<Timestamp>().unwrap().as_str(), good);
    }
    for bad in [
        "",
        "yesterday",
        "secret secret secret",
        "2026-12-01T06:00:00Zsecret",
    ] {
        assert_eq!(bad.parse::<Timestamp>().unwrap_err().reason(), "timestamp");
    }
}

#[test]
fn time_stops_where_numbers_lose_digits() {
    assert_eq!(at(0).plus(u64::MAX), Millis(MAX_MILLIS));
    assert_eq!(at(0).since(at(5)), 0);
    let mut birth = mk_birth();
    birth.retention_ms = u64::MAX;
    let mut task = Task::default();
    task.run(vec![register(birth)], 0).unwrap();
    assert_eq!(task.entry().expires_at(), Millis(MAX_MILLIS));
    let mut snapshot = mk_snapshot(Status::Working);
    snapshot.ttl_ms = Some(MAX_MILLIS + 1);
    let began = at(1);
    let refused = task.run(vec![Command::Sync { snapshot, began }], 1);
    assert_eq!(refused.unwrap_err(), Refusal::Malformed);
}

#[test]
fn golden_entry() {
    let mut task = Task::asking();
    task.one(claim(&[("k1", "deploy?", "yes")], 5000), 2000);
    let text = String::from_utf8(task.entry().encode()).unwrap();
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    insta::assert_json_snapshot!(value);
    for word in ["k1", "deploy?", "yes"] {
        assert!(!text.contains(&format!("\"{word}\"")), "{word} is stored");
    }
}

#[test]
fn golden_event() {
    let event = &decide(&mk_key(), None, vec![register(mk_birth())], at(0))
        .unwrap()
        .events[0];
    insta::assert_snapshot!(String::from_utf8(event.line()).unwrap());
    assert_eq!(event.prev, mk_key().root());
    assert_eq!(event.hash(), ChainHead(Sha256Hex::of(&event.line())));
}

#[test]
fn an_entry_of_another_format_is_refused_by_name() {
    let error = Entry::decode(br#"{"format":2,"entry":{"what":"ever"}}"#).unwrap_err();
    assert_eq!(
        error.to_string(),
        "ledger entry has format 2, this binary reads format 1"
    );
    assert_eq!(error.reason(), "format");
    let text = String::from_utf8(Task::born().entry().encode()).unwrap();
    let longer = text.replacen(r#""version":1"#, r#""future":1,"version":1"#, 1);
    assert_ne!(text, longer);
    assert_eq!(
        Entry::decode(longer.as_bytes()).unwrap_err().reason(),
        "malformed"
    );
}
