//! Templates of special tokens around a text or a pair of texts, as sections of a `tokenizer.json`.

use serde_json::{Value, json};

/// The tokens that begin a text and end it, with their ids.
pub(super) struct Template<'a> {
    pub(super) start: (&'a str, u32),
    pub(super) end: (&'a str, u32),
    pub(super) pair: PairStyle,
}

/// How a pair of texts is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PairStyle {
    /// One end token between them, and token type 1 for the second text, as in BERT.
    Types,
    /// Two end tokens between them, as in RoBERTa.
    TwoEnds,
}

impl Template<'_> {
    /// The section `post_processor`.
    pub(super) fn section(&self) -> Value {
        let special =
            |(token, _): (&str, u32), kind: u32| json!({ "SpecialToken": { "id": token, "type_id": kind } });
        let text = |id: &str, kind: u32| json!({ "Sequence": { "id": id, "type_id": kind } });
        let single = vec![special(self.start, 0), text("A", 0), special(self.end, 0)];
        let mut pair = single.clone();
        let kind = match self.pair {
            PairStyle::Types => 1,
            PairStyle::TwoEnds => {
                pair.push(special(self.end, 0));
                0
            }
        };
        pair.extend([text("B", kind), special(self.end, kind)]);
        let entry = |(token, id): (&str, u32)| {
            (token.to_owned(), json!({ "id": token, "ids": [id], "tokens": [token] }))
        };
        let tokens: serde_json::Map<String, Value> = [self.start, self.end].into_iter().map(entry).collect();
        json!({ "type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": tokens })
    }
}

/// The section `added_tokens` of special tokens with their ids, sorted by id. The space before a mask belongs to it, so that a
/// word takes its place.
pub(super) fn added<'a>(tokens: impl Iterator<Item = (&'a str, u32)>) -> Value {
    let mut tokens: Vec<(u32, &str)> = tokens.map(|(token, id)| (id, token)).collect();
    tokens.sort_unstable();
    let flags = |(id, token): (u32, &str)| {
        json!({
            "id": id, "content": token, "special": true, "single_word": false, "lstrip": token == "<mask>",
            "rstrip": false, "normalized": false,
        })
    };
    tokens.into_iter().map(flags).collect()
}
