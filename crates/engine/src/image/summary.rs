//! What is known of an image classifier before its weights are loaded.

use std::path::{Path, PathBuf};

use polyhead_models::Model;
use polyhead_models::checkpoint::read_config;
use polyhead_tensor::Parameters;

use super::Preprocessor;
use crate::load::check_folder;
use crate::{Error, Result};

/// An image classifier without its weights.
#[derive(Debug, Clone, PartialEq)]
pub struct ImageSummary {
    /// The model folder.
    pub folder: PathBuf,
    /// Number of parameters.
    pub n_parameters: usize,
    /// Names of the classes.
    pub labels: Vec<String>,
    /// Height and width of the images that the model reads.
    pub size: [usize; 2],
    /// Learned tokens and patches of such an image.
    pub length: usize,
    /// Numbers in the state of each.
    pub d_model: usize,
    /// Attention heads of a layer.
    pub n_heads: usize,
}

impl ImageSummary {
    /// Reads the config and the preprocessor of a folder.
    ///
    /// # Errors
    /// If it holds no image classifier.
    pub fn of_folder(folder: impl AsRef<Path>) -> Result<Self> {
        let folder = folder.as_ref();
        check_folder(folder)?;
        let (config, _) = read_config(folder)?;
        let mut parameters = Parameters::default();
        let model = Model::new(&config, &mut parameters)?.into_image().map_err(|error| {
            let hint = error.hint();
            Error::file(folder, error.to_string(), hint)
        })?;
        let config = model.config();
        let size = Preprocessor::load(folder)?.size().unwrap_or(config.image_size);
        let patches = size.iter().map(|side| side / config.patch_size).product::<usize>();
        Ok(Self {
            folder: folder.to_owned(),
            n_parameters: parameters.count(),
            labels: model.labels().to_vec(),
            size,
            length: config.n_tokens() + patches,
            d_model: config.d_model,
            n_heads: config.encoder.n_heads,
        })
    }
}
