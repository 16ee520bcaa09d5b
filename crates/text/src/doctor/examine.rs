//! Examination of pairs, one at a time.

use ahash::{AHashSet, RandomState};

use super::CheckOptions;
use super::content::{self, ContentChecks};
use super::line_facts::LineFacts;
use super::pair_batch::BatchedPair;
use super::pair_index::{self, PairIndex};
use super::problem::{Problem, ProblemSet};
use crate::Result;
use crate::corpus::RawPair;

/// Names of the sides.
pub(super) const SIDES: [&str; 2] = ["source", "target"];

/// Problems and sizes of one pair.
pub(super) struct Diagnosis {
    pub(super) problems: ProblemSet,
    pub(super) source: LineFacts,
    pub(super) target: LineFacts,
    /// The sides after repair, if it changed one of them.
    pub(super) repaired: Option<[String; 2]>,
    /// Hash of the pair; `None` if it cannot be a duplicate.
    hash: Option<u64>,
    /// First line of a duplicate.
    repeats: Option<u64>,
    /// Details of the problems of the text itself.
    details: Vec<(Problem, String)>,
}

/// What becomes of text that can be repaired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Repair {
    /// It is examined as it is.
    Never,
    /// Mojibake is repaired and character references are decoded before the pair is examined.
    WherePossible,
}

/// Finds the problems of a pair by itself; [`Duplicates`] finds those among pairs.
pub(super) struct Examiner {
    options: CheckOptions,
    content: ContentChecks,
    repair: Repair,
    hasher: RandomState,
    /// Hashes of the test set's source and target lines.
    test: [AHashSet<u64>; 2],
}

/// Finds duplicates among the pairs so far, in order.
#[derive(Default)]
pub(super) struct Duplicates {
    pairs: PairIndex,
}

impl Examiner {
    pub(super) fn new(options: &CheckOptions, repair: Repair) -> Result<Self> {
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
        let content = ContentChecks::new(options)?;
        Ok(Self { options: options.clone(), content, repair, hasher, test })
    }

    /// Examines a line that was read; the problems that are ignored are left out.
    pub(super) fn examine(&self, line: BatchedPair<'_>) -> Diagnosis {
        let mut diagnosis = if let Some((problem, detail)) = line.unreadable {
            let mut diagnosis = Diagnosis::of([LineFacts::default(); 2]);
            diagnosis.problems.add_if(true, *problem);
            diagnosis.details.push((*problem, detail.clone()));
            diagnosis
        } else if let Some(repaired) = self.repaired(line.pair) {
            let [source, target] = repaired.each_ref().map(|side| Some(side.as_bytes()));
            let diagnosis = self.examine_pair(RawPair { source, target, ..line.pair });
            Diagnosis { repaired: Some(repaired), ..diagnosis }
        } else {
            self.examine_pair(line.pair)
        };
        for problem in &self.options.ignore {
            diagnosis.problems.remove(*problem);
        }
        diagnosis
    }

    /// Both sides after repair; `None` if nothing is repaired.
    fn repaired(&self, pair: RawPair<'_>) -> Option<[String; 2]> {
        if self.repair == Repair::Never {
            return None;
        }
        let [source, target] = [pair.source, pair.target].map(|side| std::str::from_utf8(side?).ok());
        let sides = [source?, target?];
        let repaired = sides.map(content::repair);
        if repaired.iter().all(Option::is_none) {
            return None;
        }
        let [source, target] = repaired;
        Some([source.unwrap_or_else(|| sides[0].to_owned()), target.unwrap_or_else(|| sides[1].to_owned())])
    }

