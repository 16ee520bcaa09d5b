//! What learns: a model, its parameters and their optimiser, and one step of it.
//!
//! Teacher forcing: the decoder is given the target shifted by one and shall say the target. The loss is the mean
//! cross-entropy over all target tokens of a step, however many batches it has.

use std::path::Path;

use polyhead_attention::{Capture, Pass};
use polyhead_models::transformer::{TransformerConfig, Translator};
use polyhead_tensor::ops::cross_entropy::CrossEntropyOptions;
use polyhead_tensor::ops::elementwise::scale;
use polyhead_tensor::ops::r_drop::{RDrop, RDropOptions};
use polyhead_tensor::optim::{Adam, AdamOptions, clip_global_norm, moving_average};
use polyhead_tensor::{Gradients, Parameters, Tape};

use polyhead_text::batch::Rounding;

use crate::config::{OptimizerConfig, RunConfig};
use crate::dataset::{Batch, EpochData};
use crate::embeddings::{self, Filled};
use crate::vocabulary::Vocabulary;
use crate::{Error, Result};

/// A model that learns.
#[derive(Debug)]
pub(crate) struct Learner {
    pub(crate) model: Translator,
    pub(crate) parameters: Parameters,
    pub(crate) adam: Adam,
    /// The moving average, where one is kept.
    pub(crate) average: Option<Parameters>,
    pub(crate) options: LearnerOptions,
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

impl Learner {
    /// A model with fresh parameters.
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
        Ok(Self { model, parameters, adam, average, options })
    }

    /// Lets the embeddings of a new model start from the vectors in a file.
    pub(crate) fn embed(&mut self, vocabulary: &Vocabulary, path: &Path) -> Result<Vec<Filled>> {
        let filled = embeddings::fill(&mut self.parameters, vocabulary, path)?;
        self.average = self.average.take().map(|_| self.parameters.clone());
        Ok(filled)
    }

    /// The parameters that are validated and kept.
    pub(crate) fn kept(&self) -> &Parameters {
        self.average.as_ref().unwrap_or(&self.parameters)
    }

    /// Learns from the batches of an epoch from `first` on, as many as make one step. `step` counts from 1. Where the loss
    /// or its gradient is no number, nothing has changed and the report says so.
    pub(crate) fn step(
        &mut self,
        epoch: &EpochData,
        first: usize,
        step: u64,
        rate: f64,
    ) -> Result<StepReport> {
        let batches: Vec<Batch> = (first..first + self.options.accumulate)
            .map_while(|index| epoch.batch(index, self.options.copies(), Rounding::Exact))
            .collect();
        let tokens: usize = batches.iter().map(|batch| batch.tokens).sum();
        let mut all: Option<Gradients> = None;
        let mut loss = 0.0;
        for (index, batch) in batches.iter().enumerate() {
            let share = batch.tokens as f32 / tokens as f32;
            // Dropout draws from (seed, the number of the batch), which no other batch of the run has.
            let number = (step - 1) * self.options.accumulate as u64 + index as u64;
            let (own, gradients) = self.gradients(batch, number, share)?;
            loss += own * f64::from(share);
            match &mut all {
                Some(all) => all.accumulate(&gradients),
                None => all = Some(gradients),
            }
        }
        let mut gradients =
            all.ok_or_else(|| Error::config("data", "a step without batches", "report this"))?;
        let gradient_norm = f64::from(clip_global_norm(&mut gradients, self.options.clip_norm));
        let report = StepReport { loss, gradient_norm, tokens, batches: batches.len() };
        if report.is_finite() {
            self.adam.options.learning_rate = rate as f32;
            self.adam.step(&mut self.parameters, &gradients);
            if let Some(average) = &mut self.average {
                // A short history at first: the average would otherwise long remember its random beginning.
                let early = (1.0 + step as f32) / (10.0 + step as f32);
                moving_average(average, &self.parameters, self.options.ema.min(early));
            }
        }
        Ok(report)
    }

    /// The loss of a batch, and the gradients of `share` times the loss.
    fn gradients(&self, batch: &Batch, number: u64, share: f32) -> Result<(f64, Gradients)> {
        let (tape, capture) = (Tape::training(self.options.seed, number), Capture::off());
        let pass = Pass { tape: &tape, parameters: &self.parameters, capture: &capture };
        let options = self.loss_options();
        let Batch { source, target, expected, .. } = batch;
        let (loss, value) = if self.options.r_drop > 0.0 {
            // The two passes of a batch stand below each other, and their targets are the same.
            let options = RDropOptions { weight: self.options.r_drop, cross_entropy: options };
            let once = expected.first(expected.len() / 2);
            let RDrop { loss, cross_entropy, .. } =
                self.model.r_drop_loss(&pass, source, target, &once, options)?;
            (loss, cross_entropy.data()[0])
        } else {
            let loss = self.model.loss(&pass, source, target, expected, options)?;
            let value = loss.value().data()[0];
            (loss, value)
        };
        let value = f64::from(value);
        let scaled = if share < 1.0 { scale(&tape, &loss, share) } else { loss };
        Ok((value, tape.backward(&scaled)))
    }

    fn loss_options(&self) -> CrossEntropyOptions {
        let label_smoothing = self.options.label_smoothing;
        CrossEntropyOptions { label_smoothing, ignored_id: Some(self.model.config().pad_id) }
    }
}

impl StepReport {
    pub(crate) fn is_finite(&self) -> bool {
        self.loss.is_finite() && self.gradient_norm.is_finite()
    }
}
