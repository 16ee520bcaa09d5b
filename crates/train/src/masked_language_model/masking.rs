//! Hidden tokens (Devlin et al. 2019, section 3.1): of the tokens of a row, a share is predicted; of these, most are replaced by
//! the mask token and some by a random one, so that the states of other tokens are learned too.
//!
//! All choices are a pure function of (seed, epoch, row, position).

use polyhead_random::Random;
use polyhead_text::tokenizer::Tokenizer;

use crate::config::MaskingConfig;
use crate::vocabulary::Vocabulary;
use crate::{Error, Result};

/// Random stream of the masks.
const STREAM: u64 = 0x4D_41_53_4B;
/// First index of the numbers that decide what replaces a token.
const KIND: u64 = 1 << 32;
/// First index of the numbers that choose a random token.
const TOKEN: u64 = 2 << 32;

/// The choice of hidden tokens.
#[derive(Debug, Clone)]
pub(super) struct Masking {
    config: MaskingConfig,
    mask_id: u32,
    /// Ids that may replace a token: all but special tokens.
    plain: Vec<u32>,
}

/// A hidden token of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hidden {
    /// Its position in the text of the row.
    pub(super) position: usize,
    /// The id that the model reads there.
    pub(super) shown: u32,
    /// The id that it predicts.
    pub(super) word: u32,
}

impl Masking {
    pub(super) fn new(config: MaskingConfig, vocabulary: &Vocabulary) -> Result<Self> {
        let mask_id = vocabulary.mask_id()?;
        let tokenizer = vocabulary.source();
        let special: Vec<u32> = match tokenizer {
            Tokenizer::HuggingFace(own) => own.special_tokens().into_iter().map(|(id, _)| id).collect(),
            _ => Vec::new(),
        };
        let [size, _] = vocabulary.sizes();
        let is_plain = |id: &u32| !special.contains(id) && tokenizer.piece(*id).is_some();
        let plain: Vec<u32> = (0..size as u32).filter(is_plain).collect();
        if plain.is_empty() {
            let message = "a tokeniser of special tokens alone, expected tokens of text";
            return Err(Error::config("tokenizer", message, "leave tokenizer.file out"));
        }
        Ok(Self { config, mask_id, plain })
    }

    /// Number of hidden tokens of a row of `length` tokens: at least one, unless it is empty.
    pub(super) fn count(&self, length: usize) -> usize {
        ((self.config.probability * length as f64).round() as usize).max(1).min(length)
    }

    /// The hidden tokens of a row, in order.
    pub(super) fn hidden(&self, tokens: &[u32], random: RowRandom) -> Vec<Hidden> {
        let RowRandom(random) = random;
        let mut order: Vec<(u64, usize)> =
            (0..tokens.len()).map(|position| (random.u64(position as u64), position)).collect();
        order.sort_unstable();
        order.truncate(self.count(tokens.len()));
        let mut positions: Vec<usize> = order.into_iter().map(|(_, position)| position).collect();
        positions.sort_unstable();
        let hide = |position: usize| {
            let word = tokens[position];
            let kind = random.uniform(KIND + position as u64);
            let shown = if kind < self.config.mask {
                self.mask_id
            } else if kind < self.config.mask + self.config.random {
                self.plain[random.below(self.plain.len(), TOKEN + position as u64)]
            } else {
                word
            };
            Hidden { position, shown, word }
        };
        positions.into_iter().map(hide).collect()
    }
}

/// The random numbers of a row.
#[derive(Debug, Clone, Copy)]
pub(super) struct RowRandom(Random);

impl RowRandom {
    /// Those of a row in an epoch.
    pub(super) fn new(seed: u64, epoch: u64, row: u32) -> Self {
        let epoch = Random::new(seed).stream(STREAM).u64(epoch);
        Self(Random::new(epoch).stream(u64::from(row)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masking(probability: f64) -> Masking {
        let config = MaskingConfig { probability, ..MaskingConfig::default() };
        Masking { config, mask_id: 4, plain: (5..1000).collect() }
    }

    #[test]
    fn shares_are_those_of_the_config() {
        let tokens: Vec<u32> = (0..200).map(|index| 5 + index % 90).collect();
        let masking = masking(0.15);
        let mut counts = [0; 3];
        for row in 0..500 {
            let hidden = masking.hidden(&tokens, RowRandom::new(1, 0, row));
            assert_eq!(hidden.len(), 30);
            assert!(hidden.windows(2).all(|pair| pair[0].position < pair[1].position));
            for Hidden { position, shown, word } in hidden {
                assert_eq!(word, tokens[position]);
                counts[if shown == 4 { 0 } else { 1 + usize::from(shown == word) }] += 1;
            }
        }
        let shares = counts.map(|count| f64::from(count) / 15_000.0);
        for (share, expected) in shares.into_iter().zip([0.8, 0.1, 0.1]) {
            assert!((share - expected).abs() < 0.01, "{shares:?}");
        }
    }

    #[test]
    fn rows_epochs_and_seeds_differ_and_repeat() {
        let tokens: Vec<u32> = (5..105).collect();
        let of = |seed, epoch, row| masking(0.15).hidden(&tokens, RowRandom::new(seed, epoch, row));
        assert_eq!(of(1, 2, 3), of(1, 2, 3));
        assert!([(2, 2, 3), (1, 3, 3), (1, 2, 4)].iter().all(|&(s, e, r)| of(s, e, r) != of(1, 2, 3)));
    }

    #[test]
    fn every_position_is_hidden_equally_often() {
        let tokens = [5; 20];
        let mut counts = [0; 20];
        for row in 0..4000 {
            for hidden in masking(0.25).hidden(&tokens, RowRandom::new(3, 1, row)) {
                counts[hidden.position] += 1;
            }
        }
        assert!(counts.iter().all(|count| (900..1100).contains(count)), "{counts:?}");
        // A short row has a hidden token too, an empty one none.
        assert_eq!([0, 1, 2, 7].map(|length| masking(0.15).count(length)), [0, 1, 1, 1]);
    }
}
