//! Random choices of training: which occurrences are kept, how wide a window is, which words are negative samples.

use polyhead_lanes::vectorised;
use polyhead_random::{KEY_STEP, MULTIPLIERS, ROUNDS, Random};

/// Counters that are computed together, in the lanes of a register.
const LANES: usize = 16;
/// Random numbers of one group of counters.
pub(crate) const GROUP: usize = 4 * LANES;

/// A number of `0..weights.len()` with probability in proportion to its weight, in constant time (Walker's alias method).
#[derive(Debug)]
pub(crate) struct AliasTable {
    /// For each column: the threshold in 2⁻³² below which it is chosen, and its alias above.
    columns: Vec<(u32, u32)>,
}

impl AliasTable {
    /// The table of non-negative weights, at least one of them positive.
    pub(crate) fn new(weights: &[f64]) -> Self {
        let n = weights.len();
        let total: f64 = weights.iter().sum();
        let mut share: Vec<f64> = weights.iter().map(|weight| weight * n as f64 / total).collect();
        let mut columns: Vec<(u32, u32)> = (0..n as u32).map(|column| (u32::MAX, column)).collect();
        let (mut small, mut large): (Vec<usize>, Vec<usize>) =
            (0..n).partition(|&column| share[column] < 1.0);
        while let (Some(&low), Some(&high)) = (small.last(), large.last()) {
            small.pop();
            columns[low] = ((share[low] * f64::from(u32::MAX)) as u32, high as u32);
            share[high] -= 1.0 - share[low];
            if share[high] < 1.0 {
                large.pop();
                small.push(high);
            }
        }
        Self { columns }
    }

    /// The number that two random words choose.
    pub(crate) fn choose(&self, first: u32, second: u32) -> u32 {
        let column = (u64::from(first) * self.columns.len() as u64) >> 32;
        let (threshold, alias) = self.columns[column as usize];
        if second < threshold { column as u32 } else { alias }
    }
}

/// Thresholds in 2⁻³² of keeping an occurrence of each word: √(t/f) + t/f for relative frequency f and `sample` t, as in
/// word2vec. With t = 0 all are kept.
pub(crate) fn keep_thresholds(counts: &[u64], sample: f64) -> Vec<u32> {
    let total: u64 = counts.iter().sum();
    let keep = |&count: &u64| {
        let ratio = sample * total as f64 / count.max(1) as f64;
        let chance = if sample > 0.0 { ratio.sqrt() + ratio } else { 1.0 };
        (chance.min(1.0) * f64::from(u32::MAX)) as u32
    };
    counts.iter().map(keep).collect()
}

/// Fills `words` with the random words of the counters from `first` on: word i is part i mod 4 of counter `first` + i div 4,
/// rearranged within groups of [`GROUP`]. Its length is a multiple of [`GROUP`].
pub(crate) fn fill(words: &mut [u32], random: Random, first: u64) {
    let (key, stream) = random.parts();
    for (group, words) in words.chunks_exact_mut(GROUP).enumerate() {
        philox_group(words, first + (group * LANES) as u64, key, stream);
    }
}

vectorised! {
    /// Philox4x32-10 of sixteen counters: the first words of all of them, then the second words, and so on.
    fn philox_group(words: &mut [u32], first: u64, key: [u32; 2], stream: [u32; 2]) {
        let mut a = [0_u32; LANES];
        let mut b = [0_u32; LANES];
        let mut c = [stream[0]; LANES];
        let mut d = [stream[1]; LANES];
        for lane in 0..LANES {
            let counter = first + lane as u64;
            a[lane] = counter as u32;
            b[lane] = (counter >> 32) as u32;
        }
        let [mut low, mut high] = key;
        for _ in 0..ROUNDS {
            for lane in 0..LANES {
                let left = u64::from(MULTIPLIERS[0]) * u64::from(a[lane]);
                let right = u64::from(MULTIPLIERS[1]) * u64::from(c[lane]);
                let next = [
                    (right >> 32) as u32 ^ b[lane] ^ low,
                    right as u32,
                    (left >> 32) as u32 ^ d[lane] ^ high,
                    left as u32,
                ];
                [a[lane], b[lane], c[lane], d[lane]] = next;
            }
            low = low.wrapping_add(KEY_STEP[0]);
            high = high.wrapping_add(KEY_STEP[1]);
        }
        for (words, part) in words.chunks_exact_mut(LANES).zip([a, b, c, d]) {
            words.copy_from_slice(&part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_philox() {
        let random = Random::new(7).stream(3);
        let mut words = [0; 2 * GROUP];
        fill(&mut words, random, 5);
        for lane in 0..LANES {
            let expected = random.u64(5 + lane as u64);
            assert_eq!(u64::from(words[lane]) | u64::from(words[LANES + lane]) << 32, expected);
        }
        assert_eq!(words[GROUP], random.u64(5 + LANES as u64) as u32);
    }

    /// Frequencies of 200,000 draws from 1 : 2 : 7 within five standard errors.
    #[test]
    fn alias_table_draws_in_proportion() {
        let table = AliasTable::new(&[1.0, 0.0, 2.0, 7.0]);
        let n = 200_000;
        let mut counts = [0.0; 4];
        for index in 0..n {
            let draw = Random::new(3).u64(index);
            counts[table.choose(draw as u32, (draw >> 32) as u32) as usize] += 1.0;
        }
        for (count, share) in counts.iter().zip([0.1_f64, 0.0, 0.2, 0.7]) {
            let error = (n as f64 * share * (1.0 - share)).sqrt();
            assert!((count - n as f64 * share).abs() <= 5.0 * error, "{counts:?}");
        }
    }

    #[test]
    fn frequent_words_are_kept_less_often() {
        let thresholds = keep_thresholds(&[9_000, 990, 10], 1e-2);
        let expected = |f: f64| ((1e-2 / f).sqrt() + 1e-2 / f).min(1.0) * f64::from(u32::MAX);
        for (threshold, f) in thresholds.iter().zip([0.9, 0.099, 0.001]) {
            assert!((f64::from(*threshold) - expected(f)).abs() < 2.0);
        }
    }
}
