//! Tokenisers in Hugging Face's `tokenizer.json` format, trained here or elsewhere.
//!
//! Special tokens inside a text are text: `encode("</s>")` never yields the end of a sentence. Ids of special tokens
//! are added by the caller, with [`HuggingFace::id`], or by the file's template, with
//! [`HuggingFace::encode_with_special`].

use std::path::Path;

use tokenizers::decoders::DecoderWrapper;
use tokenizers::decoders::byte_fallback::ByteFallback;
use tokenizers::decoders::fuse::Fuse;
use tokenizers::decoders::sequence::Sequence as DecoderSequence;
use tokenizers::decoders::strip::Strip;
use tokenizers::decoders::wordpiece::WordPiece;
use tokenizers::models::bpe::BPE;
use tokenizers::normalizers::Replace;
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::metaspace::PrependScheme;
use tokenizers::processors::template::TemplateProcessing;
use tokenizers::{AddedToken, Decoder as _, ModelWrapper, NormalizedString, Normalizer as _};

use super::Encoding;
use super::dropout::{BpeDropout, MergeTable};
use super::guard::{check_ids, check_rules, without_panic};
use super::normalization::{Normalization, WORD_MARK};
use super::special::{SpecialTokens, TextFrame};
use super::words::WordSplit;
use crate::output::Output;
use crate::{Error, Result};

type Inner = tokenizers::Tokenizer;

/// A tokeniser read from, or written to, `tokenizer.json`.
#[derive(Debug, Clone)]
pub struct HuggingFace {
    inner: Inner,
    /// The merges in the form that BPE-dropout needs; `None` for models other than BPE.
    merges: Option<MergeTable>,
    /// Ids that encoding text must not yield.
    special_ids: Vec<u32>,
    /// Id of the unknown token, also for text that spells a special token.
    unknown_id: Option<u32>,
}

/// An encoded pair of texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PairEncoding {
    /// Ids in the vocabulary.
    pub ids: Vec<u32>,
    /// The token type of each: of BERT's template 0 for the first text, 1 for the second.
    pub types: Vec<u32>,
}

/// The components of a trained tokeniser.
pub(crate) struct TokenizerParts<'a> {
    pub(crate) model: ModelWrapper,
    pub(crate) normalization: Normalization,
    pub(crate) split: WordSplit,
    pub(crate) special: &'a SpecialTokens,
    /// Prefix of tokens inside a word, removed in decoding.
    pub(crate) continuing_prefix: Option<&'a str>,
}

