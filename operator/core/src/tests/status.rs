//! Conditions over time, gateways, and the table of reasons.

use std::collections::BTreeMap;
use std::sync::Arc;

use hangar_wire::{ObjectDigest, Pod, Rejection, Sha256Hex};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::jiff::Timestamp;
use serde_json::json;

use super::*;
use crate::{Difference, Fleet, PodView, Status, difference, differs, status};

fn mk_now(second: i64) -> Timestamp {
    Timestamp::from_second(1_780_000_000 + second).unwrap()
}

fn mk_pod(name: &str) -> Pod {
    Pod {
        namespace: "hangar".into(),
        name: name.into(),
        uid: format!("uid-{name}"),
    }
}

/// A pod that acknowledged everything in force.
fn mk_current(compiled: &Compiled) -> PodView {
    let held = compiled
        .verdicts
        .iter()
        .filter_map(|(key, verdict)| Some((key.clone(), verdict.in_force?.digest)))
        .collect();
    PodView {
        acknowledged: Arc::new(held),
        rejected: BTreeMap::new(),
    }
}

fn mk_fleet(pods: impl IntoIterator<Item = PodView>) -> Fleet {
    Fleet {
        pods: pods
            .into_iter()
            .enumerate()
            .map(|(index, view)| (mk_pod(&format!("gateway-{index}")), view))
            .collect(),
    }
}

fn mk_rejecting(key: &ObjectKey, digest: ObjectDigest, from: PodView) -> PodView {
    let rejection = Rejection {
        object: key.clone(),
        digest,
        reason: "BadUrl".into(),
        message: "no route".into(),
    };
    PodView {
        rejected: [(key.clone(), rejection)].into(),
        ..from
    }
}

#[track_caller]
fn condition<'a>(status: &'a Status, type_: &str) -> &'a Condition {
    status
        .conditions()
        .iter()
        .find(|it| it.type_ == type_)
        .unwrap()
}

/// `type=status reason` of every condition.
fn words(status: &Status) -> Vec<String> {
    let word = |it: &Condition| format!("{}={} {}", it.type_, it.status, it.reason);
    status.conditions().iter().map(word).collect()
}

fn mk_status(compiled: &Compiled, key: &ObjectKey, fleet: &Fleet) -> Status {
    status(key, compiled.verdict(key), fleet, &[], mk_now(0))
}

fn gateways(status: &Status) -> (i32, i32, i32, String) {
    let counts = match status {
        Status::Upstream(status) => status.gateways.clone().unwrap(),
        Status::Policy(status) => status.gateways.clone().unwrap(),
    };
    (
        counts.ready,
        counts.programmed,
        counts.rejected,
        counts.summary,
    )
}

#[test]
fn programmed_needs_every_pod() {
    let compiled = mk_compiled([mk_upstream("reports").object()]);
    let key = upstream_key("reports");
    let digest = compiled.verdict(&key).in_force.unwrap().digest;
    let current = mk_current(&compiled);
    let stale = PodView {
        acknowledged: Arc::new([(key.clone(), ObjectDigest(Sha256Hex::of(b"older")))].into()),
        ..PodView::default()
    };
    let other_rejection =
        mk_rejecting(&key, ObjectDigest(Sha256Hex::of(b"older")), current.clone());
    for (fleet, condition_words, counts) in [
        (
            mk_fleet([]),
            "Programmed=False NoGateways",
            (0, 0, 0, "0/0"),
        ),
        (
            mk_fleet([current.clone()]),
            "Programmed=True Programmed",
            (1, 1, 0, "1/1"),
        ),
        (
            mk_fleet([other_rejection]),
            "Programmed=True Programmed",
            (1, 1, 0, "1/1"),
        ),
        (
            mk_fleet([current.clone(), stale]),
            "Programmed=False Pending",
            (2, 1, 0, "1/2"),
        ),
        (
            mk_fleet([current.clone(), PodView::default()]),
            "Programmed=False Pending",
            (2, 1, 0, "1/2"),
        ),
        (
            mk_fleet([current.clone(), mk_rejecting(&key, digest, current)]),
            "Programmed=False Rejected",
            (2, 1, 1, "1/2"),
        ),
    ] {
        let status = mk_status(&compiled, &key, &fleet);
        assert_eq!(words(&status)[2], condition_words);
        let (ready, programmed, rejected, summary) = gateways(&status);
        assert_eq!((ready, programmed, rejected, summary.as_str()), counts);
        let all = condition_words.starts_with("Programmed=True");
        assert_eq!(condition(&status, "Ready").status == "True", all);
    }
}

#[test]
fn messages_carry_counts_and_the_words_of_the_pod() {
    let compiled = mk_compiled([mk_upstream("reports").object()]);
    let key = upstream_key("reports");
    let digest = compiled.verdict(&key).in_force.unwrap().digest;
    let current = mk_current(&compiled);
    let pending = mk_status(
        &compiled,
        &key,
        &mk_fleet([current.clone(), PodView::default()]),
    );
    assert_eq!(
        condition(&pending, "Programmed").message,
        "1 of 2 gateways acknowledged this form"
    );
    let rejected = mk_status(
        &compiled,
        &key,
        &mk_fleet([mk_rejecting(&key, digest, current)]),
    );
    let message = &condition(&rejected, "Programmed").message;
    assert!(
        message.contains("gateway hangar/gateway-0: BadUrl: no route"),
        "{message}"
    );
}

