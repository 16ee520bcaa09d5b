//! Rules for tokens: what may, may not or must come next, given what came.
//!
//! Each rule edits the scores of one row; −∞ forbids. They act in the order of Hugging Face's `generate`: repetition
//! penalty, n-grams, suppressed tokens, minimum length, forced prefix, forced end. As there, scores are
//! log-probabilities in beam search and are not normalised again, and logits in greedy decoding and sampling. The
//! history that rules see begins with the start token. A forced token scores 0, so it counts as certain.
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
use super::rows::{Need, Scores};
use crate::{Error, Result};

/// So many forbidden tokens are left out after the best were found; more are forbidden in a copy of the scores.
const FEW: usize = 16;

/// Which tokens are forbidden or forced.
#[derive(Debug, Clone, PartialEq)]
pub struct Rules {
    /// Sequences of tokens that must not occur (`bad_words_ids`); none. The end token alone is never forbidden.
    pub suppressed: Vec<Vec<u32>>,
    /// No sequence of this many tokens occurs twice; 0 for no such rule.
    pub no_repeat_ngram: usize,
    /// Scores of tokens that came before are divided by this if positive, else multiplied; 1 for no penalty.
    pub repetition_penalty: f32,
    /// The tokens that each sentence's translation begins with, in the order of the sources; none.
    pub prefixes: Vec<Vec<u32>>,
    /// What happens to a sequence that reaches its maximum length; it is cut.
    pub at_limit: AtLimit,
}

/// What happens at the maximum length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AtLimit {
    /// The sequence ends with whatever token comes.
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

/// Rules and limits of one sentence.
#[derive(Debug, Clone, Copy)]
pub(super) struct Guide<'a> {
    options: &'a DecodeOptions,
    prefix: &'a [u32],
    pub(super) limits: Limits,
    pub(super) source_length: usize,
}

impl<'a> Guide<'a> {
    /// One for each source.
    pub(super) fn all(options: &'a DecodeOptions, sources: &[&[u32]]) -> Result<Vec<Self>> {
        let rules = &options.rules;
        if !rules.prefixes.is_empty() && rules.prefixes.len() != sources.len() {
            let message = format!("{} prefixes for {} sources", rules.prefixes.len(), sources.len());
            return Err(Error::Request { message });
        }
        if rules.repetition_penalty.is_nan() || rules.repetition_penalty <= 0.0 {
            let message =
                format!("a repetition penalty of {}, expected a positive number", rules.repetition_penalty);
            return Err(Error::Request { message });
        }
        let guide = |(sentence, source): (usize, &&[u32])| Self {
            options,
            prefix: rules.prefixes.get(sentence).map_or(&[], Vec::as_slice),
            limits: options.lengths.of(source.len()),
            source_length: source.len(),
        };
        Ok(sources.iter().enumerate().map(guide).collect())
    }

    /// True if a sequence of `length` tokens that has just taken `id` is complete.
    pub(super) fn ends(&self, id: u32, length: usize) -> bool {
        id == self.options.end_id || length >= self.limits.max
    }

    /// The token that ends a sequence.
    pub(super) fn end_id(&self) -> u32 {
        self.options.end_id
    }

    /// True if a rule depends on the scale of the scores, not on their order alone.
    pub(super) fn rescales(&self) -> bool {
        self.options.rules.repetition_penalty != 1.0
    }

    /// The scores of the token after `history` (start token first) under all rules; a copy only if one acts.
    pub(super) fn edited<'s>(&self, history: &[u32], scores: &'s [f32]) -> Result<Cow<'s, [f32]>> {
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
            // A token outside the vocabulary cannot come anyway.
            if let Some(score) = scores.get_mut(id as usize) {
                *score = f32::NEG_INFINITY;
            }
        }
        Ok(Cow::Owned(scores))
    }

    /// What [`Guide::best`] reads.
    pub(super) fn need(&self, history: &[u32], k: usize) -> Need {
        let forbidden = self.forbidden(history).len();
        if self.edits(history, forbidden) { Need::All } else { Need::Best(k + forbidden) }
    }

    /// The `k` best log-probabilities of a row under all rules; where they only forbid a few tokens, nothing is copied.
    pub(super) fn best(
        &self,
        history: &[u32],
        scores: &Scores<'_>,
        row: usize,
        k: usize,
    ) -> Result<Vec<Candidate>> {
        let forbidden = self.forbidden(history);
        if self.edits(history, forbidden.len()) {
            return Ok(top(&self.edited(history, scores.log_probabilities(row))?, k));
        }
        let mut best = scores.best(row, k + forbidden.len());
        best.retain(|candidate| !forbidden.contains(&candidate.id));
        best.truncate(k);
        Ok(best)
    }

    /// True if rules do more than forbid few tokens.
    fn edits(&self, history: &[u32], forbidden: usize) -> bool {
        self.forced(history.len() - 1).is_some() || self.rescales() || forbidden > FEW
    }

    /// The tokens that may not come after `history`.
    fn forbidden(&self, history: &[u32]) -> Vec<u32> {
        let rules = &self.options.rules;
        let mut forbidden = no_repeat::forbidden(rules.no_repeat_ngram, history);
        forbidden.extend(suppress::forbidden(&rules.suppressed, self.options.end_id, history));
        forbidden.extend(min_length::forbidden(self.limits.min, self.options.end_id, history));
        forbidden
    }

    /// The one token that may come after `length` tokens, if it is forced. The end of a sequence is the stronger rule.
    fn forced(&self, length: usize) -> Option<u32> {
        let force_end = self.options.rules.at_limit == AtLimit::ForceEnd && length + 1 == self.limits.max;
        if force_end { Some(self.options.end_id) } else { self.prefix.get(length).copied() }
    }
}
