//! Captions: the text that a model writes about each picture, and the patches that its words attend to.

use std::path::Path;

use polyhead_attention::{Capture, Pass};
use polyhead_models::Captioner;
use polyhead_models::decode::{DecodeOptions, Lengths};
use polyhead_models::text_decoder::{Encoded, EncodedDecoding};
use polyhead_tensor::{Parameters, Tape};
use polyhead_text::tokenizer::Tokenizer;

use super::classify::sized;
use super::{ImageOptions, Picture, Preprocessor};
use crate::encoded_text::{TextAttention, TextSearch, TextSettings, attend, scored};
use crate::generate::PromptTokenizer;
use crate::load::{LoadOptions, check_folder, load};
use crate::settings::Settings;
use crate::{Error, Result};

/// Positions of the images of a batch: enough for the matrix products, few enough for the caches.
const BATCH: usize = 2048;

/// Options of a caption.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CaptionOptions {
    /// Beam size; default: that of the folder, else 1.
    pub beam_size: Option<usize>,
    /// Most tokens; default: as many as the model has positions.
    pub max_tokens: Option<usize>,
}

/// A caption.
#[derive(Debug, Clone, PartialEq)]
pub struct ImageCaption {
    /// The text.
    pub text: String,
    /// Its tokens, without the end token.
    pub ids: Vec<u32>,
    /// Mean log-probability of the tokens, the end token included.
    pub log_probability: f64,
}

/// A caption with the patches that its tokens attend to.
#[derive(Debug, Clone)]
pub struct CaptionAttention {
    /// The picture as the model sees it.
    pub picture: Picture,
    /// Rows and columns of its patches.
    pub grid: [usize; 2],
    /// The caption.
    pub caption: ImageCaption,
    /// The cross-attention of each decoder layer.
    pub attention: Vec<TextAttention>,
}

/// A captioner with its weights and tokeniser. It may be used by several threads at once.
#[derive(Debug)]
pub struct CaptionEngine {
    model: Captioner,
    parameters: Parameters,
    tokenizer: Tokenizer,
    settings: TextSettings,
    preprocessor: Preprocessor,
    size: [usize; 2],
}

impl CaptionEngine {
    /// Loads a captioner from a model folder.
    ///
    /// # Errors
    /// If the folder lacks a config, weights, a tokeniser or `preprocessor_config.json`, if they do not match, or if the model is
    /// of another kind.
    pub fn load(folder: impl AsRef<Path>, load_options: &LoadOptions, options: ImageOptions) -> Result<Self> {
        let folder = folder.as_ref();
        check_folder(folder)?;
        let loaded = load(folder, load_options)?;
        let model = loaded.model.into_caption().map_err(|error| {
            let hint = error.hint();
            Error::file(folder, error.to_string(), hint)
        })?;
        let config = model.config();
        let (preprocessor, size) = sized(folder, options, config.patch_size)?;
        let tokenizer = PromptTokenizer::load(folder)?;
        tokenizer.check(folder, config.vocab_size)?;
        let path = folder.join("generation_config.json");
        let settings = if path.exists() {
            TextSettings::read(&Settings::load(path)?, config.end_id, config.max_len)?
        } else {
            TextSettings::new(config.max_len)
        };
        let (parameters, tokenizer) = (loaded.parameters, tokenizer.into_tokenizer());
        Ok(Self { model, parameters, tokenizer, settings, preprocessor, size })
    }

    /// The model.
    pub fn model(&self) -> &Captioner {
        &self.model
    }

    /// The values of its parameters.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// The tokeniser of texts.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// What happens to a picture before the model.
    pub fn preprocessor(&self) -> &Preprocessor {
        &self.preprocessor
    }

    /// The picture as the model sees it.
    pub fn framed(&self, picture: &Picture) -> Picture {
        self.preprocessor.framed(&picture.clone().with_channels(self.model.config().channels))
    }

    /// The caption of each picture.
    ///
    /// # Errors
    /// If an option does not fit, or the device fails.
    pub fn caption(&self, pictures: &[Picture], options: &CaptionOptions) -> Result<Vec<ImageCaption>> {
        let framed: Vec<Picture> = pictures.iter().map(|picture| self.framed(picture)).collect();
        self.caption_framed(&framed, options)
    }

