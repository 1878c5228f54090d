//! Places for streams.

use super::*;

fn mk() -> Listeners {
    let times = Times {
        life: Duration::from_mins(1),
        stall: Duration::from_millis(1),
    };
    Listeners::new(IntGauge::new("x", "y").unwrap(), times)
}

#[test]
fn a_tenant_has_so_many_places_and_leaves_the_rest_to_others() {
    let listeners = mk();
    let mut seats: Vec<_> = (0..PER_TENANT)
        .map(|_| listeners.take("acme").unwrap())
        .collect();
    assert!(listeners.take("acme").is_none());
    let other = listeners.take("globex").unwrap();
    assert_eq!(listeners.open.get(), i64::try_from(PER_TENANT).unwrap() + 1);
    seats.pop();
    drop(listeners.take("acme").unwrap());
    drop((seats, other));
    assert_eq!(listeners.open.get(), 0);
    assert!(listeners.lock().by_tenant.is_empty());
}

#[test]
fn all_tenants_together_have_no_more_than_the_pod() {
    let listeners = mk();
    let names: Vec<String> = (0..=PER_POD).map(|n| format!("tenant-{n}")).collect();
    let seats: Vec<_> = names
        .iter()
        .filter_map(|name| listeners.take(name))
        .collect();
    assert_eq!(seats.len(), PER_POD);
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
