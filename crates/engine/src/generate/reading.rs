//! How a language model reads text, without its weights.

use std::path::Path;

use polyhead_models::ModelConfig;
use polyhead_models::checkpoint::CheckpointLayout;
use polyhead_text::tokenizer::Tokenizer;

use super::tokenizer::PromptTokenizer;
use crate::{Error, Result};

/// The units of the text that a model was trained on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextUnits {
    /// Lines, each ended by the end token, which stands for the line break.
    Lines,
    /// Documents, ended by the end token; line breaks are part of the text.
    Documents,
}

/// The tokeniser of a language model and the text that it was trained on.
#[derive(Debug, Clone)]
pub struct TextReader {
    /// The tokeniser of text, without special tokens.
    pub tokenizer: Tokenizer,
    /// The token before a text.
    pub start_id: u32,
    /// The units of text.
    pub units: TextUnits,
}

impl TextReader {
    /// Reads the tokeniser of a model folder.
    ///
    /// # Errors
    /// If there is none, or it does not match the model, or the model is not a language model.
    pub fn load(folder: &Path, config: &ModelConfig, layout: CheckpointLayout) -> Result<Self> {
        let special = config.special_ids().ok_or_else(|| {
            Error::file(folder, "not a language model", "name the folder of a model that generates text")
        })?;
        let tokenizer = PromptTokenizer::load(folder)?;
        tokenizer.check(folder, config.vocab_sizes()[0])?;
        let units = units(layout, &tokenizer, special.end_id);
        let start_id = match units {
            TextUnits::Lines => special.start_id,
            TextUnits::Documents => tokenizer.start().unwrap_or(special.start_id),
        };
        Ok(Self { tokenizer: tokenizer.into_tokenizer(), start_id, units })
    }
}

/// The units of a model with this tokeniser: one that was trained here has read lines with their end token.
pub(super) fn units(layout: CheckpointLayout, tokenizer: &PromptTokenizer, end_id: u32) -> TextUnits {
    let is_own = layout == CheckpointLayout::Polyhead
        || (tokenizer.start().is_none() && tokenizer.end() == Some(end_id));
    if is_own { TextUnits::Lines } else { TextUnits::Documents }
}
