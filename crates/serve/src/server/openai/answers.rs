//! The JSON of completions and chats, whole or in chunks.

use serde::ser::{SerializeMap as _, SerializeSeq as _};
use serde::{Serialize, Serializer};
use serde_json::json;

use super::choices::{Piece, TokenEntry, TokenText};
use super::field_names::CallKind;

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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct Usage {
    prompt_tokens: usize,
    completion_tokens: usize,
    total_tokens: usize,
}

impl Usage {
    pub(super) fn new(prompt_tokens: usize, completion_tokens: usize) -> Self {
        Self { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens }
    }
}

/// The numbers of tokens in an answer or a chunk.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(untagged)]
enum UsageField {
    /// A number for each.
    Known(Usage),
    /// Null: a later chunk has them.
    Later,
    /// Nobody asked.
    LeftOut,
}

impl UsageField {
    fn is_left_out(&self) -> bool {
        matches!(self, Self::LeftOut)
    }
}

/// A whole text.
#[derive(Debug, Clone, Default)]
pub(super) struct WholeText {
    text: String,
    tokens: Vec<(TokenEntry, usize)>,
    finish: Option<&'static str>,
}

impl WholeText {
    /// A text that begins with the prompt, if it is repeated.
    pub(super) fn after(echo: Option<&String>) -> Self {
        Self { text: echo.cloned().unwrap_or_default(), ..Self::default() }
    }

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
    pub(super) fn whole(&self, texts: &[WholeText], usage: Usage) -> String {
        let mut choices = Vec::with_capacity(texts.len());
        for (index, own) in texts.iter().enumerate() {
            let content = match self.kind {
                CallKind::Completion => json!({ "text": own.text }),
                CallKind::Chat => {
                    json!({ "message": { "role": "assistant", "content": own.text, "refusal": null } })
                }
            };
            let logprobs = self.has_tokens.then_some(TokenList { kind: self.kind, tokens: &own.tokens });
            choices.push(ChoiceAnswer { index, content, logprobs, finish_reason: own.finish });
        }
        self.json("chat.completion", choices, UsageField::Known(usage))
    }

    /// The beginning of a text in a stream, if it has one: the role of a message, or the prompt that is repeated.
    pub(super) fn begin(&self, index: usize, echo: Option<&str>, out: &mut String) {
        let content = match (self.kind, echo) {
            (CallKind::Chat, _) => json!({ "delta": { "role": "assistant", "content": "" } }),
            (CallKind::Completion, Some(echo)) => json!({ "text": echo }),
            (CallKind::Completion, None) => return,
        };
        self.chunk(ChoiceAnswer { index, content, logprobs: None, finish_reason: None }, out);
    }

    /// The chunks of a piece.
    pub(super) fn piece(&self, piece: Piece, out: &mut String) {
        let Piece { choice: index, text, tokens, offset, finish } = piece;
        if !text.is_empty() || !tokens.is_empty() {
            let tokens: Vec<(TokenEntry, usize)> = with_offsets(tokens, offset).collect();
            let logprobs = self.has_tokens.then_some(TokenList { kind: self.kind, tokens: &tokens });
            let content = match self.kind {
                CallKind::Completion => json!({ "text": text }),
                CallKind::Chat => json!({ "delta": { "content": text } }),
            };
            self.chunk(ChoiceAnswer { index, content, logprobs, finish_reason: None }, out);
        }
        if finish.is_some() {
            let content = match self.kind {
                CallKind::Completion => json!({ "text": "" }),
                CallKind::Chat => json!({ "delta": {} }),
            };
            self.chunk(ChoiceAnswer { index, content, logprobs: None, finish_reason: finish }, out);
        }
    }

    /// The end of a stream.
    pub(super) fn end(&self, usage: Usage, out: &mut String) {
        if self.has_usage {
            event(&self.json("chat.completion.chunk", Vec::new(), UsageField::Known(usage)), out);
        }
        event("[DONE]", out);
    }

    fn chunk(&self, choice: ChoiceAnswer<'_>, out: &mut String) {
        let usage = if self.has_usage { UsageField::Later } else { UsageField::LeftOut };
        event(&self.json("chat.completion.chunk", vec![choice], usage), out);
    }

