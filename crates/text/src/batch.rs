//! Batches of encoded pairs: by token budget, of similar length, in an order that is a pure function of (seed, epoch).
//!
//! In each epoch the pairs are shuffled, stably sorted by length so that pairs of equal length stay shuffled, cut
//! wherever one more pair would exceed the budget, and the batches are shuffled. There is no state between epochs:
//! batch k of epoch e is the same in an uninterrupted and in a resumed run.

use polyhead_random::Random;

use crate::{Error, Result};

/// Options of batching.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchOptions {
    /// Maximum number of tokens of the wider side, padding included (rows × longest row); default: 4096.
    pub max_tokens: usize,
    /// Maximum number of rows of a batch; default: no limit.
    pub max_rows: usize,
    /// Lengths are rounded up to a multiple of this before sorting: a larger one mixes and pads more; default: 1.
    pub bucket: usize,
    /// Random seed of the order; default: 1.
    pub seed: u64,
}

impl Default for BatchOptions {
    fn default() -> Self {
        Self { max_tokens: 4096, max_rows: usize::MAX, bucket: 1, seed: 1 }
    }
}

/// Token counts of one pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PairLengths {
    /// Source tokens.
    pub source: u32,
    /// Target tokens.
    pub target: u32,
}

impl PairLengths {
    fn wider(self) -> u32 {
        self.source.max(self.target)
    }
}

/// Position of a run in its training data.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
pub struct DataPosition {
    /// Epochs completed.
    pub epoch: u64,
    /// Batches of this epoch already used.
    pub batch: usize,
}

/// The batches of one epoch, as indices of pairs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Epoch {
    /// Every pair once, batch after batch.
    order: Vec<u32>,
    /// Start and end of each batch in `order`, in the order of use.
    spans: Vec<(u32, u32)>,
    waste: PaddingStats,
}

/// Token counts of batches with and without padding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PaddingStats {
    /// Tokens without padding.
    pub tokens: u64,
    /// Tokens with padding.
    pub padded: u64,
}

impl PaddingStats {
    /// Share of padding, 0 to 1.
    pub fn waste(self) -> f64 {
        if self.padded == 0 { 0.0 } else { 1.0 - self.tokens as f64 / self.padded as f64 }
    }
}

impl Epoch {
    /// Plans epoch `epoch` (from 0) over pairs of these lengths.
    ///
    /// ```
    /// use polyhead_text::batch::{BatchOptions, Epoch, PairLengths};
    /// let lengths: Vec<_> = (0..100).map(|i| PairLengths { source: 1 + i % 9, target: 1 + i % 7 }).collect();
    /// let options = BatchOptions { max_tokens: 32, ..BatchOptions::default() };
    /// let epoch = Epoch::plan(&lengths, options, 0)?;
    /// assert_eq!(epoch.batches().map(<[u32]>::len).sum::<usize>(), 100);
    /// // Resuming after three batches yields the rest.
    /// assert!(epoch.batches_from(3).eq(epoch.batches().skip(3)));
    /// # Ok::<(), polyhead_text::Error>(())
    /// ```
    pub fn plan(lengths: &[PairLengths], options: BatchOptions, epoch: u64) -> Result<Self> {
        options.check(lengths)?;
        let random = Random::new(options.seed);
        let mut order = random.stream_pair(epoch, 0).permutation(lengths.len());
        let bucket = u32::try_from(options.bucket).unwrap_or(u32::MAX).max(1);
        order.sort_by_key(|&index| {
            let PairLengths { source, target } = lengths[index as usize];
            (source.max(target).div_ceil(bucket), source.min(target).div_ceil(bucket))
        });
        let mut spans = Vec::new();
        let mut waste = PaddingStats::default();
        let mut start = 0;
        let mut widest = 0;
        for at in 0..=order.len() {
            let wider = order.get(at).map(|&index| lengths[index as usize].wider());
            let rows = at - start;
            let fits = wider.is_some_and(|wider| {
                rows < options.max_rows && (rows + 1) * widest.max(wider) as usize <= options.max_tokens
            });
            if !fits && rows > 0 {
                spans.push((start as u32, at as u32));
                waste.add(&order[start..at].iter().map(|&index| lengths[index as usize]));
                start = at;
                widest = 0;
            }
            widest = widest.max(wider.unwrap_or(0));
        }
        random.stream_pair(epoch, 1).shuffle(&mut spans);
        Ok(Self { order, spans, waste })
    }

