//! The examination of one pair after the other.

use ahash::{AHashSet, RandomState};

use super::CheckOptions;
use super::fault::{Fault, Faults};
use super::seen::{self, Seen};
use super::side::Side;
use crate::Result;
use crate::corpus::RawPair;

/// What is known about one pair.
pub(super) struct Diagnosis {
    pub(super) faults: Faults,
    pub(super) source: Side,
    pub(super) target: Side,
    /// The line that a duplicate repeats.
    repeats: Option<u64>,
}

/// Looks at pairs one after the other.
pub(super) struct Examiner {
    options: CheckOptions,
    hasher: RandomState,
    seen: Seen,
    /// Hashes of the test set's source and target lines.
    test: [AHashSet<u64>; 2],
}

impl Examiner {
    pub(super) fn new(options: &CheckOptions) -> Result<Self> {
        let hasher = seen::hasher();
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
        Ok(Self { options: options.clone(), hasher, seen: Seen::default(), test })
    }

    pub(super) fn examine(&mut self, pair: RawPair<'_>) -> Diagnosis {
        let mut faults = Faults::default();
        let (Some(source_bytes), Some(target_bytes)) = (pair.source, pair.target) else {
            faults.add_if(true, Fault::Unpaired);
            let [source, target] =
                [pair.source, pair.target].map(|bytes| Side::of(bytes.unwrap_or_default()));
            return Diagnosis { faults, source, target, repeats: None };
        };
        let (source, target) = (Side::of(source_bytes), Side::of(target_bytes));
        let either = |test: fn(&Side) -> bool| test(&source) || test(&target);
        faults.add_if(either(|side| side.invalid_utf8.is_some()), Fault::InvalidUtf8);
        faults.add_if(source.blank, Fault::EmptySource);
        faults.add_if(target.blank, Fault::EmptyTarget);
        faults.add_if(either(|side| side.control.is_some()), Fault::Control);
        faults.add_if(either(|side| side.line_break.is_some()), Fault::LineBreak);
        let (short, long) = (source.chars.min(target.chars), source.chars.max(target.chars));
        faults.add_if(long > self.options.max_chars, Fault::TooLong);
        let mut repeats = None;
        if !source.blank && !target.blank {
            let apart = long - short > self.options.min_difference;
            faults.add_if(apart && long as f64 > short as f64 * self.options.max_ratio, Fault::LengthRatio);
            faults.add_if(source_bytes == target_bytes, Fault::Identical);
            repeats = self.seen.note(self.hasher.hash_one((source_bytes, target_bytes)), pair.line);
            faults.add_if(repeats.is_some(), Fault::Duplicate);
            let known = |(set, bytes): (&AHashSet<u64>, &[u8])| {
                !set.is_empty() && set.contains(&self.hasher.hash_one(bytes.trim_ascii()))
            };
            faults.add_if(self.test.iter().zip([source_bytes, target_bytes]).any(known), Fault::Overlap);
        }
        Diagnosis { faults, source, target, repeats }
    }
}

impl Diagnosis {
    /// What exactly is wrong, in words.
    pub(super) fn detail(&self, fault: Fault, pair: RawPair<'_>) -> String {
        let sides = [("source", &self.source), ("target", &self.target)];
        let place = |find: fn(&Side) -> Option<(usize, char)>| {
            let found = sides.iter().find_map(|(name, side)| find(side).map(|(at, c)| (*name, at, c)));
            found.map_or(String::new(), |(name, at, c)| {
                format!("U+{:04X} at byte {} of the {name}", c as u32, at + 1)
            })
        };
        match fault {
            Fault::Malformed => String::new(),
            Fault::InvalidUtf8 => {
                let found = sides.iter().find_map(|(name, side)| Some((name, side.invalid_utf8?)));
                found.map_or(String::new(), |(name, at)| format!("byte {} of the {name}", at + 1))
            }
            Fault::Unpaired if pair.source.is_none() => "the source has ended".into(),
            Fault::Unpaired => "the target has ended".into(),
            Fault::EmptySource => excerpt(pair.target),
            Fault::EmptyTarget | Fault::Identical | Fault::Overlap => excerpt(pair.source),
            Fault::Control => place(|side| side.control),
            Fault::LineBreak => place(|side| side.line_break),
            Fault::TooLong | Fault::LengthRatio => {
                format!("{} and {} characters", self.source.chars, self.target.chars)
            }
            Fault::Duplicate => format!("repeats line {}", self.repeats.unwrap_or_default()),
        }
    }
}

/// The first characters of a line, to recognise it by.
fn excerpt(bytes: Option<&[u8]>) -> String {
    let text = String::from_utf8_lossy(bytes.unwrap_or_default());
    let mut short: String = text.trim().chars().take(40).collect();
    if short.len() < text.trim().len() {
        short.push('…');
    }
    short
}
