//! SentencePiece models (Kudo and Richardson 2018), read from their `.spm` or `.model` file without the C++ library.
//!
//! Encoding: normalise (`normalizer`), segment into pieces (`unigram`, `bpe`, `words`), merge adjacent unknown pieces
//! into one or, with byte fallback, spell them in bytes. Pieces, ids and spans are those of the `sentencepiece`
//! package, except that each byte of a character has the span of the whole character.
//!
//! A Marian folder takes the ids from a separate `vocab.json`: see [`MarianVocabulary`].

mod bpe;
mod charsmap;
mod decode;
mod marian_vocabulary;
mod normalizer;
mod proto;
mod trie;
mod unigram;
mod words;
pub mod xlm_roberta;

use std::collections::HashMap;
use std::path::Path;

pub use marian_vocabulary::MarianVocabulary;
pub use proto::{ModelType, PieceKind};

use self::bpe::Bpe;
use self::normalizer::{Normalizer, Whitespace};
use self::proto::{FormatError, ModelProto, Piece};
use self::trie::Trie;
use self::unigram::Unigram;
use super::Encoding;
use crate::{Error, Result};

/// Exclusive limit of the length of a piece in SentencePiece, in bytes.
const MAX_PIECE_BYTES: usize = 8000;

/// A SentencePiece model.
///
/// ```no_run
/// let model = polyhead_text::tokenizer::sentencepiece::SentencePiece::load("source.spm")?;
/// let encoding = model.encode("Je suis étudiant");
/// assert_eq!(model.decode(&encoding.ids)?, "Je suis étudiant");
/// # Ok::<(), polyhead_text::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct SentencePiece {
    pieces: Vec<Piece>,
    ids: HashMap<String, u32>,
    segmenter: Segmenter,
    model_type: ModelType,
    normalizer: Normalizer,
    normalizer_name: String,
    denormalizer: Option<Normalizer>,
    byte_ids: Option<Vec<u32>>,
    unk_surface: String,
    unk: u32,
    bos: Option<u32>,
    eos: Option<u32>,
    pad: Option<u32>,
}

#[derive(Debug, Clone)]
enum Segmenter {
    Unigram(Unigram),
    Bpe(Bpe),
    Word(Trie),
    Char(Trie),
}

/// A piece of the normalised text: its end in bytes (it starts at the end of the previous one) and its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Segment {
    end: usize,
    id: u32,
}

