//! Lexical translation probabilities p(target token | source token), learnt from pairs by IBM Model 1.
//!
//! Expectation-maximisation from a uniform start: with z_j = Σ_i t(y_j | x_i) over the source tokens and the NULL token of
//! a pair, the expected counts are c(y | x) = Σ t(y | x) / z, and t(y | x) = c(y | x) / Σ_y c(y | x). (Brown et al. 1993.)
//!
//! Tables are sparse, one row of target ids per source id. A row is computed by one thread from the pairs in order, so the
//! result has the same bits on any number of threads.

use rayon::prelude::*;

/// Options of training.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LexiconOptions {
    /// Number of iterations; default: 5.
    pub iterations: usize,
    /// Probabilities below this are dropped after each iteration; default: 1e-6.
    pub min_probability: f32,
}

impl Default for LexiconOptions {
    fn default() -> Self {
        Self { iterations: 5, min_probability: 1e-6 }
    }
}

/// Lexical translation probabilities.
#[derive(Debug, Clone, PartialEq)]
pub struct Lexicon {
    /// For each source id the target ids, ascending, with their probabilities; the last row is that of NULL.
    rows: Vec<Vec<(u32, f32)>>,
}

impl Lexicon {
    /// Learns from pairs of source and target ids, which are below `vocab_sizes`; `report` is called after each iteration.
    ///
    /// # Panics
    /// If an id is not below its vocabulary size.
    pub fn train(
        pairs: &[(Vec<u32>, Vec<u32>)],
        vocab_sizes: [usize; 2],
        options: &LexiconOptions,
        report: &(dyn Fn() + Sync),
    ) -> Self {
        let corpus = IndexedPairs::new(pairs, vocab_sizes[0]);
        let mut lexicon: Option<Self> = None;
        for _ in 0..options.iterations.max(1) {
            let sums = corpus.sums(lexicon.as_ref(), vocab_sizes[1]);
            let row = |scratch: &mut Scratch, source: usize| {
                let row = lexicon.as_ref().map(|lexicon| lexicon.rows[source].as_slice());
                corpus.row(source, row, &sums, (scratch, options.min_probability))
            };
            let rows = (0..=vocab_sizes[0]).into_par_iter();
            let rows = rows.map_init(|| Scratch::new(vocab_sizes[1]), row).collect();
            lexicon = Some(Self { rows });
            report();
        }
        lexicon.expect("there is at least one iteration")
    }

    /// The target ids of a source id, ascending, with their probabilities.
    pub fn row(&self, source: u32) -> &[(u32, f32)] {
        self.rows.get(source as usize).map_or(&[], Vec::as_slice)
    }
}

/// The pairs, indexed by source id.
struct IndexedPairs {
    /// The target ids of all pairs, and where those of each pair begin.
    targets: Vec<u32>,
    starts: Vec<usize>,
    /// The pairs in which each source id occurs, ascending, once for each occurrence; NULL last, in every pair.
    occurrences: Vec<Vec<u32>>,
}

/// A row in dense form: the old probabilities and the new counts of each target id.
struct Scratch {
    probabilities: Vec<f32>,
    counts: Vec<f64>,
    touched: Vec<u32>,
}

impl Scratch {
    fn new(vocab_size: usize) -> Self {
        Self { probabilities: vec![0.0; vocab_size], counts: vec![0.0; vocab_size], touched: Vec::new() }
    }

    /// Runs `work` with the dense form of a row; `None` is the uniform row of the start, all 1.
    fn with_row<T>(&mut self, row: Option<&[(u32, f32)]>, work: impl FnOnce(&mut Self) -> T) -> T {
        match row {
            None => self.probabilities.fill(1.0),
            Some(row) => row.iter().for_each(|&(id, p)| self.probabilities[id as usize] = p),
        }
        let result = work(self);
        if let Some(row) = row {
            for &(id, _) in row {
                self.probabilities[id as usize] = 0.0;
            }
        }
        result
    }
}

impl IndexedPairs {
    fn new(pairs: &[(Vec<u32>, Vec<u32>)], source_vocab_size: usize) -> Self {
        let (mut targets, mut starts) = (Vec::new(), vec![0]);
        let mut occurrences = vec![Vec::new(); source_vocab_size + 1];
        for (pair, (source, target)) in (0..).zip(pairs) {
            for &id in source {
                occurrences[id as usize].push(pair);
            }
            occurrences[source_vocab_size].push(pair);
            targets.extend(target);
            starts.push(targets.len());
        }
        Self { targets, starts, occurrences }
    }

    /// z of each target token.
    fn sums(&self, lexicon: Option<&Lexicon>, vocab_size: usize) -> Vec<f32> {
        let n_pairs = self.starts.len() - 1;
        let part = n_pairs.div_ceil(rayon::current_num_threads()).max(1);
        let parts: Vec<std::ops::Range<usize>> =
            (0..n_pairs).step_by(part).map(|first| first..(first + part).min(n_pairs)).collect();
        // Within a pair, source ids are added in ascending order, whatever the parts are.
        let sums = |pairs: std::ops::Range<usize>| {
            let base = self.starts[pairs.start];
            let mut sums = vec![0.0; self.starts[pairs.end] - base];
            let mut scratch = Scratch::new(vocab_size);
            for (source, all) in self.occurrences.iter().enumerate() {
                let [first, end] = [pairs.start, pairs.end]
                    .map(|bound| all.partition_point(|&pair| (pair as usize) < bound));
                if first == end {
                    continue;
                }
                let row = lexicon.map(|lexicon| lexicon.rows[source].as_slice());
                scratch.with_row(row, |scratch| {
                    for &pair in &all[first..end] {
                        let targets = self.starts[pair as usize]..self.starts[pair as usize + 1];
                        let own = &mut sums[targets.start - base..targets.end - base];
                        for (sum, &id) in own.iter_mut().zip(&self.targets[targets]) {
                            *sum += scratch.probabilities[id as usize];
                        }
                    }
                });
            }
            sums
        };
        parts.into_par_iter().flat_map_iter(sums).collect()
    }

