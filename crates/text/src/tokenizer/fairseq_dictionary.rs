//! A fairseq `dict.txt`: the pieces of a model, one `piece count` a line in the order of their ids (Ott et al. 2019).
//!
//! The ids 0 to 3 are `<s>`, `<pad>`, `</s>` and `<unk>` and stand in no line. A piece may contain spaces; the count is
//! what follows the last one. The flag `#fairseq:overwrite` after the count lets a piece replace an earlier one of the
//! same name; without it a second mention is an error.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;

use super::Encoding;
use super::subword_nmt::{self, SubwordNmt};
use crate::lines::Lines;
use crate::{Error, Result};

const SPECIAL: [&str; 4] = ["<s>", "<pad>", "</s>", "<unk>"];
const OVERWRITE: &str = "#fairseq:overwrite";

/// The pieces of a fairseq model.
#[derive(Debug, Clone)]
pub struct FairseqDictionary {
    pieces: Vec<String>,
    ids: HashMap<String, u32>,
}

impl FairseqDictionary {
    /// The id that begins a sentence.
    pub const BOS: u32 = 0;
    /// The id that fills up batches.
    pub const PAD: u32 = 1;
    /// The id that ends a sentence, and with which decoding starts.
    pub const EOS: u32 = 2;
    /// The id of pieces that are not in the dictionary.
    pub const UNK: u32 = 3;

    /// Reads a `dict.txt`.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let mut lines = Lines::open(path)?;
        let mut dictionary = Self {
            pieces: SPECIAL.map(str::to_owned).to_vec(),
            ids: SPECIAL.iter().zip(0..).map(|(piece, id)| ((*piece).to_owned(), id)).collect(),
        };
        while let Some(text) = lines.next_text()?.map(str::to_owned) {
            let Some((piece, overwrite)) = parse(&text) else {
                return Err(broken(&lines, subword_nmt::quoted(&text), "a piece, a space and its count"));
            };
            let id = dictionary.pieces.len() as u32;
            if let Some(first) = dictionary.ids.insert(piece.to_owned(), id)
                && !overwrite
            {
                let found = format!("{} again, which is already id {first}", subword_nmt::quoted(piece));
                return Err(broken(
                    &lines,
                    found,
                    "every piece only once, or #fairseq:overwrite after the count",
                ));
            }
            dictionary.pieces.push(piece.to_owned());
        }
        Ok(dictionary)
    }

    /// The pieces that `codes` cut `text` into, with their ids. `</s>` is not added.
    pub fn encode(&self, codes: &SubwordNmt, text: &str) -> Encoding {
        let mut encoding = Encoding::default();
        for subword in codes.segment(text) {
            // fairseq splits the joined pieces at any white space, so that a tab inside a word also separates.
            for part in words(&subword.piece) {
                let start = (subword.offsets.start + part.start).min(subword.offsets.end);
                let end = (subword.offsets.start + part.end).min(subword.offsets.end);
                self.push(&mut encoding, &subword.piece[part], start..end);
            }
        }
        encoding
    }

    /// The ids of a text that is already in pieces, separated by white space.
    pub fn encode_pieces(&self, text: &str) -> Encoding {
        let mut encoding = Encoding::default();
        for part in words(text) {
            self.push(&mut encoding, &text[part.clone()], part);
        }
        encoding
    }

    fn push(&self, encoding: &mut Encoding, piece: &str, span: Range<usize>) {
        encoding.push(self.id(piece).unwrap_or(Self::UNK), piece.to_owned(), span);
    }

    /// The text of `ids`: pieces joined by spaces, then `@@ ` removed; `<s>`, `<pad>` and `</s>` vanish.
    pub fn decode(&self, ids: &[u32]) -> Result<String> {
        let mut pieces = Vec::with_capacity(ids.len());
        for &id in ids {
            let piece = self
                .piece(id)
                .ok_or_else(|| Error::Unknown { found: format!("id {id}"), vocab_size: self.vocab_size() })?;
            if ![Self::BOS, Self::PAD, Self::EOS].contains(&id) {
                pieces.push(piece);
            }
        }
        Ok(subword_nmt::join(&pieces.join(" ")))
    }

    /// The piece of an id.
    pub fn piece(&self, id: u32) -> Option<&str> {
        self.pieces.get(id as usize).map(String::as_str)
    }

    /// The id of a piece.
    pub fn id(&self, piece: &str) -> Option<u32> {
        self.ids.get(piece).copied()
    }

    /// Number of pieces, the four special ones included.
    pub fn vocab_size(&self) -> usize {
        self.pieces.len()
    }
}

/// The piece of a line, and whether it may replace an earlier one.
fn parse(text: &str) -> Option<(&str, bool)> {
    let (piece, count) = text.trim_end_matches(is_space).rsplit_once(' ')?;
    let (piece, count, overwrite) = match count {
        OVERWRITE => piece.rsplit_once(' ').map(|(piece, count)| (piece, count, true))?,
        _ => (piece, count, false),
    };
    count.parse::<i64>().ok().map(|_| (piece, overwrite))
}

/// The runs of `text` without white space.
fn words(text: &str) -> impl Iterator<Item = Range<usize>> {
    let start_of = |part: &str| part.as_ptr() as usize - text.as_ptr() as usize;
    text.split(is_space)
        .filter(|part| !part.is_empty())
        .map(move |part| start_of(part)..start_of(part) + part.len())
}

/// White space as Python knows it: Unicode's, and four separators of ASCII.
fn is_space(character: char) -> bool {
    character.is_whitespace() || ('\x1c'..='\x1f').contains(&character)
}

fn broken(lines: &Lines, found: String, expected: &str) -> Error {
    Error::Format {
        path: lines.path().to_owned(),
        line: Some(lines.line()),
        found,
        expected: expected.into(),
        hint: "fairseq-preprocess writes such a file, called dict.<language>.txt".into(),
    }
}

/// `en` of `dict.en.txt`, as fairseq names its dictionaries; none for any other name.
pub fn dictionary_language(file_name: &str) -> Option<&str> {
    file_name.strip_prefix("dict.")?.strip_suffix(".txt")
}

/// Whether a file of this name holds the codes of subword-nmt; `bpecodes`, `bpe.code`, `en.codes` are usual.
pub fn is_codes(file_name: &str) -> bool {
    let (stem, ending) = file_name.rsplit_once('.').unwrap_or(("", file_name));
    matches!(ending, "code" | "codes" | "bpecodes") || (stem.is_empty() && file_name.starts_with("bpe_code"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_dictionaries_are_known_by_name() {
        for name in ["bpe.code", "bpecodes", "codes", "en.codes", "bpe_codes"] {
            assert!(is_codes(name), "{name}");
        }
        for name in ["model.safetensors", "decode.py", "codes.txt", "README.md"] {
            assert!(!is_codes(name), "{name}");
        }
        assert_eq!(dictionary_language("dict.en.txt"), Some("en"));
        assert_eq!(dictionary_language("dictionary.txt"), None);
    }
}
