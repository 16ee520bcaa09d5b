//! Training of tokenisers on raw text: count words, choose an alphabet, learn tokens, assemble a `tokenizer.json`.
//!
//! The same text and options give the same bytes, for any number of threads.

pub(crate) mod count;
mod lattice;
mod merges;
mod unigram;

use ahash::AHashMap;
use serde::{Deserialize, Serialize};
use tokenizers::ModelWrapper;
use tokenizers::models::bpe::BPE;
use tokenizers::models::unigram::Unigram;
use tokenizers::models::wordlevel::WordLevel;
use tokenizers::models::wordpiece::WordPiece;

use self::count::WordCounts;
use self::merges::MergeOptions;
use self::unigram::UnigramOptions;
use super::hugging_face::{HuggingFace, TokenizerParts};
use super::normalization::Normalization;
use super::special::{SpecialTokens, TextFrame};
use super::words::WordSplit;
use crate::{Error, Result};

/// Kind of tokeniser to train.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TokenizerKind {
    /// Byte-pair encoding (Sennrich et al. 2016).
    Bpe,
    /// Unigram language model (Kudo 2018).
    Unigram,
    /// WordPiece (Schuster & Nakajima 2012; Wu et al. 2016): trained as BPE, applied longest match first.
    WordPiece,
    /// Whole words, the most frequent ones.
    Word,
    /// Single characters.
    Character,
}

/// Encoding of characters without an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UnknownCharacters {
    /// As `<unk>`.
    #[default]
    Token,
    /// As UTF-8 bytes, `<0x00>` to `<0xFF>` (byte fallback): every character has ids. Not for words and WordPiece.
    Bytes,
}

/// Options of training a tokeniser.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainOptions {
    /// Kind of tokeniser; default: BPE.
    pub kind: TokenizerKind,
    /// Number of entries, special tokens and bytes included; `None` (words and characters only): all; default: 8000.
    pub vocab_size: Option<usize>,
    /// Encoding of characters without an entry; default: `<unk>`.
    pub unknown: UnknownCharacters,
    /// Normalisation of the text; default: NFKC and single spaces.
    pub normalization: Normalization,
    /// Word boundaries for [`TokenizerKind::Word`]; default: white space.
    pub word_split: WordSplit,
    /// Share of the text's characters covered by entries of their own, the most frequent first; default: 0.9995.
    pub character_coverage: f64,
    /// Minimum count of a pair or word with an entry; default: 2.
    pub min_frequency: u64,
    /// Longest unigram token, in characters; default: 16.
    pub max_piece_chars: usize,
    /// Special tokens; default: `<pad> <s> </s> <unk>` and no language tags.
    pub special: SpecialTokens,
}

impl Default for TrainOptions {
    fn default() -> Self {
        Self {
            kind: TokenizerKind::Bpe,
            vocab_size: Some(8000),
            unknown: UnknownCharacters::default(),
            normalization: Normalization::default(),
            word_split: WordSplit::Whitespace,
            character_coverage: 0.9995,
            min_frequency: 2,
            max_piece_chars: 16,
            special: SpecialTokens::default(),
        }
    }
}

/// Progress of training.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrainProgress {
    /// All lines are read; number of distinct words.
    Counted(usize),
    /// One merge or one EM round is done.
    Advanced,
}