    /// Number of batches.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// True if there are no pairs.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// All batches, as indices of pairs.
    pub fn batches(&self) -> impl Iterator<Item = &[u32]> {
        self.batches_from(0)
    }

    /// The batches from index `batch` on: the rest of the epoch after a resume at [`DataPosition::batch`].
    pub fn batches_from(&self, batch: usize) -> impl Iterator<Item = &[u32]> {
        self.spans.iter().skip(batch).map(|&(start, end)| &self.order[start as usize..end as usize])
    }

    /// Padding over the whole epoch, both sides.
    pub fn padding(&self) -> PaddingStats {
        self.waste
    }
}

impl PaddingStats {
    fn add(&mut self, rows: &(impl Iterator<Item = PairLengths> + Clone)) {
        for side in [|row: PairLengths| row.source, |row: PairLengths| row.target] {
            let widest = rows.clone().map(side).max().unwrap_or(0);
            self.tokens += rows.clone().map(|row| u64::from(side(row))).sum::<u64>();
            self.padded += u64::from(widest) * rows.clone().count() as u64;
        }
    }
}

impl BatchOptions {
    fn check(self, lengths: &[PairLengths]) -> Result<()> {
        let longest = lengths.iter().enumerate().max_by_key(|(_, row)| row.wider());
        match longest {
            Some((index, row)) if row.wider() as usize > self.max_tokens => Err(Error::Option {
                name: "max_tokens",
                found: format!("{}, but pair {} has {} tokens", self.max_tokens, index + 1, row.wider()),
                expected: "room for the longest pair".into(),
                hint: "raise max_tokens, or drop long pairs with: polyhead data clean --max-chars".into(),
            }),
            _ if self.max_rows == 0 => Err(Error::Option {
                name: "max_rows",
                found: "0".into(),
                expected: "at least 1".into(),
                hint: "leave it out for no limit".into(),
            }),
            _ => Ok(()),
        }
    }
}

/// Rounding of batch shapes. On a GPU a training step is recorded as a CUDA graph once per shape and replayed, so few
/// shapes are worth some padding: the 124 batches of an epoch of Multi30k with 4096 tokens have 29 shapes, and padding
/// rises from 7 to 12 %.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Rounding {
    /// No rounding.
    #[default]
    Exact,
    /// Few shapes: sixteen row counts and eight lengths between a power of two and the next. Row counts are multiples
    /// of 8, lengths of 2.
    Few {
        /// Maximum number of positions of the model: no length is rounded up beyond it.
        max_length: usize,
    },
}

impl Rounding {
    /// Row count of a batch of `count` pairs.
    pub fn rows(self, count: usize) -> usize {
        self.up(count, 16, 8)
    }

    /// Padded length of a batch whose longest row has `length` tokens.
    pub fn length(self, length: usize) -> usize {
        match self {
            Self::Exact => length,
            Self::Few { max_length } => self.up(length, 8, 2).min(max_length.max(length)),
        }
    }

