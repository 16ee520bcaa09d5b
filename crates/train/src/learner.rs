//! What learns: a model, its parameters and their optimiser, and one step of it.
//!
//! Teacher forcing: the decoder is given the target shifted by one and shall say the target. The loss is the mean
//! cross-entropy over all target tokens of a step, however many batches it has.
//!
//! A step is made on the processor, here, or on a card (`card.rs`), which is given its work some steps ahead.

mod card;

use std::path::Path;

use polyhead_attention::{Capture, Pass};
use polyhead_models::transformer::{TransformerConfig, Translator};
use polyhead_tensor::ops::cross_entropy::CrossEntropyOptions;
use polyhead_tensor::ops::elementwise::scale;
use polyhead_tensor::ops::r_drop::{RDrop, RDropOptions};
use polyhead_tensor::optim::{Adam, AdamOptions, clip_global_norm, moving_average};
use polyhead_tensor::{Device, Gradients, Parameters, Tape, Tensor, Var};

use polyhead_text::batch::Rounding;

use self::card::Card;
use crate::config::{OptimizerConfig, RunConfig};
use crate::dataset::{Batch, EpochData};
use crate::embeddings::{self, Filled};
use crate::vocabulary::Vocabulary;
use crate::{Error, Result};

/// Steps that a card is given before their reports are read.
const STEPS_AHEAD: usize = 32;

/// A model that learns.
#[derive(Debug)]
pub(crate) struct Learner {
    pub(crate) model: Translator,
    /// Its numbers; those of a learner on a card are as old as the last [`Learner::fetch`].
    pub(crate) weights: Weights,
    pub(crate) options: LearnerOptions,
    card: Option<Card>,
}

/// All numbers that learning changes.
#[derive(Debug)]
pub(crate) struct Weights {
    pub(crate) parameters: Parameters,
    pub(crate) adam: Adam,
    /// The moving average, where one is kept.
    pub(crate) average: Option<Parameters>,
}

impl Weights {
    /// The parameters that are validated and kept.
    pub(crate) fn kept(&self) -> &Parameters {
        self.average.as_ref().unwrap_or(&self.parameters)
    }
}

/// How it learns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LearnerOptions {
    /// Another seed, other dropout.
    pub(crate) seed: u64,
    pub(crate) label_smoothing: f32,
    pub(crate) r_drop: f32,
    pub(crate) ema: f32,
    pub(crate) clip_norm: f32,
    pub(crate) accumulate: usize,
    pub(crate) embeddings: Embeddings,
}

/// Whether embeddings are trained.
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

    /// How often each row stands in a batch.
    pub(crate) fn copies(&self) -> usize {
        if self.r_drop > 0.0 { 2 } else { 1 }
    }

    /// The number of a batch, which no other of the run has: dropout draws from (seed, number).
    fn number(&self, step: u64, index: usize) -> u64 {
        (step - 1) * self.accumulate as u64 + index as u64
    }

    /// How much of the moving average stays after a step. A short history at first: it would otherwise long remember its
    /// random beginning.
    fn decay(&self, step: u64) -> f32 {
        self.ema.min((1.0 + step as f32) / (10.0 + step as f32))
    }
}

/// What one step was like.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct StepReport {
    /// Mean cross-entropy of a target token, smoothed labels included.
    pub(crate) loss: f64,
    /// Norm of all gradients before clipping.
    pub(crate) gradient_norm: f64,
    /// Target tokens.
    pub(crate) tokens: usize,
    /// Batches.
    pub(crate) batches: usize,
}

/// A step that is to be made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Planned {
    /// Its number; the first is 1.
    pub(crate) step: u64,
    /// The first of its batches.
    pub(crate) first: usize,
    /// The learning rate.
    pub(crate) rate: f64,
}

impl Learner {
    /// A model with fresh parameters, on the processor.
    pub(crate) fn new(
        config: &TransformerConfig,
        optimizer: &OptimizerConfig,
        options: LearnerOptions,
    ) -> Result<Self> {
        let mut parameters = Parameters::default();
        let model = Translator::new(config, &mut parameters)?;
        parameters.initialise(options.seed);
        if options.embeddings == Embeddings::Frozen {
            embeddings::freeze(&mut parameters);
        }
        let OptimizerConfig { beta1, beta2, epsilon, weight_decay, .. } = *optimizer;
        let adam = Adam::new(AdamOptions { learning_rate: 0.0, beta1, beta2, epsilon, weight_decay });
        let average = (options.ema > 0.0).then(|| parameters.clone());
        Ok(Self { model, weights: Weights { parameters, adam, average }, options, card: None })
    }

    /// Lets the embeddings of a new model start from the vectors in a file.
    pub(crate) fn embed(&mut self, vocabulary: &Vocabulary, path: &Path) -> Result<Vec<Filled>> {
        let Weights { parameters, average, .. } = &mut self.weights;
        let filled = embeddings::fill(parameters, vocabulary, path)?;
        *average = average.take().map(|_| parameters.clone());
        Ok(filled)
    }

