//! A training run from its beginning, or from where it stopped, to its finished model.

mod epochs;
mod pace;
mod plan;
mod saving;

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use polyhead_tensor::Device;
use polyhead_text::batch::Position;

use self::epochs::Epochs;
use self::plan::plan;
use self::saving::Judging;
use crate::checkpoint::Checkpoints;
use crate::classification::Classification;
use crate::config::{Dtype, RunConfig, TrainConfig};
use crate::event::{Ending, Event, Progress};
use crate::learner::{EpochOf, Learner, LearnerOptions, Planned, StepReport};
use crate::log::Log;
use crate::metrics_file::TrainLine;
use crate::objective::{EpochBatches as _, Objective};
use crate::preparation::{Corpora, Preparation, Stage};
use crate::run_folder::RunFolder;
use crate::schedule::Schedule;
use crate::state::{State, Window};
use crate::task::Task;
use crate::translation::Translation;
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

/// Steps after which the time of an epoch is told.
const TIMED_STEPS: u64 = 20;

/// Trains as `config` says and tells what happens.
///
/// # Errors
/// If the config, the text or the device cannot be used, or the loss diverges.
pub fn train(config: &RunConfig, options: RunOptions<'_>, tell: &mut dyn FnMut(&Event)) -> Result<Outcome> {
    match Task::of(&config.model) {
        Task::Translation => train_by::<Translation>(config, options, tell),
        Task::Classification => train_by::<Classification>(config, options, tell),
    }
}

/// Trains by an objective.
fn train_by<O: Objective>(
    config: &RunConfig,
    options: RunOptions<'_>,
    tell: &mut dyn FnMut(&Event),
) -> Result<Outcome> {
    let (device, config) = &open(config, tell)?;
    let corpora = Corpora::new(config)?;
    Schedule::new(&config.schedule, 1, config.train.max_steps)?;
    let known = if options.start == Start::Resume { RunFolder::open(&config.out)? } else { None };
    let stage = if known.is_some() { Stage::Begun } else { Stage::Fresh };
    let folder = RunFolder::create(&config.out, stage)?;
    let _lock = folder.lock()?;
    if stage == Stage::Fresh {
        corpora.examine(tell)?;
    }
    let preparation = Preparation::<O>::new(config, &corpora, (&config.out, stage), tell)?;
    if let Some((folder, origin)) = known {
        folder.check(config, &origin, &preparation.origin)?;
    }
    let first = plan(config, &preparation, device, tell)?;
    if stage == Stage::Fresh {
        // From here on the run is there: what cannot work was refused before.
        folder.begin(config, &preparation.origin)?;
    }
    let place = Place { folder: &folder.path, device };
    Run::new(config, options, &preparation, place, tell)?.run(first)
}

/// The device of a run, and the config that names it and what it computes with.
fn open(config: &RunConfig, tell: &mut dyn FnMut(&Event)) -> Result<(Device, RunConfig)> {
    let mut config = config.clone();
    let TrainConfig { device: name, dtype, .. } = &mut config.train;
    let (device, why) = Device::choose(name, dtype.math())?;
    if name == "cpu" && matches!(dtype, Dtype::Tf32 | Dtype::Bf16) {
        return Err(Error::config(
            "train.dtype",
            format!("{}, but the processor computes in f32", dtype.math().name()),
            "leave it out, or train on a card: --device cuda",
        ));
    }
    (*name, *dtype) = (device.name(), Dtype::of(device.math()));
    tell(&Event::Opened {
        device: device.name(),
        model: device.model().map(str::to_owned),
        dtype: device.math().name(),
        why: why.map(|why| (why.to_string(), why.hint().to_owned())),
    });
    Ok((device, config))
}

/// Where a run is.
#[derive(Clone, Copy)]
struct Place<'a> {
    folder: &'a Path,
    device: &'a Device,
}

/// A run at work.
struct Run<'a, O: Objective> {
    config: &'a RunConfig,
    options: RunOptions<'a>,
    preparation: &'a Preparation<O>,
    folder: &'a Path,
    device: &'a Device,
    tell: &'a mut dyn FnMut(&Event),
    learner: Learner<O>,
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
    /// Batches of the present epoch, and the share of them that is padding.
    batches_of_epoch: usize,
    padding: f64,
    /// Steps made and seconds spent by this process.
    own_steps: u64,
    own_seconds: f64,
}

