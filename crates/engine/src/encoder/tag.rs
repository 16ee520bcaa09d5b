//! Token classification: entities in a text, such as names.
//!
//! The class of a word is that of its first token. Classes are merged to entities as [`polyhead_text::spans`] has it.

use std::ops::Range;
use std::path::Path;

use polyhead_models::encoder::EncoderHead;
use polyhead_tensor::Tape;
use polyhead_tensor::ops::softmax::softmax;
use polyhead_text::spans::{Span, parse, spans};
use polyhead_text::tokenizer::{Tokenizer, WORD_MARK};

use super::{LongTexts, TextEncoder, TextInput};
use crate::load::LoadOptions;
use crate::{Error, Result};

/// The mark of a space before a word in byte-level tokenisers.
const BYTE_LEVEL_SPACE: char = 'Ġ';

/// Finds entities in texts.
#[derive(Debug)]
pub struct Tagger {
    encoder: TextEncoder,
    continues_with_hashes: bool,
}

/// A part of a text with a class.
#[derive(Debug, Clone, PartialEq)]
pub struct Entity {
    /// The class, without the prefix of its scheme.
    pub label: String,
    /// Its bytes in the text.
    pub range: Range<usize>,
    /// The mean probability of the classes of its words.
    pub probability: f64,
}

/// The entities of a text.
#[derive(Debug, Clone, PartialEq)]
pub struct TaggedText {
    /// The entities, in order.
    pub entities: Vec<Entity>,
    /// Number of tokens before the end was cut off; `None` if nothing was.
    pub cut_from: Option<usize>,
}

/// A text that is divided into words already.
#[derive(Debug, Clone, Copy)]
pub struct TextOfWords<'a> {
    /// The text.
    pub text: &'a str,
    /// The bytes of each word, in order.
    pub words: &'a [Range<usize>],
}

/// The class of a token or word, and its probability.
pub type ClassOfToken = (usize, f32);

/// A text as the model reads it, with the class of each token.
type TaggedInput = (Vec<ClassOfToken>, TextInput);

impl Tagger {
    /// Loads a classifier of tokens.
    ///
    /// # Errors
    /// If the folder holds no encoder with its tokeniser, or one without classes of tokens.
    pub fn load(folder: impl AsRef<Path>, options: &LoadOptions) -> Result<Self> {
        Self::of(TextEncoder::load(folder, options)?)
    }

    /// The tagger that a loaded encoder is.
    ///
    /// # Errors
    /// If it has no classes of tokens.
    pub fn of(encoder: TextEncoder) -> Result<Self> {
        encoder.expect_head(EncoderHead::TokenClasses)?;
        let continues_with_hashes =
            matches!(encoder.tokenizer(), Tokenizer::HuggingFace(own) if own.model_name() == "WordPiece");
        Ok(Self { encoder, continues_with_hashes })
    }

    /// The encoder.
    pub fn encoder(&self) -> &TextEncoder {
        &self.encoder
    }

    /// The entities of each text; an error for one that is empty or too long.
    ///
    /// # Errors
    /// If the device fails.
    pub fn tag(&self, texts: &[&str], long: LongTexts) -> Result<Vec<Result<TaggedText>>> {
        let tag = |text: &str, classes: &[_], input: &TextInput| TaggedText {
            entities: self.entities(text, input, classes),
            cut_from: input.cut_from,
        };
        let tagged = texts
            .iter()
            .zip(self.classes(texts, long)?)
            .map(|(text, found)| found.map(|(classes, input)| tag(text, &classes, &input)));
        Ok(tagged.collect())
    }

    /// The entities of each text, where words are what white space separates, as in the files that taggers are trained on.
    ///
    /// # Errors
    /// If the device fails.
    pub fn tag_words(&self, texts: &[&str], long: LongTexts) -> Result<Vec<Result<TaggedText>>> {
        let tag = |(text, (classes, input)): (&&str, TaggedInput)| {
            let words = words_of(text);
            let first = input.encoding.first_tokens(text, &words);
            let classes = first.into_iter().map(|first| first.map(|token| classes[token]));
            TaggedText {
                entities: merged(&words, classes, self.encoder.model.labels()),
                cut_from: input.cut_from,
            }
        };
        let found = texts.iter().zip(self.classes(texts, long)?);
        Ok(found.map(|(text, found)| found.map(|found| tag((text, found)))).collect())
    }

    /// The class of each word: that of its first token; `None` for a word without a token, or whose token was cut off.
    ///
    /// # Errors
    /// If the device fails.
    pub fn classes_of_words(
        &self,
        texts: &[TextOfWords<'_>],
        long: LongTexts,
    ) -> Result<Vec<Result<Vec<Option<ClassOfToken>>>>> {
        let plain: Vec<&str> = texts.iter().map(|own| own.text).collect();
        let words = |own: &TextOfWords<'_>, (classes, input): TaggedInput| {
            let first = input.encoding.first_tokens(own.text, own.words);
            first.into_iter().map(|first| first.map(|token| classes[token])).collect()
        };
        let found = texts.iter().zip(self.classes(&plain, long)?);
        Ok(found.map(|(own, found)| found.map(|found| words(own, found))).collect())
    }

