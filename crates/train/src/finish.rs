//! The finished model of a run, validated as it will be used.
//!
//! With `checkpoint.final = "compare"` the best checkpoint, the last one, the mean of the best and the mean of the last are
//! compared on the validation set by the recipe's metric. Single checkpoints were validated during the run, so that only the
//! means are validated once more, with the beam size of validation.

use std::path::{Path, PathBuf};

use polyhead_tensor::{Device, Dtype};
use polyhead_text::metrics::LabelScore;

use crate::Result;
use crate::average::{Averaged, average};
use crate::checkpoint::{Checkpoints, write_sums};
use crate::config::{FinalModel, Metric, RunConfig};
use crate::event::{BetterCheckpoint, ComparedModel, Comparison};
use crate::model_folder::ModelFolder;
use crate::objective::{Candidate, Dataset as _, Objective, Stage, Validation, ValidationSet as _};
use crate::preparation::Preparation;
use crate::run_folder::MODEL;
use crate::state::{TrainerState, ValidationRecord};
use crate::task::Task;

/// The finished model.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) path: PathBuf,
    /// The checkpoints that it is made of.
    pub(crate) made_of: String,
    /// The models that were compared, if several were.
    pub(crate) comparison: Option<Comparison>,
    /// A checkpoint with a better validation, where nothing was compared.
    pub(crate) better: Option<BetterCheckpoint>,
    /// Validation with the beam size that it will be used with.
    pub(crate) validation: Option<Validation>,
}

/// Called during a validation with the model, the rows done and all rows; false ends the work.
pub(crate) type Watch<'a> = &'a mut dyn FnMut(&str, usize, usize) -> bool;

/// Everything that the finished model is chosen from.
pub(crate) struct Finish<'a, O: Objective> {
    pub(crate) run: &'a RunConfig,
    pub(crate) preparation: &'a Preparation<O>,
    pub(crate) state: &'a TrainerState,
    pub(crate) folder: &'a Path,
    pub(crate) device: &'a Device,
}

/// A model that may become the finished one: steps of checkpoints, and its validation.
#[derive(Debug)]
struct Contender {
    steps: Vec<u64>,
    record: ValidationRecord,
    /// The whole validation, of a model that was validated at the end of the run.
    validation: Option<Validation>,
}