impl<'a, O: Objective> Run<'a, O> {
    fn new(
        config: &'a RunConfig,
        options: RunOptions<'a>,
        preparation: &'a Preparation<O>,
        Place { folder, device }: Place<'a>,
        tell: &'a mut dyn FnMut(&Event),
    ) -> Result<Self> {
        let learner_options = LearnerOptions::new(config);
        let mut learner = Learner::new(&preparation.model, &config.optimizer, learner_options)?;
        let checkpoints = Checkpoints::of_run(folder);
        let (found, damaged) = checkpoints.restore(&mut learner.weights);
        if found.is_none() && !damaged.is_empty() {
            // A damaged one may have given the learner some of its numbers.
            learner = Learner::new(&preparation.model, &config.optimizer, learner_options)?;
        }
        if found.is_none() {
            embed(&mut learner, config, preparation, tell)?;
        }
        learner.move_to(device)?;
        let state = found.unwrap_or_else(State::new);
        if options.start == Start::Resume {
            tell(&Event::Resumed { step: (state.step > 0).then_some(state.step), damaged });
        }
        let schedule = Schedule::new(&config.schedule, preparation.model.d_model(), config.train.max_steps)?;
        let log = Log::open(folder, state.step)?;
        let now = Instant::now();
        Ok(Self {
            config,
            options,
            preparation,
            folder,
            device,
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
            padding: 0.0,
            own_steps: 0,
            own_seconds: 0.0,
        })
    }

    /// Trains to the end; `first` is epoch 0.
    fn run(mut self, first: EpochOf<O>) -> Result<Outcome> {
        let epochs = Epochs::new(self.config, &self.preparation.data, self.device);
        let ending = std::thread::scope(|scope| {
            let mut epochs = epochs.in_scope(scope, first);
            if std::mem::take(&mut self.state.owes_validation) {
                self.batches_of_epoch = epochs.take(self.state.position.epoch)?.len();
                self.save(Judging::Now)?;
            }
            let ending = loop {
                let epoch = epochs.take(self.state.position.epoch)?;
                self.batches_of_epoch = epoch.len();
                self.padding = epoch.padding(self.learner.rounding()).waste();
                if let Some(ending) = self.train_epoch(&epoch)? {
                    break ending;
                }
            };
            self.close(ending)
        })?;
        let State { step, seconds, .. } = self.state;
        Ok(Outcome { ending, step, seconds, folder: self.folder.to_owned() })
    }

    /// Trains until the next batch is of another epoch, or the run ends.
    fn train_epoch(&mut self, epoch: &EpochOf<O>) -> Result<Option<Ending>> {
        let number = self.state.position.epoch;
        while self.state.position.epoch == number {
            if let Some(ending) = self.limit() {
                return Ok(Some(ending));
            }
            let started = Instant::now();
            let planned = self.next_steps(epoch);
            let reports = self.learner.steps(epoch, &planned)?;
            let seconds = started.elapsed().as_secs_f64() / planned.len() as f64;
            let mut trouble = None;
            for (plan, report) in planned.iter().zip(&reports) {
                trouble = self.trouble(report);
                if trouble.is_some() {
                    break;
                }
                self.advance(epoch, report, (plan.rate, seconds))?;
            }
            match trouble {
                // What was made after it counts for nothing.
                Some(what) => self.go_back(&what)?,
                None => self.after_step()?,
            }
        }
        Ok(None)
    }

    /// The steps to make before their reports are read. None of them but the last is followed by anything besides a step.
    fn next_steps(&self, epoch: &EpochOf<O>) -> Vec<Planned> {
        let (most, accumulate) = (self.learner.most_steps(), self.config.train.accumulate);
        let batches = (self.state.position.batch..epoch.len()).step_by(accumulate);
        let steps = batches.zip(self.state.step + 1..).map(|(first, step)| {
            let rate = self.schedule.rate(step) * self.state.rate_factor;
            Planned { step, first, rate }
        });
        let mut planned = Vec::new();
        for plan in steps.take(most) {
            planned.push(plan);
            if self.pauses_after(plan.step) {
                break;
            }
        }
        planned
    }

    /// What is wrong with a step, if anything.
    fn trouble(&mut self, report: &StepReport) -> Option<String> {
        if !report.is_finite() {
            let StepReport { loss, gradient_norm, .. } = report;
            return Some(format!("loss {loss}, gradient norm {gradient_norm}: NaN or infinite"));
        }
        let usual = self.state.usual_loss;
        self.state
            .explodes(report.loss, self.preparation.model.n_outcomes())
            .then(|| format!("loss {:.2}, usually {usual:.2}: it exploded", report.loss))
    }

    /// Counts a step and logs it.
    fn advance(
        &mut self,
        epoch: &EpochOf<O>,
        report: &StepReport,
        (rate, seconds): (f64, f64),
    ) -> Result<()> {
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
        let padding = self.padding;
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

    /// Adds the time since the last call to the run's.
    fn tick(&mut self) {
        let now = Instant::now();
        self.state.seconds += now.duration_since(self.marked).as_secs_f64();
        self.marked = now;
    }
}

/// Lets the embeddings of a new learner start from vectors, where the config names some.
fn embed<O: Objective>(
    learner: &mut Learner<O>,
    config: &RunConfig,
    preparation: &Preparation<O>,
    tell: &mut dyn FnMut(&Event),
) -> Result<()> {
    if let Some(path) = &config.embeddings.init {
        let tables = learner.embed(&preparation.vocabulary, path)?;
        tell(&Event::Embedded { path: path.clone(), tables });
    }
    Ok(())
}
