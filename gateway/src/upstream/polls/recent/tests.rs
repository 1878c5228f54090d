//! For how long a task is known to go on, and of how many tasks.

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn mk_owner(tenant: &str) -> Owner {
    Owner {
        tenant: Some(TenantRef {
            namespace: "default".to_owned(),
            tenant: tenant.to_owned(),
        }),
        principal: None,
    }
}

fn mk_task(name: &str) -> TaskId {
    TaskId::try_from(name.to_owned()).unwrap()
}

/// All the room that a tenant has, with tasks that were asked about then.
fn fill(recent: &mut Recent, owner: &Owner, sent: Instant, interval: Duration) {
    for number in 0..MAX_TASKS {
        let task = mk_task(&number.to_string());
        recent.went_on(owner, &task, sent, interval, sent);
    }
}

#[test]
fn what_went_on_is_known_for_its_interval_or_until_something_happens() {
    let (mut recent, acme) = (Recent::default(), mk_owner("acme"));
    let (a, b, now) = (mk_task("a"), mk_task("b"), Instant::now());
    assert_eq!(recent.since(&acme, &a, now), None);
    recent.went_on(&acme, &a, now, 50 * SECOND, now);
    let known = |recent: &Recent, seconds| recent.since(&acme, &a, now + seconds * SECOND);
    assert_eq!(known(&recent, 49), Some(49 * SECOND));
    assert_eq!(known(&recent, 50), None);
    assert_eq!(recent.since(&acme, &b, now), None);
    assert_eq!(recent.since(&mk_owner("globex"), &a, now), None);
    recent.forget(&acme, &a, now);
    assert_eq!(known(&recent, 1), None);
    let sent = now + SECOND;
    recent.went_on(&acme, &a, sent, Duration::from_hours(24), sent);
    assert_eq!(known(&recent, 60), Some(59 * SECOND));
    assert_eq!(known(&recent, 61), None, "over a minute");
}

#[test]
fn one_tenant_s_tasks_take_no_room_from_another_s() {
    let (acme, globex) = (mk_owner("acme"), mk_owner("globex"));
    let (mut recent, task, now) = (Recent::default(), mk_task("more"), Instant::now());
    fill(&mut recent, &acme, now, MAX_INTERVAL);
    for owner in [&acme, &globex] {
        recent.went_on(owner, &task, now, MAX_INTERVAL, now);
    }
    assert_eq!(recent.since(&acme, &task, now), None);
    assert!(recent.since(&globex, &task, now).is_some());
    assert_eq!(recent.0[&acme.tenant].last.len(), MAX_TASKS);
}

#[test]
fn what_is_over_makes_room_and_is_looked_for_once_a_second() {
    let (mut recent, acme) = (Recent::default(), mk_owner("acme"));
    let start = Instant::now();
    fill(&mut recent, &acme, start, SECOND / 2);
    let mut note = |name: &str, millis| {
        let (task, now) = (mk_task(name), start + Duration::from_millis(millis));
        recent.went_on(&acme, &task, now, MAX_INTERVAL, now);
        recent.since(&acme, &task, now).is_some()
    };
    assert!(!note("too early", 400));
    assert!(note("0", 400), "it has its place already");
    assert!(!note("looked for just now", 600));
    assert!(!note("still", 1399));
    assert!(note("in the place of an old one", 1400));
    assert!(note("and another", 1401));
    assert_eq!(recent.0[&acme.tenant].last.len(), 3);
}

#[test]
fn a_known_task_starts_no_look_for_what_is_over() {
    let (mut recent, acme) = (Recent::default(), mk_owner("acme"));
    let start = Instant::now();
    fill(&mut recent, &acme, start, SECOND);
    let later = start + 10 * SECOND;
    recent.went_on(&acme, &mk_task("0"), later, MAX_INTERVAL, later);
    assert_eq!(recent.0[&acme.tenant].last.len(), MAX_TASKS);
    assert_eq!(recent.0[&acme.tenant].swept, None);
}

#[test]
fn nothing_is_left_of_what_is_over() {
    let (mut recent, acme, globex) = (Recent::default(), mk_owner("acme"), mk_owner("globex"));
    let (task, now) = (mk_task("a"), Instant::now());
    recent.went_on(&acme, &task, now, SECOND, now);
    recent.went_on(&globex, &task, now, 3 * SECOND, now);
    recent.sweep(now + 2 * SECOND);
    assert_eq!(recent.0.keys().collect::<Vec<_>>(), [&globex.tenant]);
}

/// A poll that was on its way while a task was cancelled told for a minute that it went on.
#[test]
fn what_was_asked_before_a_task_was_forgotten_is_not_known_afterwards() {
    let (mut recent, acme) = (Recent::default(), mk_owner("acme"));
    let (a, b, start) = (mk_task("a"), mk_task("b"), Instant::now());
    let [sent, forgotten, later] = [1, 2, 3].map(|seconds| start + seconds * SECOND);
    for task in [&a, &b] {
        recent.went_on(&acme, task, start, MAX_INTERVAL, start);
    }
    recent.forget(&acme, &a, forgotten);
    for sent in [sent, forgotten] {
        recent.went_on(&acme, &a, sent, MAX_INTERVAL, later);
        assert_eq!(recent.since(&acme, &a, later), None);
    }
    assert!(recent.since(&acme, &b, later).is_some(), "another task");
    recent.went_on(&acme, &a, later, MAX_INTERVAL, later);
    assert!(recent.since(&acme, &a, later).is_some());
    // Nor does it take the place of what was asked later.
    recent.went_on(&acme, &a, sent, MAX_INTERVAL, later);
    assert_eq!(recent.since(&acme, &a, later), Some(Duration::ZERO));
}

#[test]
fn a_task_is_forgotten_for_as_long_as_what_was_asked_before_could_be_news() {
    let (mut recent, acme) = (Recent::default(), mk_owner("acme"));
    let (task, start) = (mk_task("a"), Instant::now());
    recent.forget(&acme, &task, start);
    let mut late = |now| {
        recent.sweep(now);
        recent.went_on(&acme, &task, start, MAX_INTERVAL, now);
        recent.since(&acme, &task, now)
    };
    assert_eq!(late(start + 59 * SECOND), None);
    assert_eq!(late(start + MAX_INTERVAL), None);
    recent.sweep(start + MAX_INTERVAL);
    assert!(recent.0.is_empty());
}

#[test]
fn a_task_that_there_is_no_room_for_is_forgotten_with_all_that_was_asked_before() {
    let (mut recent, acme) = (Recent::default(), mk_owner("acme"));
    let (globex, task) = (mk_owner("globex"), mk_task("more"));
    let start = Instant::now();
    fill(&mut recent, &acme, start, SECOND);
    recent.forget(&acme, &task, start);
    // By now there is room.
    let now = start + SECOND;
    recent.sweep(now);
    assert!(recent.0.contains_key(&acme.tenant));
    for owner in [&acme, &globex] {
        recent.went_on(owner, &task, start, MAX_INTERVAL, now);
    }
    assert_eq!(recent.since(&acme, &task, now), None);
    assert!(recent.since(&globex, &task, now).is_some());
    recent.went_on(&acme, &task, now, MAX_INTERVAL, now);
    assert!(recent.since(&acme, &task, now).is_some());
    recent.sweep(now + MAX_INTERVAL);
    assert!(recent.0.is_empty());
}
