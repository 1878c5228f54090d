//! An entry while the commands of one decision are applied to it.

use crate::{
    Cause, Change, Command, Decision, Detail, Effect, Entry, Event, FailureReason, Latch, Millis,
    Outcome, Refusal, Snapshot, Status, ToolDigest, consent,
};

/// ```text
///   Register --> live --> completed | failed | cancelled   (latched, final)
///                               |
///                               v  retention ends
///                            purged
/// ```
pub(crate) struct Stage {
    pub(crate) entry: Entry,
    pub(crate) now: Millis,
    pub(crate) events: Vec<Event>,
    pub(crate) effects: Vec<Effect>,
    contact: Contact,
}

/// What time did to an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passed {
    Stays,
    Purge,
}

/// Whether the upstream was heard, and whether that alone is worth a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Contact {
    None,
    Heard,
    Overdue,
}

/// Two polls that find no such task count when they began this far apart.
const LOST_APART_MS: u64 = 1000;

// === impl Stage ===

impl Stage {
    pub(crate) fn new(entry: Entry, now: Millis) -> Self {
        Self {
            entry,
            now,
            events: Vec::new(),
            effects: Vec::new(),
            contact: Contact::None,
        }
    }

    pub(crate) fn apply(&mut self, command: Command) -> Result<(), Refusal> {
        match command {
            Command::Sync { snapshot, began } => return self.sync(snapshot, began),
            Command::Lost { began } => return self.lost(began),
            Command::Fail { cause } => self.cause(cause),
            Command::Drift { found } => self.drift(found),
            Command::Question(questions) => consent::ask(self, &questions),
            Command::Claim {
                principal,
                grants,
                deadline,
            } => consent::claim(self, principal.as_ref(), &grants, deadline),
            Command::Confirm { claims } => consent::confirm(self, &claims),
            Command::Release { claims } => consent::release(self, &claims),
            Command::RelayUnknown { claims } => consent::relay_unknown(self, &claims),
            Command::Decline {
                key,
                by,
                reason,
                question,
            } => consent::decline(self, &key, by, reason, question),
            Command::CancelRequested => self.cancel_requested(),
            // A birth is decided before there is a stage, and time at every access.
            Command::Register { .. } | Command::Due => {}
        }
        Ok(())
    }

    /// Ends what is due: a question nobody answered, a live entry nobody asked for, a terminal one.
    ///
    /// Guarantees: what is seen at `access` does not depend on who looked before. Whatever came first
    /// ended it, at its own time, and its retention begins then.
    pub(crate) fn pass_time(&mut self, access: Millis) -> Passed {
        if self.entry.is_live() {
            let expires = self.entry.expires_at();
            let consent = self.entry.consent_expires_at().filter(|at| *at <= expires);
            let (due, reason) = match consent {
                Some(at) => (at, FailureReason::ConsentExpired),
                None => (expires, FailureReason::Evicted),
            };
            if due > access {
                return Passed::Stays;
            }
            self.fail(reason);
            if let Some(latch) = &mut self.entry.latch {
                latch.at = due;
            }
        }
        if self.entry.expires_at() <= access {
            Passed::Purge
        } else {
            Passed::Stays
        }
    }

    /// Appends to the chain.
    pub(crate) fn push(&mut self, detail: Detail) {
        let event = Event::next(&self.entry, self.now, detail);
        self.entry.head = event.hash();
        self.entry.events = self.entry.events.saturating_add(1);
        self.events.push(event);
    }

    /// Latches a terminal state; every open claim is closed first.
    ///
    /// Assumptions: the entry is live.
    pub(crate) fn end(&mut self, outcome: Outcome) {
        debug_assert!(self.entry.is_live(), "a terminal state is final");
        consent::close(self);
        self.push(match outcome {
            Outcome::Completed => Detail::TaskCompleted {},
            Outcome::Failed(reason) => Detail::TaskFailed { reason },
            Outcome::Cancelled => Detail::TaskCancelled {},
        });
        self.entry.latch = Some(Latch {
            outcome,
            at: self.now,
        });
    }

    /// Ends a live task for a reason of the gateway's, and cancels it where the upstream may be asked.
    pub(crate) fn fail(&mut self, reason: FailureReason) {
        if !self.entry.is_live() {
            return;
        }
        self.end(Outcome::Failed(reason));
        match reason {
            // Over already, unknown there, or no longer to be spoken to.
            FailureReason::UpstreamFailed
            | FailureReason::UpstreamLost
            | FailureReason::UpstreamRemoved
            | FailureReason::UpstreamChanged => {}
            FailureReason::UpstreamProtocol
            | FailureReason::DigestDrift
            | FailureReason::ConsentDenied
            | FailureReason::ConsentExpired
            | FailureReason::ConsentUnavailable
            | FailureReason::Evicted => self.effects.push(Effect::CancelUpstream),
        }
    }

