//! Forced tokens, for a prefix, the first token and the end at the maximum length: the token scores 0, all others −∞. As
//! 0 = log 1, a forced token counts as certain (`ForcedBOSTokenLogitsProcessor`, `ForcedEOSTokenLogitsProcessor`).

use crate::{Error, Result};

/// Scores that allow only `ids`.
pub(super) fn only(ids: &[u32], vocab_size: usize) -> Result<Vec<f32>> {
    let mut scores = vec![f32::NEG_INFINITY; vocab_size];
    for &id in ids {
        let score = scores.get_mut(id as usize).ok_or_else(|| Error::Request {
            message: format!("token {id} is forced, expected an id below the vocabulary size {vocab_size}"),
        })?;
        *score = 0.0;
    }
    Ok(scores)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forced_token_is_certain() {
        assert_eq!(only(&[1], 3).unwrap(), [f32::NEG_INFINITY, 0.0, f32::NEG_INFINITY]);
        assert!(only(&[3], 3).is_err());
    }
}
