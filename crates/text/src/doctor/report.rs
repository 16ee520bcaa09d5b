//! The doctor's report: sizes, counts, and the first lines with each problem.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::drift::Drift;
use super::line_facts::LineFacts;
use super::problem::Problem;

/// A line with a problem.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Example {
    /// Line number, from 1.
    pub line: u64,
    /// Details: position, lengths, or an excerpt.
    pub detail: String,
}

/// Count and first lines of one problem.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// The problem; `fault` in JSON.
    #[serde(rename = "fault")]
    pub problem: Problem,
    /// Pairs with the problem.
    pub count: u64,
    /// Share of all lines, in percent.
    pub percent: f64,
    /// The first lines with it.
    pub examples: Vec<Example>,
}

/// Totals of one side.
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
    /// Number of lines by length in characters; the last entry counts all longer lines.
    #[serde(skip)]
    histogram: Vec<u64>,
}

/// Longest line with an entry of its own in the histogram.
const HISTOGRAM_CHARS: usize = 4096;

impl SideTotals {
    pub(super) fn of(path: &Path) -> Self {
        Self { path: path.to_owned(), ..Self::default() }
    }

    pub(super) fn add(&mut self, bytes: &[u8], side: &LineFacts) {
        self.lines += 1;
        self.bytes += bytes.len() as u64;
        self.chars += side.chars as u64;
        self.words += side.words as u64;
        self.longest = self.longest.max(side.chars as u64);
        self.histogram.resize(HISTOGRAM_CHARS + 1, 0);
        self.histogram[side.chars.min(HISTOGRAM_CHARS)] += 1;
    }

    /// Percentile of the line length, in characters: `percent` of the lines are not longer.
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

/// Result of [`check`](super::check).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CheckReport {
    /// The source side.
    pub source: SideTotals,
    /// The target side.
    pub target: SideTotals,
    /// Lines of the longer side.
    pub lines: u64,
    /// Pairs without problems.
    pub clean: u64,
    /// The lines that seem to be out of step; always present if the line counts differ.
    pub drift: Option<Drift>,
    /// The problems that occur, the most severe first.
    pub findings: Vec<Finding>,
}

impl CheckReport {
    /// True if the corpus can be used for training as it is.
    pub fn is_readable(&self) -> bool {
        !self.findings.iter().any(|finding| finding.problem.is_fatal())
    }
}

/// Counts of problems, and the first lines with each.
#[derive(Debug, Default)]
pub(super) struct ProblemCounters {
    counts: [u64; Problem::ALL.len()],
    examples: [Vec<Example>; Problem::ALL.len()],
    /// Maximum number of example lines per problem.
    n_examples: usize,
}

impl ProblemCounters {
    pub(super) fn with_examples(n_examples: usize) -> Self {
        Self { n_examples, ..Self::default() }
    }

    pub(super) fn add(&mut self, problem: Problem, line: u64, detail: impl FnOnce() -> String) {
        self.counts[problem as usize] += 1;
        let examples = &mut self.examples[problem as usize];
        if examples.len() < self.n_examples {
            examples.push(Example { line, detail: detail() });
        }
    }

    /// The problems that occurred in `lines` lines.
    pub(super) fn findings(self, lines: u64) -> Vec<Finding> {
        let all = Problem::ALL.into_iter().zip(self.counts).zip(self.examples);
        all.filter(|((_, count), _)| *count > 0)
            .map(|((problem, count), examples)| Finding {
                problem,
                count,
                percent: 100.0 * count as f64 / lines as f64,
                examples,
            })
            .collect()
    }
}
