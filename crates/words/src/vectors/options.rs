//! Options of training.

use crate::{Error, Result};

/// What is predicted from what.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Architecture {
    /// A word from each word of its context (skip-gram).
    #[default]
    SkipGram,
    /// A word from the mean of its context (continuous bag of words).
    Cbow,
}

impl Architecture {
    /// The learning rate of the first word that suits it, as in word2vec: 0.025; of CBOW, which learns once from a whole context,
    /// 0.05.
    pub fn rate(self) -> f32 {
        match self {
            Self::SkipGram => 0.025,
            Self::Cbow => 0.05,
        }
    }
}

/// How the prediction is scored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// The word against so many random words for each prediction. Default: 5.
    NegativeSampling(usize),
    /// The word's path in a Huffman tree.
    HierarchicalSoftmax,
}

/// Character n-grams of words, as in fastText.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubwordOptions {
    /// Shortest n-gram, in characters. Default: 3.
    pub min_n: usize,
    /// Longest n-gram, in characters. Default: 6.
    pub max_n: usize,
    /// Rows that n-grams are hashed to. Default: 2,000,000.
    pub buckets: usize,
}

impl Default for SubwordOptions {
    fn default() -> Self {
        Self { min_n: 3, max_n: 6, buckets: 2_000_000 }
    }
}

/// Options of training. The defaults are those of word2vec and gensim.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainOptions {
    /// Numbers of a vector. Default: 100.
    pub dimensions: usize,
    /// What is predicted from what. Default: skip-gram.
    pub architecture: Architecture,
    /// How the prediction is scored. Default: 5 negative samples.
    pub loss: Loss,
    /// Widest window, in words on each side; each word draws its own from 1 to this. Default: 5.
    pub window: usize,
    /// Passes over the text. Default: 5.
    pub epochs: usize,
    /// Learning rate of the first word. It falls linearly to [`TrainOptions::MIN_RATE`]. Default: 0.025, which suits skip-gram;
    /// [`Architecture::rate`] has that of CBOW.
    pub rate: f32,
    /// Words above this relative frequency are dropped at random; 0 keeps all. Default: 0.001.
    pub sample: f64,
    /// Character n-grams; `None`: whole words only. Default: `None`.
    pub subwords: Option<SubwordOptions>,
    /// Random seed. Default: 1.
    pub seed: u64,
    /// Threads; the result does not depend on it. Default: 1.
    pub threads: usize,
}

impl Default for TrainOptions {
    fn default() -> Self {
        Self {
            dimensions: 100,
            architecture: Architecture::SkipGram,
            loss: Loss::NegativeSampling(5),
            window: 5,
            epochs: 5,
            rate: Architecture::SkipGram.rate(),
            sample: 1e-3,
            subwords: None,
            seed: 1,
            threads: 1,
        }
    }
}

impl TrainOptions {
    /// Learning rate of the last word.
    pub const MIN_RATE: f32 = 1e-4;

    /// Refuses options that cannot be trained with.
    pub fn check(&self) -> Result<()> {
        let within = |name: &str, found: usize, least: usize, most: usize| {
            if (least..=most).contains(&found) {
                return Ok(());
            }
            Err(Error::request(
                format!("{name} {found}, expected {least} to {most}"),
                format!("use {name} {}", found.clamp(least, most)),
            ))
        };
        within("--dimensions", self.dimensions, 1, 4096)?;
        within("--window", self.window, 1, 64)?;
        within("--epochs", self.epochs, 1, 100_000)?;
        if let Loss::NegativeSampling(negatives) = self.loss {
            within("--negative", negatives, 1, 1000)?;
        }
        if let Some(SubwordOptions { min_n, max_n, buckets }) = self.subwords {
            within("--min-n", min_n, 1, 32)?;
            within("--max-n", max_n, min_n, 32)?;
            within("--buckets", buckets, 1, 1 << 30)?;
        }
        if !(self.rate > 0.0 && self.rate <= 10.0) {
            return Err(Error::request(
                format!("--learning-rate {}, expected more than 0 and at most 10", self.rate),
                "use --learning-rate 0.025",
            ));
        }
        if !(0.0..=1.0).contains(&self.sample) {
            return Err(Error::request(
                format!("--sample {}, expected 0 to 1", self.sample),
                "use --sample 0.001; 0 keeps every word",
            ));
        }
        Ok(())
    }
}
