//! Batches of encoded pairs: by token budget, of similar length, in an order that is a pure function of (seed, epoch).
//!
//! In each epoch the pairs are put into random order, stably sorted by length so that equals stay random, cut wherever
//! one more pair would break the budget, and the batches are put into random order. Nothing is remembered between
//! epochs: batch k of epoch e is the same whether the run came there by itself or was resumed there.

use polyhead_random::Random;

use crate::{Error, Result};

/// How batches are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchOptions {
    /// Tokens of the wider side, padding included: rows × longest row ≤ this; 4096.
    pub max_tokens: usize,
    /// Rows of a batch at the most; no limit.
    pub max_rows: usize,
    /// Lengths are rounded up to a multiple of this before sorting: larger mixes more and pads more; 1.
    pub bucket: usize,
    /// Names the order; 1.
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

/// Where a run stands in its data.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
pub struct Position {
    /// Epochs completed.
    pub epoch: u64,
    /// Batches of this epoch already used.
    pub batch: usize,
}

/// The batches of one epoch as indices of pairs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Epoch {
    /// Every pair once, batch after batch.
    order: Vec<u32>,
    /// Where each batch begins in `order`, in the order of use.
    spans: Vec<(u32, u32)>,
    waste: Padding,
}

/// How much of the batches is padding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Padding {
    /// Tokens of text.
    pub tokens: u64,
    /// Tokens with padding.
    pub padded: u64,
}

impl Padding {
    /// The share that is padding, 0 to 1.
    pub fn waste(self) -> f64 {
        if self.padded == 0 { 0.0 } else { 1.0 - self.tokens as f64 / self.padded as f64 }
    }
}

impl Epoch {
    /// Plans epoch number `epoch` over pairs of the given lengths.
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
        let mut waste = Padding::default();
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

    /// True without pairs.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// All batches as indices of pairs.
    pub fn batches(&self) -> impl Iterator<Item = &[u32]> {
        self.batches_from(0)
    }

    /// The batches from number `batch` on: what is left after a resume at [`Position::batch`].
    pub fn batches_from(&self, batch: usize) -> impl Iterator<Item = &[u32]> {
        self.spans.iter().skip(batch).map(|&(start, end)| &self.order[start as usize..end as usize])
    }

    /// Padding over the whole epoch, both sides.
    pub fn padding(&self) -> Padding {
        self.waste
    }
}

impl Padding {
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

/// Whether the sizes of batches are rounded up. A graphics card records a step once for each size and plays it again, so
/// few sizes are worth some padding: the 124 batches of an epoch of Multi30k with 4096 tokens have 29 sizes, and padding
/// goes from 7 to 12 %.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Rounding {
    /// Every batch is as large as its pairs ask for.
    #[default]
    Exact,
    /// Rows and lengths take few values: sixteen rows and eight lengths between a power of two and the next. Rows are
    /// multiples of 8 and lengths of 2.
    Few {
        /// No length is rounded beyond this: a model has no more places.
        max_length: usize,
    },
}

impl Rounding {
    /// Rows of a batch that has `count` pairs.
    pub fn rows(self, count: usize) -> usize {
        self.up(count, 16, 8)
    }

    /// Room for tokens in a batch whose longest row has `length`.
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

/// Rows of ids, each filled up with padding to the longest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rows {
    /// Row after row, `n_rows × width`.
    pub ids: Vec<u32>,
    /// True lengths of the rows.
    pub lengths: Vec<u32>,
    /// Ids in a row, padding included.
    pub width: usize,
}

impl Rows {
    /// Pads `rows` on the right with `pad`.
    pub fn pad<'a>(rows: impl Iterator<Item = &'a [u32]> + Clone, pad: u32) -> Self {
        let width = rows.clone().map(<[u32]>::len).max().unwrap_or(0);
        let mut ids = Vec::with_capacity(width * rows.size_hint().0);
        let mut lengths = Vec::new();
        for row in rows {
            ids.extend_from_slice(row);
            ids.extend(std::iter::repeat_n(pad, width - row.len()));
            lengths.push(row.len() as u32);
        }
        Self { ids, lengths, width }
    }
}

/// A padded batch of pairs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// Which pairs these are.
    pub indices: Vec<u32>,
    /// Source ids.
    pub source: Rows,
    /// Target ids.
    pub target: Rows,
}

impl Batch {
    /// Gathers the pairs `indices` of an encoded corpus.
    pub fn gather(indices: &[u32], source: &[Vec<u32>], target: &[Vec<u32>], pad: u32) -> Self {
        let rows =
            |side: &[Vec<u32>]| Rows::pad(indices.iter().map(|&index| side[index as usize].as_slice()), pad);
        Self { indices: indices.to_vec(), source: rows(source), target: rows(target) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rows_are_padded_on_the_right() {
        let (source, target) = (vec![vec![5, 6], vec![7], vec![8, 9, 10]], vec![vec![1], vec![2, 3], vec![]]);
        let batch = Batch::gather(&[2, 0], &source, &target, 0);
        assert_eq!(batch.source, Rows { ids: vec![8, 9, 10, 5, 6, 0], lengths: vec![3, 2], width: 3 });
        assert_eq!(batch.target, Rows { ids: vec![0, 1], lengths: vec![0, 1], width: 1 });
    }

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
            // A size that was rounded is its own: recording it again would change nothing.
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