impl HuggingFace {
    /// Reads a `tokenizer.json`.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let bytes = crate::whole::read(path, crate::whole::MAX_TABLE)
            .map_err(|error| Error::io(path, "open", error))?;
        Self::from_bytes(&bytes, path)
    }

    /// Reads a `tokenizer.json` from memory; `name` replaces the path in error messages.
    pub fn from_bytes(bytes: &[u8], name: impl AsRef<Path>) -> Result<Self> {
        let path = name.as_ref();
        check_rules(bytes).map_err(|found| malformed(path, &found))?;
        let inner = match without_panic(|| Inner::from_bytes(bytes)) {
            Some(Ok(inner)) => inner,
            Some(Err(error)) => return Err(malformed(path, &error.to_string())),
            None => return Err(malformed(path, "a section that cannot be read")),
        };
        check_ids(inner.get_model()).map_err(|found| malformed(path, &found))?;
        Self::new(inner, path)
    }

    fn new(mut inner: Inner, path: &Path) -> Result<Self> {
        inner.set_encode_special_tokens(true);
        // A file may enable padding and truncation; both would change or lose text here.
        inner.with_padding(None);
        inner.with_truncation(None).map_err(|error| malformed(path, &error.to_string()))?;
        // A file may also enable dropout, with unseeded random numbers; here dropout is the caller's choice.
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

    /// Assembles a trained model with its normaliser, pre-tokeniser, decoder and special tokens.
    pub(crate) fn assemble(parts: TokenizerParts<'_>) -> Result<Self> {
        let name = Path::new("trained tokeniser");
        let wrong = |error: tokenizers::Error| malformed(name, &error.to_string());
        let mut inner = Inner::new(parts.model);
        inner.with_normalizer(Some(parts.normalization.to_hugging_face())).map_err(wrong)?;
        inner.with_pre_tokenizer(Some(parts.split.to_hugging_face()));
        inner.with_decoder(decoder(parts.split, parts.continuing_prefix));
        let special = parts.special.all().map(|token| AddedToken::from(token, true).normalized(false));
        inner.add_special_tokens(special).map_err(wrong)?;
        let SpecialTokens { start, end, frame, .. } = parts.special;
        let id =
            |token: &str| inner.token_to_id(token).ok_or_else(|| malformed(name, &format!("no {token}")));
        let mut around = vec![(end.as_str(), id(end)?)];
        let mut before = String::new();
        if *frame == TextFrame::StartAndEnd {
            around.push((start.as_str(), id(start)?));
            before = format!("{start} ");
        }
        let template = TemplateProcessing::builder()
            .try_single(format!("{before}$A {end}"))
            .and_then(|builder| builder.try_pair(format!("{before}$A {end} $B:1 {end}:1")))
            .map_err(|error| malformed(name, &error))?
            .special_tokens(around)
            .build()
            .map_err(|error| malformed(name, &error.to_string()))?;
        inner.with_post_processor(Some(template));
        Self::new(inner, name)
    }

    /// The content of `tokenizer.json`, on one line.
    pub fn to_json(&self) -> String {
        self.inner.to_string(false).expect("a tokeniser is always representable")
    }

    /// Writes `tokenizer.json` atomically.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        Output::save(path, self.to_json().as_bytes())
    }

    /// Ids, tokens and offsets of `text`, without special tokens.
    pub fn encode(&self, text: &str) -> Result<Encoding> {
        let encoding = guarded(|| self.inner.encode(text, false))?;
        Ok(self.convert(&encoding, text))
    }

    /// [`HuggingFace::encode`] with the special tokens of the file's template (`</s>`, `[CLS]`, …).
    pub fn encode_with_special(&self, text: &str) -> Result<Encoding> {
        let encoding = guarded(|| self.inner.encode(text, true))?;
        Ok(self.convert(&encoding, text))
    }

    /// A pair of texts with the special tokens of the file's template, and its token types.
    pub fn encode_pair(&self, first: &str, second: &str) -> Result<PairEncoding> {
        let encoding = guarded(|| self.inner.encode((first, second), true))?;
        let inserted = encoding.get_special_tokens_mask();
        let id = |(index, &id): (usize, &u32)| {
            let is_misread = inserted[index] == 0 && self.special_ids.contains(&id);
            if is_misread { self.unknown_id.unwrap_or(id) } else { id }
        };
        let ids = encoding.get_ids().iter().enumerate().map(id).collect();
        Ok(PairEncoding { ids, types: encoding.get_type_ids().to_vec() })
    }

    /// A tokeniser for text that a program wrote: special tokens spelled in it are special tokens. It is a copy as large as the
    /// tokeniser.
    #[must_use]
    pub fn for_markup(&self) -> Self {
        let mut copy = self.clone();
        copy.inner.set_encode_special_tokens(false);
        copy.special_ids.clear();
        copy
    }

    /// [`HuggingFace::encode`] with BPE-dropout; an error for models other than BPE.
    pub fn encode_with_dropout(&self, text: &str, dropout: &BpeDropout) -> Result<Encoding> {
        let Some(merges) = &self.merges else {
            return Err(BpeDropout::unsupported());
        };
        let encoding = guarded(|| merges.encode(&self.inner, text, dropout))?;
        Ok(self.convert(&encoding, text))
    }

    /// The text of `ids`, without special tokens.
    pub fn decode(&self, ids: &[u32]) -> Result<String> {
        if let Some(id) = ids.iter().find(|&&id| self.inner.id_to_token(id).is_none()) {
            return Err(Error::unknown_id(*id, self.vocab_size()));
        }
        // Nothing is left to decode, and the crate's BPE decoder needs at least one token.
        if ids.iter().all(|id| self.special_ids.contains(id)) {
            return Ok(String::new());
        }
        guarded(|| self.inner.decode(ids, true))
    }

    /// [`HuggingFace::decode`] with tokens of ids outside the vocabulary.
    pub(crate) fn decode_with<'a>(
        &self,
        ids: &[u32],
        outside: impl Fn(u32) -> Option<&'a str>,
    ) -> Result<String> {
        let written = ids.iter().filter(|id| !self.special_ids.contains(id));
        let token = |&id: &u32| {
            let own = self.inner.id_to_token(id).or_else(|| outside(id).map(str::to_owned));
            own.ok_or_else(|| Error::unknown_id(id, self.vocab_size()))
        };
        let tokens = written.map(token).collect::<Result<Vec<String>>>()?;
        match self.inner.get_decoder() {
            Some(decoder) => guarded(|| decoder.decode(tokens)),
            None => Ok(tokens.join(" ")),
        }
    }

    /// True if tokens are whole words or single characters, none of which depends on its neighbours.
    pub(crate) fn has_whole_tokens(&self) -> bool {
        match self.inner.get_model() {
            ModelWrapper::WordLevel(_) => true,
            ModelWrapper::BPE(_) => self.n_merges() == Some(0),
            _ => false,
        }
    }

    /// True if words after a space begin with a mark.
    pub(crate) fn marks_words(&self) -> bool {
        let rules = self.inner.get_pre_tokenizer();
        let prepends = |rule: &PreTokenizerWrapper| matches!(rule, PreTokenizerWrapper::Metaspace(mark) if mark.get_prepend_scheme() != PrependScheme::Never);
        match rules {
            Some(PreTokenizerWrapper::Sequence(all)) => all.as_ref().iter().any(prepends),
            Some(rule) => prepends(rule),
            None => false,
        }
    }

    /// `text` after normalisation.
    pub fn normalize(&self, text: &str) -> Result<String> {
        let mut normalized = NormalizedString::from(text);
        if let Some(normalizer) = self.inner.get_normalizer() {
            guarded(|| normalizer.normalize(&mut normalized))?;
        }
        Ok(normalized.get().to_owned())
    }

    /// Number of entries, special tokens included.
    pub fn vocab_size(&self) -> usize {
        self.inner.get_vocab_size(true)
    }

    /// Id of a token, special tokens included.
    pub fn id(&self, piece: &str) -> Option<u32> {
        self.inner.token_to_id(piece)
    }

    /// Token of an id, special tokens included.
    pub fn piece(&self, id: u32) -> Option<String> {
        self.inner.id_to_token(id)
    }

    /// Id of the unknown token.
    pub fn unknown_id(&self) -> Option<u32> {
        self.unknown_id
    }

    /// Special tokens with their ids, sorted by id.
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

    /// True for a special token.
    pub(super) fn is_special(&self, id: u32) -> bool {
        self.special_ids.contains(&id)
    }

    /// What makes a text of tokens.
    pub(super) fn decoder(&self) -> Option<&DecoderWrapper> {
        self.inner.get_decoder()
    }

    /// Model type in the file: `BPE`, `Unigram`, `WordPiece` or `WordLevel`.
    pub fn model_name(&self) -> &'static str {
        match self.inner.get_model() {
            ModelWrapper::BPE(_) => "BPE",
            ModelWrapper::Unigram(_) => "Unigram",
            ModelWrapper::WordPiece(_) => "WordPiece",
            ModelWrapper::WordLevel(_) => "WordLevel",
        }
    }

    /// True if characters without an entry become bytes.
    pub fn has_byte_fallback(&self) -> bool {
        match self.inner.get_model() {
            ModelWrapper::BPE(bpe) => bpe.byte_fallback,
            ModelWrapper::Unigram(unigram) => unigram.byte_fallback(),
            _ => false,
        }
    }

    /// Number of merges; `None` for models other than BPE.
    pub fn n_merges(&self) -> Option<usize> {
        self.merges.as_ref().map(MergeTable::len)
    }
}

