//! `polyhead data check`: the data doctor's report, for people or as JSON.

use std::fmt::Write as _;

use anyhow::{Result, bail};
use clap::Args;
use polyhead_text::doctor::{Drift, Fault, Finding, Report, SideTotals, check};

use super::FaultOptions;
use crate::corpus_options::CorpusOptions;
use crate::report::{Failure, grouped, print_json, print_text, progress};

const EXAMPLES: &str = "Examples:
  polyhead data check --source train.en --target train.de
  polyhead data check --tsv train.tsv.gz --test-tsv test.tsv.gz
  polyhead data check --jsonl pairs.jsonl --fields en,de --json

Exit code 1 when the corpus cannot be read for training as it is: unequal line counts, invalid UTF-8, missing columns.";

/// Options of `polyhead data check`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct Check {
    #[command(flatten)]
    corpus: CorpusOptions,
    #[command(flatten)]
    faults: FaultOptions,
    /// How many lines to name for each fault
    #[arg(long, value_name = "N", default_value_t = 5)]
    examples: usize,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Check {
    pub(crate) fn run(self) -> Result<()> {
        let mut options = self.faults.resolve(&self.corpus)?;
        options.n_examples = self.examples;
        let bar = progress("lines checked");
        let report = check(&self.corpus.corpus()?, &options, &mut |line| bar.set_position(line))?;
        bar.finish_and_clear();
        if self.json {
            print_json(&report)?;
        } else {
            print_text(&summary(&report))?;
        }
        if report.is_readable() {
            return Ok(());
        }
        let malformed =
            report.findings.iter().any(|finding| finding.fault == Fault::Malformed && finding.percent > 50.0);
        bail!(Failure {
            message: "the corpus cannot be used as it is".into(),
            hint: if malformed {
                "most lines lack a column or field: name the right ones with --columns or --fields".into()
            } else {
                "polyhead data clean drops such pairs; unequal line counts must be mended first".into()
            },
        });
    }
}

/// The report as a person likes to read it.
fn summary(report: &Report) -> String {
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
        line(format!("✓ {} pairs, nothing wrong found", grouped(report.lines)));
        return out;
    }
    for finding in &report.findings {
        line(finding_lines(finding));
    }
    line(String::new());
    // Rounded down: 100 % means all.
    let share = (1000.0 * report.clean as f64 / report.lines as f64).floor() / 10.0;
    line(format!(
        "{} of {} pairs ({share:.1} %) have no fault",
        grouped(report.clean),
        grouped(report.lines)
    ));
    out
}

/// What the lengths of the lines say about where the sides fall out of step.
fn drift_lines(report: &Report, drift: Drift) -> Vec<String> {
    let (source, target) = (report.source.lines, report.target.lines);
    let mut lines = vec![if source == target {
        "! the sides seem out of step, although their line counts are equal".to_owned()
    } else {
        format!("✗ line counts differ: {} source, {} target", grouped(source), grouped(target))
    }];
    let Drift { first_line, last_line } = drift;
    lines.push(if first_line > source.min(target) {
        format!("    the shorter side seems cut off after line {}", source.min(target))
    } else if last_line - first_line <= 20 {
        format!("    judged by their lengths, they fall out of step near line {first_line}")
    } else {
        format!("    judged by their lengths, they are out of step somewhere between lines {first_line} and {last_line}")
    });
    lines
}

fn side_line(side: &SideTotals) -> String {
    let mean = side.words as f64 / side.lines.max(1) as f64;
    format!(
        "{}: {} lines, {} words ({mean:.1} a line), {} characters (half the lines ≤ {}, 99 % ≤ {}, longest {})",
        side.path.display(),
        grouped(side.lines),
        grouped(side.words),
        grouped(side.chars),
        grouped(side.percentile(50.0)),
        grouped(side.percentile(99.0)),
        grouped(side.longest),
    )
}

fn finding_lines(finding: &Finding) -> String {
    let mark = if finding.fault.is_fatal() { '✗' } else { '!' };
    let mut out = format!(
        "{mark} {:<32} {:>10}  ({})",
        finding.fault.describe(),
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

/// Small shares keep a digit that is not zero.
fn percent(share: f64) -> String {
    if share >= 0.1 { format!("{share:.1} %") } else { format!("{share:.4} %") }
}
