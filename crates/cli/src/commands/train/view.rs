//! Progress of a training run: lines of text, with a live view below them on a terminal.

mod live;

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use polyhead_train::Task;
use polyhead_train::embeddings::FilledEmbeddings;
use polyhead_train::event::{BetterCheckpoint, Comparison, Event, Progress, RunPlan, SkippedRows};
use polyhead_train::init::StepForecast;
use polyhead_train::metrics_file::{TrainLine, ValidLine};

use self::live::LiveView;
use crate::label_report::{notes, score_table};
use crate::report::{bytes, counted, grouped, note, time};

/// Shows the events of a run.
pub(crate) struct View {
    live: Option<LiveView>,
    silence: Silence,
}

impl View {
    /// A view, with a live part where standard error is a terminal.
    pub(crate) fn new() -> Self {
        Self { live: LiveView::on_terminal(), silence: Silence::new(Instant::now()) }
    }

    pub(crate) fn show(&mut self, event: &Event) {
        let Some(live) = &mut self.live else {
            if let Some(text) = self.silence.broken(event, Instant::now()).or_else(|| text(event)) {
                note(&text);
            }
            return;
        };
        if super::STOP.load(Ordering::Relaxed) {
            live.stopping();
        }
        live.update(event);
        // The live view already shows log lines and samples.
        match (event, text(event)) {
            (Event::Logged(_), _) | (_, None) => {}
            (Event::Validated { .. }, Some(text)) => live.print(text.lines().next().unwrap_or_default()),
            (_, Some(text)) => live.print(&text),
        }
    }

    pub(crate) fn close(&mut self) {
        if let Some(live) = self.live.take() {
            live.close();
        }
    }
}

/// Time since the last line, so that slow training is seen to run before its first log line.
struct Silence {
    since: Instant,
    most: Duration,
}

impl Silence {
    /// Longest time without a line, before and after the first log line.
    const AT_FIRST: Duration = Duration::from_secs(5);
    const LATER: Duration = Duration::from_secs(60);

    fn new(now: Instant) -> Self {
        Self { since: now, most: Self::AT_FIRST }
    }

    /// A line for a step that ends a long silence.
    fn broken(&mut self, event: &Event, now: Instant) -> Option<String> {
        if matches!(event, Event::Logged(_)) {
            self.most = Self::LATER;
        }
        let Event::Stepped(progress) = event else {
            self.since = now;
            return None;
        };
        if now.duration_since(self.since) < self.most {
            return None;
        }
        // Several in the first minute, then one a minute.
        self.most = (self.most * 2).min(Self::LATER);
        self.since = now;
        Some(stepped(progress))
    }
}

