//! The learner: an objective with its model, the parameters and their optimiser; one training step.
//!
//! The loss of a step is the mean over all its batches. A step is computed at once on the CPU, or queued some steps
//! ahead on a GPU (`queue.rs`).

mod queue;

use std::path::Path;

use polyhead_attention::{Capture, Pass};
use polyhead_models::{Model, ModelConfig};
use polyhead_tensor::ops::elementwise::scale;
use polyhead_tensor::optim::{Adam, AdamOptions, clip_global_norm, moving_average};
use polyhead_tensor::{Device, Gradients, Parameters, Tape};
use polyhead_text::batch::Rounding;

use self::queue::StepQueue;
use crate::config::{OptimizerConfig, RunConfig};
use crate::embeddings::{self, FilledEmbeddings};
use crate::objective::{Batch as _, Dataset, EpochBatches as _, LossOptions, Objective, rounding};
use crate::starting_model::{Adopted, adopt};
use crate::vocabulary::Vocabulary;
use crate::{Error, Result};

/// A model in training.
#[derive(Debug)]
pub(crate) struct Learner<O: Objective> {
    pub(crate) objective: O,
    /// Weights in CPU memory; on a GPU they are those of the last [`Learner::fetch`].
    pub(crate) weights: Weights,
    pub(crate) options: LearnerOptions,
    device: Device,
    max_len: usize,
    queue: Option<StepQueue<O>>,
}

/// The batches of an epoch of an objective.
pub(crate) type EpochOf<O> = <<O as Objective>::Data as Dataset>::Epoch;

/// Everything that training changes.
#[derive(Debug)]
pub(crate) struct Weights {
    pub(crate) parameters: Parameters,
    pub(crate) adam: Adam,
    /// Exponential moving average of the parameters, if train.ema is set.
    pub(crate) average: Option<Parameters>,
}

impl Weights {
    /// The parameters that are validated and saved: the moving average if there is one.
    pub(crate) fn for_evaluation(&self) -> &Parameters {
        self.average.as_ref().unwrap_or(&self.parameters)
    }
}

/// Training options.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LearnerOptions {
    /// Seed of initial weights and dropout.
    pub(crate) seed: u64,
    pub(crate) label_smoothing: f32,
    pub(crate) r_drop: f32,
    pub(crate) ema: f32,
    pub(crate) clip_norm: f32,
    pub(crate) accumulate: usize,
    pub(crate) embeddings: Embeddings,
}

/// Trained or frozen embeddings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Embeddings {
    Trained,
    Frozen,
}

impl LearnerOptions {
    pub(crate) fn new(config: &RunConfig) -> Self {
        let RunConfig { seed, train, optimizer, .. } = config;
        Self {
            seed: *seed,
            label_smoothing: train.label_smoothing,
            r_drop: train.r_drop,
            ema: train.ema,
            clip_norm: if optimizer.clip_norm > 0.0 { optimizer.clip_norm } else { f32::INFINITY },
            accumulate: train.accumulate,
            embeddings: if config.embeddings.frozen { Embeddings::Frozen } else { Embeddings::Trained },
        }
    }

    /// Options of the loss.
    fn loss(&self) -> LossOptions {
        LossOptions { label_smoothing: self.label_smoothing, r_drop: self.r_drop, is_weighted: true }
    }

    /// Copies of each row in a batch: 2 with R-Drop, else 1.
    pub(crate) fn copies(&self) -> usize {
        if self.r_drop > 0.0 { 2 } else { 1 }
    }

    /// Unique number of a batch in the run; dropout draws from (seed, number).
    fn number(&self, step: u64, index: usize) -> u64 {
        (step - 1) * self.accumulate as u64 + index as u64
    }

    /// Decay of the moving average at a step: smaller at first, so that the random initial weights are soon forgotten.
    fn decay(&self, step: u64) -> f32 {
        self.ema.min((1.0 + step as f32) / (10.0 + step as f32))
    }
}

/// Result of one step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct StepReport {
    /// Mean cross-entropy of a target token or label, smoothed labels included.
    pub(crate) loss: f64,
    /// Global gradient norm before clipping.
    pub(crate) gradient_norm: f64,
    /// Target tokens or labels.
    pub(crate) tokens: usize,
    /// Batches.
    pub(crate) batches: usize,
}

/// A step to be computed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct PlannedStep {
    /// Step number, from 1.
    pub(crate) step: u64,
    /// Index of its first batch in the epoch.
    pub(crate) first: usize,
    /// The learning rate.
    pub(crate) learning_rate: f64,
}

impl<O: Objective> Learner<O> {
    /// A model with fresh parameters, on the CPU.
    pub(crate) fn new(
        config: &ModelConfig,
        optimizer: &OptimizerConfig,
        options: LearnerOptions,
    ) -> Result<Self> {
        let mut parameters = Parameters::default();
        let objective = O::new(Model::new(config, &mut parameters)?)?;
        parameters.initialise(options.seed);
        if options.embeddings == Embeddings::Frozen {
            embeddings::freeze(&mut parameters);
        }
        let OptimizerConfig { beta1, beta2, epsilon, weight_decay, .. } = *optimizer;
        let adam = Adam::new(AdamOptions { learning_rate: 0.0, beta1, beta2, epsilon, weight_decay });
        let average = (options.ema > 0.0).then(|| parameters.clone());
        let weights = Weights { parameters, adam, average };
        let (device, max_len) = (Device::default(), config.max_len());
        Ok(Self { objective, weights, options, device, max_len, queue: None })
    }

