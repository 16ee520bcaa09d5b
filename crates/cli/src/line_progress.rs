//! Progress of work on lines, on a terminal: lines done and total, speed, and the remaining time.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::report::{Verbosity, agreeing, counted, grouped, note_when_interrupted, time, verbosity};

/// A progress line on standard error; hidden where that is no terminal and with `--quiet`.
pub(crate) struct LineProgress {
    bar: ProgressBar,
    start: Instant,
    counts: LineCounts,
}

/// Lines and tokens of some work.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LineCounts {
    /// Lines done.
    pub(crate) lines: u64,
    /// All lines, if known.
    pub(crate) total: Option<u64>,
    /// Target tokens.
    pub(crate) tokens: u64,
}

impl LineProgress {
    /// Progress through `total` lines; none if their number is not known.
    pub(crate) fn new(total: Option<u64>) -> Self {
        Self::with_bar(total, ProgressBar::no_length())
    }

    /// Progress that is not shown, since results are printed to the same terminal.
    pub(crate) fn hidden() -> Self {
        Self::with_bar(None, ProgressBar::hidden())
    }

    fn with_bar(total: Option<u64>, bar: ProgressBar) -> Self {
        let bar = if verbosity() == Verbosity::Quiet { ProgressBar::hidden() } else { bar };
        let counts = LineCounts { total, ..LineCounts::default() };
        bar.set_style(ProgressStyle::with_template("{spinner} {msg}").expect("a valid template"));
        bar.set_message(counts.text(0.0));
        bar.enable_steady_tick(Duration::from_secs(1));
        Self { bar, start: Instant::now(), counts }
    }

    /// Adds lines that are done, and written.
    pub(crate) fn add(&mut self, lines: u64, tokens: u64) {
        self.counts.lines += lines;
        self.counts.tokens += tokens;
        self.bar.set_message(self.counts.text(self.seconds()));
        note_when_interrupted(format!(
            "interrupted: {} {} done and written",
            counted(self.counts.lines, "line"),
            agreeing(self.counts.lines, ["is", "are"])
        ));
    }

    /// Removes the progress line; returns the counts.
    pub(crate) fn finish(&self) -> LineCounts {
        self.bar.finish_and_clear();
        self.counts
    }

    /// Seconds since the start.
    pub(crate) fn seconds(&self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }
}

impl LineCounts {
    /// Lines done and total, speed, remaining time.
    fn text(self, seconds: f64) -> String {
        let Self { lines, total, tokens } = self;
        let mut text = match total {
            Some(total) => format!("{} of {}", grouped(lines), counted(total, "line")),
            None => counted(lines, "line"),
        };
        if lines > 0 && seconds > 0.0 {
            let [per_second, tokens_per_second] =
                [lines, tokens].map(|count| grouped((count as f64 / seconds) as u64));
            text += &format!("  {per_second} lines/s, {tokens_per_second} tokens/s");
            if let Some(total) = total {
                let left = total.saturating_sub(lines) as f64 * seconds / lines as f64;
                text += &format!("  {} left", time(left));
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::LineCounts;

    #[test]
    fn done_total_speed_and_remaining_time_are_shown() {
        let counts = LineCounts { lines: 600, total: Some(3000), tokens: 12_000 };
        assert_eq!(counts.text(10.0), "600 of 3,000 lines  60 lines/s, 1,200 tokens/s  40 s left");
        assert_eq!(LineCounts { total: None, ..counts }.text(10.0), "600 lines  60 lines/s, 1,200 tokens/s");
        assert_eq!(LineCounts { total: Some(7), ..LineCounts::default() }.text(0.0), "0 of 7 lines");
    }
}
