//! Token classification: entities in a text, such as names.
//!
//! The class of a word is that of its first token. Classes in the scheme B-, I-, O (Ramshaw & Marcus 1995), or its variants with
//! E-, L-, S- and U-, are merged to entities: one begins with B-, S- or U-, or where the type changes, and ends with E-, L-, S- or
//! U-. A class without such a prefix is a type, and adjacent words of one type are one entity. O and words without a class are
//! outside.

use std::ops::Range;
use std::path::Path;

use polyhead_models::encoder::EncoderHead;
use polyhead_tensor::Tape;
use polyhead_tensor::ops::softmax::softmax;
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

/// The position of a word in an entity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Begin,
    Inside,
    End,
    Single,
}

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
        let encoder = &self.encoder;
        let n_labels = encoder.model.labels().len();
        let found = encoder.run(encoder.read_all(texts, long), |pass, ids, rows| {
            let logits = encoder.model.token_logits(pass, ids)?;
            let probabilities = softmax(&Tape::inference(), &logits).value().to_host()?;
            let length = probabilities.shape()[1];
            let best = |(index, row): (usize, &&TextInput)| {
                let own = &probabilities.data()[index * length * n_labels..][..row.encoding.len() * n_labels];
                own.chunks_exact(n_labels).map(best).collect::<Vec<_>>()
            };
            Ok(rows.iter().enumerate().map(best).collect())
        })?;
        let tag = |text: &str, classes: &[_], input: &TextInput| TaggedText {
            entities: self.entities(text, input, classes),
            cut_from: input.cut_from,
        };
        let tagged = texts
            .iter()
            .zip(found)
            .map(|(text, found)| found.map(|(classes, input)| tag(text, &classes, &input)));
        Ok(tagged.collect())
    }

    /// The entities of a text whose tokens have these classes with their probabilities.
    pub fn entities(&self, text: &str, input: &TextInput, classes: &[(usize, f32)]) -> Vec<Entity> {
        let mut words: Vec<(Range<usize>, usize, f32)> = Vec::new();
        let tokens = input.encoding.pieces.iter().zip(&input.encoding.offsets).zip(classes);
        for ((piece, range), (class, probability)) in tokens {
            let range = trimmed(text, range);
            if range.is_empty() {
                continue;
            }
            match words.last_mut() {
                Some((word, ..)) if self.continues(text, word, (piece, &range)) => word.end = range.end,
                _ => words.push((range, *class, *probability)),
            }
        }
        merged(&words, self.encoder.model.labels())
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

/// Type and place of a class; `None` for O.
fn parsed(label: &str) -> Option<(&str, Option<Place>)> {
    if label == "O" {
        return None;
    }
    let place = |letter: &str| match letter {
        "B" => Some(Place::Begin),
        "I" | "M" => Some(Place::Inside),
        "E" | "L" => Some(Place::End),
        "S" | "U" => Some(Place::Single),
        _ => None,
    };
    match label.split_once(['-', '_']) {
        Some((letter, name)) if place(letter).is_some() => Some((name, place(letter))),
        _ => Some((label, None)),
    }
}

/// Words with their classes as entities.
fn merged(words: &[(Range<usize>, usize, f32)], labels: &[String]) -> Vec<Entity> {
    let mut found: Vec<(Entity, usize)> = Vec::new();
    // True if the next word may continue the last entity.
    let mut is_open = false;
    for (range, class, probability) in words {
        let Some((name, place)) = labels.get(*class).and_then(|label| parsed(label)) else {
            is_open = false;
            continue;
        };
        let begins = matches!(place, Some(Place::Begin | Place::Single));
        match found.last_mut() {
            Some((entity, n_words)) if is_open && !begins && entity.label == name => {
                entity.range.end = range.end;
                entity.probability += f64::from(*probability);
                *n_words += 1;
            }
            _ => {
                let probability = f64::from(*probability);
                found.push((Entity { label: name.to_owned(), range: range.clone(), probability }, 1));
            }
        }
        is_open = !matches!(place, Some(Place::End | Place::Single));
    }
    let mean = |(entity, n_words): (Entity, usize)| {
        let probability = entity.probability / n_words as f64;
        Entity { probability, ..entity }
    };
    found.into_iter().map(mean).collect()
}

impl Tagger {
    /// The types of the entities, without the prefixes of their scheme.
    ///
    /// # Errors
    /// If the model has none.
    pub fn types(&self) -> Result<Vec<&str>> {
        let mut found: Vec<&str> = Vec::new();
        for (name, _) in self.encoder.model.labels().iter().filter_map(|label| parsed(label)) {
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

    fn found(labels: &[&str], classes: &[usize]) -> Vec<(String, Range<usize>)> {
        let words: Vec<_> = classes
            .iter()
            .enumerate()
            .map(|(index, class)| (2 * index..2 * index + 1, *class, 0.5))
            .collect();
        let labels: Vec<String> = labels.iter().map(|&label| label.to_owned()).collect();
        merged(&words, &labels).into_iter().map(|entity| (entity.label, entity.range)).collect()
    }

    #[test]
    fn schemes_are_merged_to_entities() {
        let bio = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"];
        let is = |label: &str, range: Range<usize>| (label.to_owned(), range);
        assert_eq!(found(&bio, &[1, 2, 0, 3, 3]), [is("PER", 0..3), is("LOC", 6..7), is("LOC", 8..9)]);
        // An entity that begins with I-, and a change of the type.
        assert_eq!(found(&bio, &[2, 2, 4, 0]), [is("PER", 0..3), is("LOC", 4..5)]);
        let bioes = ["O", "B-X", "I-X", "E-X", "S-X"];
        assert_eq!(
            found(&bioes, &[1, 2, 3, 3, 4, 4]),
            [is("X", 0..5), is("X", 6..7), is("X", 8..9), is("X", 10..11)]
        );
        assert_eq!(
            found(&["O", "NOUN", "T-SHIRT"], &[1, 1, 2, 0, 1]),
            [is("NOUN", 0..3), is("T-SHIRT", 4..5), is("NOUN", 8..9)]
        );
    }
}
