//! NumPy's default generator, so that a test of significance draws what sacreBLEU draws for the same seed.
//!
//! PCG64 (O'Neill 2014, *PCG: a family of simple fast space-efficient statistically good algorithms for random number
//! generation*): a 128-bit linear congruential generator with a permuted output, seeded by `SeedSequence`. Whole numbers
//! below a bound are drawn by Lemire's method (Lemire 2019, *Fast random integer generation in an interval*). It has a
//! state, unlike [`crate::Random`], and is used for nothing else.
//!
//! ```
//! use polyhead_random::numpy::Pcg64;
//! let mut generator = Pcg64::new(12345); // numpy.random.default_rng(12345)
//! let drawn: Vec<u32> = (0..6).map(|_| generator.below(100)).collect();
//! assert_eq!(drawn, [69, 22, 78, 31, 20, 79]); // .integers(100, size=6)
//! ```

/// Number of words in the entropy pool of `SeedSequence`.
const POOL: usize = 4;
const MULTIPLIER: u128 = 0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645;

/// `numpy.random.default_rng(seed)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pcg64 {
    state: u128,
    increment: u128,
    /// The upper half of the last 64 bits, if it has not been used.
    upper: Option<u32>,
}

impl Pcg64 {
    /// The generator of a seed.
    pub fn new(seed: u64) -> Self {
        let [state_high, state_low, stream_high, stream_low] = seed_sequence(seed);
        let wide = |high: u64, low: u64| u128::from(high) << 64 | u128::from(low);
        let increment = wide(stream_high, stream_low) << 1 | 1;
        let mut generator = Self { state: 0, increment, upper: None };
        generator.step();
        generator.state = generator.state.wrapping_add(wide(state_high, state_low));
        generator.step();
        generator
    }

    /// A uniform number in `0..bound`, as `integers(bound)` draws it; 0, without a draw, for a bound of 0 or 1.
    pub fn below(&mut self, bound: u32) -> u32 {
        if bound < 2 {
            return 0;
        }
        let threshold = bound.wrapping_neg() % bound;
        loop {
            let product = u64::from(self.u32()) * u64::from(bound);
            if product as u32 >= threshold {
                return (product >> 32) as u32;
            }
        }
    }

    /// Random bits, as one call of `integers(2, dtype=bool)` draws them: 32 from each word, the lowest first.
    pub fn bits(&mut self) -> impl Iterator<Item = bool> {
        std::iter::from_fn(|| Some(self.u32())).flat_map(|word| (0..32).map(move |bit| word >> bit & 1 == 1))
    }

    fn step(&mut self) {
        self.state = self.state.wrapping_mul(MULTIPLIER).wrapping_add(self.increment);
    }

    fn u64(&mut self) -> u64 {
        self.step();
        let folded = (self.state >> 64) as u64 ^ self.state as u64;
        folded.rotate_right((self.state >> 122) as u32)
    }

    /// The lower half of 64 bits, then the upper one.
    fn u32(&mut self) -> u32 {
        if let Some(upper) = self.upper.take() {
            return upper;
        }
        let bits = self.u64();
        self.upper = Some((bits >> 32) as u32);
        bits as u32
    }
}

/// `SeedSequence(seed).generate_state(4, uint64)`: four well-mixed words, by the hash of O'Neill's `seed_seq_fe`.
fn seed_sequence(seed: u64) -> [u64; 4] {
    let mut constant = 0x43b0_d7e5_u32;
    let mut hash = |value: u32| {
        let value = value ^ constant;
        constant = constant.wrapping_mul(0x931e_8875);
        folded(value.wrapping_mul(constant))
    };
    let mut pool = [seed as u32, (seed >> 32) as u32, 0, 0].map(&mut hash);
    for source in 0..POOL {
        for target in (0..POOL).filter(|&target| target != source) {
            let hashed = hash(pool[source]).wrapping_mul(0x4973_f715);
            pool[target] = folded(pool[target].wrapping_mul(0xca01_f9dd).wrapping_sub(hashed));
        }
    }
    let mut constant = 0x8b51_f9dd_u32;
    let mut word = |index: usize| {
        let value = pool[index % POOL] ^ constant;
        constant = constant.wrapping_mul(0x58f3_8ded);
        u64::from(folded(value.wrapping_mul(constant)))
    };
    std::array::from_fn(|index| word(2 * index) | word(2 * index + 1) << 32)
}

fn folded(value: u32) -> u32 {
    value ^ value >> 16
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers of NumPy 2.4; the second bound is past half of 2³², where draws are often rejected.
    #[test]
    fn draws_what_numpy_draws() {
        let known = [
            (
                0,
                [2328, 1743, 1398, 738, 842],
                [122_920_571, 225_720_425, 49_582_906, 525_801_878, 2_439_810_717],
            ),
            (
                12345,
                [1913, 622, 2158, 866, 558],
                [2_392_096_371, 2_028_764_011, 2_518_275_128, 1_794_926_260, 639_429_039],
            ),
            (
                1_099_511_627_783,
                [565, 2271, 1668, 698, 46],
                [461_372_147, 1_514_132_298, 2_655_564_380, 2_216_522_156, 283_480_328],
            ),
        ];
        for (seed, small, large) in known {
            let mut generator = Pcg64::new(seed);
            assert_eq!(small.map(|_| generator.below(2737)), small, "seed {seed}");
            assert_eq!(large.map(|_| generator.below(3_000_000_000)), large, "seed {seed}");
        }
        let mut generator = Pcg64::new(7);
        assert_eq!(
            (0..100_000).map(|_| u64::from(generator.below(3_000_000_000))).sum::<u64>(),
            149_908_795_222_734
        );
    }

    #[test]
    fn draws_bits_and_goes_on_as_numpy() {
        let mut generator = Pcg64::new(12345);
        for _ in 0..5 {
            generator.below(2737);
        }
        for _ in 0..5 {
            generator.below(3_000_000_000);
        }
        let bits: String = generator.bits().take(40).map(|bit| if bit { '1' } else { '0' }).collect();
        assert_eq!(bits, "0010001111110011101100111111010010110100");
        assert_eq!([3, 3, 3].map(|bound| generator.below(bound)), [2, 1, 2]);
        assert_eq!(generator.below(1), 0);
        assert_eq!([1000; 3].map(|bound| generator.below(bound)), [706, 248, 914]);
    }
}
