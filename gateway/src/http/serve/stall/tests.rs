//! How long a peer may keep its socket full.

use super::*;

const PATIENCE: Duration = Duration::from_secs(30);

fn mk_pace() -> Pace {
    Pace {
        patience: PATIENCE,
        owed: Duration::ZERO,
    }
}

/// A client that took one byte before each end of the patience kept a large answer for days.
#[test]
fn a_peer_that_takes_a_little_now_and_then_is_not_waited_for() {
    let mut pace = mk_pace();
    pace.waited(Duration::from_secs(29));
    pace.moved(1);
    assert!(pace.left() <= Duration::from_secs(1) + Duration::from_millis(1));
    pace.waited(pace.left());
    assert_eq!(pace.left(), Duration::ZERO);
}

#[test]
fn what_is_taken_and_time_without_waiting_work_off_what_was_waited() {
    let mut pace = mk_pace();
    pace.waited(Duration::from_secs(20));
    pace.moved(PACE / 3);
    assert!(pace.left() >= Duration::from_secs(19));
    pace.free(Duration::from_secs(9));
    assert!(pace.left() >= Duration::from_secs(28));
    pace.moved(usize::MAX);
    assert_eq!(pace.left(), PATIENCE);
    for _ in 0..1000 {
        pace.waited(Duration::from_secs(29));
        pace.moved(PACE);
        assert_eq!(pace.left(), PATIENCE);
    }
}
