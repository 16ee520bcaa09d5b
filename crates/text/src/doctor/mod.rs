//! The data doctor: finds problems in a parallel corpus, line by line, before training.
//!
//! One pass, about 25 bytes of memory per line: a hash and a length are stored, not the text. Pairs are read in batches
//! and examined on all threads; the report depends on neither.

mod clean;
mod content;
mod drift;
mod examine;
mod labels;
mod line_facts;
mod pair_batch;
mod pair_index;
mod problem;
mod report;

pub use clean::{Cleaned, Cleaning, DroppedPair, clean};
pub use drift::Drift;
pub use labels::{LabelCount, LabelExample, LabelFinding, LabelProblem, LabelReport, check_labels};
pub use problem::Problem;
pub use report::{CheckReport, Example, Finding, SideTotals};

use self::drift::Lengths;
use self::examine::{Examiner, Repair};
use self::pair_batch::{BatchedPair, each_pair};
use self::report::ProblemCounters;
use crate::corpus::{Corpus, RawPair};
use crate::{Error, Result};

/// Thresholds of the problems.
#[derive(Debug, Clone)]
pub struct CheckOptions {
    /// Maximum number of characters of a side; default: 1000.
    pub max_chars: usize,
    /// Largest ratio of the longer to the shorter side, in characters; default: 5.
    pub max_ratio: f64,
    /// The ratio is checked only for sides that differ by more than this many characters; default: 30.
    pub min_difference: usize,
    /// A corpus whose lines must not occur, usually the test set; default: none.
    pub test: Option<Corpus>,
    /// Maximum number of example lines per problem; default: 5.
    pub n_examples: usize,
    /// Codes of the source's and the target's language, for [`Problem::Language`] and [`Problem::Script`], which are not
    /// looked for without them; `und` is any language. Default: none.
    pub languages: Option<[String; 2]>,
    /// Problems that are not looked for; default: none.
    pub ignore: Vec<Problem>,
}

impl Default for CheckOptions {
    fn default() -> Self {
        Self {
            max_chars: 1000,
            max_ratio: 5.0,
            min_difference: 30,
            test: None,
            n_examples: 5,
            languages: None,
            ignore: Vec::new(),
        }
    }
}

impl CheckOptions {
    /// The default without [`Problem::CONTENT`]: only what prevents training, and sizes.
    pub fn without_content() -> Self {
        Self { ignore: Problem::CONTENT.to_vec(), ..Self::default() }
    }
}

/// Reads the corpus once and reports its problems. Calls `progress` with the line number now and then.
///
/// ```
/// use polyhead_text::{corpus::Corpus, doctor::{CheckOptions, Problem, check}};
/// # let folder = tempfile::tempdir()?; let path = folder.path().join("pairs.tsv");
/// std::fs::write(&path, "a cat\tune chatte\na dog\t\n")?;
/// let corpus = Corpus::Tsv { path, source_column: 0, target_column: 1 };
/// let report = check(&corpus, &CheckOptions::default(), &mut |_| {})?;
/// assert_eq!((report.findings[0].problem, report.findings[0].examples[0].line), (Problem::EmptyTarget, 2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn check(corpus: &Corpus, options: &CheckOptions, progress: &mut dyn FnMut(u64)) -> Result<CheckReport> {
    let examiner = Examiner::new(options, Repair::Never)?;
    let mut sizes = SizeTotals::new(corpus);
    let mut counters = ProblemCounters::with_examples(options.n_examples);
    let (mut lines, mut clean) = (0, 0);
    each_pair(
        &mut corpus.pairs()?,
        &examiner,
        progress,
        |BatchedPair { pair, unreadable, .. }, diagnosis| {
            lines += 1;
            clean += u64::from(diagnosis.problems.is_empty());
            if unreadable.is_none() {
                sizes.add(pair, [diagnosis.source, diagnosis.target]);
            }
            for problem in diagnosis.problems.iter() {
                counters.add(problem, pair.line, || diagnosis.detail(problem, pair));
            }
            Ok(())
        },
    )?;
    sizes.report(lines, clean, counters)
}

/// The problem of an unreadable line; other errors are returned.
fn unreadable(error: Error) -> Result<(Problem, String)> {
    match error {
        Error::Format { found, expected, .. } => {
            Ok((Problem::Malformed, format!("{found}, expected {expected}")))
        }
        Error::Utf8 { byte, .. } => Ok((Problem::InvalidUtf8, format!("byte {byte} of the line"))),
        error => Err(error),
    }
}

/// Totals of both sides, and the length of every line for [`drift::locate`].
struct SizeTotals {
    totals: [SideTotals; 2],
    lengths: [Lengths; 2],
}

impl SizeTotals {
    fn new(corpus: &Corpus) -> Self {
        let totals = [corpus.source_path(), corpus.target_path()].map(SideTotals::of);
        Self { totals, lengths: Default::default() }
    }

    fn add(&mut self, pair: RawPair<'_>, sides: [line_facts::LineFacts; 2]) {
        for (index, (bytes, side)) in [pair.source, pair.target].into_iter().zip(sides).enumerate() {
            if let Some(bytes) = bytes {
                self.totals[index].add(bytes, &side);
                self.lengths[index].push(side.chars);
            }
        }
    }

    fn report(self, lines: u64, clean: u64, counters: ProblemCounters) -> Result<CheckReport> {
        let [source, target] = self.totals;
        if lines == 0 {
            return Err(Error::Empty { what: source.path.display().to_string() });
        }
        let [source_lengths, target_lengths] = &self.lengths;
        let drift = drift::locate(source_lengths, target_lengths);
        Ok(CheckReport { source, target, lines, clean, drift, findings: counters.findings(lines) })
    }
}
