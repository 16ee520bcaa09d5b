//! A training run, new or resumed, up to its finished model.

mod epochs;
mod pace;
mod plan;
mod saving;

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use polyhead_tensor::{Device, Dtype};
use polyhead_text::batch::DataPosition;

use self::epochs::Epochs;
use self::plan::plan;
use self::saving::Validate;
use crate::captioning::Captioning;
use crate::checkpoint::Checkpoints;
use crate::classification::Classification;
use crate::config::dtype::math;
use crate::config::{RunConfig, TrainConfig};
use crate::contrastive::Contrastive;
use crate::event::{Ending, Event, Progress};
use crate::image_classification::{ImageClassification, rare_classes};
use crate::language_model::LanguageModelling;
use crate::learner::{EpochOf, Learner, LearnerOptions, PlannedStep, StepReport};
use crate::log::Log;
use crate::masked_language_model::MaskedLanguageModelling;
use crate::metrics_file::TrainLine;
use crate::objective::{EpochBatches as _, Objective};
use crate::pointing::Pointing;
use crate::preparation::{Corpora, Preparation, Stage};
use crate::run_folder::RunFolder;
use crate::schedule::Schedule;
use crate::starting_model::Adopted;
use crate::state::{LogWindow, TrainerState};
use crate::tagging::Tagging;
use crate::task::Task;
use crate::transcription::Transcription;
use crate::translation::Translation;
use crate::{Error, Result};

/// New run or resumed run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Start {
    /// A new run; an existing run in the folder is an error.
    #[default]
    New,
    /// Resumes from the newest checkpoint, or starts anew if there is none.
    Resume,
}

/// Options of a run that are not part of its recipe.
#[derive(Debug, Clone, Copy, Default)]
pub struct RunOptions<'a> {
    /// New or resumed; default: new.
    pub start: Start,
    /// Minutes from now after which the run pauses, to be resumed later; default: no limit.
    pub max_minutes: Option<f64>,
    /// When this becomes true, the current step is finished, a checkpoint is written and the run returns; default: never.
    pub stop: Option<&'a AtomicBool>,
}

/// Result of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunOutcome {
    /// Reason for the end.
    pub ending: Ending,
    /// Total steps.
    pub step: u64,
    /// Total seconds of training.
    pub seconds: f64,
    /// Run folder.
    pub folder: PathBuf,
}

/// Steps after which the time per epoch is reported.
const TIMED_STEPS: u64 = 20;

/// Trains a model as `config` describes; `on_event` receives everything that happens.
///
/// # Errors
/// If the config, the text or the device cannot be used, or the loss diverges.
pub fn train(
    config: &RunConfig,
    options: RunOptions<'_>,
    on_event: &mut dyn FnMut(&Event),
) -> Result<RunOutcome> {
    match config.task {
        Task::Translation => train_by::<Translation>(config, options, on_event),
        Task::Classification => train_by::<Classification>(config, options, on_event),
        Task::Tagging => train_by::<Tagging>(config, options, on_event),
        Task::LanguageModel => train_by::<LanguageModelling>(config, options, on_event),
        Task::MaskedLanguageModel => train_by::<MaskedLanguageModelling>(config, options, on_event),
        Task::Contrastive => train_by::<Contrastive>(config, options, on_event),
        Task::Pointing => train_by::<Pointing>(config, options, on_event),
        Task::ImageClassification => train_by::<ImageClassification>(config, options, on_event),
        Task::Transcription => train_by::<Transcription>(config, options, on_event),
        Task::Captioning => train_by::<Captioning>(config, options, on_event),
    }
}

