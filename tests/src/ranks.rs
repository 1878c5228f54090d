//! Whether one kind of request takes longer than another: a rank statistic, so that no clock, machine or
//! load decides what passes.
//!
//! Requests are measured in blocks, shuffled within each. Whatever a busy machine does to them it does to
//! both kinds alike, so under equal paths [`Ranks::z`] is a standard normal however noisy the times are,
//! and drifts from block to block cancel.

/// Mann and Whitney's U, summed over blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Ranks {
    /// Pairs in which the second kind took longer; a tie is half a pair.
    over: f64,
    pairs: f64,
    variance: f64,
}

/// Numbers for shuffling, always the same from the same seed (splitmix64).
#[derive(Clone, Debug)]
pub struct Dice(u64);

// === impl Ranks ===

impl Ranks {
    /// Takes in one block: the times of both kinds.
    #[allow(clippy::cast_precision_loss)] // a block has few requests
    pub fn add(&mut self, one: &[u64], other: &[u64]) {
        for a in one {
            for b in other {
                self.over += match a.cmp(b) {
                    std::cmp::Ordering::Less => 1.0,
                    std::cmp::Ordering::Equal => 0.5,
                    std::cmp::Ordering::Greater => 0.0,
                };
            }
        }
        let (n, m) = (one.len() as f64, other.len() as f64);
        self.pairs += n * m;
        self.variance += n * m * (n + m + 1.0) / 12.0;
    }

    /// How far the second kind is behind the first, in standard deviations; negative: ahead.
    pub fn z(&self) -> f64 {
        if self.variance == 0.0 {
            return 0.0;
        }
        (self.over - self.pairs / 2.0) / self.variance.sqrt()
    }

    /// How often a request of the second kind took longer than one of the first: a half, if they are alike.
    pub fn share(&self) -> f64 {
        if self.pairs == 0.0 {
            return 0.5;
        }
        self.over / self.pairs
    }
}

// === impl Dice ===

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `bound`, which is not zero.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let bound = u64::try_from(bound).unwrap_or(u64::MAX).max(1);
        usize::try_from((z ^ (z >> 31)) % bound).unwrap_or_default()
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

#[cfg(test)]
mod tests;
