//! Greedy decoding: the most probable token at every step; ties go to the smaller id.
//!
//! y_t = argmax p(y | y_1 … y_{t−1}, x), until the end token or the maximum length. As in Hugging Face's `generate`, rules
//! modify logits, not log-probabilities, which matters to the repetition penalty and to the decay of end tokens.

use polyhead_tensor::ops::best_tokens::top;

use super::partial::PartialHypothesis;
use super::rows::{NextRow, RequiredScores, Scores, Search, run};
use super::rules::SentenceRules;
use super::{DecodeOptions, Hypothesis, NextToken};
use crate::Result;

/// The greedy hypothesis of each source. If the rules forbid every token, a sequence ends where it is.
///
/// # Errors
/// If a source is invalid or a rule names a token outside the vocabulary.
pub fn greedy<M: NextToken>(
    model: &M,
    sources: &[&[u32]],
    options: &DecodeOptions,
) -> Result<Vec<Hypothesis>> {
    let mut searches: Vec<GreedySearch<'_>> = SentenceRules::all(options, sources)?
        .into_iter()
        .map(|rules| GreedySearch { rules, partial: PartialHypothesis::new(options.start_id) })
        .collect();
    run(model, sources, options.start_id, &mut searches)?;
    Ok(searches.iter().map(|search| search.partial.finish()).collect())
}

struct GreedySearch<'a> {
    rules: SentenceRules<'a>,
    partial: PartialHypothesis,
}

impl Search for GreedySearch<'_> {
    fn width(&self) -> usize {
        1
    }

    fn is_empty(&self) -> bool {
        self.rules.limits.max == 0
    }

    fn required_scores(&self) -> RequiredScores {
        self.rules.required_scores(&self.partial.history, 1)
    }

    fn advance(&mut self, scores: &Scores<'_>) -> Result<Vec<NextRow>> {
        let history = &self.partial.history;
        // Both scales have the same order; log-probabilities have the same ties as a beam of one.
        let mut best = if self.rules.rescales() {
            top(&self.rules.apply(history, scores.logits(0))?, 1)
        } else {
            self.rules.best(history, scores, 0, 1)?
        };
        let Some(best) = best.pop() else { return Ok(Vec::new()) };
        let log_probability = scores.log_probability(0, best);
        let score = if self.rules.is_given(self.partial.ids().len()) { 0.0 } else { log_probability };
        self.partial.push(best.id, log_probability, score);
        let ends = self.rules.ends(best.id, self.partial.ids().len());
        Ok(if ends { Vec::new() } else { vec![NextRow { parent: 0, token: best.id }] })
    }
}
