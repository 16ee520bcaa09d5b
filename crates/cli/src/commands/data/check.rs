//! `polyhead data check`: a report of the problems of a corpus, as text or JSON.

use std::fmt::Write as _;

use anyhow::{Result, bail};
use clap::Args;
use polyhead_text::doctor::{CheckReport, Drift, Finding, Problem, SideTotals, check};

use super::ProblemOptions;
use super::check_labels::LabelOptions;
use crate::corpus_options::CorpusOptions;
use crate::output_format::DocumentFormat;
use crate::report::{Failure, counted, grouped, print_json, print_text, progress};

const EXAMPLES: &str = "\
Examples:
  polyhead data check --source train.en --target train.de
  polyhead data check --tsv train.tsv.gz --test-tsv test.tsv.gz
  polyhead data check --tsv train.tsv --languages en,de
  polyhead data check --jsonl pairs.jsonl --fields en,de --format json
  polyhead data check --labels --csv train.csv --columns text,label
  polyhead data check --conll train.txt --valid valid.txt

--labels checks texts with labels, --conll and --tags words with tags: labels that occur once or in the validation text alone, imbalance, the same text with different labels, validation texts that are in the training text too.

Exit code 1 if the corpus cannot be trained on as it is: unequal line counts, invalid UTF-8 or missing columns, labels unseen in training.";

/// Options of `polyhead data check`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct Check {
    #[command(flatten)]
    corpus: CorpusOptions,
    #[command(flatten)]
    labels: LabelOptions,
    #[command(flatten)]
    problems: ProblemOptions,
    /// Number of example lines for each problem
    #[arg(long, value_name = "N", default_value_t = 5)]
    examples: usize,
    #[command(flatten)]
    format: DocumentFormat,
}

impl Check {
    pub(crate) fn run(self) -> Result<()> {
        if self.labels.are_wanted() {
            return self.labels.check(&self.corpus, self.examples, self.format);
        }
        let mut options = self.problems.resolve(&self.corpus)?;
        options.n_examples = self.examples;
        let bar = progress("lines checked");
        let report = check(&self.corpus.corpus()?, &options, &mut |line| bar.set_position(line))?;
        bar.finish_and_clear();
        if self.format.is_json() {
            print_json(&report)?;
        } else {
            print_text(&summary(&report))?;
        }
        if report.is_readable() {
            return Ok(());
        }
        let malformed = report
            .findings
            .iter()
            .any(|finding| finding.problem == Problem::Malformed && finding.percent > 50.0);
        bail!(Failure {
            message: "the corpus cannot be trained on as it is".into(),
            hint: if malformed {
                "most lines lack a column or field: choose them with --columns or --fields".into()
            } else {
                "polyhead data clean drops such pairs; unequal line counts must be repaired first".into()
            },
        });
    }
}

/// The report as text.
fn summary(report: &CheckReport) -> String {
    let mut out = String::new();
    let mut line = |text: String| {
        out.push_str(text.trim_end());
        out.push('\n');
    };
    for (name, side) in [("source", &report.source), ("target", &report.target)] {
        line(format!("{name}  {}", side_line(side)));
    }
    line(String::new());
    if let Some(drift) = report.drift {
        drift_lines(report, drift).into_iter().for_each(&mut line);
    }
    if report.findings.is_empty() && report.drift.is_none() {
        line(format!("✓ {}, no problem found", counted(report.lines, "pair")));
        return out;
    }
    for finding in &report.findings {
        line(finding_lines(finding));
    }
    line(String::new());
    // Rounded down: 100 % means all.
    let share = (1000.0 * report.clean as f64 / report.lines as f64).floor() / 10.0;
    line(format!(
        "{} of {} pairs ({share:.1} %) have no problem",
        grouped(report.clean),
        grouped(report.lines)
    ));
    out
}

/// The lines where source and target stop corresponding, estimated from their lengths.
fn drift_lines(report: &CheckReport, drift: Drift) -> Vec<String> {
    let (source, target) = (report.source.lines, report.target.lines);
    let mut lines = vec![if source == target {
        "! source and target lines seem misaligned, although their counts are equal".to_owned()
    } else {
        format!("✗ line counts differ: {} source, {} target", grouped(source), grouped(target))
    }];
    let Drift { first_line, last_line } = drift;
    lines.push(if first_line > source.min(target) {
        format!("    the shorter file seems truncated after line {}", source.min(target))
    } else if last_line - first_line <= 20 {
        format!("    by their lengths, lines stop corresponding near line {first_line}")
    } else {
        format!("    by their lengths, lines stop corresponding between lines {first_line} and {last_line}")
    });
    lines
}

fn side_line(side: &SideTotals) -> String {
    let mean = side.words as f64 / side.lines.max(1) as f64;
    format!(
        "{}: {}, {} ({mean:.1} per line), {} (per line: median {}, 99th percentile {}, maximum {})",
        side.path.display(),
        counted(side.lines, "line"),
        counted(side.words, "word"),
        counted(side.chars, "character"),
        grouped(side.percentile(50.0)),
        grouped(side.percentile(99.0)),
        grouped(side.longest),
    )
}

fn finding_lines(finding: &Finding) -> String {
    let mark = if finding.problem.is_fatal() { '✗' } else { '!' };
    let mut out = format!(
        "{mark} {:<32} {:>10}  ({})",
        finding.problem.describe(),
        grouped(finding.count),
        percent(finding.percent)
    );
    for example in &finding.examples {
        write!(out, "\n    line {:<10} {}", example.line, example.detail)
            .expect("writing to a string cannot fail");
    }
    if finding.count > finding.examples.len() as u64 && !finding.examples.is_empty() {
        out.push_str("\n    …");
    }
    out
}

/// A percentage with a decimal, below 0.1 % with as many as two digits that count: 0.09 %, 0.0013 %.
fn percent(share: f64) -> String {
    if share >= 0.1 || share <= 0.0 {
        return format!("{share:.1} %");
    }
    let decimals = (1.0 - share.log10().floor()) as usize;
    let digits = format!("{share:.decimals$}");
    format!("{} %", digits.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::percent;

    #[test]
    fn small_percentages_have_two_digits_that_count() {
        let found = [100.0, 12.34, 0.1, 0.09, 0.0999, 0.0125, 0.000_091, 0.0].map(percent);
        assert_eq!(
            found,
            ["100.0 %", "12.3 %", "0.1 %", "0.09 %", "0.1 %", "0.013 %", "0.000091 %", "0.0 %"]
        );
    }
}
