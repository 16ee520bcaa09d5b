//! What a folder holds, and the memory that its model will need, both known before it is loaded.

use std::path::Path;

use polyhead_engine::encoder::EncoderSummary;
use polyhead_engine::image::ImageSummary;
use polyhead_engine::speech::SpeechSummary;
use polyhead_models::checkpoint::read_config;
use polyhead_models::{ModelConfig, View};
use polyhead_tensor::{Dtype, Parameters};

/// The config of a folder with a language model; `None` for all other folders.
pub(super) fn language_model(folder: &Path) -> Option<ModelConfig> {
    let (config, _) = read_config(folder).ok()?;
    (config.view() == View::LanguageModel).then_some(config)
}

/// What the model of a folder can do; `None` if its config cannot be read.
pub(super) fn view(folder: &Path) -> Option<View> {
    Some(read_config(folder).ok()?.0.view())
}

/// True for a folder with an encoder.
pub(super) fn is_encoder(folder: &Path) -> bool {
    let is_listed = folder.join("modules.json").exists();
    is_listed || read_config(folder).is_ok_and(|(config, _)| config.view() == View::Encoder)
}

/// Estimated bytes of a loaded language model.
pub(super) fn generator_forecast(folder: &Path, config: ModelConfig, dtype: Dtype) -> u64 {
    let mut parameters = Parameters::default();
    let is_known = polyhead_models::LanguageModel::new(config, &mut parameters).is_ok();
    let numbers = if is_known { parameters.count() as u64 } else { 0 };
    parameter_bytes(folder, numbers, dtype)
}

/// Estimated bytes of a loaded encoder, and of the states of a batch on each thread.
pub(super) fn encoder_forecast(summary: &EncoderSummary, dtype: Dtype, threads: usize) -> u64 {
    let tokens = summary.max_len.clamp(512, 8192);
    let states = STATE_BYTES * summary.d_model * tokens * threads;
    parameter_bytes(&summary.folder, summary.n_parameters as u64, dtype) + states as u64
}

/// Estimated bytes of a loaded speech recogniser. The states of a window are memory of its request.
pub(super) fn speech_forecast(summary: &SpeechSummary, dtype: Dtype) -> u64 {
    parameter_bytes(&summary.folder, summary.n_parameters as u64, dtype)
}

/// Estimated bytes of a loaded image classifier. The states of an image are memory of its request.
pub(super) fn image_forecast(summary: &ImageSummary, dtype: Dtype) -> u64 {
    parameter_bytes(&summary.folder, summary.n_parameters as u64, dtype)
}

/// Bytes for each token and number of its state while a batch of texts is encoded.
const STATE_BYTES: usize = 64;

/// Estimated bytes of a loaded model with so many parameters, which may be stored as 16-bit numbers.
fn parameter_bytes(folder: &Path, numbers: u64, dtype: Dtype) -> u64 {
    let files = weight_bytes(folder);
    // Files of int8 weights have little more than a byte for each.
    let is_int8 = dtype == Dtype::Int8 || 2 * files < 3 * numbers;
    let bytes = if is_int8 { numbers } else { 4 * numbers };
    bytes + bytes / 4 + TABLES
}

/// Estimated bytes of a loaded model: its weights, a quarter more for their packed layout, and the tokeniser's tables.
pub(super) fn forecast(folder: &Path) -> u64 {
    let bytes = weight_bytes(folder);
    bytes + bytes / 4 + TABLES
}

/// Bytes of the files of weights in a folder.
fn weight_bytes(folder: &Path) -> u64 {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let weights = files.filter(|file| {
        let name = file.file_name();
        [".safetensors", ".bin", ".pt"].iter().any(|end| name.to_string_lossy().ends_with(end))
    });
    weights.filter_map(|file| Some(file.metadata().ok()?.len())).sum()
}

/// Bytes of a tokeniser's tables.
const TABLES: u64 = 16 << 20;
