//! Consent: a question opens a slot, a grant claims it, an end of the relay or a poll settles it.

use std::collections::BTreeMap;

use crate::stage::Stage;
use crate::{
    Claim, ClaimRef, Decider, DeclineReason, Detail, Effect, FailureReason, Grant, InputKey,
    KeyHash, MAX_KEYS, MAX_MILLIS, MAX_OUTSTANDING, Millis, No, Principal, QuestionHash, Questions,
    Relay, Relayed, Sight, Slot, SlotState, Status, Verdict,
};

/// The outstanding questions of a poll, as they are stored.
pub(crate) type Listed = BTreeMap<KeyHash, QuestionHash>;

/// Compares what the upstream asks with what it asked before, settles claims, opens slots.
///
/// Guarantees: another question under a known key ends the task; nothing of it opens a slot.
pub(crate) fn ask(stage: &mut Stage, questions: &Questions) {
    let Questions {
        outstanding,
        sight,
        ttl_ms,
        began,
    } = questions;
    if !is_asking(stage) {
        return;
    }
    let hashed = outstanding.iter().map(|(key, hash)| (key.hash(), *hash));
    let listed: Listed = hashed.collect();
    let slots = &stage.entry.slots;
    let changed = |(key, hash): (&KeyHash, &QuestionHash)| {
        slots.get(key).is_some_and(|slot| slot.question != *hash)
    };
    let fresh = listed.keys().filter(|key| !slots.contains_key(key)).count();
    let too_many = listed.len() > MAX_OUTSTANDING
        || (*sight == Sight::Shown && slots.len() + fresh > MAX_KEYS);
    if too_many || listed.iter().any(changed) {
        stage.fail(FailureReason::UpstreamProtocol);
        return;
    }
    settle(stage, &listed, *began);
    if !stage.entry.is_live() {
        return;
    }
    for (key, question) in listed {
        if let Some(slot) = stage.entry.slots.get_mut(&key) {
            if slot.state == SlotState::Withdrawn {
                slot.state = SlotState::Open;
            }
        } else if *sight == Sight::Shown {
            let slot = Slot {
                question,
                seen_at: stage.now,
                expires_at: stage.now.plus(*ttl_ms),
                attempts: 0,
                state: SlotState::Open,
            };
            stage.entry.slots.insert(key, slot);
        }
    }
}

/// What a poll says of known questions. A claim is settled only by a poll begun after its relay.
pub(crate) fn settle(stage: &mut Stage, listed: &Listed, began: Millis) {
    let (mut consumed, mut denied) = (Vec::new(), Vec::new());
    for (key, slot) in &mut stage.entry.slots {
        let outstanding = listed.contains_key(key);
        match &slot.state {
            // A slow answer to an older poll says nothing of a question seen since.
            SlotState::Open if !outstanding && slot.seen_at <= began => {
                slot.state = SlotState::Withdrawn;
            }
            SlotState::Claimed { claim, revoked, .. } if claim.is_settled_by(began) => {
                let claim = claim.clone();
                if outstanding {
                    denied.extend(revoked.clone().map(|no| (*key, no)));
                    slot.state = SlotState::Unsettled { claim };
                } else {
                    consumed.push((*key, claim));
                }
            }
            SlotState::Unsettled { claim } if !outstanding && claim.is_settled_by(began) => {
                consumed.push((*key, claim.clone()));
            }
            SlotState::Open
            | SlotState::Claimed { .. }
            | SlotState::Unsettled { .. }
            | SlotState::Used
            | SlotState::Withdrawn => {}
        }
    }
    for (key, claim) in consumed {
        decided(stage, key, claim, Relay::Settled);
    }
    for (key, no) in denied {
        deny(stage, key, no, None);
    }
}