/// Trains a tokeniser on `lines`, which may be any texts; calls `progress` after each step.
///
/// ```
/// use polyhead_text::tokenizer::{TrainOptions, train};
/// let lines = ["the cat ate the mouse", "the mouse ate the cat"].map(|line| Ok(line.to_owned()));
/// let options = TrainOptions { vocab_size: Some(25), ..TrainOptions::default() };
/// let tokenizer = train(lines.into_iter(), &options, &mut |_| {})?;
/// let encoding = tokenizer.encode("the cat")?;
/// assert_eq!(encoding.pieces.concat(), "▁the▁cat");
/// assert_eq!(tokenizer.decode(&encoding.ids)?, "the cat");
/// # Ok::<(), polyhead_text::Error>(())
/// ```
pub fn train(
    lines: impl Iterator<Item = Result<String>> + Send,
    options: &TrainOptions,
    progress: &mut dyn FnMut(TrainProgress),
) -> Result<HuggingFace> {
    options.check()?;
    let words = count::count_words(lines, options.normalization, options.split())?;
    if words.is_empty() {
        return Err(Error::Empty { what: "training text".into() });
    }
    progress(TrainProgress::Counted(words.len()));
    let reserved = options.reserved();
    let vocabulary = match options.kind {
        TokenizerKind::Bpe | TokenizerKind::WordPiece => join_pieces(&words, options, reserved, progress)?,
        TokenizerKind::Unigram => score_pieces(&words, options, reserved, progress)?,
        TokenizerKind::Word => most_frequent(words, options, reserved)?,
        TokenizerKind::Character => characters(&words, options, reserved)?,
    };
    HuggingFace::assemble(TokenizerParts {
        model: vocabulary,
        normalization: options.normalization,
        split: options.split(),
        special: &options.special,
        continuing_prefix: options.continuing_prefix(),
    })
}

impl TrainOptions {
    fn check(&self) -> Result<()> {
        let wrong = |name, found: String, expected: &str, hint: &str| {
            Err(Error::Option { name, found, expected: expected.into(), hint: hint.into() })
        };
        if self.unknown == UnknownCharacters::Bytes
            && matches!(self.kind, TokenizerKind::Word | TokenizerKind::WordPiece)
        {
            return wrong(
                "--unknown bytes",
                format!("kind {}", if self.kind == TokenizerKind::Word { "word" } else { "wordpiece" }),
                "kind bpe, unigram or character",
                "kinds word and wordpiece support --unknown token only",
            );
        }
        if self.vocab_size.is_none() && !matches!(self.kind, TokenizerKind::Word | TokenizerKind::Character) {
            return wrong(
                "--vocab-size",
                "none".into(),
                "a number",
                "use 8000 for a corpus of 200,000 pairs",
            );
        }
        if !(0.0..=1.0).contains(&self.character_coverage) || self.character_coverage == 0.0 {
            let found = self.character_coverage.to_string();
            return wrong(
                "--character-coverage",
                found,
                "more than 0 and at most 1",
                "the default is 0.9995",
            );
        }
        self.special.check()
    }

    fn split(&self) -> WordSplit {
        match self.kind {
            TokenizerKind::Word => self.word_split,
            TokenizerKind::WordPiece if self.special.frame == TextFrame::StartAndEnd => WordSplit::Words,
            TokenizerKind::Character => WordSplit::Whole,
            _ => WordSplit::Punctuation,
        }
    }

    fn continuing_prefix(&self) -> Option<&'static str> {
        (self.kind == TokenizerKind::WordPiece).then_some("##")
    }

    /// The first entries: special tokens and bytes.
    fn reserved(&self) -> Vec<String> {
        let bytes = 0..=if self.unknown == UnknownCharacters::Bytes { 255 } else { -1 };
        self.special
            .all()
            .map(str::to_owned)
            .chain(bytes.map(|byte: i32| format!("<0x{byte:02X}>")))
            .collect()
    }

    /// The requested size, or `maximum` without one; an error if it is out of range.
    fn checked_size(&self, minimum: usize, maximum: usize) -> Result<usize> {
        match self.vocab_size {
            Some(requested) if requested < minimum => Err(Error::VocabularyTooSmall { requested, minimum }),
            Some(requested) if requested > maximum => Err(Error::VocabularyTooLarge { requested, maximum }),
            requested => Ok(requested.unwrap_or(maximum)),
        }
    }
}

fn numbered(entries: impl Iterator<Item = String>) -> AHashMap<String, u32> {
    entries.zip(0..).collect()
}

