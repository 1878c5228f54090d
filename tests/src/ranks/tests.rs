//! The statistic on times that are known.

use super::*;

const BLOCK: usize = 16;

/// Noise of up to 200 around a level that differs from block to block.
fn measured(blocks: usize, gap: u64) -> Ranks {
    let (mut dice, mut ranks) = (Dice::new(7), Ranks::default());
    for _ in 0..blocks {
        let level = dice.below(5000) as u64;
        let mut times = |more: u64| -> Vec<u64> {
            let time = |_| level + more + dice.below(200) as u64;
            (0..BLOCK).map(time).collect()
        };
        let (one, other) = (times(0), times(gap));
        ranks.add(&one, &other);
    }
    ranks
}

#[test]
fn equal_paths_are_within_a_few_deviations() {
    let ranks = measured(600, 0);
    assert!(ranks.z().abs() < 3.5, "{ranks:?}");
    assert!((ranks.share() - 0.5).abs() < 0.01, "{ranks:?}");
}

#[test]
fn a_gap_far_below_the_noise_is_seen() {
    let ranks = measured(600, 10);
    assert!(ranks.z() > 8.0, "{ranks:?}");
    assert!(ranks.share() > 0.53, "{ranks:?}");
}

#[test]
fn a_known_block_has_its_known_value() {
    let mut ranks = Ranks::default();
    assert_eq!((ranks.z(), ranks.share()), (0.0, 0.5));
    ranks.add(&[1, 2, 3], &[2, 4]);
    // Of six pairs four and a half; the deviation is the root of 6 * 6 / 12.
    assert!((ranks.share() - 0.75).abs() < 1e-9);
    assert!((ranks.z() - 1.5 / 3_f64.sqrt()).abs() < 1e-9);
}

#[test]
fn a_shuffle_loses_nothing_and_repeats() {
    let shuffled = |seed| {
        let mut items: Vec<_> = (0..50).collect();
        Dice::new(seed).shuffle(&mut items);
        items
    };
    let mut items = shuffled(1);
    assert_eq!(items, shuffled(1));
    assert_ne!(items, shuffled(2));
    items.sort_unstable();
    assert_eq!(items, (0..50).collect::<Vec<_>>());
}