/// Claims what may be answered: open questions, and those whose earlier relay had an unknown
/// outcome when the answer is byte-identical. Everything else is acknowledged and ignored, but for
/// a no after a yes: it cannot follow that yes upstream, so it ends the task as a decline does, and
/// nothing else of its update is relayed.
pub(crate) fn claim(
    stage: &mut Stage,
    principal: Option<&Principal>,
    grants: &BTreeMap<InputKey, Grant>,
    deadline: Millis,
) {
    if !is_asking(stage) {
        return;
    }
    let changed = |(key, grant): (&InputKey, &Grant)| {
        let slot = stage.entry.slot(key);
        slot.is_some_and(|slot| slot.question != grant.question)
    };
    if grants.iter().any(changed) {
        stage.fail(FailureReason::UpstreamProtocol);
        return;
    }
    let revoked = revoked(stage, grants);
    if !revoked.is_empty() {
        for (key, reason) in revoked {
            let by = Decider::Caller(principal.cloned());
            decline(stage, key, by, reason, None);
        }
        return;
    }
    let mut claims = Vec::new();
    for (key, grant) in grants {
        let Some(slot) = stage.entry.slots.get_mut(&key.hash()) else {
            continue;
        };
        let earlier = match &slot.state {
            SlotState::Open => None,
            SlotState::Unsettled { claim } if claim.answer == grant.answer => Some(claim.clone()),
            SlotState::Unsettled { .. }
            | SlotState::Claimed { .. }
            | SlotState::Used
            | SlotState::Withdrawn => continue,
        };
        slot.attempts = slot.attempts.saturating_add(1);
        let claim = Claim {
            attempt: slot.attempts,
            principal: principal.cloned(),
            answer: grant.answer,
            decline: grant.decline,
            deadline: Millis(deadline.0.min(MAX_MILLIS)),
            ended_at: None,
        };
        slot.state = SlotState::Claimed {
            claim,
            earlier,
            revoked: None,
        };
        claims.push(ClaimRef {
            key: key.clone(),
            attempt: slot.attempts,
        });
    }
    if !claims.is_empty() {
        stage.effects.push(Effect::Relay { claims });
    }
}

/// The upstream took the answers. True of an older attempt too: its answer is byte-identical.
pub(crate) fn confirm(stage: &mut Stage, claims: &[ClaimRef]) {
    if !stage.entry.is_live() {
        return;
    }
    stage.heard();
    for ClaimRef { key, attempt } in claims {
        let key = key.hash();
        let confirmed = match stage.entry.slots.get(&key).map(|slot| &slot.state) {
            Some(SlotState::Claimed { claim, earlier, .. }) => {
                let older = earlier.as_ref().filter(|older| older.attempt == *attempt);
                older.unwrap_or(claim)
            }
            Some(SlotState::Unsettled { claim }) => claim,
            Some(SlotState::Open | SlotState::Used | SlotState::Withdrawn) | None => continue,
        };
        if *attempt <= confirmed.attempt {
            let claim = confirmed.clone();
            decided(stage, key, claim, Relay::Confirmed);
        }
    }
}

/// The upstream refused the answers definitely: nothing was consumed, nothing is recorded but a no
/// that came meanwhile.
pub(crate) fn release(stage: &mut Stage, claims: &[ClaimRef]) {
    for_current(stage, claims, |state| {
        let SlotState::Claimed {
            earlier, revoked, ..
        } = state
        else {
            return None;
        };
        let (earlier, revoked) = (earlier.take(), revoked.take());
        *state = match earlier {
            Some(claim) => SlotState::Unsettled { claim },
            None => SlotState::Open,
        };
        revoked
    });
}

/// The relay ended: polls that begin from now on tell how. A no that came meanwhile does not wait
/// for them: nobody may poll again, and an end is the safe direction.
pub(crate) fn relay_unknown(stage: &mut Stage, claims: &[ClaimRef]) {
    let now = stage.now;
    for_current(stage, claims, |state| {
        let SlotState::Claimed { claim, revoked, .. } = state else {
            return None;
        };
        claim.ended_at.get_or_insert(now);
        revoked.take()
    });
}

/// Anything but a yes: recorded, and the task ends in the safe direction. While a yes is on its way
/// the no is kept beside it: which of them it is depends on whether the upstream takes that yes.
pub(crate) fn decline(
    stage: &mut Stage,
    key: &InputKey,
    by: Decider,
    reason: DeclineReason,
    question: Option<QuestionHash>,
) {
    if !is_asking(stage) {
        return;
    }
    let (key, now, no) = (key.hash(), stage.now, No { by, reason });
    let slot = stage.entry.slots.get_mut(&key);
    match slot.map(|slot| &mut slot.state) {
        Some(SlotState::Open | SlotState::Unsettled { .. }) => {}
        Some(SlotState::Claimed { claim, revoked, .. }) => {
            // The answer on its way is a no already.
            if claim.decline.is_some() {
                return;
            }
            if !claim.is_over(now) {
                revoked.get_or_insert(no);
                return;
            }
        }
        Some(SlotState::Used | SlotState::Withdrawn) => return,
        // Never shown: only the policy knows of it.
        None => {
            if no.by != Decider::Policy {
                return;
            }
        }
    }
    deny(stage, key, no, question);
}

