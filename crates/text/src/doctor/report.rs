//! What the doctor tells: sizes, counts, and the first lines that have each fault.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::drift::Drift;
use super::fault::Fault;
use super::side::Side;

/// A line that has a fault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Example {
    /// The line, from 1.
    pub line: u64,
    /// What exactly was found.
    pub detail: String,
}

/// How often a fault occurs and where first.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// The fault.
    pub fault: Fault,
    /// Pairs that have it.
    pub count: u64,
    /// The same as a share of all lines, in percent.
    pub percent: f64,
    /// The first lines that have it.
    pub examples: Vec<Example>,
}

/// Sizes of one side.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct SideTotals {
    /// The file.
    pub path: PathBuf,
    /// Lines.
    pub lines: u64,
    /// Bytes of text, without line ends.
    pub bytes: u64,
    /// Characters.
    pub chars: u64,
    /// Words between spaces.
    pub words: u64,
    /// Characters of the longest line.
    pub longest: u64,
    /// How many lines have so many characters; the last entry gathers all longer ones.
    #[serde(skip)]
    histogram: Vec<u64>,
}

/// Lines longer than this share one entry of the histogram.
const HISTOGRAM_CHARS: usize = 4096;

impl SideTotals {
    pub(super) fn of(path: &Path) -> Self {
        Self { path: path.to_owned(), ..Self::default() }
    }

    pub(super) fn add(&mut self, bytes: &[u8], side: &Side) {
        self.lines += 1;
        self.bytes += bytes.len() as u64;
        self.chars += side.chars as u64;
        self.words += side.words as u64;
        self.longest = self.longest.max(side.chars as u64);
        self.histogram.resize(HISTOGRAM_CHARS + 1, 0);
        self.histogram[side.chars.min(HISTOGRAM_CHARS)] += 1;
    }

    /// The number of characters that `percent` of the lines do not exceed.
    pub fn percentile(&self, percent: f64) -> u64 {
        let wanted = (self.lines as f64 * percent / 100.0).ceil() as u64;
        let mut below = 0;
        let found = self.histogram.iter().position(|&count| {
            below += count;
            below >= wanted
        });
        found.map_or(0, |chars| if chars == HISTOGRAM_CHARS { self.longest } else { chars as u64 })
    }
}

/// What the doctor found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// The source side.
    pub source: SideTotals,
    /// The target side.
    pub target: SideTotals,
    /// Lines of the longer side.
    pub lines: u64,
    /// Pairs without any fault.
    pub clean: u64,
    /// Where the sides seem to fall out of step; always told if their line counts differ.
    pub drift: Option<Drift>,
    /// The faults that occur, the gravest first.
    pub findings: Vec<Finding>,
}

impl Report {
    /// True where the corpus can be read for training as it is.
    pub fn is_readable(&self) -> bool {
        !self.findings.iter().any(|finding| finding.fault.is_fatal())
    }
}

/// Counts faults and keeps the first lines of each.
#[derive(Debug, Default)]
pub(super) struct Tally {
    counts: [u64; Fault::ALL.len()],
    examples: [Vec<Example>; Fault::ALL.len()],
    /// Lines kept for each fault.
    n_examples: usize,
}

impl Tally {
    pub(super) fn keeping(n_examples: usize) -> Self {
        Self { n_examples, ..Self::default() }
    }

    pub(super) fn add(&mut self, fault: Fault, line: u64, detail: impl FnOnce() -> String) {
        self.counts[fault as usize] += 1;
        let examples = &mut self.examples[fault as usize];
        if examples.len() < self.n_examples {
            examples.push(Example { line, detail: detail() });
        }
    }

    /// The faults that occurred among `lines` lines.
    pub(super) fn findings(self, lines: u64) -> Vec<Finding> {
        let all = Fault::ALL.into_iter().zip(self.counts).zip(self.examples);
        all.filter(|((_, count), _)| *count > 0)
            .map(|((fault, count), examples)| Finding {
                fault,
                count,
                percent: 100.0 * count as f64 / lines as f64,
                examples,
            })
            .collect()
    }
}
