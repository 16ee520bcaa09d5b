//! The tokenisers of a model folder: one shared by both languages, or one for each.
//!
//! Supported files: `tokenizer.json`; `source.json` and `target.json`; `source.spm`, `target.spm` and `vocab.json` (with
//! `target_vocab.json` where the languages have separate vocabularies); subword-nmt codes with `dict.SOURCE.txt` and
//! `dict.TARGET.txt`, assigned to source and target by `args.json` or by their sizes.

use std::ops::Range;
use std::path::{Path, PathBuf};

use polyhead_text::tokenizer::fairseq_dictionary::{dictionary_language, is_codes};
use polyhead_text::tokenizer::{Encoding, Tokenizer, UnknownWords, sentencepiece::MarianVocabulary};
use serde_json::{Map, Value};

use crate::{Error, Result};

/// The tokenisers of source and target.
#[derive(Debug, Clone)]
pub struct Tokenizers {
    source: Tokenizer,
    /// The target's own tokeniser; `None` if it is shared.
    target: Option<Tokenizer>,
    /// True if words that the vocabulary lacks have ids of their own sentence.
    copies: bool,
    /// Number of texts that a source consists of, with tabs between.
    n_sources: usize,
}

impl Tokenizers {
    /// Loads the tokenisers of a folder; `vocab_sizes` are the embedding rows of source and target.
    ///
    /// # Errors
    /// If there are none, or they do not match the embeddings.
    pub fn load(folder: &Path, vocab_sizes: [usize; 2]) -> Result<Self> {
        let file = |name: &str| folder.join(name);
        let [source_json, target_json] = ["source.json", "target.json"].map(file);
        let found = if file("tokenizer.json").exists() {
            Self {
                source: Tokenizer::load(file("tokenizer.json"))?,
                target: None,
                copies: false,
                n_sources: 1,
            }
        } else if file("source.spm").exists() {
            Self::marian(folder)?
        } else if source_json.exists() && target_json.exists() {
            Self {
                source: Tokenizer::load(source_json)?,
                target: Some(Tokenizer::load(target_json)?),
                copies: false,
                n_sources: 1,
            }
        } else {
            Self::fairseq(folder, vocab_sizes)?
        };
        found.check(folder, vocab_sizes)?;
        Ok(found)
    }

    fn marian(folder: &Path) -> Result<Self> {
        let source = Tokenizer::load(folder)?;
        let own = folder.join("target_vocab.json");
        let target = match &source {
            Tokenizer::Marian { target, .. } if own.exists() => Some(Tokenizer::Marian {
                source: target.clone(),
                target: target.clone(),
                vocabulary: MarianVocabulary::load(own)?,
            }),
            _ => None,
        };
        Ok(Self { source, target, copies: false, n_sources: 1 })
    }

    fn fairseq(folder: &Path, vocab_sizes: [usize; 2]) -> Result<Self> {
        let (codes, dictionaries) = fairseq_files(folder)?;
        let (Some(codes), false) = (codes, dictionaries.is_empty()) else {
            let expected =
                "tokenizer.json; source.spm, target.spm and vocab.json; or bpe.code and dict.LANGUAGE.txt";
            let message = format!("a folder without a tokeniser, expected {expected}");
            return Err(Error::file(
                folder,
                message,
                "copy the tokeniser that the model was trained with into the folder",
            ));
        };
        let mut tokenizers = dictionaries
            .iter()
            .map(|path| Ok((Tokenizer::load_fairseq(&codes, path)?, language(path))))
            .collect::<Result<Vec<_>>>()?;
        if tokenizers.len() == 1 {
            return Ok(Self { source: tokenizers.remove(0).0, target: None, copies: false, n_sources: 1 });
        }
        let settings = languages(folder)?;
        let fits = |(tokenizer, language): &(Tokenizer, Option<String>),
                    named: &Option<String>,
                    rows: usize| match named {
            Some(_) => named == language,
            None => tokenizer.vocab_size() == rows,
        };
        let pick = |named: &Option<String>, rows| {
            let mut fitting = tokenizers.iter().filter(|entry| fits(entry, named, rows));
            match (fitting.next(), fitting.next()) {
                (Some((tokenizer, _)), None) => Ok(tokenizer.clone()),
                _ => Err(Error::file(
                    folder,
                    format!(
                        "{} dictionaries, expected one for the source and one for the target",
                        tokenizers.len()
                    ),
                    "set source_lang and target_lang in args.json",
                )),
            }
        };
        Ok(Self {
            source: pick(&settings.from, vocab_sizes[0])?,
            target: Some(pick(&settings.to, vocab_sizes[1])?),
            copies: false,
            n_sources: 1,
        })
    }

