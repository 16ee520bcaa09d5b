//! Image classification: labelled images, cross-entropy of the label.

mod augment;
mod dataset;
mod sources;
mod validation;

use polyhead_attention::Pass;
use polyhead_engine::image::{Filter, Preprocessor};
use polyhead_models::vision::ImageSpec;
use polyhead_models::{DataSpec, ImageEncoder, Model};
use polyhead_tensor::ops::elementwise::{add, mul};
use polyhead_tensor::{Parameters, Tensor, Var};

pub(crate) use self::augment::Augmentation;
pub(crate) use self::sources::{fingerprints, rare_classes};

use self::dataset::{ImageBatch, ImageRows};
use self::sources::Reading;
use self::validation::ImageValidation;
use crate::config::{AugmentConfig, RunConfig, TokenizerConfig};
use crate::objective::{LossOptions, Objective, Prepared};
use crate::preparation::Corpora;
use crate::vocabulary::Vocabulary;
use crate::{Error, Result};

/// The objective of a model that computes class scores of an image.
#[derive(Debug)]
pub(crate) struct ImageClassification {
    model: ImageEncoder,
}

impl Objective for ImageClassification {
    type Batch = ImageBatch;
    type Data = ImageRows;
    type Valid = ImageValidation;

    fn new(model: Model) -> Result<Self> {
        Ok(Self { model: model.into_image()? })
    }

    fn prepare(config: &RunConfig, _: &Corpora, _: Option<&Vocabulary>) -> Result<Prepared<Self>> {
        refuse_text_settings(config)?;
        let own = config.init.as_ref().map(|folder| Preprocessor::load(folder)).transpose()?;
        let reading = Reading::new(config, own.as_ref())?;
        let train = reading.read(&config.data.train, "data.train", None)?;
        let preprocessor = own.map_or_else(
            || Preprocessor::new(train.size, Filter::default(), dataset::statistics(&train)),
            |own| own.with_size(train.size),
        );
        // The positions of a folder's model are interpolated, whatever the size of the images.
        let images = match config.init {
            Some(_) => config.model.images().unwrap_or_default(),
            None => ImageSpec { size: train.size, channels: train.channels },
        };
        let facts = DataSpec { labels: train.names.clone(), images, ..DataSpec::default() };
        let model = config.model.with_data(&facts)?;
        // Without weights: it lays out its input.
        let layout = Model::new(&model, &mut Parameters::default())?.into_image()?;
        let valid = if config.data.valid.is_empty() {
            None
        } else {
            let set = reading.read(&config.data.valid, "data.valid", Some(&train))?;
            Some(ImageValidation::new(set, &preprocessor, config)?)
        };
        let data = ImageRows::new(train, &layout, preprocessor, config);
        Ok(Prepared { model, data, valid })
    }

    fn loss(&self, pass: &Pass<'_>, batch: &ImageBatch, options: LossOptions) -> Result<(Var, Tensor)> {
        let logits = self.model.classify(pass, &batch.images)?;
        let (loss, value) = batch.labels.loss(pass, &logits, options)?;
        let Some(mixed) = &batch.mixed else { return Ok((loss, value)) };
        let (other, _) = mixed.labels.loss(pass, &logits, options)?;
        let [own, others] = mixed.shares();
        let own = mul(pass.tape, &loss, &own)?;
        let sum = add(pass.tape, &own, &mul(pass.tape, &other, &others)?)?;
        let value = sum.value().clone();
        Ok((sum, value))
    }
}

/// Refuses settings for text, which would be ignored here.
fn refuse_text_settings(config: &RunConfig) -> Result<()> {
    let given = [
        ("augment", config.augment != AugmentConfig::default()),
        ("tokenizer", config.tokenizer != TokenizerConfig::default()),
        ("embeddings.init", config.embeddings.init.is_some()),
        ("train.r_drop", config.train.r_drop > 0.0),
    ];
    match given.into_iter().find(|(_, is_given)| *is_given) {
        None => Ok(()),
        Some((key, _)) => {
            let message = "a setting for text, expected none: this model classifies images";
            Err(Error::config(key, message, "leave it out; [images] has the settings of images"))
        }
    }
}
