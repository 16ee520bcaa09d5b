//! Image captioning: cross-entropy of the texts about an image.

mod dataset;
mod validation;

use polyhead_attention::Pass;
use polyhead_engine::image::{Filter, Preprocessor};
use polyhead_models::vision::ImageSpec;
use polyhead_models::{Captioner, DataSpec, Model};
use polyhead_tensor::ops::cross_entropy::CrossEntropyOptions;
use polyhead_tensor::{Parameters, Tensor, Var};

use self::dataset::{CaptionBatch, CaptionRows, Pictures};
use self::validation::CaptionValidation;
use crate::config::{ImagesConfig, RunConfig};
use crate::objective::{LossOptions, Objective, Prepared};
use crate::preparation::{Corpora, refuse_pair_settings};
use crate::vocabulary::Vocabulary;
use crate::{Error, Result};

/// The objective of a captioner.
#[derive(Debug)]
pub(crate) struct Captioning {
    model: Captioner,
}

impl Objective for Captioning {
    type Batch = CaptionBatch;
    type Data = CaptionRows;
    type Valid = CaptionValidation;

    fn new(model: Model) -> Result<Self> {
        Ok(Self { model: model.into_caption()? })
    }

    fn prepare(
        config: &RunConfig,
        corpora: &Corpora,
        vocabulary: Option<&Vocabulary>,
    ) -> Result<Prepared<Self>> {
        let vocabulary = vocabulary.expect("a task on text has a vocabulary");
        refuse_settings(config)?;
        let pictures = Pictures::read(&corpora.train, config, None)?;
        let size = pictures.size();
        // Values from −1 to 1, as ViT's: with the statistics of pictures that are mostly background, objects would be so far from the
        // mean that their positions hardly count.
        let half = vec![0.5; pictures.channels()];
        let preprocessor = Preprocessor::new(size, Filter::default(), [half.clone(), half]);
        let [pad_id, end_id] = vocabulary.special_ids();
        let images = ImageSpec { size, channels: pictures.channels() };
        let vocab_sizes = vocabulary.sizes();
        let facts = DataSpec { vocab_sizes, pad_id, end_id, images, ..DataSpec::default() };
        let model = config.model.with_data(&facts)?;
        // Without weights: it lays out its input.
        let layout = Model::new(&model, &mut Parameters::default())?.into_caption()?;
        let reader = (vocabulary, &layout, &preprocessor);
        let valid = if corpora.valid.is_empty() {
            None
        } else {
            let pictures = Pictures::read(&corpora.valid, config, Some(size))?;
            let plain = RunConfig { images: ImagesConfig::default(), ..config.clone() };
            let own = CaptionRows::new(pictures, reader, &plain)?;
            Some(CaptionValidation::new(&own, config)?)
        };
        let data = CaptionRows::new(pictures, reader, config)?;
        Ok(Prepared { model, data, valid })
    }

    fn loss(&self, pass: &Pass<'_>, batch: &CaptionBatch, options: LossOptions) -> Result<(Var, Tensor)> {
        let ignored_id = Some(self.model.special_ids().pad_id);
        let options = CrossEntropyOptions { label_smoothing: options.label_smoothing, ignored_id };
        let loss = self.model.loss(pass, &batch.images, &batch.target, (&batch.expected, options))?;
        let value = loss.value().clone();
        Ok((loss, value))
    }
}

/// Refuses settings that would be ignored here.
fn refuse_settings(config: &RunConfig) -> Result<()> {
    refuse_pair_settings(config, "this model writes a text about an image")?;
    let images = &config.images;
    let given = [
        ("train.r_drop", config.train.r_drop > 0.0),
        ("images.names", !images.names.is_empty()),
        ("images.mixup", images.mixup > 0.0),
    ];
    match given.into_iter().find(|(_, is_given)| *is_given) {
        None => Ok(()),
        Some((key, _)) => {
            let message = "a setting of other tasks, expected none: this model writes a text about an image";
            Err(Error::config(key, message, "leave it out"))
        }
    }
}