    /// The upstream was heard: a follow-up counts as use.
    pub(crate) fn heard(&mut self) {
        let age = self.now.since(self.entry.contact_at);
        self.contact = if age >= self.entry.contact_step() {
            Contact::Overdue
        } else {
            self.contact.max(Contact::Heard)
        };
    }

    pub(crate) fn finish(mut self, before: &Entry) -> Decision {
        self.effects.dedup();
        let same = self.entry == *before && self.contact != Contact::Overdue;
        if same {
            return Decision {
                change: Change::Unchanged,
                events: self.events,
                effects: self.effects,
            };
        }
        if self.contact != Contact::None {
            self.entry.contact_at = self.now;
        }
        let entry = &self.entry;
        let governance = !self.events.is_empty()
            || self.contact == Contact::Overdue
            || entry.status() != before.status()
            || entry.slots != before.slots
            || entry.snapshot.ttl_ms != before.snapshot.ttl_ms;
        let change = if governance {
            self.entry.version = self.entry.version.saturating_add(1);
            Change::Commit(Box::new(self.entry))
        } else {
            Change::WriteBehind(Box::new(self.entry))
        };
        Decision {
            change,
            events: self.events,
            effects: self.effects,
        }
    }

    fn sync(&mut self, snapshot: Snapshot, began: Millis) -> Result<(), Refusal> {
        let foreign = snapshot.task_id != self.entry.key.task;
        if let Some(latch) = self.entry.latch {
            let repeats = snapshot.status == latch.outcome.status();
            // Another poll that began later was answered first: this one was true when it began.
            let overtaken = !snapshot.status.is_terminal() && began <= latch.at;
            let sound = !foreign && (repeats || overtaken);
            if sound || latch.outcome.is_gateway_made() {
                return Ok(());
            }
            return Err(Refusal::Regression);
        }
        if !snapshot.is_sound() {
            return Err(Refusal::Malformed);
        }
        // A handle may be born terminal; its end is an event once its payload was checked.
        let last = self.entry.snapshot.status;
        if foreign || (last.is_terminal() && snapshot.status != last) {
            self.fail(FailureReason::UpstreamProtocol);
            return Ok(());
        }
        self.heard();
        self.entry.lost_since = None;
        let status = snapshot.status;
        self.entry.snapshot = snapshot;
        match status {
            Status::Working => consent::settle(self, &consent::Listed::new(), began),
            Status::InputRequired if last != Status::InputRequired => {
                self.effects.push(Effect::InputRequired);
            }
            Status::InputRequired => {}
            Status::Completed => self.end(Outcome::Completed),
            Status::Failed => self.end(Outcome::Failed(FailureReason::UpstreamFailed)),
            Status::Cancelled => self.end(Outcome::Cancelled),
        }
        Ok(())
    }

    fn drift(&mut self, found: Option<ToolDigest>) {
        if found == Some(self.entry.birth.digest) || self.entry.mismatch_at.is_some() {
            return;
        }
        // What the gateway ended and what was cancelled has no payload to withhold.
        match self.entry.latch.map(|latch| latch.outcome) {
            None | Some(Outcome::Completed | Outcome::Failed(FailureReason::UpstreamFailed)) => {}
            Some(Outcome::Cancelled | Outcome::Failed(_)) => return,
        }
        self.entry.mismatch_at = Some(self.now);
        self.push(Detail::DigestMismatchInTask { found });
        self.fail(FailureReason::DigestDrift);
    }

    fn lost(&mut self, began: Millis) -> Result<(), Refusal> {
        if let Some(latch) = self.entry.latch {
            let served = latch.outcome.is_gateway_made() || latch.outcome == Outcome::Cancelled;
            return if served { Ok(()) } else { Err(Refusal::Gone) };
        }
        let over = self.entry.ttl_ends_at().is_some_and(|end| end < self.now);
        // Answers may come in another order than their polls began.
        let twice = |first: Millis| first.0.abs_diff(began.0) >= LOST_APART_MS;
        if over || self.entry.lost_since.is_some_and(twice) {
            self.fail(FailureReason::UpstreamLost);
        } else {
            self.entry.lost_since.get_or_insert(began);
        }
        Ok(())
    }

    fn cause(&mut self, cause: Cause) {
        self.fail(match cause {
            Cause::UpstreamProtocol => FailureReason::UpstreamProtocol,
            Cause::UpstreamRemoved => FailureReason::UpstreamRemoved,
            Cause::UpstreamChanged => FailureReason::UpstreamChanged,
            Cause::ConsentUnavailable => FailureReason::ConsentUnavailable,
        });
    }

    /// An acknowledged cancel confirms nothing: only a later poll does.
    fn cancel_requested(&mut self) {
        if self.entry.is_live() {
            self.entry.cancel_requested_at.get_or_insert(self.now);
            self.effects.push(Effect::CancelUpstream);
        }
    }
}
