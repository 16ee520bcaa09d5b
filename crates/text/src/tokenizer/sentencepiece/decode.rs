//! Decoding as in SentencePiece: control pieces are dropped, `▁` becomes a space, the one that the normaliser inserted
//! in front is removed, an unknown piece becomes the model's `unk_surface`, and runs of byte pieces become characters,
//! with U+FFFD for each invalid byte.

use super::SentencePiece;
use super::normalizer::SPACE;
use super::proto::PieceKind;
use crate::{Error, Result};

impl SentencePiece {
    /// The text of `ids`.
    pub fn decode(&self, ids: &[u32]) -> Result<String> {
        let mut decoder = Decoder::new(self);
        for &id in ids {
            let piece =
                self.pieces.get(id as usize).ok_or_else(|| Error::unknown_id(id, self.pieces.len()))?;
            decoder.push(&piece.text, Some(id));
        }
        Ok(decoder.finish())
    }

    /// The text of `pieces`; one that is not in the vocabulary is copied.
    pub fn decode_pieces<'a>(&self, pieces: impl IntoIterator<Item = &'a str>) -> String {
        let mut decoder = Decoder::new(self);
        for piece in pieces {
            decoder.push(piece, self.id(piece));
        }
        decoder.finish()
    }
}

struct Decoder<'a> {
    model: &'a SentencePiece,
    text: String,
    /// Bytes not yet turned into characters.
    bytes: Vec<u8>,
    /// True while a `▁` may be the one inserted in front of the text.
    at_start: bool,
    start_seen: bool,
}

impl<'a> Decoder<'a> {
    fn new(model: &'a SentencePiece) -> Self {
        Self { model, text: String::new(), bytes: Vec::new(), at_start: true, start_seen: false }
    }

    fn push(&mut self, piece: &str, id: Option<u32>) {
        let kind = id.map_or(PieceKind::Unknown, |id| self.model.pieces[id as usize].kind);
        if kind == PieceKind::Byte
            && let Some(byte) = byte_of(piece)
        {
            self.bytes.push(byte);
            return;
        }
        self.flush_bytes();
        if self.start_seen || !self.text.is_empty() {
            self.at_start = false;
        }
        self.start_seen = false;
        match kind {
            PieceKind::Control => {}
            PieceKind::Unknown if id.is_some() => self.text.push_str(&self.model.unk_surface),
            PieceKind::Unknown => self.text.push_str(piece),
            _ => self.push_text(piece),
        }
    }

    fn push_text(&mut self, piece: &str) {
        let normalizer = &self.model.normalizer;
        let mut piece = piece;
        if self.at_start
            && (normalizer.adds_dummy() || normalizer.removes_extra())
            && let Some(rest) = piece.strip_prefix(SPACE)
        {
            piece = rest;
            // If extra spaces are removed, the next piece may lose its `▁` too.
            self.start_seen = !normalizer.removes_extra();
        }
        let mut parts = piece.split(SPACE);
        self.text.push_str(parts.next().unwrap_or_default());
        for part in parts {
            self.text.push(' ');
            self.text.push_str(part);
        }
    }

    fn flush_bytes(&mut self) {
        let mut rest = self.bytes.as_slice();
        while !rest.is_empty() {
            let (valid, invalid) = match std::str::from_utf8(rest) {
                Ok(text) => (text.len(), false),
                Err(error) => (error.valid_up_to(), true),
            };
            self.text.push_str(std::str::from_utf8(&rest[..valid]).expect("checked above"));
            if invalid {
                self.text.push('\u{fffd}');
            }
            rest = &rest[(valid + usize::from(invalid)).min(rest.len())..];
        }
        self.bytes.clear();
    }

    fn finish(mut self) -> String {
        self.flush_bytes();
        match &self.model.denormalizer {
            Some(denormalizer) => denormalizer.normalize(&self.text, &mut ()),
            None => self.text,
        }
    }
}

/// The byte of a piece such as `<0xE2>`; the digits must be upper case.
pub(crate) fn byte_of(piece: &str) -> Option<u8> {
    let digits = piece.strip_prefix("<0x")?.strip_suffix('>')?;
    let upper = digits.bytes().all(|digit| digit.is_ascii_digit() || (b'A'..=b'F').contains(&digit));
    (digits.len() == 2 && upper).then(|| u8::from_str_radix(digits, 16).ok()).flatten()
}