    /// Learns on `device` from here on, with the weights as they are now.
    pub(crate) fn move_to(&mut self, device: &Device) -> Result<()> {
        // What a card before had goes back first: there may be no room for both.
        self.card = None;
        if !device.is_cpu() {
            self.card = Some(Card::new(device, &self.weights, self.options)?);
        }
        Ok(())
    }

    /// Brings `weights` up to the last step.
    pub(crate) fn fetch(&mut self) -> Result<()> {
        self.card.as_mut().map_or(Ok(()), |card| card.fetch(&mut self.weights))
    }

    /// Most steps that are made before their reports are read: a card works while the next ones are prepared.
    pub(crate) fn most_steps(&self) -> usize {
        if self.card.is_some() { STEPS_AHEAD } else { 1 }
    }

    /// How the sizes of batches are rounded.
    pub(crate) fn rounding(&self) -> Rounding {
        if self.card.is_some() {
            Rounding::Few { max_length: self.model.config().max_len }
        } else {
            Rounding::Exact
        }
    }

    /// Makes steps one after the other, each of as many batches of the epoch as make one. Where the norm of a step's gradient
    /// is no number, that step has changed nothing and its report says so; on the processor also where its loss is none.
    pub(crate) fn steps(&mut self, epoch: &EpochData, planned: &[Planned]) -> Result<Vec<StepReport>> {
        let mut reports = Vec::with_capacity(planned.len());
        for plan in planned {
            let batches = self.batches(epoch, plan.first)?;
            match &mut self.card {
                Some(card) => {
                    card.step(&Loss { model: &self.model, options: self.options }, &batches, plan)?;
                }
                None => reports.push(self.step(&batches, plan)?),
            }
        }
        match &mut self.card {
            Some(card) => card.reports(),
            None => Ok(reports),
        }
    }

    /// The batches of a step.
    fn batches(&self, epoch: &EpochData, first: usize) -> Result<Vec<Batch>> {
        let batches: Vec<Batch> = (first..first + self.options.accumulate)
            .map_while(|index| epoch.batch(index, self.options.copies(), self.rounding()))
            .collect();
        if batches.is_empty() {
            return Err(Error::config("data", "a step without batches", "report this"));
        }
        Ok(batches)
    }

    /// One step on the processor.
    fn step(&mut self, batches: &[Batch], plan: &Planned) -> Result<StepReport> {
        let tokens: usize = batches.iter().map(|batch| batch.tokens).sum();
        let mut all: Option<Gradients> = None;
        let mut loss = 0.0;
        for (index, batch) in batches.iter().enumerate() {
            let share = batch.tokens as f32 / tokens as f32;
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
            adam.options.learning_rate = plan.rate as f32;
            adam.step(parameters, &gradients);
            if let Some(average) = average {
                moving_average(average, parameters, self.options.decay(plan.step));
            }
        }
        Ok(report)
    }

    /// The loss of a batch, and the gradients of `share` times the loss.
    fn gradients(&self, batch: &Batch, number: u64, share: f32) -> Result<(f64, Gradients)> {
        let (tape, capture) = (Tape::training(self.options.seed, number), Capture::off());
        let pass = Pass::new(&tape, &self.weights.parameters, &capture);
        let (loss, value) = Loss { model: &self.model, options: self.options }.of(&pass, batch)?;
        let value = f64::from(value.data()[0]);
        let scaled = if share < 1.0 { scale(&tape, &loss, share) } else { loss };
        Ok((value, tape.backward(&scaled)))
    }
}

/// What is made small.
#[derive(Debug, Clone, Copy)]
struct Loss<'a> {
    model: &'a Translator,
    options: LearnerOptions,
}

impl Loss<'_> {
    /// The loss of a batch to go back from, and its cross-entropy, one number each.
    fn of(&self, pass: &Pass<'_>, batch: &Batch) -> Result<(Var, Tensor)> {
        let LearnerOptions { label_smoothing, r_drop, .. } = self.options;
        let ignored_id = Some(self.model.config().pad_id);
        let options = CrossEntropyOptions { label_smoothing, ignored_id };
        let Batch { source, target, expected, .. } = batch;
        if r_drop > 0.0 {
            // The two passes of a batch stand below each other, and their targets are the same.
            let options = RDropOptions { weight: r_drop, cross_entropy: options };
            let once = expected.first(expected.len() / 2);
            let RDrop { loss, cross_entropy, .. } =
                self.model.r_drop_loss(pass, source, target, &once, options)?;
            return Ok((loss, cross_entropy));
        }
        let loss = self.model.loss(pass, source, target, expected, options)?;
        let value = loss.value().clone();
        Ok((loss, value))
    }
}

impl StepReport {
    pub(crate) fn is_finite(&self) -> bool {
        self.loss.is_finite() && self.gradient_norm.is_finite()
    }
}
