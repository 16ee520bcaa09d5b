//! The data doctor: what is wrong in a parallel corpus, line by line, before training finds out.
//!
//! One pass, about 25 bytes of memory a line: nothing of the text is kept, only a hash and a length.

mod clean;
mod drift;
mod examine;
mod fault;
mod report;
mod seen;
mod side;

pub use clean::{Cleaned, Cleaning, Dropped, clean};
pub use drift::Drift;
pub use fault::Fault;
pub use report::{Example, Finding, Report, SideTotals};

use self::drift::Lengths;
use self::examine::Examiner;
use self::report::Tally;
use crate::corpus::{Corpus, RawPair};
use crate::{Error, Result};

/// What counts as wrong.
#[derive(Debug, Clone)]
pub struct CheckOptions {
    /// A side with more characters than this is too long; 1000.
    pub max_chars: usize,
    /// One side more than this many times as long as the other is suspicious; 5.
    pub max_ratio: f64,
    /// … but only when they differ by more than this many characters; 30.
    pub min_difference: usize,
    /// A corpus whose lines must not occur here, usually the test set; none.
    pub test: Option<Corpus>,
    /// How many lines are named for each fault; 5.
    pub n_examples: usize,
}

impl Default for CheckOptions {
    fn default() -> Self {
        Self { max_chars: 1000, max_ratio: 5.0, min_difference: 30, test: None, n_examples: 5 }
    }
}

/// Reads the corpus once and reports; `progress` is told the line number now and then.
///
/// ```
/// use polyhead_text::{corpus::Corpus, doctor::{CheckOptions, Fault, check}};
/// # let folder = tempfile::tempdir()?; let path = folder.path().join("pairs.tsv");
/// std::fs::write(&path, "a cat\tune chatte\na dog\t\n")?;
/// let corpus = Corpus::Tsv { path, source_column: 0, target_column: 1 };
/// let report = check(&corpus, &CheckOptions::default(), &mut |_| {})?;
/// assert_eq!((report.findings[0].fault, report.findings[0].examples[0].line), (Fault::EmptyTarget, 2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn check(corpus: &Corpus, options: &CheckOptions, progress: &mut dyn FnMut(u64)) -> Result<Report> {
    let mut examiner = Examiner::new(options)?;
    let mut sizes = Sizes::new(corpus);
    let mut tally = Tally::keeping(options.n_examples);
    let mut pairs = corpus.pairs()?;
    let (mut lines, mut clean) = (0, 0);
    loop {
        let line = lines + 1;
        match pairs.next_raw() {
            Ok(None) => break,
            Ok(Some(pair)) => {
                let diagnosis = examiner.examine(pair);
                sizes.add(pair, [diagnosis.source, diagnosis.target]);
                clean += u64::from(diagnosis.faults.is_empty());
                for fault in diagnosis.faults.iter() {
                    tally.add(fault, line, || diagnosis.detail(fault, pair));
                }
            }
            Err(error) => {
                let (fault, detail) = unreadable(error)?;
                tally.add(fault, line, || detail);
            }
        }
        lines = line;
        if line.is_multiple_of(4096) {
            progress(line);
        }
    }
    sizes.report(lines, clean, tally)
}

/// The fault of a line that could not be taken apart; other errors end the work.
fn unreadable(error: Error) -> Result<(Fault, String)> {
    match error {
        Error::Format { found, expected, .. } => {
            Ok((Fault::Malformed, format!("{found}, expected {expected}")))
        }
        Error::Utf8 { byte, .. } => Ok((Fault::InvalidUtf8, format!("byte {byte} of the line"))),
        error => Err(error),
    }
}

/// Sizes of both sides, and every line's length in case the sides drift apart.
struct Sizes {
    totals: [SideTotals; 2],
    lengths: [Lengths; 2],
}

impl Sizes {
    fn new(corpus: &Corpus) -> Self {
        let totals = [corpus.source_path(), corpus.target_path()].map(SideTotals::of);
        Self { totals, lengths: Default::default() }
    }

    fn add(&mut self, pair: RawPair<'_>, sides: [side::Side; 2]) {
        for (index, (bytes, side)) in [pair.source, pair.target].into_iter().zip(sides).enumerate() {
            if let Some(bytes) = bytes {
                self.totals[index].add(bytes, &side);
                self.lengths[index].push(side.chars);
            }
        }
    }

    fn report(self, lines: u64, clean: u64, tally: Tally) -> Result<Report> {
        let [source, target] = self.totals;
        if lines == 0 {
            return Err(Error::Empty { what: source.path.display().to_string() });
        }
        let [source_lengths, target_lengths] = &self.lengths;
        let drift = drift::locate(source_lengths, target_lengths);
        Ok(Report { source, target, lines, clean, drift, findings: tally.findings(lines) })
    }
}
