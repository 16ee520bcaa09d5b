//! Greedy decoding: always the most probable token, the smaller id of equals.
//!
//! y_t = argmax p(y | y_1 … y_{t−1}, x), until the end token or the limit. Rules act as in Hugging Face's `generate`:
//! on logits, not on log-probabilities, which makes a difference to the repetition penalty alone.

use polyhead_tensor::ops::best_tokens::top;

use super::path::Path;
use super::rows::{Need, Next, Scores, Search, run};
use super::rules::Guide;
use super::{DecodeOptions, Hypothesis, NextToken};
use crate::Result;

/// The greedy continuation of each source. If rules forbid every token, a sequence ends where it is.
///
/// # Errors
/// If a source cannot be read or a rule names a token outside the vocabulary.
pub fn greedy<M: NextToken>(
    model: &M,
    sources: &[&[u32]],
    options: &DecodeOptions,
) -> Result<Vec<Hypothesis>> {
    let mut searches: Vec<GreedySearch<'_>> = Guide::all(options, sources)?
        .into_iter()
        .map(|guide| GreedySearch { guide, path: Path::new(options.start_id) })
        .collect();
    run(model, sources, options.start_id, &mut searches)?;
    Ok(searches.iter().map(|search| search.path.finish()).collect())
}

struct GreedySearch<'a> {
    guide: Guide<'a>,
    path: Path,
}

impl Search for GreedySearch<'_> {
    fn width(&self) -> usize {
        1
    }

    fn is_empty(&self) -> bool {
        self.guide.limits.max == 0
    }

    fn need(&self) -> Need {
        self.guide.need(&self.path.history, 1)
    }

    fn advance(&mut self, scores: &Scores<'_>) -> Result<Vec<Next>> {
        let history = &self.path.history;
        // Both scales have the same order. Log-probabilities keep the ties of a beam of one.
        let mut best = if self.guide.rescales() {
            top(&self.guide.edited(history, scores.logits(0))?, 1)
        } else {
            self.guide.best(history, scores, 0, 1)?
        };
        let Some(best) = best.pop() else { return Ok(Vec::new()) };
        let log_probability = scores.log_probability(0, best);
        self.path.push(best.id, log_probability, log_probability);
        let ends = self.guide.ends(best.id, self.path.ids().len());
        Ok(if ends { Vec::new() } else { vec![Next { parent: 0, token: best.id }] })
    }
}
