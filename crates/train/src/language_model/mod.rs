//! Language modelling: plain text as packed sequences of tokens, cross-entropy of the next token.

pub(crate) mod dataset;
pub(crate) mod documents;
pub(crate) mod tokens;
mod validation;

use polyhead_attention::Pass;
use polyhead_models::{DataSpec, LanguageModel, Model};
use polyhead_tensor::ops::cross_entropy::CrossEntropyOptions;
use polyhead_tensor::ops::r_drop::{RDrop, RDropOptions};
use polyhead_tensor::{Parameters, Tensor, Var};

use self::dataset::{NOT_COUNTED, PackedBatch, PackedText, Packing};
use self::validation::TextValidation;
use crate::config::RunConfig;
use crate::objective::{LossOptions, Objective, Prepared};
use crate::preparation::{Corpora, refuse_pair_settings};
use crate::vocabulary::Vocabulary;
use crate::{Error, Result};

/// The objective of a model that predicts the next token.
#[derive(Debug)]
pub(crate) struct LanguageModelling {
    model: LanguageModel,
}

impl Objective for LanguageModelling {
    type Batch = PackedBatch;
    type Data = PackedText;
    type Valid = TextValidation;

    fn new(model: Model) -> Result<Self> {
        Ok(Self { model: model.into_language_model()? })
    }

    fn prepare(
        config: &RunConfig,
        corpora: &Corpora,
        vocabulary: Option<&Vocabulary>,
    ) -> Result<Prepared<Self>> {
        let vocabulary = vocabulary.expect("a task on text has a vocabulary");
        refuse_pair_settings(config, "this model reads plain text")?;
        let [pad_id, end_id] = vocabulary.special_ids();
        let facts = DataSpec { vocab_sizes: vocabulary.sizes(), pad_id, end_id, ..DataSpec::default() };
        // A model that the run starts from has its vocabulary already.
        let model =
            if config.init.is_some() { config.model.clone() } else { config.model.with_data(&facts)? };
        // Without weights: only its properties are needed here.
        let reader = LanguageModel::new(&model, &mut Parameters::default())?;
        let longest = config.data.max_length.min(model.max_len()).min(config.train.max_tokens);
        // A prediction with a limited context gets all of it; the others begin anew in every row.
        let overlap = reader.context().map_or(0, |context| context - 1);
        let length = longest.checked_sub(overlap).filter(|length| *length > 0).ok_or_else(|| {
            Error::config(
                "data.max_length",
                format!("rows of {longest} tokens, expected more than the {overlap} of the model's context"),
                "raise data.max_length and train.max_tokens, or read fewer tokens at once",
            )
        })?;
        let rows = config.data.rows;
        let packing = Packing { rows, length, overlap };
        let data = PackedText::read(&corpora.train, vocabulary, &reader, packing, &config.out)?;
        let valid = (!corpora.valid.is_empty())
            .then(|| {
                // In validation every prediction has at least half a row of context.
                let overlap = if reader.context().is_some() { overlap } else { longest / 2 };
                let packing = Packing { rows, length: (longest - overlap).max(1), overlap };
                let text = PackedText::read(&corpora.valid, vocabulary, &reader, packing, &config.out)?;
                TextValidation::new(&text, &corpora.valid, config)
            })
            .transpose()?;
        Ok(Prepared { model, data, valid })
    }

    fn loss(&self, pass: &Pass<'_>, batch: &PackedBatch, options: LossOptions) -> Result<(Var, Tensor)> {
        let LossOptions { label_smoothing, r_drop, .. } = options;
        let ignored_id = Some(NOT_COUNTED);
        let options = CrossEntropyOptions { label_smoothing, ignored_id };
        let PackedBatch { ids, expected, .. } = batch;
        if r_drop > 0.0 {
            // The two passes of a batch follow each other, with the same targets.
            let options = RDropOptions { weight: r_drop, cross_entropy: options };
            let once = expected.first(expected.len() / 2);
            let RDrop { loss, cross_entropy, .. } = self.model.r_drop_loss(pass, ids, &once, options)?;
            return Ok((loss, cross_entropy));
        }
        let loss = self.model.loss(pass, ids, expected, options)?;
        let value = loss.value().clone();
        Ok((loss, value))
    }
}
