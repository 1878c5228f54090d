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
fn permits_come_back() {
    let permits = Permits::default();
    permits.set_limit(1);
    let held = permits.take().unwrap();
    assert!(permits.take().is_none());
    drop(held);
    assert!(permits.take().is_some());
}
