//! The texts of a request as they grow: pieces of text, the tokens that they are made of, and why they ended.

use polyhead_engine::generate::{Alternative, FinishReason, GeneratedToken};
use polyhead_text::tokenizer::Tokenizer;

use super::super::generation::Update;
use crate::Result;

/// All texts of a request.
#[derive(Debug)]
pub(super) struct Choices {
    all: Vec<Choice>,
    /// True if tokens with their log-probabilities are asked for.
    has_tokens: bool,
    n_tokens: usize,
    n_left: usize,
}

/// One text.
#[derive(Debug, Clone, Default)]
struct Choice {
    /// Tokens whose text is held back.
    pending: Vec<TokenEntry>,
    /// Characters so far.
    characters: usize,
}

/// What an update adds to a text.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Piece {
    pub(super) choice: usize,
    pub(super) text: String,
    /// Its tokens, if they are asked for.
    pub(super) tokens: Vec<TokenEntry>,
    /// Characters of the text before it.
    pub(super) offset: usize,
    /// The reason why the text ended, as OpenAI names it.
    pub(super) finish: Option<&'static str>,
}

/// A token and its log-probability.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TokenEntry {
    pub(super) token: TokenText,
    pub(super) log_probability: f32,
    /// The most probable tokens in its place, best first.
    pub(super) alternatives: Vec<(TokenText, f32)>,
}

/// The text of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TokenText {
    pub(super) bytes: Vec<u8>,
    /// As it is spelled in the vocabulary, for a token without text.
    spelling: String,
}

impl TokenText {
    fn new(id: u32, tokenizer: &Tokenizer) -> Self {
        let bytes = tokenizer.token_bytes(id).unwrap_or_default();
        let spelling = if bytes.is_empty() { tokenizer.piece(id).unwrap_or_default() } else { String::new() };
        Self { bytes, spelling }
    }

    /// The text; of a part of a character its bytes, as OpenAI's completions show them.
    pub(super) fn shown(&self) -> String {
        if self.bytes.is_empty() {
            return self.spelling.clone();
        }
        let bytes = || self.bytes.iter().map(|byte| format!("\\x{byte:02x}")).collect::<String>();
        std::str::from_utf8(&self.bytes).map_or_else(|_| format!("bytes:{}", bytes()), str::to_owned)
    }

    /// The text, with U+FFFD for parts of characters.
    pub(super) fn lossy(&self) -> String {
        if self.bytes.is_empty() {
            return self.spelling.clone();
        }
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

impl Choices {
    /// `count` empty texts, which begin after `characters` characters of an echo.
    pub(super) fn new(characters: Vec<usize>, has_tokens: bool) -> Self {
        let n_left = characters.len();
        let all =
            characters.into_iter().map(|characters| Choice { characters, ..Choice::default() }).collect();
        Self { all, has_tokens, n_tokens: 0, n_left }
    }

    /// True if all texts are finished.
    pub(super) fn are_finished(&self) -> bool {
        self.n_left == 0
    }

    /// Tokens generated so far, end tokens included.
    pub(super) fn n_tokens(&self) -> usize {
        self.n_tokens
    }

    /// Adds a token to its text.
    ///
    /// # Errors
    /// The error that ended the text.
    pub(super) fn add(&mut self, update: Update, tokenizer: &Tokenizer) -> Result<Piece> {
        let Update { choice, found } = update;
        let token = found?;
        let reason = token.finished.as_ref().map(|finished| finished.finish_reason);
        let own = &mut self.all[choice];
        self.n_tokens += usize::from(token.id.is_some());
        self.n_left -= usize::from(reason.is_some());
        if self.has_tokens && reason != Some(FinishReason::End) {
            own.pending.extend(entry(&token, tokenizer));
        }
        let is_shown = !token.text.is_empty() || reason.is_some_and(|reason| reason != FinishReason::Stop);
        let offset = own.characters;
        own.characters += token.text.chars().count();
        let tokens = if is_shown { std::mem::take(&mut own.pending) } else { Vec::new() };
        Ok(Piece { choice, text: token.text, tokens, offset, finish: reason.map(FinishReason::openai_name) })
    }
}

fn entry(token: &GeneratedToken, tokenizer: &Tokenizer) -> Option<TokenEntry> {
    let text = |id: u32| TokenText::new(id, tokenizer);
    let alternative = |own: &Alternative| (text(own.id), own.log_probability);
    Some(TokenEntry {
        token: text(token.id?),
        log_probability: token.log_probability,
        alternatives: token.alternatives.iter().map(alternative).collect(),
    })
}
