//! The charts of a plot: the metrics of runs and the curves of each.

use anyhow::{Result, bail};
use polyhead_inspect::chart::{AxisScale, Chart, LineWeight, MarkedPoint, Series, number_label};
use polyhead_train::metrics_file::{MetricsLine, TrainLine, ValidLine};

use crate::report::Misuse;

/// The horizontal axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum XAxis {
    /// Optimiser steps
    Step,
    /// Epochs
    Epoch,
    /// Hours of training
    Hours,
}

impl XAxis {
    fn label(self) -> &'static str {
        match self {
            Self::Step => "step",
            Self::Epoch => "epoch",
            Self::Hours => "hours of training",
        }
    }

    fn of(self, step: u64, epoch: f64, seconds: f64) -> f64 {
        match self {
            Self::Step => step as f64,
            Self::Epoch => epoch,
            Self::Hours => seconds / 3600.0,
        }
    }
}

/// A run: its name and the lines of its metrics.jsonl.
#[derive(Debug)]
pub(super) struct PlottedRun {
    pub(super) name: String,
    train: Vec<TrainLine>,
    valid: Vec<ValidLine>,
}

impl PlottedRun {
    pub(super) fn new(name: String, lines: Vec<MetricsLine>) -> Self {
        let mut run = Self { name, train: Vec::new(), valid: Vec::new() };
        for line in lines {
            match line {
                MetricsLine::Train(line) => run.train.push(line),
                MetricsLine::Valid(line) => run.valid.push(line),
                MetricsLine::Other => {}
            }
        }
        run
    }
}

/// A metric with a chart of its own.
#[derive(Debug, Clone, Copy)]
struct PlottedMetric<'a> {
    name: &'a str,
    title: &'a str,
    train: Option<fn(&TrainLine) -> f64>,
    valid: Option<fn(&ValidLine) -> f64>,
    scale: AxisScale,
    kind: MetricKind,
}

/// The kind of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MetricKind {
    /// Measured on batches; smoothed.
    Measured,
    /// Set by a schedule; not smoothed.
    Scheduled,
}

/// Metrics of every run; all others are validation scores.
const METRICS: [PlottedMetric<'static>; 6] = [
    PlottedMetric {
        name: "loss",
        title: "Loss",
        train: Some(|line| line.loss),
        valid: Some(|line| line.loss),
        scale: AxisScale::Log,
        kind: MetricKind::Measured,
    },
    PlottedMetric {
        name: "perplexity",
        title: "Perplexity",
        train: Some(|line| line.perplexity),
        valid: Some(|line| line.perplexity),
        scale: AxisScale::Log,
        kind: MetricKind::Measured,
    },
    PlottedMetric {
        name: "learning_rate",
        title: "Learning rate",
        train: Some(|line| line.learning_rate),
        valid: None,
        scale: AxisScale::Linear,
        kind: MetricKind::Scheduled,
    },
    PlottedMetric {
        name: "gradient_norm",
        title: "Gradient norm",
        train: Some(|line| line.gradient_norm),
        valid: None,
        scale: AxisScale::Log,
        kind: MetricKind::Measured,
    },
    PlottedMetric {
        name: "tokens_per_s",
        title: "Target tokens a second",
        train: Some(|line| line.tokens_per_s),
        valid: None,
        scale: AxisScale::Linear,
        kind: MetricKind::Measured,
    },
    PlottedMetric {
        name: "padding",
        title: "Padding",
        train: Some(|line| line.padding),
        valid: None,
        scale: AxisScale::Linear,
        kind: MetricKind::Measured,
    },
];

/// Runs and options of a plot.
#[derive(Debug)]
pub(super) struct Curves<'a> {
    pub(super) runs: &'a [PlottedRun],
    pub(super) across: XAxis,
    /// Window of the moving average, in points of the training curve; default: a fiftieth of the points.
    pub(super) smooth: Option<usize>,
}

