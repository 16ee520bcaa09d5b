//! Ordering points with a pointer network: cross-entropy of the next point.

mod dataset;
mod validation;

use polyhead_attention::Pass;
use polyhead_models::{DataSpec, Model, PointerNetwork};
use polyhead_tensor::{Parameters, Tensor, Var};

use self::dataset::{PointBatch, PointRows};
use self::validation::PointValidation;
use crate::config::{AugmentConfig, CorpusConfig, RunConfig, TokenizerConfig};
use crate::objective::{LossOptions, Objective, Prepared};
use crate::preparation::Corpora;
use crate::vocabulary::Vocabulary;
use crate::{Error, Result};

/// The objective of a model that orders points.
#[derive(Debug)]
pub(crate) struct Pointing {
    model: PointerNetwork,
}

impl Objective for Pointing {
    type Batch = PointBatch;
    type Data = PointRows;
    type Valid = PointValidation;

    fn new(model: Model) -> Result<Self> {
        Ok(Self { model: model.into_pointer()? })
    }

    fn prepare(config: &RunConfig, corpora: &Corpora, _: Option<&Vocabulary>) -> Result<Prepared<Self>> {
        refuse_text_settings(config)?;
        let rows = dataset::read(&corpora.train, None)?;
        let facts = DataSpec { points: dataset::spec(&rows), ..DataSpec::default() };
        let model = config.model.with_data(&facts)?;
        // Without weights: it lays out its input.
        let layout = Model::new(&model, &mut Parameters::default())?.into_pointer()?;
        let longest = config.data.max_length.min(model.max_len()).min(config.train.max_tokens);
        let data = PointRows::new(rows, &layout, longest, &corpora.train)?;
        let valid = if corpora.valid.is_empty() {
            None
        } else {
            let rows = dataset::read(&corpora.valid, Some(layout.config().d_point))?;
            let data = PointRows::new(rows, &layout, longest, &corpora.valid)?;
            Some(PointValidation::new(&data, config)?)
        };
        Ok(Prepared { model, data, valid })
    }

    fn loss(&self, pass: &Pass<'_>, batch: &PointBatch, _: LossOptions) -> Result<(Var, Tensor)> {
        let loss = self.model.loss(pass, &batch.points, &batch.orders)?;
        let value = loss.value().clone();
        Ok((loss, value))
    }
}

/// Refuses settings for text, which would be ignored here.
fn refuse_text_settings(config: &RunConfig) -> Result<()> {
    let corpora = || config.data.train.iter().chain(&config.data.valid);
    let is_text = |corpus: &CorpusConfig| {
        corpus.jsonl.is_none()
            || corpus.languages.is_some()
            || corpus.source_field.is_some()
            || corpus.target_field.is_some()
    };
    if corpora().any(is_text) {
        return Err(Error::config(
            "data",
            "a corpus of text, expected jsonl = \"FILE\" alone: this model orders points",
            "polyhead data make --help shows the keys of a line",
        ));
    }
    let given = [
        ("augment", config.augment != AugmentConfig::default()),
        ("tokenizer", config.tokenizer != TokenizerConfig::default()),
        ("embeddings.init", config.embeddings.init.is_some()),
        ("train.label_smoothing", config.train.label_smoothing > 0.0),
        ("train.r_drop", config.train.r_drop > 0.0),
    ];
    match given.into_iter().find(|(_, is_given)| *is_given) {
        None => Ok(()),
        Some((key, _)) => Err(Error::config(
            key,
            "a setting for text, expected none: this model orders points",
            "leave it out",
        )),
    }
}