/// The event as text; none for events that only the live view shows.
fn text(event: &Event) -> Option<String> {
    Some(match event {
        Event::Opened { device, model, dtype, why } => opened(device, model.as_deref(), dtype, why.as_ref()),
        Event::Examined(report) => examined(report),
        Event::Labels(report) => notes(report),
        Event::RareClasses(classes) => {
            format!("note: classes with a single image: {}", classes.join(", "))
        }
        Event::TrainingTokenizer => "training the tokeniser".into(),
        Event::Read { pairs, tokens: [source, target], task, outcomes, skipped, valid } => {
            let valid = valid.map_or(", no validation set".into(), |(rows, skipped)| {
                let left = grouped(skipped as u64);
                let left = if skipped > 0 { format!(" ({left} empty or too long)") } else { String::new() };
                format!(", {} for validation{left}", grouped(rows as u64))
            });
            let [pairs, source, target] = [*pairs, *source, *target].map(|count| grouped(count as u64));
            let text = match task {
                Task::Translation => {
                    format!("{pairs} training pairs, {source} source and {target} target tokens{valid}")
                }
                Task::Classification => {
                    format!("{pairs} training texts, {source} tokens, {outcomes} labels{valid}")
                }
                Task::Tagging => {
                    format!(
                        "{pairs} training sentences, {source} tokens, {target} words with a tag, {outcomes} tags{valid}"
                    )
                }
                Task::LanguageModel => {
                    format!("{source} training tokens in {pairs} rows{valid}")
                }
                Task::MaskedLanguageModel => {
                    format!("{source} training tokens in {pairs} rows, {target} masked in an epoch{valid}")
                }
                Task::Contrastive => {
                    format!("{pairs} training pairs, {source} and {target} tokens{valid}")
                }
                Task::ImageClassification => {
                    format!("{pairs} training images, {source} patches and tokens, {outcomes} labels{valid}")
                }
                Task::Captioning => {
                    format!("{pairs} training captions, {source} patches and {target} tokens{valid}")
                }
                Task::Transcription => {
                    format!("{pairs} training sounds, {source} frames and {target} tokens of texts{valid}")
                }
                Task::Pointing => {
                    format!("{pairs} training rows, {source} points and {target} steps of answers{valid}")
                }
            };
            text + &skips(skipped)
        }
        Event::Planned(plan) => planned(plan),
        Event::Initialised { folder, fresh, dropped } => {
            let parts = |what: &str, names: &[String]| match names {
                [] => String::new(),
                names => format!("; {what}: {}", names.join(", ")),
            };
            let [fresh, dropped] = [parts("new, with random weights", fresh), parts("left out", dropped)];
            format!("starting from the weights of {}{fresh}{dropped}", folder.display())
        }
        Event::Embedded { path, tables } => embedded(path, tables),
        Event::Resumed { step, damaged } => {
            let mut text = String::new();
            for damaged in damaged {
                text += &format!(
                    "skipped a damaged checkpoint: {}: {}\n",
                    damaged.path.display(),
                    damaged.reason
                );
            }
            text + &match step {
                Some(step) => {
                    format!("resuming after step {step}; steps count from the beginning of the run")
                }
                None => "no checkpoint to resume from: starting from the beginning".into(),
            }
        }
        Event::Validating { model: Some(model), done: 0, total } => {
            format!("validating {model}, on {}", counted(*total as u64, "row"))
        }
        Event::Stepped(_) | Event::Saved(_) | Event::Validating { .. } => return None,
        Event::Logged(line) => logged(line),
        Event::Timed { epoch, rest, peak_memory } => {
            let rest =
                rest.map_or(String::new(), |rest| format!(", the rest of the run at most {}", time(rest)));
            let memory =
                peak_memory.map_or(String::new(), |memory| format!(", peak memory {}", bytes(memory)));
            format!("an epoch takes about {}{rest}{memory}", time(*epoch))
        }
        Event::Validated { line, sample, waiting } => {
            let mark = if line.is_best {
                ", best so far".into()
            } else {
                format!(", best was {} ago", counted(*waiting, "validation"))
            };
            let mut text = format!("step {:>7}  validation: {}{mark}", line.step, scores_text(line));
            if let Some(sample) = sample {
                text += &format!(
                    "\n    source       {}\n    reference    {}\n    output       {}",
                    cut(&sample.source),
                    cut(&sample.reference),
                    cut(&sample.output)
                );
            }
            text
        }
        Event::RolledBack { step, to, what, factor } => {
            format!("step {step}: {what}; back to step {to}, learning rate × {factor} from now on")
        }
        Event::Finished { path, made_of, comparison, better, scores } => {
            let labels = scores.as_ref().map_or(String::new(), |line| score_table(&line.labels));
            let scores =
                scores.as_ref().map_or(String::new(), |line| format!("; validation: {}", scores_text(line)));
            let compared = comparison.as_ref().map_or(String::new(), compared);
            let better = better.as_ref().map_or(String::new(), better_checkpoint);
            format!("{compared}{}: {made_of}{scores}{labels}{better}", path.display())
        }
    })
}

/// The device of a run, and why it is not a GPU.
fn opened(device: &str, model: Option<&str>, dtype: &str, why: Option<&(String, String)>) -> String {
    match (model, why) {
        (Some(model), _) => format!("on {device} ({model}), in {dtype}"),
        (None, Some((why, hint))) => {
            format!("on the CPU, in f32: no GPU can be used: {why} ({hint})")
        }
        (None, None) => "on the CPU".into(),
    }
}

fn examined(report: &polyhead_text::doctor::CheckReport) -> String {
    let mut text = format!(
        "{}: {}, {} without problems",
        report.source.path.display(),
        counted(report.lines, "pair"),
        grouped(report.clean)
    );
    for finding in &report.findings {
        text += &format!("\n    {} {}", grouped(finding.count), finding.problem.describe());
    }
    if report.drift.is_some() {
        text += "\n    source and target lines seem misaligned: see polyhead data check";
    }
    text
}

fn skips(skipped: &SkippedRows) -> String {
    let mut text = String::new();
    if skipped.empty > 0 {
        text += &format!("\n    {} skipped: empty source or target", counted(skipped.empty as u64, "pair"));
    }
    if let Some((corpus, line, tokens)) = skipped.first_too_long {
        text += &format!(
            "\n    {} skipped: longer than data.max_length, train.max_tokens or the model allow; the first is line \
             {line} of corpus {} with {}",
            counted(skipped.too_long as u64, "pair"),
            corpus + 1,
            counted(tokens as u64, "token")
        );
    }
    text
}

fn embedded(path: &Path, tables: &[FilledEmbeddings]) -> String {
    let mut text = format!("{}: pretrained embeddings", path.display());
    for FilledEmbeddings { table, found, entries } in tables {
        let share = 100.0 * *found as f64 / (*entries).max(1) as f64;
        let (found, entries) = (grouped(*found as u64), grouped(*entries as u64));
        text += &format!("\n    {table}: {found} of {entries} entries found ({share:.1} %)");
    }
    text
}

