//! A training run from its beginning, or from where it stopped, to its finished model.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use polyhead_models::checkpoint::safetensors::Dtype;
use polyhead_models::transformer::Translator;
use polyhead_tensor::Parameters;
use polyhead_text::batch::Position;

use crate::checkpoint::Checkpoints;
use crate::config::{CheckpointConfig, Divergence, Final, RunConfig};
use crate::dataset::EpochData;
use crate::event::{Ending, Event, Plan, Progress};
use crate::fingerprint::Fingerprint;
use crate::finish::finish;
use crate::learner::{Learner, LearnerOptions, StepReport};
use crate::log::Log;
use crate::memory::{Forecast, available, peak};
use crate::metrics_file::{TrainLine, ValidLine};
use crate::model_folder::ModelFolder;
use crate::preparation::{Corpora, Preparation};
use crate::run_folder::RunFolder;
use crate::schedule::Schedule;
use crate::state::{Judged, State, Window};
use crate::{Error, Result};

/// Whether a run begins or goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Start {
    /// It begins; a run that is in the folder already is an error.
    #[default]
    New,
    /// It goes on from the newest checkpoint, or begins where there is none.
    Resume,
}

/// How a run is started.
#[derive(Debug, Clone, Copy, Default)]
pub struct RunOptions<'a> {
    /// Whether it begins or goes on; it begins.
    pub start: Start,
    /// Minutes after which it stops to be resumed later, from now; no limit.
    pub max_minutes: Option<f64>,
    /// When this becomes true, the present step is finished, a checkpoint written and the run left; never.
    pub stop: Option<&'a AtomicBool>,
}

/// What came of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// How it ended.
    pub ending: Ending,
    /// Steps made in all.
    pub step: u64,
    /// Seconds of training in all.
    pub seconds: f64,
    /// Its folder.
    pub folder: PathBuf,
}

/// Whether a checkpoint is judged as it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Judging {
    Now,
    Later,
}

/// Most times that a run goes back and halves its rate.
const MOST_SETBACKS: u32 = 5;
/// Steps after which the time of an epoch is told.
const TIMED_STEPS: u64 = 20;

/// Trains as `config` says and tells what happens.
pub fn train(config: &RunConfig, options: RunOptions<'_>, tell: &mut dyn FnMut(&Event)) -> Result<Outcome> {
    let corpora = Corpora::new(config)?;
    Schedule::new(&config.schedule, 1, config.train.max_steps)?;
    let known = if options.start == Start::Resume { RunFolder::open(&config.out)? } else { None };
    if known.is_none() {
        RunFolder::create(&config.out)?;
        corpora.examine(tell)?;
    }
    let preparation = Preparation::new(config, &corpora, &config.out, tell)?;
    let folder = match known {
        Some((folder, origin)) => {
            folder.check(config, &origin, &preparation.origin)?;
            folder
        }
        None => {
            let folder = RunFolder::create(&config.out)?;
            folder.begin(config, &preparation.origin)?;
            folder
        }
    };
    Run::new(config, options, &preparation, &folder.path, tell)?.run()
}

/// A run at work.
struct Run<'a> {
    config: &'a RunConfig,
    options: RunOptions<'a>,
    preparation: &'a Preparation,
    folder: &'a Path,
    tell: &'a mut dyn FnMut(&Event),
    learner: Learner,
    schedule: Schedule,
    checkpoints: Checkpoints,
    log: Log,
    state: State,
    /// When this process began to train, when it last wrote a checkpoint and when it last validated.
    began: Instant,
    saved: Instant,
    judged: Instant,
    /// Up to when the run's time is counted.
    marked: Instant,
    /// Batches of the present epoch.
    batches_of_epoch: usize,
    /// Steps made and seconds spent by this process.
    own_steps: u64,
    own_seconds: f64,
}