impl Curves<'_> {
    /// One chart per metric; default: loss, scores (or perplexity) and learning rate.
    pub(super) fn charts(&self, names: &[String]) -> Result<Vec<Chart>> {
        let scores = self.scores();
        let mut chosen: Vec<&str> = names.iter().map(|name| name.trim()).collect();
        if chosen.is_empty() {
            chosen.push("loss");
            chosen.extend(if scores.is_empty() { vec!["perplexity"] } else { scores.clone() });
            chosen.push("learning_rate");
        }
        chosen.into_iter().map(|name| self.chart(name, &scores)).collect()
    }

    /// Names of all validation scores of all runs, sorted.
    fn scores(&self) -> Vec<&str> {
        let lines = self.runs.iter().flat_map(|run| &run.valid);
        let mut names: Vec<&str> = lines.flat_map(|line| line.scores.keys().map(String::as_str)).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    fn chart(&self, name: &str, scores: &[&str]) -> Result<Chart> {
        let same = |other: &str| other.eq_ignore_ascii_case(name);
        let (title, scale, series) = if let Some(metric) = METRICS.iter().find(|metric| same(metric.name)) {
            (metric.title, metric.scale, self.of_metric(metric))
        } else if let Some(score) = scores.iter().find(|score| same(score)) {
            (*score, AxisScale::Linear, self.of_score(score))
        } else {
            let known: Vec<&str> =
                METRICS.iter().map(|metric| metric.name).chain(scores.iter().copied()).collect();
            bail!(Misuse {
                message: format!("--metric: {name}, expected one of {}", known.join(", ")),
                hint: "scores appear after the first validation".into(),
            });
        };
        let light = series.iter().any(|series| series.weight == LineWeight::Light && series.name.is_empty());
        Ok(Chart {
            title: if light { format!("{title} (light: training)") } else { title.into() },
            x_label: self.across.label().into(),
            series,
            y_scale: scale,
            ..Chart::default()
        })
    }

    fn of_metric(&self, metric: &PlottedMetric) -> Vec<Series> {
        let mut below = Vec::new();
        let mut above = Vec::new();
        for (index, run) in self.runs.iter().enumerate() {
            let valid =
                metric.valid.map_or(Vec::new(), |value| self.valid_points(run, |line| Some(value(line))));
            let train = metric.train.map_or(Vec::new(), |value| self.train_points(run, value));
            let smoothed =
                if metric.kind == MetricKind::Scheduled { train.clone() } else { self.smoothed(&train) };
            let colour = Some(index);
            if self.is_alone() && smoothed != train {
                below.push(Series { points: train, colour, weight: LineWeight::Faint, ..Series::default() });
            }
            let weight = if valid.is_empty() { LineWeight::Strong } else { LineWeight::Light };
            let name = match (self.is_alone(), valid.is_empty()) {
                (true, _) if metric.valid.is_none() => "",
                (true, _) => "train",
                (false, true) => &run.name,
                // The strong line has the name; the title explains the light one.
                (false, false) => "",
            };
            below.push(Series { name: name.into(), points: smoothed, colour, weight, ..Series::default() });
            let name = if self.is_alone() { "valid" } else { &run.name };
            let colour = Some(if self.is_alone() { 1 } else { index });
            let mark = best(&valid, f64::lt);
            above.push(Series { name: name.into(), points: valid, colour, mark, ..Series::default() });
        }
        below.into_iter().chain(above).filter(|series| !series.points.is_empty()).collect()
    }

    /// True if one run is plotted; training and validation then have different colours.
    fn is_alone(&self) -> bool {
        self.runs.len() == 1
    }

    fn of_score(&self, score: &str) -> Vec<Series> {
        // For error rates, lower is better.
        let is_error =
            ["TER", "WER", "CER", "SER"].iter().any(|error| score.to_uppercase().starts_with(error));
        let better = if is_error { f64::lt } else { f64::gt };
        let series = self.runs.iter().enumerate().map(|(index, run)| {
            let points = self.valid_points(run, |line| line.scores.get(score).copied());
            let (name, colour) = if self.is_alone() { (String::new(), 1) } else { (run.name.clone(), index) };
            Series { name, mark: best(&points, better), points, colour: Some(colour), ..Series::default() }
        });
        series.filter(|series| !series.points.is_empty()).collect()
    }

    fn train_points(&self, run: &PlottedRun, value: fn(&TrainLine) -> f64) -> Vec<[f64; 2]> {
        let across = |line: &TrainLine| self.across.of(line.step, line.epoch, line.seconds);
        run.train.iter().map(|line| [across(line), value(line)]).collect()
    }

    fn valid_points(&self, run: &PlottedRun, value: impl Fn(&ValidLine) -> Option<f64>) -> Vec<[f64; 2]> {
        let across = |line: &ValidLine| self.across.of(line.step, line.epoch, line.seconds);
        run.valid.iter().filter_map(|line| Some([across(line), value(line)?])).collect()
    }

    /// Centred moving average, so that the curve is not delayed; NaN and infinite values stay, and are not averaged.
    fn smoothed(&self, points: &[[f64; 2]]) -> Vec<[f64; 2]> {
        let reach = self.smooth.unwrap_or(points.len() / 50) / 2;
        let mean = |(index, &[x, y]): (usize, &[f64; 2])| {
            let reach = reach.min(index).min(points.len() - 1 - index);
            let near = points[index - reach..=index + reach].iter().map(|point| point[1]);
            let finite: Vec<f64> = near.filter(|y| y.is_finite()).collect();
            [x, if y.is_finite() { finite.iter().sum::<f64>() / finite.len() as f64 } else { y }]
        };
        points.iter().enumerate().map(mean).collect()
    }
}

/// A mark at the best point, labelled with its value; none for fewer than two points.
fn best(points: &[[f64; 2]], better: fn(&f64, &f64) -> bool) -> Option<MarkedPoint> {
    let finite = points.iter().filter(|point| point[1].is_finite());
    let best =
        finite.copied().reduce(|best, point| if better(&point[1], &best[1]) { point } else { best })?;
    (points.len() > 1).then(|| MarkedPoint { point: best, text: number_label(best[1]) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smoothing_is_a_centred_moving_average() {
        let curves = Curves { runs: &[], across: XAxis::Step, smooth: Some(3) };
        let points: Vec<[f64; 2]> =
            [1.0, 4.0, 1.0, f64::NAN, 5.0, 3.0].iter().enumerate().map(|(x, &y)| [x as f64, y]).collect();
        let heights: Vec<String> =
            curves.smoothed(&points).iter().map(|point| point[1].to_string()).collect();
        assert_eq!(heights, ["1", "2", "2.5", "NaN", "4", "3"]);
        let line: Vec<[f64; 2]> = (0..500).map(|x| [f64::from(x), f64::from(x)]).collect();
        let curves = Curves { smooth: None, ..curves };
        assert_eq!(curves.smoothed(&line), line);
    }

    #[test]
    fn the_best_point_is_marked() {
        let points = [[0.0, 3.0], [1.0, f64::NAN], [2.0, 1.5], [3.0, 2.0]];
        assert_eq!(best(&points, f64::lt).unwrap(), MarkedPoint { point: [2.0, 1.5], text: "1.5".into() });
        assert_eq!(best(&points, f64::gt).unwrap().point, [0.0, 3.0]);
        assert!(best(&points[..1], f64::lt).is_none() && best(&[], f64::lt).is_none());
    }
}
