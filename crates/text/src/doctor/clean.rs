//! Keeps the good pairs of a corpus and says of every other one why it went.

use serde::Serialize;

use super::examine::Examiner;
use super::report::Tally;
use super::{CheckOptions, Fault, unreadable};
use crate::corpus::{Corpus, PairWriter, Pairs, RawPair};
use crate::output::Output;
use crate::{Error, Result};

/// One pair that was left out; a line of the report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Dropped<'a> {
    /// The line, from 1.
    pub line: u64,
    /// Every fault it has.
    pub reasons: Vec<Fault>,
    /// What exactly was found, for each reason.
    pub details: Vec<String>,
    /// The source as far as it is text; the whole line if it could not be taken apart.
    pub source: &'a str,
    /// The target as far as it is text.
    pub target: &'a str,
}

/// How many pairs stayed and why the others went.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Cleaned {
    /// Pairs read.
    pub read: u64,
    /// Pairs written.
    pub kept: u64,
    /// Pairs left out.
    pub dropped: u64,
    /// How often each fault was a reason, the gravest first; a pair may have several.
    pub reasons: Vec<(Fault, u64)>,
}

/// Where the pairs go and what does not matter.
#[derive(Debug)]
pub struct Cleaning {
    /// Takes the good pairs.
    pub kept: PairWriter,
    /// Takes a [`Dropped`] as a JSON object for each other pair.
    pub report: Output,
    /// Faults that are no reason to drop a pair.
    pub tolerate: Vec<Fault>,
}

/// Copies the pairs without faults and reports the others; `progress` is told the line number now and then.
///
/// Unequal line counts are an error: no pair can be trusted then. On an error no file is left behind.
pub fn clean(
    corpus: &Corpus,
    options: &CheckOptions,
    mut cleaning: Cleaning,
    progress: &mut dyn FnMut(u64),
) -> Result<Cleaned> {
    let mut examiner = Examiner::new(options)?;
    let mut tally = Tally::default();
    let mut cleaned = Cleaned::default();
    let mut pairs = corpus.pairs()?;
    while let Some(faults) = next(&mut pairs, &mut examiner, cleaned.read + 1)? {
        let line = cleaned.read + 1;
        let reasons: Vec<(Fault, String)> =
            faults.into_iter().filter(|(fault, _)| !cleaning.tolerate.contains(fault)).collect();
        if reasons.iter().any(|(fault, _)| *fault == Fault::Unpaired) {
            return Err(pairs.unequal_counts()?);
        }
        if reasons.is_empty() {
            cleaned.kept += 1;
            cleaning.kept.write(&pairs)?;
        } else {
            cleaning.drop(&mut tally, line, reasons, &pairs)?;
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
        tally.findings(cleaned.read).into_iter().map(|finding| (finding.fault, finding.count)).collect();
    cleaning.kept.finish()?;
    cleaning.report.finish()?;
    Ok(cleaned)
}

/// The faults of the next pair with their details; `None` at the end.
fn next(pairs: &mut Pairs, examiner: &mut Examiner, line: u64) -> Result<Option<Vec<(Fault, String)>>> {
    match pairs.next_raw() {
        Ok(None) => Ok(None),
        Ok(Some(pair)) => {
            let pair = RawPair { line, ..pair };
            let diagnosis = examiner.examine(pair);
            let faults = diagnosis.faults.iter().map(|fault| (fault, diagnosis.detail(fault, pair)));
            Ok(Some(faults.collect()))
        }
        Err(error) => unreadable(error).map(|fault| Some(vec![fault])),
    }
}

impl Cleaning {
    fn drop(
        &mut self,
        tally: &mut Tally,
        line: u64,
        faults: Vec<(Fault, String)>,
        pairs: &Pairs,
    ) -> Result<()> {
        for (fault, _) in &faults {
            tally.add(*fault, line, String::new);
        }
        let malformed = faults.iter().any(|(fault, _)| *fault == Fault::Malformed);
        // A line that cannot be taken apart is reported whole.
        let [source, target] = if malformed {
            [Some(pairs.whole_line()), None]
        } else {
            let RawPair { source, target, .. } = pairs.current();
            [source, target]
        }
        .map(|side| String::from_utf8_lossy(side.unwrap_or_default()));
        let (reasons, details) = faults.into_iter().unzip();
        let dropped = Dropped { line, reasons, details, source: &source, target: &target };
        let json = serde_json::to_string(&dropped).expect("strings and numbers are always representable");
        self.report.write_line(&json)
    }
}