    /// The new row of a source id.
    fn row(
        &self,
        source: usize,
        row: Option<&[(u32, f32)]>,
        sums: &[f32],
        (scratch, min_probability): (&mut Scratch, f32),
    ) -> Vec<(u32, f32)> {
        scratch.with_row(row, |scratch| {
            for &pair in &self.occurrences[source] {
                let targets = self.starts[pair as usize]..self.starts[pair as usize + 1];
                for (&id, &sum) in self.targets[targets.clone()].iter().zip(&sums[targets]) {
                    let expected = scratch.probabilities[id as usize] / sum;
                    // Where every probability of a token has been dropped, the sum is 0.
                    if expected > 0.0 {
                        let count = &mut scratch.counts[id as usize];
                        if *count == 0.0 {
                            scratch.touched.push(id);
                        }
                        *count += f64::from(expected);
                    }
                }
            }
            scratch.touched.sort_unstable();
            let total: f64 = scratch.touched.iter().map(|&id| scratch.counts[id as usize]).sum();
            let touched = std::mem::take(&mut scratch.touched);
            let probability = |id: u32| {
                let count = std::mem::take(&mut scratch.counts[id as usize]);
                (id, (count / total) as f32)
            };
            touched.into_iter().map(probability).filter(|&(_, p)| p >= min_probability).collect()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: [usize; 2] = [4, 5];

    /// 0 = das, 1 = Haus, 2 = Buch, 3 = ein; 0 = the, 1 = house, 2 = book, 3 = a, 4 occurs nowhere. The example of Koehn
    /// 2009 (section 4.2), with NULL.
    fn pairs() -> Vec<(Vec<u32>, Vec<u32>)> {
        vec![(vec![0, 1], vec![0, 1]), (vec![0, 2], vec![0, 2]), (vec![3, 2], vec![3, 2])]
    }

    fn train(pairs: &[(Vec<u32>, Vec<u32>)], iterations: usize) -> Lexicon {
        let options = LexiconOptions { iterations, ..LexiconOptions::default() };
        Lexicon::train(pairs, SIZES, &options, &|| ())
    }

    #[test]
    fn one_iteration_counts_what_occurs_together() {
        let found = train(&pairs(), 1);
        // das: twice with the, once with house, once with book; each with one of three source tokens.
        assert_eq!(found.row(0), [(0, 0.5), (1, 0.25), (2, 0.25)]);
        assert_eq!(found.row(1), [(0, 0.5), (1, 0.5)]);
        assert_eq!(found.row(9), []);
    }

    #[test]
    fn the_second_iteration_is_the_hand_computed_one() {
        let found = train(&pairs(), 2);
        // After the first, NULL has the 1/3, house 1/6, book 1/3, a 1/6. For das: the in pair 1 is 1/2 of
        // (1/2 + 1/2 + 1/3), in pair 2 of (1/2 + 1/4 + 1/3); house 1/4 of (1/4 + 1/2 + 1/6); book 1/4 of
        // (1/4 + 1/2 + 1/3).
        let counts = [0.5 / (4.0 / 3.0) + 0.5 / (13.0 / 12.0), 0.25 / (11.0 / 12.0), 0.25 / (13.0 / 12.0)];
        let total: f64 = counts.iter().sum();
        for (&(id, p), count) in found.row(0).iter().zip(counts) {
            assert!((f64::from(p) - count / total).abs() < 1e-6, "{id}: {p}, expected {}", count / total);
        }
        assert_eq!(found.row(0).len(), 3);
    }

    #[test]
    fn more_iterations_find_the_translations() {
        let found = train(&pairs(), 50);
        for (source, target) in [(0, 0), (1, 1), (2, 2), (3, 3)] {
            let best = found.row(source).iter().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap();
            assert!(best.0 == target && best.1 > 0.9, "{source}: {:?}", found.row(source));
        }
    }

    #[test]
    fn threads_do_not_change_a_bit() {
        let random = polyhead_random::Random::new(3);
        let mut next = 0;
        let mut draw = |below: u64| {
            next += 1;
            (random.uniform(next) * below as f64) as u32
        };
        let mut side = |below| (0..=draw(9)).map(|_| draw(below)).collect::<Vec<u32>>();
        let pairs: Vec<(Vec<u32>, Vec<u32>)> = (0..300).map(|_| (side(4), side(5))).collect();
        let on = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| train(&pairs, 4))
        };
        let alone = on(1);
        assert_eq!(on(2), alone);
        assert_eq!(on(5), alone);
        assert_eq!(train(&[], 2).row(0), []);
    }
}
