//! XLM-RoBERTa's `sentencepiece.bpe.model` (Conneau et al. 2020): a unigram model whose ids are shifted, since fairseq, where the
//! model was trained, has special tokens of its own. `<s>`, `<pad>`, `</s>` and `<unk>` are 0 to 3, the pieces after the three
//! special ones of the file follow, and `<mask>` is last.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::proto::{ModelProto, ModelType, PieceKind};
use crate::tokenizer::HuggingFace;
use crate::tokenizer::template::{PairStyle, Template, added};
use crate::{Error, Result};

/// Special tokens before the pieces.
const FIRST: [&str; 4] = ["<s>", "<pad>", "</s>", "<unk>"];
/// The special token after them.
const MASK: &str = "<mask>";

/// Reads the file as a tokeniser with XLM-RoBERTa's ids and template.
///
/// # Errors
/// If it is no unigram model, or does not begin with the three special pieces.
pub fn load(path: impl AsRef<Path>) -> Result<HuggingFace> {
    let path = path.as_ref();
    let malformed = |(found, expected): (String, String)| Error::Format {
        path: path.to_owned(),
        line: None,
        found,
        expected,
        hint: "fetch the file again, or use the folder's tokenizer.json".into(),
    };
    let bytes =
        crate::whole::read(path, crate::whole::MAX_TABLE).map_err(|error| Error::io(path, "open", error))?;
    let model = ModelProto::parse(&bytes).map_err(malformed)?;
    if model.trainer.model_type != ModelType::Unigram {
        let found = format!("a model of type {:?}", model.trainer.model_type);
        return Err(malformed((found, "a unigram model".into())));
    }
    let (head, pieces) = model.pieces.split_at(model.pieces.len().min(3));
    if head.len() < 3 || head.iter().any(|piece| piece.kind == PieceKind::Normal) {
        let found =
            format!("the pieces {:?} first", head.iter().map(|piece| &piece.text).collect::<Vec<_>>());
        return Err(malformed((found, "<unk>, <s> and </s> first".into())));
    }
    let special = FIRST.map(|token| json!([token, 0.0]));
    let scored = pieces.iter().map(|piece| json!([piece.text, piece.score]));
    let vocabulary: Vec<Value> = special.into_iter().chain(scored).chain([json!([MASK, 0.0])]).collect();
    let mask_id = vocabulary.len() as u32 - 1;
    let map = &model.normalizer.precompiled_charsmap;
    let mut rules = Vec::new();
    if !map.is_empty() {
        rules.push(json!({ "type": "Precompiled", "precompiled_charsmap": STANDARD.encode(map) }));
    }
    rules.push(json!({ "type": "Replace", "pattern": { "Regex": " {2,}" }, "content": " " }));
    let mark = json!({ "type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true });
    let template = Template { start: ("<s>", 0), end: ("</s>", 2), pair: PairStyle::TwoEnds };
    let tokens = FIRST.into_iter().zip(0..).chain([(MASK, mask_id)]);
    let file = json!({
        "version": "1.0",
        "added_tokens": added(tokens),
        "normalizer": { "type": "Sequence", "normalizers": rules },
        "pre_tokenizer": { "type": "Sequence", "pretokenizers": [{ "type": "WhitespaceSplit" }, mark] },
        "post_processor": template.section(),
        "decoder": mark,
        "model": { "type": "Unigram", "unk_id": 3, "vocab": vocabulary, "byte_fallback": false },
    });
    HuggingFace::from_bytes(file.to_string().as_bytes(), path)
}
