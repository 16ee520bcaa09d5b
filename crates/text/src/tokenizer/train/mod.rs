//! Tokenisers from raw text: count words, choose an alphabet, learn pieces, assemble a `tokenizer.json`.
//!
//! Same text, same options → the same bytes, for any number of threads.

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
use super::hugging_face::{HuggingFace, Parts};
use super::normalization::Normalization;
use super::special::SpecialTokens;
use super::words::Split;
use crate::{Error, Result};

/// The kinds of tokenisers that can be trained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Byte-pair encoding (Sennrich et al. 2016).
    Bpe,
    /// Unigram language model (Kudo 2018).
    Unigram,
    /// WordPiece (Schuster & Nakajima 2012; Wu et al. 2016): merges as in BPE, applied longest piece first.
    WordPiece,
    /// Whole words, the most frequent ones.
    Word,
    /// Single characters.
    Character,
}

/// What happens to characters without an entry of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unknown {
    /// They become `<unk>`.
    #[default]
    Token,
    /// They become their UTF-8 bytes, `<0x00>` to `<0xFF>`: every character has an id. Not for words and WordPiece.
    Bytes,
}

/// How a tokeniser is trained.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainOptions {
    /// The kind; BPE unless said otherwise.
    pub kind: Kind,
    /// Entries wanted, special tokens and bytes included; all there are for `None` (words and characters only).
    pub vocab_size: Option<usize>,
    /// What happens to characters without an entry; `<unk>` unless said otherwise.
    pub unknown: Unknown,
    /// What happens to the text first; NFKC and tidy spaces unless said otherwise.
    pub normalization: Normalization,
    /// Where words end, for [`Kind::Word`]; spaces unless said otherwise.
    pub word_split: Split,
    /// Share of all characters in the text that get entries of their own, the frequent ones first; 0.9995.
    pub character_coverage: f64,
    /// A pair or word rarer than this gets no entry; 2.
    pub min_frequency: u64,
    /// Characters in the longest unigram piece; 16.
    pub max_piece_chars: usize,
    /// Tokens that are no text; `<pad> <s> </s> <unk>` and no language tags unless said otherwise.
    pub special: SpecialTokens,
}

impl Default for TrainOptions {
    fn default() -> Self {
        Self {
            kind: Kind::Bpe,
            vocab_size: Some(8000),
            unknown: Unknown::default(),
            normalization: Normalization::default(),
            word_split: Split::Whitespace,
            character_coverage: 0.9995,
            min_frequency: 2,
            max_piece_chars: 16,
            special: SpecialTokens::default(),
        }
    }
}

/// How far training has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// All lines are read; this many distinct words were found.
    Counted(usize),
    /// One more piece was joined, or one more round of EM is done.
    Advanced,
}

