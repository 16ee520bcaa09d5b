//! The tokeniser inside a GGUF file as a `tokenizer.json` of Hugging Face.
//!
//! Sentencepiece's BPE joins the pair whose result has the highest score, so its scores give the order of merges.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::GgufTokenizer;

/// Kinds of tokens.
const UNKNOWN: u32 = 2;
const CONTROL: u32 = 3;
const USER_DEFINED: u32 = 4;
/// The word mark of sentencepiece.
const MARK: &str = "\u{2581}";
/// Longest token of which pairs are made, in characters.
const LONGEST: usize = 64;
/// The rule of Llama 3 for splitting words; Qwen2's differs in its numbers.
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

impl GgufTokenizer {
    /// The text of `tokenizer.json`.
    ///
    /// # Errors
    /// If the tokeniser is of a kind that is not known; the error is its name.
    pub fn to_json(&self) -> Result<String, String> {
        let value = match (self.model.as_str(), self.splitting.as_str()) {
            ("llama", _) => self.sentencepiece(),
            ("gpt2", "" | "default" | "gpt-2") => self.byte_level(Value::Null, &Value::Null),
            ("gpt2", "llama-bpe" | "llama3" | "llama-v3") => self.byte_level(json!(LLAMA3), &Value::Null),
            ("gpt2", "qwen2") => {
                self.byte_level(json!(LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")), &json!({ "type": "NFC" }))
            }
            ("", _) => return Err("one without a name".to_owned()),
            (model, "") => return Err(model.to_owned()),
            (model, splitting) => return Err(format!("{model} with the rule {splitting}")),
        };
        Ok(value.to_string() + "\n")
    }

    fn kind(&self, id: usize) -> u32 {
        self.kinds.get(id).copied().unwrap_or(1)
    }

    fn vocabulary(&self) -> Map<String, Value> {
        self.tokens.iter().enumerate().map(|(id, token)| (token.clone(), json!(id))).collect()
    }

    /// Control tokens, and those that users defined.
    fn added(&self) -> Vec<Value> {
        let added =
            (0..self.tokens.len()).filter(|&id| matches!(self.kind(id), UNKNOWN | CONTROL | USER_DEFINED));
        let token = |id: usize| {
            json!({
                "id": id,
                "content": self.tokens[id],
                "single_word": false,
                "lstrip": false,
                "rstrip": false,
                "normalized": false,
                "special": self.kind(id) != USER_DEFINED,
            })
        };
        added.map(token).collect()
    }

    /// Puts the start token in front of a text, if the file says so.
    fn template(&self) -> Value {
        let start =
            self.start.filter(|_| self.adds_start).and_then(|id| Some((id, self.tokens.get(id as usize)?)));
        let Some((id, token)) = start else { return Value::Null };
        let special = json!({ "SpecialToken": { "id": token, "type_id": 0 } });
        let [first, second] =
            [("A", 0), ("B", 1)].map(|(name, kind)| json!({ "Sequence": { "id": name, "type_id": kind } }));
        json!({
            "type": "TemplateProcessing",
            "single": [special, first],
            "pair": [special, first, special, second],
            "special_tokens": { (token.as_str()): { "id": token, "ids": [id], "tokens": [token] } },
        })
    }

    fn whole(&self, parts: Value, model: Value) -> Value {
        let mut value = parts;
        value["version"] = json!("1.0");
        value["truncation"] = Value::Null;
        value["padding"] = Value::Null;
        value["added_tokens"] = self.added().into();
        value["post_processor"] = self.template();
        value["model"] = model;
        value
    }

    fn byte_level(&self, splitting: Value, normalizer: &Value) -> Value {
        let bytes = |uses_own_rule: bool| json!({ "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": uses_own_rule });
        let splitter = match splitting {
            Value::Null => bytes(true),
            rule => json!({
                "type": "Sequence",
                "pretokenizers": [
                    { "type": "Split", "pattern": { "Regex": rule }, "behavior": "Isolated", "invert": false },
                    bytes(false),
                ],
            }),
        };
        let parts = json!({ "normalizer": normalizer, "pre_tokenizer": splitter, "decoder": bytes(true) });
        let model = json!({
            "type": "BPE",
            "dropout": null,
            "unk_token": null,
            "continuing_subword_prefix": null,
            "end_of_word_suffix": null,
            "fuse_unk": false,
            "byte_fallback": false,
            // A token that is in the vocabulary as a whole is not split, as in Llama 3.
            "ignore_merges": self.splitting == "llama-bpe",
            "vocab": self.vocabulary(),
            "merges": self.merges,
        });
        self.whole(parts, model)
    }

    fn sentencepiece(&self) -> Value {
        let parts = json!({
            "normalizer": {
                "type": "Sequence",
                "normalizers": [
                    { "type": "Prepend", "prepend": MARK },
                    { "type": "Replace", "pattern": { "String": " " }, "content": MARK },
                ],
            },
            "pre_tokenizer": null,
            "decoder": {
                "type": "Sequence",
                "decoders": [
                    { "type": "Replace", "pattern": { "String": MARK }, "content": " " },
                    { "type": "ByteFallback" },
                    { "type": "Fuse" },
                    { "type": "Strip", "content": " ", "start": 1, "stop": 0 },
                ],
            },
        });
        let unknown = (0..self.tokens.len()).find(|&id| self.kind(id) == UNKNOWN).map(|id| &self.tokens[id]);
        let model = json!({
            "type": "BPE",
            "dropout": null,
            "unk_token": unknown,
            "continuing_subword_prefix": null,
            "end_of_word_suffix": null,
            "fuse_unk": true,
            "byte_fallback": true,
            "ignore_merges": false,
            "vocab": self.vocabulary(),
            "merges": self.merges_by_score(),
        });
        self.whole(parts, model)
    }

    /// All pairs of tokens that together are a token, by its score, highest first.
    fn merges_by_score(&self) -> Vec<[&str; 2]> {
        let ids: HashMap<&str, usize> =
            self.tokens.iter().enumerate().map(|(id, token)| (token.as_str(), id)).collect();
        let mut found: Vec<(f32, [&str; 2])> = Vec::new();
        for (id, token) in self.tokens.iter().enumerate().filter(|(id, _)| matches!(self.kind(*id), 1)) {
            let score = self.scores.get(id).copied().unwrap_or(0.0);
            let mut pairs: Vec<[&str; 2]> = token
                .char_indices()
                .skip(1)
                .take(LONGEST)
                .map(|(at, _)| <[&str; 2]>::from(token.split_at(at)))
                .filter(|pair| pair.iter().all(|part| ids.contains_key(part)))
                .collect();
            pairs.sort_by_key(|pair| pair.map(|part| ids[part]));
            found.extend(pairs.into_iter().map(|pair| (score, pair)));
        }
        found.sort_by(|a, b| b.0.total_cmp(&a.0));
        found.into_iter().map(|(_, pair)| pair).collect()
    }
}