    /// The same for pictures that were framed.
    ///
    /// # Errors
    /// If an option does not fit, or the device fails.
    pub fn caption_framed(
        &self,
        pictures: &[Picture],
        options: &CaptionOptions,
    ) -> Result<Vec<ImageCaption>> {
        let search = self.search(options)?;
        let [rows, columns] = self.grid();
        let mut found = Vec::with_capacity(pictures.len());
        for part in pictures.chunks((BATCH / (rows * columns)).max(1)) {
            found.extend(self.written(&self.encoded(part)?, part.len(), &search)?);
        }
        Ok(found)
    }

    /// The caption of a picture with the patches that its tokens attend to.
    ///
    /// # Errors
    /// If an option does not fit, or the device fails.
    pub fn attend(&self, picture: &Picture, options: &CaptionOptions) -> Result<CaptionAttention> {
        let picture = self.framed(picture);
        let encoded = self.encoded(std::slice::from_ref(&picture))?;
        let caption = self.written(&encoded, 1, &self.search(options)?)?.remove(0);
        let model = (self.model.decoder(), &self.parameters);
        let limits = (self.model.special_ids(), self.model.config().max_len);
        let attention = attend(model, (&encoded, 0), (&[], &caption.ids), limits)?;
        Ok(CaptionAttention { picture, grid: self.grid(), caption, attention })
    }

    /// The text of tokens, without special ones.
    ///
    /// # Errors
    /// If a token is unknown to the tokeniser.
    pub fn text(&self, ids: &[u32]) -> Result<String> {
        let special = self.model.special_ids();
        let special = [special.pad_id, special.end_id, special.start_id];
        let words: Vec<u32> = ids.iter().copied().filter(|id| !special.contains(id)).collect();
        Ok(self.tokenizer.decode(&words)?.trim().to_owned())
    }

    /// Rows and columns of the patches of an image.
    fn grid(&self) -> [usize; 2] {
        self.size.map(|side| side / self.model.config().patch_size)
    }

    /// Resolves options.
    fn search(&self, options: &CaptionOptions) -> Result<(TextSearch, DecodeOptions)> {
        let TextSettings { rules, max_length, length_penalty, .. } = self.settings.clone();
        let special = self.model.special_ids();
        let max = max_length.saturating_sub(1).max(1);
        let lengths = Lengths { max, max_new: options.max_tokens, ..Lengths::default() };
        let decode = DecodeOptions { start_id: special.start_id, end_id: special.end_id, lengths, rules };
        let beam_size = self.settings.beam_size(options.beam_size)?;
        Ok((TextSearch { beam_size, length_penalty, temperature: 0.0, seed: 0 }, decode))
    }

    fn encoded(&self, framed: &[Picture]) -> Result<Encoded> {
        let normalised: Vec<Vec<f32>> =
            framed.iter().map(|picture| self.preprocessor.normalised(picture)).collect();
        let (tape, capture) = (Tape::inference(), Capture::off());
        let pass = Pass::new(&tape, &self.parameters, &capture);
        let rows = normalised.iter().map(|picture| Some(picture.as_slice()));
        Ok(self.model.encode(&pass, &self.model.images(rows, self.size))?)
    }

    fn written(
        &self,
        encoded: &Encoded,
        count: usize,
        (search, decode): &(TextSearch, DecodeOptions),
    ) -> Result<Vec<ImageCaption>> {
        let capture = Capture::off();
        let decoder = self.model.decoder();
        let decoding = EncodedDecoding {
            decoder,
            parameters: &self.parameters,
            capture: &capture,
            encoded,
            watch: None,
        };
        let rows: Vec<[u32; 1]> = (0..count as u32).map(|row| [row]).collect();
        let sources: Vec<&[u32]> = rows.iter().map(|row| &row[..]).collect();
        let best = search.run(&decoding, &sources, decode.clone())?;
        let caption = |hypothesis| {
            let (ids, log_probability) = scored(&hypothesis, (0, decode.end_id), search);
            Ok(ImageCaption { text: self.text(&ids)?, ids, log_probability })
        };
        best.into_iter().map(caption).collect()
    }
}
