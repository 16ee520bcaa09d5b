//! `polyhead score`: metrics of a translation against its references.

mod metrics;
mod output;

pub(crate) use self::metrics::TokenizeName;

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use polyhead_text::metrics::tokenize::trim_end;
use polyhead_text::metrics::{Bootstrap, Interval, Metric, Statistics, SystemComparison, signature};
use polyhead_text::{Error, lines::Lines};

use crate::input::shown;
use crate::option_help::SEED;
use crate::output_format::DocumentFormat;
use metrics::{MetricName, MetricOptions};

const EXAMPLES: &str = "\
Examples:
  polyhead score --reference test.de < translated.de
  polyhead score -r test.de --hypothesis new.de --baseline old.de
  polyhead score -r a.de.gz -r b.de.gz --hypothesis new.de --confidence
  polyhead score -r test.de --metric bleu,ter --format json < translated.de

BLEU, chrF and TER equal sacreBLEU's, including the signature except for its version. All scores are percentages.";

/// Options of `polyhead score`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct Score {
    /// References, one sentence per line; repeatable
    #[arg(short, long, value_name = "FILE", required = true)]
    reference: Vec<PathBuf>,

    /// Translation to score, one sentence per line; - is standard input
    #[arg(long, value_name = "FILE", default_value = "-")]
    hypothesis: PathBuf,

    /// Translation to compare with, by paired bootstrap resampling
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,

    /// Metrics to compute
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', default_value = "bleu,chrf,ter")]
    metric: Vec<MetricName>,

    /// Also score every sentence; BLEU then uses the effective order
    #[arg(long)]
    sentence: bool,

    /// Print 95 % confidence intervals (always in JSON), and name the resampling in the signature
    #[arg(long)]
    confidence: bool,

    /// Number of bootstrap samples
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    samples: u32,

    #[arg(long, value_name = "N", default_value_t = 12345, help = SEED)]
    seed: u64,

    #[command(flatten)]
    format: DocumentFormat,

    #[command(flatten)]
    options: MetricOptions,
}

/// The result of a call.
struct ScoreReport {
    hypothesis: PathBuf,
    references: Vec<PathBuf>,
    baseline: Option<PathBuf>,
    lines: usize,
    bootstrap: Bootstrap,
    results: Vec<MetricResult>,
}

/// The result of one metric.
struct MetricResult {
    metric: Box<dyn Metric>,
    score: f64,
    signature: String,
    total: Vec<f64>,
    interval: Option<Interval>,
    comparison: Option<SystemComparison>,
    sentences: Option<Vec<f64>>,
}

impl Score {
    pub(crate) fn run(self) -> Result<()> {
        let metrics = metrics::build(&self.metric, &self.options, self.sentence)?;
        let references = self.reference.iter().map(|path| read(path)).collect::<Result<Vec<_>>>()?;
        let hypotheses = self.read_beside(&self.hypothesis, &references)?;
        let baseline = self.baseline.as_ref().map(|path| self.read_beside(path, &references)).transpose()?;
        let bootstrap = Bootstrap { samples: self.samples as usize, seed: self.seed };
        let results = metrics
            .into_iter()
            .map(|metric| self.result(metric, &bootstrap, &hypotheses, baseline.as_deref(), &references))
            .collect::<Result<Vec<_>>>()?;
        let report = ScoreReport {
            hypothesis: shown(&self.hypothesis).to_owned(),
            references: self.reference.iter().map(|path| shown(path).to_owned()).collect(),
            baseline: self.baseline.as_deref().map(|path| shown(path).to_owned()),
            lines: hypotheses.len(),
            bootstrap,
            results,
        };
        if self.format.is_json() { output::json(&report) } else { output::text(&report) }
    }

    fn result(
        &self,
        metric: Box<dyn Metric>,
        bootstrap: &Bootstrap,
        hypotheses: &[String],
        baseline: Option<&[String]>,
        references: &[Vec<String>],
    ) -> Result<MetricResult> {
        let statistics = Statistics::collect(metric.as_ref(), hypotheses, references)?;
        let comparison = baseline
            .map(|lines| {
                let baseline = Statistics::collect(metric.as_ref(), lines, references)?;
                bootstrap.compare(metric.as_ref(), &statistics, &baseline)
            })
            .transpose()?;
        let interval = match &comparison {
            Some(comparison) => Some(comparison.interval),
            None if self.confidence || self.format.is_json() => {
                Some(bootstrap.interval(metric.as_ref(), &statistics)?)
            }
            None => None,
        };
        let named = self.confidence || comparison.is_some();
        Ok(MetricResult {
            score: statistics.score(metric.as_ref()),
            signature: signature(metric.as_ref(), references.len(), named.then_some(bootstrap)),
            total: statistics.total(),
            interval,
            comparison,
            sentences: self.sentence.then(|| statistics.sentence_scores(metric.as_ref())),
            metric,
        })
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

/// The lines of a file without white space at their ends, as sacreBLEU reads them.
fn read(path: &Path) -> Result<Vec<String>> {
    Ok(Lines::read_all(path)?.iter().map(|line| trim_end(line).to_owned()).collect())
}