/// Trains with one objective.
fn train_by<O: Objective>(
    config: &RunConfig,
    options: RunOptions<'_>,
    on_event: &mut dyn FnMut(&Event),
) -> Result<RunOutcome> {
    let (device, config) = &open(config, on_event)?;
    let corpora = Corpora::new(config)?;
    Schedule::new(&config.schedule, 1, config.train.max_steps)?;
    let known = if options.start == Start::Resume { RunFolder::open(&config.out)? } else { None };
    let stage = if known.is_some() { Stage::Begun } else { Stage::Fresh };
    let folder = RunFolder::create(&config.out, stage)?;
    let _lock = folder.lock()?;
    if stage == Stage::Fresh {
        corpora.examine(on_event)?;
        if config.task == Task::ImageClassification {
            let rare = rare_classes(config)?;
            if !rare.is_empty() {
                on_event(&Event::RareClasses(rare));
            }
        }
    }
    let preparation = Preparation::<O>::new(config, &corpora, (&config.out, stage), on_event)?;
    if let Some((folder, origin)) = known {
        folder.check(config, &origin, &preparation.origin)?;
    }
    let first = plan(config, &preparation, device, on_event)?;
    if stage == Stage::Fresh {
        // From here on the run exists: anything that cannot work was refused before.
        folder.begin(config, &preparation.origin)?;
    }
    let place = RunLocation { folder: &folder.path, device };
    Run::new(config, options, &preparation, place, on_event)?.run(first)
}

/// Opens the device of a run; returns it with the config, in which `auto` is replaced by the device and dtype chosen.
fn open(config: &RunConfig, on_event: &mut dyn FnMut(&Event)) -> Result<(Device, RunConfig)> {
    let mut config = config.clone();
    let TrainConfig { device: name, dtype, .. } = &mut config.train;
    let (device, why) = Device::choose(name, math(*dtype))?;
    if name == "cpu" && matches!(dtype, Some(Dtype::Tf32 | Dtype::Bf16)) {
        return Err(Error::config(
            "train.dtype",
            format!("{}, but the CPU computes in f32", math(*dtype).name()),
            "leave it out, or train on a GPU: --device cuda",
        ));
    }
    (*name, *dtype) = (device.name(), Some(device.math().dtype()));
    on_event(&Event::Opened {
        device: device.name(),
        model: device.model().map(str::to_owned),
        dtype: device.math().name(),
        why: why.map(|why| (why.to_string(), why.hint().to_owned())),
    });
    Ok((device, config))
}

/// Run folder and device.
#[derive(Clone, Copy)]
struct RunLocation<'a> {
    folder: &'a Path,
    device: &'a Device,
}

/// A run in progress.
struct Run<'a, O: Objective> {
    config: &'a RunConfig,
    options: RunOptions<'a>,
    preparation: &'a Preparation<O>,
    folder: &'a Path,
    device: &'a Device,
    on_event: &'a mut dyn FnMut(&Event),
    learner: Learner<O>,
    schedule: Schedule,
    checkpoints: Checkpoints,
    log: Log,
    state: TrainerState,
    /// Start of this process's training, its last checkpoint, its last validation.
    started: Instant,
    saved_at: Instant,
    validated_at: Instant,
    /// Time up to which `state.seconds` is counted.
    counted_until: Instant,
    /// Batches of the current epoch, and the fraction of their positions that is padding.
    batches_of_epoch: usize,
    padding: f64,
    /// Steps and seconds of this process.
    own_steps: u64,
    own_seconds: f64,
}

