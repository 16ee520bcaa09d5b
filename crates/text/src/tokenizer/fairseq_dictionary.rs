//! A fairseq `dict.txt` (Ott et al. 2019): the vocabulary of a model, one `token count` per line in id order.
//!
//! The ids 0 to 3 are `<s>`, `<pad>`, `</s>` and `<unk>` and have no line. A token may contain spaces; the count
//! follows the last one. The flag `#fairseq:overwrite` after the count lets a token replace an earlier one of the same
//! name; without it a repeated token is an error.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;

use super::Encoding;
use super::subword_nmt::{self, SubwordNmt};
use crate::lines::Lines;
use crate::metrics::tokenize::is_space;
use crate::{Error, Result};

const SPECIAL: [&str; 4] = ["<s>", "<pad>", "</s>", "<unk>"];
const OVERWRITE: &str = "#fairseq:overwrite";

/// Vocabulary of a fairseq model.
#[derive(Debug, Clone)]
pub struct FairseqDictionary {
    pieces: Vec<String>,
    ids: HashMap<String, u32>,
}

impl FairseqDictionary {
    /// Id of the beginning of a sentence.
    pub const BOS: u32 = 0;
    /// Id of padding.
    pub const PAD: u32 = 1;
    /// Id of the end of a sentence; decoding starts with it.
    pub const EOS: u32 = 2;
    /// Id of tokens that are not in the dictionary.
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
                return Err(malformed(&lines, subword_nmt::quoted(&text), "a token, a space and its count"));
            };
            let id = dictionary.pieces.len() as u32;
            if let Some(first) = dictionary.ids.insert(piece.to_owned(), id)
                && !overwrite
            {
                let found = format!("{} again, which is already id {first}", subword_nmt::quoted(piece));
                return Err(malformed(
                    &lines,
                    found,
                    "every token only once, or #fairseq:overwrite after the count",
                ));
            }
            dictionary.pieces.push(piece.to_owned());
        }
        Ok(dictionary)
    }

    /// The tokens into which `codes` segments `text`, with their ids. `</s>` is not added.
    pub fn encode(&self, codes: &SubwordNmt, text: &str) -> Encoding {
        let mut encoding = Encoding::default();
        for subword in codes.segment(text) {
            // fairseq splits the joined tokens at any white space, so that a tab inside a word also separates.
            for part in words(&subword.piece) {
                let start = (subword.offsets.start + part.start).min(subword.offsets.end);
                let end = (subword.offsets.start + part.end).min(subword.offsets.end);
                self.push(&mut encoding, &subword.piece[part], start..end);
            }
        }
        encoding
    }

    /// The ids of segmented text: tokens separated by white space.
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

    /// The text of `ids`: tokens joined by spaces, then `@@ ` removed, without `<s>`, `<pad>` and `</s>`.
    pub fn decode(&self, ids: &[u32]) -> Result<String> {
        let mut pieces = Vec::with_capacity(ids.len());
        for &id in ids {
            let piece = self.piece(id).ok_or_else(|| Error::unknown_id(id, self.vocab_size()))?;
            if ![Self::BOS, Self::PAD, Self::EOS].contains(&id) {
                pieces.push(piece);
            }
        }
        Ok(subword_nmt::join(&pieces.join(" ")))
    }

    /// Token of an id.
    pub fn piece(&self, id: u32) -> Option<&str> {
        self.pieces.get(id as usize).map(String::as_str)
    }

    /// Id of a token.
    pub fn id(&self, piece: &str) -> Option<u32> {
        self.ids.get(piece).copied()
    }

    /// Number of tokens, the four special ones included.
    pub fn vocab_size(&self) -> usize {
        self.pieces.len()
    }
}

/// The token of a line, and true if it may replace an earlier one.
fn parse(text: &str) -> Option<(&str, bool)> {
    let (piece, count) = text.trim_end_matches(is_space).rsplit_once(' ')?;
    let (piece, count, overwrite) = match count {
        OVERWRITE => piece.rsplit_once(' ').map(|(piece, count)| (piece, count, true))?,
        _ => (piece, count, false),
    };
    count.parse::<i64>().ok().map(|_| (piece, overwrite))
}

/// Byte ranges of the words of `text` between white space.
fn words(text: &str) -> impl Iterator<Item = Range<usize>> {
    let start_of = |part: &str| part.as_ptr() as usize - text.as_ptr() as usize;
    text.split(is_space)
        .filter(|part| !part.is_empty())
        .map(move |part| start_of(part)..start_of(part) + part.len())
}

fn malformed(lines: &Lines, found: String, expected: &str) -> Error {
    Error::Format {
        path: lines.path().to_owned(),
        line: Some(lines.line()),
        found,
        expected: expected.into(),
        hint: "fairseq-preprocess writes such files as dict.<language>.txt".into(),
    }
}

/// The language of a dictionary's file name: `en` for `dict.en.txt`; `None` for other names.
pub fn dictionary_language(file_name: &str) -> Option<&str> {
    file_name.strip_prefix("dict.")?.strip_suffix(".txt")
}

/// True if a file of this name holds subword-nmt codes: `bpecodes`, `bpe.code`, `en.codes`.
pub fn is_codes(file_name: &str) -> bool {
    let (stem, ending) = file_name.rsplit_once('.').unwrap_or(("", file_name));
    matches!(ending, "code" | "codes" | "bpecodes") || (stem.is_empty() && file_name.starts_with("bpe_code"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_dictionaries_are_detected_by_name() {
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
