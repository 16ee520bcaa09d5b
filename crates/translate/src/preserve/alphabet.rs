//! The characters that a model can spell, and the placeholders among them.

use std::collections::HashSet;

use polyhead_engine::tokenizers::Tokenizers;
use polyhead_text::tokenizer::{Encoding, Tokenizer};

use crate::Result;
use crate::mask::PLACEHOLDERS;

/// The characters of a model's source vocabulary.
#[derive(Debug, Clone, Default)]
pub(crate) struct Alphabet {
    characters: HashSet<char>,
    /// Placeholders in both vocabularies; 0 for a model that was not trained with them.
    n_placeholders: usize,
}

impl Alphabet {
    /// Reads the first `rows` ids of the source vocabulary.
    pub(crate) fn of(tokenizers: &Tokenizers, rows: usize) -> Result<Self> {
        let mut n_placeholders = 0;
        for mark in PLACEHOLDERS {
            let text = mark.to_string();
            let sides = [
                (tokenizers.source().encode(&text)?, tokenizers.source()),
                (tokenizers.encode_target(&text)?, tokenizers.target()),
            ];
            let is_known = |(encoding, tokenizer): &(Encoding, &Tokenizer)| {
                let mut pieces = encoding.pieces.iter().zip(&encoding.ids);
                pieces.any(|(piece, id)| piece.contains(mark) && Some(*id) != tokenizer.unknown_id())
            };
            if !sides.iter().all(is_known) {
                break;
            }
            n_placeholders += 1;
        }
        if n_placeholders == 0 {
            return Ok(Self::default());
        }
        let pieces = (0..rows as u32).filter_map(|id| tokenizers.source().piece(id));
        // Names of special tokens and bytes spell no text.
        let spelling =
            pieces.filter(|piece| !(piece.len() > 2 && piece.starts_with('<') && piece.ends_with('>')));
        let characters = spelling.flat_map(|piece| piece.chars().collect::<Vec<_>>()).collect();
        Ok(Self { characters, n_placeholders })
    }

    /// The most placeholders in a sentence.
    pub(crate) fn n_placeholders(&self) -> usize {
        self.n_placeholders
    }

    /// True if the model can spell a character, as it is or normalised.
    pub(crate) fn has(&self, character: char, tokenizers: &Tokenizers) -> bool {
        if self.characters.contains(&character) {
            return true;
        }
        let Ok(encoding) = tokenizers.source().encode(&character.to_string()) else { return false };
        let unknown = tokenizers.source().unknown_id();
        let is_byte = |piece: &String| piece.len() == 6 && piece.starts_with("<0x");
        !encoding.ids.iter().any(|id| Some(*id) == unknown) && !encoding.pieces.iter().any(is_byte)
    }
}
