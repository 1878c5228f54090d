//! Rates and permits.

use super::*;

#[test]
fn a_burst_then_the_rate() {
    let bucket = Bucket::new(10, 3);
    let start = bucket.start;
    for _ in 0..3 {
        assert_eq!(bucket.take(start), Ok(()));
    }
    assert_eq!(bucket.take(start), Err(Duration::from_millis(100)));
    assert_eq!(
        bucket.take(start + Duration::from_millis(99)),
        Err(Duration::from_millis(1))
    );
    assert_eq!(bucket.take(start + Duration::from_millis(100)), Ok(()));
    assert!(bucket.take(start + Duration::from_millis(100)).is_err());
}

#[test]
fn places_come_back() {
    let places = Places::default();
    places.set_limit(1);
    let held = places.take("acme").unwrap();
    assert!(places.take("acme").is_none());
    drop(held);
    assert!(places.take("acme").is_some());
}

#[test]
fn one_tenant_leaves_half_to_the_others() {
    let places = Places::default();
    places.set_limit(8);
    let alone: Vec<_> = (0..9).map(|_| places.take("acme")).collect();
    assert_eq!(alone.iter().flatten().count(), 8);
    drop(alone);
    places.set_tenants(2);
    let greedy: Vec<_> = (0..9).map(|_| places.take("acme")).collect();
    assert_eq!(greedy.iter().flatten().count(), 4);
    let modest: Vec<_> = (0..9).map(|_| places.take("globex")).collect();
    assert_eq!(modest.iter().flatten().count(), 4);
    assert!(places.take("initech").is_none(), "the upstream is full");
    drop(greedy);
    assert!(places.take("initech").is_some());
}
