//! Word vectors in memory, with the n-gram vectors of models that have them.

use std::borrow::Cow;

use polyhead_text::spelling;

use super::{SubwordOptions, Vocabulary, subword};
use crate::{Error, Result};

/// Vectors of a vocabulary, row by row.
#[derive(Debug, Clone)]
pub struct WordVectors {
    vocabulary: Vocabulary,
    dimensions: usize,
    numbers: Vec<f32>,
    subwords: Option<Subwords>,
}

/// Vectors of character n-grams, and what fastText's files hold besides.
#[derive(Debug, Clone)]
pub struct Subwords {
    /// Which n-grams.
    pub options: SubwordOptions,
    /// Rows of the words themselves, without their n-grams.
    pub words: Vec<f32>,
    /// Rows of the buckets.
    pub buckets: Vec<f32>,
    /// Rows of the output side, one for each word.
    pub outputs: Vec<f32>,
}

impl WordVectors {
    /// Vectors as rows of `numbers`, one for each word.
    pub fn new(vocabulary: Vocabulary, dimensions: usize, numbers: Vec<f32>) -> Self {
        assert_eq!(numbers.len(), vocabulary.len() * dimensions, "one row for each word");
        Self { vocabulary, dimensions, numbers, subwords: None }
    }

    /// Vectors that are means of a word's own row and those of its n-grams.
    pub fn with_subwords(vocabulary: Vocabulary, dimensions: usize, subwords: Subwords) -> Self {
        assert_eq!(subwords.words.len(), vocabulary.len() * dimensions, "one row for each word");
        let mut numbers = Vec::with_capacity(subwords.words.len());
        for (word, own) in vocabulary.words().iter().zip(subwords.words.chunks_exact(dimensions.max(1))) {
            numbers.extend(subwords.mean(word, Some(own), dimensions).unwrap_or_else(|| own.to_vec()));
        }
        Self { vocabulary, dimensions, numbers, subwords: Some(subwords) }
    }

    /// One-hot vectors: the baseline in which no two words are similar.
    pub fn one_hot(vocabulary: Vocabulary) -> Self {
        let n = vocabulary.len();
        let numbers = (0..n * n).map(|at| f32::from(u8::from(at / n == at % n))).collect();
        Self::new(vocabulary, n, numbers)
    }

    /// The words.
    pub fn vocabulary(&self) -> &Vocabulary {
        &self.vocabulary
    }

    /// Number of words.
    pub fn len(&self) -> usize {
        self.vocabulary.len()
    }

    /// True if there is no word.
    pub fn is_empty(&self) -> bool {
        self.vocabulary.is_empty()
    }

    /// Numbers of a vector.
    pub fn dimensions(&self) -> usize {
        self.dimensions
    }

    /// The vector with this id.
    pub fn row(&self, id: u32) -> &[f32] {
        &self.numbers[id as usize * self.dimensions..][..self.dimensions]
    }

    /// All vectors, row by row.
    pub fn numbers(&self) -> &[f32] {
        &self.numbers
    }

    /// Vectors of n-grams, where the model has them.
    pub fn subwords(&self) -> Option<&Subwords> {
        self.subwords.as_ref()
    }

    /// The id of `word`, or of its lower case.
    pub fn id(&self, word: &str) -> Option<u32> {
        self.vocabulary.id(word).or_else(|| self.vocabulary.id(&word.to_lowercase()))
    }

    /// The vector of `word`, or of its lower case; of an unknown word, the mean of its n-grams where the model has them.
    pub fn vector(&self, word: &str) -> Option<Cow<'_, [f32]>> {
        if let Some(id) = self.id(word) {
            return Some(Cow::Borrowed(self.row(id)));
        }
        self.subwords.as_ref()?.mean(word, None, self.dimensions).map(Cow::Owned)
    }

    /// The vector of `word`.
    ///
    /// # Errors
    /// If the word is unknown; the hint names the word with the nearest spelling.
    pub fn require(&self, word: &str) -> Result<Cow<'_, [f32]>> {
        self.vector(word).ok_or_else(|| {
            let known = self.vocabulary.words().iter().map(String::as_str);
            let hint = match spelling::nearest(&word.to_lowercase(), known) {
                Some(nearest) => format!(
                    "did you mean {nearest:?}? vectors with character n-grams (vectors train --subwords) have one for \
                     every word"
                ),
                None => "the file has no words".to_owned(),
            };
            Error::request(format!("unknown word {word:?}, expected one of {} words", self.len()), hint)
        })
    }

    /// The mean vector of the known words of a text, and how many they are; zeros if there are none.
    pub fn mean<'a>(&self, words: impl IntoIterator<Item = &'a str>) -> (Vec<f32>, usize) {
        let mut sum = vec![0.0_f64; self.dimensions];
        let mut n_known = 0;
        for vector in words.into_iter().filter_map(|word| self.vector(word)) {
            sum.iter_mut().zip(vector.iter()).for_each(|(sum, x)| *sum += f64::from(*x));
            n_known += 1;
        }
        (sum.iter().map(|sum| (sum / f64::from(n_known.max(1))) as f32).collect(), n_known as usize)
    }
}

impl Subwords {
    /// Mean of the rows of a word's n-grams and of its `own` row; `None` if there is nothing to average.
    fn mean(&self, word: &str, own: Option<&[f32]>, dimensions: usize) -> Option<Vec<f32>> {
        let mut sum = own.map_or_else(|| vec![0.0; dimensions], <[f32]>::to_vec);
        let mut n = f32::from(u8::from(own.is_some()));
        // fastText's end of sentence has no n-grams.
        if word != "</s>" {
            subword::buckets(word, &self.options, |bucket| {
                let row = &self.buckets[bucket as usize * dimensions..][..dimensions];
                sum.iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
                n += 1.0;
            });
        }
        for sum in &mut sum {
            *sum *= 1.0 / n.max(1.0);
        }
        (n > 0.0).then_some(sum)
    }
}
