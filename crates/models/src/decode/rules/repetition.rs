//! The repetition penalty of CTRL (Keskar et al. 2019, section 4.1): the score s of a token in the history becomes s / θ if
//! it is positive and s · θ if it is negative (`RepetitionPenaltyLogitsProcessor`).
//!
//! The paper divides logits. On log-probabilities, as in beam search, every score is negative.

/// Penalises each token of `history` once; nothing if `penalty` is 1.
pub(super) fn apply(penalty: f32, history: &[u32], scores: &mut [f32]) {
    if penalty == 1.0 {
        return;
    }
    let mut is_done = vec![false; scores.len()];
    for &id in history {
        let (Some(score), Some(is_done)) = (scores.get_mut(id as usize), is_done.get_mut(id as usize)) else {
            continue;
        };
        if !std::mem::replace(is_done, true) {
            *score = if *score < 0.0 { *score * penalty } else { *score / penalty };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_of_the_history_are_penalised_once() {
        let mut scores = [3.0, -1.0, 2.0, -4.0];
        apply(2.0, &[2, 1, 2, 9], &mut scores);
        assert_eq!(scores, [3.0, -2.0, 1.0, -4.0]);
    }
}
