//! `polyhead score`: metrics of translations against their references.

mod metrics;
mod output;

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use polyhead_text::metrics::tokenize::trim_end;
use polyhead_text::metrics::{
    Bootstrap, Interval, Metric, PairedTest, Randomization, Statistics, SystemComparison, signature,
};
use polyhead_text::{Error, lines::Lines};

use crate::input::shown;
use crate::option_help::SEED;
use crate::output_format::DocumentFormat;
use crate::report::{Misuse, note};
use metrics::{MetricName, MetricOptions};

const EXAMPLES: &str = "\
Examples:
  polyhead score --reference test.de < translated.de
  polyhead score -r test.de --hypothesis new.de --baseline old.de
  polyhead score -r test.de --hypothesis old.de --hypothesis new.de \\
      --hypothesis newest.de --paired-ar
  polyhead score -r a.de.gz -r b.de.gz --hypothesis new.de --confidence
  polyhead score -r test.de --metric bleu,ter --format json < translated.de
  polyhead score -r test.zh --tokenize zh < translated.zh
  polyhead score --lm en.ngram < translated.en
  polyhead score -r test.ja --tokenize flores200 \\
      --tokenizer-model flores200.spm.model < translated.ja

BLEU, chrF and TER equal sacreBLEU's, including the signature except for its version; intervals and p-values do for the same seed and number of samples. All scores are percentages.";

/// Options of `polyhead score`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct Score {
    /// References, one sentence per line; repeatable
    #[arg(short, long, value_name = "FILE", required_unless_present = "lm")]
    reference: Vec<PathBuf>,

    /// Score lines by an n-gram language model, ARPA or binary, instead: log10, tokens, unknown tokens, line
    #[arg(long, value_name = "MODEL", conflicts_with_all = ["reference", "baseline", "metric", "confidence", "paired_ar"])]
    lm: Option<PathBuf>,

    /// Translation to score, one sentence per line; - is standard input; repeatable: the first is the baseline of the others
    #[arg(long, value_name = "FILE", default_value = "-")]
    hypothesis: Vec<PathBuf>,

    /// Translation to compare with, by paired bootstrap resampling or --paired-ar
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,

    /// Metrics to compute
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', default_value = "bleu,chrf,ter")]
    metric: Vec<MetricName>,

    /// Also score every sentence; BLEU then uses the effective order
    #[arg(long)]
    sentence: bool,

    /// Print 95 % confidence intervals (always in JSON), and name the resampling in the signature
    #[arg(long, conflicts_with = "paired_ar")]
    confidence: bool,

    /// Compare by paired approximate randomisation instead of the bootstrap
    #[arg(long)]
    paired_ar: bool,

    /// Number of bootstrap samples, or trials of approximate randomisation [default: 1000 and 10000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    samples: Option<u32>,

    #[arg(long, value_name = "N", default_value_t = 12345, help = SEED)]
    seed: u64,

    #[command(flatten)]
    format: DocumentFormat,

    #[command(flatten)]
    options: MetricOptions,
}

/// The result of a call.
struct ScoreReport {
    systems: Vec<PathBuf>,
    references: Vec<PathBuf>,
    baseline: Option<PathBuf>,
    lines: usize,
    test: PairedTest,
    results: Vec<MetricResults>,
}

/// The results of one metric.
struct MetricResults {
    metric: Box<dyn Metric>,
    signature: String,
    baseline: Option<SystemResult>,
    systems: Vec<SystemResult>,
}

/// The result of one metric for one system.
struct SystemResult {
    score: f64,
    total: Vec<f64>,
    interval: Option<Interval>,
    comparison: Option<SystemComparison>,
    sentences: Option<Vec<f64>>,
}

/// The lines that were read.
struct Corpus {
    references: Vec<Vec<String>>,
    baseline: Option<Vec<String>>,
    systems: Vec<Vec<String>>,
}

impl Score {
    pub(crate) fn run(mut self) -> Result<()> {
        if let Some(model) = &self.lm {
            let [text] = self.hypothesis.as_slice() else {
                return Err(Misuse {
                    message: format!("{} texts with --lm, expected one", self.hypothesis.len()),
                    hint: "score each in a call of its own".into(),
                }
                .into());
            };
            return crate::commands::ngram::score_lines(model, text, self.format);
        }
        let is_table = self.hypothesis.len() > 1;
        self.check(is_table)?;
        if is_table && self.baseline.is_none() {
            self.baseline = Some(self.hypothesis.remove(0));
        }
        let metrics = metrics::build(&self.metric, &self.options, self.sentence)?;
        let corpus = self.read()?;
        let test = self.test();
        let results = metrics
            .into_iter()
            .map(|metric| self.results(metric, &test, &corpus))
            .collect::<Result<Vec<_>>>()?;
        let paths =
            |paths: &[PathBuf]| paths.iter().map(|path| shown(path).to_owned()).collect::<Vec<PathBuf>>();
        let report = ScoreReport {
            systems: paths(&self.hypothesis),
            references: paths(&self.reference),
            baseline: self.baseline.as_deref().map(|path| shown(path).to_owned()),
            lines: corpus.systems[0].len(),
            test,
            results,
        };
        match (self.format.is_json(), is_table) {
            (true, true) => output::systems_json(&report),
            (true, false) => output::json(&report),
            (false, true) => output::systems_text(&report),
            (false, false) => output::text(&report),
        }
    }