    fn up(self, number: usize, parts: usize, least: usize) -> usize {
        match self {
            Self::Exact => number,
            Self::Few { .. } if number == 0 => least,
            Self::Few { .. } => number.next_multiple_of(least.max((1 << number.ilog2()) / parts)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_pair_that_never_fits_is_named() {
        let lengths = [PairLengths { source: 3, target: 3 }, PairLengths { source: 3, target: 40 }];
        let error =
            Epoch::plan(&lengths, BatchOptions { max_tokens: 32, ..BatchOptions::default() }, 0).unwrap_err();
        assert_eq!(
            error.to_string(),
            "max_tokens: 32, but pair 2 has 40 tokens, expected room for the longest pair"
        );
    }

    #[test]
    fn buckets_of_equal_length_waste_nothing() {
        let lengths: Vec<_> =
            (0..64).map(|i| PairLengths { source: 4 + 4 * (i % 2), target: 4 + 4 * (i % 2) }).collect();
        let epoch =
            Epoch::plan(&lengths, BatchOptions { max_tokens: 32, ..BatchOptions::default() }, 3).unwrap();
        assert_eq!(epoch.padding().waste(), 0.0);
        assert_eq!(epoch.len(), 4 + 8);
    }

    #[test]
    fn rounded_sizes_are_few_and_near() {
        for number in 1..5000 {
            let few = Rounding::Few { max_length: usize::MAX };
            assert_eq!((Rounding::Exact.rows(number), Rounding::Exact.length(number)), (number, number));
            let (rows, length) = (few.rows(number), few.length(number));
            assert!(rows >= number && rows.is_multiple_of(8) && rows < number + (number / 16).max(8));
            assert!(length >= number && length.is_multiple_of(2) && length < number + (number / 8).max(2));
            // Rounding is idempotent.
            assert_eq!((few.rows(rows), few.length(length)), (rows, length));
        }
        let few = Rounding::Few { max_length: 50 };
        assert_eq!([40, 47, 49, 50].map(|length| few.length(length)), [40, 48, 50, 50]);
        let sizes: std::collections::BTreeSet<_> = (256..512).map(|n| few.rows(n)).collect();
        assert_eq!(sizes.len(), 17);
    }

    fn any_lengths() -> impl Strategy<Value = Vec<PairLengths>> {
        prop::collection::vec((1_u32..40, 1_u32..40), 0..200).prop_map(|pairs| {
            pairs.into_iter().map(|(source, target)| PairLengths { source, target }).collect()
        })
    }

    proptest! {
        #[test]
        fn every_epoch_holds_each_pair_once_within_the_budget(
            lengths in any_lengths(), seed in 0_u64..5, epoch in 0_u64..5,
            max_tokens in 40_usize..200, max_rows in 1_usize..20, bucket in 1_usize..9,
        ) {
            let options = BatchOptions { max_tokens, max_rows, bucket, seed };
            let plan = Epoch::plan(&lengths, options, epoch).unwrap();
            let mut seen: Vec<u32> = plan.batches().flatten().copied().collect();
            seen.sort_unstable();
            prop_assert!(seen.into_iter().eq(0..lengths.len() as u32));
            for batch in plan.batches() {
                let widest = batch.iter().map(|&index| lengths[index as usize].wider()).max().unwrap() as usize;
                prop_assert!(!batch.is_empty() && batch.len() <= max_rows && batch.len() * widest <= max_tokens);
            }
            prop_assert_eq!(&plan, &Epoch::plan(&lengths, options, epoch).unwrap());
        }

        #[test]
        fn resuming_in_the_middle_yields_the_remaining_batches(lengths in any_lengths(), done in 0_usize..60) {
            let options = BatchOptions { max_tokens: 64, ..BatchOptions::default() };
            let whole: Vec<Vec<u32>> = Epoch::plan(&lengths, options, 2).unwrap().batches().map(<[u32]>::to_vec).collect();
            let resumed: Vec<Vec<u32>> =
                Epoch::plan(&lengths, options, 2).unwrap().batches_from(done).map(<[u32]>::to_vec).collect();
            prop_assert_eq!(&whole[done.min(whole.len())..], &resumed[..]);
        }
    }

    #[test]
    fn epochs_and_seeds_differ() {
        let lengths: Vec<_> = (0..100).map(|i| PairLengths { source: 1 + i % 9, target: 5 }).collect();
        let plan = |seed, epoch| {
            Epoch::plan(&lengths, BatchOptions { max_tokens: 50, seed, ..BatchOptions::default() }, epoch)
                .unwrap()
        };
        assert_ne!(plan(1, 0), plan(1, 1));
        assert_ne!(plan(1, 0), plan(2, 0));
    }
}
