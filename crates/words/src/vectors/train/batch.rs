//! A batch: a fixed range of the corpus, less the occurrences that subsampling drops, with the context around it.
//!
//! Whether an occurrence is kept, and how wide its window is, are pure functions of (seed, epoch, place in the text), so a batch
//! is the same whichever thread builds it, and contexts reach across the borders of batches.

use std::ops::Range;

use polyhead_random::Random;

use super::super::corpus::LINE_END;
use super::super::sampling::{GROUP, fill};

/// Streams of random numbers within an epoch.
const KEEP: u64 = 0;
const WINDOW: u64 = 1;
const NEGATIVE: u64 = 2;
/// Farthest place that is looked at for context, in words of the text.
const REACH: usize = GROUP;

/// The window of the word at `position` of a line: positions up to `width` away, itself included.
///
/// ```
/// use polyhead_words::vectors::window;
/// let line = ["the", "professor", "is", "scribbling", "on", "the", "board"];
/// let context: Vec<&str> = window(0..line.len(), 1, 2).filter(|&at| at != 1).map(|at| line[at]).collect();
/// assert_eq!(context, ["the", "is", "scribbling"]);
/// ```
pub fn window(line: Range<usize>, position: usize, width: usize) -> Range<usize> {
    position.saturating_sub(width).max(line.start)..(position + width + 1).min(line.end)
}

/// What a batch is drawn from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Source<'a> {
    /// The corpus.
    pub(crate) ids: &'a [u32],
    /// Threshold of keeping each word.
    pub(crate) keep: &'a [u32],
    /// Widest window: words on each side.
    pub(crate) window: usize,
    /// Seed of the run.
    pub(crate) seed: u64,
}

/// A word that is predicted, and the positions of its context: `first..=last` without `position`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Center {
    pub(crate) position: usize,
    pub(crate) first: usize,
    pub(crate) last: usize,
}

impl Center {
    /// Positions of the context.
    pub(crate) fn context(self) -> impl Iterator<Item = usize> {
        (self.first..=self.last).filter(move |&position| position != self.position)
    }

    /// Number of words in the context.
    pub(crate) fn n_context(self) -> usize {
        self.last - self.first
    }
}

/// The words of a batch and its centers.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// Kept words: context before the range, the range, context after it.
    pub(crate) words: Vec<u32>,
    /// Words of the range, each with a context that is not empty.
    pub(crate) centers: Vec<Center>,
    lines: Vec<u32>,
    draws: Vec<u32>,
}

impl Batch {
    /// Fills the batch with the words at `start..end` of the corpus.
    pub(crate) fn build(&mut self, source: &Source, epoch: u64, start: usize, end: usize) {
        let Source { ids, keep, window, seed } = *source;
        let end = end.min(ids.len());
        let base = start.saturating_sub(REACH) / GROUP * GROUP;
        let random = |stream| Random::new(seed).stream_pair(epoch, stream);
        self.draws.resize((end + REACH - base).div_ceil(GROUP) * GROUP, 0);
        fill(&mut self.draws, random(KEEP), (base / 4) as u64);
        self.words.clear();
        self.lines.clear();
        self.centers.clear();
        let is_kept = |at: usize| self.draws[at - base] <= keep[ids[at] as usize];
        let before = (start.saturating_sub(REACH)..start).rev().take_while(|&at| ids[at] != LINE_END);
        self.words.extend(before.filter(|&at| is_kept(at)).take(window).map(|at| ids[at]));
        self.words.reverse();
        let n_before = self.words.len();
        let mut line = 0;
        self.lines.resize(n_before, line);
        for at in start..end {
            if ids[at] == LINE_END {
                line += 1;
            } else if is_kept(at) {
                self.words.push(ids[at]);
                self.lines.push(line);
            }
        }
        let in_range = n_before..self.words.len();
        let after = (end..ids.len().min(end + REACH)).take_while(|&at| ids[at] != LINE_END);
        self.words.extend(after.filter(|&at| is_kept(at)).take(window).map(|at| ids[at]));
        self.lines.resize(self.words.len(), line);
        self.draws.resize(in_range.len().div_ceil(GROUP) * GROUP, 0);
        fill(&mut self.draws, random(WINDOW), (start * 4) as u64);
        for (position, draw) in in_range.zip(&self.draws) {
            let width = 1 + ((u64::from(*draw) * window as u64) >> 32) as usize;
            // Lines are short: their ends are found within a window's reach.
            let line = self.lines[position];
            let is_same = |&other: &usize| self.lines[other] == line;
            let begin = (0..position).rev().take(width).take_while(is_same).last().unwrap_or(position);
            let end = (position..self.words.len()).take(width + 1).take_while(is_same).last();
            let window = self::window(begin..end.unwrap_or(position) + 1, position, width);
            let center = Center { position, first: window.start, last: window.end - 1 };
            if center.n_context() > 0 {
                self.centers.push(center);
            }
        }
    }

    /// Pairs of random words for `n` negative samples of the batch that starts at `start`.
    pub(crate) fn negative_draws(&mut self, source: &Source, epoch: u64, start: usize, n: usize) -> &[u32] {
        self.draws.resize((2 * n).div_ceil(GROUP) * GROUP, 0);
        fill(&mut self.draws, Random::new(source.seed).stream_pair(epoch, NEGATIVE), (start * 4) as u64);
        &self.draws
    }
}
