//! The live view: progress, loss, speed and the last validation of a run.
//!
//! ```text
//! ━━━━━━━━━━━━━╸──────────────  46 %  step 2,714  epoch 21.89  12 min 3 s left
//!   loss 2.1034 ▇▆▅▄▃▃▂▂▂▁▁▁  perplexity 8.19  lr 4.29e-3
//!   8,541 target tokens/s  6.9 % padding  3 min 12 s
//!   validation at step 2,604: loss 1.6402, perplexity 5.16, BLEU 37.10
//!   a man in an orange hat … → ein mann mit einem orangefarbenen hut …
//! ```

use std::collections::VecDeque;
use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use console::Term;
use indicatif::{ProgressBar, ProgressStyle};
use polyhead_train::event::{Event, Progress};

use super::scores_text;
use crate::report::{STOPPING, Verbosity, grouped, time, verbosity};

/// Width of the loss curve, in columns.
const CURVE: usize = 24;
/// Steps per column of the loss curve.
const STEPS_PER_COLUMN: u64 = 20;
/// Width of the progress bar, in columns.
const BAR: usize = 28;
const EIGHTHS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A few lines that are redrawn in place.
pub(super) struct LiveView {
    bar: ProgressBar,
    started: Instant,
    /// Fraction of the run that was done when this process started.
    first_done: Option<f64>,
    losses: VecDeque<f64>,
    /// Sum and number of the losses of the current column.
    column: (f64, u64),
    /// Exponential moving average of the loss.
    loss: Option<f64>,
    validation: String,
    /// The lines of the last step.
    lines: String,
    /// Start of the current validation.
    validating_since: Option<Instant>,
}

impl LiveView {
    /// A view if standard error is a terminal and `--quiet` is not given.
    pub(super) fn on_terminal() -> Option<Self> {
        if !std::io::stderr().is_terminal() || verbosity() == Verbosity::Quiet {
            return None;
        }
        let bar = ProgressBar::no_length();
        bar.set_style(ProgressStyle::with_template("{msg}").expect("a valid template"));
        bar.enable_steady_tick(Duration::from_millis(250));
        Some(Self {
            bar,
            started: Instant::now(),
            first_done: None,
            losses: VecDeque::new(),
            column: (0.0, 0),
            loss: None,
            validation: String::new(),
            lines: "preparing".into(),
            validating_since: None,
        })
    }

    /// Prints lines above the view.
    pub(super) fn print(&self, text: &str) {
        self.bar.suspend(|| crate::report::note(text));
    }

    pub(super) fn update(&mut self, event: &Event) {
        match event {
            Event::Stepped(progress) => {
                self.count(progress.loss);
                self.lines = self.lines(progress);
                self.validating_since = None;
                self.bar.set_message(self.lines.clone());
            }
            Event::Validating { model, done, total } => {
                let text = self.validating(model.as_deref(), *done, *total);
                self.bar.set_message(format!("{}\n{text}", self.lines));
            }
            Event::Validated { line, sample, .. } => {
                let scores = scores_text(line);
                self.validation = format!("\n  validation at step {}: {scores}", grouped(line.step));
                if let Some(sample) = sample {
                    self.validation += &format!("\n  {} → {}", sample.source, sample.output);
                }
            }
            _ => {}
        }
    }

    /// Shows from now on that the run is stopping.
    pub(super) fn stopping(&mut self) {
        if !self.validation.ends_with(STOPPING) {
            self.validation += &format!("\n  {STOPPING}");
        }
    }

    pub(super) fn close(self) {
        self.bar.finish_and_clear();
    }

    fn count(&mut self, loss: f64) {
        let weight = 0.05;
        self.loss = Some(self.loss.map_or(loss, |mean| mean + weight * (loss - mean)));
        self.column = (self.column.0 + loss, self.column.1 + 1);
        if self.column.1 == STEPS_PER_COLUMN {
            self.losses.push_back(self.column.0 / STEPS_PER_COLUMN as f64);
            self.column = (0.0, 0);
            if self.losses.len() > CURVE {
                self.losses.pop_front();
            }
        }
    }

    /// Rows done and the remaining time of a validation.
    fn validating(&mut self, model: Option<&str>, done: usize, total: usize) -> String {
        if done == 0 {
            self.validating_since = Some(Instant::now());
        }
        let seconds = self.validating_since.map_or(0.0, |since| since.elapsed().as_secs_f64());
        let left = if done == 0 {
            String::new()
        } else {
            format!(", {} left", time(seconds / done as f64 * (total - done) as f64))
        };
        let model = model.map_or(String::new(), |model| format!(" {model}"));
        let [done, total] = [done, total].map(|rows| grouped(rows as u64));
        format!("  validating{model}: {done} of {total}{left}").chars().take(width()).collect()
    }

    fn lines(&mut self, progress: &Progress) -> String {
        let loss = self.loss.unwrap_or(progress.loss);
        let width = width();
        let text = format!(
            "{}  step {}  epoch {:.2}{}\n  loss {loss:.4} {}  perplexity {:.2}  lr {:.2e}\n  {} target tokens/s  {:.1} % \
             padding  {}{}",
            bar_text(progress.done),
            grouped(progress.step),
            progress.epoch,
            self.left(progress.done),
            curve(&self.losses),
            loss.exp(),
            progress.learning_rate,
            grouped(progress.tokens_per_s as u64),
            100.0 * progress.padding,
            time(self.started.elapsed().as_secs_f64()),
            self.validation
        );
        text.lines().map(|line| line.chars().take(width).collect::<String>()).collect::<Vec<_>>().join("\n")
    }

    /// The remaining time, estimated from the pace of this process.
    fn left(&mut self, done: Option<f64>) -> String {
        let Some(done) = done else { return String::new() };
        let first = *self.first_done.get_or_insert(done);
        let own = done - first;
        if own <= 0.0 {
            return String::new();
        }
        let seconds = self.started.elapsed().as_secs_f64() / own * (1.0 - done);
        format!("  {} left", time(seconds))
    }
}

/// Columns of the terminal: a line that wraps would not be redrawn in place.
fn width() -> usize {
    let (_, columns) = Term::stderr().size();
    usize::from(columns.saturating_sub(1)).max(20)
}

/// The progress bar.
fn bar_text(done: Option<f64>) -> String {
    let Some(done) = done else { return "training".into() };
    let full = ((done * BAR as f64) as usize).min(BAR);
    format!("{}{}  {:>2.0} %", "━".repeat(full), "─".repeat(BAR - full), 100.0 * done)
}

/// The loss curve in eighths of a line, scaled from the least to the largest loss.
fn curve(losses: &VecDeque<f64>) -> String {
    let finite = losses.iter().copied().filter(|loss| loss.is_finite());
    let (least, most) =
        finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), loss| (a.min(loss), b.max(loss)));
    let height = |loss: f64| {
        let share = if most > least { (loss - least) / (most - least) } else { 0.0 };
        EIGHTHS[((share * 7.0).round() as usize).min(7)]
    };
    losses.iter().map(|&loss| height(loss)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_loss_is_the_highest_column() {
        assert_eq!(curve(&VecDeque::from([8.0, 4.5, 1.0])), "█▅▁");
        assert_eq!(curve(&VecDeque::from([2.0, 2.0])), "▁▁");
        assert_eq!(curve(&VecDeque::new()), "");
    }
}