impl<O: Objective> Finish<'_, O> {
    /// Writes the finished model of a run; none if `watch` ended the work.
    pub(crate) fn write(&self, watch: Watch<'_>) -> Result<Option<Finished>> {
        let Self { run, preparation, state, folder, device } = *self;
        let checkpoints = Checkpoints::of_run(folder);
        let mut choices = choices(run, state, &checkpoints);
        let (mut comparison, mut known) = (None, None);
        if choices.len() > 1 {
            let Some((chosen, validation, models)) = self.compare(choices, &checkpoints, watch)? else {
                return Ok(None);
            };
            choices = vec![chosen];
            known = validation.filter(|_| self.is_as_used());
            let validation = &run.validation;
            let (metric, beam_size) = (validation.metric.name(), validation.beam_size);
            comparison = Some(Comparison { metric, beam_size, models });
        }
        let steps = choices.pop().unwrap_or_default();
        let made_of = made_of(&steps);
        let Averaged { model, parameters } = average(&paths(&checkpoints, &steps))?;
        let config = model.config();
        let objective = O::new(model)?;
        let path = folder.join(MODEL);
        let dtype = run.checkpoint.dtype;
        let files = &preparation.data.files();
        let model_folder =
            ModelFolder { run, config: &config, vocabulary: preparation.vocabulary.as_ref(), files };
        let readme = |validation: Option<&Validation>| model_card(run, state, &made_of, validation);
        model_folder.write(&path, &parameters, dtype, &readme(None))?;
        let mut validation = known;
        if let (None, Some(valid)) = (&validation, &preparation.valid) {
            let candidate =
                Candidate { objective: &objective, parameters: &parameters, folder: &path, device };
            let mut watch = |done, total| watch(&made_of, done, total);
            let found = valid.validate(
                candidate,
                Stage::Finished { beam_size: run.checkpoint.beam_size },
                &mut watch,
            )?;
            let Some(found) = found else { return Ok(None) };
            validation = Some(found);
        }
        if let Some(validation) = &validation {
            model_folder.write(&path, &parameters, dtype, &readme(Some(validation)))?;
        }
        write_sums(&path)?;
        let better = match (&validation, &comparison) {
            (Some(found), None) => self.better(&steps, found),
            _ => None,
        };
        Ok(Some(Finished { path, made_of, comparison, better, validation }))
    }

    /// The steps of the best model, its validation if it is a mean, and all models with their scores; none if `watch` ended
    /// the work.
    #[allow(clippy::type_complexity)] // used once
    fn compare(
        &self,
        choices: Vec<Vec<u64>>,
        checkpoints: &Checkpoints,
        watch: Watch<'_>,
    ) -> Result<Option<(Vec<u64>, Option<Validation>, Vec<ComparedModel>)>> {
        let mut contenders: Vec<Contender> = Vec::new();
        for steps in choices {
            let known = self.state.validations.iter().rev().find(|record| steps == [record.step]);
            contenders.push(if let Some(record) = known {
                Contender { steps, record: *record, validation: None }
            } else {
                let Some(found) = self.validate(&steps, checkpoints, watch)? else { return Ok(None) };
                let record = ValidationRecord { step: self.state.step, merit: found.merit, loss: found.loss };
                Contender { steps, record, validation: Some(found) }
            });
        }
        let best = (1..contenders.len()).fold(0, |best, next| {
            // Of equals the first, the simplest.
            if contenders[next].record.is_better_than(&contenders[best].record) { next } else { best }
        });
        let metric = self.run.validation.metric;
        let models = contenders.iter().enumerate().map(|(index, contender)| ComparedModel {
            made_of: made_of(&contender.steps),
            score: metric.value(contender.record.merit),
            is_chosen: index == best,
        });
        let models = models.collect();
        let Contender { steps, validation, .. } = contenders.swap_remove(best);
        Ok(Some((steps, validation, models)))
    }

    /// Validates the mean of some checkpoints as checkpoints were during the run.
    fn validate(
        &self,
        steps: &[u64],
        checkpoints: &Checkpoints,
        watch: Watch<'_>,
    ) -> Result<Option<Validation>> {
        let Some(valid) = &self.preparation.valid else { return Ok(None) };
        let Averaged { model, parameters } = average(&paths(checkpoints, steps))?;
        let config = model.config();
        let objective = O::new(model)?;
        // Removed when dropped.
        let folder = checkpoints.begin(self.state.step)?;
        let vocabulary = self.preparation.vocabulary.as_ref();
        let files = &self.preparation.data.files();
        let model_folder = ModelFolder { run: self.run, config: &config, vocabulary, files };
        model_folder.write(folder.folder(), &parameters, Dtype::F32, "")?;
        let candidate = Candidate {
            objective: &objective,
            parameters: &parameters,
            folder: folder.folder(),
            device: self.device,
        };
        let made_of = made_of(steps);
        valid.validate(candidate, Stage::Checkpoint(0), &mut |done, total| watch(&made_of, done, total))
    }

    /// True if models are validated during the run as the finished model is: with the same search, in the same dtype.
    fn is_as_used(&self) -> bool {
        let RunConfig { validation, checkpoint, task, .. } = self.run;
        let is_searched =
            matches!(task, Task::Translation | Task::Pointing | Task::Transcription | Task::Captioning);
        checkpoint.dtype == Dtype::F32
            && (!is_searched
                || (validation.metric != Metric::Loss && validation.beam_size == checkpoint.beam_size))
    }

    /// The best checkpoint, if it was better than the finished model.
    fn better(&self, steps: &[u64], found: &Validation) -> Option<BetterCheckpoint> {
        let metric = self.run.validation.metric;
        let best = self.state.best().filter(|best| steps != [best.step] && best.merit > found.merit)?;
        let [score, finished] = [best.merit, found.merit].map(|merit| metric.value(merit));
        Some(BetterCheckpoint { step: best.step, metric: metric.name(), score, finished })
    }
}