    fn json(&self, chat: &'static str, choices: Vec<ChoiceAnswer<'_>>, usage: UsageField) -> String {
        let object = if self.kind == CallKind::Chat { chat } else { "text_completion" };
        let &Self { ref id, created, ref model, seed, .. } = self;
        let answer = Answer { id, object, created, model, seed, choices, usage };
        serde_json::to_string(&answer).expect("plain values")
    }
}

/// An answer, or a chunk of one.
#[derive(Serialize)]
struct Answer<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    seed: u64,
    choices: Vec<ChoiceAnswer<'a>>,
    #[serde(skip_serializing_if = "UsageField::is_left_out")]
    usage: UsageField,
}

#[derive(Serialize)]
struct ChoiceAnswer<'a> {
    index: usize,
    /// `text`, `message` or `delta`.
    #[serde(flatten)]
    content: serde_json::Value,
    logprobs: Option<TokenList<'a>>,
    finish_reason: Option<&'static str>,
}

/// Tokens with their log-probabilities.
struct TokenList<'a> {
    kind: CallKind,
    tokens: &'a [(TokenEntry, usize)],
}

impl Serialize for TokenList<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        if self.kind == CallKind::Chat {
            let entries = || self.tokens.iter().map(|(own, _)| own);
            map.serialize_entry("content", &Sequence(|| entries().map(ChatToken)))?;
            map.serialize_entry("refusal", &())?;
            return map.end();
        }
        // Lists side by side.
        let entries = || self.tokens.iter();
        map.serialize_entry("tokens", &Sequence(|| entries().map(|(own, _)| own.token.shown())))?;
        map.serialize_entry("token_logprobs", &Sequence(|| entries().map(|(own, _)| own.log_probability)))?;
        let has_best = entries().any(|(own, _)| !own.alternatives.is_empty());
        let best = Sequence(|| entries().map(|(own, _)| BestTokens(own)));
        map.serialize_entry("top_logprobs", &has_best.then_some(best))?;
        map.serialize_entry("text_offset", &Sequence(|| entries().map(|(_, offset)| *offset)))?;
        map.end()
    }
}

/// An array of what an iterator yields.
struct Sequence<F>(F);

impl<F: Fn() -> I, I: Iterator<Item: Serialize>> Serialize for Sequence<F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        (self.0)().try_for_each(|item| list.serialize_element(&item))?;
        list.end()
    }
}

/// The most probable tokens of a completion by their text; the token itself is always among them.
struct BestTokens<'a>(&'a TokenEntry);

impl Serialize for BestTokens<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let own = (self.0.token.shown(), self.0.log_probability);
        let mut best: Vec<(String, f32)> = vec![own];
        for (token, score) in &self.0.alternatives {
            let shown = token.shown();
            if best.iter().all(|(other, _)| *other != shown) {
                best.push((shown, *score));
            }
        }
        serializer.collect_map(best)
    }
}

/// A token as chats show it.
struct ChatToken<'a>(&'a TokenEntry);

impl Serialize for ChatToken<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let TokenEntry { token, log_probability, alternatives } = self.0;
        let mut map = serializer.serialize_map(None)?;
        write_token(&mut map, token, *log_probability)?;
        let best = Sequence(|| alternatives.iter().map(|(token, score)| ChatAlternative(token, *score)));
        map.serialize_entry("top_logprobs", &best)?;
        map.end()
    }
}

/// An alternative of a token.
struct ChatAlternative<'a>(&'a TokenText, f32);

impl Serialize for ChatAlternative<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        write_token(&mut map, self.0, self.1)?;
        map.end()
    }
}

fn write_token<M: serde::ser::SerializeMap>(
    map: &mut M,
    token: &TokenText,
    score: f32,
) -> Result<(), M::Error> {
    map.serialize_entry("token", &token.lossy())?;
    map.serialize_entry("logprob", &score)?;
    map.serialize_entry("bytes", &token.bytes)
}

/// A server-sent event.
pub(super) fn event(data: &str, out: &mut String) {
    out.push_str("data: ");
    out.push_str(data);
    out.push_str("\n\n");
}
