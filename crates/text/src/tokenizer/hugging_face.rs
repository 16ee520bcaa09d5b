//! Tokenisers in Hugging Face's `tokenizer.json` form, trained here or elsewhere.
//!
//! Special tokens inside a text are text: `encode("</s>")` never yields the end of a sentence. Ids of special tokens are
//! put in by the caller, by [`HuggingFace::id`], or by the file's own template with [`HuggingFace::encode_with_special`].

use std::path::Path;

use tokenizers::decoders::DecoderWrapper;
use tokenizers::decoders::byte_fallback::ByteFallback;
use tokenizers::decoders::fuse::Fuse;
use tokenizers::decoders::sequence::Sequence as DecoderSequence;
use tokenizers::decoders::strip::Strip;
use tokenizers::models::bpe::BPE;
use tokenizers::normalizers::Replace;
use tokenizers::processors::template::TemplateProcessing;
use tokenizers::{AddedToken, ModelWrapper, NormalizedString, Normalizer as _};

use super::Encoding;
use super::dropout::{Dropout, MergeTable};
use super::guard::{check_ids, check_rules, without_panic};
use super::normalization::{Normalization, WORD_MARK};
use super::special::SpecialTokens;
use super::words::Split;
use crate::output::Output;
use crate::{Error, Result};

type Inner = tokenizers::Tokenizer;
type Foreign = Box<dyn std::error::Error + Send + Sync>;

/// A tokeniser read from, or written to, `tokenizer.json`.
#[derive(Debug, Clone)]
pub struct HuggingFace {
    inner: Inner,
    /// The merges again, in the form that dropout needs; `None` for other models than BPE.
    merges: Option<MergeTable>,
    /// Ids that text must not yield.
    special_ids: Vec<u32>,
    /// What text that spells a special token becomes.
    unknown_id: Option<u32>,
}

/// What a trained tokeniser is put together from.
pub(crate) struct Parts<'a> {
    pub(crate) model: ModelWrapper,
    pub(crate) normalization: Normalization,
    pub(crate) split: Split,
    pub(crate) special: &'a SpecialTokens,
    /// Written before pieces inside a word, taken off in decoding.
    pub(crate) continuing_prefix: Option<&'a str>,
}