impl SentencePiece {
    /// Reads a model file.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let bytes = crate::whole::read(path, crate::whole::MAX_TABLE)
            .map_err(|error| Error::io(path, "read", error))?;
        Self::from_bytes(&bytes, path)
    }

    /// Reads a model from memory; `name` replaces the path in error messages.
    pub fn from_bytes(bytes: &[u8], name: impl AsRef<Path>) -> Result<Self> {
        Self::parse(bytes).map_err(|(found, expected)| Error::Format {
            path: name.as_ref().to_owned(),
            line: None,
            found,
            expected,
            hint: hint(bytes),
        })
    }

    fn parse(bytes: &[u8]) -> std::result::Result<Self, FormatError> {
        if bytes.is_empty() {
            return Err(("an empty file".into(), "a SentencePiece model".into()));
        }
        let model = ModelProto::parse(bytes)?;
        let (ids, unk) = index(&model.pieces)?;
        let byte_ids = byte_ids(&model)?;
        let trainer = &model.trainer;
        let segmenter = match trainer.model_type {
            ModelType::Unigram => Segmenter::Unigram(Unigram::new(&model.pieces, unk)),
            ModelType::Bpe => Segmenter::Bpe(Bpe::new(&model.pieces, unk)),
            ModelType::Word => Segmenter::Word(text_trie(&model.pieces)),
            ModelType::Char => Segmenter::Char(text_trie(&model.pieces)),
        };
        let whitespace =
            if trainer.treat_whitespace_as_suffix { Whitespace::Suffix } else { Whitespace::Prefix };
        let symbols = model.pieces.iter().filter(|piece| piece.kind == PieceKind::UserDefined);
        let normalizer =
            Normalizer::new(&model.normalizer, whitespace, symbols.map(|piece| piece.text.as_str()))?;
        let denormalizer = match &model.denormalizer {
            Some(spec) if !spec.precompiled_charsmap.is_empty() => {
                Some(Normalizer::new(spec, Whitespace::Prefix, std::iter::empty())?)
            }
            _ => None,
        };
        let control = |name: &str| {
            ids.get(name).copied().filter(|&id: &u32| model.pieces[id as usize].kind == PieceKind::Control)
        };
        let (bos, eos, pad) =
            (control(&trainer.bos_piece), control(&trainer.eos_piece), control(&trainer.pad_piece));
        Ok(Self {
            ids,
            segmenter,
            model_type: trainer.model_type,
            normalizer,
            normalizer_name: model.normalizer.name,
            denormalizer,
            byte_ids,
            unk_surface: model.trainer.unk_surface,
            unk,
            bos,
            eos,
            pad,
            pieces: model.pieces,
        })
    }

    /// The pieces of `text`. If a character became several pieces, all but the last have an empty span, except that
    /// byte pieces all have the span of the character.
    pub fn encode(&self, text: &str) -> Encoding {
        let mut origins = Vec::with_capacity(text.len() + text.len() / 2 + 8);
        let normalized = self.normalizer.normalize(text, &mut origins);
        let mut encoding = Encoding::default();
        let mut start = 0;
        let mut after_unknown = false;
        for Segment { end, id } in self.segment(&normalized) {
            let piece = &normalized[start..end];
            let span = origins[start]..origins[end];
            let unknown = id == self.unk;
            match (&self.byte_ids, encoding.pieces.last_mut(), encoding.offsets.last_mut()) {
                (Some(byte_ids), ..) if unknown => {
                    for byte in piece.bytes() {
                        let id = byte_ids[usize::from(byte)];
                        encoding.push(id, self.pieces[id as usize].text.clone(), span.clone());
                    }
                }
                (None, Some(last), Some(offsets)) if unknown && after_unknown => {
                    last.push_str(piece);
                    offsets.end = span.end;
                }
                _ => encoding.push(id, piece.to_owned(), span),
            }
            after_unknown = unknown;
            start = end;
        }
        encoding
    }

    /// The ids of [`Self::encode`] alone; faster.
    pub fn encode_ids(&self, text: &str) -> Vec<u32> {
        let normalized = self.normalizer.normalize(text, &mut ());
        let segments = self.segment(&normalized);
        let mut ids = Vec::with_capacity(segments.len());
        let mut start = 0;
        let mut after_unknown = false;
        for Segment { end, id } in segments {
            let unknown = id == self.unk;
            match &self.byte_ids {
                Some(byte_ids) if unknown => {
                    ids.extend(normalized[start..end].bytes().map(|byte| byte_ids[usize::from(byte)]));
                }
                None if unknown && after_unknown => {}
                _ => ids.push(id),
            }
            after_unknown = unknown;
            start = end;
        }
        ids
    }

    /// The normalised text, with `▁` for spaces.
    pub fn normalize(&self, text: &str) -> String {
        self.normalizer.normalize(text, &mut ())
    }

    /// Piece of an id.
    pub fn piece(&self, id: u32) -> Option<&str> {
        self.pieces.get(id as usize).map(|piece| piece.text.as_str())
    }

    /// Kind of an id's piece.
    pub fn kind(&self, id: u32) -> Option<PieceKind> {
        self.pieces.get(id as usize).map(|piece| piece.kind)
    }

    /// Log probability of a unigram piece, or minus the rank of a BPE piece.
    pub fn score(&self, id: u32) -> Option<f32> {
        self.pieces.get(id as usize).map(|piece| piece.score)
    }

    /// Id of a piece.
    pub fn id(&self, piece: &str) -> Option<u32> {
        self.ids.get(piece).copied()
    }

    /// Number of pieces.
    pub fn vocab_size(&self) -> usize {
        self.pieces.len()
    }

    /// Segmentation algorithm of the model.
    pub fn model_type(&self) -> ModelType {
        self.model_type
    }

    /// Name of the normalisation rules: `nmt_nfkc`, `identity` and so on; empty if the file has none.
    pub fn normalizer_name(&self) -> &str {
        &self.normalizer_name
    }

    /// Id of the unknown piece.
    pub fn unk_id(&self) -> Option<u32> {
        Some(self.unk)
    }

    /// Id of the beginning of a sentence.
    pub fn bos_id(&self) -> Option<u32> {
        self.bos
    }

    /// Id of the end of a sentence.
    pub fn eos_id(&self) -> Option<u32> {
        self.eos
    }

    /// Id of padding.
    pub fn pad_id(&self) -> Option<u32> {
        self.pad
    }

    fn segment(&self, normalized: &str) -> Vec<Segment> {
        match &self.segmenter {
            Segmenter::Unigram(model) => model.segment(normalized),
            Segmenter::Bpe(model) => model.segment(normalized, &self.normalizer),
            Segmenter::Word(pieces) => words::words(pieces, self.unk, normalized),
            Segmenter::Char(pieces) => words::characters(pieces, self.unk, normalized, &self.normalizer),
        }
    }
}

