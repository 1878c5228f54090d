//! What is remembered, for whom and for how long.

use std::collections::BTreeSet;

use hangar_ledger::{Principal, TenantRef};

use super::*;

fn policy(text: &str) -> ObjectDigest {
    ObjectDigest(Sha256Hex::of(text.as_bytes()))
}

fn owner(tenant: &str, principal: &str) -> Owner {
    let tenant = TenantRef {
        namespace: "default".into(),
        tenant: tenant.into(),
    };
    Owner::new(tenant, Some(Principal::api_key(principal)))
}

/// What one caller may read another may not even have.
#[test]
fn what_was_found_is_one_callers_under_one_policy() {
    let nobody = Owner {
        tenant: None,
        principal: None,
    };
    let keys = [
        key(&policy("p"), &owner("acme", "alice"), "x://a"),
        key(&policy("q"), &owner("acme", "alice"), "x://a"),
        key(&policy("p"), &owner("globex", "alice"), "x://a"),
        key(&policy("p"), &owner("acme", "bob"), "x://a"),
        key(&policy("p"), &owner("acme", "alice"), "x://b"),
        key(&policy("p"), &nobody, "x://a"),
        // A name that looks like the next part of the text.
        key(&policy("p"), &owner("acme", "alice\") x://a"), ""),
    ];
    assert_eq!(BTreeSet::from(keys).len(), keys.len());
    assert_eq!(key(&policy("p"), &owner("acme", "alice"), "x://a"), keys[0]);
}

#[test]
fn it_is_remembered_for_a_while_and_the_last_counts() {
    let owners = Owners::default();
    let (key, now) = (Sha256Hex::of(b"x://a"), Instant::now());
    let upstream = |name: &str| UpstreamUid(name.into());
    assert_eq!(owners.of_key(&key, now), None);
    owners.set_key(key, upstream("alpha"), now);
    owners.set_key(key, upstream("beta"), now);
    let last = now + REMEMBERED.saturating_sub(Duration::from_nanos(1));
    assert_eq!(owners.of_key(&key, last), Some(upstream("beta")));
    assert_eq!(owners.of_key(&key, now + REMEMBERED), None);
}

#[test]
fn memory_is_bounded_whatever_is_asked_for() {
    let owners = Owners::default();
    let now = Instant::now();
    let set = |number: usize, at: Instant| {
        let key = Sha256Hex::of(number.to_string().as_bytes());
        owners.set_key(key, UpstreamUid("alpha".into()), at);
        owners.lock().len()
    };
    let most = (0..3 * MOST).map(|number| set(number, now)).max();
    assert_eq!(most, Some(MOST));
    // What is old goes first.
    let later = now + REMEMBERED;
    assert_eq!(set(4 * MOST, later), 1);
    assert_eq!(set(4 * MOST + 1, later), 2);
}