#[test]
fn what_is_not_accepted_is_not_programmed_even_with_its_last_good_form_everywhere() {
    let mut world = mk_world();
    world.apply(mk_upstream("reports").apply());
    world.compile();
    world.apply(
        mk_upstream("reports")
            .generation(2)
            .at("/spec/endpoint", json!({}))
            .apply(),
    );
    let compiled = world.compile();
    let fleet = mk_fleet([mk_current(&compiled)]);
    let status = mk_status(&compiled, &upstream_key("reports"), &fleet);
    assert_eq!(
        words(&status),
        [
            "Accepted=False Invalid",
            "ResolvedRefs=Unknown NotAccepted",
            "Programmed=False NotAccepted",
            "Ready=False NotAccepted",
        ]
    );
    assert_eq!(gateways(&status), (1, 0, 0, "0/1".to_owned()));
    assert_eq!(status.observed_generation(), Some(2));
    assert!(
        status
            .conditions()
            .iter()
            .all(|it| it.observed_generation == Some(2))
    );
}

#[test]
fn ready_sums_the_three() {
    let compiled = mk_compiled([
        mk_policy("acme")
            .at("/spec/upstreams", json!([mk_grant("reports")]))
            .object(),
        mk_policy("globex").object(),
    ]);
    let fleet = mk_fleet([mk_current(&compiled)]);
    assert_eq!(
        words(&mk_status(&compiled, &policy_key("acme"), &fleet)),
        [
            "Accepted=True Accepted",
            "ResolvedRefs=False RefNotFound",
            "Programmed=True Programmed",
            "Ready=False UnresolvedRefs",
        ]
    );
    let Status::Policy(acme) = mk_status(&compiled, &policy_key("acme"), &fleet) else {
        panic!("the status of a TenantPolicy")
    };
    let count = acme.upstreams.unwrap();
    assert_eq!((count.resolved, count.total), (0, 1));
    assert_eq!(
        words(&mk_status(&compiled, &policy_key("globex"), &fleet))[3],
        "Ready=True Ready"
    );
    assert_eq!(
        words(&mk_status(&compiled, &policy_key("globex"), &mk_fleet([])))[3],
        "Ready=False NotProgrammed"
    );
}

#[test]
fn a_transition_time_moves_only_with_the_status() {
    let compiled = mk_compiled([mk_upstream("reports").object()]);
    let key = upstream_key("reports");
    let verdict = compiled.verdict(&key);
    let none = mk_fleet([]);
    let first = status(&key, verdict, &none, &[], mk_now(0));
    // NoGateways becomes Pending: another reason, the same status.
    let two = mk_fleet([PodView::default()]);
    let second = status(&key, verdict, &two, first.conditions(), mk_now(10));
    assert_eq!(condition(&second, "Programmed").reason, "Pending");
    assert_eq!(
        condition(&second, "Programmed").last_transition_time.0,
        mk_now(0)
    );
    let all = mk_fleet([mk_current(&compiled)]);
    let third = status(&key, verdict, &all, second.conditions(), mk_now(20));
    assert_eq!(
        condition(&third, "Programmed").last_transition_time.0,
        mk_now(20)
    );
    assert_eq!(
        condition(&third, "Ready").last_transition_time.0,
        mk_now(20)
    );
    assert_eq!(
        condition(&third, "Accepted").last_transition_time.0,
        mk_now(0)
    );
}

#[test]
fn only_what_is_worth_a_write_differs() {
    let compiled = mk_compiled([mk_upstream("reports").object()]);
    let key = upstream_key("reports");
    let current = mk_current(&compiled);
    let one = mk_status(&compiled, &key, &mk_fleet([current.clone()]));
    let later = status(
        &key,
        compiled.verdict(&key),
        &mk_fleet([current.clone()]),
        &[],
        mk_now(99),
    );
    assert_ne!(one, later);
    assert_eq!(difference(&one, &later), Difference::Nothing);
    assert!(!differs(&one, &later));
    let two = mk_status(
        &compiled,
        &key,
        &mk_fleet([current.clone(), current.clone()]),
    );
    assert_eq!(difference(&one, &two), Difference::Counts);
    assert!(differs(&one, &two));
    let pending = mk_status(&compiled, &key, &mk_fleet([current, PodView::default()]));
    assert_eq!(difference(&one, &pending), Difference::Conditions);
    let edited = mk_compiled([mk_upstream("reports").generation(2).object()]);
    let edited = mk_status(&edited, &key, &mk_fleet([mk_current(&edited)]));
    assert_eq!(difference(&one, &edited), Difference::Conditions);
}

#[test]
fn every_reason_is_a_row_of_the_document() {
    let document = include_str!("../../../../docs/conditions.md");
    let rows: Vec<&str> = document
        .lines()
        .filter(|line| line.starts_with("| "))
        .collect();
    for reason in Reason::ALL {
        let cell = format!("| `{reason}` |");
        assert!(rows.iter().any(|row| row.contains(&cell)), "{reason}");
    }
    let known: Vec<String> = Reason::ALL.iter().map(|it| format!("`{it}`")).collect();
    for row in &rows[2.min(rows.len())..] {
        let cell = row.split('|').nth(3).unwrap().trim();
        assert!(known.iter().any(|it| it == cell), "{row}");
    }
}
