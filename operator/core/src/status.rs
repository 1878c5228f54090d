//! A verdict and the fleet become the status of an object.

use hangar_crds::{GatewayCounts, McpUpstreamStatus, TenantPolicyStatus, UpstreamsCount};
use hangar_wire::{Kind, ObjectKey};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;

use crate::fleet::{Fleet, Progress};
use crate::reason::Reason;
use crate::verdict::{Finding, Truth, Verdict};

/// The status of an object, as its kind has it.
#[derive(Clone, Debug, PartialEq)]
pub enum Status {
    Upstream(McpUpstreamStatus),
    Policy(TenantPolicyStatus),
}

/// How much two statuses differ, times aside: what a writer does first, later, or not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Difference {
    Nothing,
    /// Numbers and messages only.
    Counts,
    /// A condition has another status or reason, or another generation was judged.
    Conditions,
}

/// Builds the status of an object. `previous` are the conditions that it carries now:
/// `lastTransitionTime` moves only where a status changes.
pub fn status(
    key: &ObjectKey,
    verdict: &Verdict,
    fleet: &Fleet,
    previous: &[Condition],
    now: Timestamp,
) -> Status {
    let progress = fleet.progress(key, verdict.current_digest());
    let programmed = programmed(verdict, &progress);
    let ready = ready(verdict, &programmed);
    let conditions = [
        ("Accepted", &verdict.accepted),
        ("ResolvedRefs", &verdict.resolved_refs),
        ("Programmed", &programmed),
        ("Ready", &ready),
    ]
    .into_iter()
    .map(|(type_, finding)| condition(type_, finding, verdict.generation, previous, now))
    .collect();
    let observed_generation = Some(verdict.generation);
    let gateways = Some(counts(&progress));
    match key.kind {
        Kind::McpUpstream => Status::Upstream(McpUpstreamStatus {
            observed_generation,
            conditions,
            gateways,
            era: None,
            last_discovered: None,
            tools_total: None,
            tools: Vec::new(),
        }),
        Kind::TenantPolicy => Status::Policy(TenantPolicyStatus {
            observed_generation,
            conditions,
            gateways,
            upstreams: Some(UpstreamsCount {
                resolved: number(verdict.upstreams.resolved),
                total: number(verdict.upstreams.named),
            }),
        }),
    }
}

/// Whether a status is worth writing.
pub fn differs(old: &Status, new: &Status) -> bool {
    difference(old, new) != Difference::Nothing
}

/// Compares two statuses without their times.
pub fn difference(old: &Status, new: &Status) -> Difference {
    let weight = |status: &Status| -> Vec<(String, String, String, Option<i64>)> {
        let mut weight: Vec<_> = status
            .conditions()
            .iter()
            .map(|it| {
                (
                    it.type_.clone(),
                    it.status.clone(),
                    it.reason.clone(),
                    it.observed_generation,
                )
            })
            .collect();
        weight.sort();
        weight
    };
    if weight(old) != weight(new) || old.observed_generation() != new.observed_generation() {
        return Difference::Conditions;
    }
    if old.timeless() == new.timeless() {
        return Difference::Nothing;
    }
    Difference::Counts
}

fn programmed(verdict: &Verdict, progress: &Progress) -> Finding {
    let no = |reason, message: String| Finding::new(Truth::False, reason, message);
    if !verdict.accepted.is_true() {
        return no(
            Reason::NotAccepted,
            "the object is not accepted, no gateway gets it as it stands".to_owned(),
        );
    }
    let Progress {
        ready,
        programmed,
        rejected,
        rejection,
    } = progress;
    if let Some(rejection) = rejection {
        return no(
            Reason::Rejected,
            format!("{rejected} of {ready} gateways could not use this form: {rejection}"),
        );
    }
    if *ready == 0 {
        return no(
            Reason::NoGateways,
            "no gateway is ready or subscribed".to_owned(),
        );
    }
    if programmed < ready {
        return no(
            Reason::Pending,
            format!("{programmed} of {ready} gateways acknowledged this form"),
        );
    }
    Finding::new(
        Truth::True,
        Reason::Programmed,
        "every gateway acknowledged this form",
    )
}

fn ready(verdict: &Verdict, programmed: &Finding) -> Finding {
    let sum = [
        (&verdict.accepted, Reason::NotAccepted),
        (&verdict.resolved_refs, Reason::UnresolvedRefs),
        (programmed, Reason::NotProgrammed),
    ];
    match sum.into_iter().find(|(finding, _)| !finding.is_true()) {
        Some((finding, reason)) => Finding::new(Truth::False, reason, finding.message.clone()),
        None => Finding::new(
            Truth::True,
            Reason::Ready,
            "accepted, resolved and programmed",
        ),
    }
}

fn condition(
    type_: &str,
    finding: &Finding,
    generation: i64,
    previous: &[Condition],
    now: Timestamp,
) -> Condition {
    let status = finding.status.as_str();
    let since = previous
        .iter()
        .find(|it| it.type_ == type_ && it.status == status)
        .map_or(Time(now), |it| it.last_transition_time.clone());
    Condition {
        last_transition_time: since,
        message: bounded(&finding.message),
        observed_generation: Some(generation),
        reason: finding.reason.as_str().to_owned(),
        status: status.to_owned(),
        type_: type_.to_owned(),
    }
}

fn counts(progress: &Progress) -> GatewayCounts {
    GatewayCounts {
        ready: number(progress.ready),
        programmed: number(progress.programmed),
        rejected: number(progress.rejected),
        summary: format!("{}/{}", progress.programmed, progress.ready),
    }
}

fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// The longest message that a condition may carry (metav1.Condition), cut at a character.
fn bounded(message: &str) -> String {
    const MOST: usize = 32_768;
    if message.len() <= MOST {
        return message.to_owned();
    }
    message[..message.floor_char_boundary(MOST)].to_owned()
}

// === impl Status ===

impl Status {
    pub fn conditions(&self) -> &[Condition] {
        match self {
            Self::Upstream(status) => &status.conditions,
            Self::Policy(status) => &status.conditions,
        }
    }

    pub fn observed_generation(&self) -> Option<i64> {
        match self {
            Self::Upstream(status) => status.observed_generation,
            Self::Policy(status) => status.observed_generation,
        }
    }

    /// The same with every transition time set to one value.
    fn timeless(&self) -> Self {
        let mut status = self.clone();
        let conditions = match &mut status {
            Self::Upstream(status) => &mut status.conditions,
            Self::Policy(status) => &mut status.conditions,
        };
        for condition in conditions.iter_mut() {
            condition.last_transition_time = Time(Timestamp::UNIX_EPOCH);
        }
        conditions.sort_by(|a, b| a.type_.cmp(&b.type_));
        status
    }
}