    /// Checks that every token id has an embedding row.
    fn check(&self, folder: &Path, vocab_sizes: [usize; 2]) -> Result<()> {
        let sides = [("source", &self.source, vocab_sizes[0]), ("target", self.target(), vocab_sizes[1])];
        for (side, tokenizer, rows) in sides {
            // Ids may have gaps, so each id is looked up rather than counted.
            let known = (0..rows as u32).filter(|&id| tokenizer.piece(id).is_some()).count();
            if known < tokenizer.vocab_size() {
                let message = format!(
                    "the {side} tokeniser has {} entries, {} of them with ids outside the embedding of {rows} rows",
                    tokenizer.vocab_size(),
                    tokenizer.vocab_size() - known,
                );
                return Err(Error::file(folder, message, "does the tokeniser belong to another model?"));
            }
        }
        Ok(())
    }

    /// The tokenisers of a model that copies, in which source words that the vocabulary of `vocab_size` ids lacks have ids of
    /// their own sentence.
    ///
    /// # Errors
    /// If the sides do not share a vocabulary of this size, or its tokens cannot be copied.
    pub fn for_copying(self, folder: &Path, vocab_size: usize) -> Result<Self> {
        if !self.are_shared() || self.source.vocab_size() != vocab_size {
            let own = self.source.vocab_size();
            let message = format!(
                "a tokeniser of {own} entries for a model that copies with {vocab_size}, expected one for both sides and \
                 as many"
            );
            return Err(Error::file(folder, message, "does the tokeniser belong to another model?"));
        }
        self.source.check_copying()?;
        Ok(Self { copies: true, ..self })
    }

    /// The tokenisers of a model of several sources: a source consists of so many texts, with tabs between.
    #[must_use]
    pub fn for_sources(self, n_sources: usize) -> Self {
        Self { n_sources, ..self }
    }

    /// The source tokeniser.
    pub fn source(&self) -> &Tokenizer {
        &self.source
    }

    /// The target tokeniser.
    pub fn target(&self) -> &Tokenizer {
        self.target.as_ref().unwrap_or(&self.source)
    }

    /// True if both sides have the same ids.
    pub fn are_shared(&self) -> bool {
        self.target.is_none()
    }

    /// The tokens of a source text as the model expects them, with the end token last; of several texts one after the other, each
    /// with its end token. Offsets are bytes of the whole.
    ///
    /// # Errors
    /// If the tokeniser fails, or a model of several sources is given more or fewer texts.
    pub fn encode_source(&self, text: &str, end_id: u32) -> Result<Encoding> {
        if self.n_sources == 1 {
            return self.encode_text(text, end_id);
        }
        let found = text.split('\t').count();
        if found != self.n_sources {
            let (n, texts) = (self.n_sources, if found == 1 { "text" } else { "texts" });
            let message =
                format!("{found} {texts} for a model of {n} sources, expected {n}, separated by tabs");
            return Err(Error::request(message, "leave a text empty where a source is missing"));
        }
        let mut all = Encoding::default();
        let mut start = 0;
        for text in text.split('\t') {
            let own = self.encode_text(text, end_id)?;
            all.ids.extend(own.ids);
            all.pieces.extend(own.pieces);
            all.offsets.extend(own.offsets.into_iter().map(|span| start + span.start..start + span.end));
            start += text.len() + 1;
        }
        Ok(all)
    }

    /// The tokens of one text.
    fn encode_text(&self, text: &str, end_id: u32) -> Result<Encoding> {
        let mut encoding = match &self.source {
            tokenizer @ Tokenizer::HuggingFace(_) => tokenizer.encode_with_special(text)?,
            tokenizer => tokenizer.encode(text)?,
        };
        if self.copies {
            self.source.extend_source(text, &mut encoding)?;
        }
        let is_ended =
            encoding.offsets.last().is_some_and(Range::is_empty) && encoding.ids.last() == Some(&end_id);
        if !is_ended {
            encoding.ids.push(end_id);
            encoding.pieces.push(self.source.piece(end_id).unwrap_or_default());
            encoding.offsets.push(text.len()..text.len());
        }
        Ok(encoding)
    }

