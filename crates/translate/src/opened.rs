//! A loaded folder from the inside, for those who look at a model rather than use it.

use polyhead_models::decode::beam::BeamOptions;
use polyhead_models::transformer::Translator;
use polyhead_tensor::Parameters;
use polyhead_text::tokenizer::Encoding;

use crate::search::Search;
use crate::{Engine, Result, TranslateOptions};

impl Engine {
    /// The model.
    pub fn model(&self) -> &Translator {
        &self.model
    }

    /// Its values.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// The pieces that the model reads for a text as one sentence: the tag of the language `to` or the one before the
    /// text, the text, the end token. Tag and end stand for no part of the text.
    ///
    /// # Errors
    /// If the model does not know the language.
    pub fn encode_source(&self, text: &str, to: Option<&str>) -> Result<Encoding> {
        let languages = self.languages();
        let (tag, body) = match (to, languages.tag_of(text)) {
            (Some(to), _) => (languages.target(to)?, text),
            (None, Some((language, rest))) => (Some(language), rest),
            (None, None) => (None, text),
        };
        let mut encoding = self.tokenizers.encode_source(body, self.model.config().end_id)?;
        let start = text.len() - body.len();
        encoding.offsets.iter_mut().for_each(|span| *span = start + span.start..start + span.end);
        if let Some(language) = tag {
            encoding.ids.insert(0, language.id);
            encoding.pieces.insert(0, language.tag.clone());
            encoding.offsets.insert(0, 0..0);
        }
        Ok(encoding)
    }

    /// The pieces of a text as a translation, the end token last.
    pub fn encode_target(&self, text: &str) -> Result<Encoding> {
        let mut encoding = self.tokenizers.encode_target(text)?;
        let end_id = self.generation().end_id;
        encoding.ids.push(end_id);
        encoding.pieces.push(self.target_piece(end_id));
        encoding.offsets.push(text.len()..text.len());
        Ok(encoding)
    }

    /// How the target's vocabulary spells an id.
    pub fn target_piece(&self, id: u32) -> String {
        self.tokenizers.target().piece(id).unwrap_or_else(|| format!("#{id}"))
    }

    /// The search that `options` ask for, the folder's own settings below.
    ///
    /// # Errors
    /// If they make no sense for this model.
    pub fn beam_options(&self, options: &TranslateOptions) -> Result<BeamOptions> {
        Ok(Search::new(self.generation(), options, self.model.config().max_len)?.into_beam())
    }
}
