//! Rules for tokens: which tokens are forbidden or forced next, given the history.
//!
//! Each rule modifies the scores of one row; −∞ forbids a token. They apply in the order of Hugging Face's `generate`:
//! repetition penalty, n-grams, suppressed tokens, minimum length, forced prefix, forced end. As there, scores are
//! log-probabilities in beam search, which are not renormalised, and logits in greedy decoding and sampling. The history
//! begins with the start token. A forced token scores 0, so it counts as certain.
//!
//! ```
//! use polyhead_models::decode::rules::Rules;
//! let rules = Rules { suppressed: vec![vec![7], vec![3, 4]], no_repeat_ngram: 3, ..Rules::default() };
//! assert_eq!(rules.repetition_penalty, 1.0); // none
//! ```

mod forced;
mod min_length;
mod no_repeat;
mod repetition;
mod suppress;

use std::borrow::Cow;

use polyhead_tensor::ops::best_tokens::{Candidate, top};

use super::DecodeOptions;
use super::options::Limits;
use super::rows::{RequiredScores, Scores};
use crate::{Error, Result};

/// Up to this many forbidden tokens are filtered from a longer list of the best; more are masked in a copy of the scores.
const MAX_FILTERED: usize = 16;

/// Forbidden and forced tokens.
#[derive(Debug, Clone, PartialEq)]
pub struct Rules {
    /// Sequences of tokens that must not occur (`bad_words_ids`); default: none. The end token alone is never forbidden.
    pub suppressed: Vec<Vec<u32>>,
    /// No sequence of this many tokens occurs twice; default: 0, no such rule.
    pub no_repeat_ngram: usize,
    /// Divides the scores of tokens in the history if positive, multiplies them if negative; default: 1, no penalty.
    pub repetition_penalty: f32,
    /// The forced prefix of each sentence's translation, in the order of the sources; default: none.
    pub prefixes: Vec<Vec<u32>>,
    /// The treatment of a sequence at its maximum length; default: it is truncated.
    pub at_limit: AtLimit,
}

/// The treatment of a sequence at its maximum length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AtLimit {
    /// The sequence is truncated, whatever its last token.
    #[default]
    Cut,
    /// The last token is the end token (`forced_eos_token_id`).
    ForceEnd,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            suppressed: Vec::new(),
            no_repeat_ngram: 0,
            repetition_penalty: 1.0,
            prefixes: Vec::new(),
            at_limit: AtLimit::Cut,
        }
    }
}

/// The rules and length limits of one sentence.
#[derive(Debug, Clone, Copy)]
pub(super) struct SentenceRules<'a> {
    options: &'a DecodeOptions,
    prefix: &'a [u32],
    pub(super) limits: Limits,
    pub(super) source_length: usize,
}

impl<'a> SentenceRules<'a> {
    /// The rules of each source.
    pub(super) fn all(options: &'a DecodeOptions, sources: &[&[u32]]) -> Result<Vec<Self>> {
        let rules = &options.rules;
        if !rules.prefixes.is_empty() && rules.prefixes.len() != sources.len() {
            let message =
                format!("{} prefixes for {} sources, expected one each", rules.prefixes.len(), sources.len());
            return Err(Error::Request { message });
        }
        if rules.repetition_penalty.is_nan() || rules.repetition_penalty <= 0.0 {
            let message =
                format!("a repetition penalty of {}, expected a positive number", rules.repetition_penalty);
            return Err(Error::Request { message });
        }
        let sentence_rules = |(sentence, source): (usize, &&[u32])| Self {
            options,
            prefix: rules.prefixes.get(sentence).map_or(&[], Vec::as_slice),
            limits: options.lengths.of(source.len()),
            source_length: source.len(),
        };
        Ok(sources.iter().enumerate().map(sentence_rules).collect())
    }

    /// True if a sequence of `length` tokens whose last is `id` is complete.
    pub(super) fn ends(&self, id: u32, length: usize) -> bool {
        id == self.options.end_id || length >= self.limits.max
    }

    /// The token that ends a sequence.
    pub(super) fn end_id(&self) -> u32 {
        self.options.end_id
    }

    /// True if a rule depends on the values of the scores, not on their order alone.
    pub(super) fn rescales(&self) -> bool {
        self.options.rules.repetition_penalty != 1.0
    }

    /// The scores of the token after `history` (start token first) under all rules; copied only if a rule applies.
    pub(super) fn apply<'s>(&self, history: &[u32], scores: &'s [f32]) -> Result<Cow<'s, [f32]>> {
        if let Some(id) = self.forced(history.len() - 1) {
            return Ok(Cow::Owned(forced::only(id, scores.len())?));
        }
        let forbidden = self.forbidden(history);
        if forbidden.is_empty() && !self.rescales() {
            return Ok(Cow::Borrowed(scores));
        }
        let mut scores = scores.to_vec();
        repetition::apply(self.options.rules.repetition_penalty, history, &mut scores);
        for id in forbidden {
            // A token outside the vocabulary cannot be generated anyway.
            if let Some(score) = scores.get_mut(id as usize) {
                *score = f32::NEG_INFINITY;
            }
        }
        Ok(Cow::Owned(scores))
    }

    /// The scores that [`SentenceRules::best`] reads.
    pub(super) fn required_scores(&self, history: &[u32], k: usize) -> RequiredScores {
        let forbidden = self.forbidden(history).len();
        if self.modifies(history, forbidden) {
            RequiredScores::All
        } else {
            RequiredScores::Top(k + forbidden)
        }
    }

    /// The `k` best tokens of a row under all rules; nothing is copied where the rules only forbid a few tokens.
    pub(super) fn best(
        &self,
        history: &[u32],
        scores: &Scores<'_>,
        row: usize,
        k: usize,
    ) -> Result<Vec<Candidate>> {
        let forbidden = self.forbidden(history);
        if self.modifies(history, forbidden.len()) {
            return Ok(top(&self.apply(history, scores.log_probabilities(row))?, k));
        }
        let mut best = scores.best(row, k + forbidden.len());
        best.retain(|candidate| !forbidden.contains(&candidate.id));
        best.truncate(k);
        Ok(best)
    }

    /// True if the rules do more than forbid a few tokens.
    fn modifies(&self, history: &[u32], forbidden: usize) -> bool {
        self.forced(history.len() - 1).is_some() || self.rescales() || forbidden > MAX_FILTERED
    }

    /// The tokens forbidden after `history`.
    fn forbidden(&self, history: &[u32]) -> Vec<u32> {
        let rules = &self.options.rules;
        let mut forbidden = no_repeat::forbidden(rules.no_repeat_ngram, history);
        forbidden.extend(suppress::forbidden(&rules.suppressed, self.options.end_id, history));
        forbidden.extend(min_length::forbidden(self.limits.min, self.options.end_id, history));
        forbidden
    }

    /// The forced token after `length` tokens, if there is one. The forced end takes precedence over the prefix.
    fn forced(&self, length: usize) -> Option<u32> {
        let force_end = self.options.rules.at_limit == AtLimit::ForceEnd && length + 1 == self.limits.max;
        if force_end { Some(self.options.end_id) } else { self.prefix.get(length).copied() }
    }
}