    /// Initialises the embeddings of a new model from the word vectors in a file.
    pub(crate) fn load_embeddings(
        &mut self,
        vocabulary: &Vocabulary,
        path: &Path,
    ) -> Result<Vec<FilledEmbeddings>> {
        let Weights { parameters, average, .. } = &mut self.weights;
        let filled = embeddings::fill(parameters, vocabulary, path)?;
        *average = average.take().map(|_| parameters.clone());
        Ok(filled)
    }

    /// Takes the weights of a model folder for the model of `config`.
    pub(crate) fn load(&mut self, folder: &Path, config: &ModelConfig) -> Result<Adopted> {
        let Weights { parameters, average, .. } = &mut self.weights;
        let adopted = adopt(folder, config, parameters)?;
        *average = average.take().map(|_| parameters.clone());
        Ok(adopted)
    }

    /// Moves training to `device`, keeping the weights.
    pub(crate) fn move_to(&mut self, device: &Device) -> Result<()> {
        // Frees the previous device's memory first: there may be no room for both.
        self.queue = None;
        self.device = device.clone();
        if device.policy().steps_ahead > 1 {
            self.queue = Some(StepQueue::new(device, &self.weights, self.options)?);
        }
        Ok(())
    }

    /// Copies the weights of the last step from the device to `weights`.
    pub(crate) fn fetch(&mut self) -> Result<()> {
        self.queue.as_mut().map_or(Ok(()), |queue| queue.fetch(&mut self.weights))
    }

    /// Maximum number of steps queued before their reports are read.
    pub(crate) fn most_steps(&self) -> usize {
        self.device.policy().steps_ahead
    }

    /// Rounding of batch shapes.
    pub(crate) fn rounding(&self) -> Rounding {
        rounding(&self.device, self.max_len)
    }

    /// Computes the planned steps. A step whose gradient norm is NaN or infinite (on the CPU, also one whose loss is)
    /// changes no weights; its report shows it.
    pub(crate) fn steps(&mut self, epoch: &EpochOf<O>, planned: &[PlannedStep]) -> Result<Vec<StepReport>> {
        let mut reports = Vec::with_capacity(planned.len());
        for plan in planned {
            let batches = self.batches(epoch, plan.first)?;
            match &mut self.queue {
                Some(queue) => queue.step(&self.objective, &batches, plan)?,
                None => reports.push(self.step(&batches, plan)?),
            }
        }
        match &mut self.queue {
            Some(queue) => queue.reports(),
            None => Ok(reports),
        }
    }

    /// The batches of a step.
    fn batches(&self, epoch: &EpochOf<O>, first: usize) -> Result<Vec<O::Batch>> {
        let batches: Vec<O::Batch> = (first..first + self.options.accumulate)
            .map_while(|index| epoch.batch(index, self.options.copies(), self.rounding()))
            .collect();
        if batches.is_empty() {
            return Err(Error::config("data", "a step without batches", "report this"));
        }
        Ok(batches)
    }

    /// Computes one step, without a queue.
    fn step(&mut self, batches: &[O::Batch], plan: &PlannedStep) -> Result<StepReport> {
        let tokens: usize = batches.iter().map(O::Batch::weight).sum();
        let whole: f64 = batches.iter().map(O::Batch::share).sum();
        let mut all: Option<Gradients> = None;
        let mut loss = 0.0;
        for (index, batch) in batches.iter().enumerate() {
            let share = batch.share() as f32 / whole as f32;
            let (own, gradients) = self.gradients(batch, self.options.number(plan.step, index), share)?;
            loss += own * f64::from(share);
            match &mut all {
                Some(all) => all.accumulate(&gradients),
                None => all = Some(gradients),
            }
        }
        let mut gradients = all.expect("a step has batches");
        let gradient_norm = f64::from(clip_global_norm(&mut gradients, self.options.clip_norm));
        let report = StepReport { loss, gradient_norm, tokens, batches: batches.len() };
        if report.is_finite() {
            let Weights { parameters, adam, average } = &mut self.weights;
            adam.options.learning_rate = plan.learning_rate as f32;
            adam.step(parameters, &gradients);
            if let Some(average) = average {
                moving_average(average, parameters, self.options.decay(plan.step));
            }
        }
        Ok(report)
    }

    /// The loss of a batch, and the gradients of `share` times the loss.
    fn gradients(&self, batch: &O::Batch, number: u64, share: f32) -> Result<(f64, Gradients)> {
        let (tape, capture) = (Tape::training(self.options.seed, number), Capture::off());
        let pass = Pass::new(&tape, &self.weights.parameters, &capture);
        let (loss, value) = self.objective.loss(&pass, batch, self.options.loss())?;
        let value = f64::from(value.data()[0]);
        let scaled = if share < 1.0 { scale(&tape, &loss, share) } else { loss };
        Ok((value, tape.backward(&scaled)))
    }
}

impl StepReport {
    pub(crate) fn is_finite(&self) -> bool {
        self.loss.is_finite() && self.gradient_norm.is_finite()
    }
}
