//! Masked words: the tokens that a masked language model (Devlin et al. 2019) expects in place of each mask token.

use std::path::Path;

use polyhead_models::encoder::EncoderHead;
use polyhead_tensor::ops::softmax::softmax;
use polyhead_tensor::{Tape, Tensor, Var};
use polyhead_text::tokenizer::{Encoding, Tokenizer};

use super::{LongTexts, TextEncoder, TextInput};
use crate::load::LoadOptions;
use crate::{Error, Result};

/// Spellings of the mask token.
const MASKS: [&str; 2] = ["[MASK]", "<mask>"];

/// Fills masks in texts.
#[derive(Debug)]
pub struct Filler {
    encoder: TextEncoder,
    /// The tokeniser for which special tokens in a text are special.
    markup: Tokenizer,
    mask: (String, u32),
}

/// A token that may take the place of a mask.
#[derive(Debug, Clone, PartialEq)]
pub struct FilledWord {
    /// The token as text.
    pub word: String,
    /// Its probability.
    pub probability: f64,
    /// The text with this word in place of this mask; other masks stay.
    pub text: String,
}

/// The words for a text.
#[derive(Debug, Clone, PartialEq)]
pub struct FilledText {
    /// The words of each mask, the most probable first.
    pub masks: Vec<Vec<FilledWord>>,
    /// Number of tokens before the end was cut off; `None` if nothing was.
    pub cut_from: Option<usize>,
}

impl Filler {
    /// Loads a masked language model.
    ///
    /// # Errors
    /// If the folder holds no encoder with its tokeniser, or one without a head for masked words.
    pub fn load(folder: impl AsRef<Path>, options: &LoadOptions) -> Result<Self> {
        Self::of(TextEncoder::load(folder, options)?)
    }

    /// The model of masked words that a loaded encoder is.
    ///
    /// # Errors
    /// If it has no head for masked words, or its tokeniser no mask.
    pub fn of(encoder: TextEncoder) -> Result<Self> {
        encoder.expect_head(EncoderHead::MaskedLanguageModel)?;
        let mask = MASKS.iter().find_map(|mask| Some(((*mask).to_owned(), encoder.tokenizer.id(mask)?)));
        let (Some(mask), Tokenizer::HuggingFace(own)) = (mask, &encoder.tokenizer) else {
            let message = "a tokeniser without [MASK] and <mask>, expected one of them";
            return Err(Error::file(&encoder.folder, message, "masked words need a mask token"));
        };
        let markup = Tokenizer::HuggingFace(Box::new(own.for_markup()));
        Ok(Self { encoder, markup, mask })
    }

    /// The encoder.
    pub fn encoder(&self) -> &TextEncoder {
        &self.encoder
    }

    /// The spelling of the mask token.
    pub fn mask(&self) -> &str {
        &self.mask.0
    }

    /// The `top` words of each mask of each text; an error for a text without a mask, or one that is too long.
    ///
    /// # Errors
    /// If the device fails.
    pub fn fill(&self, texts: &[&str], top: usize, long: LongTexts) -> Result<Vec<Result<FilledText>>> {
        let inputs = texts.iter().map(|text| self.read(text, long)).collect();
        let model = &self.encoder.model;
        let found = self.encoder.run(inputs, |pass, ids, rows| {
            let states = model.states(pass, ids)?.value().to_host()?;
            let [length, width] = [states.shape()[1], states.shape()[2]];
            let mut masked = Vec::new();
            for (index, row) in rows.iter().enumerate() {
                for (position, _) in self.masks(&row.encoding) {
                    masked.extend_from_slice(&states.data()[(index * length + position) * width..][..width]);
                }
            }
            let masked = Tensor::new(&[masked.len() / width, width], masked).to_device(&self.device())?;
            let logits = model.word_logits(pass, Var::constant(masked))?;
            let probabilities = softmax(&Tape::inference(), &logits).value().to_host()?;
            let mut each =
                probabilities.data().chunks_exact(model.vocab_size().max(1)).map(|row| best(row, top));
            Ok(rows
                .iter()
                .map(|row| {
                    self.masks(&row.encoding).map(|_| each.next().unwrap_or_default()).collect::<Vec<_>>()
                })
                .collect())
        })?;
        let fill = |text: &str, words: Vec<Vec<(u32, f32)>>, input: &TextInput| {
            let places = self.masks(&input.encoding).map(|(_, range)| range).collect::<Vec<_>>();
            let words = places.into_iter().zip(words).map(|(place, words)| self.words(text, &place, &words));
            Ok(FilledText { masks: words.collect::<Result<_>>()?, cut_from: input.cut_from })
        };
        let filled = texts
            .iter()
            .zip(found)
            .map(|(text, found)| found.and_then(|(words, input)| fill(text, words, &input)));
        Ok(filled.collect())
    }

    fn device(&self) -> polyhead_tensor::Device {
        self.encoder.parameters.device()
    }

    /// The tokens of a text with or without masks.
    pub(super) fn read_marked(&self, text: &str, long: LongTexts) -> Result<TextInput> {
        self.encoder.read_with(&self.markup, text, long)
    }

    fn read(&self, text: &str, long: LongTexts) -> Result<TextInput> {
        let input = self.read_marked(text, long)?;
        if self.masks(&input.encoding).next().is_none() {
            let cut = if input.cut_from.is_some() { " in the part that is read" } else { "" };
            let message = format!("a text without {}{cut}, expected at least one", self.mask.0);
            return Err(Error::request(message, format!("write {} in place of a word", self.mask.0)));
        }
        Ok(input)
    }

    /// Position and bytes of each mask.
    fn masks<'a>(
        &self,
        encoding: &'a Encoding,
    ) -> impl Iterator<Item = (usize, std::ops::Range<usize>)> + 'a {
        let id = self.mask.1;
        let masks = encoding.ids.iter().enumerate().filter(move |(_, own)| **own == id);
        masks.map(|(position, _)| (position, encoding.offsets[position].clone()))
    }

    fn words(
        &self,
        text: &str,
        place: &std::ops::Range<usize>,
        words: &[(u32, f32)],
    ) -> Result<Vec<FilledWord>> {
        // The space before a mask may belong to it.
        let own = &text[place.clone()];
        let start = place.start + (own.len() - own.trim_start().len());
        let tokenizer = &self.encoder.tokenizer;
        let word = |&(id, probability): &(u32, f32)| {
            let decoded = tokenizer.decode(&[id])?;
            let word = if decoded.is_empty() { tokenizer.piece(id).unwrap_or_default() } else { decoded };
            let word = word.trim().to_owned();
            let text = format!("{}{word}{}", &text[..start], &text[place.end..]);
            Ok(FilledWord { word, probability: probability.into(), text })
        };
        words.iter().map(word).collect()
    }
}

/// The `top` most probable ids; of equal ones the smaller first.
fn best(probabilities: &[f32], top: usize) -> Vec<(u32, f32)> {
    let mut all: Vec<(u32, f32)> = (0..).zip(probabilities.iter().copied()).collect();
    all.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    all.truncate(top);
    all
}
