//! The rules of one sentence, applied to the scores of a row.

use std::borrow::Cow;

use polyhead_tensor::ops::best_tokens::{Candidate, top};
use polyhead_tensor::ops::softmax::log_softmax;
use polyhead_tensor::{Tape, Tensor, Var};

use super::{AtLimit, bias, forced, min_length, no_repeat, repetition, suppress};
use crate::decode::DecodeOptions;
use crate::decode::options::Limits;
use crate::decode::rows::{RequiredScores, Scores};
use crate::{Error, Result};

/// Up to this many forbidden tokens are filtered from a longer list of the best; more are masked in a copy of the scores.
const MAX_FILTERED: usize = 16;

/// The rules and length limits of one sentence.
#[derive(Debug, Clone, Copy)]
pub(in crate::decode) struct SentenceRules<'a> {
    options: &'a DecodeOptions,
    /// The source, if it belongs to the history.
    context: &'a [u32],
    prefix: &'a [u32],
    pub(in crate::decode) limits: Limits,
    pub(in crate::decode) source_length: usize,
}

impl<'a> SentenceRules<'a> {
    /// The rules of each source.
    pub(in crate::decode) fn all(options: &'a DecodeOptions, sources: &[&'a [u32]]) -> Result<Vec<Self>> {
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
        let sentence_rules = |(sentence, &source): (usize, &&'a [u32])| {
            let prefix = rules.prefixes.get(sentence).map_or(&[][..], Vec::as_slice);
            let limits = options.lengths.with_prefix(source.len(), prefix.len());
            let context = if rules.includes_source { source } else { &[] };
            Self { options, context, prefix, limits, source_length: source.len() }
        };
        Ok(sources.iter().enumerate().map(sentence_rules).collect())
    }

    /// True if a sequence of `length` tokens whose last is `id` is complete. A token of the prefix does not end it.
    pub(in crate::decode) fn ends(&self, id: u32, length: usize) -> bool {
        (self.is_end(id) && length > self.prefix.len()) || length >= self.limits.max
    }

    /// True if the token ends a sequence.
    pub(in crate::decode) fn is_end(&self, id: u32) -> bool {
        self.end_ids().any(|end| end == id)
    }

    /// The tokens that end a sequence.
    pub(in crate::decode) fn end_ids(&self) -> impl Iterator<Item = u32> + Clone + use<'a> {
        [self.options.end_id].into_iter().chain(self.options.rules.other_end_ids.iter().copied())
    }

    /// Number of candidates for each live hypothesis of a beam search: one more than the tokens that end it, so that as many
    /// hypotheses go on as before.
    pub(in crate::decode) fn candidates_per_beam(&self) -> usize {
        2 + self.options.rules.other_end_ids.len()
    }

    /// The length that the score of a sequence of `length` tokens is divided by: without the prefix, at least 1.
    pub(in crate::decode) fn scored_length(&self, length: usize) -> usize {
        length.saturating_sub(self.prefix.len()).max(1)
    }

    /// True if the token after `length` tokens belongs to the prefix.
    pub(in crate::decode) fn is_given(&self, length: usize) -> bool {
        length < self.prefix.len()
    }

    /// True if a rule depends on the values of the scores, not on their order alone.
    pub(in crate::decode) fn rescales(&self) -> bool {
        let rules = &self.options.rules;
        rules.repetition_penalty != 1.0
            || !rules.biases.is_empty()
            || rules.end_decay.is_some()
            || rules.timestamps.is_some()
    }

    /// The scores of the token after `history` (start token first) under all rules; copied only if a rule applies.
    pub(in crate::decode) fn apply<'s>(&self, history: &[u32], scores: &'s [f32]) -> Result<Cow<'s, [f32]>> {
        let rules = &self.options.rules;
        let length = history.len() - 1;
        let forced = self.forced(length);
        if let (Some(ids), true) = (&forced, self.is_given(length)) {
            return Ok(Cow::Owned(forced::only(ids, scores.len())?));
        }
        let (forbidden, late) = (self.forbidden(history), self.forbidden_late(length));
        if forced.is_none() && forbidden.is_empty() && late.is_empty() && !self.rescales() {
            return Ok(Cow::Borrowed(scores));
        }
        let mut scores = if let Some(ids) = forced {
            forced::only(&ids, scores.len())?
        } else {
            let mut scores = scores.to_vec();
            let history = self.in_context(history);
            bias::apply(&rules.biases, &history, &mut scores)?;
            repetition::apply(rules.repetition_penalty, &history, &mut scores);
            forbid(&forbidden, &mut scores);
            scores
        };
        if let Some(decay) = rules.end_decay {
            decay.apply(length.saturating_sub(self.prefix.len()), self.end_ids(), &mut scores);
        }
        forbid(&late, &mut scores);
        if let Some(timestamps) = rules.timestamps {
            let tokens = history.get(1 + self.prefix.len()..).unwrap_or_default();
            timestamps.apply(tokens, self.options.end_id, &mut scores);
        }
        Ok(Cow::Owned(if rules.renormalise { renormalised(scores) } else { scores }))
    }

    /// The scores that [`SentenceRules::best`] reads.
    pub(in crate::decode) fn required_scores(&self, history: &[u32], k: usize) -> RequiredScores {
        let forbidden = self.all_forbidden(history).len();
        if self.modifies(history, forbidden) {
            RequiredScores::All
        } else {
            RequiredScores::Top(k + forbidden)
        }
    }

    /// The `k` best tokens of a row under all rules; nothing is copied where the rules only forbid a few tokens.
    pub(in crate::decode) fn best(
        &self,
        history: &[u32],
        scores: &Scores<'_>,
        row: usize,
        k: usize,
    ) -> Result<Vec<Candidate>> {
        let forbidden = self.all_forbidden(history);
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
        let renormalises = self.options.rules.renormalise && forbidden > 0;
        self.forced(history.len() - 1).is_some()
            || self.rescales()
            || renormalises
            || forbidden > MAX_FILTERED
    }

    /// The tokens forbidden after `history` by any rule.
    fn all_forbidden(&self, history: &[u32]) -> Vec<u32> {
        let mut forbidden = self.forbidden(history);
        forbidden.extend(self.forbidden_late(history.len() - 1));
        forbidden
    }

    /// The tokens forbidden after `history`, unless a token is forced.
    fn forbidden(&self, history: &[u32]) -> Vec<u32> {
        let rules = &self.options.rules;
        let all = self.in_context(history);
        let mut forbidden = no_repeat::forbidden(rules.no_repeat_ngram, &all);
        forbidden.extend(suppress::forbidden(&rules.suppressed, self.end_ids(), &all));
        forbidden.extend(min_length::forbidden(self.limits.min, self.end_ids(), history));
        forbidden
    }

    /// The history after its context, which then takes the place of the start token.
    fn in_context<'s>(&self, history: &'s [u32]) -> Cow<'s, [u32]> {
        if self.context.is_empty() {
            return Cow::Borrowed(history);
        }
        Cow::Owned([self.context, &history[1..]].concat())
    }

    /// The tokens forbidden after `length` tokens even where they are forced.
    fn forbidden_late(&self, length: usize) -> Vec<u32> {
        let rules = &self.options.rules;
        let has_forced_first = rules.forced_first.is_some() && self.prefix.is_empty();
        let is_first = length == self.prefix.len() + usize::from(has_forced_first);
        let first = if is_first { rules.forbidden_first.as_slice() } else { &[] };
        [&rules.forbidden, first].concat()
    }

    /// The tokens of which one is forced after `length` tokens, if there are any. The forced end takes precedence.
    fn forced(&self, length: usize) -> Option<Vec<u32>> {
        let rules = &self.options.rules;
        let is_last = length + 1 == self.limits.max;
        match &rules.at_limit {
            AtLimit::ForceEnd if is_last => Some(vec![self.options.end_id]),
            AtLimit::Force(ids) if is_last => Some(ids.clone()),
            _ if self.prefix.is_empty() && length == 0 => rules.forced_first.map(|id| vec![id]),
            _ => self.prefix.get(length).map(|&id| vec![id]),
        }
    }
}