impl<'a> Run<'a> {
    fn new(
        config: &'a RunConfig,
        options: RunOptions<'a>,
        preparation: &'a Preparation,
        folder: &'a Path,
        tell: &'a mut dyn FnMut(&Event),
    ) -> Result<Self> {
        let learner_options = LearnerOptions::new(config);
        plan(config, preparation, learner_options, tell)?;
        let mut learner = Learner::new(&preparation.model, &config.optimizer, learner_options)?;
        let checkpoints = Checkpoints::of_run(folder);
        let (found, damaged) = checkpoints.restore(&mut learner)?;
        if found.is_none() && !damaged.is_empty() {
            // A damaged one may have given the learner some of its numbers.
            learner = Learner::new(&preparation.model, &config.optimizer, learner_options)?;
        }
        if found.is_none() {
            embed(&mut learner, config, preparation, tell)?;
        }
        let state = found.unwrap_or_else(State::new);
        if options.start == Start::Resume {
            tell(&Event::Resumed { step: state.step, damaged });
        }
        let schedule = Schedule::new(&config.schedule, preparation.model.d_model, config.train.max_steps)?;
        let log = Log::open(folder, state.step)?;
        let now = Instant::now();
        Ok(Self {
            config,
            options,
            preparation,
            folder,
            tell,
            learner,
            schedule,
            checkpoints,
            log,
            state,
            began: now,
            saved: now,
            judged: now,
            marked: now,
            batches_of_epoch: 0,
            own_steps: 0,
            own_seconds: 0.0,
        })
    }

    fn run(mut self) -> Result<Outcome> {
        let ending = loop {
            let epoch = self.epoch()?;
            self.batches_of_epoch = epoch.len();
            if let Some(ending) = self.train_epoch(&epoch)? {
                break ending;
            }
        };
        self.close(ending)?;
        let State { step, seconds, .. } = self.state;
        Ok(Outcome { ending, step, seconds, folder: self.folder.to_owned() })
    }

    fn epoch(&self) -> Result<EpochData> {
        self.preparation.data.epoch(Preparation::batches(self.config), self.state.position.epoch)
    }

    /// Trains until the next batch is of another epoch, or the run ends.
    fn train_epoch(&mut self, epoch: &EpochData) -> Result<Option<Ending>> {
        let number = self.state.position.epoch;
        while self.state.position.epoch == number {
            if let Some(ending) = self.limit() {
                return Ok(Some(ending));
            }
            let started = Instant::now();
            let rate = self.schedule.rate(self.state.step + 1) * self.state.rate_factor;
            let report = self.learner.step(epoch, self.state.position.batch, self.state.step + 1, rate)?;
            let seconds = started.elapsed().as_secs_f64();
            if let Some(what) = self.trouble(&report) {
                self.go_back(&what)?;
            } else {
                self.advance(epoch, &report, (rate, seconds))?;
                self.after_step()?;
            }
        }
        Ok(None)
    }

    /// What is wrong with a step, if anything.
    fn trouble(&mut self, report: &StepReport) -> Option<String> {
        if !report.is_finite() {
            let StepReport { loss, gradient_norm, .. } = report;
            return Some(format!("loss {loss}, gradient norm {gradient_norm}: no numbers any more"));
        }
        let usual = self.state.usual_loss;
        self.state
            .explodes(report.loss)
            .then(|| format!("loss {:.2}, usually {usual:.2}: it exploded", report.loss))
    }

    /// The last checkpoint with half the rate, or the end of the run.
    fn go_back(&mut self, what: &str) -> Result<()> {
        let step = self.state.step + 1;
        let diverged = |what: String| Err(Error::Diverged { step, what });
        let last = self.checkpoints.steps().last().map(|&step| self.checkpoints.path(step));
        let place = last.map_or("none was written yet".into(), |path| path.display().to_string());
        if self.config.train.divergence == Divergence::Stop {
            return diverged(format!("{what}; the last good checkpoint: {place}"));
        }
        if self.state.setbacks >= MOST_SETBACKS {
            return diverged(format!(
                "{what}, after the rate was halved {MOST_SETBACKS} times; the last good checkpoint: {place}"
            ));
        }
        let (factor, setbacks) = (self.state.rate_factor / 2.0, self.state.setbacks + 1);
        let (found, _) = self.checkpoints.restore(&mut self.learner)?;
        self.state = match found {
            Some(state) => state,
            None => {
                let options = self.learner.options;
                self.learner = Learner::new(&self.preparation.model, &self.config.optimizer, options)?;
                embed(&mut self.learner, self.config, self.preparation, self.tell)?;
                State::new()
            }
        };
        (self.state.rate_factor, self.state.setbacks) = (factor, setbacks);
        self.log = Log::open(self.folder, self.state.step)?;
        (self.tell)(&Event::WentBack { step, to: self.state.step, what: what.into(), factor });
        Ok(())
    }