fn join_pieces(
    words: &WordCounts,
    options: &TrainOptions,
    reserved: Vec<String>,
    progress: &mut dyn FnMut(TrainProgress),
) -> Result<ModelWrapper> {
    let requested = options.vocab_size.unwrap_or(usize::MAX);
    let learned = merges::learn(
        words,
        &count::alphabet(words, options.character_coverage),
        MergeOptions {
            max_pieces: requested.saturating_sub(reserved.len()),
            min_frequency: options.min_frequency,
            continuing_prefix: options.continuing_prefix().unwrap_or_default(),
        },
        || progress(TrainProgress::Advanced),
    );
    options.checked_size(reserved.len() + learned.n_alphabet, reserved.len() + learned.pieces.len())?;
    let merges = learned.merges.iter().map(|&(left, right)| {
        (learned.pieces[left as usize].clone(), learned.pieces[right as usize].clone())
    });
    let merges: Vec<(String, String)> = merges.collect();
    let vocabulary = numbered(reserved.into_iter().chain(learned.pieces));
    if options.kind == TokenizerKind::WordPiece {
        return build(
            WordPiece::builder().vocab(vocabulary).unk_token(options.special.unknown.clone()).build(),
        );
    }
    bpe(vocabulary, merges, options)
}

fn bpe(
    vocabulary: AHashMap<String, u32>,
    merges: Vec<(String, String)>,
    options: &TrainOptions,
) -> Result<ModelWrapper> {
    build(
        BPE::builder()
            .vocab_and_merges(vocabulary, merges)
            .unk_token(options.special.unknown.clone())
            .fuse_unk(true)
            .byte_fallback(options.unknown == UnknownCharacters::Bytes)
            .build(),
    )
}

fn score_pieces(
    words: &WordCounts,
    options: &TrainOptions,
    reserved: Vec<String>,
    progress: &mut dyn FnMut(TrainProgress),
) -> Result<ModelWrapper> {
    let requested = options.vocab_size.unwrap_or(usize::MAX);
    let alphabet = count::alphabet(words, options.character_coverage);
    let minimum = reserved.len() + alphabet.len();
    options.checked_size(minimum, usize::MAX)?;
    let unigram_options =
        UnigramOptions { n_pieces: requested - reserved.len(), max_piece_chars: options.max_piece_chars };
    let pieces = unigram::learn(words, &alphabet, unigram_options, || progress(TrainProgress::Advanced));
    options.checked_size(minimum, reserved.len() + pieces.len())?;
    let unknown = reserved.iter().position(|entry| *entry == options.special.unknown);
    let entries = reserved.into_iter().map(|entry| (entry, 0.0)).chain(pieces).collect();
    build(Unigram::from(entries, unknown, options.unknown == UnknownCharacters::Bytes))
}

fn most_frequent(words: WordCounts, options: &TrainOptions, reserved: Vec<String>) -> Result<ModelWrapper> {
    let kept = words.iter().take_while(|&&(_, count)| count >= options.min_frequency).count();
    let size = options.checked_size(reserved.len() + 1, reserved.len() + kept)?;
    let entries = reserved.into_iter().chain(words.into_iter().map(|(word, _)| word)).take(size);
    build(WordLevel::builder().vocab(numbered(entries)).unk_token(options.special.unknown.clone()).build())
}

fn characters(words: &WordCounts, options: &TrainOptions, reserved: Vec<String>) -> Result<ModelWrapper> {
    let alphabet = count::alphabet(words, options.character_coverage);
    let size = reserved.len() + alphabet.len();
    options.checked_size(size, size)?; // --character-coverage sets the number of characters
    let entries = reserved.into_iter().chain(alphabet.iter().map(char::to_string));
    bpe(numbered(entries), Vec::new(), options)
}

fn build<M: Into<ModelWrapper>>(model: tokenizers::Result<M>) -> Result<ModelWrapper> {
    model.map(Into::into).map_err(|error| Error::Format {
        path: "trained tokeniser".into(),
        line: None,
        found: error.to_string(),
        expected: "a consistent vocabulary".into(),
        hint: "check that no special token equals another entry".into(),
    })
}
