//! The tokeniser of a language model: its files, the start token of a prompt, and text in which a chat template has written
//! special tokens.
//!
//! Special tokens that a user types are text. In the text of a template they are special tokens, except inside of messages
//! ([`ESCAPE`]).

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::OnceLock;

use polyhead_text::tokenizer::{HuggingFace, Tokenizer, byte_level};
use polyhead_text::whole;
use serde_json::{Map, Value};

use crate::{Error, Result};

/// A character that is no text (a noncharacter of Unicode), which separates what a user typed from a special token that it would
/// spell.
pub(super) const ESCAPE: char = '\u{fdd0}';

/// Names of special tokens in `tokenizer_config.json`.
const NAMES: [&str; 7] =
    ["bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token", "mask_token"];

/// The tokeniser of a language model.
#[derive(Debug)]
pub(crate) struct PromptTokenizer {
    tokenizer: Tokenizer,
    /// The token that the tokeniser puts in front of a text.
    start: Option<u32>,
    /// The token that the file's template puts after a text, as those that were trained here do.
    end: Option<u32>,
    /// Special tokens by their names, such as `bos_token`.
    names: BTreeMap<String, String>,
    /// Special tokens that a template may write, the longest first.
    special: Vec<(String, u32)>,
    /// Reads special tokens in text; made when a template first needs it.
    markup: OnceLock<HuggingFace>,
}

impl PromptTokenizer {
    /// Finds the tokeniser of a folder: `tokenizer.json`, `vocab.json` with `merges.txt`, or `tokenizer.model`.
    pub(crate) fn load(folder: &Path) -> Result<Self> {
        let config = object(&folder.join("tokenizer_config.json"))?;
        let map = object(&folder.join("special_tokens_map.json"))?;
        let names: BTreeMap<String, String> = NAMES
            .iter()
            .filter_map(|&name| {
                let token = [&config, &map].into_iter().find_map(|keys| content(keys.get(name)?))?;
                Some((name.to_owned(), token))
            })
            .collect();
        let file = |name: &str| folder.join(name);
        let tokenizer = if !file("tokenizer.json").exists() && file("merges.txt").exists() {
            check_byte_level(folder, &config)?;
            let mut special: Vec<String> = names.values().cloned().collect();
            special.extend(object(&file("added_tokens.json"))?.into_iter().map(|(token, _)| token));
            let tokenizer = byte_level::load(file("vocab.json"), file("merges.txt"), &special)?;
            Tokenizer::HuggingFace(Box::new(tokenizer))
        } else {
            Tokenizer::load(folder)?
        };
        let [first, end] = inserted(&tokenizer)?;
        let start = start(&tokenizer, first, &config, &names);
        let mut special: Vec<(String, u32)> = match &tokenizer {
            Tokenizer::HuggingFace(tokenizer) => {
                tokenizer.special_tokens().into_iter().map(|(id, token)| (token, id)).collect()
            }
            other => names.values().filter_map(|token| Some((token.clone(), other.id(token)?))).collect(),
        };
        special.retain(|(token, _)| !token.is_empty());
        special.sort_by_key(|(token, _)| std::cmp::Reverse(token.len()));
        Ok(Self { tokenizer, start, end, names, special, markup: OnceLock::new() })
    }

    /// An error if there are more entries than the model has.
    pub(crate) fn check(&self, folder: &Path, vocab_size: usize) -> Result<()> {
        let entries = self.tokenizer.vocab_size();
        if entries <= vocab_size {
            return Ok(());
        }
        let message = format!("the tokeniser has {entries} entries, the model a vocabulary of {vocab_size}");
        Err(Error::file(folder, message, "does the tokeniser belong to another model?"))
    }

    /// The tokeniser of text.
    pub(crate) fn into_tokenizer(self) -> Tokenizer {
        self.tokenizer
    }

    /// The tokeniser of text.
    pub(crate) fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// The token that the tokeniser puts in front of a text.
    pub(crate) fn start(&self) -> Option<u32> {
        self.start
    }

    /// The token that the file's template puts after a text.
    pub(crate) fn end(&self) -> Option<u32> {
        self.end
    }

    /// Special tokens by their names, such as `bos_token`.
    pub(crate) fn names(&self) -> &BTreeMap<String, String> {
        &self.names
    }

    /// The tokens of a text, in which special tokens are text.
    pub(crate) fn encode(&self, text: &str) -> Result<Vec<u32>> {
        Ok(self.tokenizer.encode(text)?.ids)
    }