    /// Counts a step and logs it.
    fn advance(&mut self, epoch: &EpochData, report: &StepReport, (rate, seconds): (f64, f64)) -> Result<()> {
        let state = &mut self.state;
        state.step += 1;
        state.target_tokens += report.tokens as u64;
        state.position.batch += report.batches;
        let epochs = state.position.epoch as f64 + state.position.batch as f64 / epoch.len() as f64;
        if state.position.batch >= epoch.len() {
            state.position = Position { epoch: state.position.epoch + 1, batch: 0 };
        }
        state.window.add(report, seconds);
        self.own_steps += 1;
        self.own_seconds += seconds;
        self.tick();
        let tokens_per_s = self.state.window.tokens as f64 / self.state.window.seconds.max(1e-9);
        let padding = epoch.padding().waste();
        let progress = Progress {
            step: self.state.step,
            epoch: epochs,
            loss: report.loss,
            learning_rate: rate,
            tokens_per_s,
            done: self.done(epochs),
            padding,
        };
        (self.tell)(&Event::Stepped(progress));
        if self.own_steps == TIMED_STEPS {
            self.tell_time(epoch, epochs);
        }
        if self.state.step.is_multiple_of(self.config.train.log_every) {
            let Window { loss, gradient_norm, steps, tokens, .. } = std::mem::take(&mut self.state.window);
            let loss = loss / tokens as f64;
            let line = TrainLine {
                step: self.state.step,
                epoch: epochs,
                loss,
                perplexity: loss.exp(),
                learning_rate: rate,
                gradient_norm: gradient_norm / steps as f64,
                target_tokens: self.state.target_tokens,
                tokens_per_s,
                padding,
                seconds: self.state.seconds,
            };
            self.log.train(&line)?;
            (self.tell)(&Event::Logged(line));
        }
        Ok(())
    }

    /// How long an epoch and the rest of the run will take.
    fn tell_time(&mut self, epoch: &EpochData, epochs: f64) {
        let batches = self.own_steps as f64 * self.config.train.accumulate as f64;
        let seconds = self.own_seconds / batches * epoch.len() as f64;
        let train = &self.config.train;
        let by_epochs = (train.max_epochs > 0).then(|| (train.max_epochs as f64 - epochs) * seconds);
        let step = self.own_seconds / self.own_steps as f64;
        let by_steps =
            (train.max_steps > 0).then(|| train.max_steps.saturating_sub(self.state.step) as f64 * step);
        let by_time = (train.max_minutes > 0.0).then(|| train.max_minutes * 60.0 - self.state.seconds);
        let rest = [by_epochs, by_steps, by_time].into_iter().flatten().reduce(f64::min);
        (self.tell)(&Event::Timed { epoch: seconds, rest, peak_memory: peak() });
    }

    /// Share of the way to the nearest limit.
    fn done(&self, epochs: f64) -> Option<f64> {
        let train = &self.config.train;
        let by_steps = (train.max_steps > 0).then(|| self.state.step as f64 / train.max_steps as f64);
        let by_epochs = (train.max_epochs > 0).then(|| epochs / train.max_epochs as f64);
        let by_time = (train.max_minutes > 0.0).then(|| self.state.seconds / 60.0 / train.max_minutes);
        [by_steps, by_epochs, by_time].into_iter().flatten().reduce(f64::max).map(|done| done.min(1.0))
    }