impl HuggingFace {
    fn convert(&self, encoding: &tokenizers::Encoding, text: &str) -> Encoding {
        let mut out = Encoding::default();
        for (index, (&id, piece)) in encoding.get_ids().iter().zip(encoding.get_tokens()).enumerate() {
            // A whole-word model finds a word that spells a special token in its vocabulary; it is text.
            let inserted = encoding.get_special_tokens_mask()[index] == 1;
            let misread = !inserted && self.special_ids.contains(&id);
            let id = if misread { self.unknown_id.unwrap_or(id) } else { id };
            // Some models return the text itself as the token of an unknown.
            let spelled = if Some(id) == self.unknown_id { self.piece(id) } else { None };
            let mut span = span(encoding.get_offsets()[index], text);
            // The mark inserted before the first word covers no text.
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

/// The span of a token, widened to whole characters: the bytes of a character share its span.
fn span((start, end): (usize, usize), text: &str) -> std::ops::Range<usize> {
    let start = (0..=start).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
    let end = (end..=text.len()).find(|&at| text.is_char_boundary(at)).unwrap_or(text.len());
    start..end
}

/// The decoder that inverts [`WordSplit`].
fn decoder(split: WordSplit, continuing_prefix: Option<&str>) -> Option<DecoderWrapper> {
    if split == WordSplit::Whitespace {
        return None; // the default joins with spaces
    }
    if split == WordSplit::Words {
        return Some(WordPiece::new(continuing_prefix.unwrap_or_default().to_owned(), true).into());
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
    if split == WordSplit::Punctuation {
        steps.push(Strip::new(' ', 1, 0).into());
    }
    Some(DecoderSequence::new(steps).into())
}

fn malformed(path: &Path, found: &str) -> Error {
    // The crate removes the prefix of a merge by its length in bytes and may leave half a character in its message.
    let found = String::from_utf8_lossy(found.as_bytes());
    Error::Format {
        path: path.to_owned(),
        line: None,
        found: found.lines().next().unwrap_or("nothing").to_owned(),
        expected: "a Hugging Face tokenizer.json".into(),
        hint: "polyhead tokenizer train writes one; SentencePiece .spm and .model files are supported too"
            .into(),
    }
}

/// Runs `work`; a panic or an error in it becomes an error about the rules of the file.
fn guarded<T>(work: impl FnOnce() -> tokenizers::Result<T>) -> Result<T> {
    let failed = |found: String, expected: &str, hint: &str| Error::Format {
        path: "tokenizer.json".into(),
        line: None,
        found,
        expected: expected.into(),
        hint: hint.into(),
    };
    let Some(result) = without_panic(work) else {
        let hint = "the file may be damaged or edited by hand; fetch it again";
        return Err(failed("a rule that fails on this text".into(), "rules that accept any text", hint));
    };
    let hint = "check that the tokeniser has an unknown token";
    result.map_err(|error| failed(error.to_string(), "a vocabulary that covers the text", hint))
}

/// The fields of a BPE model that the crate exposes only through serialisation.
pub(crate) fn bpe_json(bpe: &BPE) -> serde_json::Value {
    serde_json::to_value(bpe).expect("a tokeniser is always representable")
}
