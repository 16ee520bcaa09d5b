//! The k best tokens of each row of logits, by log-probability x − ln Σ eˣ: all that most searches need of a
//! vocabulary.

use rayon::prelude::*;

use super::softmax::log_softmax_rows;
use crate::Result;
use crate::tensor::Tensor;

/// A token and its score.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Candidate {
    /// The token.
    pub id: u32,
    /// The score it is ranked by.
    pub score: f32,
}

/// Returns the `k` best tokens of each row of `logits`, … × vocabulary, with their log-probabilities; best first, the
/// smaller id first among equals. Tokens at −∞ are never chosen, so there may be fewer.
///
/// # Errors
/// If the device fails.
pub fn best_tokens(logits: &Tensor, k: usize) -> Result<Vec<Vec<Candidate>>> {
    on_gpu!(logits => {
        if k <= crate::cuda::ops::best_tokens::MAX_K {
            return crate::cuda::ops::best_tokens::best_tokens(logits, k);
        }
        best_tokens(&logits.to_host()?, k)
    });
    let [_, width] = logits.rows();
    let best = |logits: &[f32]| {
        if k == 0 {
            return Vec::new();
        }
        let mut scores = Tensor::uninit(&[width]);
        log_softmax_rows(scores.data_mut(), logits, width);
        top(scores.data(), k)
    };
    Ok(logits.data().par_chunks_exact(width.max(1)).map(best).collect())
}

/// Returns the `k` highest scores, best first, the smaller id first among equals. Tokens at −∞ are never chosen.
pub fn top(scores: &[f32], k: usize) -> Vec<Candidate> {
    let mut best: Vec<Candidate> = Vec::with_capacity(k.min(scores.len()) + 1);
    let mut bar = f32::NEG_INFINITY;
    if k == 0 {
        return best;
    }
    for (block, first) in scores.chunks(BLOCK).zip((0..).step_by(BLOCK)) {
        // Most blocks have no candidate, which one comparison of the block shows.
        if !any_above(block, bar) {
            continue;
        }
        for (&score, id) in block.iter().zip(first..) {
            if score > bar {
                let rank = best.partition_point(|other| other.score >= score);
                best.insert(rank, Candidate { id, score });
                best.truncate(k);
                if best.len() == k {
                    bar = best[k - 1].score;
                }
            }
        }
    }
    best
}

/// Scores that are compared together.
const BLOCK: usize = 64;

/// True if a score is above `bar`; the loop has no early exit, so that it compiles to vector code.
fn any_above(scores: &[f32], bar: f32) -> bool {
    scores.iter().filter(|&&score| score > bar).count() > 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn top_is_the_head_of_a_stable_sort(scores in prop::collection::vec(-4_i8..4, 0..40), k in 0_usize..12) {
            let scores: Vec<f32> =
                scores.iter().map(|&x| if x == -4 { f32::NEG_INFINITY } else { f32::from(x) }).collect();
            let mut all: Vec<Candidate> = scores
                .iter()
                .zip(0..)
                .map(|(&score, id)| Candidate { id, score })
                .filter(|candidate| candidate.score > f32::NEG_INFINITY)
                .collect();
            all.sort_by(|a, b| b.score.total_cmp(&a.score));
            all.truncate(k);
            prop_assert_eq!(top(&scores, k), all);
        }
    }
}
