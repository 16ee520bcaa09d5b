//! Cleaning: copies the pairs without problems and reports each dropped pair with its reasons.

use serde::Serialize;

use super::examine::{Diagnosis, Examiner, Repair};
use super::pair_batch::{BatchedPair, each_pair};
use super::report::{Example, ProblemCounters};
use super::{CheckOptions, Problem};
use crate::corpus::{Corpus, PairWriter};
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
    /// The source, with U+FFFD for invalid UTF-8; the whole line if it cannot be read as a pair.
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
    /// Pairs of which a side was repaired, among those written.
    pub repaired: u64,
    /// Number of pairs dropped for each problem, the most severe first; a pair may have several.
    pub reasons: Vec<(Problem, u64)>,
    /// The first pair dropped for each problem, in the order of `reasons`.
    pub first: Vec<Example>,
}

/// Outputs of cleaning, and whether to repair.
#[derive(Debug)]
pub struct Cleaning {
    /// Receives the pairs without problems.
    pub kept: PairWriter,
    /// Receives a [`DroppedPair`] as a JSON line for each other pair.
    pub report: Output,
    /// True if mojibake is repaired and character references are decoded before a pair is examined.
    pub repair: bool,
}

/// Copies the pairs without problems and reports the others. Calls `progress` with the line number now and then.
///
/// Unequal line counts are an error, since no pair can be trusted then. An error leaves no file behind.
pub fn clean(
    corpus: &Corpus,
    options: &CheckOptions,
    mut cleaning: Cleaning,
    progress: &mut dyn FnMut(u64),
) -> Result<Cleaned> {
    let repair = if cleaning.repair { Repair::WherePossible } else { Repair::Never };
    let examiner = Examiner::new(options, repair)?;
    let mut counters = ProblemCounters::with_examples(1);
    let mut cleaned = Cleaned::default();
    let mut is_unpaired = false;
    let mut pairs = corpus.pairs()?;
    each_pair(&mut pairs, &examiner, progress, |line, diagnosis| {
        cleaned.read += 1;
        is_unpaired |= diagnosis.problems.iter().any(|problem| problem == Problem::Unpaired);
        if is_unpaired {
            // The remaining lines are counted, not copied.
            return Ok(());
        }
        if !diagnosis.problems.is_empty() {
            return cleaning.drop(&mut counters, line, &diagnosis);
        }
        cleaned.kept += 1;
        cleaned.repaired += u64::from(diagnosis.repaired.is_some());
        match diagnosis.repaired {
            None => cleaning.kept.write(line.pair, line.whole),
            Some(sides) => cleaning.kept.write_changed(corpus, line.whole, &sides),
        }
    })?;
    if is_unpaired {
        return Err(pairs.unequal_counts());
    }
    if cleaned.read == 0 {
        return Err(Error::Empty { what: corpus.source_path().display().to_string() });
    }
    cleaned.dropped = cleaned.read - cleaned.kept;
    for finding in counters.findings(cleaned.read) {
        cleaned.reasons.push((finding.problem, finding.count));
        cleaned.first.extend(finding.examples);
    }
    cleaning.kept.finish()?;
    cleaning.report.finish()?;
    Ok(cleaned)
}

impl Cleaning {
    fn drop(
        &mut self,
        counters: &mut ProblemCounters,
        line: BatchedPair<'_>,
        diagnosis: &Diagnosis,
    ) -> Result<()> {
        let reasons: Vec<Problem> = diagnosis.problems.iter().collect();
        let details: Vec<String> =
            reasons.iter().map(|problem| diagnosis.detail(*problem, line.pair)).collect();
        for (problem, detail) in reasons.iter().zip(&details) {
            counters.add(*problem, line.pair.line, || detail.clone());
        }
        // A line that is no pair has no columns or fields to report: it is reported whole.
        let sides = match line.unreadable {
            Some(_) => [Some(line.whole), None],
            None => [line.pair.source, line.pair.target],
        };
        let [source, target] = sides.map(|side| String::from_utf8_lossy(side.unwrap_or_default()));
        let dropped =
            DroppedPair { line: line.pair.line, reasons, details, source: &source, target: &target };
        let json = serde_json::to_string(&dropped).expect("strings and numbers are always representable");
        self.report.write_line(&json)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_threads_does_not_matter() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pairs.tsv");
        let pairs: String = (0..20_000)
            .map(|line| match line % 1000 {
                7 => format!("{line} CafÃ©s\t{line} Kaffeehäuser\n"),
                9 => "again\tnoch einmal\n".to_owned(),
                11 => format!("{line} cats\t{} Katzen\n", line + 100),
                13 => "one column\n".to_owned(),
                _ => format!("{line} the cat ate\t{line} die Katze fraß\n"),
            })
            .collect();
        std::fs::write(&path, pairs).unwrap();
        let corpus = Corpus::Tsv { path, source_column: 0, target_column: 1 };
        let run = |n_threads: usize| {
            let [kept, report] =
                ["kept", "report"].map(|name| folder.path().join(format!("{name}{n_threads}")));
            let cleaning = Cleaning {
                kept: PairWriter::Whole(Output::create(&kept).unwrap()),
                report: Output::create(&report).unwrap(),
                repair: true,
            };
            let pool = rayon::ThreadPoolBuilder::new().num_threads(n_threads).build().unwrap();
            let options = CheckOptions::default();
            let cleaned = pool.install(|| clean(&corpus, &options, cleaning, &mut |_| {})).unwrap();
            (cleaned, std::fs::read(kept).unwrap(), std::fs::read(report).unwrap())
        };
        let alone = run(1);
        assert_eq!(
            alone.0.reasons,
            [(Problem::Malformed, 20), (Problem::Numbers, 20), (Problem::Duplicate, 19)]
        );
        assert_eq!((alone.0.read, alone.0.dropped, alone.0.repaired), (20_000, 59, 20));
        assert_eq!(alone.0.first[1].line, 12);
        for n_threads in [2, 5] {
            assert!(run(n_threads) == alone, "{n_threads} threads");
        }
    }
}