impl<'a, O: Objective> Run<'a, O> {
    fn new(
        config: &'a RunConfig,
        options: RunOptions<'a>,
        preparation: &'a Preparation<O>,
        RunLocation { folder, device }: RunLocation<'a>,
        on_event: &'a mut dyn FnMut(&Event),
    ) -> Result<Self> {
        let learner_options = LearnerOptions::new(config);
        let mut learner = Learner::new(&preparation.model, &config.optimizer, learner_options)?;
        let checkpoints = Checkpoints::of_run(folder);
        let (found, damaged) = checkpoints.restore(&mut learner.weights);
        if found.is_none() && !damaged.is_empty() {
            // A damaged checkpoint may have overwritten some of the parameters.
            learner = Learner::new(&preparation.model, &config.optimizer, learner_options)?;
        }
        if found.is_none() {
            initialise(&mut learner, config, preparation, on_event)?;
        }
        learner.move_to(device)?;
        let state = found.unwrap_or_else(TrainerState::new);
        if options.start == Start::Resume {
            on_event(&Event::Resumed { step: (state.step > 0).then_some(state.step), damaged });
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
            on_event,
            learner,
            schedule,
            checkpoints,
            log,
            state,
            started: now,
            saved_at: now,
            validated_at: now,
            counted_until: now,
            batches_of_epoch: 0,
            padding: 0.0,
            own_steps: 0,
            own_seconds: 0.0,
        })
    }

    /// Trains until a limit is reached; `first` is epoch 0.
    fn run(mut self, first: EpochOf<O>) -> Result<RunOutcome> {
        let epochs = Epochs::new(self.config, &self.preparation.data, self.device);
        let ending = std::thread::scope(|scope| {
            let mut epochs = epochs.in_scope(scope, first);
            if std::mem::take(&mut self.state.owes_validation) {
                self.batches_of_epoch = epochs.take(self.state.position.epoch)?.len();
                self.save(Validate::Now)?;
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
        let TrainerState { step, seconds, .. } = self.state;
        Ok(RunOutcome { ending, step, seconds, folder: self.folder.to_owned() })
    }

    /// Trains until the epoch or the run ends.
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
            let mut divergence = None;
            for (plan, report) in planned.iter().zip(&reports) {
                divergence = self.divergence(report);
                if divergence.is_some() {
                    break;
                }
                self.advance(epoch, report, (plan.learning_rate, seconds))?;
            }
            match divergence {
                // Steps after the diverged one are discarded.
                Some(what) => self.roll_back(&what)?,
                None => self.after_step()?,
            }
        }
        Ok(None)
    }

    /// Steps to queue before their reports are read. Only the last may be followed by anything but another step.
    fn next_steps(&self, epoch: &EpochOf<O>) -> Vec<PlannedStep> {
        let (most, accumulate) = (self.learner.most_steps(), self.config.train.accumulate);
        let batches = (self.state.position.batch..epoch.len()).step_by(accumulate);
        let steps = batches.zip(self.state.step + 1..).map(|(first, step)| {
            let learning_rate = self.schedule.rate(step) * self.state.rate_factor;
            PlannedStep { step, first, learning_rate }
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

    /// Message if the step diverged.
    fn divergence(&mut self, report: &StepReport) -> Option<String> {
        if !report.is_finite() {
            let StepReport { loss, gradient_norm, .. } = report;
            return Some(format!("loss {loss}, gradient norm {gradient_norm}: NaN or infinite"));
        }
        let usual = self.state.usual_loss;
        self.state
            .diverges(report.loss, self.preparation.model.n_outcomes())
            .then(|| format!("loss {:.2}, running mean {usual:.2}: diverged", report.loss))
    }

    /// Updates the state after a step, and logs it.
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
            state.position = DataPosition { epoch: state.position.epoch + 1, batch: 0 };
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
        (self.on_event)(&Event::Stepped(progress));
        if self.own_steps == TIMED_STEPS {
            self.report_time(epoch, epochs);
        }
        if self.state.step.is_multiple_of(self.config.train.log_every) {
            let LogWindow { loss, gradient_norm, steps, tokens, .. } = std::mem::take(&mut self.state.window);
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
            (self.on_event)(&Event::Logged(line));
        }
        Ok(())
    }

    /// Adds the time since the last call to `state.seconds`.
    fn tick(&mut self) {
        let now = Instant::now();
        self.state.seconds += now.duration_since(self.counted_until).as_secs_f64();
        self.counted_until = now;
    }
}

/// Gives a new learner the weights of the folder that it starts from, and embeddings of word vectors, as the config names them.
fn initialise<O: Objective>(
    learner: &mut Learner<O>,
    config: &RunConfig,
    preparation: &Preparation<O>,
    on_event: &mut dyn FnMut(&Event),
) -> Result<()> {
    if let Some(folder) = &config.init {
        let Adopted { fresh, dropped } = learner.load(folder, &preparation.model)?;
        on_event(&Event::Initialised { folder: folder.clone(), fresh, dropped });
    }
    if let (Some(path), Some(vocabulary)) = (&config.embeddings.init, &preparation.vocabulary) {
        let tables = learner.load_embeddings(vocabulary, path)?;
        on_event(&Event::Embedded { path: path.clone(), tables });
    }
    Ok(())
}