fn planned(plan: &RunPlan) -> String {
    let [source, target] = plan.vocab_sizes;
    let vocabulary = match (source, target) {
        (0, 0) => String::new(),
        _ if source == target => format!(", vocabulary {}", grouped(source as u64)),
        _ => format!(", vocabulary {source} and {target}"),
    };
    let free = plan.available.map_or(String::new(), |free| format!(" of {} free", bytes(free as u64)));
    let sizes = plan.sizes.map_or(String::new(), |sizes| format!(" of {}", counted(sizes as u64, "shape")));
    format!(
        "{}, {} layout{vocabulary}; {} per epoch{sizes}, {:.1} % padding; {}; about {} of \
         memory{free}; {}; run folder {}",
        counted(plan.parameters as u64, "parameter"),
        plan.layout,
        counted(plan.batches as u64, "batch"),
        100.0 * plan.padding.waste(),
        steps_text(&plan.steps),
        bytes(plan.forecast.total() as u64),
        counted(plan.threads as u64, "thread"),
        plan.out.display()
    )
}

/// The steps of an epoch and of a run.
pub(crate) fn steps_text(StepForecast { per_epoch, most, is_sampled }: &StepForecast) -> String {
    let about = if *is_sampled { "about " } else { "" };
    let most = most.map_or(String::new(), |most| format!(", at most {about}{}", counted(most, "step")));
    format!("{about}{} per epoch{most}", counted(*per_epoch, "step"))
}

/// The models that were compared, with the metric of each.
fn compared(Comparison { metric, beam_size, models }: &Comparison) -> String {
    let mut text = format!("compared on the validation set by {metric} (beam {beam_size}):\n");
    for model in models {
        let mark = if model.is_chosen { ", kept" } else { "" };
        text += &format!("    {:>8.4}  {}{mark}\n", model.score, model.made_of);
    }
    text
}

/// A warning where the recipe names a model that is not the best.
fn better_checkpoint(better: &BetterCheckpoint) -> String {
    let BetterCheckpoint { step, metric, score, finished } = better;
    format!(
        "\nwarning: the checkpoint of step {step} was better in validation ({metric} {score:.2}, this model \
         {finished:.2}); checkpoint.final = \"compare\" keeps the best"
    )
}

/// The first 200 characters of a sample.
fn cut(text: &str) -> String {
    match text.char_indices().nth(200) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.into(),
    }
}

fn stepped(progress: &Progress) -> String {
    format!(
        "step {:>7}  epoch {:>6.2}  loss {:.4}  lr {:.2e}  {} tokens/s",
        progress.step,
        progress.epoch,
        progress.loss,
        progress.learning_rate,
        grouped(progress.tokens_per_s as u64)
    )
}

fn logged(line: &TrainLine) -> String {
    format!(
        "step {:>7}  epoch {:>6.2}  loss {:.4}  perplexity {:>8.2}  lr {:.2e}  norm {:>5.2}  {} tokens/s",
        line.step,
        line.epoch,
        line.loss,
        line.perplexity,
        line.learning_rate,
        line.gradient_norm,
        grouped(line.tokens_per_s as u64)
    )
}

/// Loss, perplexity and scores of a validation.
pub(super) fn scores_text(line: &ValidLine) -> String {
    let mut text = format!("loss {:.4}, perplexity {:.2}", line.loss, line.perplexity);
    for (name, score) in &line.scores {
        text += &format!(", {name} {score:.2}");
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn step(number: u64) -> Event {
        Event::Stepped(Progress {
            step: number,
            epoch: 0.25,
            loss: 9.5,
            learning_rate: 1e-4,
            tokens_per_s: 1234.0,
            done: None,
            padding: 0.1,
        })
    }

    /// Steps of three seconds and no log line: lines after 6, 18, 39 and then 60 more seconds.
    #[test]
    fn a_slow_training_is_seen_to_run_before_its_first_log_line() {
        let start = Instant::now();
        let mut silence = Silence::new(start);
        let shown: Vec<(u64, String)> = (1..=40)
            .filter_map(|number| {
                let now = start + Duration::from_secs(3 * number);
                Some((3 * number, silence.broken(&step(number), now)?))
            })
            .collect();
        assert_eq!(shown[0].1, "step       2  epoch   0.25  loss 9.5000  lr 1.00e-4  1,234 tokens/s");
        let times: Vec<u64> = shown.iter().map(|(seconds, _)| *seconds).collect();
        assert_eq!(times, [6, 18, 39, 81]);
    }

    #[test]
    fn the_last_validation_is_one_validation_ago() {
        let line = ValidLine {
            step: 5,
            epoch: 1.0,
            loss: 2.0,
            perplexity: 7.0,
            scores: BTreeMap::new(),
            labels: Vec::new(),
            is_best: false,
            seconds: 1.0,
            sha256: None,
        };
        let found = text(&Event::Validated { line, sample: None, waiting: 1 }).expect("a line");
        assert!(found.ends_with(", best was 1 validation ago"), "{found}");
    }
}
