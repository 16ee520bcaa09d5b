//! The `vocab.json` of a Marian or OPUS-MT folder: piece → id, shared by `source.spm` and `target.spm`.
//!
//! The two SentencePiece models only segment text; the ids are those of `vocab.json`. A text for a multilingual model
//! begins with a tag such as `>>tur<<`, which is an entry of `vocab.json` but not a piece of the models.

use std::collections::HashMap;
use std::path::Path;

use super::SentencePiece;
use crate::tokenizer::Encoding;
use crate::{Error, Result};

const UNKNOWN: &str = "<unk>";
const SPECIAL: [&str; 3] = ["</s>", UNKNOWN, "<pad>"];

/// Ids of pieces, from `vocab.json`.
#[derive(Debug, Clone)]
pub struct MarianVocabulary {
    ids: HashMap<String, u32>,
    pieces: HashMap<u32, String>,
    unk: u32,
}

impl MarianVocabulary {
    /// Reads `{"piece": id, …}`.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let bytes = crate::whole::read(path, crate::whole::MAX_TABLE)
            .map_err(|error| Error::io(path, "read", error))?;
        Self::from_bytes(&bytes, path)
    }

    /// Reads `{"piece": id, …}` from memory; `name` replaces the path in error messages.
    pub fn from_bytes(bytes: &[u8], name: impl AsRef<Path>) -> Result<Self> {
        let malformed = |line: Option<u64>, found: String, expected: &str| Error::Format {
            path: name.as_ref().to_owned(),
            line,
            found,
            expected: expected.into(),
            hint:
                "vocab.json of a Marian folder maps every piece to its id; check that this is the right file"
                    .into(),
        };
        let ids: HashMap<String, u32> = serde_json::from_slice(bytes).map_err(|error| {
            malformed(Some(error.line() as u64), error.to_string(), "a JSON object of pieces and their ids")
        })?;
        let Some(&unk) = ids.get(UNKNOWN) else {
            return Err(malformed(
                None,
                format!("{} pieces without {UNKNOWN}", ids.len()),
                "an entry for it",
            ));
        };
        let pieces: HashMap<u32, String> = ids.iter().map(|(piece, &id)| (id, piece.clone())).collect();
        if pieces.len() < ids.len() {
            let found = format!("{} pieces with {} ids", ids.len(), pieces.len());
            return Err(malformed(None, found, "a distinct id for every piece"));
        }
        Ok(Self { ids, pieces, unk })
    }

    /// The pieces into which `model` segments `text`, with the ids of this vocabulary; `<unk>` for pieces without an
    /// entry. A tag in front (`>>tur<<`) is one piece.
    pub fn encode(&self, model: &SentencePiece, text: &str) -> Encoding {
        let (tag, rest) = split_tag(text);
        let skipped = text.len() - rest.len();
        let mut encoding = Encoding::default();
        if let Some(tag) = tag {
            encoding.push(self.id(tag).unwrap_or(self.unk), tag.to_owned(), 0..skipped);
        }
        let rest = model.encode(rest);
        encoding.ids.extend(rest.pieces.iter().map(|piece| self.id(piece).unwrap_or(self.unk)));
        encoding.pieces.extend(rest.pieces);
        encoding.offsets.extend(rest.offsets.iter().map(|span| span.start + skipped..span.end + skipped));
        encoding
    }

    /// The text of `ids`, without `</s>`, `<pad>` and `<unk>`.
    pub fn decode(&self, model: &SentencePiece, ids: &[u32]) -> Result<String> {
        let pieces =
            ids.iter().map(|&id| self.piece(id).ok_or_else(|| Error::unknown_id(id, self.vocab_size())));
        let pieces: Vec<&str> = pieces.collect::<Result<_>>()?;
        let text = model.decode_pieces(pieces.into_iter().filter(|piece| !SPECIAL.contains(piece)));
        Ok(text.replace('\u{2581}', " ").trim().to_owned())
    }

    /// Id of a piece.
    pub fn id(&self, piece: &str) -> Option<u32> {
        self.ids.get(piece).copied()
    }

    /// Piece of an id.
    pub fn piece(&self, id: u32) -> Option<&str> {
        self.pieces.get(&id).map(String::as_str)
    }

    /// Number of pieces.
    pub fn vocab_size(&self) -> usize {
        self.ids.len()
    }

    /// Id of pieces without an entry.
    pub fn unk_id(&self) -> u32 {
        self.unk
    }
}

/// The language tag at the start of `text`, if any, and the rest. A tag is `>>`, a name without white space, `<<`.
fn split_tag(text: &str) -> (Option<&str>, &str) {
    let tag = text.strip_prefix(">>").and_then(|rest| rest.split_once("<<")).map(|(name, _)| name);
    match tag {
        Some(name) if !name.is_empty() && !name.contains(char::is_whitespace) => {
            let (tag, rest) = text.split_at(name.len() + 4);
            (Some(tag), rest)
        }
        _ => (None, text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_tag_in_front_is_split_off() {
        assert_eq!(split_tag(">>tur<< Hello"), (Some(">>tur<<"), " Hello"));
        assert_eq!(split_tag(">>cmn_Hans<<x"), (Some(">>cmn_Hans<<"), "x"));
        for text in ["", ">>", ">><<", ">>a b<<", " >>tur<< Hello", "a >>tur<<", ">>tur"] {
            assert_eq!(split_tag(text), (None, text));
        }
    }

    #[test]
    fn a_malformed_vocabulary_is_named() {
        for (text, found) in [
            ("", "vocab.json:1: EOF"),
            ("[1]", "vocab.json:1: invalid type: sequence"),
            ("{\n\"a\": -1}", "vocab.json:2: invalid value: integer `-1`"),
            ("{\"a\": 0}", "vocab.json: 1 pieces without <unk>, expected an entry for it"),
            ("{\"a\": 0, \"<unk>\": 0}", "vocab.json: 2 pieces with 1 ids"),
        ] {
            let error = MarianVocabulary::from_bytes(text.as_bytes(), "vocab.json").unwrap_err().to_string();
            assert!(error.starts_with(found), "{error}");
        }
    }
}
