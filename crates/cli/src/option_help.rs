//! Help texts of options that several commands have: the same words everywhere.

pub(crate) const MODEL: &str =
    "Model folder (Polyhead, Marian, fairseq), run folder, or installed model [default: the default model]";
pub(crate) const FROM: &str = "Source language: a code or name, such as en, eng or English";
pub(crate) const TO: &str = "Target language: a code or name, such as tr, tur or Turkish";
pub(crate) const DEVICE: &str = "Device: cpu, cuda, cuda:N, or auto for a GPU if one can be used";
pub(crate) const DTYPE: &str = "Compute dtype; int8 models stay int8";
pub(crate) const TRAINING_DTYPE: &str = "Compute dtype";
pub(crate) const THREADS: &str = "Number of threads; results do not depend on it [default: all cores]";
pub(crate) const SEED: &str = "Random seed";
pub(crate) const BATCH_TOKENS: &str = "Maximum number of source tokens in a batch, padding included";
pub(crate) const PICTURE: &str = "Picture to write, .svg or .png";
pub(crate) const OVERWRITE_MODEL: &str = "Replace the model, tokeniser and README in --out";

/// The default source language where the model knows several.
pub(crate) const DETECTED: &str = "detected";
/// The default target language of the bundled model.
pub(crate) const ENGLISH_OR_TURKISH: &str = "English; for English text, Turkish";
/// The default target language of `translate`.
pub(crate) const ENGLISH_OR_LOCALE: &str =
    "English; for English text, the language of the locale, otherwise Turkish";

/// A help text with the default that the command computes.
pub(crate) fn with_default(help: &str, default: &str) -> String {
    format!("{help} [default: {default}]")
}
