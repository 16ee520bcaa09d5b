//! The output formats of a score report: JSON, and a table of text.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Result;
use polyhead_text::metrics::{Bootstrap, Interval};
use serde::Serialize;
use serde_json::{Map, Value};

use super::{MetricResult, ScoreReport};
use crate::report::print_json;

/// The JSON document; fields are written in this order.
#[derive(Serialize)]
struct ReportJson<'a> {
    hypothesis: &'a Path,
    references: &'a [PathBuf],
    #[serde(skip_serializing_if = "Option::is_none")]
    baseline: Option<&'a Path>,
    lines: usize,
    metrics: Vec<MetricJson<'a>>,
}

#[derive(Serialize)]
struct MetricJson<'a> {
    name: String,
    score: f64,
    signature: &'a str,
    details: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    confidence: Option<IntervalJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    baseline: Option<BaselineJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sentences: Option<&'a [f64]>,
}

#[derive(Serialize)]
struct IntervalJson {
    mean: f64,
    half_width: f64,
    lower: f64,
    upper: f64,
    level: f64,
    samples: usize,
    seed: u64,
}

#[derive(Serialize)]
struct BaselineJson {
    score: f64,
    difference: f64,
    p_value: f64,
    confidence: IntervalJson,
}

/// Prints the report as JSON.
pub(super) fn json(report: &ScoreReport) -> Result<()> {
    let value = ReportJson {
        hypothesis: &report.hypothesis,
        references: &report.references,
        baseline: report.baseline.as_deref(),
        lines: report.lines,
        metrics: report.results.iter().map(|result| metric_json(&report.bootstrap, result)).collect(),
    };
    print_json(&value)
}

fn metric_json<'a>(bootstrap: &Bootstrap, result: &'a MetricResult) -> MetricJson<'a> {
    let interval_json = |interval: &Interval| IntervalJson {
        mean: interval.mean,
        half_width: interval.half_width,
        lower: interval.lower,
        upper: interval.upper,
        level: 0.95,
        samples: bootstrap.samples,
        seed: bootstrap.seed,
    };
    MetricJson {
        name: result.metric.name(),
        score: result.score,
        signature: &result.signature,
        details: result.metric.details(&result.total),
        confidence: result.interval.as_ref().map(interval_json),
        baseline: result.comparison.as_ref().map(|comparison| BaselineJson {
            score: comparison.baseline_score,
            difference: comparison.difference,
            p_value: comparison.p_value,
            confidence: interval_json(&comparison.baseline_interval),
        }),
        sentences: result.sentences.as_deref(),
    }
}

/// Prints a table with a row per metric, then sentence scores, if any, and signatures.
pub(super) fn text(report: &ScoreReport) -> Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    let mut rows = vec![header(report)];
    rows.extend(report.results.iter().map(row));
    write_table(&mut out, &rows)?;
    if report.results.iter().any(|result| result.sentences.is_some()) {
        writeln!(out)?;
        write_table(&mut out, &sentence_rows(report))?;
    }
    writeln!(out)?;
    for result in &report.results {
        writeln!(out, "{}|{}", result.metric.name(), result.signature)?;
    }
    Ok(out.flush()?)
}

fn header(report: &ScoreReport) -> Vec<String> {
    let mut cells = vec!["metric", "score"];
    if report.results.iter().any(|result| result.interval.is_some()) {
        cells.push("95 % interval");
    }
    if report.baseline.is_some() {
        cells.extend(["baseline", "difference", "p"]);
    }
    cells.push("");
    cells.into_iter().map(Into::into).collect()
}

fn row(result: &MetricResult) -> Vec<String> {
    let mut cells = vec![result.metric.name(), format!("{:.2}", result.score)];
    if let Some(interval) = &result.interval {
        cells.push(format!("{:.2} ± {:.2}", interval.mean, interval.half_width));
    }
    if let Some(comparison) = &result.comparison {
        cells.push(format!("{:.2}", comparison.baseline_score));
        cells.push(format!("{:+.2}", comparison.difference));
        cells.push(format!("{:.4}", comparison.p_value));
    }
    cells.push(result.metric.verbose(&result.total));
    cells
}

fn sentence_rows(report: &ScoreReport) -> Vec<Vec<String>> {
    let columns: Vec<&Vec<f64>> =
        report.results.iter().filter_map(|result| result.sentences.as_ref()).collect();
    let mut rows = vec![vec!["line".to_owned()]];
    rows[0].extend(report.results.iter().map(|result| result.metric.name()));
    for line in 0..report.lines {
        let mut cells = vec![(line + 1).to_string()];
        cells.extend(columns.iter().map(|scores| format!("{:.2}", scores[line])));
        rows.push(cells);
    }
    rows
}

/// Prints rows with aligned columns and no trailing spaces.
fn write_table(out: &mut impl Write, rows: &[Vec<String>]) -> Result<()> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width =
        |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    for row in rows {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:<width$}")).collect();
        writeln!(out, "{}", cells.join("  ").trim_end())?;
    }
    Ok(())
}
