//! `polyhead score`: how close a translation is to its references.

mod metrics;
mod output;

pub(crate) use self::metrics::TokenizeName;

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Args, ValueEnum};
use polyhead_text::metrics::tokenize::trim_end;
use polyhead_text::metrics::{Bootstrap, Comparison, Interval, Metric, Statistics, signature};
use polyhead_text::{Error, lines::Lines};

use crate::report::Misuse;
use metrics::{MetricName, MetricOptions};

const EXAMPLES: &str = "\
Examples:
  polyhead score --reference test.de < translated.de
  polyhead score --reference test.de --hypothesis new.de --baseline old.de --metrics bleu,ter --format text
  polyhead score --reference a.de.gz --reference b.de.gz --hypothesis new.de --confidence --tokenize intl

BLEU, chrF and TER equal sacreBLEU's, signature included (all but the version). All scores are percentages.";

/// Options of `polyhead score`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct Score {
    /// The references, one sentence a line; repeat it for more references
    #[arg(short, long, value_name = "FILE", required = true)]
    reference: Vec<PathBuf>,

    /// The translation to score, one sentence a line; - is standard input
    #[arg(long, value_name = "FILE", default_value = "-")]
    hypothesis: PathBuf,

    /// Another translation: is the difference more than chance? (paired bootstrap resampling)
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,

    /// What to compute
    #[arg(short, long, value_name = "NAMES", value_delimiter = ',', default_value = "bleu,chrf,ter")]
    metrics: Vec<MetricName>,

    /// Also score every sentence; BLEU then uses the effective order
    #[arg(long)]
    sentence: bool,

    /// Show the 95 % confidence interval in text too, and name the resampling in the signature as sacreBLEU does
    #[arg(long)]
    confidence: bool,

    /// Bootstrap samples of --confidence and --baseline
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    samples: u32,

    /// The seed of the bootstrap samples
    #[arg(long, default_value_t = 12345)]
    seed: u64,

    /// JSON for programs, text for people
    #[arg(long, value_enum, default_value_t = Format::Json)]
    format: Format,

    #[command(flatten)]
    options: MetricOptions,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Json,
    Text,
}

/// Everything there is to print.
struct Report {
    hypothesis: PathBuf,
    references: Vec<PathBuf>,
    baseline: Option<PathBuf>,
    lines: usize,
    bootstrap: Bootstrap,
    results: Vec<MetricResult>,
}

/// One metric's share of the report.
struct MetricResult {
    metric: Box<dyn Metric>,
    score: f64,
    signature: String,
    total: Vec<f64>,
    interval: Option<Interval>,
    comparison: Option<Comparison>,
    sentences: Option<Vec<f64>>,
}

impl Score {
    pub(crate) fn run(self) -> Result<()> {
        self.check_standard_input()?;
        let metrics = metrics::build(&self.metrics, &self.options, self.sentence)?;
        let references = self.reference.iter().map(|path| read(path)).collect::<Result<Vec<_>>>()?;
        let hypotheses = self.read_beside(&self.hypothesis, &references)?;
        let baseline = self.baseline.as_ref().map(|path| self.read_beside(path, &references)).transpose()?;
        let bootstrap = Bootstrap { samples: self.samples as usize, seed: self.seed };
        let results = metrics
            .into_iter()
            .map(|metric| self.result(metric, &bootstrap, &hypotheses, baseline.as_deref(), &references))
            .collect::<Result<Vec<_>>>()?;
        let report = Report {
            hypothesis: display_path(&self.hypothesis),
            references: self.reference.iter().map(|path| display_path(path)).collect(),
            baseline: self.baseline.as_deref().map(display_path),
            lines: hypotheses.len(),
            bootstrap,
            results,
        };
        match self.format {
            Format::Json => output::json(&report),
            Format::Text => output::text(&report),
        }
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
            None if self.confidence || self.format == Format::Json => {
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

    /// Standard input holds one text at the most.
    fn check_standard_input(&self) -> Result<()> {
        let paths = self.reference.iter().chain(&self.baseline).chain([&self.hypothesis]);
        if paths.filter(|path| path.as_path() == Path::new("-")).count() > 1 {
            return Err(Misuse {
                message: "standard input is asked for twice, expected at most one `-`".into(),
                hint: "name the translation with --hypothesis FILE".into(),
            }
            .into());
        }
        Ok(())
    }

    fn read_beside(&self, path: &Path, references: &[Vec<String>]) -> Result<Vec<String>> {
        let lines = read(path)?;
        for (reference_path, reference) in self.reference.iter().zip(references) {
            if reference.len() != lines.len() {
                return Err(Error::LineCounts {
                    source_path: display_path(path),
                    target_path: display_path(reference_path),
                    source_lines: lines.len() as u64,
                    target_lines: reference.len() as u64,
                }
                .into());
            }
        }
        if lines.is_empty() {
            return Err(Error::Empty { what: display_path(path).display().to_string() }.into());
        }
        Ok(lines)
    }
}

/// The lines of a file without white space at their ends, as sacreBLEU reads them.
fn read(path: &Path) -> Result<Vec<String>> {
    Ok(Lines::read_all(path)?.iter().map(|line| trim_end(line).to_owned()).collect())
}

fn display_path(path: &Path) -> PathBuf {
    if path == Path::new("-") { "standard input".into() } else { path.to_owned() }
}
