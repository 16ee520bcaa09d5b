//! Examination of pairs, one at a time.

use ahash::{AHashSet, RandomState};

use super::CheckOptions;
use super::line_facts::LineFacts;
use super::pair_index::{self, PairIndex};
use super::problem::{Problem, ProblemSet};
use crate::Result;
use crate::corpus::RawPair;

/// Problems and sizes of one pair.
pub(super) struct Diagnosis {
    pub(super) problems: ProblemSet,
    pub(super) source: LineFacts,
    pub(super) target: LineFacts,
    /// First line of a duplicate.
    repeats: Option<u64>,
}

/// Finds the problems of pairs. Keeps the hashes of all pairs so far, for duplicates.
pub(super) struct Examiner {
    options: CheckOptions,
    hasher: RandomState,
    pairs: PairIndex,
    /// Hashes of the test set's source and target lines.
    test: [AHashSet<u64>; 2],
}

impl Examiner {
    pub(super) fn new(options: &CheckOptions) -> Result<Self> {
        let hasher = pair_index::hasher();
        let mut test = [AHashSet::new(), AHashSet::new()];
        if let Some(corpus) = &options.test {
            let mut pairs = corpus.pairs()?;
            while let Some(pair) = pairs.next_raw()? {
                for (set, bytes) in test.iter_mut().zip([pair.source, pair.target]) {
                    let bytes = bytes.unwrap_or_default().trim_ascii();
                    if !bytes.is_empty() {
                        set.insert(hasher.hash_one(bytes));
                    }
                }
            }
        }
        Ok(Self { options: options.clone(), hasher, pairs: PairIndex::default(), test })
    }

    pub(super) fn examine(&mut self, pair: RawPair<'_>) -> Diagnosis {
        let mut problems = ProblemSet::default();
        let (Some(source_bytes), Some(target_bytes)) = (pair.source, pair.target) else {
            problems.add_if(true, Problem::Unpaired);
            let [source, target] =
                [pair.source, pair.target].map(|bytes| LineFacts::of(bytes.unwrap_or_default()));
            return Diagnosis { problems, source, target, repeats: None };
        };
        let (source, target) = (LineFacts::of(source_bytes), LineFacts::of(target_bytes));
        let either = |test: fn(&LineFacts) -> bool| test(&source) || test(&target);
        problems.add_if(either(|side| side.invalid_utf8.is_some()), Problem::InvalidUtf8);
        problems.add_if(source.blank, Problem::EmptySource);
        problems.add_if(target.blank, Problem::EmptyTarget);
        problems.add_if(either(|side| side.control.is_some()), Problem::Control);
        problems.add_if(either(|side| side.line_break.is_some()), Problem::LineBreak);
        let (short, long) = (source.chars.min(target.chars), source.chars.max(target.chars));
        problems.add_if(long > self.options.max_chars, Problem::TooLong);
        let mut repeats = None;
        if !source.blank && !target.blank {
            let apart = long - short > self.options.min_difference;
            problems
                .add_if(apart && long as f64 > short as f64 * self.options.max_ratio, Problem::LengthRatio);
            problems.add_if(source_bytes == target_bytes, Problem::Identical);
            repeats = self.pairs.insert(self.hasher.hash_one((source_bytes, target_bytes)), pair.line);
            problems.add_if(repeats.is_some(), Problem::Duplicate);
            let known = |(set, bytes): (&AHashSet<u64>, &[u8])| {
                !set.is_empty() && set.contains(&self.hasher.hash_one(bytes.trim_ascii()))
            };
            problems.add_if(self.test.iter().zip([source_bytes, target_bytes]).any(known), Problem::Overlap);
        }
        Diagnosis { problems, source, target, repeats }
    }
}

impl Diagnosis {
    /// Description of `problem` in this pair: position, lengths, or an excerpt.
    pub(super) fn detail(&self, problem: Problem, pair: RawPair<'_>) -> String {
        let sides = [("source", &self.source), ("target", &self.target)];
        let place = |find: fn(&LineFacts) -> Option<(usize, char)>| {
            let found = sides.iter().find_map(|(name, side)| find(side).map(|(at, c)| (*name, at, c)));
            found.map_or(String::new(), |(name, at, c)| {
                format!("U+{:04X} at byte {} of the {name}", c as u32, at + 1)
            })
        };
        match problem {
            Problem::Malformed => String::new(),
            Problem::InvalidUtf8 => {
                let found = sides.iter().find_map(|(name, side)| Some((name, side.invalid_utf8?)));
                found.map_or(String::new(), |(name, at)| format!("byte {} of the {name}", at + 1))
            }
            Problem::Unpaired if pair.source.is_none() => "the source has ended".into(),
            Problem::Unpaired => "the target has ended".into(),
            Problem::EmptySource => excerpt(pair.target),
            Problem::EmptyTarget | Problem::Identical | Problem::Overlap => excerpt(pair.source),
            Problem::Control => place(|side| side.control),
            Problem::LineBreak => place(|side| side.line_break),
            Problem::TooLong | Problem::LengthRatio => {
                format!("{} and {} characters", self.source.chars, self.target.chars)
            }
            Problem::Duplicate => format!("repeats line {}", self.repeats.unwrap_or_default()),
        }
    }
}

/// The first 40 characters of a line.
fn excerpt(bytes: Option<&[u8]>) -> String {
    let text = String::from_utf8_lossy(bytes.unwrap_or_default());
    let mut short: String = text.trim().chars().take(40).collect();
    if short.len() < text.trim().len() {
        short.push('…');
    }
    short
}
