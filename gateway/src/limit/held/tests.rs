//! What is held is counted once, and is given back once.

use super::*;

fn mk_budget(bytes: usize) -> Arc<Budget> {
    Arc::new(Budget::new(bytes, 8))
}

fn mk_room(budget: &Arc<Budget>) -> Arc<Room> {
    Arc::new(Room::tenant(Arc::clone(budget)))
}

fn gathered(room: &Arc<Room>, pieces: &[&'static str]) -> Result<Bytes, Refused> {
    let mut gathered = room.gather(None, 8)?;
    for piece in pieces {
        gathered.push(Bytes::from_static(piece.as_bytes()))?;
    }
    Ok(gathered.finish())
}

fn taken(room: &Arc<Room>, bytes: usize) -> Result<Share, Refused> {
    let mut share = room.share();
    share.grow(bytes).map(|()| share)
}

#[test]
fn a_body_takes_its_bytes_until_its_last_copy_is_gone() {
    let budget = mk_budget(10);
    let room = mk_room(&budget);
    for pieces in [&[][..], &["abc"], &["a", "", "bc"], &["", "abc"]] {
        let body = gathered(&room, pieces).unwrap();
        assert_eq!(body, pieces.concat());
        assert_eq!(budget.taken(), body.len());
        let copy = body.clone();
        drop(body);
        assert_eq!(budget.taken(), copy.len());
        drop(copy);
        assert_eq!(budget.taken(), 0);
    }
}

#[test]
fn what_does_not_fit_is_refused_and_leaves_nothing_behind() {
    let budget = mk_budget(10);
    let room = mk_room(&budget);
    assert_eq!(gathered(&room, &["12345678", "9"]), Err(Refused::TooLarge));
    assert_eq!(budget.taken(), 0);
    let held = gathered(&room, &["12345678"]).unwrap();
    assert_eq!(gathered(&room, &["12", "3"]), Err(Refused::Spent));
    assert_eq!((budget.taken(), room.left()), (8, 2));
    drop(held);
    assert_eq!((budget.taken(), room.left()), (0, 10));
}

/// A promise takes nothing: a client that says much and sends nothing would stop all others.
#[test]
fn a_declared_length_is_judged_and_not_taken() {
    let room = mk_room(&mk_budget(10));
    let gathered = room.gather(Some(8), 8).unwrap();
    assert_eq!(room.left(), 10);
    drop(gathered);
    let refused = |declared| room.gather(Some(declared), 20).err();
    assert_eq!(refused(10), None);
    assert_eq!(refused(11), Some(Refused::Spent));
    assert_eq!(refused(21), Some(Refused::TooLarge));
    assert_eq!(refused(u64::MAX), Some(Refused::TooLarge));
}

#[test]
fn a_share_is_parted_and_given_back_once() {
    let budget = mk_budget(10);
    let room = mk_room(&budget);
    let mut share = taken(&room, 6).unwrap();
    assert_eq!(share.grow(5), Err(Refused::Spent));
    let kept = share.split(4).keep(Bytes::from_static(b"abcd"));
    share.shrink_to(99);
    assert_eq!(budget.taken(), 6);
    share.shrink_to(1);
    assert_eq!(budget.taken(), 5);
    let rest = share.split(99);
    drop((share, rest));
    assert_eq!(budget.taken(), 4);
    drop(kept);
    assert_eq!((budget.taken(), room.left()), (0, 10));
}

/// One tenant whose clients took no answer held all there was, and nobody else was served.
#[test]
fn one_tenant_leaves_half_to_the_others() {
    let budget = mk_budget(40);
    let greedy = mk_room(&budget);
    drop(taken(&greedy, 40).unwrap());
    let modest = mk_room(&budget);
    assert_eq!(taken(&greedy, 21).unwrap_err(), Refused::Spent);
    let held = taken(&greedy, 20).unwrap();
    assert_eq!(taken(&greedy, 1).unwrap_err(), Refused::Spent);
    let other = taken(&modest, 20).unwrap();
    assert_eq!(taken(&mk_room(&budget), 1).unwrap_err(), Refused::Spent);
    // Who is no longer configured counts for as long as something of it is held.
    drop(modest);
    assert_eq!(greedy.left(), 0);
    drop(other);
    assert_eq!(greedy.left(), 20);
    drop(held);
    assert_eq!(greedy.left(), 40);
}

#[test]
fn a_part_is_never_less_than_one_body() {
    let budget = mk_budget(10);
    let (one, _other) = (mk_room(&budget), mk_room(&budget));
    assert_eq!(one.left(), 8);
    let tiny = mk_budget(4);
    let (one, _other) = (mk_room(&tiny), mk_room(&tiny));
    assert_eq!(one.left(), 4);
}

/// Else a tenant could make the tasks of all others unverifiable.
#[test]
fn tenants_leave_room_for_what_the_gateway_asks_itself() {
    let budget = mk_budget(40);
    let (tenant, own) = (mk_room(&budget), Arc::new(Room::own(Arc::clone(&budget))));
    let all = taken(&tenant, 40).unwrap();
    assert_eq!(taken(&tenant, 1).unwrap_err(), Refused::Spent);
    let fetch = taken(&own, 5).unwrap();
    assert_eq!(taken(&own, 1).unwrap_err(), Refused::Spent);
    drop(all);
    // What tenants leave is the gateway's too, and what it took of its own is not kept twice.
    let more = taken(&own, 10).unwrap();
    assert_eq!(tenant.left(), 30);
    drop((fetch, more));
    assert_eq!((tenant.left(), budget.taken()), (40, 0));
}
