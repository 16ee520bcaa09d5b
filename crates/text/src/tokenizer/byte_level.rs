//! Byte-level BPE in two files, as GPT-2's tokeniser is published (Radford et al. 2019): `vocab.json` has the ids, `merges.txt`
//! the merges in order. Text is split by GPT-2's pattern into words with the space before them, and every byte is one of 256
//! printable characters.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::HuggingFace;
use super::template::{PairStyle, Template, added};
use crate::{Error, Result};

/// The token that ends a text, unless a folder names others.
const END_OF_TEXT: &str = "<|endoftext|>";

/// Special tokens of RoBERTa.
const ROBERTA: [&str; 5] = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"];

/// Reads `vocab.json` and `merges.txt`; `special` are tokens that text never yields.
///
/// # Errors
/// If a file cannot be read or has another format, or a merge names a token that is not in the vocabulary.
pub fn load(
    vocabulary: impl AsRef<Path>,
    merges: impl AsRef<Path>,
    special: &[String],
) -> Result<HuggingFace> {
    read(vocabulary.as_ref(), merges.as_ref(), special)
}

/// Same as [`load`] for RoBERTa (Liu et al. 2019), which has `<s>` before a text and `</s>` after it.
///
/// # Errors
/// If a file cannot be read or has another format, or the special tokens are missing.
pub fn load_roberta(vocabulary: impl AsRef<Path>, merges: impl AsRef<Path>) -> Result<HuggingFace> {
    read(vocabulary.as_ref(), merges.as_ref(), &ROBERTA.map(str::to_owned))
}

fn read(vocabulary: &Path, merges: &Path, special: &[String]) -> Result<HuggingFace> {
    let read = |path: &Path| {
        crate::whole::read(path, crate::whole::MAX_TABLE).map_err(|error| Error::io(path, "open", error))
    };
    let ids: Map<String, Value> = serde_json::from_slice(&read(vocabulary)?).map_err(|error| {
        let hint = "vocab.json maps each token to its id, such as {\"Hello\": 15496}";
        malformed(vocabulary, None, error.to_string(), "an object of tokens and ids", hint)
    })?;
    let pairs = pairs(&read(merges)?, merges)?;
    let end = END_OF_TEXT.to_owned();
    let id = |token: &str| ids.get(token).and_then(Value::as_u64).map(|id| id as u32);
    let mut tokens: Vec<(&str, u32)> =
        special.iter().chain([&end]).filter_map(|token| Some((token.as_str(), id(token)?))).collect();
    tokens.sort_unstable();
    tokens.dedup();
    let is_roberta = special.iter().eq(ROBERTA);
    let template = match (id("<s>"), id("</s>")) {
        _ if !is_roberta => Value::Null,
        (Some(start), Some(end)) => {
            Template { start: ("<s>", start), end: ("</s>", end), pair: PairStyle::TwoEnds }.section()
        }
        _ => {
            let hint = "a folder of RoBERTa has <s> and </s> in vocab.json";
            return Err(malformed(vocabulary, None, "no <s> or no </s>".into(), "both", hint));
        }
    };
    let byte_level =
        json!({ "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true });
    let file = json!({
        "version": "1.0",
        "added_tokens": added(tokens.into_iter()),
        "normalizer": null,
        "pre_tokenizer": byte_level,
        "post_processor": template,
        "decoder": byte_level,
        "model": {
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": "",
            "end_of_word_suffix": "", "fuse_unk": false, "byte_fallback": false, "vocab": ids, "merges": pairs,
        },
    });
    HuggingFace::from_bytes(file.to_string().as_bytes(), vocabulary)
}

/// The merges of `merges.txt`, in order.
fn pairs(bytes: &[u8], path: &Path) -> Result<Vec<Value>> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let hint = "merges.txt is text: a merge on each line";
        malformed(path, None, error.to_string(), "UTF-8", hint)
    })?;
    let mut pairs = Vec::new();
    for (number, line) in text.lines().enumerate() {
        // The first line may name the version of the format.
        if line.trim().is_empty() || (number == 0 && line.starts_with("#version")) {
            continue;
        }
        let pair: Vec<&str> = line.split(' ').collect();
        let [a, b] = pair[..] else {
            let hint = "each line of merges.txt has two tokens, separated by a space";
            let line_number = Some(number as u64 + 1);
            return Err(malformed(path, line_number, format!("{line:?}"), "two tokens", hint));
        };
        pairs.push(json!([a, b]));
    }
    Ok(pairs)
}

fn malformed(path: &Path, line: Option<u64>, found: String, expected: &str, hint: &str) -> Error {
    Error::Format { path: path.to_owned(), line, found, expected: expected.into(), hint: hint.into() }
}
