//! Tagging: sentences of words with a tag each, cross-entropy of the tags.
//!
//! A word has its tag at its first token; its other tokens, special tokens and padding have none (Devlin et al. 2019).

mod dataset;
mod validation;

use polyhead_attention::Pass;
use polyhead_models::{DataSpec, Encoder, Model};
use polyhead_tensor::{Parameters, Tensor, Var};

use self::dataset::{Reader, TaggedBatch, TaggedSentences};
use self::validation::TaggedValidation;
use crate::Result;
use crate::config::RunConfig;
use crate::labels;
use crate::objective::{LossOptions, Objective, Prepared};
use crate::preparation::{Corpora, encoder_facts, refuse_pair_settings};
use crate::vocabulary::Vocabulary;

/// The objective of a model that computes class scores of each token.
#[derive(Debug)]
pub(crate) struct Tagging {
    model: Encoder,
}

impl Objective for Tagging {
    type Batch = TaggedBatch;
    type Data = TaggedSentences;
    type Valid = TaggedValidation;

    fn new(model: Model) -> Result<Self> {
        Ok(Self { model: model.into_encoder()? })
    }

    fn prepare(
        config: &RunConfig,
        corpora: &Corpora,
        vocabulary: Option<&Vocabulary>,
    ) -> Result<Prepared<Self>> {
        let vocabulary = vocabulary.expect("a task on text has a vocabulary");
        refuse_pair_settings(config, "this model tags words")?;
        let counts = dataset::tags(&corpora.train)?;
        let weights = labels::weights(&config.classes, &counts)?;
        let labels = counts.into_keys().collect();
        let facts = DataSpec { labels, ..encoder_facts(config, vocabulary) };
        let model = config.model.with_data(&facts)?;
        // Without weights: only its properties are needed here.
        let encoder = Encoder::new(&model, &mut Parameters::default())?;
        let longest = config.data.max_length.min(model.max_len()).min(config.train.max_tokens);
        let reader = Reader::new(vocabulary.source(), &encoder, longest);
        let data = reader.read(&corpora.train)?.with_weights(weights);
        let valid = (!corpora.valid.is_empty())
            .then(|| TaggedValidation::new(&reader, &corpora.valid, config))
            .transpose()?;
        Ok(Prepared { model, data, valid })
    }

    fn loss(&self, pass: &Pass<'_>, batch: &TaggedBatch, options: LossOptions) -> Result<(Var, Tensor)> {
        let logits = self.model.token_logits(pass, &batch.texts)?;
        batch.labels.loss(pass, &logits, options)
    }
}
