//! A tokeniser of any supported format, detected from its files.

use std::path::Path;

use super::fairseq_dictionary::FairseqDictionary;
use super::sentencepiece::{MarianVocabulary, SentencePiece, xlm_roberta};
use super::subword_nmt::SubwordNmt;
use super::wordpiece::{self, WordPieceOptions};
use super::{BpeDropout, Encoding, HuggingFace, PairEncoding, byte_level};
use crate::{Error, Result};

/// A tokeniser of any supported format.
#[derive(Debug, Clone)]
pub enum Tokenizer {
    /// A `tokenizer.json`.
    HuggingFace(Box<HuggingFace>),
    /// A SentencePiece `.spm` or `.model` file.
    SentencePiece(Box<SentencePiece>),
    /// A Marian or OPUS-MT folder: encodes with `source.spm`, decodes with `target.spm`, ids from `vocab.json`.
    Marian {
        /// Segments source text.
        source: Box<SentencePiece>,
        /// Segments and decodes target text.
        target: Box<SentencePiece>,
        /// Ids of the pieces of both.
        vocabulary: MarianVocabulary,
    },
    /// subword-nmt codes with a fairseq dictionary.
    Fairseq {
        /// Segments words into subwords with `@@`.
        codes: Box<SubwordNmt>,
        /// Ids of the subwords.
        dictionary: FairseqDictionary,
    },
}

