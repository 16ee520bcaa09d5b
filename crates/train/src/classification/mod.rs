//! Text classification: labelled texts, cross-entropy of the label.

mod dataset;
mod validation;

use polyhead_attention::Pass;
use polyhead_models::{DataSpec, Encoder, Model};
use polyhead_tensor::{Parameters, Tensor, Var};

use self::dataset::{LabelledBatch, LabelledTexts};
use self::validation::LabelledValidation;
use crate::Result;
use crate::config::RunConfig;
use crate::labels;
use crate::objective::{LossOptions, Objective, Prepared};
use crate::preparation::{Corpora, encoder_facts, encoder_ids, refuse_pair_settings};
use crate::vocabulary::Vocabulary;

/// The objective of a model that computes class scores of a text.
#[derive(Debug)]
pub(crate) struct Classification {
    model: Encoder,
}

impl Objective for Classification {
    type Batch = LabelledBatch;
    type Data = LabelledTexts;
    type Valid = LabelledValidation;

    fn new(model: Model) -> Result<Self> {
        Ok(Self { model: model.into_encoder()? })
    }

    fn prepare(
        config: &RunConfig,
        corpora: &Corpora,
        vocabulary: Option<&Vocabulary>,
    ) -> Result<Prepared<Self>> {
        let vocabulary = vocabulary.expect("a task on text has a vocabulary");
        refuse_pair_settings(config, "this model classifies texts")?;
        let counts = dataset::labels(&corpora.train)?;
        let weights = labels::weights(&config.classes, &counts)?;
        let labels = counts.into_keys().collect();
        let facts = DataSpec { labels, ..encoder_facts(config, vocabulary) };
        let model = config.model.with_data(&facts)?;
        // Without weights: only its properties are needed here.
        let reader = Encoder::new(&model, &mut Parameters::default())?;
        let longest = config.data.max_length.min(model.max_len()).min(config.train.max_tokens);
        let read = |corpora| LabelledTexts::read(corpora, vocabulary, &reader, longest);
        let reads = |text: &str| -> Result<bool> {
            Ok((1..=reader.max_len()).contains(&encoder_ids(vocabulary, &reader, text)?.len()))
        };
        let data = read(&corpora.train)?.with_weights(weights);
        let valid = (!corpora.valid.is_empty())
            .then(|| LabelledValidation::new(&read(&corpora.valid)?, &corpora.valid, config, reads))
            .transpose()?;
        Ok(Prepared { model, data, valid })
    }

    fn loss(&self, pass: &Pass<'_>, batch: &LabelledBatch, options: LossOptions) -> Result<(Var, Tensor)> {
        let logits = self.model.classify(pass, &batch.texts)?;
        batch.labels.loss(pass, &logits, options)
    }
}