    /// Adds the time since the last call to the run's.
    fn tick(&mut self) {
        let now = Instant::now();
        self.state.seconds += now.duration_since(self.marked).as_secs_f64();
        self.marked = now;
    }

    /// Validates or saves where that is due.
    fn after_step(&mut self) -> Result<()> {
        let minutes = |since: Instant| since.elapsed().as_secs_f64() / 60.0;
        let (validation, checkpoint) = (&self.config.validation, &self.config.checkpoint);
        let State { step, position, .. } = self.state;
        let by_steps = validation.every_steps > 0 && step.is_multiple_of(validation.every_steps);
        let by_epochs = validation.every_steps == 0
            && position.batch == 0
            && position.epoch.is_multiple_of(validation.every_epochs.max(1));
        let by_minutes = validation.every_minutes > 0.0 && minutes(self.judged) >= validation.every_minutes;
        if by_steps || by_epochs || by_minutes {
            return self.save(Judging::Now);
        }
        let by_steps = checkpoint.every_steps > 0 && step.is_multiple_of(checkpoint.every_steps);
        let by_minutes = checkpoint.every_minutes > 0.0 && minutes(self.saved) >= checkpoint.every_minutes;
        if by_steps || by_minutes { self.save(Judging::Later) } else { Ok(()) }
    }

    /// Writes a checkpoint, judged if asked; one that was not judged yet at this step.
    fn save(&mut self, judging: Judging) -> Result<()> {
        let unfinished = self.checkpoints.begin(self.state.step)?;
        let folder = ModelFolder {
            run: self.config,
            config: &self.preparation.model,
            vocabulary: &self.preparation.vocabulary,
        };
        let card = format!("A checkpoint after {} steps.\n", self.state.step);
        folder.write(unfinished.folder(), self.learner.kept(), Dtype::F32, &card)?;
        if judging == Judging::Now {
            self.state.milestones.push(self.state.step);
        }
        if let (Judging::Now, Some(valid)) = (judging, &self.preparation.valid) {
            let turn = self.state.validations.len() as u64;
            let found = valid.judge((&self.learner.model, self.learner.kept()), unfinished.folder(), turn)?;
            self.tick();
            let judged = Judged { step: self.state.step, merit: found.merit, loss: found.loss };
            let is_best = self.state.judge(judged);
            let line = ValidLine {
                step: self.state.step,
                epoch: self.epochs(),
                loss: found.loss,
                perplexity: found.loss.exp(),
                scores: found.scores,
                is_best,
                sha256: weights_sum(unfinished.folder()),
                seconds: self.state.seconds,
            };
            self.log.valid(&line, found.sample.as_ref())?;
            self.judged = Instant::now();
            (self.tell)(&Event::Validated { line, sample: found.sample, waiting: self.state.waiting });
        }
        let path = unfinished.finish(&self.learner, &self.state)?;
        let CheckpointConfig { keep_last, keep_best, r#final, average, .. } = self.config.checkpoint;
        let best = if r#final == Final::AverageBest { keep_best.max(average) } else { keep_best };
        let mut wanted = self.state.best_steps(best);
        if r#final == Final::AverageLast {
            wanted.extend(self.state.last_milestones(average));
        }
        self.checkpoints.prune(keep_last, &wanted)?;
        self.saved = Instant::now();
        self.tick();
        (self.tell)(&Event::Saved(path));
        Ok(())
    }

    /// Epochs made, by the position alone.
    fn epochs(&self) -> f64 {
        let State { position, .. } = &self.state;
        let batches = self.batches_of_epoch.max(1) as f64;
        position.epoch as f64 + position.batch as f64 / batches
    }

    /// The last checkpoint, and the finished model unless the run is only interrupted.
    fn close(&mut self, ending: Ending) -> Result<()> {
        let is_saved = self.checkpoints.steps().last() == Some(&self.state.step);
        let is_milestone = self.state.milestones.last() == Some(&self.state.step);
        if ending == Ending::Stopped {
            return if is_saved { Ok(()) } else { self.save(Judging::Later) };
        }
        if !is_saved || !is_milestone {
            self.save(Judging::Now)?;
        }
        self.finish()
    }