    /// The tokens of a target text, without an end token.
    ///
    /// # Errors
    /// If the tokeniser fails.
    pub fn encode_target(&self, text: &str) -> Result<Encoding> {
        Ok(self.target().encode_target(text)?)
    }

    /// The tokens of the translation of a source with these words, without an end token.
    ///
    /// # Errors
    /// If the tokeniser fails.
    pub fn encode_target_of(&self, text: &str, words: &UnknownWords) -> Result<Encoding> {
        let mut encoding = self.encode_target(text)?;
        if self.copies {
            self.target().extend_target(text, &mut encoding, words)?;
        }
        Ok(encoding)
    }

    /// The words of a source that the vocabulary lacks, if the model copies them.
    ///
    /// # Errors
    /// If the tokeniser fails.
    pub fn unknown_words(&self, source: &Encoding) -> Result<UnknownWords> {
        if !self.copies {
            return Ok(UnknownWords::default());
        }
        let pieces = source.pieces.iter().map(String::as_str);
        Ok(self.source.unknown_words(source.ids.iter().copied().zip(pieces))?)
    }
}

/// The BPE codes and the dictionaries in a folder, sorted by name.
fn fairseq_files(folder: &Path) -> Result<(Option<PathBuf>, Vec<PathBuf>)> {
    let unread = |error| polyhead_text::Error::io(folder, "read", error);
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unread)? {
        paths.push(entry.map_err(unread)?.path());
    }
    paths.sort();
    let codes = paths.iter().find(|path| is_codes(&name(path))).cloned();
    paths.retain(|path| language(path).is_some());
    Ok((codes, paths))
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// `en` of `dict.en.txt`; none for any other name.
fn language(path: &Path) -> Option<String> {
    dictionary_language(&name(path)).map(str::to_owned)
}

/// The languages that a folder declares.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LanguageSettings {
    /// `source_lang`.
    pub from: Option<String>,
    /// `target_lang`.
    pub to: Option<String>,
    /// `directions`, such as `eng-tur`.
    pub directions: Vec<String>,
}

/// Reads the languages of a folder from `tokenizer_config.json` or `args.json`.
///
/// # Errors
/// If the file is not a JSON object, or a key has a value of another type.
pub fn languages(folder: &Path) -> Result<LanguageSettings> {
    let paths = ["tokenizer_config.json", "args.json"].map(|name| folder.join(name));
    let Some(path) = paths.into_iter().find(|path| path.exists()) else {
        return Ok(LanguageSettings::default());
    };
    let text = polyhead_text::whole::read(&path, polyhead_text::whole::MAX_SETTINGS)
        .map_err(|error| polyhead_text::Error::io(&path, "read", error))?;
    let settings: Map<String, Value> = serde_json::from_slice(&text).map_err(|error| {
        let message = format!("{error}, expected a JSON object");
        Error::file(
            &path,
            message,
            "correct the file or fetch it again: the languages of the model are in it",
        )
    })?;
    let get = |key: &str| settings.get(key).filter(|value| !value.is_null());
    let invalid = |key: &str, value: &Value, expected: &str| {
        let message = format!("{key} is {value}, expected {expected}");
        Error::file(&path, message, "correct the key or remove it")
    };
    let text = |key: &str| {
        let Some(value) = get(key) else { return Ok(None) };
        value.as_str().map(|text| Some(text.to_owned())).ok_or_else(|| invalid(key, value, "a string"))
    };
    let directions = match get("directions") {
        Some(value) => value.as_array().ok_or_else(|| invalid("directions", value, "a list"))?.as_slice(),
        None => &[],
    };
    // A value that is not a string is kept as JSON text, for the error message.
    let direction = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    Ok(LanguageSettings {
        from: text("source_lang")?,
        to: text("target_lang")?,
        directions: directions.iter().map(direction).collect(),
    })
}