    /// The most probable class of each token of each text.
    fn classes(&self, texts: &[&str], long: LongTexts) -> Result<Vec<Result<TaggedInput>>> {
        let encoder = &self.encoder;
        let n_labels = encoder.model.labels().len();
        encoder.run(encoder.read_all(texts, long), |pass, ids, rows| {
            let logits = encoder.model.token_logits(pass, ids)?;
            let probabilities = softmax(&Tape::inference(), &logits).value().to_host()?;
            let length = probabilities.shape()[1];
            let best = |(index, row): (usize, &&TextInput)| {
                let own = &probabilities.data()[index * length * n_labels..][..row.encoding.len() * n_labels];
                own.chunks_exact(n_labels).map(best).collect::<Vec<_>>()
            };
            Ok(rows.iter().enumerate().map(best).collect())
        })
    }

    /// The entities of a text whose tokens have these classes with their probabilities.
    pub fn entities(&self, text: &str, input: &TextInput, classes: &[ClassOfToken]) -> Vec<Entity> {
        let (mut words, mut own): (Vec<Range<usize>>, Vec<Option<ClassOfToken>>) = Default::default();
        let tokens = input.encoding.pieces.iter().zip(&input.encoding.offsets).zip(classes);
        for ((piece, range), class) in tokens {
            let range = trimmed(text, range);
            if range.is_empty() {
                continue;
            }
            match words.last_mut() {
                Some(word) if self.continues(text, word, (piece, &range)) => word.end = range.end,
                _ => {
                    words.push(range);
                    own.push(Some(*class));
                }
            }
        }
        merged(&words, own, self.encoder.model.labels())
    }

    /// True if a token continues the word before it.
    fn continues(&self, text: &str, word: &Range<usize>, (piece, range): (&str, &Range<usize>)) -> bool {
        if self.continues_with_hashes {
            return piece.starts_with("##");
        }
        let before = text[..word.end].chars().next_back();
        let touches = word.end >= range.start && before.is_some_and(char::is_alphanumeric);
        touches
            && text[range.clone()].starts_with(char::is_alphanumeric)
            && !piece.starts_with([WORD_MARK, BYTE_LEVEL_SPACE])
    }
}

/// The range without spaces at its ends.
fn trimmed(text: &str, range: &Range<usize>) -> Range<usize> {
    let own = &text[range.clone()];
    let start = range.start + (own.len() - own.trim_start().len());
    start..(start + own.trim().len())
}

/// The most probable class.
fn best(probabilities: &[f32]) -> (usize, f32) {
    let best =
        probabilities.iter().copied().enumerate().max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)));
    best.unwrap_or((0, 0.0))
}

/// The words of a text between white space.
fn words_of(text: &str) -> Vec<Range<usize>> {
    let start = |word: &str| word.as_ptr() as usize - text.as_ptr() as usize;
    text.split_whitespace().map(|word| start(word)..start(word) + word.len()).collect()
}

/// Words with their classes as entities.
fn merged(
    words: &[Range<usize>],
    classes: impl IntoIterator<Item = Option<ClassOfToken>>,
    labels: &[String],
) -> Vec<Entity> {
    let classes: Vec<Option<ClassOfToken>> = classes.into_iter().collect();
    let label =
        |class: &Option<ClassOfToken>| class.and_then(|(class, _)| labels.get(class)).map(String::as_str);
    let entity = |span: Span<'_>| {
        let own = &classes[span.words.clone()];
        let sum: f64 = own.iter().flatten().map(|(_, probability)| f64::from(*probability)).sum();
        let range = words[span.words.start].start..words[span.words.end - 1].end;
        Entity { label: span.label.to_owned(), range, probability: sum / own.len() as f64 }
    };
    spans(classes.iter().map(label)).into_iter().map(entity).collect()
}

impl Tagger {
    /// The types of the entities, without the prefixes of their scheme.
    ///
    /// # Errors
    /// If the model has none.
    pub fn types(&self) -> Result<Vec<&str>> {
        let mut found: Vec<&str> = Vec::new();
        for (name, _) in self.encoder.model.labels().iter().filter_map(|label| parse(label)) {
            if !found.contains(&name) {
                found.push(name);
            }
        }
        if found.is_empty() {
            let message = "a model whose only label is O, expected types of entities";
            return Err(Error::file(&self.encoder.folder, message, "check id2label in config.json"));
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entities_have_the_text_and_the_mean_probability_of_their_words() {
        let text = "Ada  Lovelace slept in\u{a0}London";
        let words = words_of(text);
        let labels = ["O", "B-PER", "I-PER"].map(str::to_owned);
        let classes = [(1, 0.5), (2, 1.0), (0, 0.9), (0, 0.8), (1, 0.25)].map(Some);
        let found: Vec<_> = merged(&words, classes, &labels)
            .into_iter()
            .map(|entity| (entity.label, text[entity.range].to_owned(), entity.probability))
            .collect();
        let is = |text: &str, probability: f64| ("PER".to_owned(), text.to_owned(), probability);
        assert_eq!(found, [is("Ada  Lovelace", 0.75), is("London", 0.25)]);
    }
}