impl HuggingFace {
    /// Reads a `tokenizer.json`.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let bytes = std::fs::read(path).map_err(|error| Error::io(path, "open", error))?;
        Self::from_bytes(&bytes, path)
    }

    /// Reads the same from memory; `name` stands for the path in messages.
    pub fn from_bytes(bytes: &[u8], name: impl AsRef<Path>) -> Result<Self> {
        let path = name.as_ref();
        check_rules(bytes).map_err(|found| malformed(path, &found))?;
        let inner = match without_panic(|| Inner::from_bytes(bytes)) {
            Some(Ok(inner)) => inner,
            Some(Err(error)) => return Err(malformed(path, &error.to_string())),
            None => return Err(malformed(path, "a part that cannot be read")),
        };
        check_ids(inner.get_model()).map_err(|found| malformed(path, &found))?;
        Self::new(inner, path)
    }

    fn new(mut inner: Inner, path: &Path) -> Result<Self> {
        inner.set_encode_special_tokens(true);
        // A folder may ask for padding and truncation; both would change or lose text here.
        inner.with_padding(None);
        inner.with_truncation(None).map_err(|error| malformed(path, &error.to_string()))?;
        // One may ask for dropout too, by numbers that no seed names; here dropout is the caller's choice.
        if let ModelWrapper::BPE(bpe) = inner.get_model()
            && bpe.dropout.is_some()
        {
            let mut plain = bpe.clone();
            plain.dropout = None;
            inner.with_model(plain);
        }
        let merges = match inner.get_model() {
            ModelWrapper::BPE(bpe) => Some(MergeTable::new(bpe).map_err(|found| malformed(path, &found))?),
            _ => None,
        };
        let mut tokenizer = Self { inner, merges, special_ids: Vec::new(), unknown_id: None };
        tokenizer.special_ids = tokenizer.special_tokens().into_iter().map(|(id, _)| id).collect();
        tokenizer.unknown_id = ["<unk>", "[UNK]"].iter().find_map(|token| tokenizer.id(token));
        Ok(tokenizer)
    }

    /// Puts a trained model and its surroundings together.
    pub(crate) fn assemble(parts: Parts<'_>) -> Result<Self> {
        let name = Path::new("trained tokeniser");
        let wrong = |error: Foreign| malformed(name, &error.to_string());
        let mut inner = Inner::new(parts.model);
        inner.with_normalizer(Some(parts.normalization.to_hugging_face())).map_err(wrong)?;
        inner.with_pre_tokenizer(Some(parts.split.to_hugging_face()));
        inner.with_decoder(decoder(parts.split, parts.continuing_prefix));
        let special = parts.special.all().map(|token| AddedToken::from(token, true).normalized(false));
        inner.add_special_tokens(special).map_err(wrong)?;
        let end = &parts.special.end;
        let end_id = inner.token_to_id(end).ok_or_else(|| malformed(name, "no end token"))?;
        let template = TemplateProcessing::builder()
            .try_single(format!("$A {end}"))
            .and_then(|builder| builder.try_pair(format!("$A {end} $B:1 {end}:1")))
            .map_err(|error| malformed(name, &error))?
            .special_tokens(vec![(end.as_str(), end_id)])
            .build()
            .map_err(|error| malformed(name, &error.to_string()))?;
        inner.with_post_processor(Some(template));
        Self::new(inner, name)
    }

    /// The file's text.
    pub fn to_json(&self) -> String {
        self.inner.to_string(true).expect("a tokeniser is always representable")
    }

    /// Writes `tokenizer.json`, whole or not at all.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        Output::save(path, self.to_json().as_bytes())
    }

    /// Ids, pieces and offsets of `text`, without special tokens.
    pub fn encode(&self, text: &str) -> Result<Encoding> {
        let encoding = guarded(|| self.inner.encode(text, false))?;
        Ok(self.convert(&encoding, text))
    }

    /// As [`HuggingFace::encode`], with the tokens that the file's template puts around a text (`</s>`, `[CLS]`, …).
    pub fn encode_with_special(&self, text: &str) -> Result<Encoding> {
        let encoding = guarded(|| self.inner.encode(text, true))?;
        Ok(self.convert(&encoding, text))
    }

    /// As [`HuggingFace::encode`], each merge left out with a probability. Only BPE has merges.
    pub fn encode_with_dropout(&self, text: &str, dropout: &Dropout) -> Result<Encoding> {
        let Some(merges) = &self.merges else {
            return Err(Dropout::unsupported());
        };
        let encoding = guarded(|| merges.encode(&self.inner, text, dropout))?;
        Ok(self.convert(&encoding, text))
    }

    /// The text of `ids`; special tokens vanish.
    pub fn decode(&self, ids: &[u32]) -> Result<String> {
        if let Some(id) = ids.iter().find(|&&id| self.inner.id_to_token(id).is_none()) {
            return Err(Error::Unknown { found: format!("id {id}"), vocab_size: self.vocab_size() });
        }
        // Nothing is left to join, and the crate's decoder of BPE counts on at least one piece.
        if ids.iter().all(|id| self.special_ids.contains(id)) {
            return Ok(String::new());
        }
        guarded(|| self.inner.decode(ids, true))
    }

    /// What `text` becomes before it is cut.
    pub fn normalize(&self, text: &str) -> Result<String> {
        let mut normalized = NormalizedString::from(text);
        if let Some(normalizer) = self.inner.get_normalizer() {
            guarded(|| normalizer.normalize(&mut normalized))?;
        }
        Ok(normalized.get().to_owned())
    }

    /// Entries, special tokens included.
    pub fn vocab_size(&self) -> usize {
        self.inner.get_vocab_size(true)
    }

    /// The id of a piece or special token.
    pub fn id(&self, piece: &str) -> Option<u32> {
        self.inner.token_to_id(piece)
    }

    /// The piece or special token of an id.
    pub fn piece(&self, id: u32) -> Option<String> {
        self.inner.id_to_token(id)
    }

    /// The id for what has no entry.
    pub fn unknown_id(&self) -> Option<u32> {
        self.unknown_id
    }

    /// The special tokens with their ids, by id.
    pub fn special_tokens(&self) -> Vec<(u32, String)> {
        let added = self.inner.get_added_tokens_decoder();
        let mut special: Vec<(u32, String)> = added
            .into_iter()
            .filter(|(_, token)| token.special)
            .map(|(id, token)| (id, token.content))
            .collect();
        special.sort_unstable();
        special
    }

    /// The model's name in the file: `BPE`, `Unigram`, `WordPiece` or `WordLevel`.
    pub fn model_name(&self) -> &'static str {
        match self.inner.get_model() {
            ModelWrapper::BPE(_) => "BPE",
            ModelWrapper::Unigram(_) => "Unigram",
            ModelWrapper::WordPiece(_) => "WordPiece",
            ModelWrapper::WordLevel(_) => "WordLevel",
        }
    }

    /// True where characters without an entry become bytes.
    pub fn has_byte_fallback(&self) -> bool {
        match self.inner.get_model() {
            ModelWrapper::BPE(bpe) => bpe.byte_fallback,
            ModelWrapper::Unigram(unigram) => unigram.byte_fallback(),
            _ => false,
        }
    }

    /// The merges in order of rank, for BPE.
    pub fn n_merges(&self) -> Option<usize> {
        self.merges.as_ref().map(MergeTable::len)
    }
}