    fn check(&self, is_table: bool) -> Result<()> {
        let misuse = |message: &str, hint: &str| {
            Err(Misuse { message: message.to_owned(), hint: hint.to_owned() }.into())
        };
        if self.sentence && is_table {
            return misuse("--sentence with several translations, expected one", "score them one at a time");
        }
        if self.paired_ar && !is_table && self.baseline.is_none() {
            return misuse(
                "--paired-ar with one translation, expected two or more",
                "add --baseline, or --hypothesis for each translation",
            );
        }
        Ok(())
    }

    /// The paired test; its bootstrap also gives the intervals of one translation.
    fn test(&self) -> PairedTest {
        let Self { seed, samples, .. } = *self;
        let number = |default: usize| samples.map_or(default, |samples| samples as usize);
        if self.paired_ar {
            PairedTest::Randomization(Randomization { trials: number(10_000), seed })
        } else {
            PairedTest::Bootstrap(Bootstrap { samples: number(1000), seed })
        }
    }

    fn results(&self, metric: Box<dyn Metric>, test: &PairedTest, corpus: &Corpus) -> Result<MetricResults> {
        let own = metric.as_ref();
        let collect = |lines: &Vec<String>| Statistics::collect(own, lines, &corpus.references);
        let statistics = corpus.systems.iter().map(collect).collect::<Result<Vec<_>, _>>()?;
        let mut systems: Vec<SystemResult> =
            statistics.iter().map(|system| self.result(own, system)).collect();
        let mut baseline = None;
        if let Some(lines) = &corpus.baseline {
            let compared = collect(lines)?;
            let results = test.compare(own, &compared, &statistics)?;
            baseline =
                Some(SystemResult { interval: results.baseline_interval, ..self.result(own, &compared) });
            for (system, comparison) in systems.iter_mut().zip(results.systems) {
                system.interval = comparison.interval;
                system.comparison = Some(comparison);
            }
        } else if let PairedTest::Bootstrap(bootstrap) = test
            && (self.confidence || self.format.is_json())
        {
            for (system, statistics) in systems.iter_mut().zip(&statistics) {
                system.interval = Some(bootstrap.interval(own, statistics)?);
            }
        }
        let named = (self.confidence || baseline.is_some()).then_some(test);
        let signature = signature(own, corpus.references.len(), named);
        Ok(MetricResults { metric, signature, baseline, systems })
    }

    fn result(&self, metric: &dyn Metric, statistics: &Statistics) -> SystemResult {
        SystemResult {
            score: statistics.score(metric),
            total: statistics.total(),
            interval: None,
            comparison: None,
            sentences: self.sentence.then(|| statistics.sentence_scores(metric)),
        }
    }

    fn read(&self) -> Result<Corpus> {
        let references = self.reference.iter().map(|path| read(path)).collect::<Result<Vec<_>>>()?;
        let own = |path: &PathBuf| self.read_beside(path, &references);
        let systems = self.hypothesis.iter().map(own).collect::<Result<Vec<_>>>()?;
        let baseline = self.baseline.as_ref().map(own).transpose()?;
        Ok(Corpus { references, baseline, systems })
    }

    /// Reads a translation, which must have as many lines as the references.
    fn read_beside(&self, path: &Path, references: &[Vec<String>]) -> Result<Vec<String>> {
        let lines = read(path)?;
        for (reference_path, reference) in self.reference.iter().zip(references) {
            if reference.len() != lines.len() {
                return Err(Error::LineCounts {
                    source_path: shown(path).to_owned(),
                    target_path: shown(reference_path).to_owned(),
                    source_lines: lines.len() as u64,
                    target_lines: reference.len() as u64,
                }
                .into());
            }
        }
        if lines.is_empty() {
            return Err(Error::Empty { what: shown(path).display().to_string() }.into());
        }
        Ok(lines)
    }
}

/// The lines of a file without white space at their ends, as sacreBLEU reads them: a byte-order mark is a character of
/// the first line.
fn read(path: &Path) -> Result<Vec<String>> {
    let lines = Lines::open(path)?;
    let has_mark = lines.has_byte_order_mark();
    let mut lines = lines.rest()?;
    if let (true, Some(first)) = (has_mark, lines.first_mut()) {
        first.insert(0, '\u{feff}');
        note(&format!(
            "note: {}: begins with a byte-order mark, which counts as a character, as in sacreBLEU",
            shown(path).display()
        ));
    }
    Ok(lines.iter().map(|line| trim_end(line).to_owned()).collect())
}
