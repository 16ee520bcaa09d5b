//! Cleaning: copies the pairs without problems and reports each dropped pair with its reasons.

use serde::Serialize;

use super::examine::Examiner;
use super::report::ProblemCounters;
use super::{CheckOptions, Problem, unreadable};
use crate::corpus::{Corpus, PairWriter, Pairs, RawPair};
use crate::output::Output;
use crate::{Error, Result};

/// A dropped pair; one JSON line of the report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DroppedPair<'a> {
    /// Line number, from 1.
    pub line: u64,
    /// All problems of the pair.
    pub reasons: Vec<Problem>,
    /// Details of each reason, in the same order.
    pub details: Vec<String>,
    /// The source, with U+FFFD for invalid UTF-8; the whole line if it is malformed.
    pub source: &'a str,
    /// The target, with U+FFFD for invalid UTF-8.
    pub target: &'a str,
}

/// Counts of kept and dropped pairs, and the reasons.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Cleaned {
    /// Pairs read.
    pub read: u64,
    /// Pairs written.
    pub kept: u64,
    /// Pairs dropped.
    pub dropped: u64,
    /// Number of pairs dropped for each problem, the most severe first; a pair may have several.
    pub reasons: Vec<(Problem, u64)>,
}

/// Outputs of cleaning, and the problems to ignore.
#[derive(Debug)]
pub struct Cleaning {
    /// Receives the pairs without problems.
    pub kept: PairWriter,
    /// Receives a [`DroppedPair`] as a JSON line for each other pair.
    pub report: Output,
    /// Problems to ignore.
    pub tolerate: Vec<Problem>,
}

/// Copies the pairs without problems and reports the others. Calls `progress` with the line number every 4096 lines.
///
/// Unequal line counts are an error, since no pair can be trusted then. An error leaves no file behind.
pub fn clean(
    corpus: &Corpus,
    options: &CheckOptions,
    mut cleaning: Cleaning,
    progress: &mut dyn FnMut(u64),
) -> Result<Cleaned> {
    let mut examiner = Examiner::new(options)?;
    let mut counters = ProblemCounters::default();
    let mut cleaned = Cleaned::default();
    let mut pairs = corpus.pairs()?;
    while let Some(problems) = next(&mut pairs, &mut examiner, cleaned.read + 1)? {
        let line = cleaned.read + 1;
        let reasons: Vec<(Problem, String)> =
            problems.into_iter().filter(|(problem, _)| !cleaning.tolerate.contains(problem)).collect();
        if reasons.iter().any(|(problem, _)| *problem == Problem::Unpaired) {
            return Err(pairs.unequal_counts()?);
        }
        if reasons.is_empty() {
            cleaned.kept += 1;
            cleaning.kept.write(&pairs)?;
        } else {
            cleaning.drop(&mut counters, line, reasons, &pairs)?;
        }
        cleaned.read = line;
        if line.is_multiple_of(4096) {
            progress(line);
        }
    }
    if cleaned.read == 0 {
        return Err(Error::Empty { what: corpus.source_path().display().to_string() });
    }
    cleaned.dropped = cleaned.read - cleaned.kept;
    cleaned.reasons =
        counters.findings(cleaned.read).into_iter().map(|finding| (finding.problem, finding.count)).collect();
    cleaning.kept.finish()?;
    cleaning.report.finish()?;
    Ok(cleaned)
}

/// The problems of the next pair with their details; `None` at the end.
fn next(pairs: &mut Pairs, examiner: &mut Examiner, line: u64) -> Result<Option<Vec<(Problem, String)>>> {
    match pairs.next_raw() {
        Ok(None) => Ok(None),
        Ok(Some(pair)) => {
            let pair = RawPair { line, ..pair };
            let diagnosis = examiner.examine(pair);
            let problems =
                diagnosis.problems.iter().map(|problem| (problem, diagnosis.detail(problem, pair)));
            Ok(Some(problems.collect()))
        }
        Err(error) => unreadable(error).map(|problem| Some(vec![problem])),
    }
}

impl Cleaning {
    fn drop(
        &mut self,
        counters: &mut ProblemCounters,
        line: u64,
        problems: Vec<(Problem, String)>,
        pairs: &Pairs,
    ) -> Result<()> {
        for (problem, _) in &problems {
            counters.add(*problem, line, String::new);
        }
        let malformed = problems.iter().any(|(problem, _)| *problem == Problem::Malformed);
        // A malformed line has no columns or fields to report: it is reported whole.
        let [source, target] = if malformed {
            [Some(pairs.whole_line()), None]
        } else {
            let RawPair { source, target, .. } = pairs.current();
            [source, target]
        }
        .map(|side| String::from_utf8_lossy(side.unwrap_or_default()));
        let (reasons, details) = problems.into_iter().unzip();
        let dropped = DroppedPair { line, reasons, details, source: &source, target: &target };
        let json = serde_json::to_string(&dropped).expect("strings and numbers are always representable");
        self.report.write_line(&json)
    }
}
