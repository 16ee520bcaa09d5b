//! Keeps the good pairs of a corpus and says of every other one why it went.

use serde::Serialize;

use super::examine::Examiner;
use super::report::Tally;
use super::{CheckOptions, Fault, unreadable};
use crate::Result;
use crate::corpus::{Corpus, PairWriter, RawPair};
use crate::output::Output;

/// One pair that was left out; a line of the report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Dropped<'a> {
    /// The line, from 1.
    pub line: u64,
    /// Every fault it has.
    pub reasons: Vec<Fault>,
    /// What exactly was found, for each reason.
    pub details: Vec<String>,
    /// The source as far as it is text.
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
    loop {
        let line = cleaned.read + 1;
        match pairs.next_raw() {
            Ok(None) => break,
            Ok(Some(RawPair { source: Some(source), target: Some(target), .. })) => {
                let pair = RawPair { line, source: Some(source), target: Some(target) };
                let diagnosis = examiner.examine(pair);
                let reasons: Vec<Fault> =
                    diagnosis.faults.iter().filter(|fault| !cleaning.tolerate.contains(fault)).collect();
                let [source, target] = [source, target].map(String::from_utf8_lossy);
                if reasons.is_empty() {
                    cleaned.kept += 1;
                    cleaning.kept.write(&source, &target)?;
                } else {
                    let details = reasons.iter().map(|&fault| diagnosis.detail(fault, pair)).collect();
                    cleaning.drop(
                        &mut tally,
                        &Dropped { line, reasons, details, source: &source, target: &target },
                    )?;
                }
            }
            Ok(Some(_)) => return Err(pairs.unequal_counts()?),
            Err(error) => {
                let details = vec![error.to_string()];
                let reasons = vec![unreadable(error)?];
                cleaning.drop(&mut tally, &Dropped { line, reasons, details, source: "", target: "" })?;
            }
        }
        cleaned.read = line;
        if line.is_multiple_of(4096) {
            progress(line);
        }
    }
    cleaned.dropped = cleaned.read - cleaned.kept;
    cleaned.reasons =
        tally.findings(cleaned.read).into_iter().map(|finding| (finding.fault, finding.count)).collect();
    cleaning.kept.finish()?;
    cleaning.report.finish()?;
    Ok(cleaned)
}

impl Cleaning {
    fn drop(&mut self, tally: &mut Tally, dropped: &Dropped<'_>) -> Result<()> {
        for &fault in &dropped.reasons {
            tally.add(fault, dropped.line, String::new);
        }
        let json = serde_json::to_string(dropped).expect("strings and numbers are always representable");
        self.report.write_line(&json)
    }
}
