//! Sequence-to-sequence training: sentence pairs, teacher forcing.
//!
//! The decoder input is the target shifted by one, its expected output the target. The loss is the mean cross-entropy over
//! all target tokens of a step, over all its batches.

pub mod augment;
pub mod dataset;
mod sentences;
mod validation;

use polyhead_attention::Pass;
use polyhead_models::{DataSpec, Model, SequenceToSequence, TrainingLoss};
use polyhead_tensor::ops::cross_entropy::CrossEntropyOptions;
use polyhead_tensor::ops::r_drop::{RDrop, RDropOptions};
use polyhead_tensor::{Tensor, Var};

use self::dataset::{Batch, Dataset, DatasetOptions};
use self::validation::{PairValidation, ValidationLimits};
use crate::config::RunConfig;
use crate::objective::{LossOptions, Objective, Prepared};
use crate::preparation::Corpora;
use crate::vocabulary::Vocabulary;
use crate::{Error, Result};

/// The objective of a sequence-to-sequence model.
#[derive(Debug)]
pub(crate) struct Translation {
    model: SequenceToSequence,
}

impl Translation {
    fn max_len(&self) -> usize {
        self.model.max_len()
    }
}

impl Objective for Translation {
    type Batch = Batch;
    type Data = Dataset;
    type Valid = PairValidation;

    fn new(model: Model) -> Result<Self> {
        Ok(Self { model: model.into_sequence_to_sequence()? })
    }

    fn prepare(
        config: &RunConfig,
        corpora: &Corpora,
        vocabulary: Option<&Vocabulary>,
    ) -> Result<Prepared<Self>> {
        let vocabulary = vocabulary.expect("a task on text has a vocabulary");
        let [pad_id, end_id] = vocabulary.special_ids();
        let unknown_id = vocabulary.unknown_id().unwrap_or_default();
        let facts =
            DataSpec { vocab_sizes: vocabulary.sizes(), pad_id, end_id, unknown_id, ..DataSpec::default() };
        // Before the sizes are compared, which differ if each side has a vocabulary.
        let copying = config.model.copies().then(|| vocabulary.for_copying()).transpose()?;
        let model = config.model.with_data(&facts)?;
        if copying.is_some() && config.train.r_drop > 0.0 {
            return Err(Error::config(
                "train.r_drop",
                "R-Drop with copying: it compares what two passes generate, and a copied word may not be in the vocabulary",
                "set train.r_drop = 0",
            ));
        }
        let vocabulary = &copying.as_ref().unwrap_or(vocabulary).with_sources(model.n_sources());
        if !vocabulary.is_shared() && model.shares_vocabulary() {
            return Err(Error::config(
                "model.tie",
                "source and target embeddings share one table, expected one vocabulary for both",
                "set model.tie = \"target_output\", or tokenizer.sides = \"shared\"",
            ));
        }
        let longest = model.max_len().min(config.train.max_tokens);
        let options = DatasetOptions {
            max_length: config.data.max_length.min(longest),
            dropout: config.tokenizer.dropout,
            augment: config.augment,
            seed: config.seed,
        };
        let data = Dataset::read(&corpora.train, vocabulary, options)?;
        let max_tokens = config.train.max_tokens;
        let limits = ValidationLimits { max_length: longest, max_tokens, max_len: model.max_len() };
        let valid = (!corpora.valid.is_empty())
            .then(|| PairValidation::read(&corpora.valid, vocabulary, &config.validation, limits))
            .transpose()?;
        Ok(Prepared { model, data, valid })
    }

    fn loss(&self, pass: &Pass<'_>, batch: &Batch, options: LossOptions) -> Result<(Var, Tensor)> {
        let LossOptions { label_smoothing, r_drop, .. } = options;
        let ignored_id = Some(self.model.special_ids().pad_id);
        let options = CrossEntropyOptions { label_smoothing, ignored_id };
        let Batch { source, target, expected, .. } = batch;
        if r_drop > 0.0 {
            // The two passes of a batch follow each other, with the same targets.
            let options = RDropOptions { weight: r_drop, cross_entropy: options };
            let once = expected.first(expected.len() / 2);
            let RDrop { loss, cross_entropy, .. } =
                self.model.r_drop_loss(pass, source, target, &once, options)?;
            return Ok((loss, cross_entropy));
        }
        let TrainingLoss { loss, cross_entropy } =
            self.model.training_loss(pass, source, target, expected, options)?;
        Ok((loss, cross_entropy))
    }
}