impl Tokenizer {
    /// Reads a file, whose format is detected by its name or first byte, or a model folder of a supported layout.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        if path.is_dir() {
            return Self::load_folder(path);
        }
        let bytes = crate::whole::read(path, crate::whole::MAX_TABLE)
            .map_err(|error| Error::io(path, "open", error))?;
        // JSON begins with a brace, a SentencePiece model with the tag of its first field.
        let json = path.extension().is_some_and(|extension| extension == "json")
            || bytes.trim_ascii_start().first() == Some(&b'{');
        if json {
            HuggingFace::from_bytes(&bytes, path).map(Box::new).map(Self::HuggingFace)
        } else {
            SentencePiece::from_bytes(&bytes, path).map(Box::new).map(Self::SentencePiece)
        }
    }

    fn load_folder(folder: &Path) -> Result<Self> {
        let file = |name: &str| folder.join(name);
        if file("tokenizer.json").exists() {
            return Self::load(file("tokenizer.json"));
        }
        if file("source.spm").exists() {
            return Ok(Self::Marian {
                source: Box::new(SentencePiece::load(file("source.spm"))?),
                target: Box::new(SentencePiece::load(file("target.spm"))?),
                vocabulary: MarianVocabulary::load(file("vocab.json"))?,
            });
        }
        if file("tokenizer.model").exists() {
            return Self::load(file("tokenizer.model"));
        }
        if file("vocab.json").exists() && file("merges.txt").exists() {
            let tokenizer = byte_level::load(file("vocab.json"), file("merges.txt"), &[])?;
            return Ok(Self::HuggingFace(Box::new(tokenizer)));
        }
        Err(Error::Format {
            path: folder.to_owned(),
            line: None,
            found: "a folder without a tokeniser".into(),
            expected: "tokenizer.json; source.spm, target.spm and vocab.json; tokenizer.model; or vocab.json and merges.txt"
                .into(),
            hint: "subword-nmt codes and a fairseq dictionary are passed as two files".into(),
        })
    }

    /// Reads the tokeniser of an encoder's folder: `tokenizer.json`; `vocab.txt` of WordPiece; `vocab.json` with `merges.txt`, as
    /// RoBERTa has them; or XLM-RoBERTa's `sentencepiece.bpe.model`.
    pub fn load_encoder(folder: impl AsRef<Path>) -> Result<Self> {
        let folder = folder.as_ref();
        let file = |name: &str| folder.join(name);
        if file("tokenizer.json").exists() {
            return Self::load(file("tokenizer.json"));
        }
        let found = if file("vocab.txt").exists() {
            wordpiece::load(file("vocab.txt"), WordPieceOptions::of_folder(folder)?)?
        } else if file("vocab.json").exists() && file("merges.txt").exists() {
            byte_level::load_roberta(file("vocab.json"), file("merges.txt"))?
        } else if file("sentencepiece.bpe.model").exists() {
            xlm_roberta::load(file("sentencepiece.bpe.model"))?
        } else {
            return Err(Error::Format {
                path: folder.to_owned(),
                line: None,
                found: "a folder without a tokeniser".into(),
                expected: "tokenizer.json; vocab.txt; vocab.json and merges.txt; or sentencepiece.bpe.model"
                    .into(),
                hint: "copy the tokeniser that the model was trained with into the folder".into(),
            });
        };
        Ok(Self::HuggingFace(Box::new(found)))
    }

    /// Reads subword-nmt codes and a fairseq dictionary.
    pub fn load_fairseq(codes: impl AsRef<Path>, dictionary: impl AsRef<Path>) -> Result<Self> {
        Ok(Self::Fairseq {
            codes: Box::new(SubwordNmt::load(codes)?),
            dictionary: FairseqDictionary::load(dictionary)?,
        })
    }

    /// Ids, tokens and offsets of `text`, without special tokens.
    pub fn encode(&self, text: &str) -> Result<Encoding> {
        Ok(match self {
            Self::HuggingFace(tokenizer) => tokenizer.encode(text)?,
            Self::SentencePiece(model) => model.encode(text),
            Self::Marian { source, vocabulary, .. } => vocabulary.encode(source, text),
            Self::Fairseq { codes, dictionary } => dictionary.encode(codes, text),
        })
    }

    /// [`Tokenizer::encode`] for target text, for which a Marian folder has a model of its own.
    pub fn encode_target(&self, text: &str) -> Result<Encoding> {
        match self {
            Self::Marian { target, vocabulary, .. } => Ok(vocabulary.encode(target, text)),
            _ => self.encode(text),
        }
    }

    /// [`Tokenizer::encode`] with the special tokens of the file's template, or with `</s>` at the end.
    pub fn encode_with_special(&self, text: &str) -> Result<Encoding> {
        if let Self::HuggingFace(tokenizer) = self {
            return tokenizer.encode_with_special(text);
        }
        let mut encoding = self.encode(text)?;
        if let Some((id, piece)) = self.end_id().and_then(|id| Some((id, self.piece(id)?))) {
            encoding.push(id, piece, text.len()..text.len());
        }
        Ok(encoding)
    }

    /// A pair of texts with the special tokens of the file's template; only for a `tokenizer.json`, or what is read as one.
    pub fn encode_pair(&self, first: &str, second: &str) -> Result<PairEncoding> {
        if let Self::HuggingFace(tokenizer) = self {
            return tokenizer.encode_pair(first, second);
        }
        Err(Error::Format {
            path: "tokenizer".into(),
            line: None,
            found: self.describe(),
            expected: "a tokeniser with a template for pairs of texts".into(),
            hint: "pairs need a tokenizer.json".into(),
        })
    }

    /// [`Tokenizer::encode`] with BPE-dropout; only for BPE in a `tokenizer.json`.
    pub fn encode_with_dropout(&self, text: &str, dropout: &BpeDropout) -> Result<Encoding> {
        match self {
            Self::HuggingFace(tokenizer) => tokenizer.encode_with_dropout(text, dropout),
            _ => Err(BpeDropout::unsupported()),
        }
    }

    /// The text of `ids`, without special tokens.
    pub fn decode(&self, ids: &[u32]) -> Result<String> {
        match self {
            Self::HuggingFace(tokenizer) => tokenizer.decode(ids),
            Self::SentencePiece(model) => model.decode(ids),
            Self::Marian { target, vocabulary, .. } => vocabulary.decode(target, ids),
            Self::Fairseq { dictionary, .. } => dictionary.decode(ids),
        }
    }

    /// Number of entries, special tokens included.
    pub fn vocab_size(&self) -> usize {
        match self {
            Self::HuggingFace(tokenizer) => tokenizer.vocab_size(),
            Self::SentencePiece(model) => model.vocab_size(),
            Self::Marian { vocabulary, .. } => vocabulary.vocab_size(),
            Self::Fairseq { dictionary, .. } => dictionary.vocab_size(),
        }
    }

    /// Id of a token, special tokens included.
    pub fn id(&self, piece: &str) -> Option<u32> {
        match self {
            Self::HuggingFace(tokenizer) => tokenizer.id(piece),
            Self::SentencePiece(model) => model.id(piece),
            Self::Marian { vocabulary, .. } => vocabulary.id(piece),
            Self::Fairseq { dictionary, .. } => dictionary.id(piece),
        }
    }

    /// Token of an id, special tokens included.
    pub fn piece(&self, id: u32) -> Option<String> {
        match self {
            Self::HuggingFace(tokenizer) => tokenizer.piece(id),
            Self::SentencePiece(model) => model.piece(id).map(str::to_owned),
            Self::Marian { vocabulary, .. } => vocabulary.piece(id).map(str::to_owned),
            Self::Fairseq { dictionary, .. } => dictionary.piece(id).map(str::to_owned),
        }
    }

    /// Id of the unknown token.
    pub fn unknown_id(&self) -> Option<u32> {
        match self {
            Self::HuggingFace(tokenizer) => tokenizer.unknown_id(),
            Self::SentencePiece(model) => model.unk_id(),
            Self::Marian { vocabulary, .. } => Some(vocabulary.unk_id()),
            Self::Fairseq { .. } => Some(FairseqDictionary::UNK),
        }
    }

    /// Id of the end of a sentence.
    pub fn end_id(&self) -> Option<u32> {
        match self {
            Self::SentencePiece(model) => model.eos_id(),
            _ => self.id("</s>"),
        }
    }

    /// Short description of the format and model, for display.
    pub fn describe(&self) -> String {
        match self {
            Self::HuggingFace(tokenizer) => {
                format!("Hugging Face tokenizer.json, {}", tokenizer.model_name())
            }
            Self::SentencePiece(model) => format!("SentencePiece, {:?}", model.model_type()).to_lowercase(),
            Self::Marian { .. } => "Marian folder, SentencePiece with ids from vocab.json".into(),
            Self::Fairseq { .. } => "subword-nmt codes with a fairseq dictionary".into(),
        }
    }
}
