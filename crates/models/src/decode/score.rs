//! Scoring: the log-probabilities of given translations, token by token: log p(y_t | y_1 … y_{t−1}, x).
//!
//! The tokens are stepped through as in a search, so the score of a greedy translation equals that of greedy decoding to
//! the bit.

use super::NextToken;
use super::rows::{NextRow, Scores, Search, run};
use crate::{Error, Result};

/// The log-probability of each token of `targets[i]`, given `sources[i]`. Include the end token if it is to be scored.
///
/// # Errors
/// If the numbers of targets and sources differ, or a token is outside the vocabulary.
pub fn score<M: NextToken>(
    model: &M,
    sources: &[&[u32]],
    targets: &[&[u32]],
    start_id: u32,
) -> Result<Vec<Vec<f32>>> {
    if sources.len() != targets.len() {
        let message = format!("{} targets for {} sources, expected one each", targets.len(), sources.len());
        return Err(Error::Request { message });
    }
    let mut searches: Vec<ForcedSearch<'_>> =
        targets.iter().map(|target| ForcedSearch { target, log_probabilities: Vec::new() }).collect();
    run(model, sources, start_id, &mut searches)?;
    Ok(searches.into_iter().map(|search| search.log_probabilities).collect())
}

struct ForcedSearch<'a> {
    target: &'a [u32],
    log_probabilities: Vec<f32>,
}

impl Search for ForcedSearch<'_> {
    fn width(&self) -> usize {
        1
    }

    fn is_empty(&self) -> bool {
        self.target.is_empty()
    }

    fn advance(&mut self, scores: &Scores<'_>) -> Result<Vec<NextRow>> {
        let id = self.target[self.log_probabilities.len()];
        let all = scores.log_probabilities(0);
        let message =
            || format!("token {id} in a target, expected ids below the vocabulary size {}", all.len());
        let own = all.get(id as usize).ok_or_else(|| Error::Request { message: message() })?;
        self.log_probabilities.push(*own);
        let is_last = self.log_probabilities.len() == self.target.len();
        Ok(if is_last { Vec::new() } else { vec![NextRow { parent: 0, token: id }] })
    }
}
