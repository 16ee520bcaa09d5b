//! The JSON of completions and chats, whole or in chunks.

use serde_json::{Map, Value, json};

use super::choices::{Piece, TokenEntry};
use super::request::CallKind;

/// What all parts of an answer say.
#[derive(Debug, Clone)]
pub(super) struct AnswerHead {
    pub(super) kind: CallKind,
    pub(super) id: String,
    /// Seconds since 1970.
    pub(super) created: u64,
    pub(super) model: String,
    /// The seed, by which the same texts can be had again.
    pub(super) seed: u64,
    /// True if tokens with their log-probabilities are asked for.
    pub(super) has_tokens: bool,
    /// True if the last chunk has the number of tokens.
    pub(super) has_usage: bool,
}

/// Numbers of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Usage {
    pub(super) prompt: usize,
    pub(super) completion: usize,
}

impl Usage {
    fn json(self) -> Value {
        let Self { prompt, completion } = self;
        json!({ "prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion })
    }
}

/// A whole text.
#[derive(Debug, Clone, Default)]
pub(super) struct WholeText {
    pub(super) text: String,
    pub(super) tokens: Vec<(TokenEntry, usize)>,
    pub(super) finish: Option<&'static str>,
}

impl WholeText {
    /// Appends a piece.
    pub(super) fn push(&mut self, piece: Piece) {
        let Piece { text, tokens, offset, finish, .. } = piece;
        self.text.push_str(&text);
        self.tokens.extend(with_offsets(tokens, offset));
        self.finish = finish;
    }
}

/// Tokens with the number of characters before each.
fn with_offsets(tokens: Vec<TokenEntry>, offset: usize) -> impl Iterator<Item = (TokenEntry, usize)> {
    tokens.into_iter().scan(offset, |offset, token| {
        let own = *offset;
        *offset += String::from_utf8_lossy(&token.token.bytes).chars().count();
        Some((token, own))
    })
}

impl AnswerHead {
    /// The answer with all texts.
    pub(super) fn whole(&self, texts: &[WholeText], usage: Usage) -> Value {
        let choice = |(index, own): (usize, &WholeText)| {
            let log_probabilities = self.log_probabilities(&own.tokens);
            let finish = own.finish;
            match self.kind {
                CallKind::Completion => json!({
                    "index": index, "text": own.text, "logprobs": log_probabilities, "finish_reason": finish,
                }),
                CallKind::Chat => json!({
                    "index": index,
                    "message": { "role": "assistant", "content": own.text, "refusal": null },
                    "logprobs": log_probabilities,
                    "finish_reason": finish,
                }),
            }
        };
        let choices: Vec<Value> = texts.iter().enumerate().map(choice).collect();
        let mut answer = self.object("chat.completion", choices);
        answer["usage"] = usage.json();
        answer
    }

    /// The beginning of a text in a stream, if it has one: the role of a message, or the prompt that is repeated.
    pub(super) fn begin(&self, index: usize, echo: Option<&str>, out: &mut String) {
        match (self.kind, echo) {
            (CallKind::Chat, _) => {
                self.chunk(index, &json!({ "delta": { "role": "assistant", "content": "" } }), out);
            }
            (CallKind::Completion, Some(echo)) => self.chunk(index, &json!({ "text": echo }), out),
            (CallKind::Completion, None) => {}
        }
    }

    /// The chunks of a piece.
    pub(super) fn piece(&self, piece: Piece, out: &mut String) {
        let Piece { choice, text, tokens, offset, finish } = piece;
        if !text.is_empty() || !tokens.is_empty() {
            let tokens: Vec<(TokenEntry, usize)> = with_offsets(tokens, offset).collect();
            let log_probabilities = self.log_probabilities(&tokens);
            let part = match self.kind {
                CallKind::Completion => json!({ "text": text, "logprobs": log_probabilities }),
                CallKind::Chat => json!({ "delta": { "content": text }, "logprobs": log_probabilities }),
            };
            self.chunk(choice, &part, out);
        }
        if let Some(finish) = finish {
            let part = match self.kind {
                CallKind::Completion => json!({ "text": "", "finish_reason": finish }),
                CallKind::Chat => json!({ "delta": {}, "finish_reason": finish }),
            };
            self.chunk(choice, &part, out);
        }
    }

    /// The end of a stream.
    pub(super) fn end(&self, usage: Usage, out: &mut String) {
        if self.has_usage {
            let mut chunk = self.object("chat.completion.chunk", Vec::new());
            chunk["usage"] = usage.json();
            event(&chunk, out);
        }
        out.push_str("data: [DONE]\n\n");
    }

    fn chunk(&self, index: usize, part: &Value, out: &mut String) {
        let mut choice = json!({ "index": index, "logprobs": null, "finish_reason": null });
        for (name, value) in part.as_object().into_iter().flatten() {
            choice[name] = value.clone();
        }
        let mut chunk = self.object("chat.completion.chunk", vec![choice]);
        if self.has_usage {
            chunk["usage"] = Value::Null;
        }
        event(&chunk, out);
    }

    fn object(&self, chat: &str, choices: Vec<Value>) -> Value {
        let object = if self.kind == CallKind::Chat { chat } else { "text_completion" };
        json!({
            "id": self.id, "object": object, "created": self.created, "model": self.model, "seed": self.seed,
            "choices": choices,
        })
    }

    fn log_probabilities(&self, tokens: &[(TokenEntry, usize)]) -> Value {
        if !self.has_tokens {
            return Value::Null;
        }
        match self.kind {
            CallKind::Completion => completion_tokens(tokens),
            CallKind::Chat => {
                let content: Vec<Value> = tokens.iter().map(|(token, _)| chat_token(token)).collect();
                json!({ "content": content, "refusal": null })
            }
        }
    }
}

/// Tokens as completions show them: lists side by side. The token itself is always among its alternatives.
fn completion_tokens(tokens: &[(TokenEntry, usize)]) -> Value {
    let shown: Vec<String> = tokens.iter().map(|(own, _)| own.token.shown()).collect();
    let scores: Vec<f32> = tokens.iter().map(|(own, _)| own.log_probability).collect();
    let offsets: Vec<usize> = tokens.iter().map(|(_, offset)| *offset).collect();
    let best = |(own, _): &(TokenEntry, usize)| {
        let mut best = Map::new();
        for (token, score) in own.alternatives.iter().rev() {
            best.insert(token.shown(), (*score).into());
        }
        best.insert(own.token.shown(), own.log_probability.into());
        Value::Object(best)
    };
    let has_alternatives = tokens.iter().any(|(own, _)| !own.alternatives.is_empty());
    let best: Value = if has_alternatives { tokens.iter().map(best).collect() } else { Value::Null };
    json!({ "tokens": shown, "token_logprobs": scores, "top_logprobs": best, "text_offset": offsets })
}

/// A token as chats show it.
fn chat_token(token: &TokenEntry) -> Value {
    let best: Vec<Value> = token
        .alternatives
        .iter()
        .map(|(text, score)| json!({ "token": text.lossy(), "logprob": score, "bytes": text.bytes }))
        .collect();
    let own = &token.token;
    json!({ "token": own.lossy(), "logprob": token.log_probability, "bytes": own.bytes, "top_logprobs": best })
}

/// A server-sent event.
pub(super) fn event(data: &Value, out: &mut String) {
    out.push_str("data: ");
    out.push_str(&data.to_string());
    out.push_str("\n\n");
}
