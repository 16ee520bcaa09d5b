//! The output formats of a score report: JSON, and a table of text.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Result;
use polyhead_text::metrics::{Interval, PairedTest};
use serde::Serialize;
use serde_json::{Map, Value};

use super::{MetricResults, ScoreReport, SystemResult};
use crate::report::print_json;

/// The JSON document of one translation; fields are written in this order.
#[derive(Serialize)]
struct ReportJson<'a> {
    hypothesis: &'a Path,
    references: &'a [PathBuf],
    #[serde(skip_serializing_if = "Option::is_none")]
    baseline: Option<&'a Path>,
    lines: usize,
    metrics: Vec<MetricJson<'a>>,
}

/// The JSON document of several translations; the first is the baseline.
#[derive(Serialize)]
struct SystemsJson<'a> {
    references: &'a [PathBuf],
    lines: usize,
    systems: Vec<SystemJson<'a>>,
}

#[derive(Serialize)]
struct SystemJson<'a> {
    hypothesis: &'a Path,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    confidence: Option<IntervalJson>,
}

/// Prints the report of one translation as JSON.
pub(super) fn json(report: &ScoreReport) -> Result<()> {
    let metrics =
        report.results.iter().map(|results| metric_json(&report.test, results, &results.systems[0]));
    print_json(&ReportJson {
        hypothesis: &report.systems[0],
        references: &report.references,
        baseline: report.baseline.as_deref(),
        lines: report.lines,
        metrics: metrics.collect(),
    })
}

/// Prints the report of several translations as JSON.
pub(super) fn systems_json(report: &ScoreReport) -> Result<()> {
    let systems = systems(report).into_iter().map(|(hypothesis, own)| SystemJson {
        hypothesis,
        metrics: own
            .into_iter()
            .map(|(results, system)| metric_json(&report.test, results, system))
            .collect(),
    });
    print_json(&SystemsJson {
        references: &report.references,
        lines: report.lines,
        systems: systems.collect(),
    })
}

/// The systems, the baseline first: path, and each metric with its result.
fn systems(report: &ScoreReport) -> Vec<(&Path, Vec<(&MetricResults, &SystemResult)>)> {
    let paths = report.baseline.iter().chain(&report.systems);
    paths
        .enumerate()
        .map(|(index, path)| {
            let own = report.results.iter().filter_map(|results| {
                let system = results.baseline.iter().chain(&results.systems).nth(index)?;
                Some((results, system))
            });
            (path.as_path(), own.collect())
        })
        .collect()
}

fn metric_json<'a>(
    test: &PairedTest,
    results: &'a MetricResults,
    system: &'a SystemResult,
) -> MetricJson<'a> {
    let interval_json = |interval: Interval| {
        let PairedTest::Bootstrap(bootstrap) = test else { return None };
        Some(IntervalJson {
            mean: interval.mean,
            half_width: interval.half_width,
            lower: interval.lower,
            upper: interval.upper,
            level: 0.95,
            samples: bootstrap.samples,
            seed: bootstrap.seed,
        })
    };
    let compared = results.baseline.as_ref().zip(system.comparison);
    MetricJson {
        name: results.metric.name(),
        score: system.score,
        signature: &results.signature,
        details: results.metric.details(&system.total),
        confidence: system.interval.and_then(interval_json),
        baseline: compared.map(|(baseline, comparison)| BaselineJson {
            score: baseline.score,
            difference: comparison.difference,
            p_value: comparison.p_value,
            confidence: baseline.interval.and_then(interval_json),
        }),
        sentences: system.sentences.as_deref(),
    }
}

/// Prints a table with a row per metric, then sentence scores, if any, and signatures.
pub(super) fn text(report: &ScoreReport) -> Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    let mut rows = vec![header(report)];
    rows.extend(report.results.iter().map(row));
    write_table(&mut out, &rows)?;
    if report.results.iter().any(|results| results.systems[0].sentences.is_some()) {
        writeln!(out)?;
        write_table(&mut out, &sentence_rows(report))?;
    }
    write_signatures(&mut out, report)
}

/// Prints a table with a row per translation, the baseline first, and signatures.
pub(super) fn systems_text(report: &ScoreReport) -> Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    let mut header = vec!["system".to_owned()];
    header.extend(report.results.iter().flat_map(|results| [results.metric.name(), "p".into()]));
    let mut rows = vec![header];
    for (index, (path, own)) in systems(report).into_iter().enumerate() {
        let prefix = if index == 0 { "baseline: " } else { "" };
        let mut cells = vec![format!("{prefix}{}", path.display())];
        cells.extend(own.into_iter().flat_map(|(_, system)| system_cells(system)));
        rows.push(cells);
    }
    write_table(&mut out, &rows)?;
    writeln!(out, "\n* p < 0.05: the difference from the baseline is significant")?;
    write_signatures(&mut out, report)
}

/// The score with its interval, and the p-value.
fn system_cells(system: &SystemResult) -> [String; 2] {
    let mut score = format!("{:.2}", system.score);
    if let Some(interval) = &system.interval {
        score.push_str(&format!(" ({:.2} ± {:.2})", interval.mean, interval.half_width));
    }
    let p = system.comparison.map(|comparison| {
        let mark = if comparison.p_value < 0.05 { "*" } else { "" };
        format!("{:.4}{mark}", comparison.p_value)
    });
    [score, p.unwrap_or_default()]
}

fn write_signatures(out: &mut impl Write, report: &ScoreReport) -> Result<()> {
    writeln!(out)?;
    for results in &report.results {
        writeln!(out, "{}|{}", results.metric.name(), results.signature)?;
    }
    Ok(out.flush()?)
}

fn header(report: &ScoreReport) -> Vec<String> {
    let mut cells = vec!["metric", "score"];
    if report.results.iter().any(|results| results.systems[0].interval.is_some()) {
        cells.push("95 % interval");
    }
    if report.baseline.is_some() {
        cells.extend(["baseline", "difference", "p"]);
    }
    cells.push("");
    cells.into_iter().map(Into::into).collect()
}

fn row(results: &MetricResults) -> Vec<String> {
    let system = &results.systems[0];
    let mut cells = vec![results.metric.name(), format!("{:.2}", system.score)];
    if let Some(interval) = &system.interval {
        cells.push(format!("{:.2} ± {:.2}", interval.mean, interval.half_width));
    }
    if let Some((baseline, comparison)) = results.baseline.as_ref().zip(system.comparison) {
        cells.push(format!("{:.2}", baseline.score));
        cells.push(format!("{:+.2}", comparison.difference));
        cells.push(format!("{:.4}", comparison.p_value));
    }
    cells.push(results.metric.verbose(&system.total));
    cells
}

fn sentence_rows(report: &ScoreReport) -> Vec<Vec<String>> {
    let columns: Vec<&Vec<f64>> =
        report.results.iter().filter_map(|results| results.systems[0].sentences.as_ref()).collect();
    let mut rows = vec![vec!["line".to_owned()]];
    rows[0].extend(report.results.iter().map(|results| results.metric.name()));
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