/// Records a no and ends the task with it. A yes whose outcome nobody knows is recorded first.
fn deny(stage: &mut Stage, key: KeyHash, no: No, question: Option<QuestionHash>) {
    if !stage.entry.is_live() {
        return;
    }
    close_one(stage, key);
    let slot = stage.entry.slots.get_mut(&key);
    let question = slot.map_or(question, |slot| {
        slot.state = SlotState::Used;
        Some(slot.question)
    });
    let No { by, reason } = no;
    stage.push(Detail::TaskConsentDecided {
        key,
        question,
        verdict: Verdict::Decline {
            by,
            reason,
            relayed: None,
        },
    });
    stage.fail(FailureReason::ConsentDenied);
}

/// Closes every open claim of a task that ends.
pub(crate) fn close(stage: &mut Stage) {
    let keys: Vec<_> = stage.entry.slots.keys().copied().collect();
    for key in keys {
        close_one(stage, key);
    }
}

/// The chain holds the decision even when nobody will know how its relay ended.
fn close_one(stage: &mut Stage, key: KeyHash) {
    let claim = match stage.entry.slots.get(&key).map(|slot| &slot.state) {
        Some(SlotState::Claimed { claim, .. } | SlotState::Unsettled { claim }) => claim.clone(),
        Some(SlotState::Open | SlotState::Used | SlotState::Withdrawn) | None => return,
    };
    decided(stage, key, claim, Relay::Unknown);
}

/// Records a grant and uses its slot up.
fn decided(stage: &mut Stage, key: KeyHash, claim: Claim, relay: Relay) {
    let Some(slot) = stage.entry.slots.get_mut(&key) else {
        return;
    };
    slot.state = SlotState::Used;
    let question = Some(slot.question);
    let Claim {
        principal,
        answer,
        decline,
        attempt: _,
        deadline: _,
        ended_at: _,
    } = claim;
    let verdict = match decline {
        None => Verdict::Accept {
            principal,
            answer,
            relay,
        },
        Some(reason) => Verdict::Decline {
            by: Decider::Caller(principal),
            reason,
            relayed: Some(Relayed { answer, relay }),
        },
    };
    stage.push(Detail::TaskConsentDecided {
        key,
        question,
        verdict,
    });
}

/// What these answers say no to although a yes to it went upstream.
fn revoked<'a>(
    stage: &Stage,
    grants: &'a BTreeMap<InputKey, Grant>,
) -> Vec<(&'a InputKey, DeclineReason)> {
    let noes = grants.iter().filter_map(|(key, grant)| {
        let reason = grant.decline?;
        let claim = match &stage.entry.slot(key)?.state {
            SlotState::Claimed { claim, .. } | SlotState::Unsettled { claim } => claim,
            SlotState::Open | SlotState::Used | SlotState::Withdrawn => return None,
        };
        claim.decline.is_none().then_some((key, reason))
    });
    noes.collect()
}

/// Runs on the slots that these claims still hold; a no that it hands out ends the task.
fn for_current(stage: &mut Stage, claims: &[ClaimRef], run: impl Fn(&mut SlotState) -> Option<No>) {
    if !stage.entry.is_live() {
        return;
    }
    let mut denied = Vec::new();
    for ClaimRef { key, attempt } in claims {
        let key = key.hash();
        let slot = stage.entry.slots.get_mut(&key);
        if let Some(slot) = slot.filter(|slot| slot.attempts == *attempt) {
            denied.extend(run(&mut slot.state).map(|no| (key, no)));
        }
    }
    for (key, no) in denied {
        deny(stage, key, no, None);
    }
}

fn is_asking(stage: &Stage) -> bool {
    stage.entry.is_live() && stage.entry.snapshot.status == Status::InputRequired
}
