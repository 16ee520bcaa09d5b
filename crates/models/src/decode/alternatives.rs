//! What else could stand at a place: the k best tokens after a given beginning, each with the best way to go on.
//!
//! argmax_k p(y | prefix, x), then a beam search with prefix + y as its forced beginning.

use polyhead_tensor::ops::best_tokens::Candidate;

use super::beam::{BeamOptions, beam};
use super::rows::{Need, Next, Scores, Search, run};
use super::rules::{Guide, Rules};
use super::{DecodeOptions, Hypothesis, NextToken};
use crate::Result;

/// How many alternatives, and how each goes on.
#[derive(Debug, Clone, PartialEq)]
pub struct AlternativesOptions {
    /// How many tokens, k; 5.
    pub n: usize,
    /// How each is completed; with a beam of 4. A beam of 1 is greedy decoding. Its prefixes are not used.
    pub beam: BeamOptions,
}

impl Default for AlternativesOptions {
    fn default() -> Self {
        Self { n: 5, beam: BeamOptions::default() }
    }
}

/// A token that could come next.
#[derive(Debug, Clone, PartialEq)]
pub struct Alternative {
    /// The token.
    pub id: u32,
    /// Its log-probability after the prefix, under the rules.
    pub log_probability: f32,
    /// The best translations that begin with the prefix and this token, best first.
    pub hypotheses: Vec<Hypothesis>,
}

/// The most probable tokens after `prefix`, best first; none if the prefix has ended.
///
/// # Errors
/// If the source or the prefix cannot be read, or the options make no sense.
pub fn alternatives<M: NextToken>(
    model: &M,
    source: &[u32],
    prefix: &[u32],
    options: &AlternativesOptions,
) -> Result<Vec<Alternative>> {
    let decode = &options.beam.decode;
    let rules = Rules { prefixes: Vec::new(), ..decode.rules.clone() };
    let free = DecodeOptions { rules, ..decode.clone() };
    let mut searches: Vec<Look<'_>> = Guide::all(&free, &[source])?
        .into_iter()
        .map(|guide| Look {
            guide,
            prefix,
            n: options.n,
            step: 0,
            start_id: decode.start_id,
            found: Vec::new(),
        })
        .collect();
    run(model, &[source], decode.start_id, &mut searches)?;
    let found: Vec<Candidate> = searches.into_iter().flat_map(|search| search.found).collect();
    let begin = |candidate: &Candidate| [prefix, &[candidate.id]].concat();
    let prefixes: Vec<Vec<u32>> = found.iter().map(begin).collect();
    let rules = Rules { prefixes, ..decode.rules.clone() };
    let beam_options =
        BeamOptions { decode: DecodeOptions { rules, ..decode.clone() }, ..options.beam.clone() };
    let completed = beam(model, &vec![source; found.len()], &beam_options)?;
    Ok(found
        .into_iter()
        .zip(completed)
        .map(|(Candidate { id, score }, hypotheses)| Alternative { id, log_probability: score, hypotheses })
        .collect())
}

/// Walks along the prefix and looks once.
struct Look<'a> {
    guide: Guide<'a>,
    prefix: &'a [u32],
    n: usize,
    step: usize,
    start_id: u32,
    found: Vec<Candidate>,
}

impl Look<'_> {
    /// The start token and the prefix.
    fn history(&self) -> Vec<u32> {
        [&[self.start_id], self.prefix].concat()
    }
}

impl Search for Look<'_> {
    fn width(&self) -> usize {
        1
    }

    fn is_empty(&self) -> bool {
        self.prefix.len() >= self.guide.limits.max || self.prefix.contains(&self.guide.end_id())
    }

    fn need(&self) -> Need {
        if self.step < self.prefix.len() { Need::Best(0) } else { self.guide.need(&self.history(), self.n) }
    }

    fn advance(&mut self, scores: &Scores<'_>) -> Result<Vec<Next>> {
        if let Some(&token) = self.prefix.get(self.step) {
            self.step += 1;
            return Ok(vec![Next { parent: 0, token }]);
        }
        self.found = self.guide.best(&self.history(), scores, 0, self.n)?;
        Ok(Vec::new())
    }
}
