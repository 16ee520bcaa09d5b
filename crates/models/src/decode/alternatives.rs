//! Alternatives at a position: the k most probable tokens after a given prefix, each with its best completions.
//!
//! argmax_k p(y | prefix, x), then a beam search with the forced prefix (prefix, y).

use polyhead_tensor::ops::best_tokens::Candidate;

use super::beam::{BeamOptions, beam};
use super::rows::{NextRow, RequiredScores, Scores, Search, run};
use super::rules::{AtLimit, Rules, SentenceRules};
use super::{DecodeOptions, Hypothesis, NextToken};
use crate::Result;

/// The number of alternatives and the search that completes each.
#[derive(Debug, Clone, PartialEq)]
pub struct AlternativesOptions {
    /// Number of tokens, k; default: 5.
    pub n: usize,
    /// The beam search that completes each; default: a beam of 4. A beam of 1 is greedy decoding. Its prefixes are not
    /// used.
    pub beam: BeamOptions,
}

impl Default for AlternativesOptions {
    fn default() -> Self {
        Self { n: 5, beam: BeamOptions::default() }
    }
}

/// An alternative next token.
#[derive(Debug, Clone, PartialEq)]
pub struct Alternative {
    /// The token.
    pub id: u32,
    /// Its log-probability after the prefix, under the rules.
    pub log_probability: f32,
    /// The best translations that begin with the prefix and this token, best first.
    pub hypotheses: Vec<Hypothesis>,
}

/// The most probable tokens after `prefix`, best first; none if the prefix contains the end token.
///
/// # Errors
/// If the source or the prefix is invalid, or the options are.
pub fn alternatives<M: NextToken>(
    model: &M,
    source: &[u32],
    prefix: &[u32],
    options: &AlternativesOptions,
) -> Result<Vec<Alternative>> {
    let decode = &options.beam.decode;
    let rules = Rules { prefixes: Vec::new(), ..decode.rules.clone() };
    let without_prefix = DecodeOptions { rules, ..decode.clone() };
    let mut searches: Vec<PrefixSearch<'_>> = SentenceRules::all(&without_prefix, &[source])?
        .into_iter()
        .map(|rules| PrefixSearch {
            rules,
            prefix,
            n: options.n,
            step: 0,
            start_id: decode.start_id,
            found: Vec::new(),
        })
        .collect();
    run(model, &[source], decode.start_id, &mut searches)?;
    let found: Vec<Candidate> = searches.into_iter().flat_map(|search| search.found).collect();
    let is_end = |id| id == decode.end_id || decode.rules.other_end_ids.contains(&id);
    let completed = |ends: bool| {
        let chosen = found.iter().filter(|candidate| is_end(candidate.id) == ends);
        let begin = |candidate: &Candidate| [prefix, &[candidate.id]].concat();
        let prefixes: Vec<Vec<u32>> = chosen.map(begin).collect();
        let n_rows = prefixes.len();
        let mut decode = decode.clone();
        decode.rules.prefixes = prefixes;
        if ends {
            // Tokens of a prefix do not end a sequence, its length does.
            decode.lengths.max = prefix.len() + 1;
            decode.rules.at_limit = AtLimit::Cut;
        }
        beam(model, &vec![source; n_rows], &BeamOptions { decode, ..options.beam.clone() })
    };
    let (mut ended, mut open) = (completed(true)?.into_iter(), completed(false)?.into_iter());
    let alternative = |&Candidate { id, score }: &Candidate| {
        let hypotheses = if is_end(id) { ended.next() } else { open.next() };
        Alternative { id, log_probability: score, hypotheses: hypotheses.unwrap_or_default() }
    };
    Ok(found.iter().map(alternative).collect())
}

/// Steps through the prefix and collects the best tokens after it.
struct PrefixSearch<'a> {
    rules: SentenceRules<'a>,
    prefix: &'a [u32],
    n: usize,
    step: usize,
    start_id: u32,
    found: Vec<Candidate>,
}

impl PrefixSearch<'_> {
    /// The start token and the prefix.
    fn history(&self) -> Vec<u32> {
        [&[self.start_id], self.prefix].concat()
    }
}

impl Search for PrefixSearch<'_> {
    fn width(&self) -> usize {
        1
    }

    fn is_empty(&self) -> bool {
        self.prefix.len() >= self.rules.limits.max || self.prefix.iter().any(|&id| self.rules.is_end(id))
    }

    fn required_scores(&self) -> RequiredScores {
        if self.step < self.prefix.len() {
            RequiredScores::Top(0)
        } else {
            self.rules.required_scores(&self.history(), self.n)
        }
    }

    fn advance(&mut self, scores: &Scores<'_>) -> Result<Vec<NextRow>> {
        if let Some(&token) = self.prefix.get(self.step) {
            self.step += 1;
            return Ok(vec![NextRow { parent: 0, token }]);
        }
        self.found = self.rules.best(&self.history(), scores, 0, self.n)?;
        Ok(Vec::new())
    }
}
