//! Places for streams.

use super::*;

fn mk() -> Listeners {
    let times = Times {
        life: Duration::from_mins(1),
        stall: Duration::from_millis(1),
    };
    Listeners::new(IntGauge::new("x", "y").unwrap(), times, 40)
}

#[test]
fn a_tenant_has_a_quarter_of_the_places_and_leaves_the_rest_to_others() {
    let listeners = mk();
    let mut seats: Vec<_> = (0..10)
        .map(|_| listeners.take("acme", 1).unwrap())
        .collect();
    assert!(listeners.take("acme", 1).is_none());
    let other = listeners.take("globex", 1).unwrap();
    assert_eq!(listeners.open.get(), 11);
    seats.pop();
    drop(listeners.take("acme", 1).unwrap());
    drop((seats, other));
    assert_eq!(listeners.open.get(), 0);
    assert!(listeners.lock().by_tenant.is_empty());
}

/// Each upstream of a stream is a connection more: 256 streams of four took every file there was.
#[test]
fn a_stream_of_many_upstreams_takes_many_places() {
    let listeners = mk();
    let seats: Vec<_> = (0..9).filter_map(|_| listeners.take("acme", 4)).collect();
    assert_eq!(seats.len(), 2);
    assert_eq!(listeners.lock().total, 8);
    // One is let in, however many it needs, where there are places at all.
    let wide = listeners.take("globex", 20).unwrap();
    assert!(listeners.take("globex", 1).is_none());
    assert!(listeners.take("initech", 20).is_none());
    drop((seats, wide));
    assert_eq!(listeners.lock().total, 0);
}

#[test]
fn all_tenants_together_have_no_more_than_the_places() {
    let listeners = mk();
    let names: Vec<String> = (0..50).map(|n| format!("tenant-{n}")).collect();
    let seats: Vec<_> = names
        .iter()
        .filter_map(|name| listeners.take(name, 1))
        .collect();
    assert_eq!(seats.len(), 40);
}

/// What is queued for a client that takes nothing is bounded, and so is the time.
#[tokio::test]
async fn who_takes_nothing_is_let_go_and_who_takes_something_is_not() {
    let listeners = mk();
    let (to, mut taken) = mpsc::channel(1);
    assert!(listeners.tell(&to, "first".into()).await);
    assert!(
        !listeners.tell(&to, "second".into()).await,
        "nothing was taken"
    );
    assert_eq!(taken.recv().await.unwrap(), "first");
    assert!(listeners.tell(&to, "third".into()).await);
    assert_eq!(taken.recv().await.unwrap(), "third");
    drop(taken);
    assert!(
        !listeners.tell(&to, "fourth".into()).await,
        "nobody is there"
    );
}