    fn finish(&mut self) -> Result<()> {
        let found = finish(self.config, self.preparation, &self.state, self.folder)?;
        let scores = found.validation.map(|judged| ValidLine {
            step: self.state.step,
            epoch: self.epochs(),
            loss: judged.loss,
            perplexity: judged.loss.exp(),
            scores: judged.scores,
            is_best: false,
            sha256: weights_sum(&found.path),
            seconds: self.state.seconds,
        });
        (self.tell)(&Event::Finished { path: found.path, made_of: found.made_of, scores });
        Ok(())
    }

    /// Whether the run has reached a limit before its next step.
    fn limit(&self) -> Option<Ending> {
        let train = &self.config.train;
        let minutes = self.state.seconds / 60.0;
        let own_minutes = self.began.elapsed().as_secs_f64() / 60.0;
        if train.max_steps > 0 && self.state.step >= train.max_steps {
            Some(Ending::Steps)
        } else if train.max_epochs > 0 && self.state.position.epoch >= train.max_epochs {
            Some(Ending::Epochs)
        } else if train.max_minutes > 0.0 && minutes >= train.max_minutes {
            Some(Ending::Time)
        } else if self.config.validation.patience > 0 && self.state.waiting >= self.config.validation.patience
        {
            Some(Ending::Patience)
        } else if self.options.stop.is_some_and(|stop| stop.load(Ordering::Relaxed))
            || self.options.max_minutes.is_some_and(|most| own_minutes >= most)
        {
            Some(Ending::Stopped)
        } else {
            None
        }
    }
}

/// Lets the embeddings of a new learner start from vectors, where the config names some.
fn embed(
    learner: &mut Learner,
    config: &RunConfig,
    preparation: &Preparation,
    tell: &mut dyn FnMut(&Event),
) -> Result<()> {
    if let Some(path) = &config.embeddings.init {
        let tables = learner.embed(&preparation.vocabulary, path)?;
        tell(&Event::Embedded { path: path.clone(), tables });
    }
    Ok(())
}

/// The sum of a folder's weights, where they are one file.
fn weights_sum(folder: &Path) -> Option<String> {
    Fingerprint::of(&folder.join("model.safetensors")).ok().map(|found| found.sha256)
}

/// Tells what the run is going to be; refuses what cannot fit.
fn plan(
    config: &RunConfig,
    preparation: &Preparation,
    options: LearnerOptions,
    tell: &mut dyn FnMut(&Event),
) -> Result<()> {
    let mut parameters = Parameters::default();
    Translator::new(&preparation.model, &mut parameters)?;
    let epoch = preparation.data.epoch(Preparation::batches(config), 0)?;
    let [rows, source, target] = epoch.largest();
    // A value, a gradient, two moments, and a moving average if one is kept.
    let copies = if options.ema > 0.0 { 5 } else { 4 };
    let data = preparation.data.tokens().iter().sum::<usize>() * size_of::<u32>();
    let largest = [rows * options.copies(), source, target];
    let forecast = Forecast::new(&preparation.model, (parameters.count(), copies), largest, data);
    let available = available();
    tell(&Event::Planned(Plan {
        parameters: parameters.count(),
        vocab_sizes: preparation.vocabulary.sizes(),
        batches: epoch.len(),
        padding: epoch.padding(),
        forecast,
        available,
        threads: rayon::current_num_threads(),
        out: config.out.clone(),
    }));
    match available {
        Some(available) if forecast.total() > available => Err(Error::Memory {
            message: format!(
                "the run needs about {:.1} GB ({:.1} for parameters, {:.1} for the largest batch of {} × ({source} + \
                 {target}) tokens), and {:.1} GB are free",
                forecast.total() as f64 / 1e9,
                forecast.parameters as f64 / 1e9,
                forecast.batch as f64 / 1e9,
                largest[0],
                available as f64 / 1e9
            ),
        }),
        _ => Ok(()),
    }
}
