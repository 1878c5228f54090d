//! What is held is counted once, and is given back once.

use super::*;

fn mk_budget(bytes: usize) -> Arc<Budget> {
    Arc::new(Budget::new(bytes))
}

fn gathered(budget: &Arc<Budget>, pieces: &[&'static str]) -> Result<Bytes, Refused> {
    let mut gathered = budget.gather(None, 8)?;
    for piece in pieces {
        gathered.push(Bytes::from_static(piece.as_bytes()))?;
    }
    Ok(gathered.finish())
}

#[test]
fn a_body_takes_its_bytes_until_its_last_copy_is_gone() {
    let budget = mk_budget(10);
    for pieces in [&[][..], &["abc"], &["a", "", "bc"], &["", "abc"]] {
        let body = gathered(&budget, pieces).unwrap();
        assert_eq!(body, pieces.concat());
        assert_eq!(budget.left(), 10 - body.len());
        let copy = body.clone();
        drop(body);
        assert_eq!(budget.left(), 10 - copy.len());
        drop(copy);
        assert_eq!(budget.left(), 10);
    }
}

#[test]
fn what_does_not_fit_is_refused_and_leaves_nothing_behind() {
    let budget = mk_budget(10);
    assert_eq!(
        gathered(&budget, &["12345678", "9"]),
        Err(Refused::TooLarge)
    );
    assert_eq!(budget.left(), 10);
    let held = gathered(&budget, &["12345678"]).unwrap();
    assert_eq!(gathered(&budget, &["12", "3"]), Err(Refused::Spent));
    assert_eq!(budget.left(), 2);
    drop(held);
    assert_eq!(budget.left(), 10);
}

/// A promise takes nothing: a client that says much and sends nothing would stop all others.
#[test]
fn a_declared_length_is_judged_and_not_taken() {
    let budget = mk_budget(10);
    let gathered = budget.gather(Some(8), 8).unwrap();
    assert_eq!(budget.left(), 10);
    drop(gathered);
    let refused = |declared| budget.gather(Some(declared), 20).err();
    assert_eq!(refused(10), None);
    assert_eq!(refused(11), Some(Refused::Spent));
    assert_eq!(refused(21), Some(Refused::TooLarge));
    assert_eq!(refused(u64::MAX), Some(Refused::TooLarge));
}

#[test]
fn a_share_gives_back_no_more_than_it_has() {
    let budget = mk_budget(10);
    let mut share = budget.share();
    share.grow(4).unwrap();
    assert_eq!(share.grow(7), Err(Refused::Spent));
    share.shrink(99);
    assert_eq!(budget.left(), 10);
}
