//! Texts and ids as the model reads them, and what is known of a folder without its weights.

use std::path::{Path, PathBuf};

use polyhead_models::encoder::EncoderHead;
use polyhead_models::{Encoder, checkpoint};
use polyhead_tensor::Parameters;
use polyhead_text::tokenizer::Encoding;

use super::modules::SentenceModules;
use super::{LongTexts, TextEncoder, TextInput};
use crate::{Error, Result};

/// What is known of an encoder's folder without its weights.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncoderSummary {
    /// The folder of its config and weights.
    pub folder: PathBuf,
    /// Longest text in tokens, special tokens included.
    pub max_len: usize,
    /// The head.
    pub head: EncoderHead,
    /// The names of the classes.
    pub labels: Vec<String>,
    /// How states become a vector, as sentence-transformers names it.
    pub pooling: String,
    /// True if tokens have states.
    pub has_states: bool,
    /// Size of the states.
    pub d_model: usize,
    /// Number of parameters.
    pub n_parameters: usize,
}

impl EncoderSummary {
    /// Reads the config of a folder; an error if it holds no encoder.
    ///
    /// # Errors
    /// If the folder lacks a config, or holds another kind of model.
    pub fn of_folder(folder: &Path) -> Result<Self> {
        let modules = SentenceModules::of_folder(folder)?;
        let own = modules.as_ref().map_or(folder, |modules| &modules.folder);
        let (config, _) = checkpoint::read_config(own)?;
        let d_model = config.d_model();
        let mut parameters = Parameters::default();
        let model = Encoder::new(config, &mut parameters)?;
        let pooling = match &modules {
            Some(modules) => {
                let names: Vec<&str> = modules.pooling.iter().map(|pooling| pooling.name()).collect();
                names.join("+")
            }
            None if model.has_special_tokens() => "mean".into(),
            None => "model".into(),
        };
        let folder = own.to_owned();
        let stated = modules.as_ref().and_then(|modules| modules.max_len);
        Ok(Self {
            folder,
            max_len: stated.unwrap_or(usize::MAX).min(model.max_len()),
            head: model.head(),
            labels: model.labels().to_vec(),
            pooling,
            has_states: model.has_states(),
            d_model,
            n_parameters: parameters.count(),
        })
    }
}

impl EncoderSummary {
    /// The kind of model in words.
    pub fn described(&self) -> &'static str {
        match self.head {
            EncoderHead::None => "encoder",
            EncoderHead::Classes if self.labels.len() == 1 => "reranker",
            EncoderHead::Classes => "classifier",
            EncoderHead::TokenClasses => "classifier of tokens",
            EncoderHead::MaskedLanguageModel => "masked language model",
        }
    }
}

impl TextInput {
    /// The same without the tokens' spellings and places in the text, which only tagging needs.
    #[must_use]
    pub fn ids_only(self) -> Self {
        let encoding = Encoding { ids: self.encoding.ids, ..Encoding::default() };
        Self { encoding, ..self }
    }
}

impl TextEncoder {
    /// The text of a prompt by its name in the folder.
    ///
    /// # Errors
    /// If the folder has no such prompt.
    pub fn prompt(&self, name: &str) -> Result<&str> {
        let prompts = self.modules.as_ref().map(|modules| &modules.prompts);
        if let Some(found) = prompts.and_then(|prompts| prompts.get(name)) {
            return Ok(found);
        }
        let known: Vec<&str> =
            prompts.into_iter().flat_map(|prompts| prompts.keys().map(String::as_str)).collect();
        let message = match known.as_slice() {
            [] => format!("prompt {name:?} of a model without prompts"),
            known => format!("no prompt {name:?}, expected one of {}", known.join(", ")),
        };
        Err(Error::request(message, "prompts are in config_sentence_transformers.json of the model's folder"))
    }

    /// The tokens of a text whose vector is computed: after a prompt (default: that of the folder), and in lower case if the
    /// folder says so.
    ///
    /// # Errors
    /// If the text has no tokens, or more than the model accepts and `long` does not cut it.
    pub fn prepare(&self, text: &str, prompt: Option<&str>, long: LongTexts) -> Result<TextInput> {
        match (&self.modules, prompt) {
            (Some(modules), prompt) => self.read(&modules.prepared(text, prompt), long),
            (None, Some(prompt)) => self.read(&format!("{prompt}{text}"), long),
            (None, None) => self.read(text, long),
        }
    }

    /// A text that is given as ids, with its special tokens or without them, after a prompt (default: that of the folder).
    ///
    /// # Errors
    /// If an id is outside the vocabulary, there is none, or there are more than the model accepts and `long` does not cut
    /// them.
    pub fn prepare_ids(&self, ids: &[u32], prompt: Option<&str>, long: LongTexts) -> Result<TextInput> {
        let vocab_size = self.model.vocab_size();
        if let Some(id) = ids.iter().find(|&&id| id as usize >= vocab_size) {
            let message = format!("token {id}, expected one below {vocab_size}, the size of the vocabulary");
            return Err(Error::request(message, "are these tokens of another model?"));
        }
        let [before, after] = self.special_tokens()?;
        let is_framed =
            ids.len() >= before.len() + after.len() && ids.starts_with(&before) && ids.ends_with(&after);
        let own = if is_framed { &ids[before.len()..ids.len() - after.len()] } else { ids };
        let prompt = prompt.or(self.modules.as_ref().map(|modules| modules.prompt.as_str()));
        let prompt = prompt.filter(|prompt| !prompt.is_empty());
        let mut plain = prompt
            .map_or_else(|| Ok(Vec::new()), |prompt| self.tokenizer.encode(prompt).map(|own| own.ids))?;
        plain.extend_from_slice(self.model.truncate(own));
        let length = before.len() + plain.len() + after.len();
        if length == 0 {
            return Err(Error::request("no tokens, expected at least one", "pass some tokens"));
        }
        let mut cut_from = None;
        if length > self.max_len {
            self.check_length(length, long)?;
            cut_from = Some(length);
            plain.truncate(self.max_len.saturating_sub(before.len() + after.len()));
        }
        let ids = [before, plain, after].concat();
        let encoding = Encoding { ids, ..Encoding::default() };
        Ok(TextInput { encoding, types: Vec::new(), cut_from })
    }

    /// The special tokens before and after every text.
    fn special_tokens(&self) -> Result<[Vec<u32>; 2]> {
        if !self.model.has_special_tokens() {
            return Ok([Vec::new(), Vec::new()]);
        }
        // Any text has them.
        let with = self.tokenizer.encode_with_special("a")?.ids;
        let plain = self.tokenizer.encode("a")?.ids;
        let n_special = with.len().saturating_sub(plain.len());
        let start = (0..=n_special).find(|start| with[*start..].starts_with(&plain)).unwrap_or(0);
        Ok([with[..start].to_vec(), with[start + plain.len()..].to_vec()])
    }
}