/// Trains on `lines`, which may be any texts; `progress` is told how far it has come.
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
    progress: &mut dyn FnMut(Progress),
) -> Result<HuggingFace> {
    options.check()?;
    let words = count::count_words(lines, options.normalization, options.split())?;
    if words.is_empty() {
        return Err(Error::Empty { what: "training text".into() });
    }
    progress(Progress::Counted(words.len()));
    let reserved = options.reserved();
    let vocabulary = match options.kind {
        Kind::Bpe | Kind::WordPiece => join_pieces(&words, options, reserved, progress)?,
        Kind::Unigram => score_pieces(&words, options, reserved, progress)?,
        Kind::Word => most_frequent(words, options, reserved)?,
        Kind::Character => characters(&words, options, reserved)?,
    };
    HuggingFace::assemble(Parts {
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
        if self.unknown == Unknown::Bytes && matches!(self.kind, Kind::Word | Kind::WordPiece) {
            return wrong(
                "--unknown bytes",
                "kind without characters of its own".into(),
                "bpe, unigram or character",
                "words and WordPiece have <unk> only",
            );
        }
        if self.vocab_size.is_none() && !matches!(self.kind, Kind::Word | Kind::Character) {
            return wrong("--vocab-size", "none".into(), "a number", "8000 suits a corpus of 200,000 pairs");
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

    fn split(&self) -> Split {
        match self.kind {
            Kind::Word => self.word_split,
            Kind::Character => Split::Whole,
            _ => Split::Punctuation,
        }
    }

    fn continuing_prefix(&self) -> Option<&'static str> {
        (self.kind == Kind::WordPiece).then_some("##")
    }

    /// Special tokens and bytes: the entries that come first.
    fn reserved(&self) -> Vec<String> {
        let bytes = 0..=if self.unknown == Unknown::Bytes { 255 } else { -1 };
        self.special
            .all()
            .map(str::to_owned)
            .chain(bytes.map(|byte: i32| format!("<0x{byte:02X}>")))
            .collect()
    }

    /// The asked size, or all of `largest`; an error when it cannot be had.
    fn checked_size(&self, smallest: usize, largest: usize) -> Result<usize> {
        match self.vocab_size {
            Some(asked) if asked < smallest => Err(Error::VocabularyTooSmall { asked, smallest }),
            Some(asked) if asked > largest => Err(Error::VocabularyTooLarge { asked, largest }),
            asked => Ok(asked.unwrap_or(largest)),
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
    progress: &mut dyn FnMut(Progress),
) -> Result<ModelWrapper> {
    let asked = options.vocab_size.unwrap_or(usize::MAX);
    let learned = merges::learn(
        words,
        &count::alphabet(words, options.character_coverage),
        MergeOptions {
            max_pieces: asked.saturating_sub(reserved.len()),
            min_frequency: options.min_frequency,
            continuing_prefix: options.continuing_prefix().unwrap_or_default(),
        },
        || progress(Progress::Advanced),
    );
    options.checked_size(reserved.len() + learned.n_alphabet, reserved.len() + learned.pieces.len())?;
    let merges = learned.merges.iter().map(|&(left, right)| {
        (learned.pieces[left as usize].clone(), learned.pieces[right as usize].clone())
    });
    let merges: Vec<(String, String)> = merges.collect();
    let vocabulary = numbered(reserved.into_iter().chain(learned.pieces));
    if options.kind == Kind::WordPiece {
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
            .byte_fallback(options.unknown == Unknown::Bytes)
            .build(),
    )
}

fn score_pieces(
    words: &WordCounts,
    options: &TrainOptions,
    reserved: Vec<String>,
    progress: &mut dyn FnMut(Progress),
) -> Result<ModelWrapper> {
    let asked = options.vocab_size.unwrap_or(usize::MAX);
    let alphabet = count::alphabet(words, options.character_coverage);
    let smallest = reserved.len() + alphabet.len();
    options.checked_size(smallest, usize::MAX)?;
    let unigram_options =
        UnigramOptions { n_pieces: asked - reserved.len(), max_piece_chars: options.max_piece_chars };
    let pieces = unigram::learn(words, &alphabet, unigram_options, || progress(Progress::Advanced));
    options.checked_size(smallest, reserved.len() + pieces.len())?;
    let unknown = reserved.iter().position(|entry| *entry == options.special.unknown);
    let entries = reserved.into_iter().map(|entry| (entry, 0.0)).chain(pieces).collect();
    build(Unigram::from(entries, unknown, options.unknown == Unknown::Bytes))
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
    options.checked_size(size, size)?; // fewer characters are had by a lower coverage
    let entries = reserved.into_iter().chain(alphabet.iter().map(char::to_string));
    bpe(numbered(entries), Vec::new(), options)
}

fn build<M: Into<ModelWrapper>>(
    model: std::result::Result<M, Box<dyn std::error::Error + Send + Sync>>,
) -> Result<ModelWrapper> {
    model.map(Into::into).map_err(|error| Error::Format {
        path: "trained tokeniser".into(),
        line: None,
        found: error.to_string(),
        expected: "a vocabulary that fits together".into(),
        hint: "do special tokens and pieces collide?".into(),
    })
}