    fn examine_pair(&self, pair: RawPair<'_>) -> Diagnosis {
        let facts = [pair.source, pair.target].map(|bytes| LineFacts::of(bytes.unwrap_or_default()));
        let mut diagnosis = Diagnosis::of(facts);
        let problems = &mut diagnosis.problems;
        let (Some(source_bytes), Some(target_bytes)) = (pair.source, pair.target) else {
            problems.add_if(true, Problem::Unpaired);
            return diagnosis;
        };
        let [source, target] = facts;
        let either = |test: fn(&LineFacts) -> bool| facts.iter().any(test);
        problems.add_if(either(|side| side.invalid_utf8.is_some()), Problem::InvalidUtf8);
        problems.add_if(source.blank, Problem::EmptySource);
        problems.add_if(target.blank, Problem::EmptyTarget);
        problems.add_if(either(|side| side.control.is_some()), Problem::Control);
        problems.add_if(either(|side| side.line_break.is_some()), Problem::LineBreak);
        let (short, long) = (source.chars.min(target.chars), source.chars.max(target.chars));
        problems.add_if(long > self.options.max_chars, Problem::TooLong);
        if source.blank || target.blank {
            return diagnosis;
        }
        let apart = long - short > self.options.min_difference;
        problems.add_if(apart && long as f64 > short as f64 * self.options.max_ratio, Problem::LengthRatio);
        problems.add_if(source_bytes == target_bytes, Problem::Identical);
        diagnosis.hash = Some(self.hasher.hash_one((source_bytes, target_bytes)));
        let known = |(set, bytes): (&AHashSet<u64>, &[u8])| {
            !set.is_empty() && set.contains(&self.hasher.hash_one(bytes.trim_ascii()))
        };
        problems.add_if(self.test.iter().zip([source_bytes, target_bytes]).any(known), Problem::Overlap);
        if let (Ok(source), Ok(target)) =
            (std::str::from_utf8(source_bytes), std::str::from_utf8(target_bytes))
        {
            let Diagnosis { problems, details, .. } = &mut diagnosis;
            self.content.examine([source, target], |problem, detail| {
                problems.add_if(true, problem);
                details.push((problem, detail));
            });
        }
        diagnosis
    }

    /// True if duplicates are looked for.
    pub(super) fn wants_duplicates(&self) -> bool {
        !self.options.ignore.contains(&Problem::Duplicate)
    }
}

impl Duplicates {
    /// Adds the problem to a pair that occurred before.
    pub(super) fn find(&mut self, line: u64, diagnosis: &mut Diagnosis) {
        diagnosis.repeats = diagnosis.hash.and_then(|hash| self.pairs.insert(hash, line));
        diagnosis.problems.add_if(diagnosis.repeats.is_some(), Problem::Duplicate);
    }
}

impl Diagnosis {
    fn of([source, target]: [LineFacts; 2]) -> Self {
        let problems = ProblemSet::default();
        Self { problems, source, target, repaired: None, hash: None, repeats: None, details: Vec::new() }
    }

    /// Description of `problem` in this pair: position, lengths, or an excerpt.
    pub(super) fn detail(&self, problem: Problem, pair: RawPair<'_>) -> String {
        if let Some((_, detail)) = self.details.iter().find(|(other, _)| *other == problem) {
            return detail.clone();
        }
        let sides = [(SIDES[0], &self.source), (SIDES[1], &self.target)];
        let place = |find: fn(&LineFacts) -> Option<(usize, char)>| {
            let found = sides.iter().find_map(|(name, side)| find(side).map(|(at, c)| (*name, at, c)));
            found.map_or(String::new(), |(name, at, c)| {
                format!("U+{:04X} at byte {} of the {name}", c as u32, at + 1)
            })
        };
        match problem {
            Problem::Malformed
            | Problem::Mojibake
            | Problem::Markup
            | Problem::Script
            | Problem::Untranslated
            | Problem::Language
            | Problem::Numbers => String::new(),
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
pub(super) fn excerpt(bytes: Option<&[u8]>) -> String {
    let text = String::from_utf8_lossy(bytes.unwrap_or_default());
    let mut short: String = text.trim().chars().take(40).collect();
    if short.len() < text.trim().len() {
        short.push('…');
    }
    short
}
