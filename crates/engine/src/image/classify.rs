//! Image classification: probabilities of the labels for each picture, and the attention that led to them.

use std::path::Path;

use polyhead_attention::{Capture, Filter as Wanted, Intervention, Pass, Trace, Watch};
use polyhead_models::ImageEncoder;
use polyhead_models::vision::Images;
use polyhead_tensor::ops::softmax::softmax;
use polyhead_tensor::{Parameters, Tape};

use super::{Picture, Preprocessor};
use crate::classify::{Class, ranked};
use crate::load::{LoadOptions, check_folder, load};
use crate::{Error, Result};

/// Positions of the images of a batch: enough for the matrix products, few enough for the caches.
const BATCH: usize = 2048;

/// Options of an image classifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ImageOptions {
    /// Height and width that pictures are resized to; positions are interpolated; default: those of the model folder.
    pub size: Option<[usize; 2]>,
}

/// An image classifier. It may be used by several threads at once.
#[derive(Debug)]
pub struct ImageClassifier {
    model: ImageEncoder,
    parameters: Parameters,
    preprocessor: Preprocessor,
    size: [usize; 2],
}

/// The pass of one picture with everything that was captured.
#[derive(Debug)]
pub struct ImageAttention {
    /// The picture as the model sees it.
    pub picture: Picture,
    /// Rows and columns of its patches.
    pub grid: [usize; 2],
    /// Number of learned tokens before the patches.
    pub tokens: usize,
    /// The classes, the most probable first.
    pub classes: Vec<Class>,
    /// Attention weights of all heads.
    pub trace: Trace,
}

/// The preprocessor of a folder, and the size of its images, which have at least one patch.
pub(super) fn sized(
    folder: &Path,
    options: ImageOptions,
    least: usize,
) -> Result<(Preprocessor, [usize; 2])> {
    let mut preprocessor = Preprocessor::load(folder)?;
    if let Some(size) = options.size {
        if size.into_iter().any(|side| side < least) {
            let message =
                format!("images of {}×{} pixels, expected at least a patch of {least}", size[1], size[0]);
            return Err(Error::request(message, "choose a larger size"));
        }
        preprocessor = preprocessor.with_size(size);
    }
    let Some(size) = preprocessor.size().filter(|size| size.iter().all(|side| *side >= least)) else {
        let message = "its preprocessor_config.json does not say one size of all images";
        return Err(Error::file(folder, message, "give the size: --image-size N"));
    };
    Ok((preprocessor, size))
}

impl ImageClassifier {
    /// Loads a classifier from a model folder.
    ///
    /// # Errors
    /// If the folder lacks a config, weights or `preprocessor_config.json`, if they do not match, or if the model classifies no
    /// images.
    pub fn load(folder: impl AsRef<Path>, load_options: &LoadOptions, options: ImageOptions) -> Result<Self> {
        let folder = folder.as_ref();
        check_folder(folder)?;
        let loaded = load(folder, load_options)?;
        let model = loaded.model.into_image().map_err(|error| {
            let hint = error.hint();
            Error::file(folder, error.to_string(), hint)
        })?;
        let (preprocessor, size) = sized(folder, options, model.config().patch_size)?;
        Ok(Self { model, parameters: loaded.parameters, preprocessor, size })
    }

    /// The model.
    pub fn model(&self) -> &ImageEncoder {
        &self.model
    }

    /// The values of its parameters.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// What happens to a picture before the model.
    pub fn preprocessor(&self) -> &Preprocessor {
        &self.preprocessor
    }

    /// The picture as the model sees it.
    pub fn framed(&self, picture: &Picture) -> Picture {
        self.preprocessor.framed(&picture.clone().with_channels(self.model.config().channels))
    }

    /// The classes of each picture, the most probable first.
    ///
    /// # Errors
    /// If the device fails.
    pub fn classify(&self, pictures: &[Picture]) -> Result<Vec<Vec<Class>>> {
        let normalised: Vec<Vec<f32>> = pictures.iter().map(|picture| self.prepared(picture)).collect();
        self.classify_normalised(&normalised, None)
    }

    /// A picture as numbers for the model: channels × height × width.
    pub fn prepared(&self, picture: &Picture) -> Vec<f32> {
        self.preprocessor.normalised(&self.framed(picture))
    }

    /// The same for pictures that were framed and normalised: channels × height × width numbers each. `watch` is called between
    /// layers.
    ///
    /// # Errors
    /// If the device fails, or the classes are no longer wanted.
    pub fn classify_normalised(
        &self,
        pictures: &[Vec<f32>],
        watch: Option<Watch<'_>>,
    ) -> Result<Vec<Vec<Class>>> {
        let rows = (BATCH / self.length()).max(1);
        let mut found = Vec::with_capacity(pictures.len());
        for part in pictures.chunks(rows) {
            let (tape, capture) = (Tape::inference(), Capture::off());
            let pass = Pass { watch, ..Pass::new(&tape, &self.parameters, &capture) };
            found.extend(self.batch_classes(&pass, part)?);
        }
        Ok(found)
    }

    /// The pass of one picture with its attention, changed by an intervention if there is one.
    ///
    /// # Errors
    /// If the device fails.
    pub fn attend(&self, picture: &Picture, intervention: Option<&Intervention>) -> Result<ImageAttention> {
        let picture = self.framed(picture);
        let (tape, capture) = (Tape::inference(), Capture::on(Wanted::default()));
        let pass = Pass { intervention, ..Pass::new(&tape, &self.parameters, &capture) };
        let classes = self.batch_classes(&pass, &[self.preprocessor.normalised(&picture)])?.remove(0);
        Ok(ImageAttention {
            picture,
            grid: self.grid(),
            tokens: self.model.config().n_tokens(),
            classes,
            trace: capture.take(),
        })
    }

    fn batch_classes(&self, pass: &Pass<'_>, pictures: &[Vec<f32>]) -> Result<Vec<Vec<Class>>> {
        let images = self.images(pictures)?;
        let logits = self.model.classify(pass, &images)?;
        let probabilities = softmax(pass.tape, &logits).value().to_host()?;
        let labels = self.model.labels();
        Ok(probabilities.data().chunks_exact(labels.len()).map(|row| ranked(labels, row)).collect())
    }

    fn images(&self, pictures: &[Vec<f32>]) -> Result<Images> {
        let rows = pictures.iter().map(|picture| Some(picture.as_slice()));
        Ok(self.model.images(rows, self.size).to_device(&self.parameters.device())?)
    }

    fn grid(&self) -> [usize; 2] {
        self.size.map(|side| side / self.model.config().patch_size)
    }

    /// Number of learned tokens and patches of a picture.
    pub fn length(&self) -> usize {
        self.model.config().n_tokens() + self.grid()[0] * self.grid()[1]
    }
}