impl HuggingFace {
    fn convert(&self, encoding: &tokenizers::Encoding, text: &str) -> Encoding {
        let mut out = Encoding::default();
        for (index, (&id, piece)) in encoding.get_ids().iter().zip(encoding.get_tokens()).enumerate() {
            // Whole-word models find a word that is spelled like a special token in their vocabulary; it is text.
            let inserted = encoding.get_special_tokens_mask()[index] == 1;
            let misread = !inserted && self.special_ids.contains(&id);
            let id = if misread { self.unknown_id.unwrap_or(id) } else { id };
            // Some models give the text itself as the piece of an unknown.
            let spelled = if Some(id) == self.unknown_id { self.piece(id) } else { None };
            let mut span = span(encoding.get_offsets()[index], text);
            // The mark put before the first word stands for no text.
            let is_space = |c: char| c.is_whitespace() || c == WORD_MARK;
            let is_first = out.offsets.iter().all(std::ops::Range::is_empty);
            if is_first && piece.chars().eq([WORD_MARK]) && !text[span.clone()].starts_with(is_space) {
                span.end = span.start;
            }
            out.push(id, spelled.unwrap_or_else(|| piece.clone()), span);
        }
        out
    }
}

/// The span of a piece, widened to whole characters: bytes of one character share its span.
fn span((start, end): (usize, usize), text: &str) -> std::ops::Range<usize> {
    let start = (0..=start).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
    let end = (end..=text.len()).find(|&at| text.is_char_boundary(at)).unwrap_or(text.len());
    start..end
}

/// Undoes what [`Split`] did.
fn decoder(split: Split, continuing_prefix: Option<&str>) -> Option<DecoderWrapper> {
    if split == Split::Whitespace {
        return None; // the default joins with spaces
    }
    let replace =
        |from: &str, to: &str| Replace::new(from, to).expect("a plain string is a valid pattern").into();
    let mut steps: Vec<DecoderWrapper> = Vec::new();
    if let Some(prefix) = continuing_prefix {
        steps.push(replace(prefix, ""));
    }
    steps.push(replace(&WORD_MARK.to_string(), " "));
    steps.push(ByteFallback::new().into());
    steps.push(Fuse::new().into());
    if split == Split::Punctuation {
        steps.push(Strip::new(' ', 1, 0).into());
    }
    Some(DecoderSequence::new(steps).into())
}

fn malformed(path: &Path, found: &str) -> Error {
    // The crate cuts the prefix off a merge by its length and puts half a character into its message.
    let found = String::from_utf8_lossy(found.as_bytes());
    Error::Format {
        path: path.to_owned(),
        line: None,
        found: found.lines().next().unwrap_or("nothing").to_owned(),
        expected: "a Hugging Face tokenizer.json".into(),
        hint: "polyhead tokenizer train writes one; a .spm or .model file of SentencePiece is read too"
            .into(),
    }
}

/// What `work` gives, or why the rules of the file fail on this text.
fn guarded<T>(work: impl FnOnce() -> std::result::Result<T, Foreign>) -> Result<T> {
    let failed = |found: String, expected: &str, hint: &str| Error::Format {
        path: "tokenizer.json".into(),
        line: None,
        found,
        expected: expected.into(),
        hint: hint.into(),
    };
    let Some(result) = without_panic(work) else {
        let hint = "the file may be damaged or written by hand; fetch it again";
        return Err(failed("a rule that breaks on this text".into(), "rules that take any text", hint));
    };
    let hint = "does the tokeniser have an unknown token?";
    result.map_err(|error| failed(error.to_string(), "a vocabulary that covers the text", hint))
}

/// The parts of a BPE model that its public interface shows only through serialisation.
pub(crate) fn bpe_json(bpe: &BPE) -> serde_json::Value {
    serde_json::to_value(bpe).expect("a tokeniser is always representable")
}
