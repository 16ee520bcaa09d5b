//! WordPiece (Wu et al. 2016) as BERT's tokeniser is published: `vocab.txt` has a token on each line, whose number is its id.
//! Text is cleaned, put in lower case and without accents if the model was trained so, and split at spaces, punctuation and
//! Chinese characters; a word is the longest tokens from its start, of which those inside begin with `##`.
//!
//! MPNet has such a file too, with `<s>` and `</s>` in place of `[CLS]` and `[SEP]`.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::HuggingFace;
use super::template::{PairStyle, Template, added};
use crate::{Error, Result};

/// The longest word in characters; longer ones are unknown.
const MAX_WORD: usize = 100;
/// The unknown token.
const UNKNOWN: &str = "[UNK]";
/// Special tokens that a vocabulary may have.
const SPECIAL: [&str; 9] = ["[PAD]", UNKNOWN, "[CLS]", "[SEP]", "[MASK]", "<s>", "<pad>", "</s>", "<mask>"];

/// Options of the text before the split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WordPieceOptions {
    /// True if text is put in lower case; default: true.
    pub lower_case: bool,
    /// True if accents are removed; default: `None`, as `lower_case`.
    pub strip_accents: Option<bool>,
    /// True if Chinese characters are words of their own; default: true.
    pub chinese_characters: bool,
}

impl Default for WordPieceOptions {
    fn default() -> Self {
        Self { lower_case: true, strip_accents: None, chinese_characters: true }
    }
}

impl WordPieceOptions {
    /// The options in a folder's `tokenizer_config.json`; the defaults without one.
    ///
    /// # Errors
    /// If the file cannot be read, or a value has another type.
    pub fn of_folder(folder: &Path) -> Result<Self> {
        let path = folder.join("tokenizer_config.json");
        if !path.exists() {
            return Ok(Self::default());
        }
        let bytes = crate::whole::read(&path, crate::whole::MAX_SETTINGS)
            .map_err(|error| Error::io(&path, "read", error))?;
        let settings: Map<String, Value> = serde_json::from_slice(&bytes)
            .map_err(|error| malformed(&path, None, error.to_string(), "a JSON object"))?;
        let flag = |key: &str| match settings.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(*flag)),
            Some(other) => Err(malformed(&path, None, format!("{key} is {other}"), "true or false")),
        };
        let default = Self::default();
        Ok(Self {
            lower_case: flag("do_lower_case")?.unwrap_or(default.lower_case),
            strip_accents: flag("strip_accents")?,
            chinese_characters: flag("tokenize_chinese_chars")?.unwrap_or(default.chinese_characters),
        })
    }
}

/// Reads `vocab.txt`.
///
/// # Errors
/// If the file cannot be read, a token occurs twice, or the special tokens are missing.
pub fn load(path: impl AsRef<Path>, options: WordPieceOptions) -> Result<HuggingFace> {
    let path = path.as_ref();
    let bytes =
        crate::whole::read(path, crate::whole::MAX_TABLE).map_err(|error| Error::io(path, "open", error))?;
    let text = String::from_utf8(bytes).map_err(|error| malformed(path, None, error.to_string(), "UTF-8"))?;
    let mut ids = Map::new();
    for (number, token) in text.lines().enumerate() {
        if ids.insert(token.to_owned(), json!(number)).is_some() {
            let found = format!("{token:?} a second time");
            return Err(malformed(path, Some(number as u64 + 1), found, "each token once"));
        }
    }
    let id = |token: &str| ids.get(token).and_then(Value::as_u64).map(|id| id as u32);
    let template =
        |start, end, pair| Some(Template { start: (start, id(start)?), end: (end, id(end)?), pair });
    let found =
        template("[CLS]", "[SEP]", PairStyle::Types).or_else(|| template("<s>", "</s>", PairStyle::TwoEnds));
    let (Some(template), Some(_)) = (found, id(UNKNOWN)) else {
        let expected = "[UNK] and [CLS] with [SEP], or [UNK] and <s> with </s>";
        return Err(malformed(path, None, "a vocabulary without special tokens".to_owned(), expected));
    };
    let WordPieceOptions { lower_case, strip_accents, chinese_characters } = options;
    let file = json!({
        "version": "1.0",
        "added_tokens": added(SPECIAL.iter().filter_map(|token| Some((*token, id(token)?)))),
        "normalizer": {
            "type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": chinese_characters,
            "strip_accents": strip_accents, "lowercase": lower_case,
        },
        "pre_tokenizer": { "type": "BertPreTokenizer" },
        "post_processor": template.section(),
        "decoder": { "type": "WordPiece", "prefix": "##", "cleanup": true },
        "model": {
            "type": "WordPiece", "unk_token": UNKNOWN, "continuing_subword_prefix": "##",
            "max_input_chars_per_word": MAX_WORD, "vocab": ids,
        },
    });
    HuggingFace::from_bytes(file.to_string().as_bytes(), path)
}

fn malformed(path: &Path, line: Option<u64>, found: String, expected: &str) -> Error {
    let hint = "vocab.txt has a token on each line; fetch the file again";
    Error::Format { path: path.to_owned(), line, found, expected: expected.into(), hint: hint.into() }
}