/// Sets the scores of these tokens to −∞. A token outside the vocabulary cannot be generated anyway.
fn forbid(ids: &[u32], scores: &mut [f32]) {
    for &id in ids {
        if let Some(score) = scores.get_mut(id as usize) {
            *score = f32::NEG_INFINITY;
        }
    }
}

/// Log-probabilities of which some were changed, normalised again (`LogitNormalization`).
fn renormalised(scores: Vec<f32>) -> Vec<f32> {
    if scores.iter().all(|&score| score == f32::NEG_INFINITY) {
        return scores;
    }
    let scores = Var::constant(Tensor::new(&[1, scores.len()], scores));
    log_softmax(&Tape::inference(), &scores).value().data().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::Lengths;
    use crate::decode::rules::{EndDecay, Rules, SequenceBias};

    const LN_2: f32 = std::f32::consts::LN_2;
    const NONE: f32 = f32::NEG_INFINITY;

    fn applied(options: &DecodeOptions, history: &[u32]) -> Vec<f32> {
        let rules = SentenceRules::all(options, &[&[1, 1]]).unwrap().remove(0);
        rules.apply(history, &[-1.0, -2.0, -LN_2, -LN_2]).unwrap().into_owned()
    }

    /// Start token 3, end tokens 0 and 1.
    fn options(rules: Rules) -> DecodeOptions {
        let rules = Rules { other_end_ids: vec![1], ..rules };
        DecodeOptions { start_id: 3, end_id: 0, rules, ..DecodeOptions::default() }
    }

    #[test]
    fn the_first_token_is_forced_and_the_next_has_its_own_ban() {
        let rules = Rules { forced_first: Some(2), forbidden_first: vec![0], ..Rules::default() };
        let free = options(rules.clone());
        assert_eq!(applied(&free, &[3]), [NONE, NONE, 0.0, NONE]);
        assert_eq!(applied(&free, &[3, 2]), [NONE, -2.0, -LN_2, -LN_2]);
        assert_eq!(applied(&free, &[3, 2, 2]), [-1.0, -2.0, -LN_2, -LN_2]);
        // With a prefix nothing else is forced, and the ban is on the token after the prefix.
        let prefixed = options(Rules { prefixes: vec![vec![1]], ..rules });
        assert_eq!(applied(&prefixed, &[3]), [NONE, 0.0, NONE, NONE]);
        assert_eq!(applied(&prefixed, &[3, 1]), [NONE, -2.0, -LN_2, -LN_2]);
    }

    #[test]
    fn every_end_token_waits_for_the_minimum_and_is_forced_at_the_limit() {
        let lengths = Lengths { min_new: 1, max_new: Some(2), ..Lengths::default() };
        let rules =
            Rules { at_limit: AtLimit::Force(vec![1, 2]), prefixes: vec![vec![2]], ..Rules::default() };
        let options = DecodeOptions { lengths, ..options(rules) };
        assert_eq!(applied(&options, &[3, 2]), [NONE, NONE, -LN_2, -LN_2]);
        assert_eq!(applied(&options, &[3, 2, 2]), [NONE, 0.0, 0.0, NONE]);
        let rules = SentenceRules::all(&options, &[&[1]]).unwrap().remove(0);
        assert!(rules.ends(0, 2) && rules.ends(1, 2) && !rules.ends(2, 2) && rules.ends(2, 3));
        assert_eq!([1, 2, 3].map(|length| rules.scored_length(length)), [1, 1, 2]);
    }

    #[test]
    fn what_is_left_sums_to_one_again() {
        let rules = Rules { renormalise: true, forbidden: vec![0, 1], ..Rules::default() };
        let found = applied(&options(rules), &[3]);
        assert_eq!(found[..2], [NONE, NONE]);
        assert!(found[2..].iter().all(|score| (score + LN_2).abs() < 1e-6), "{found:?}");
        let none = Rules { renormalise: true, forbidden: vec![0, 1, 2, 3], ..Rules::default() };
        assert_eq!(applied(&options(none), &[3]), [NONE; 4]);
    }

    #[test]
    fn a_prompt_belongs_to_the_history() {
        let rules = Rules { repetition_penalty: 2.0, no_repeat_ngram: 2, ..Rules::default() };
        let options = options(Rules { includes_source: true, ..rules });
        let rules = SentenceRules::all(&options, &[&[2, 3, 2]]).unwrap().remove(0);
        let found = rules.apply(&[2], &[-1.0, -2.0, -LN_2, -LN_2]).unwrap().into_owned();
        // 2 and 3 are penalised, and 3 would repeat "2 3".
        assert_eq!(found, [-1.0, -2.0, -LN_2 * 2.0, NONE]);
        let found = rules.apply(&[2, 1], &[-1.0, -2.0, -LN_2, -LN_2]).unwrap().into_owned();
        assert_eq!(found, [-1.0, -4.0, -LN_2 * 2.0, -LN_2 * 2.0]);
    }

    #[test]
    fn biases_come_before_penalties_and_decay_after() {
        let rules = Rules {
            biases: vec![SequenceBias { ids: vec![2], bias: -1.0 }],
            repetition_penalty: 2.0,
            end_decay: Some(EndDecay { start: 0, factor: 1.5 }),
            ..Rules::default()
        };
        let found = applied(&options(rules), &[3, 2]);
        assert_eq!(found, [-0.5, -1.0, (-LN_2 - 1.0) * 2.0, -LN_2 * 2.0]);
    }
}
