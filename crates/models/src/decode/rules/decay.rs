//! Decay of long sequences: from a length on, the score s of each end token becomes s + |s|·(factor^k − 1) after k more
//! tokens (`ExponentialDecayLengthPenalty`).

/// Raises the scores of end tokens with the length.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EndDecay {
    /// Number of tokens after the prefix from which scores rise.
    pub start: usize,
    /// The factor; above 1 it ends sequences earlier.
    pub factor: f64,
}

impl EndDecay {
    /// Raises the scores after `length` tokens; forbidden ones stay forbidden.
    pub(super) fn apply(self, length: usize, end_ids: impl Iterator<Item = u32>, scores: &mut [f32]) {
        let excess = length.saturating_sub(self.start);
        if excess == 0 {
            return;
        }
        let power = polyhead_tensor::elementary::power(self.factor, excess as f64);
        for id in end_ids {
            if let Some(score) = scores.get_mut(id as usize).filter(|score| score.is_finite()) {
                *score += score.abs() * (power - 1.0) as f32;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn end_tokens_gain_from_the_start_on() {
        let scores = |length| {
            let mut scores = [-4.0, 2.0, -1.0, f32::NEG_INFINITY];
            EndDecay { start: 2, factor: 2.0 }.apply(length, [0, 1, 3].into_iter(), &mut scores);
            scores
        };
        assert_eq!(scores(2), [-4.0, 2.0, -1.0, f32::NEG_INFINITY]);
        assert_eq!(scores(3), [0.0, 4.0, -1.0, f32::NEG_INFINITY]);
        assert_eq!(scores(4), [8.0, 8.0, -1.0, f32::NEG_INFINITY]);
    }
}
