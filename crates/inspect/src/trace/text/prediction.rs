//! The distribution of the next token: p(x_{t+1} | x_0 … x_t), its entropy, its most probable tokens, and the token that follows.
//!
//! Surprisal is −log₂ p in bits; rank 1 is the most probable token.

use std::ops::Range;

use polyhead_attention::Pass;
use polyhead_tensor::ops::best_tokens::{Candidate, top};
use polyhead_tensor::ops::softmax::log_softmax;
use polyhead_tensor::{Tape, Tensor, Var};

use super::labels::PieceLabels;
use super::{TextCallback, TextProgress, check, rows_of};
use crate::Result;

/// Positions whose logits are computed at once: more would take memory, not save time.
const ROWS: usize = 32;

/// The distribution after a token.
#[derive(Debug, Clone, PartialEq)]
pub struct Prediction {
    /// Entropy in bits.
    pub entropy: f64,
    /// The most probable tokens, best first.
    pub alternatives: Vec<PredictedToken>,
    /// The token that follows in the text; `None` after the last.
    pub following: Option<Following>,
}

/// A token that may come next.
#[derive(Debug, Clone, PartialEq)]
pub struct PredictedToken {
    /// Token id.
    pub id: u32,
    /// Vocabulary entry.
    pub piece: String,
    /// Readable label.
    pub label: String,
    /// Log-probability.
    pub log_probability: f32,
}

/// The token that follows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Following {
    /// Its log-probability.
    pub log_probability: f32,
    /// Its rank among all tokens; 1 is the most probable. Of equally probable tokens the one with the smaller id comes first.
    pub rank: usize,
}

impl Following {
    /// Surprisal in bits.
    pub fn surprisal(&self) -> f64 {
        -f64::from(self.log_probability) / std::f64::consts::LN_2
    }
}

/// Logits of some positions, by position.
pub(super) type LogitRows = Vec<(usize, Vec<f32>)>;

/// What reads distributions off the states of a pass.
pub(in crate::trace) struct Readout<'a> {
    pub(in crate::trace) pass: Pass<'a>,
    pub(in crate::trace) labels: &'a PieceLabels<'a>,
    pub(in crate::trace) n_alternatives: usize,
    pub(in crate::trace) progress: TextCallback<'a>,
}

impl Readout<'_> {
    /// The distributions after all tokens of a text, and the logits at the `kept` positions.
    pub(super) fn predictions(
        &self,
        states: &Tensor,
        ids: &[u32],
        kept: &[usize],
        logits: impl Fn(&Var) -> Result<Var>,
    ) -> Result<(Vec<Prediction>, LogitRows)> {
        let mut rows = Vec::new();
        let found = self.of_rows(states, 0..ids.len(), ids, logits, |position, logits| {
            if kept.contains(&position) {
                rows.push((position, logits.to_vec()));
            }
        })?;
        Ok((found, rows))
    }

    /// The logits at some positions.
    pub(super) fn logits(
        &self,
        states: &Tensor,
        positions: &[usize],
        logits: impl Fn(&Var) -> Result<Var>,
    ) -> Result<LogitRows> {
        let mut rows = Vec::new();
        for &position in positions {
            let keep = |position, logits: &[f32]| rows.push((position, logits.to_vec()));
            self.of_rows(states, position..position + 1, &[], &logits, keep)?;
        }
        Ok(rows)
    }

    /// The distributions at some positions of a text; `seen` receives the logits of each.
    pub(in crate::trace) fn of_rows(
        &self,
        states: &Tensor,
        positions: Range<usize>,
        ids: &[u32],
        logits: impl Fn(&Var) -> Result<Var>,
        mut seen: impl FnMut(usize, &[f32]),
    ) -> Result<Vec<Prediction>> {
        let states = states.to_host().map_err(polyhead_models::Error::from)?;
        let device = self.pass.parameters.device();
        let mut found = Vec::with_capacity(positions.len());
        for start in positions.clone().step_by(ROWS) {
            check(self.progress, TextProgress::Working)?;
            let rows = start..(start + ROWS).min(positions.end);
            let part = rows_of(&states, rows.clone()).to_device(&device);
            let part = Var::constant(part.map_err(polyhead_models::Error::from)?);
            let logits = logits(&part)?;
            let logits = logits.value().to_host().map_err(polyhead_models::Error::from)?;
            for (position, row) in rows.zip(logits.data().chunks_exact(logits.shape()[1])) {
                seen(position, row);
                found.push(self.prediction(row, ids.get(position + 1).copied()));
            }
        }
        Ok(found)
    }

    fn prediction(&self, logits: &[f32], following: Option<u32>) -> Prediction {
        let row = Var::constant(Tensor::new(&[1, logits.len()], logits.to_vec()));
        let all = log_softmax(&Tape::inference(), &row);
        let all = all.value().data();
        let candidate = |Candidate { id, score }| PredictedToken {
            id,
            piece: self.labels.piece(id),
            label: self.labels.label(id),
            log_probability: score,
        };
        let bits = |&log: &f32| match f64::from(log) {
            log if log == f64::NEG_INFINITY => 0.0,
            log => -log.exp() * log / std::f64::consts::LN_2,
        };
        Prediction {
            // −0 would be printed with its sign.
            entropy: all.iter().map(bits).sum::<f64>().max(0.0),
            alternatives: top(all, self.n_alternatives).into_iter().map(candidate).collect(),
            following: following
                .map(|id| Following { log_probability: all[id as usize], rank: rank(all, id as usize) }),
        }
    }
}

/// The rank of an entry, 1 for the largest.
fn rank(all: &[f32], index: usize) -> usize {
    let own = all[index];
    let is_before = |(place, other): (usize, &f32)| *other > own || (*other == own && place < index);
    1 + all.iter().enumerate().filter(|found| is_before(*found)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_distinct_and_in_the_order_of_the_best_tokens() {
        let all = [0.1, 0.5, 0.5, -1.0];
        assert_eq!([0, 1, 2, 3].map(|index| rank(&all, index)), [3, 1, 2, 4]);
        let best: Vec<u32> = top(&all, 4).into_iter().map(|found| found.id).collect();
        assert_eq!(best, [1, 2, 0, 3]);
    }

    #[test]
    fn surprisal_is_in_bits() {
        let half = Following { log_probability: 0.5_f32.ln(), rank: 1 };
        assert!((half.surprisal() - 1.0).abs() < 1e-6);
    }
}