fn paths(checkpoints: &Checkpoints, steps: &[u64]) -> Vec<PathBuf> {
    steps.iter().map(|&step| checkpoints.path(step)).collect()
}

/// The checkpoints of a model in words.
fn made_of(steps: &[u64]) -> String {
    let names: Vec<String> = steps.iter().map(u64::to_string).collect();
    match names.as_slice() {
        [one] => format!("the checkpoint of step {one}"),
        several => format!("the mean of {} checkpoints, steps {}", several.len(), several.join(", ")),
    }
}

/// The models that may become the finished one, each as the ascending steps of its checkpoints; one unless they are to be
/// compared.
fn choices(run: &RunConfig, state: &TrainerState, checkpoints: &Checkpoints) -> Vec<Vec<u64>> {
    let there = checkpoints.steps();
    let last = || there.last().copied().into_iter().collect::<Vec<u64>>();
    let those = |steps: &[u64]| {
        let mut steps: Vec<u64> = steps.iter().copied().filter(|step| there.contains(step)).collect();
        steps.sort_unstable();
        if steps.is_empty() { last() } else { steps }
    };
    let average = run.checkpoint.average;
    let best = || those(&state.best_steps(1));
    let average_best = || those(&state.best_steps(average));
    let average_last = || those(state.last_milestones(average));
    match run.checkpoint.r#final {
        FinalModel::Best => vec![best()],
        FinalModel::AverageBest => vec![average_best()],
        FinalModel::AverageLast => vec![average_last()],
        FinalModel::Last => vec![last()],
        FinalModel::Compare if state.validations.is_empty() => vec![last()],
        FinalModel::Compare => {
            let mut all: Vec<Vec<u64>> = Vec::new();
            for steps in [best(), last(), average_best(), average_last()] {
                if !all.contains(&steps) {
                    all.push(steps);
                }
            }
            all
        }
    }
}

/// Scores of the labels as a table, empty without labels.
fn label_table(labels: &[LabelScore]) -> String {
    if labels.is_empty() {
        return String::new();
    }
    let row = |score: &LabelScore| {
        let LabelScore { label, precision, recall, f1, support } = score;
        let label = label.replace('|', "\\|");
        format!("| {label} | {precision:.1} | {recall:.1} | {f1:.1} | {support} |\n")
    };
    let rows: String = labels.iter().map(row).collect();
    format!("\n| label | precision | recall | F1 | in the set |\n|---|---|---|---|---|\n{rows}")
}

/// Text of the model's README.
fn model_card(
    run: &RunConfig,
    state: &TrainerState,
    made_of: &str,
    validation: Option<&Validation>,
) -> String {
    let mut text = format!(
        "Trained by Polyhead {} with seed {}: {} steps, {} target tokens, {:.0} minutes. These weights are {made_of}.\n",
        env!("CARGO_PKG_VERSION"),
        run.seed,
        state.step,
        state.target_tokens,
        state.seconds / 60.0
    );
    if let Some(found) = validation {
        text += &format!("\nOn the validation set: cross-entropy {:.4} per token", found.loss);
        for (name, score) in &found.scores {
            text += &format!(", {name} {score:.2}");
        }
        text += &match run.task {
            Task::Translation => format!(" (beam {}).\n", run.checkpoint.beam_size),
            _ => ".\n".into(),
        };
        text += &label_table(&found.labels);
    }
    format!("{text}\n{}\n", run.task.usage())
}