/// Ids of all pieces, and the id of the unknown piece.
fn index(pieces: &[Piece]) -> std::result::Result<(HashMap<String, u32>, u32), FormatError> {
    let mut ids = HashMap::with_capacity(pieces.len());
    let mut unknown = None;
    for (piece, id) in pieces.iter().zip(0..) {
        if piece.text.is_empty() || piece.text.len() >= MAX_PIECE_BYTES || piece.text.contains('\0') {
            return Err((
                format!("piece {id} of {} bytes", piece.text.len()),
                format!("1 to {} bytes without NUL", MAX_PIECE_BYTES - 1),
            ));
        }
        if let Some(first) = ids.insert(piece.text.clone(), id) {
            return Err((
                format!("piece {:?} as id {first} and as id {id}", piece.text),
                "every piece only once".into(),
            ));
        }
        if piece.kind == PieceKind::Unknown
            && let Some(first) = unknown.replace(id)
        {
            return Err((format!("two unknown pieces, ids {first} and {id}"), "one".into()));
        }
    }
    match unknown {
        Some(unknown) => Ok((ids, unknown)),
        None => Err((
            format!("{} pieces without an unknown one", pieces.len()),
            "a SentencePiece model with one piece of type UNKNOWN".into(),
        )),
    }
}

/// Id of each byte; `None` without byte fallback.
fn byte_ids(model: &ModelProto) -> std::result::Result<Option<Vec<u32>>, FormatError> {
    let mut found = vec![None; 256];
    for (piece, id) in model.pieces.iter().zip(0_u32..).filter(|(piece, _)| piece.kind == PieceKind::Byte) {
        match decode::byte_of(&piece.text) {
            Some(byte) if model.trainer.byte_fallback => found[usize::from(byte)] = Some(id),
            Some(_) => {
                return Err((
                    format!("byte piece {:?} with byte_fallback off", piece.text),
                    "no byte pieces".into(),
                ));
            }
            None => return Err((format!("byte piece {:?}", piece.text), "<0x00> to <0xFF>".into())),
        }
    }
    if !model.trainer.byte_fallback {
        return Ok(None);
    }
    let count = found.iter().flatten().count();
    let all: Option<Vec<u32>> = found.into_iter().collect();
    all.map(Some).ok_or_else(|| (format!("byte_fallback with {count} byte pieces"), "256 byte pieces".into()))
}

/// Trie of the pieces that text can contain, unused ones included.
fn text_trie(pieces: &[Piece]) -> Trie {
    use PieceKind::{Normal, Unused, UserDefined};
    Trie::new(
        pieces
            .iter()
            .zip(0..)
            .filter(|(piece, _)| matches!(piece.kind, Normal | UserDefined | Unused))
            .map(|(piece, id)| (piece.text.as_str(), id)),
    )
}

/// Length in bytes of the UTF-8 character that begins with `first`.
#[inline]
fn char_len(first: u8) -> usize {
    match first {
        0..0x80 => 1,
        0x80..0xe0 => 2,
        0xe0..0xf0 => 3,
        _ => 4,
    }
}

/// Hint for a malformed file, from its first bytes.
fn hint(bytes: &[u8]) -> String {
    let text = bytes.first().is_some_and(|&byte| matches!(byte, b'{' | b'<' | b'#'));
    if bytes.starts_with(b"version https://git-lfs") {
        "this is a Git LFS pointer; fetch the real file with: git lfs pull".into()
    } else if bytes.starts_with(&[0x1f, 0x8b]) {
        "this is gzip; unpack it first with: gunzip".into()
    } else if text {
        "this looks like text; a SentencePiece model is binary and usually named source.spm, target.spm or \
         tokenizer.model"
            .into()
    } else {
        "if it is a SentencePiece model, it may be cut short: fetch it again and compare its size".into()
    }
}