    /// The tokens of what a chat template wrote, in which special tokens are special, unless they are escaped.
    pub(crate) fn encode_markup(&self, text: &str) -> Result<Vec<u32>> {
        if let Tokenizer::HuggingFace(tokenizer) = &self.tokenizer
            && !text.contains(ESCAPE)
        {
            return Ok(self.markup.get_or_init(|| tokenizer.for_markup()).encode(text)?.ids);
        }
        let (mut ids, mut rest) = (Vec::new(), text);
        while !rest.is_empty() {
            let found =
                self.special.iter().filter_map(|(token, id)| Some((rest.find(token.as_str())?, token, *id)));
            // Of several at one place the longest, which comes first.
            let next = found.min_by_key(|&(at, ..)| at);
            let (plain, after) =
                next.map_or((rest, ""), |(at, token, _)| (&rest[..at], &rest[at + token.len()..]));
            if !plain.is_empty() {
                ids.extend(self.encode(&plain.replace(ESCAPE, ""))?);
            }
            ids.extend(next.map(|(_, _, id)| id));
            rest = after;
        }
        Ok(ids)
    }

    /// A text in which no special token is spelled: [`ESCAPE`] divides each.
    pub(crate) fn escaped(&self, text: &str) -> String {
        let mut text = text.replace(ESCAPE, "");
        for (token, _) in &self.special {
            if text.contains(token.as_str()) {
                let first = token.chars().next().map_or(0, char::len_utf8);
                let divided = format!("{}{ESCAPE}{}", &token[..first], &token[first..]);
                text = text.replace(token.as_str(), &divided);
            }
        }
        text
    }
}

/// The special tokens that the template of a `tokenizer.json` puts before and after a text.
fn inserted(tokenizer: &Tokenizer) -> Result<[Option<u32>; 2]> {
    let Tokenizer::HuggingFace(tokenizer) = tokenizer else { return Ok([None; 2]) };
    let found = tokenizer.encode_with_special("a")?;
    let special = tokenizer.special_tokens();
    let token = |at: Option<usize>| {
        let (id, span) = at.and_then(|at| found.ids.get(at).zip(found.offsets.get(at)))?;
        (span.is_empty() && special.iter().any(|(special, _)| special == id)).then_some(*id)
    };
    Ok([token(Some(0)), token(found.len().checked_sub(1))])
}

/// The token that the tokeniser puts in front of a text; `first` is that of its template.
fn start(
    tokenizer: &Tokenizer,
    first: Option<u32>,
    config: &Map<String, Value>,
    names: &BTreeMap<String, String>,
) -> Option<u32> {
    let named = || names.get("bos_token").and_then(|token| tokenizer.id(token));
    match (config.get("add_bos_token").and_then(Value::as_bool), tokenizer) {
        (Some(true), _) => named(),
        (Some(false), _) => None,
        (None, Tokenizer::SentencePiece(model)) => named().or(model.bos_id()),
        (None, _) => first,
    }
}

/// An error unless `vocab.json` and `merges.txt` are split into words as GPT-2 does.
fn check_byte_level(folder: &Path, config: &Map<String, Value>) -> Result<()> {
    match config.get("tokenizer_class").and_then(Value::as_str) {
        None | Some("GPT2Tokenizer" | "GPT2TokenizerFast") => Ok(()),
        Some(class) => {
            let path = folder.join("tokenizer_config.json");
            let message = format!(
                "tokenizer_class {class} with vocab.json and merges.txt, expected GPT2Tokenizer or tokenizer.json"
            );
            Err(Error::file(
                &path,
                message,
                "save the tokeniser with AutoTokenizer of transformers, which writes tokenizer.json",
            ))
        }
    }
}

/// The JSON object in a file; empty if there is no such file.
pub(crate) fn object(path: &Path) -> Result<Map<String, Value>> {
    if !path.exists() {
        return Ok(Map::new());
    }
    let text = whole::read(path, whole::MAX_SETTINGS)
        .map_err(|error| polyhead_text::Error::io(path, "read", error))?;
    serde_json::from_slice(&text).map_err(|error| {
        let message = format!("{error}, expected a JSON object");
        Error::file(path, message, "correct the file or fetch it again")
    })
}

/// The text of a token, a string or an object with `content`.
fn content(token: &Value) -> Option<String> {
    token.as_str().or_else(|| token.get("content")?.as_str()).map(str::to_owned)
}
