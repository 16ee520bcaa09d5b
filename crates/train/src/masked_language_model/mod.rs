//! Masked language modelling (Devlin et al. 2019): plain text in rows, some of whose tokens are hidden; cross-entropy of the
//! hidden tokens.

mod dataset;
mod masking;
mod validation;

use polyhead_attention::Pass;
use polyhead_models::{Encoder, Model};
use polyhead_tensor::ops::cross_entropy::CrossEntropyOptions;
use polyhead_tensor::{Parameters, Tensor, Var};

pub(crate) use self::dataset::MaskedBatch;
use self::dataset::{MaskedText, RowFormat};
use self::masking::Masking;
use self::validation::MaskedValidation;
use crate::config::{RunConfig, TextRows};
use crate::language_model::dataset::Packing;
use crate::objective::{LossOptions, Objective, Prepared};
use crate::preparation::{Corpora, encoder_facts, refuse_pair_settings};
use crate::vocabulary::Vocabulary;
use crate::{Error, Result};

/// The expected id of a position that is not counted; no vocabulary is as large.
const NOT_COUNTED: u32 = u32::MAX;

/// The objective of a model that predicts hidden tokens.
#[derive(Debug)]
pub(crate) struct MaskedLanguageModelling {
    model: Encoder,
}

impl Objective for MaskedLanguageModelling {
    type Batch = MaskedBatch;
    type Data = MaskedText;
    type Valid = MaskedValidation;

    fn new(model: Model) -> Result<Self> {
        Ok(Self { model: model.into_encoder()? })
    }

    fn prepare(
        config: &RunConfig,
        corpora: &Corpora,
        vocabulary: Option<&Vocabulary>,
    ) -> Result<Prepared<Self>> {
        let vocabulary = vocabulary.expect("a task on text has a vocabulary");
        refuse_pair_settings(config, "this model reads plain text")?;
        let model = config.model.with_data(&encoder_facts(config, vocabulary))?;
        // Without weights: only its properties are needed here.
        let reader = Encoder::new(&model, &mut Parameters::default())?;
        let masking = Masking::new(config.masking, vocabulary)?;
        let frame = frame(vocabulary)?;
        let longest = config.data.max_length.min(model.max_len()).min(config.train.max_tokens);
        let length = longest.checked_sub(frame.len()).filter(|length| *length > 0).ok_or_else(|| {
            let message =
                format!("rows of {longest} tokens, expected more than the {} around a text", frame.len());
            Error::config("data.max_length", message, "raise data.max_length and train.max_tokens")
        })?;
        let rows: TextRows = config.data.rows;
        let format =
            RowFormat { packing: Packing { rows, length, overlap: 0 }, frame, masking, model: reader };
        let read = |corpora| MaskedText::read(corpora, vocabulary, &format, &config.out);
        let data = read(&corpora.train)?;
        let valid = (!corpora.valid.is_empty())
            .then(|| MaskedValidation::new(&read(&corpora.valid)?, &corpora.valid, config))
            .transpose()?;
        Ok(Prepared { model, data, valid })
    }

    fn loss(&self, pass: &Pass<'_>, batch: &MaskedBatch, options: LossOptions) -> Result<(Var, Tensor)> {
        let options =
            CrossEntropyOptions { label_smoothing: options.label_smoothing, ignored_id: Some(NOT_COUNTED) };
        let MaskedBatch { ids, positions, words, .. } = batch;
        let loss = self.model.word_loss(pass, ids, (positions, words), options)?;
        let value = loss.value().clone();
        Ok((loss, value))
    }
}

/// The tokens before and after the text of a row.
fn frame(vocabulary: &Vocabulary) -> Result<[u32; 2]> {
    let ids = vocabulary.source().encode_with_special("")?.ids;
    <[u32; 2]>::try_from(ids).map_err(|ids| {
        Error::config(
            "tokenizer",
            format!("{} special tokens around a text, expected one before it and one after it", ids.len()),
            "leave tokenizer.file out, or start from an encoder that has them",
        )
    })
}
