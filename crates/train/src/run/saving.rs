//! Checkpoints and validations of a run, rollback after a divergence, and the end of the run.

use std::path::Path;
use std::time::Instant;

use polyhead_tensor::Dtype;

use super::pace::is_set;
use super::{Run, initialise};
use crate::config::{CheckpointConfig, Divergence, FinalModel};
use crate::event::{Ending, Event};
use crate::fingerprint::Fingerprint;
use crate::finish::{Finish, Finished};
use crate::learner::Learner;
use crate::log::Log;
use crate::metrics_file::ValidLine;
use crate::model_folder::ModelFolder;
use crate::objective::{Candidate, Dataset as _, Objective, Stage, Validation, ValidationSet as _};
use crate::state::{TrainerState, ValidationRecord};

use crate::{Error, Result};

/// Validation of a checkpoint when it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Validate {
    Now,
    Skip,
}

/// Maximum number of rollbacks, each of which halves the learning rate.
const MOST_SETBACKS: u32 = 5;

impl<O: Objective> Run<'_, O> {
    /// Validates or saves a checkpoint if one is due.
    pub(super) fn after_step(&mut self) -> Result<()> {
        let minutes = |since: Instant| since.elapsed().as_secs_f64() / 60.0;
        let (validation, checkpoint) = (&self.config.validation, &self.config.checkpoint);
        let TrainerState { step, position, .. } = self.state;
        let by_steps = validation.every_steps > 0 && step.is_multiple_of(validation.every_steps);
        let by_epochs = validation.every_steps == 0
            && position.batch == 0
            && position.epoch.is_multiple_of(validation.every_epochs.max(1));
        let by_minutes =
            validation.every_minutes > 0.0 && minutes(self.validated_at) >= validation.every_minutes;
        if by_steps || by_epochs || by_minutes {
            return self.save(Validate::Now);
        }
        let by_steps = checkpoint.every_steps > 0 && step.is_multiple_of(checkpoint.every_steps);
        let by_minutes = checkpoint.every_minutes > 0.0 && minutes(self.saved_at) >= checkpoint.every_minutes;
        if by_steps || by_minutes { self.save(Validate::Skip) } else { Ok(()) }
    }

    /// Writes a checkpoint of the current step, after validating it if `validate` says so.
    pub(super) fn save(&mut self, validate: Validate) -> Result<()> {
        self.learner.fetch()?;
        let unfinished = self.checkpoints.begin(self.state.step)?;
        let folder = ModelFolder {
            run: self.config,
            config: &self.preparation.model,
            vocabulary: self.preparation.vocabulary.as_ref(),
            files: &self.preparation.data.files(),
        };
        let readme = format!("A checkpoint after {} steps.\n", self.state.step);
        folder.write(unfinished.folder(), self.learner.weights.for_evaluation(), Dtype::F32, &readme)?;
        if validate == Validate::Now {
            self.validate(unfinished.folder())?;
        }
        let path = unfinished.finish(&self.learner.weights, &self.state)?;
        let CheckpointConfig { keep_last, keep_best, r#final, average, .. } = self.config.checkpoint;
        let averages_best = matches!(r#final, FinalModel::AverageBest | FinalModel::Compare);
        let averages_last = matches!(r#final, FinalModel::AverageLast | FinalModel::Compare);
        let best = if averages_best { keep_best.max(average) } else { keep_best };
        let mut wanted = self.state.best_steps(best);
        if averages_last {
            wanted.extend(self.state.last_milestones(average));
        }
        self.checkpoints.prune(keep_last, &wanted)?;
        self.saved_at = Instant::now();
        self.tick();
        (self.on_event)(&Event::Saved(path));
        Ok(())
    }

    /// Validates the model in `folder`. If the run is asked to stop meanwhile, the validation is postponed until it is resumed.
    fn validate(&mut self, folder: &Path) -> Result<()> {
        if let Some(valid) = &self.preparation.valid {
            let turn = self.state.validations.len() as u64;
            let Learner { objective, weights, .. } = &self.learner;
            let candidate =
                Candidate { objective, parameters: weights.for_evaluation(), folder, device: self.device };
            let (stop, on_event) = (self.options.stop, &mut *self.on_event);
            let mut watch = |done, total| {
                on_event(&Event::Validating { model: None, done, total });
                !is_set(stop)
            };
            let Some(found) = valid.validate(candidate, Stage::Checkpoint(turn), &mut watch)? else {
                self.state.owes_validation = true;
                return Ok(());
            };
            self.tick();
            let is_best = self.state.record_validation(ValidationRecord {
                step: self.state.step,
                merit: found.merit,
                loss: found.loss,
            });
            // Of the finished model alone, so that the log of a run with many labels stays small.
            let line = ValidLine { is_best, labels: Vec::new(), ..self.line(&found, folder) };
            self.log.valid(&line, found.sample.as_ref())?;
            self.validated_at = Instant::now();
            (self.on_event)(&Event::Validated { line, sample: found.sample, waiting: self.state.waiting });
        }
        self.state.milestones.push(self.state.step);
        Ok(())
    }

    /// The line of `metrics.jsonl` for a validation of the model in `folder`.
    fn line(&self, found: &Validation, folder: &Path) -> ValidLine {
        ValidLine {
            step: self.state.step,
            epoch: self.epochs(),
            loss: found.loss,
            perplexity: found.loss.exp(),
            scores: found.scores.clone(),
            labels: found.labels.clone(),
            is_best: false,
            sha256: weights_sum(folder),
            seconds: self.state.seconds,
        }
    }

    /// Epochs done, by the position alone.
    fn epochs(&self) -> f64 {
        let TrainerState { position, .. } = &self.state;
        let batches = self.batches_of_epoch.max(1) as f64;
        position.epoch as f64 + position.batch as f64 / batches
    }

    /// Writes the last checkpoint and, unless the run was interrupted, the finished model. Returns the actual ending.
    pub(super) fn close(&mut self, ending: Ending) -> Result<Ending> {
        let is_saved = self.checkpoints.steps().last() == Some(&self.state.step);
        if matches!(ending, Ending::Stopped | Ending::Paused) {
            if !is_saved {
                self.save(Validate::Skip)?;
            }
            return Ok(ending);
        }
        if !is_saved || self.state.milestones.last() != Some(&self.state.step) {
            self.save(Validate::Now)?;
        }
        if self.state.owes_validation {
            return Ok(Ending::Stopped);
        }
        Ok(if self.finish()? { ending } else { Ending::Stopped })
    }

    /// Writes the finished model; false if the run was asked to stop meanwhile.
    fn finish(&mut self) -> Result<bool> {
        let (config, preparation, state) = (self.config, self.preparation, &self.state);
        let finish = Finish { run: config, preparation, state, folder: self.folder, device: self.device };
        let (stop, on_event) = (self.options.stop, &mut *self.on_event);
        let found = finish.write(&mut |model, done, total| {
            on_event(&Event::Validating { model: Some(model.to_owned()), done, total });
            !is_set(stop)
        })?;
        let Some(Finished { path, made_of, comparison, better, validation }) = found else {
            return Ok(false);
        };
        let scores = validation.map(|validation| self.line(&validation, &path));
        (self.on_event)(&Event::Finished { path, made_of, comparison, better, scores });
        Ok(true)
    }

    /// Returns to the last checkpoint with half the learning rate, or ends the run with an error.
    pub(super) fn roll_back(&mut self, what: &str) -> Result<()> {
        let step = self.state.step + 1;
        let diverged = |what: String| Err(Error::Diverged { step, what });
        let last = self.checkpoints.steps().last().map(|&step| self.checkpoints.path(step));
        let place = last.map_or("none was written yet".into(), |path| path.display().to_string());
        if self.config.train.divergence == Divergence::Stop {
            return diverged(format!("{what}; the last good checkpoint: {place}"));
        }
        if self.state.setbacks >= MOST_SETBACKS {
            return diverged(format!(
                "{what}, after the learning rate was halved {MOST_SETBACKS} times; the last good checkpoint: {place}"
            ));
        }
        let (factor, setbacks) = (self.state.rate_factor / 2.0, self.state.setbacks + 1);
        let (found, _) = self.checkpoints.restore(&mut self.learner.weights);
        self.state = if let Some(state) = found {
            state
        } else {
            let options = self.learner.options;
            self.learner = Learner::new(&self.preparation.model, &self.config.optimizer, options)?;
            initialise(&mut self.learner, self.config, self.preparation, self.on_event)?;
            TrainerState::new()
        };
        self.learner.move_to(self.device)?;
        (self.state.rate_factor, self.state.setbacks) = (factor, setbacks);
        self.log = Log::open(self.folder, self.state.step)?;
        (self.on_event)(&Event::RolledBack { step, to: self.state.step, what: what.into(), factor });
        Ok(())
    }
}

/// SHA-256 of a folder's weights, if they are one file.
fn weights_sum(folder: &Path) -> Option<String> {
    Fingerprint::of(&folder.join("model.safetensors")).ok().map(|found| found.sha256)
}
