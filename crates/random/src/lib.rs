//! Random numbers without state: each is a pure function of (seed, stream, index).
//!
//! Philox4x32-10 (Salmon, Moraes, Dror & Shaw 2011, *Parallel random numbers: as easy as 1, 2, 3*): ten rounds that
//! multiply two words of a 128-bit counter by constants and fold in a key that grows by the golden ratio. Nothing is
//! remembered between calls, so the numbers are the same for any order, thread count or device, and a resumed run draws
//! what the uninterrupted run would have drawn.
//!
//! ```
//! use polyhead_random::Random;
//! let shuffle = Random::new(42).stream(7);
//! assert_eq!(shuffle.u64(3), Random::new(42).stream(7).u64(3)); // no hidden state
//! assert!((0.0..1.0).contains(&shuffle.uniform(0)));
//! ```

pub mod numpy;

/// Rounds of Philox4x32-10.
pub const ROUNDS: usize = 10;
/// Its two multipliers.
pub const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
/// Increment of its key in each round.
pub const KEY_STEP: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];

/// Philox4x32-10: four random words for a 128-bit `counter` under a 64-bit `key`.
pub const fn philox(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    let [mut a, mut b, mut c, mut d] = counter;
    let [mut key_low, mut key_high] = key;
    let mut round = 0;
    while round < ROUNDS {
        let left = MULTIPLIERS[0] as u64 * a as u64;
        let right = MULTIPLIERS[1] as u64 * c as u64;
        [a, b, c, d] = [
            (right >> 32) as u32 ^ b ^ key_low,
            right as u32,
            (left >> 32) as u32 ^ d ^ key_high,
            left as u32,
        ];
        key_low = key_low.wrapping_add(KEY_STEP[0]);
        key_high = key_high.wrapping_add(KEY_STEP[1]);
        round += 1;
    }
    [a, b, c, d]
}

/// A source of numbers addressed by index: the seed is the key, the stream half of the counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Random {
    seed: u64,
    stream: u64,
}

impl Random {
    /// Stream 0 of `seed`.
    pub const fn new(seed: u64) -> Self {
        Self { seed, stream: 0 }
    }

    /// The stream named `stream` of the same seed; an epoch, a step, a site or a line of a file.
    #[must_use]
    pub const fn stream(self, stream: u64) -> Self {
        Self { stream, ..self }
    }

    /// The stream named by two numbers, for instance (step, site): the first is folded in by Philox itself.
    #[must_use]
    pub const fn stream_pair(self, first: u64, second: u64) -> Self {
        Self { seed: self.stream(first).u64(u64::MAX), stream: second }
    }

    /// The key and the stream's half of the counter, for kernels that run Philox themselves.
    pub const fn parts(self) -> ([u32; 2], [u32; 2]) {
        (halves(self.seed), halves(self.stream))
    }

    /// Sixty-four random bits for `index`.
    pub const fn u64(self, index: u64) -> u64 {
        let (key, [stream_low, stream_high]) = self.parts();
        let [low, high] = halves(index);
        let [a, b, _, _] = philox([low, high, stream_low, stream_high], key);
        a as u64 | (b as u64) << 32
    }

    /// A uniform number in [0, 1) with 53 random bits.
    pub const fn uniform(self, index: u64) -> f64 {
        (self.u64(index) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A uniform number in `0..bound`; the bias is below bound / 2⁶⁴.
    pub const fn below(self, bound: usize, index: u64) -> usize {
        ((self.u64(index) as u128 * bound as u128) >> 64) as usize
    }

    /// The numbers `0..len` in random order (Fisher–Yates).
    pub fn permutation(self, len: usize) -> Vec<u32> {
        let mut order: Vec<u32> = (0..len as u32).collect();
        self.shuffle(&mut order);
        order
    }

    /// Puts `items` into random order (Fisher–Yates).
    pub fn shuffle<T>(self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1, last as u64));
        }
    }
}

const fn halves(number: u64) -> [u32; 2] {
    [number as u32, (number >> 32) as u32]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The known answers that Random123 publishes for philox4x32-10.
    #[test]
    fn equals_the_published_vectors() {
        assert_eq!(philox([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(
            philox([u32::MAX; 4], [u32::MAX; 2]),
            [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]
        );
        assert_eq!(
            philox([0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344], [0xa409_3822, 0x299f_31d0]),
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
        );
    }

    #[test]
    fn a_permutation_holds_every_number_once() {
        let mut order = Random::new(1).stream(2).permutation(1000);
        assert_ne!(order, (0..1000).collect::<Vec<_>>());
        order.sort_unstable();
        assert_eq!(order, (0..1000).collect::<Vec<_>>());
    }

    #[test]
    fn streams_and_seeds_differ() {
        let numbers = [
            Random::new(1).u64(0),
            Random::new(2).u64(0),
            Random::new(1).stream(1).u64(0),
            Random::new(1).stream_pair(0, 1).u64(0),
            Random::new(1).stream_pair(1, 0).u64(0),
        ];
        for (i, a) in numbers.iter().enumerate() {
            assert!(!numbers[..i].contains(a));
        }
    }

    /// Mean and variance of 100,000 uniform numbers: 1/2 and 1/12, within five standard errors.
    #[test]
    fn uniform_is_uniform() {
        let n = 100_000;
        let numbers: Vec<f64> = (0..n).map(|i| Random::new(9).uniform(i)).collect();
        let mean = numbers.iter().sum::<f64>() / n as f64;
        let variance = numbers.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n as f64;
        assert!((mean - 0.5).abs() < 5.0 * (1.0 / 12.0 / n as f64).sqrt(), "mean {mean}");
        assert!((variance - 1.0 / 12.0).abs() < 0.002, "variance {variance}");
    }
}
