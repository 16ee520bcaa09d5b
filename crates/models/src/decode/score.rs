//! The log-probabilities of given translations, token by token: log p(y_t | y_1 … y_{t−1}, x).
//!
//! The tokens are stepped through as a search would have chosen them, so the sum of a greedy translation has the bits
//! that greedy decoding gave it.

use super::NextToken;
use super::rows::{Next, Scores, Search, run};
use crate::{Error, Result};

/// The log-probability of each token of `targets[i]`, given `sources[i]`. Write the end token if it shall count.
///
/// # Errors
/// If there are more or fewer targets than sources, or a token is outside the vocabulary.
pub fn score<M: NextToken>(
    model: &M,
    sources: &[&[u32]],
    targets: &[&[u32]],
    start_id: u32,
) -> Result<Vec<Vec<f32>>> {
    if sources.len() != targets.len() {
        let message = format!("{} targets for {} sources", targets.len(), sources.len());
        return Err(Error::Request { message });
    }
    let mut searches: Vec<Given<'_>> =
        targets.iter().map(|target| Given { target, log_probabilities: Vec::new() }).collect();
    run(model, sources, start_id, &mut searches)?;
    Ok(searches.into_iter().map(|search| search.log_probabilities).collect())
}

struct Given<'a> {
    target: &'a [u32],
    log_probabilities: Vec<f32>,
}

impl Search for Given<'_> {
    fn width(&self) -> usize {
        1
    }

    fn is_empty(&self) -> bool {
        self.target.is_empty()
    }

    fn advance(&mut self, scores: &Scores<'_>) -> Result<Vec<Next>> {
        let id = self.target[self.log_probabilities.len()];
        let all = scores.log_probabilities(0);
        let message = || format!("token {id} in a target, but the vocabulary has {} tokens", all.len());
        let own = all.get(id as usize).ok_or_else(|| Error::Request { message: message() })?;
        self.log_probabilities.push(*own);
        let is_last = self.log_probabilities.len() == self.target.len();
        Ok(if is_last { Vec::new() } else { vec![Next { parent: 0, token: id }] })
    }
}
